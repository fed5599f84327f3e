/*
 * dead.js - dead letters: by error, one by one, retried all at once or with another payload.
 */
import {h} from './dom.js';
import {cell, DASH, inert, number, plural, time} from './format.js';
import * as dialogs from './dialogs.js';
import {moreButton, readList} from './lists.js';
import {get, getText, post, send} from './server.js';
import {facts} from './subscriptions.js';
import {attemptTable, payloadBox} from './events.js';

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
        dialogs.say(error.message, true);
        return;
    }
    dialogs.form(`Retry ${plural(total, 'dead letter')}`, {
        words: [`They are delivered again to their subscription ${describe(filter)}, the oldest first.`],
        fields: [{name: 'rate', label: 'A second', kind: 'number', min: 0, max: 100000, value: total > 100 ? '50' : '0',
            note: '0: as fast as it goes'}],
        action: `Retry ${number(total)}`,
        run: async ({rate}) => {
            setTimeout(() => dialogs.progress(`Retrying ${plural(total, 'dead letter')}`, total, Number(rate) || 0,
                async (limit) => (await post(page.namespace, 'dead-letters/retry', {...body, limit})).dead_letters,
                () => page.reload()), 0);
        },
    });
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

function groupTable(page, groups) {
    return h('section', {}, h('h2', {}, 'By error'), h('div', {class: 'scroll'}, h('table', {},
        h('thead', {}, h('tr', {}, ['Error', 'Subscription'].map((t) => h('th', {scope: 'col'}, t)),
            h('th', {scope: 'col', class: 'n'}, 'Letters'), h('th', {scope: 'col', class: 'wide'}, 'First'),
            h('th', {scope: 'col', class: 'wide'}, 'Last'), h('th', {}))),
        h('tbody', {}, groups.map((group) => h('tr', {key: `${group.subscription} ${group.error || group.reason}`},
            h('td', {class: 'wrap'}, h('a', {href: page.link('dead', '', filterOf(group))},
                group.error ? inert(group.error).slice(0, 240) : `no error: ${deadReason(group.reason)}`)),
            h('td', {class: 'wrap'}, inert(group.subscription)), cell(number(group.count) + (group.partial ? '+' : ''), 'bad'),
            h('td', {class: 'wide'}, time(group.since)), h('td', {class: 'wide'}, time(group.last)),
            h('td', {class: 'n'}, page.may('operator') && group.row &&
                h('button', {on: {click: () => retryDialog(page, filterOf(group))}}, 'Retry…'))))))));
}

export const deadLetters = {
    title: 'Dead letters',
    live: {limit: 0},
    every: 5000,
    load(page) {
        const params = new URLSearchParams({limit: '50'});
        for (const name of filterNames) {
            if (page.query[name]) {
                params.set(name, page.query[name]);
            }
        }
        if (page.query.resolved) {
            params.set('resolved', 'true');
        }
        return readList(page, `dead-letters?${params}`, page.data);
    },
    render(page) {
        const {items} = page.data;
        const filter = Object.fromEntries(filterNames.map((name) => [name, page.query[name]]));
        const filtered = filterNames.some((name) => filter[name]);
        const groups = page.state.trouble.filter((item) => item.kind === 'dead');
        const total = page.state.totals.dead;
        const submit = (e) => {
            e.preventDefault();
            const values = Object.fromEntries(new FormData(e.target));
            page.setQuery({reason: '', ...values, resolved: values.resolved ? 'true' : ''});
            page.reload();
        };
        return [
            h('h1', {}, total ? plural(total, 'dead letter') : 'No dead letters'),
            h('p', {class: 'sub'}, 'Events whose last attempt failed. Each waits here until it is retried or resolved.'),
            !filtered && groups.length > 0 && groupTable(page, groups),
            h('section', {}, h('h2', {}, filtered ? `Those ${describe(filter)}` : 'One by one'),
                h('form', {class: 'filters', role: 'search', key: JSON.stringify(page.query), on: {submit}},
                    h('label', {}, 'Subscription ', h('input', {name: 'subscription', type: 'search', value: filter.subscription || ''})),
                    h('label', {}, 'Type ', h('input', {name: 'type', type: 'search', value: filter.type || ''})),
                    h('label', {}, 'Error has ', h('input', {name: 'error', type: 'search', value: filter.error || ''})),
                    h('label', {class: 'check'}, h('input', {name: 'resolved', type: 'checkbox', checked: page.query.resolved}),
                        ' also resolved'),
                    h('button', {}, 'Filter')),
                (total > 0 || items.length > 0) && h('div', {class: 'actions left'},
                    page.may('operator') && h('button', {class: 'primary', on: {click: () => retryDialog(page, filter)}},
                        filtered ? 'Retry these…' : 'Retry all…'),
                    page.may('admin') && h('button', {class: 'quiet', on: {click: () => purgeDialog(page, filter)}},
                        filtered ? 'Delete these…' : 'Delete all…')),
                items.length ? letterTable(page, items) : h('p', {class: 'soft'}, 'There are none.'),
                moreButton(page, page.data)),
        ];
    },
};

function letterTable(page, items) {
    return h('div', {class: 'scroll'}, h('table', {}, h('thead', {}, h('tr', {},
        h('th', {scope: 'col'}, 'Event'), h('th', {scope: 'col', class: 'wide'}, 'Key'),
        ['Subscription', 'Error'].map((t) => h('th', {scope: 'col'}, t)), h('th', {scope: 'col', class: 'n wide'}, 'Attempts'),
        h('th', {scope: 'col'}, 'Died'))),
    h('tbody', {}, items.map((letter) => h('tr', {key: letter.dead_id},
        h('td', {class: 'name'}, h('a', {href: page.link('dead', letter.dead_id)}, inert(letter.event.type))),
        h('td', {class: 'mono wide wrap'}, letter.event.key === null ? DASH : inert(letter.event.key).slice(0, 80)),
        h('td', {class: 'wrap'}, inert(letter.subscription)),
        h('td', {class: 'wrap'}, letter.error ? inert(letter.error).slice(0, 200) : h('span', {class: 'soft'}, deadReason(letter.reason)),
            letter.resolved_at && h('span', {class: 'why'}, `resolved by ${inert(letter.resolved_by || 'an unnamed user')}`)),
        h('td', {class: 'n wide'}, number(letter.attempts)), h('td', {}, time(letter.failed_at)))))));
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
            h('h1', {class: 'mono-title'}, inert(letter.event.type)),
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
