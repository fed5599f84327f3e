/*
 * overview.js - is all well? A sentence, what needs a person, charts, subscriptions, the flow.
 */
import {h} from './dom.js';
import {age, ageOf, asSentence, atLeast, clock, DASH, figure, inert, number, plural, quote, rate, sentence, span, time, word}
    from './format.js';
import {chart, flowPicture, spark} from './charts.js';
import * as dialogs from './dialogs.js';
import {post} from './server.js';
import {table} from './tables.js';
import {deadReason, filterOf, retryDialog} from './dead.js';

/* ---- States ------------------------------------------------------------------------------------ */

const stateWords = {
    no_worker: 'not moving', owner_dead: 'not moving', breaker: 'breaker open', blocked: 'blocked',
    retrying: 'retrying', held_back: 'held back', standing: 'standing still', falling_behind: 'falling behind',
    catching_up: 'catching up', moving: 'moving', paused: 'paused', up_to_date: 'up to date',
};
const badStates = new Set(['no_worker', 'owner_dead', 'breaker', 'blocked']);
const slowStates = new Set(['retrying', 'held_back', 'standing', 'falling_behind', 'catching_up']);

/* One that is behind and takes no further events stands still, although the library has no reason. */
function stateOf(row) {
    if (row.state !== 'catching_up') {
        return row.state;
    }
    return row.now_rate === 0 ? 'standing' : row.nearer === null ? 'falling_behind' : 'catching_up';
}

export function styleOf(row) {
    if (badStates.has(row.state) && (row.pending > 0 || row.retrying > 0 || row.state !== 'no_worker')) {
        return 'bad';
    }
    if (row.dead > 0) {
        return 'bad';
    }
    return slowStates.has(stateOf(row)) ? 'slow' : row.state === 'paused' ? 'paused' : 'good';
}

/* The library's sentence, without what the state says already. */
function shortReason(reason) {
    return sentence(reason.replace(/^no worker is running for it: .*/, 'no worker is running')
        .replace(/^its owner (.*) is dead and no other process has taken over$/, 'its worker $1 has died')
        .replace(/^its circuit breaker is open: /, ''));
}

/* How long until it has caught up, in seconds; null: it does not, or that is not known. */
function untilDone(row) {
    return row.nearer > 0 && row.lag > 0 ? row.lag / row.nearer : null;
}

/* What stands below the state. */
export function reasonOf(row) {
    if (row.state === 'paused') {
        return ['by ', inert(row.paused_by || 'an unnamed user'), ' since ', time(row.paused_at),
            row.paused_reason ? `: ${quote(row.paused_reason)}` : ''];
    }
    if (row.blocked > 0 && !badStates.has(row.state)) {
        return [plural(row.blocked, 'key waits', 'keys wait'), ' behind dead letters'];
    }
    if (row.dead > 0 && !badStates.has(row.state)) {
        return [plural(row.dead, 'event has died', 'events have died')];
    }
    if (row.state === 'catching_up') {
        const stands = stateOf(row) === 'standing';
        const rest = stands ? null : untilDone(row);
        return [`${span(ageOf(row.oldest_waiting))} behind`, rest ? `, done in about ${span(rest)}` : '',
            stands && row.in_flight ? `; ${number(row.in_flight)} in hand, and no others are taken` : ''];
    }
    return row.not_moving ? [shortReason(row.not_moving)] : null;
}

export function stateWord(row) {
    return h('span', {class: 'word'}, h('span', {class: `dot ${styleOf(row)}`, 'aria-hidden': 'true'}), stateWords[stateOf(row)]);
}

/* ---- The table of subscriptions ---------------------------------------------------------------- */

const isHot = (row) => badStates.has(row.state) && styleOf(row) === 'bad';

