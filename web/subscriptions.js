/*
 * subscriptions.js - all subscriptions, and one of them.
 */
import {h} from './dom.js';
import {age, atLeast, cell, inert, number, plural, rate, sentence, time} from './format.js';
import {chart} from './charts.js';
import * as dialogs from './dialogs.js';
import {pager} from './lists.js';
import {get, post, send} from './server.js';
import {emptySubscriptions, howToStart, reasonOf, stateWord, subscriptionTable, troubleList} from './overview.js';

const PAGE = 100;

export const subscriptions = {
    title: 'Subscriptions',
    live: (page) => ({limit: PAGE, from: page.local.from || 0, query: page.query.q, only: page.query.only,
        sort: page.query.sort}),
    render(page) {
        const state = page.state;
        const choose = (name, value) => {
            page.local.from = 0;
            page.setQuery({[name]: value});
        };
        const choice = (name, label, options) => h('label', {}, label, ' ',
            h('select', {value: page.query[name] || options[0][0], on: {change: (e) => choose(name, e.target.value)}},
                options.map(([value, text]) => h('option', {value}, text))));
        return [
            h('h1', {}, 'Subscriptions'),
            h('div', {class: 'filters', role: 'search'},
                h('label', {}, 'Name ', h('input', {type: 'search', value: page.query.q || '',
                    on: {input: (e) => choose('q', e.target.value)}})),
                choice('only', 'Show', [['all', 'all'], ['attention', 'what needs attention'], ['paused', 'paused'],
                    ['dead', 'with dead letters']]),
                choice('sort', 'Order', [['attention', 'trouble first'], ['name', 'by name']])),
            !state.rows ? null : state.rows.length ? subscriptionTable(state.rows, page)
                : page.query.q || page.query.only ? h('p', {class: 'soft'}, 'No subscription is like that.')
                    : emptySubscriptions(page),
            state.rows && pager(state.rows_from, state.rows.length, state.rows_total, PAGE, (from) => {
                page.local.from = from;
                page.rewatch();
            }),
        ];
    },
};

/* ---- One --------------------------------------------------------------------------------------- */

function pauseDialog(page, name) {
    dialogs.form(`Pause ${inert(name)}`, {
        words: 'It hands out no events until it is resumed. What is in hand is finished.',
        fields: [{name: 'reason', label: 'Reason', note: 'shown wherever this subscription is'}],
        action: 'Pause',
        run: async ({reason}) => {
            await post(page.namespace, `subscriptions/${encodeURIComponent(name)}/pause`, reason ? {reason} : {});
            dialogs.say(`${inert(name)} is paused.`);
            page.reload();
        },
    });
}

function resume(page, name) {
    return dialogs.act(async () => {
        await post(page.namespace, `subscriptions/${encodeURIComponent(name)}/resume`);
        page.reload();
    }, `${inert(name)} goes on.`);
}

/* A request to seek: a position goes as the digits that were typed. */
function seekBody(to, more) {
    return `{"to":${/^\d+$/.test(to) ? to : JSON.stringify(to)}${more}}`;
}

function seekDialog(page, name) {
    const path = `subscriptions/${encodeURIComponent(name)}/seek`;
    dialogs.form(`Move ${inert(name)} to another place`, {
        words: 'It goes on from there: events behind that place come again, those before it do not come any more.',
        fields: [{name: 'to', label: 'Where', value: 'start', required: true,
            note: 'start, now, a position, or a time such as 2026-01-31T12:00:00Z'}],
        action: 'Move it',
        danger: true,
        extra: async ({to}) => {
            if (!to) {
                return null;
            }
            try {
                const answer = await send('POST', page.namespace, path, seekBody(to.trim(), ',"dry_run":true'));
                return `${plural(answer.positions, 'position')} of the log would come.`;
            } catch (error) {
                return error.message;
            }
        },
        run: async ({to}) => {
            await send('POST', page.namespace, path, seekBody(to.trim(), ''));
            dialogs.say(`${inert(name)} was moved.`);
            page.reload();
        },
    });
}

function removeDialog(page, name) {
    dialogs.confirm(`Remove ${inert(name)}?`,
        'It and how far it is are deleted; its dead letters stay. This cannot be undone.', 'Remove', async () => {
            await send('DELETE', page.namespace, `subscriptions/${encodeURIComponent(name)}`);
            page.go('subscriptions');
        });
}

