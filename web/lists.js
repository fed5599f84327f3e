/*
 * lists.js - lists that are too long to be shown at once.
 */
import {h} from './dom.js';
import {number} from './format.js';
import * as dialogs from './dialogs.js';
import {get} from './server.js';

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

/* Buttons to go through pages of which the total is known. */
export function pager(from, count, total, size, go) {
    return total > count && h('p', {class: 'pager'},
        h('button', {disabled: from === 0, on: {click: () => go(Math.max(0, from - size))}}, 'Before'),
        `${number(from + 1)} to ${number(from + count)} of ${number(total)}`,
        h('button', {disabled: from + count >= total, on: {click: () => go(from + size)}}, 'Next'));
}
