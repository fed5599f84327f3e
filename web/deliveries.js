/*
 * deliveries.js - the deliveries of a subscription that are not over: who has which events in hand, what waits for its
 * next attempt, what is held behind that.
 */
import {h} from './dom.js';
import {age, DASH, figure, inert, now, number, plural, time, word} from './format.js';
import {get} from './server.js';
import {firstOf, table} from './tables.js';

const RUNNING_SHOWN = 10;
const PAGE = 10;

const eventLink = (page, one) => [one.event_id
    ? h('a', {href: page.link('event', one.event_id)}, word(one.type)) : h('span', {class: 'soft'}, 'no longer in the log'),
h('span', {class: 'why'}, `position\u00a0${number(one.position)}`)];
const keyOf = (one) => one.key === null ? DASH : h('span', {class: 'more'}, word(one.key));

/* ---- In hand ----------------------------------------------------------------------------------- */

/* A node without a name of its own is called HOST:PID. */
function whoHas(one) {
    const place = one.host === null ? '' : `${one.host}:${one.pid}`;
    return [word(one.node), place && place !== one.node && h('span', {class: 'why'}, `process ${one.pid} on `, word(one.host))];
}

/* The events that handlers of an ordered subscription have; `total` may be more than are listed. */
export function runningTable(page, running, total) {
    const [shown, more] = firstOf(page, 'allRunning', running, RUNNING_SHOWN, total);
    return h('section', {}, h('h2', {}, 'In hand'), table([
        ['Event', (one) => eventLink(page, one), 'wrap'],
        ['Key', keyOf, 'mono wrap'],
        ['Who', whoHas, 'mono'],
        ['Since', (one) => [time(one.since), one.since && h('span', {class: 'why'}, `for ${age((now() - Date.parse(one.since)) / 1000)}`)]],
        ['Partition', (one) => one.partition === null ? DASH : number(one.partition), 'n wide'],
    ], shown, {key: (one) => one.position}), more);
}

/* ---- Retries ----------------------------------------------------------------------------------- */

/* The page of the list that is shown: what `after` was for each page up to it. */
function pagesOf(page) {
    const behind = page.query.behind || '';
    if (!page.local.retries || page.local.retries.behind !== behind) {
        page.local.retries = {behind, cursors: [null]};
    }
    return page.local.retries;
}

/* Asks for the page that is shown. Of a subscription of which nothing retries there is nothing to ask. */
export async function loadRetries(page, one) {
    const {behind, cursors} = pagesOf(page);
    const after = cursors[cursors.length - 1];
    if (!behind && !one.retrying && after === null) {
        return {behind, cursors, items: [], next: null};
    }
    const params = new URLSearchParams({limit: PAGE, ...(behind && {behind}), ...(after !== null && {after})});
    return {behind, cursors, ...await get(page.namespace, `subscriptions/${encodeURIComponent(page.id)}/retries?${params}`)};
}

function turn(page, cursors) {
    page.local.retries = {...pagesOf(page), cursors};
    page.reload();
}

function pageButtons(page, list) {
    const {cursors} = pagesOf(page);
    const before = (cursors.length - 1) * PAGE;
    return (before > 0 || list.next !== null) && h('p', {class: 'pager'},
        h('button', {disabled: before === 0, on: {click: () => turn(page, cursors.slice(0, -1))}}, 'Before'),
        list.items.length ? `${number(before + 1)} to ${number(before + list.items.length)}` : 'No more',
        h('button', {disabled: list.next === null, on: {click: () => turn(page, [...cursors, list.next])}}, 'Next'));
}

/* When it is tried again, as it is now: times pass while the page is looked at. */
function nextOf(page, one) {
    if (one.state === 'processing') {
        return h('span', {class: 'accent-text'}, 'in hand now');
    }
    if (one.state !== 'retrying') {
        return ['behind position ', h('a', {href: page.link('event', one.behind)}, number(one.behind))];
    }
    const left = (Date.parse(one.next_attempt_at) - now()) / 1000;
    return [left > 0 ? `in ${age(left)}` : h('span', {class: 'slow'}, `due for ${age(-left)}`),
        h('span', {class: 'why'}, time(one.next_attempt_at))];
}

function heldOf(page, one) {
    const count = `${number(one.held)}${one.held_more ? '+' : ''}`;
    return one.held ? h('a', {href: page.link('subscriptions', page.id, {behind: one.position}), 'aria-label':
        `${plural(one.held, 'event')} held behind position ${number(one.position)}`}, count) : figure('0');
}

function failureOf(one) {
    return one.attempts === 0 ? h('span', {class: 'zero'}, 'not tried yet') : [
        h('span', {class: 'more'}, one.error === null ? inert(one.cause || DASH) : word(one.error)),
        h('span', {class: 'why'}, plural(one.attempts, 'failed attempt'), one.failed_at ? [', the last at ', time(one.failed_at)] : '')];
}

function retryTable(page, list, ordered) {
    return table([
        ['Event', (one) => eventLink(page, one), 'wrap'],
        ['Key', keyOf, 'mono wrap'],
        ['Error', failureOf, 'wrap'],
        ['Next attempt', (one) => nextOf(page, one)],
        ordered && ['Held behind it', (one) => heldOf(page, one), 'n'],
    ].filter(Boolean), list.items, {key: (one) => one.position, class: 'rows retries'});
}

/* What is retrying; or, if the address says so, what is held behind one of them. */
export function retrySection(page, one, list) {
    if (list.behind) {
        const behind = number(Number(list.behind));
        return h('section', {id: 'retries'}, h('h2', {}, 'Held behind position ', h('a', {href: page.link('event', list.behind)}, behind)),
            h('p', {class: 'small soft'}, 'Events of its key wait until it is done or dead. ',
                h('a', {href: page.link('subscriptions', page.id)}, 'All retries')),
            list.items.length ? retryTable(page, list, true) : h('p', {class: 'soft'}, 'Nothing is held behind it.'),
            pageButtons(page, list));
    }
    if (!list.items.length && list.cursors.length === 1) {
        return h('section', {id: 'retries'}, h('h2', {}, 'Retries'), h('p', {class: 'soft'}, 'No event waits for another attempt.'));
    }
    return h('section', {id: 'retries'}, h('h2', {}, 'Retries'),
        list.items.length ? retryTable(page, list, one.mode === 'ordered') : h('p', {class: 'soft'}, 'No more.'),
        pageButtons(page, list));
}