function actions(page, row, name) {
    return h('div', {class: 'actions left'},
        page.may('operator') && (row.paused_at
            ? h('button', {class: 'primary', on: {click: () => resume(page, name)}}, 'Resume')
            : h('button', {on: {click: () => pauseDialog(page, name)}}, 'Pause…')),
        page.may('operator') && h('button', {on: {click: () => seekDialog(page, name)}}, 'Move…'),
        h('button', {on: {click: () => howToStart(row, page)}}, 'How to start a worker'),
        page.may('admin') && h('button', {class: 'quiet', on: {click: () => removeDialog(page, name)}}, 'Remove…'));
}

function history(page, row) {
    const buckets = row.buckets || [];
    if (!buckets.length) {
        return null;
    }
    const to = Date.parse(page.state.at);
    const from = to - buckets.length * row.bucket_ms;
    const column = (index) => buckets.map((bucket, i) => [from + (i + 1) * row.bucket_ms, bucket[index]]);
    const common = {from, to, redraw: page.redraw};
    const waits = row.oldest_waiting ? (to - Date.parse(row.oldest_waiting)) / 1000 : null;
    return h('section', {class: 'charts three'},
        chart(column(0), {...common, key: 'rate', label: 'A second', value: rate(row.now_rate), unit: 'events', show: rate}),
        chart(column(1), {...common, key: 'waiting', label: 'Waiting', value: atLeast(row.pending, row.pending_more),
            unit: 'events', show: number}),
        chart(column(2), {...common, key: 'oldest1', label: 'Oldest', value: age(waits), unit: '', show: age,
            style: waits > 60 && !row.paused_at ? 'bad' : ''}));
}

export function facts(list) {
    return h('dl', {}, list.filter(Boolean).map(([term, ...value]) => [h('dt', {}, term), h('dd', {}, value)]));
}

function partitionTable(partitions) {
    return h('section', {}, h('h2', {}, 'Partitions'), h('div', {class: 'scroll'}, h('table', {},
        h('thead', {}, h('tr', {}, ['Number', 'Owner', 'State'].map((t) => h('th', {scope: 'col'}, t)),
            ['Lag', 'Retrying', 'Held', 'Blocked', 'Standby'].map((t) => h('th', {scope: 'col', class: 'n'}, t)))),
        h('tbody', {}, partitions.map((one) => h('tr', {key: one.partition},
            h('td', {}, one.partition), h('td', {class: 'mono'}, one.owner ? inert(one.owner) : '–'),
            h('td', {}, one.owner && !one.owner_alive ? 'owner is dead' : one.state),
            cell(number(one.lag)), cell(number(one.retrying)), cell(number(one.held)), cell(number(one.blocked), 'bad'),
            cell(number(one.standby))))))));
}

function leaseTable(page, name, leases) {
    const revoke = (lease) => dialogs.confirm('Take the lease away?',
        'Its events go to another worker. What the worker that has it says of them later is refused.', 'Take it away',
        async () => {
            await send('DELETE', page.namespace,
                `leases/${encodeURIComponent(name)}/${encodeURIComponent(lease.lease)}`);
            page.reload();
        });
    return h('section', {}, h('h2', {}, 'In hand'), h('div', {class: 'scroll'}, h('table', {},
        h('thead', {}, h('tr', {}, ['Who', 'Since', 'Until'].map((t) => h('th', {scope: 'col'}, t)),
            h('th', {scope: 'col', class: 'n'}, 'Events'), h('th', {}))),
        h('tbody', {}, leases.map((lease) => h('tr', {key: lease.lease},
            h('td', {class: 'mono'}, inert(lease.node || '–')), h('td', {}, time(lease.claimed_at)),
            h('td', {}, time(lease.expires_at), lease.ended && ' (ended)'), cell(number(lease.count)),
            h('td', {class: 'n'}, page.may('operator') && h('button', {on: {click: () => revoke(lease)}}, 'Take away…'))))))));
}

