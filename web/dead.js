/*
 * dead.js - dead letters: by error, one by one, retried all at once or with another payload.
 */
import {h} from './dom.js';
import {asSentence, atLeast, DASH, figure, inert, number, plural, time, word} from './format.js';
import * as dialogs from './dialogs.js';
import {get, getText, post, send} from './server.js';
import {attemptTable, payloadBox} from './payload.js';
import {facts, moreButton, readList, table} from './tables.js';

const filterNames = ['subscription', 'type', 'error', 'reason'];
const causes = {handler: 'the handler failed', undecodable: 'the handler could not understand the payload',
    timeout: 'the handler did not return in time', transaction: 'what the handler wrote could not be kept',
    process_died: 'its process died', lease_expired: 'its lease ended without an answer'};
const reasons = {attempts: 'its attempts were used up', rejected: 'the handler rejected it',
    decode: 'the handler could not understand it', no_handler: 'no pattern matched', lease: 'its last lease ended without an answer',
    corrupt: 'the event is damaged'};

/* Why an event has died, of one that has no error. */
export const deadReason = (reason) => reasons[reason] || inert(reason);

function conditions(filter) {
    const given = Object.fromEntries(filterNames.filter((name) => filter[name]).map((name) => [name, filter[name]]));
    return Object.keys(given).length ? given : {all: true};
}

function describe(filter) {
    return [filter.subscription ? `of ${inert(filter.subscription)}` : '', filter.type ? `of the type ${inert(filter.type)}` : '',
        filter.error ? `with “${inert(filter.error).slice(0, 120)}”` : '',
        filter.reason ? `without an error (${deadReason(filter.reason)})` : ''].filter(Boolean).join(' ');
}

/* Retries all that match, so many a second, and shows how far it is. */
export async function retryDialog(page, filter) {
    const body = conditions(filter);
    let total;
    try {
        total = (await post(page.namespace, 'dead-letters/retry', {...body, dry_run: true})).dead_letters;
    } catch (error) {
        dialogs.say(asSentence(error.message), true);
        return;
    }
    dialogs.form(`Retry ${plural(total, 'dead letter')}`, {
        words: [`They are delivered again to ${filter.subscription ? 'it' : 'their subscriptions'}, the oldest first.`,
            describe(filter) && h('span', {class: 'soft'}, `Those ${describe(filter)}.`)].filter(Boolean),
        fields: [{name: 'rate', label: 'How many a second', kind: 'number', min: 1, max: 100000, required: true,
            value: total > 100 ? '50' : '100', note: 'so that what failed before is not flooded'}],
        action: `Retry ${number(total)}`,
        run: async ({rate}) => {
            setTimeout(() => dialogs.progress(`Retrying ${plural(total, 'dead letter')}`, total, retrySteps(page, body, rate),
                () => page.reload()), 0);
        },
    });
}

const STEP_MS = 1000; /* after so long the server says how far it is */

/* Each step goes on with those that were there at the first: one that has died again is not among them. */
function retrySteps(page, body, rate) {
    let bound = {};
    return async () => {
        const answer = await post(page.namespace, 'dead-letters/retry', {...body, ...bound, rate: `${rate}/s`, work_ms: STEP_MS});
        bound = {before_dead_id: answer.before_dead_id};
        return {done: answer.dead_letters, left: answer.left};
    };
}

async function purgeDialog(page, filter) {
    const body = conditions(filter);
    await dialogs.act(async () => {
        const total = (await post(page.namespace, 'dead-letters/purge', {...body, dry_run: true})).dead_letters;
        dialogs.confirm(`Delete ${plural(total, 'dead letter')}?`,
            `All ${describe(filter) || 'of them'}. Their events are not delivered, and this cannot be undone.`,
            `Delete ${number(total)}`, async () => {
                await post(page.namespace, 'dead-letters/purge', body);
                page.reload();
            });
    });
}

/* The conditions that choose the dead letters of a group. */
export const filterOf = ({subscription, error, reason}) => ({subscription, ...(error ? {error} : {reason})});

/* ---- By error, type, ... ----------------------------------------------------------------------- */

const fields = [['error', 'error'], ['subscription', 'subscription'], ['type', 'type'], ['reason', 'reason']];
const GROUPS = 100;
const NO_ERROR = 'no error: its reason says why';

/* With some conditions the server reads all letters, so it is asked the more seldom the longer that takes. */
async function readGroups(page, params) {
    const field = page.query.by || 'error';
    const path = `dead-letters/groups?by=${field}&limit=${GROUPS}&${params}`;
    const now = performance.now();
    if (page.local.groups && page.local.groups.path === path && now < page.local.groups.until) {
        return page.local.groups;
    }
    const answer = await get(page.namespace, path);
    const took = performance.now() - now;
    page.local.groups = {...answer, path, field, until: now + Math.max(4000, 20 * took)};
    return page.local.groups;
}

