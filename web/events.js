/*
 * events.js - one event and where it went, searching events, publishing one.
 */
import {h} from './dom.js';
import {age, bytes, clock, DASH, figure, inert, now, number, plural, sentence, time, word} from './format.js';
import * as dialogs from './dialogs.js';
import {get, getText, post, send} from './server.js';
import {attemptTable, payloadBox} from './payload.js';
import {facts, readList, readMore, table} from './tables.js';

const EXPLAINED = 4;

/* ---- The timeline ------------------------------------------------------------------------------ */

const endings = {pending: 'waits', processing: 'in hand', retrying: 'waits to try again',
    held: 'waits behind an earlier event of its key', done: 'done', dead: 'dead', cancelled: 'cancelled'};

function attemptsOf(state) {
    return (state.attempts_json || []).map((attempt) => ({...attempt, at: Date.parse(attempt.at)}))
        .filter((attempt) => !Number.isNaN(attempt.at));
}

function wordsOf(state, page) {
    const failed = state.attempts > 0 ? ` after ${plural(state.attempts, 'failed attempt')}` : '';
    const last = attemptsOf(state).pop();
    const error = last && last.error ? `: ${inert(last.error)}` : '';
    switch (state.state) {
    case 'done':
        return [`done${failed}`];
    case 'dead':
        return [h('a', {href: page.link('dead', state.dead_id)}, `dead after ${plural(state.attempts, 'attempt')}`), error];
    case 'processing':
        return ['in hand', state.node ? [' of ', h('code', {}, inert(state.node))] : '',
            state.since ? [' since ', time(state.since)] : '', failed];
    case 'retrying':
        return [Date.parse(state.next_attempt_at) > now() ? 'tries again at ' : 'due for its next attempt since ',
            time(state.next_attempt_at), `, ${plural(state.attempts, 'attempt')} failed`, error];
    case 'cancelled':
        return ['cancelled', state.cancelled_by ? ` by ${inert(state.cancelled_by)}` : '',
            state.cancel_reason ? `: ${inert(state.cancel_reason)}` : ''];
    default:
        return [endings[state.state] || state.state, failed, state.why ? [': ', sentence(state.why)] : ''];
    }
}

const dots = {done: 'good', dead: 'bad', processing: 'accent', retrying: 'slow', held: 'slow', pending: 'slow',
    cancelled: 'paused'};

const LANES = 40; /* that are shown at first, and how many more each time */
const counted = [['dead', 'dead'], ['retrying', 'retrying'], ['processing', 'in hand'], ['held', 'held'], ['pending', 'waiting'],
    ['cancelled', 'cancelled'], ['done', 'done']];

/* The subscriptions that it is for: by name, or, if they are many, those first of which there is something to say. */
function lanesOf(event) {
    const total = counted.reduce((sum, [state]) => sum + event.state_counts[state], 0);
    const states = total > event.states.length ? event.states
        : [...event.states].sort((a, b) => a.subscription < b.subscription ? -1 : 1);
    return {states, total};
}

/* How many are in which state, if not all are shown. */
function laneCounts(event, total, page) {
    return total > LANES && [h('p', {class: 'small soft'}, `${number(total)} subscriptions: `,
        counted.filter(([state]) => event.state_counts[state] > 0)
            .map(([state, words], i) => [i ? ', ' : '', number(event.state_counts[state]), ' ', words]), '.'),
    event.states.length < total && h('p', {class: 'pager'}, h('button', {on: {click: () => {
        page.local.lanes = event.states.length + LANES;
        page.reload();
    }}}, 'More'), `${number(event.states.length)} are shown, those that matter first.`)];
}

/* One line per subscription; attempts stand where they were on the time axis. When an event was done is not kept:
 * its mark is hollow, and stands behind the last attempt that failed. */
