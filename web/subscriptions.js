/*
 * subscriptions.js - all subscriptions, and one of them.
 */
import {h} from './dom.js';
import {age, asSentence, atLeast, DASH, figure, inert, number, plural, rate, sentence, time, word} from './format.js';
import {chart} from './charts.js';
import {loadRetries, retrySection, runningTable} from './deliveries.js';
import * as dialogs from './dialogs.js';
import {get, send} from './server.js';
import {pauseDialog, resume} from './pauses.js';
import {facts, firstOf, pager, table} from './tables.js';
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
            h('p', {class: 'sub'}, plural(state.totals.subscriptions, 'subscription'),
                state.totals.paused ? `, ${number(state.totals.paused)} of them paused.` : '.'),
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
                return asSentence(error.message);
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
    const path = `subscriptions/${encodeURIComponent(name)}`;
    return h('div', {class: 'actions left'},
        page.may('operator') && (row.paused_at
            ? h('button', {class: 'primary', on: {click: () => resume(page, path, name)}}, 'Resume')
            : h('button', {on: {click: () => pauseDialog(page, path, name,
                'It hands out no events until it is resumed. What is in hand is finished.')}}, 'Pause…')),
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
            unit: row.pending === 1 ? 'event' : 'events', show: number}),
        chart(column(2), {...common, key: 'oldest1', label: 'Oldest', value: age(waits), unit: '', show: age,
            style: waits > 60 && !row.paused_at ? 'bad' : ''}));
}

function partitionTable({partitions, running, in_flight}) {
    const inHand = (partition) => running.filter((one) => one.partition === partition).length;
    return h('section', {}, h('h2', {}, 'Partitions'), table([
        ['Number', (one) => one.partition],
        ['Owner', (one) => one.owner ? word(one.owner) : DASH, 'mono'],
        ['State', (one) => one.owner && !one.owner_alive ? h('span', {class: 'bad'}, 'owner is dead') : one.state],
        ['Lag', (one) => figure(number(one.lag)), 'n'],
        ['In hand', (one) => figure(running.length < in_flight ? DASH : number(inHand(one.partition))), 'n wide'],
        ['Retrying', (one) => figure(number(one.retrying)), 'n wide'],
        ['Held', (one) => figure(number(one.held)), 'n wide'],
        ['Blocked', (one) => figure(number(one.blocked), 'bad'), 'n wide'],
        ['Standby', (one) => figure(number(one.standby)), 'n wide'],
    ], partitions, {key: (one) => one.partition}));
}

function leaseTable(page, name, leases) {
    const revoke = (lease) => dialogs.confirm('Take the lease away?',
        'Its events go to another worker. What the worker that has it says of them later is refused.', 'Take it away',
        async () => {
            await send('DELETE', page.namespace,
                `leases/${encodeURIComponent(name)}/${encodeURIComponent(lease.lease)}`);
            page.reload();
        });
    return h('section', {}, h('h2', {}, 'In hand'), table([
        ['Who', (lease) => lease.node ? word(lease.node) : DASH, 'mono'],
        ['Since', (lease) => time(lease.claimed_at)],
        ['Until', (lease) => [time(lease.expires_at), lease.ended && h('span', {class: 'slow'}, ' ended')]],
        ['Events', (lease) => figure(number(lease.count)), 'n'],
        ['', (lease) => page.may('operator') && h('button', {on: {click: () => revoke(lease)}}, 'Take away…'), 'do'],
    ], leases, {key: (lease) => lease.lease}));
}

const BLOCKED_SHOWN = 10;