/* What the table of groups does not show. Of very many kinds of letters the server counts the largest (`more`). */
function restOfGroups({groups, dead_letters: letters, items, more}) {
    const rest = letters - items.reduce((sum, group) => sum + group.count, 0);
    return [
        groups > items.length && h('p', {class: 'pager'},
            `${number(items.length)} of ${atLeast(groups, more)} groups are shown; the others have ${plural(rest, 'dead letter')}.`),
        more && h('p', {class: 'soft'}, 'There are too many different ones to count them all: the numbers are at least so large.'),
    ];
}

function groupSection(page, groups) {
    const {field, items, more} = groups;
    const shown = (group) => field === 'reason' ? deadReason(group.reason) : group[field] || (field === 'error' ? NO_ERROR : DASH);
    const filter = (group) => ({...chosen(page), [field]: group[field]});
    const by = h('select', {value: field, 'aria-label': 'Group by', on: {change: (e) => { page.setQuery({by: e.target.value}); page.reload(); }}},
        fields.map(([value, text]) => h('option', {value}, text)));
    return h('section', {}, h('h2', {}, 'By ', by), table([
        [`${field.charAt(0).toUpperCase()}${field.slice(1)}`, (group) => group[field]
            ? h('a', {class: 'more', href: page.link('dead', '', {...page.query, ...filter(group)}), title: inert(group[field])}, word(shown(group)))
            : h('span', {class: 'soft'}, shown(group)), 'wrap'],
        ['Letters', (group) => figure(atLeast(group.count, more), 'bad'), 'n'],
        ['First', (group) => time(group.oldest_failed_at), 'wide'],
        ['Last', (group) => time(group.newest_failed_at)],
        ['', (group) => page.may('operator') && group[field] && h('button', {on: {click: () => retryDialog(page, filter(group))}}, 'Retry…'), 'n'],
    ], items, {key: (group) => group[field]}), restOfGroups(groups));
}

/* ---- The page ---------------------------------------------------------------------------------- */

const chosen = (page) => Object.fromEntries(filterNames.filter((name) => page.query[name]).map((name) => [name, page.query[name]]));

export const deadLetters = {
    title: 'Dead letters',
    live: {limit: 0},
    every: 5000,
    async load(page) {
        const params = new URLSearchParams({...chosen(page), ...(page.query.resolved ? {resolved: 'true'} : {})});
        const [groups, list] = await Promise.all([readGroups(page, params),
            readList(page, `dead-letters?limit=50&${params}`, page.data && page.data.list)]);
        return {groups, list};
    },
    render(page) {
        const {groups, list} = page.data;
        const filter = chosen(page);
        const filtered = Object.keys(filter).length > 0;
        const total = page.state.totals.dead;
        return [
            h('h1', {}, total ? plural(total, 'dead letter') : 'No dead letters'),
            h('p', {class: 'sub'}, 'Events whose last attempt failed. Each waits here until it is retried or resolved.'),
            (total > 0 || list.items.length > 0 || filtered) && filterForm(page, filter),
            filtered && h('p', {class: 'sub'}, `Those ${describe(filter)}. `, h('a', {href: page.link('dead')}, 'All of them')),
            list.items.length > 0 && h('div', {class: 'actions left'},
                page.may('operator') && h('button', {class: 'primary', on: {click: () => retryDialog(page, filter)}},
                    filtered ? 'Retry these…' : 'Retry all…'),
                page.may('admin') && h('button', {class: 'quiet', on: {click: () => purgeDialog(page, filter)}},
                    filtered ? 'Delete these…' : 'Delete all…')),
            groups.items.length > 0 && groupSection(page, groups),
            list.items.length > 0 ? h('section', {}, h('h2', {}, 'One by one, the newest first'), letterTable(page, list.items), moreButton(page, list))
                : filtered && h('p', {class: 'soft'}, 'None is like that.'),
        ];
    },
};

function filterForm(page, filter) {
    const submit = (e) => {
        e.preventDefault();
        const values = Object.fromEntries(new FormData(e.target));
        page.setQuery({reason: '', ...values, resolved: values.resolved ? 'true' : ''});
        page.reload();
    };
    return h('form', {class: 'filters', role: 'search', key: JSON.stringify(page.query), on: {submit}},
        h('label', {}, 'Subscription ', h('input', {name: 'subscription', type: 'search', value: filter.subscription || ''})),
        h('label', {}, 'Type ', h('input', {name: 'type', type: 'search', value: filter.type || ''})),
        h('label', {}, 'Error has ', h('input', {name: 'error', type: 'search', value: filter.error || ''})),
        h('label', {class: 'check'}, h('input', {name: 'resolved', type: 'checkbox', checked: page.query.resolved}), ' also resolved'),
        h('button', {}, 'Filter'));
}