function timeline(event, page) {
    const {states, total} = lanesOf(event);
    const [counts, more] = laneCounts(event, total, page) || [];
    const from = Date.parse(event.entered_at);
    const times = states.flatMap((state) => [...attemptsOf(state).map((a) => a.at), Date.parse(state.next_attempt_at),
        Date.parse(state.since)]).filter((at) => at > from);
    const open = states.some((state) => isOpen(state));
    const last = Math.max(from, ...times);
    const room = last > from ? (last - from) * 1.2 : 60000; /* for what waits, behind the last that is known */
    const to = Math.max(from + 1000, last, open ? Math.min(now(), from + room) : 0);
    const x = (at) => Math.min(100, Math.max(0, (at - from) / (to - from) * 100));
    const ends = [clock(from), '+' + length((to - from) / 2000),
        '+' + length((to - from) / 1000) + (open && now() > to + 1000 ? ', goes on' : '')];
    return h('div', {class: 'timeline'}, counts,
        states.map((state) => h('div', {class: 'lane', key: state.subscription},
            h('div', {class: 'who'}, h('span', {class: `dot ${dots[state.state]}`, 'aria-hidden': 'true'}),
                h('a', {href: page.link('subscriptions', state.subscription)}, inert(state.subscription))),
            h('svg', {class: 'track', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
                h('line', {class: 'axis', x1: 0, x2: 100, y1: 5, y2: 5}), track(state, x, to)),
            h('div', {class: 'said'}, wordsOf(state, page), cancelButton(state, event, page)))),
        h('div', {class: 'lane ends', 'aria-hidden': 'true'}, h('span'), ends.map((text) => h('span', {}, text))),
        more);
}

const isOpen = (state) => ['pending', 'retrying', 'held', 'processing'].includes(state.state);

function length(seconds) {
    return seconds < 120 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : age(seconds);
}

function track(state, x, to) {
    const attempts = attemptsOf(state);
    const last = attempts.length ? attempts[attempts.length - 1].at : null;
    const marks = attempts.map((attempt) => h('rect', {class: 'mark bad', x: Math.min(x(attempt.at), 97), y: 2, width: 2.4,
        height: 6}));
    if (['pending', 'held'].includes(state.state)) {
        marks.push(h('line', {class: 'waits', x1: last ? x(last) + 3 : 0, x2: 100, y1: 5, y2: 5}));
    } else if (state.state === 'retrying') {
        marks.push(h('line', {class: 'waits', x1: x(last || to) + 3, x2: x(Date.parse(state.next_attempt_at)), y1: 5, y2: 5}),
            h('rect', {class: 'mark next', x: Math.min(x(Date.parse(state.next_attempt_at)), 97), y: 2, width: 2.4, height: 6}));
    } else if (state.state === 'processing') {
        const since = state.since ? x(Date.parse(state.since)) : 0;
        marks.push(h('rect', {class: 'mark accent', x: since, y: 2, width: Math.max(2.4, 100 - since), height: 6}));
    } else if (state.state === 'done') {
        marks.push(h('rect', {class: 'mark done', x: last ? Math.min(x(last) + 3, 97) : 0.4, y: 2, width: 2.4, height: 6}));
    }
    return marks;
}

function cancelButton(state, event, page) {
    return page.may('operator') && isOpen(state) && [' ', h('button', {class: 'link', on: {
        click: () => dialogs.form(`Cancel it for ${inert(state.subscription)}?`, {
            words: 'It is settled without a handler, and does not come again.',
            fields: [{name: 'reason', label: 'Reason'}],
            action: 'Cancel the event',
            danger: true,
            run: async ({reason}) => {
                await post(page.namespace, `events/${encodeURIComponent(event.id)}/cancel`,
                    {subscription: state.subscription, ...(reason ? {reason} : {})});
                page.reload();
            },
        }),
    }}, 'Cancel…')];
}

/* Why it waits: what the library says of the first subscriptions for which it does. */
async function explain(page, states) {
    const waiting = states.filter((state) => state.state === 'pending').slice(0, EXPLAINED);
    await Promise.all(waiting.map(async (state) => {
        try {
            state.why = (await get(page.namespace, `subscriptions/${encodeURIComponent(state.subscription)}`)).not_moving;
        } catch (error) {
            /* It has just been removed. */
        }
    }));
}

export const event = {
    title: 'Event',
    live: {limit: 0},
    every: 3000,
    async load(page) {
        const path = `events/${encodeURIComponent(page.id)}`;
        if (!page.data) {
            const [one, payload] = await Promise.all([get(page.namespace, `${path}?states=none`), getText(page.namespace, `${path}/payload`)]);
            setTimeout(() => page.reload(), 0); /* where it went takes longer if there are many subscriptions */
            return {one, payload, known: false};
        }
        const one = await get(page.namespace, `${path}?states=for_it&states_max=${page.local.lanes || LANES}`);
        await explain(page, one.states);
        return {one, payload: page.data.payload, known: true};
    },
    render(page) {
        const {one, payload, known} = page.data;
        const failed = one.states.filter((state) => state.attempts_json && state.attempts_json.length);
        return [
            h('p', {class: 'path'}, h('a', {href: page.link('search')}, 'Search')),
            h('h1', {class: 'mono-title'}, word(one.type)),
            h('div', {class: 'event'},
                h('section', {}, facts([
                    ['Position', number(one.position)], ['Id', h('code', {}, one.id)],
                    ['Key', one.key === null ? DASH : h('code', {}, inert(one.key))],
                    one.tenant !== null && ['Tenant', h('code', {}, inert(one.tenant))],
                    ['Entered', time(one.entered_at, true)],
                    one.producer !== null && ['Producer', h('code', {}, inert(one.producer))],
                    one.metadata !== null && ['Metadata', h('code', {}, word(one.metadata.slice(0, 4000)))],
                ], ''), payloadBox(page, payload)),
                h('section', {}, h('h2', {class: 'first'}, 'Where it went'),
                    one.states.length ? timeline(one, page)
                        : h('p', {class: 'soft'}, known ? 'No subscription takes it.' : 'Looking at all subscriptions…'))),
            failed.map((state) => h('section', {key: state.subscription},
                h('h2', {}, `Failed attempts of ${inert(state.subscription)}`), attemptTable(state.attempts_json))),
        ];
    },
};

/* ---- Search ------------------------------------------------------------------------------------ */

const isId = (text) => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);