const columns = (page) => [
    ['Name', (row) => h('a', {class: 'more', href: page.link('subscriptions', row.name), title: inert(row.name)}, word(row.name)), 'name'],
    ['State', (row) => [stateWord(row), h('span', {class: 'why'}, reasonOf(row))], 'state'],
    ['Waiting', (row) => figure(atLeast(row.pending, row.pending_more)), 'n'],
    ['Oldest', (row) => figure(age(ageOf(row.oldest_waiting)),
        row.state === 'paused' ? '' : isHot(row) ? 'bad' : styleOf(row) === 'slow' ? 'slow' : ''), 'n'],
    ['A second', (row) => figure(rate(row.now_rate)), 'n wide'],
    ['15 min', (row) => spark(row.spark, isHot(row) ? 'bad' : ''), 'n wide'],
    ['In hand', (row) => figure(number(row.in_flight)), 'n wide'],
    ['Retrying', (row) => figure(number(row.retrying)), 'n wide'],
    ['Dead', (row) => figure(number(row.dead), 'bad'), 'n'],
];

export function subscriptionTable(rows, page) {
    return table(columns(page), rows, {class: 'subscriptions', key: (row) => row.name, row: (row) => isHot(row) ? 'hot' : ''});
}

/* ---- Trouble ----------------------------------------------------------------------------------- */

const name = (text) => h('b', {}, inert(text));

/* To the page of a subscription, unless this is it. */
function showLink(row, page) {
    return page.id !== row.name && h('a', {class: 'button', href: page.link('subscriptions', row.name)}, 'Show');
}

function waiting(row) {
    if (row.pending > 0 || row.pending_more) {
        return [row.pending_more ? `At least ${plural(row.pending, 'event waits', 'events wait')}`
            : plural(row.pending, 'event waits', 'events wait'),
        row.oldest_waiting ? [', the oldest since ', time(row.oldest_waiting)] : '', '.'];
    }
    return row.oldest_waiting ? ['The oldest event waits since ', time(row.oldest_waiting), '.'] : null;
}

