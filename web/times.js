/*
 * times.js - what happens by the clock (events for later, schedules), and the processes.
 */
import {h} from './dom.js';
import {age, ageOf, bytes, DASH, inert, number, plural, quote, time, word} from './format.js';
import * as dialogs from './dialogs.js';
import {optionOf} from './overview.js';
import {pauseDialog, resume} from './pauses.js';
import {get, post, send} from './server.js';
import {facts, moreButton, readList, table} from './tables.js';

const kinds = {fired: 'fired', by_hand: 'run by hand', skipped: 'missed'};

function inFuture(text) {
    const seconds = text === null ? null : -ageOf(text);
    return seconds === null ? DASH : seconds < 0 ? `${age(-seconds)} ago` : `in ${age(seconds)}`;
}

/* ---- Schedules --------------------------------------------------------------------------------- */

function scheduleActions(page, one) {
    const path = `schedules/${encodeURIComponent(one.name)}`;
    const run = () => dialogs.confirm(`Run ${inert(one.name)} now?`, 'It publishes its event now. Its next time stays.',
        'Run now', async () => {
            const receipt = await post(page.namespace, `${path}/run`);
            dialogs.say(`Published at position ${number(receipt.position)}.`);
            page.reload();
        }, false);
    const pause = () => pauseDialog(page, path, one.name, 'It fires nothing until it is resumed; times missed meanwhile are skipped.');
    return page.may('operator') && [
        h('button', {on: {click: run}}, 'Run now…'), ' ',
        one.paused_at ? h('button', {on: {click: () => resume(page, path, one.name)}}, 'Resume') : h('button', {on: {click: pause}}, 'Pause…'),
    ];
}

function scheduleTable(page, schedules) {
    return table([
        ['Name', (one) => h('a', {class: 'more', href: page.link('schedule', one.name)}, word(one.name)), 'name'],
        ['When', (one) => [h('code', {}, inert(one.expression)), h('span', {class: 'why'}, inert(one.zone || 'UTC'))]],
        ['Next', (one) => one.paused_at
            ? [h('span', {class: 'dot paused', 'aria-hidden': 'true'}), 'paused', h('span', {class: 'why'}, pausedBy(one))]
            : [time(one.next_at), h('span', {class: 'why'}, inFuture(one.next_at))], 'wrap'],
        ['Event', (one) => word(one.type), 'wide mono wrap'],
        ['', (one) => scheduleActions(page, one), 'do'],
    ], schedules, {key: (one) => one.name});
}

const pausedBy = (one) => ['by ', inert(one.paused_by || 'an unnamed user'), one.paused_reason ? `: ${quote(one.paused_reason)}` : ''];

/* The next times; behind them the first one at which the clocks are changed, if it is not among them. */
function comingTable(coming) {
    return table([
        ['When', (one) => [time(one.at), h('span', {class: 'why'}, inFuture(one.at))]],
        ['In its zone', (one) => `${one.local.slice(0, 10)} ${one.local.slice(11, 19)} ${inert(one.abbreviation)}`],
        ['', (one) => one.note && [h('span', {class: 'dot slow', 'aria-hidden': 'true'}), inert(one.note)], 'wrap'],
    ], coming, {key: (one) => one.at});
}

function runTable(page, runs) {
    return table([
        ['Planned', (run) => [time(run.planned_at), run.until_at && run.kind === 'skipped' ? [' to ', time(run.until_at)] : '']],
        ['What', (run) => h('span', {class: run.kind === 'skipped' && 'slow'}, kinds[run.kind] || run.kind)],
        ['When', (run) => time(run.fired_at)],
        ['Event', (run) => run.position ? h('a', {href: page.link('event', run.event_id || run.position)}, number(run.position)) : DASH, 'n'],
        ['By', (run) => word(run.node || DASH), 'mono wide'],
    ], runs);
}

export const schedule = {
    title: (page) => page.id,
    live: {limit: 0},
    every: 5000,
    load: (page) => get(page.namespace, `schedules/${encodeURIComponent(page.id)}`),
    render(page) {
        const one = page.data;
        const remove = () => dialogs.confirm(`Remove ${inert(one.name)}?`, 'It fires no more. Its events stay.', 'Remove',
            async () => {
                await send('DELETE', page.namespace, `schedules/${encodeURIComponent(one.name)}`);
                page.go('later');
            });
        return [
            h('p', {class: 'path'}, h('a', {href: page.link('later')}, 'Later and schedules')),
            h('h1', {}, inert(one.name)),
            h('div', {class: 'actions left'}, scheduleActions(page, one),
                page.may('admin') && h('button', {class: 'quiet', on: {click: remove}}, 'Remove…')),
            facts([
                ['When', h('code', {}, inert(one.expression)), ' ', inert(one.zone || 'UTC')],
                one.paused_at && ['Paused', time(one.paused_at), ' ', pausedBy(one)],
                ['Event', h('code', {}, inert(one.type))],
                ['Payload', h('code', {}, inert(one.payload ?? DASH).slice(0, 2000))],
                ['Missed times', {skip: 'are skipped', once: 'fire once', all: `fire, up to ${number(one.misfire_cap)}`}[one.misfire]],
            ]),
            !one.paused_at && one.coming.length > 0 && h('section', {}, h('h2', {}, 'Next times'), comingTable(one.coming)),
            h('section', {}, h('h2', {}, 'What became of its times'), one.runs.length ? runTable(page, one.runs)
                : h('p', {class: 'soft'}, 'It has not fired yet.')),
        ];
    },
};

