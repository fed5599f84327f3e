/*
 * tables.js - tables, terms with what they are, and lists that are too long to be shown at once.
 */
import {h} from './dom.js';
import {number} from './format.js';
import * as dialogs from './dialogs.js';
import {get} from './server.js';

/*
 * A table. A column is [title, what a row has in it, classes]: 'n' numbers, which stand at the right;
 * 'wide' not where there is little room; 'name', 'wrap', 'mono', 'state' as in style.css; 'do' the buttons of a row.
 * options: class, key (row → what stays the same), row (row → class). On a telephone a row is a few lines, and a cell
 * says itself what it is (data-title).
 */
export function table(columns, rows, options = {}) {
    const header = ([title, , style = '']) => title
        ? h('th', {scope: 'col', class: style.split(' ').filter((one) => ['n', 'wide'].includes(one)).join(' ')}, title)
        : h('td', {class: 'head'});
    return h('div', {class: 'scroll'}, h('table', {class: options.class || 'rows'},
        h('thead', {}, h('tr', {}, columns.map(header))),
        h('tbody', {}, rows.map((row, i) => h('tr', {key: options.key ? options.key(row) : i, class: options.row && options.row(row)},
            columns.map(([title, of, style]) => h('td', {class: style, 'data-title': title}, of(row))))))));
}

/* Terms and what they are, beside each other; style 'facts' in two columns where there is room. */
export function facts(list, style = 'facts') {
    return h('dl', {class: style}, list.filter(Boolean).map(([term, ...value]) => [h('dt', {}, term), h('dd', {}, value)]));
}

/* ---- Long lists -------------------------------------------------------------------------------- */

/* The first items of a list of the API. What a reader has made longer stays as it is, although the
 * page reads it again and again. */
export async function readList(page, path, before) {
    if (before && before.path === path && before.long) {
        return before;
    }
    const {items, next} = await get(page.namespace, path);
    return {path, items, next, long: false};
}

/* Reads on; cursor is the parameter that takes what `next` was. */
export async function readMore(page, list, cursor = 'after') {
    const {items, next} = await get(page.namespace, `${list.path}&${cursor}=${encodeURIComponent(list.next)}`);
    list.items = [...list.items, ...items];
    list.next = next;
    list.long = true;
    page.redraw();
}

export function moreButton(page, list) {
    return list.next !== null && h('p', {class: 'pager'},
        h('button', {on: {click: () => dialogs.act(() => readMore(page, list))}}, 'More'),
        `${number(list.items.length)} are shown.`);
}

/* Of a list that is here the first ones, and a button for the others; name tells this list from others of the page. Of
 * `total` there may be more than are here. */
export function firstOf(page, name, items, count, total) {
    const all = page.local[name] || items.length <= count;
    const shown = all ? items : items.slice(0, count);
    return [shown, shown.length < total && h('p', {class: 'pager'},
        !all && h('button', {on: {click: () => { page.local[name] = true; page.redraw(); }}}, 'More'),
        `${number(shown.length)} of ${number(total)} are shown.`)];
}

/* Buttons to go through pages of which the total is known. */
export function pager(from, count, total, size, go) {
    return total > count && h('p', {class: 'pager'},
        h('button', {disabled: from === 0, on: {click: () => go(Math.max(0, from - size))}}, 'Before'),
        `${number(from + 1)} to ${number(from + count)} of ${number(total)}`,
        h('button', {disabled: from + count >= total, on: {click: () => go(from + size)}}, 'Next'));
}