function eventTable(items, page) {
    return table([
        ['Type', (one) => h('a', {href: page.link('event', one.id)}, word(one.type)), 'name'],
        ['Key', (one) => one.key === null ? DASH : h('span', {class: 'more'}, word(one.key)), 'mono wrap'],
        ['Entered', (one) => time(one.entered_at)],
        ['Position', (one) => figure(number(one.position)), 'n'],
        ['Size', (one) => bytes(one.payload_bytes), 'n wide'],
    ], items, {key: (one) => one.id});
}

function stopLooking(page) {
    page.local.looking = false;
    page.redraw();
}

/* Reads the log backwards until as many events more are found as the page shows at once, or the reader stops it. */
async function lookBack(page) {
    const list = page.data;
    const wanted = list.items.length + 50;
    page.local.looking = true;
    while (page.local.looking && page.data === list && page.isShown() && list.next !== null && list.items.length < wanted) {
        await dialogs.act(() => readMore(page, list, 'before').catch((error) => {
            page.local.looking = false;
            throw error;
        }));
    }
    stopLooking(page);
}

export const search = {
    title: 'Search',
    live: {limit: 0},
    async load(page) {
        const params = new URLSearchParams({limit: '50'});
        for (const name of ['type', 'key']) {
            if (page.query[name]) {
                params.set(name, page.query[name]);
            }
        }
        const list = await readList(page, `search?${params}`);
        if (!list.items.length && list.next !== null) {
            setTimeout(() => lookBack(page), 0); /* when this is what the page shows */
        }
        return list;
    },
    render(page) {
        const list = page.data;
        const submit = (e) => {
            e.preventDefault();
            const values = Object.fromEntries(new FormData(e.target));
            const id = values.id.trim();
            if (isId(id) || /^\d+$/.test(id)) {
                page.go('event', id);
            } else if (id) {
                dialogs.say('An id has the form 01a1e3f1-a158-702d-862b-b75a1e0a8428; a position is a number.', true);
            } else {
                page.setQuery({type: values.type.trim(), key: values.key});
                page.reload();
            }
        };
        const filtered = page.query.type || page.query.key;
        return [
            h('h1', {}, 'Search'),
            h('p', {class: 'sub'}, 'Events of the log, the newest first.'),
            h('form', {class: 'filters', role: 'search', on: {submit}},
                h('label', {}, 'Id or position ', h('input', {name: 'id', type: 'search', id: 'search'})),
                h('label', {}, 'Type ', h('input', {name: 'type', type: 'search', placeholder: 'user.*',
                    value: page.query.type || ''})),
                h('label', {}, 'Key ', h('input', {name: 'key', type: 'search', value: page.query.key || ''})),
                h('button', {class: 'primary'}, 'Search'),
                page.may('operator') && h('button', {type: 'button', on: {click: () => publishDialog(page)}}, 'Publish…')),
            list.items.length ? eventTable(list.items, page) : !page.local.looking &&
                h('p', {class: 'soft'}, list.next !== null ? 'None so far.' : filtered ? 'The log has none.' : 'The log is empty.'),
            list.next !== null && h('p', {class: 'pager', role: 'status'},
                h('button', {on: {click: () => page.local.looking ? stopLooking(page) : lookBack(page)}},
                    page.local.looking ? 'Stop' : 'Look further back'),
                `${page.local.looking ? 'Looking through the log, so far d' : 'D'}own to position ${number(Number(list.next))}.`),
        ];
    },
};

export function publishDialog(page) {
    dialogs.form('Publish an event', {
        fields: [{name: 'type', label: 'Type', required: true, placeholder: 'user.created'},
            {name: 'key', label: 'Key'},
            {name: 'payload', label: 'Payload (JSON)', kind: 'area', rows: 8, value: '{}'}],
        action: 'Publish',
        run: async ({type, key, payload}) => {
            JSON.parse(payload); /* only to say at once what is wrong: the text itself is sent */
            const receipt = await send('POST', page.namespace, 'events',
                `{"type":${JSON.stringify(type)}${key ? `,"key":${JSON.stringify(key)}` : ''},"payload":${payload}}`);
            dialogs.say(`Published at position ${number(receipt.position)}.`);
            page.go('event', receipt.id);
        },
    });
}