const example = (words, command) => h('div', {class: 'empty'}, h('p', {}, words), h('pre', {tabindex: '0'}, inert(command)));

/* ---- Events for later -------------------------------------------------------------------------- */

function laterTable(page, items) {
    const move = (one) => dialogs.form('Move it to another time', {
        fields: [{name: 'at', label: 'When', required: true, value: one.due_at, note: 'a time such as 2026-01-31T12:00:00Z'}],
        action: 'Move it',
        run: async ({at}) => {
            await post(page.namespace, `later/${encodeURIComponent(one.id)}/move`, {deliver_at: at});
            page.reload();
        },
    });
    const cancel = (one) => dialogs.confirm('Take it away?', 'It does not enter the log. This cannot be undone.', 'Take it away',
        async () => {
            await send('DELETE', page.namespace, `later/${encodeURIComponent(one.id)}`);
            page.reload();
        });
    return table([
        ['Due', (one) => [time(one.due_at), h('span', {class: 'why'}, inFuture(one.due_at))]],
        ['Type', (one) => word(one.type), 'name'],
        ['Key', (one) => one.key === null ? DASH : h('span', {class: 'more'}, word(one.key)), 'mono wrap'],
        ['Size', (one) => bytes(one.payload_bytes), 'n wide'],
        ['', (one) => page.may('operator') && [h('button', {on: {click: () => move(one)}}, 'Move…'), ' ',
            h('button', {on: {click: () => cancel(one)}}, 'Take away…')], 'do'],
    ], items, {key: (one) => one.id});
}

export const later = {
    title: 'Later and schedules',
    live: {limit: 0},
    every: 5000,
    async load(page) {
        const [waiting, schedules] = await Promise.all([readList(page, 'later?limit=50', page.data && page.data.waiting),
            get(page.namespace, 'schedules?limit=1000')]);
        return {waiting, schedules: schedules.items};
    },
    render(page) {
        const {waiting, schedules} = page.data;
        const totals = page.state.totals;
        return [
            h('h1', {}, 'Later and schedules'),
            h('p', {class: 'sub'}, `${plural(totals.later ?? 0, 'event waits', 'events wait')} for ${totals.later === 1 ? 'its' : 'their'} time`,
                totals.later_due ? `, ${number(totals.later_due)} of them due` : '', `; ${plural(schedules.length, 'schedule')}.`),
            h('section', {}, h('h2', {}, 'Schedules'), schedules.length ? scheduleTable(page, schedules)
                : example('There is none. This adds one:', `holdfast schedule add report '0 9 * * MON-FRI' report.due --zone Europe/Berlin${optionOf(page)}`)),
            h('section', {}, h('h2', {}, 'Events for later'), waiting.items.length ? laterTable(page, waiting.items)
                : example('None waits. This publishes one:', `holdfast publish user.reminded '{"id": 7}' --delay 2d${optionOf(page)}`),
            moreButton(page, waiting)),
        ];
    },
};

/* ---- Nodes ------------------------------------------------------------------------------------- */

const nodeStyles = {live: 'good', stale: 'slow', gone: 'paused'};

function nodeWord(node) {
    if (node.state === 'gone') {
        return node.stopped_at ? 'stopped' : 'gone without a word';
    }
    return node.state === 'stale' ? 'no sign of life' : 'live';
}

export const nodes = {
    title: 'Nodes',
    live: {limit: 0},
    every: 3000,
    load: async (page) => (await get(page.namespace, 'nodes?limit=1000')).items,
    render(page) {
        const order = ['stale', 'live', 'gone'];
        const list = [...page.data].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
        const live = list.filter((node) => node.state === 'live').length;
        return [
            h('h1', {}, 'Nodes'),
            h('p', {class: 'sub'}, `${plural(live, 'process has', 'processes have')} the namespace open.`),
            table([
                ['Node', (node) => [word(node.name || node.node_id), node.description && h('span', {class: 'why'}, word(node.description))], 'name'],
                ['State', (node) => [h('span', {class: `dot ${nodeStyles[node.state]}`, 'aria-hidden': 'true'}), nodeWord(node)]],
                ['Host', (node) => word(node.host || DASH), 'mono wide'],
                ['Process', (node) => node.pid === null ? DASH : String(node.pid), 'mono wide'],
                ['Version', (node) => inert(node.version || DASH), 'wide'],
                ['Since', (node) => time(node.started_at)],
                ['Seen', (node) => time(node.seen_at)],
            ], list, {key: (node) => node.node_id}),
        ];
    },
};