const quoted = (text) => /^[\w.,:@%+\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/* The option of commands that names the page's namespace. */
export const optionOf = (page) => page.namespace === 'default' ? '' : ` --namespace ${quoted(page.namespace)}`;

/* How to start a worker for a subscription, as commands. */
export function howToStart(row, page) {
    const where = optionOf(page);
    const shared = row.mode === 'shared';
    const lines = [
        '# each event as JSON on stdin; exit 0: done, 75: try again',
        `holdfast work ${quoted(row.name)}${where}${shared ? ' --mode shared' : ''}` +
            row.patterns.map((pattern) => ` --on ${quoted(pattern)}`).join('') + ' --exec ./handler',
    ];
    if (shared) {
        lines.push('', '# or by hand', `holdfast claim ${quoted(row.name)}${where} --max 10`);
    }
    dialogs.commands(`How to start a worker for ${inert(row.name)}`,
        'On a machine that reaches the database, with HOLDFAST_URL set to it:', lines);
}

const severalWords = {no_worker: 'have no worker', owner_dead: 'have lost their worker, and no other has taken over',
    breaker: 'have an open breaker', retrying: 'wait to try again', catching_up: 'are more than five minutes behind',
    blocked: 'stand still: all that is left waits behind dead letters'};

/* Many subscriptions with the same trouble; item.row is the one whose oldest event waits longest. */
function severalLine(item, page) {
    const row = item.row;
    return {
        words: [h('b', {}, `${number(item.count)} subscriptions`), ' ',
            severalWords[row.state] || 'have keys that wait behind dead letters', '.'],
        more: ['One of them is ', h('a', {href: page.link('subscriptions', row.name)}, inert(row.name)),
            row.oldest_waiting ? [', whose oldest event waits since ', time(row.oldest_waiting)] : '', '.'],
        remedies: [h('a', {class: 'button', href: page.link('subscriptions', '', {only: 'attention'})}, 'Show')],
    };
}

function stillLine(item, page) {
    const row = item.row;
    const open = showLink(row, page);
    const since = row.oldest_waiting && Date.parse(row.oldest_waiting) < Date.parse(item.since)
        ? row.oldest_waiting : item.since;
    const lasted = span(ageOf(since));
    const reason = row.state === 'no_worker' && row.mode !== 'shared'
        ? 'no worker is running for it' : sentence(row.not_moving);
    return {
        words: [name(row.name), row.state === 'retrying' ? ' waits to try again: ' : ` has not moved for ${lasted}: `,
            reason, '.'],
        more: waiting(row),
        remedies: row.state === 'no_worker' || row.state === 'owner_dead'
            ? [h('button', {on: {click: () => howToStart(row, page)}}, 'How to start one')] : [open],
    };
}

/* Words that begin a sentence. */
const capital = ([first, ...rest]) => [first.charAt(0).toUpperCase() + first.slice(1), ...rest];

/* Letters of one subscription with one error. If there are very many in the namespace only the newest were looked at. */
function deadLine(item, page) {
    const {attempts_min: least, attempts_max: most, looked_at: newest} = item;
    const attempts = most === 0 ? 'without an attempt' : least === most ? `after ${plural(most, 'attempt')}`
        : `after ${least} to ${plural(most, 'attempt')}`;
    const filter = filterOf(item);
    const why = item.error ? [h('q', {}, inert(item.error).slice(0, 200))] : [deadReason(item.reason), '.'];
    const joint = item.error ? item.count === 1 ? ': ' : ' with one error: ' : ' without an error: ';
    const has = (count) => [name(item.subscription), ` has ${plural(count, 'dead letter')}`];
    const oneTime = item.count === 1 || clock(Date.parse(item.since)) === clock(Date.parse(item.last));
    const times = oneTime ? ['at ', time(item.last), item.count === 1 ? ',' : ', all'] : ['since ', time(item.since), ', the last at ', time(item.last), ', all'];
    return {
        words: newest === null ? [has(item.count), joint, why]
            : [has(item.row ? item.row.dead : item.count), item.row ? '' : ' or more',
                `; of the newest ${number(newest)} of the namespace ${number(item.count)} ${item.count === 1 ? 'is' : 'are'} its own`, joint, why],
        more: [newest === null ? '' : `Those ${number(item.count)} died `, newest === null ? capital(times) : times, ` ${attempts}.`,
            !item.row ? ' The subscription is not there any more.' : item.row.blocked > 0
                ? ` ${plural(item.row.blocked, 'key waits', 'keys wait')} behind such letters, with ${plural(item.row.held, 'event')}.` : ''],
        remedies: [
            page.may('operator') && item.row && h('button', {class: 'primary', on: {
                click: () => retryDialog(page, filter),
            }}, newest === null ? `Retry ${number(item.count)}…` : 'Retry…'),
            h('a', {class: 'button', href: page.link('dead', '', filter)}, 'Show'),
        ],
    };
}

const lines = {
    still: stillLine,
    dead: deadLine,
    blocked: (item, page) => ({
        words: [`${plural(item.row.blocked, 'key')} of `, name(item.row.name),
            item.row.blocked === 1 ? ' waits behind a dead letter.' : ' wait behind dead letters.'],
        more: [plural(item.row.held, 'event is', 'events are'), ' held until ',
            item.row.blocked === 1 ? 'it is' : 'they are', ' retried or resolved.'],
        remedies: [
            page.may('operator') && item.row.dead > 0 && h('button', {class: 'primary', on: {
                click: () => retryDialog(page, {subscription: item.row.name}),
            }}, `Retry ${number(item.row.dead)}…`),
            showLink(item.row, page)],
    }),
    held_back: (item, page) => ({
        words: [name(item.row.name), item.count > 1 ? ` and ${plural(item.count - 1, 'other')}` : '', ': ',
            sentence(item.row.not_moving), '.'],
        more: ['Since ', time(item.since), '.'],
        remedies: [showLink(item.row, page)],
    }),
    behind: (item, page) => {
        const rest = untilDone(item.row);
        return {
            words: [name(item.row.name), ` is ${span(ageOf(item.row.oldest_waiting))} behind`,
                rest ? `, and will have caught up in about ${span(rest)}.` : ', and comes no nearer.'],
            more: waiting(item.row),
            remedies: [showLink(item.row, page)],
        };
    },
    later: (item, page) => overdue(item, page, 'event for later is', 'events for later are'),
    schedules: (item, page) => overdue(item, page, 'schedule is', 'schedules are'),
    node: (item, page) => ({
        words: ['The process ', name(item.node), ' shows no sign of life, and has not ended.'],
        more: ['Last seen at ', time(item.since), '.'],
        remedies: [h('a', {class: 'button', href: page.link('nodes')}, 'Show')],
    }),
};

function overdue(item, page, one, many) {
    return {
        words: [`${plural(item.count, one, many)} overdue: no process brings what is due.`],
        more: ['The first since ', time(item.since), '.'],
        remedies: [
            page.may('operator') && h('button', {class: 'primary', on: {
                click: () => dialogs.act(() => post(page.namespace, 'tick'), 'What was due has been brought.'),
            }}, 'Bring it now'),
            h('a', {class: 'button', href: page.link('later')}, 'Show'),
        ],
    };
}

const TROUBLE_SHOWN = 6; /* lines; the rest when it is asked for */

export function troubleList(items, total, page) {
    if (!items.length) {
        return null;
    }
    const shown = page.local.allTrouble ? items : items.slice(0, TROUBLE_SHOWN);
    const more = total - shown.length;
    return h('ul', {class: 'trouble', 'aria-label': 'What needs attention'},
        shown.map((item) => {
            const several = item.row && item.count > 1 && !['held_back', 'dead'].includes(item.kind);
            const line = (several ? severalLine : lines[item.kind])(item, page);
            const of = several ? item.row.state : item.subscription || item.node || (item.row ? item.row.name : '');
            return h('li', {key: `${item.kind} ${of} ${item.error || item.reason || ''}`},
                h('span', {class: `dot ${item.bad ? 'bad' : 'slow'}`, 'aria-hidden': 'true'}),
                h('div', {class: 'words'}, line.words, line.more && h('small', {}, line.more)),
                h('div', {class: 'remedies'}, line.remedies));
        }),
        more > 0 && h('li', {key: 'more'}, h('span'), h('div', {class: 'words soft'}, `… and ${plural(more, 'more thing')}.`),
            h('div', {class: 'remedies'}, shown.length < items.length &&
                h('button', {on: {click: () => { page.local.allTrouble = true; page.redraw(); }}}, 'Show them'))));
}

/* ---- The page ---------------------------------------------------------------------------------- */

function subline(state) {
    const totals = state.totals;
    if (state.failure) {
        return [asSentence(state.failure), ' Since ', time(state.failing_since), '; these are the last numbers.'];
    }
    if (!totals.subscriptions) {
        return totals.head > 0 ? [`${plural(totals.head, 'event')} in the log, and no subscription yet.`]
            : ['Nothing was published yet, and there is no subscription.'];
    }
    const waits = totals.oldest_unpaused ? `the oldest waits ${age(ageOf(totals.oldest_unpaused))}`
        : 'nothing waits';
    const moving = totals.published === null ? '' : `${rate(totals.published)} events a second, `;
    const text = `${moving}${waits}.`;
    return [text.charAt(0).toUpperCase() + text.slice(1),
        totals.paused ? ` ${plural(totals.paused, 'subscription is paused', 'subscriptions are paused')}.` : ''];
}

export function charts(state, page) {
    const points = state.points || [];
    const to = Date.parse(state.at);
    const from = to - page.range * 1000;
    const totals = state.totals;
    const column = (index) => points.map((point) => [point[0], point[index]]);
    const died = column(5);
    const oldest = totals.oldest_unpaused ? ageOf(totals.oldest_unpaused) : 0;
    const common = {from, to, redraw: page.redraw};
    return h('section', {class: 'charts', 'aria-label': 'Charts'},
        chart(column(1), {...common, key: 'published', label: 'Published', value: rate(totals.published),
            unit: 'a second', of: 'a second', show: rate}),
        chart(column(2), {...common, key: 'delivered', label: 'Delivered', value: rate(totals.delivered) + (totals.delivered_more ? '+' : ''),
            unit: 'a second', of: 'a second', show: rate}),
        chart(column(3), {...common, key: 'oldest', label: 'Oldest waiting',
            value: totals.oldest_unpaused ? age(oldest) : DASH,
            unit: totals.oldest_unpaused ? inert(totals.oldest_subscription) : 'nothing waits', show: age,
            style: oldest > 60 ? 'bad' : ''}),
        chart(died, {...common, key: 'died', label: 'Dead letters', value: number(totals.dead),
            unit: totals.died > 0 ? `open, ${rate(totals.died)} a second` : 'open', of: 'a second', show: rate,
            style: died.some((point) => point[1] > 0) ? 'bad' : ''}));
}

export function flowSection(state, page, title) {
    const picture = state.flow && flowPicture(state.flow, page.narrow(), (sub) => page.link('subscriptions', sub));
    const more = state.flow ? state.flow.subscriptions_total - state.flow.subscriptions.length : 0;
    return h('section', {}, title && h('h2', {}, title),
        !state.flow ? null : picture || h('p', {class: 'soft'}, 'No event entered the log within the last minute.'),
        picture && (state.flow.others > 0 || more > 0) && h('p', {class: 'soft small'},
            state.flow.others > 0 ? `${rate(state.flow.others)} a second are of other types. ` : '',
            more > 0 ? `${plural(more, 'subscription is', 'subscriptions are')} not shown.` : ''));
}

export const overview = {
    title: 'Overview',
    ranged: true,
    live: {limit: 12, flow: true},
    render(page) {
        const state = page.state;
        const rows = state.rows || []; /* the page before may not have watched them */
        return [
            h('h1', {'aria-live': 'polite'}, page.lostAt === null ? state.headline : `What was known at ${clock(Date.parse(state.at))}`),
            h('p', {class: 'sub'}, subline(state)),
            troubleList(state.trouble, state.trouble_total, page),
            charts(state, page),
            h('section', {}, h('h2', {}, 'Subscriptions'),
                !state.rows ? null : rows.length ? subscriptionTable(rows, page) : emptySubscriptions(page),
                state.rows_total > rows.length && h('p', {class: 'small'},
                    h('a', {href: page.link('subscriptions')}, `All ${number(state.rows_total)} subscriptions`))),
            flowSection(state, page, 'Flow'),
        ];
    },
};

export function emptySubscriptions(page) {
    const where = inert(optionOf(page));
    return h('div', {class: 'empty'}, h('p', {}, 'There is no subscription yet. The first line makes one, and works for it; the second publishes an event:'),
        h('pre', {tabindex: '0'}, `holdfast work mailer${where} --on 'user.*' --exec ./handler\n` +
            `holdfast publish${where} user.created '{"id": 7}'`));
}

export const flow = {
    title: 'Flow',
    live: {limit: 0, flow: true},
    render(page) {
        return [
            h('h1', {}, 'Flow'),
            h('p', {class: 'sub'}, 'What entered the log within the last minute, and where it goes. A line is as ' +
                'wide as the rate; it is broken and red where the subscription does not move.'),
            flowSection(page.state, page),
            flowTable(page),
        ];
    },
};

/* The same in words, for who cannot see the picture. */
function flowTable(page) {
    const picture = page.state.flow;
    if (!picture || !picture.types.length) {
        return null;
    }
    const goesTo = (type) => {
        const index = picture.types.indexOf(type);
        const to = picture.subscriptions.filter((one) => one.types.includes(index));
        return to.length ? to.map((one, i) => [i ? ', ' : '', h('a', {href: page.link('subscriptions', one.name)}, word(one.name))])
            : h('span', {class: 'soft'}, picture.subscriptions_total > picture.subscriptions.length ? DASH : 'no subscription');
    };
    return h('section', {}, h('h2', {}, 'Types'), table([
        ['Type', (type) => h('a', {href: page.link('search', '', {type: type.name})}, word(type.name)), 'name'],
        ['A second', (type) => figure(rate(type.rate)), 'n'],
        ['Goes to', goesTo, 'wrap'],
    ], picture.types, {key: (type) => type.name}));
}