function blockedTable(page, keys, total) {
    const [shown, more] = firstOf(page, 'allBlocked', keys, BLOCKED_SHOWN, total);
    return h('section', {}, h('h2', {}, 'Blocked keys'), table([
        ['Key', (one) => one.key === null ? DASH : word(one.key), 'mono wrap'],
        ['Dead event', (one) => one.event_id ? h('a', {href: page.link('event', one.event_id)}, word(one.type || one.event_id)) : DASH, 'wrap'],
        ['Since', (one) => time(one.since)],
        ['Held behind it', (one) => figure(number(one.held)), 'n'],
        ['', (one) => one.dead_id && h('a', {class: 'button', href: page.link('dead', one.dead_id)}, 'Dead letter'), 'do'],
    ], shown, {key: (one) => one.position}), more);
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
        return {one, leases, retries: await loadRetries(page, one)};
    },
    render(page) {
        const {leases, retries} = page.data;
        const one = newest(page);
        if (!one) {
            return [h('h1', {}, word(page.id)), h('p', {class: 'soft', role: 'status'}, 'Loading…')];
        }
        const trouble = page.state.trouble.filter((item) => item.subscription === page.id ||
            item.row && item.row.name === page.id && item.count === 1);
        const reason = reasonOf(one) || one.not_moving && sentence(one.not_moving);
        return [
            h('p', {class: 'path'}, h('a', {href: page.link('subscriptions')}, 'Subscriptions')),
            h('h1', {}, word(page.id)),
            h('p', {class: 'sub'}, stateWord(one), !trouble.length && reason && [': ', reason]),
            troubleList(trouble, trouble.length, page),
            actions(page, one, page.id),
            history(page, one),
            subscriptionFacts(page, one),
            leases.length > 0 && leaseTable(page, page.id, leases),
            one.running.length > 0 && runningTable(page, one.running, Math.max(page.data.one.in_flight, one.running.length)),
            retrySection(page, one, retries),
            one.partitions.length > 0 && partitionTable(page.data.one),
            one.blocked_keys.length > 0 && blockedTable(page, one.blocked_keys, Math.max(one.blocked, one.blocked_keys.length)),
            optionList(one.options),
        ];
    },
};

/* What the API and the newest sample say, as one: each number once, the sample's where it has one. A pause is taken
 * from the API, which is asked at once after a button. null: no sample has this subscription yet; the last one may be
 * of the page before, and have another. */
function newest(page) {
    const {one} = page.data;
    const row = page.state.subscription;
    if (!row || row.name !== page.id) {
        return null;
    }
    const {paused_at, paused_by, paused_reason, patterns} = one;
    const state = paused_at ? 'paused' : row.state === 'paused' ? 'moving' : row.state;
    return {...one, ...row, state, paused_at, paused_by, paused_reason, patterns, head: row.lag === undefined ? one.head : row.checkpoint + row.lag};
}

function subscriptionFacts(page, one) {
    const shared = one.mode === 'shared';
    return facts([
        ['Takes', one.patterns.map((pattern) => h('code', {}, inert(pattern)))],
        ['Mode', one.mode],
        [shared ? 'Settled' : 'Position', `up to ${number(one.checkpoint)} of ${number(one.head)}`,
            one.lag ? `, ${plural(one.lag, 'position')} behind` : ''],
        shared && ['Handed out', `up to ${number(one.cursor)}`],
        one.owner && ['Owner', h('code', {}, inert(one.owner)), one.owner_alive ? '' : ', which is dead'],
        ['In hand', number(one.in_flight), one.lease_ended ? `, and ${number(one.lease_ended)} whose lease has ended` : ''],
        ['Retrying', number(one.retrying)],
        one.held > 0 && ['Held', `${number(one.held)} behind an earlier event of their key`],
        ['Dead letters', one.dead ? h('a', {href: page.link('dead', '', {subscription: page.id})}, number(one.dead)) : '0'],
        one.breaker && ['Breaker', inert(one.breaker).replace('_', ' '),
            one.breaker_until ? [' until ', time(one.breaker_until)] : ''],
        one.dropped > 0 && ['Dropped', `${plural(one.dropped, 'position')} by retention`],
        ['Made', time(one.created_at)],
    ]);
}