function letterTable(page, items) {
    return table([
        ['Event', (letter) => h('a', {href: page.link('dead', letter.dead_id)}, word(letter.event.type)), 'name'],
        ['Key', (letter) => letter.event.key === null ? DASH : h('span', {class: 'more'}, word(letter.event.key)), 'mono wide wrap'],
        ['Subscription', (letter) => h('span', {class: 'more'}, word(letter.subscription)), 'wrap'],
        ['Error', (letter) => [letter.error ? h('span', {class: 'more'}, word(letter.error.slice(0, 400)))
            : h('span', {class: 'soft'}, deadReason(letter.reason)),
        letter.resolved_at && h('span', {class: 'why'}, `resolved by ${inert(letter.resolved_by || 'an unnamed user')}`)], 'wrap'],
        ['Attempts', (letter) => figure(number(letter.attempts)), 'n wide'],
        ['Died', (letter) => time(letter.failed_at)],
    ], items, {key: (letter) => letter.dead_id});
}

/* ---- One --------------------------------------------------------------------------------------- */

function editDialog(page, payload) {
    dialogs.form('Retry with another payload', {
        words: 'This delivery gets the payload below. The log is not changed.',
        fields: [{name: 'payload', label: 'Payload (JSON)', kind: 'area', rows: 14, value: payload}],
        action: 'Retry',
        run: async ({payload: edited}) => {
            JSON.parse(edited); /* only to say at once what is wrong: the text itself is sent */
            await send('POST', page.namespace, `dead-letters/${page.id}/retry`, `{"payload":${edited}}`);
            dialogs.say('It is delivered again.');
            page.go('dead');
        },
    });
}

function resolveDialog(page) {
    dialogs.form('Resolve the dead letter', {
        words: 'It is marked as dealt with, and not delivered again.',
        fields: [{name: 'note', label: 'Note', note: 'what was done about it'}],
        action: 'Resolve',
        run: async ({note}) => {
            await post(page.namespace, `dead-letters/${page.id}/resolve`, note ? {note} : {});
            page.reload();
        },
    });
}

export const deadLetter = {
    title: 'Dead letter',
    live: {limit: 0},
    async load(page) {
        const path = `dead-letters/${encodeURIComponent(page.id)}`;
        const [letter, payload] = await Promise.all([get(page.namespace, path), getText(page.namespace, `${path}/payload`)]);
        return {letter, payload};
    },
    render(page) {
        const {letter, payload} = page.data;
        const retry = () => dialogs.act(async () => {
            await send('POST', page.namespace, `dead-letters/${page.id}/retry`, '{}');
            page.go('dead');
        }, 'It is delivered again.');
        return [
            h('p', {class: 'path'}, h('a', {href: page.link('dead')}, 'Dead letters')),
            h('h1', {class: 'mono-title'}, word(letter.event.type)),
            h('p', {class: 'sub'}, h('a', {href: page.link('subscriptions', letter.subscription)}, inert(letter.subscription)),
                ' gave it up at ', time(letter.failed_at),
                letter.attempts ? ` after ${plural(letter.attempts, 'attempt')}: ` : ' without an attempt: ',
                letter.error ? h('q', {}, inert(letter.error)) : `${deadReason(letter.reason)}.`),
            !letter.resolved_at && page.may('operator') && h('div', {class: 'actions left'},
                h('button', {class: 'primary', on: {click: retry}}, 'Retry'),
                h('button', {on: {click: () => editDialog(page, payload)}}, 'Edit and retry…'),
                h('button', {on: {click: () => resolveDialog(page)}}, 'Resolve…')),
            facts([
                ['Event', h('a', {href: page.link('event', letter.event.id)}, h('code', {}, letter.event.id))],
                ['Position', number(letter.event.position)],
                ['Key', letter.event.key === null ? DASH : h('code', {}, inert(letter.event.key))],
                ['Reason', deadReason(letter.reason), letter.cause && letter.reason !== 'rejected' ? `; ${causes[letter.cause] || inert(letter.cause)}` : ''],
                letter.resolved_at && ['Resolved', time(letter.resolved_at), ` by ${inert(letter.resolved_by || 'an unnamed user')}`,
                    letter.resolved_note ? `: ${inert(letter.resolved_note)}` : ''],
            ]),
            h('section', {}, h('h2', {}, 'Payload'), payloadBox(page, payload)),
            letter.attempts_json && h('section', {}, h('h2', {}, 'Attempts'), attemptTable(letter.attempts_json)),
        ];
    },
};