function blockedTable(page, keys) {
    return h('section', {}, h('h2', {}, 'Blocked keys'), h('div', {class: 'scroll'}, h('table', {},
        h('thead', {}, h('tr', {}, ['Key', 'Event', 'Since'].map((t) => h('th', {scope: 'col'}, t)),
            h('th', {scope: 'col', class: 'n'}, 'Held'), h('th', {}))),
        h('tbody', {}, keys.map((one) => h('tr', {key: one.position},
            h('td', {class: 'mono wrap'}, one.key === null ? '–' : inert(one.key)),
            h('td', {}, one.event_id ? h('a', {href: page.link('event', one.event_id)}, inert(one.type || one.event_id)) : '–'),
            h('td', {}, time(one.since)), cell(number(one.held)),
            h('td', {class: 'n'}, one.dead_id && h('a', {class: 'button', href: page.link('dead', one.dead_id)}, 'Dead letter'))))))));
}

function optionList(options) {
    return h('details', {}, h('summary', {}, 'Options'), h('dl', {class: 'options'},
        Object.entries(options).map(([term, value]) => [h('dt', {class: 'mono'}, term), h('dd', {class: 'mono'}, String(value))])));
}

export const subscription = {
    title: (page) => page.id,
    live: (page) => ({limit: 0, subscription: page.id}),
    every: 3000,
    async load(page) {
        const one = await get(page.namespace, `subscriptions/${encodeURIComponent(page.id)}`);
        const leases = one.options.mode === 'shared'
            ? (await get(page.namespace, `leases?subscription=${encodeURIComponent(page.id)}`)).items : [];
        return {one, leases};
    },
    render(page) {
        const {one, leases} = page.data;
        const row = page.state.subscription || {...one, state: one.paused_at ? 'paused' : 'moving', now_rate: null,
            mode: one.options.mode};
        const live = {...row, paused_at: one.paused_at, paused_by: one.paused_by, paused_reason: one.paused_reason,
            state: one.paused_at ? 'paused' : row.state === 'paused' ? 'moving' : row.state, patterns: one.patterns};
        const shared = one.options.mode === 'shared';
        const trouble = page.state.trouble.filter((item) => item.subscription === page.id ||
            item.row && item.row.name === page.id && item.count === 1);
        const reason = reasonOf(live) || one.not_moving && sentence(one.not_moving);
        return [
            h('p', {class: 'path'}, h('a', {href: page.link('subscriptions')}, 'Subscriptions')),
            h('h1', {}, inert(page.id)),
            h('p', {class: 'sub'}, stateWord(live), !trouble.length && reason && [': ', reason]),
            troubleList(trouble, trouble.length, page),
            actions(page, live, page.id),
            history(page, row),
            facts([
                ['Takes', one.patterns.map((pattern) => h('code', {}, inert(pattern)))],
                ['Mode', one.options.mode],
                [shared ? 'Settled' : 'Position', `up to ${number(one.checkpoint)} of ${number(one.head)}`,
                    one.lag ? `, ${plural(one.lag, 'position')} behind` : ''],
                shared && ['Handed out', `up to ${number(one.cursor)}`],
                ['Waiting', atLeast(one.pending, one.pending_more)],
                one.owner && ['Owner', h('code', {}, inert(one.owner)), one.owner_alive ? '' : ', which is dead'],
                ['In hand', number(one.in_flight), one.lease_ended ? `, and ${number(one.lease_ended)} whose lease has ended` : ''],
                ['Retrying', number(one.retrying)],
                one.held > 0 && ['Held', `${number(one.held)} behind an earlier event of their key`],
                ['Dead letters', one.dead ? h('a', {href: page.link('dead', '', {subscription: page.id})}, number(one.dead)) : '0'],
                one.breaker && ['Breaker', inert(one.breaker).replace('_', ' '),
                    one.breaker_until ? [' until ', time(one.breaker_until)] : ''],
                one.dropped > 0 && ['Dropped', `${plural(one.dropped, 'position')} by retention`],
                ['Made', time(one.created_at)],
            ]),
            leases.length > 0 && leaseTable(page, page.id, leases),
            one.partitions.length > 0 && partitionTable(one.partitions),
            one.blocked_keys.length > 0 && blockedTable(page, one.blocked_keys),
            optionList(one.options),
        ];
    },
};
