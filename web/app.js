/*
 * app.js - the frame: which page is shown, the namespace, the theme, keys, logging in.
 *
 * The address is #/NAMESPACE/PAGE/ID?QUERY. A page is {title, live, load, every, render}: `live` is
 * what it watches of the stream, `load` asks the API for the rest (again every so many ms), and
 * render(page) describes it as a whole, whenever something has changed.
 */
import {h, show, whenDrawn} from './dom.js';
import {asSentence, clock, inert, lookUpZone, now, number, span, zone} from './format.js';
import {Live, loadSession, logIn, logOut, session, takeFirstSession, whenLoggedOut} from './server.js';
import * as dialogs from './dialogs.js';
import {flow, overview} from './overview.js';
import {subscription, subscriptions} from './subscriptions.js';
import {event, publishDialog, search} from './events.js';
import {deadLetter, deadLetters} from './dead.js';
import {later, nodes, schedule} from './times.js';

const menu = [['', 'Overview', 'o'], ['flow', 'Flow', 'f'], ['subscriptions', 'Subscriptions', 's'], ['dead', 'Dead letters', 'd'],
    ['later', 'Later and schedules', 'l'], ['nodes', 'Nodes', 'n'], ['search', 'Search', 'e']];
const pages = {'': overview, flow, subscriptions, dead: deadLetters, later, nodes, search};
const details = {subscriptions: subscription, dead: deadLetter, event, schedule};
const parents = {event: 'search', schedule: 'later'};
const roles = ['none', 'viewer', 'operator', 'admin'];
const OLD_MS = 10000; /* numbers that are older than this are not live */
const LOAD_PART = 10; /* loading takes at most one part in so many of the time */
const ranges = [[900, '15 min'], [3600, '1 hour']];

const narrow = matchMedia('(width < 640px)');
const app = document.getElementById('app');
const live = new Live(() => {
    draw();
    if (page && page.failure && page.failure.status === 0 && live.lostAt === null) {
        page.reload(); /* the server has come back */
    }
});
let page = null;
let timer = 0;
let startFailure = null;

function stored(name, value) {
    try {
        if (value === undefined) {
            return localStorage.getItem(`holdfast-${name}`);
        }
        localStorage.setItem(`holdfast-${name}`, value);
    } catch (error) {
        /* A browser that keeps nothing begins anew each time. */
    }
    return null;
}

/* ---- Addresses --------------------------------------------------------------------------------- */

function linkTo(namespace, name, id, query) {
    const given = new URLSearchParams(Object.entries(query || {}).filter(([, value]) => value)).toString();
    return `#/${encodeURIComponent(namespace)}${name || id ? '/' + name : ''}${id ? '/' + encodeURIComponent(id) : ''}` +
        (given ? '?' + given : '');
}

function parseAddress() {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    let parts = [];
    try {
        parts = path.split('/').map(decodeURIComponent);
    } catch (error) {
        /* It is no address of ours: the first page. */
    }
    const known = session.namespaces.map((one) => one.name);
    const first = known.includes(session.namespace) ? session.namespace : known[0];
    const name = parts[1] || '';
    const isPage = name in pages || name in details;
    return {namespace: parts[0] || first, name: isPage ? name : '', id: isPage ? parts[2] || '' : '',
        query: Object.fromEntries(new URLSearchParams(query || ''))};
}

/* Makes the page of the address; after a move the focus is on it. */
function route(moved) {
    if (!session.namespaces.length) {
        page = null;
        live.stop();
        draw();
        return;
    }
    const address = parseAddress();
    const kind = address.id && details[address.name] || pages[address.name] || overview;
    const same = page && page.kind === kind && page.id === address.id && page.namespace === address.namespace;
    clearTimeout(timer);
    if (same) {
        page.query = address.query;
    } else {
        page = makePage(kind, address);
    }
    page.rewatch();
    if (kind.load) {
        page.reload();
    }
    if (!same && moved) {
        window.scrollTo(0, 0);
        document.getElementById('main')?.focus({preventScroll: true});
    }
    requestAnimationFrame(() => document.querySelector('nav a[aria-current]')?.scrollIntoView({block: 'nearest', inline: 'center'}));
}

function makePage(kind, address) {
    const made = {
        kind, ...address, local: {}, data: null, failure: null,
        get range() { return Number(stored('range')) || 900; },
        get state() { return live.state; },
        get lostAt() { return live.lostAt; }, /* null: the numbers are new */
        link: (name, id, query) => linkTo(made.namespace, name || '', id, query),
        go: (name, id, query) => { location.hash = linkTo(made.namespace, name, id, query); },
        may: (role) => roles.indexOf(roleIn(made.namespace)) >= roles.indexOf(role),
        narrow: () => narrow.matches,
        redraw: () => draw(),
        isShown: () => made === page,
        rewatch() {
            const wanted = typeof kind.live === 'function' ? kind.live(made) : kind.live;
            live.watch(made.namespace, {range: made.range, ...wanted});
            draw();
        },
        setQuery(values) {
            made.query = {...made.query, ...values};
            history.replaceState(null, '', linkTo(made.namespace, made.name, made.id, made.query));
            made.rewatch();
        },
        async reload() {
            clearTimeout(timer);
            if (!kind.load) {
                draw();
                return;
            }
            const began = performance.now();
            try {
                const data = await kind.load(made);
                if (made !== page) {
                    return;
                }
                made.data = data;
                made.failure = null;
            } catch (error) {
                made.failure = error;
            }
            if (made === page) {
                if (kind.every) {
                    const wait = Math.max(kind.every, LOAD_PART * (performance.now() - began));
                    timer = setTimeout(() => document.hidden || made.reload(), wait);
                }
                draw();
            }
        },
    };
    return made;
}

function roleIn(namespace) {
    return (session.namespaces.find((one) => one.name === namespace) || {}).role || 'none';
}

/* ---- The frame --------------------------------------------------------------------------------- */

function logo() {
    return h('svg', {viewBox: '0 0 20 20', class: 'logo', 'aria-hidden': 'true'},
        h('path', {d: 'M4 3v14M16 3v14M4 10h12'}), h('circle', {cx: 10, cy: 10, r: 2.6}));
}

function navigation() {
    const current = parents[page.name] || page.name;
    const dead = live.state && live.state.totals ? live.state.totals.dead : 0;
    return h('nav', {'aria-label': 'Pages'},
        h('a', {class: 'brand', href: linkTo(page.namespace, '')}, logo(), 'Holdfast'),
        menu.map(([name, title]) => h('a', {href: linkTo(page.namespace, name), 'aria-current': name === current ? 'page' : null},
            title, name === 'dead' && dead > 0 ? h('span', {class: 'count'}, number(dead)) : null)),
        h('div', {class: 'foot'}, h('div', {}, session.engine), h('div', {}, `Holdfast ${session.version}`),
            h('div', {title: 'Times of the pages are in this zone'}, `Times: ${zone()}`),
            h('div', {}, h('button', {class: 'link', on: {click: help}}, 'Keys'), ' · ',
                h('button', {class: 'link', on: {click: switchTheme}}, 'Light or dark'))));
}

function status() {
    if (live.lostAt !== null) {
        return h('span', {class: 'pill lost', role: 'status'}, `No connection since ${clock(live.lostAt)}`);
    }
    if (live.state && live.state.age_ms > OLD_MS) { /* of a namespace that no page has shown for a while */
        return h('span', {class: 'pill', role: 'status'}, `of ${clock(Date.parse(live.state.at))}, newer ones come…`);
    }
    return live.refusal ? null : live.state && live.lastAt ? h('span', {class: 'pill live'}, 'live') : h('span', {class: 'pill'}, 'connecting…');
}

function topBar() {
    const known = session.namespaces.map((one) => one.name);
    const names = known.includes(page.namespace) ? known : [page.namespace, ...known];
    return h('div', {class: 'top'},
        h('label', {}, h('span', {class: 'word'}, 'Namespace '), h('select', {class: 'pill', 'aria-label': 'Namespace', value: page.namespace,
            on: {focus: () => loadSession().then(draw, () => {}), change: (e) => { location.hash = linkTo(e.target.value, page.name in pages ? page.name : ''); }}},
        names.map((name) => h('option', {value: name}, inert(name))))),
        h('span', {class: 'right'}, status(),
            page.kind.ranged && h('select', {class: 'pill', 'aria-label': 'Time of the charts', value: String(page.range),
                on: {change: (e) => { stored('range', e.target.value); page.rewatch(); }}},
            ranges.map(([seconds, text]) => h('option', {value: seconds}, text))),
            session.login && roleIn(page.namespace) === 'viewer' && h('span', {class: 'word'}, 'viewer: may only look'),
            session.login && h('button', {class: 'pill', on: {click: leave}}, `Log out ${inert(session.actor || '')}`)));
}

function whyRefused(error) {
    if (error.status === 0) {
        return 'It is asked again until it does.';
    }
    return error.status === 403 && roleIn(page.namespace) === 'none'
        ? `${inert(session.actor)} has no role in the namespace ${inert(page.namespace)}.` : asSentence(error.message);
}

/* What the address asks for cannot be shown: why, and where to go from here. */
function refused(error) {
    const title = error.status === 404 ? 'That is not there.' : error.status === 0 ? 'The server does not answer.'
        : error.status === 403 ? 'You may not look at this.' : 'This cannot be shown.';
    const others = session.namespaces.filter((one) => one.name !== page.namespace);
    return h('div', {role: 'alert'}, h('h1', {}, title), h('p', {class: 'sub'}, whyRefused(error)),
        error === live.refusal && others.length > 0 && h('p', {}, 'Other namespaces: ',
            others.slice(0, 20).map((one, i) => [i ? ', ' : '', h('a', {href: linkTo(one.name, '')}, inert(one.name))])));
}

function content() {
    if (live.refusal || page.failure && !page.data) {
        return refused(live.refusal || page.failure);
    }
    if (!live.state || !live.state.totals || page.kind.load && !page.data) {
        if (live.state && live.state.failure) {
            return [h('h1', {}, live.state.headline), h('p', {class: 'sub'}, asSentence(live.state.failure))];
        }
        return h('p', {class: 'soft', role: 'status'}, 'Loading…');
    }
    return [
        live.lostAt !== null && h('p', {class: 'notice', role: 'alert'},
            `The server does not answer. These numbers are ${span((now() - Date.parse(live.state.at)) / 1000)} old.`),
        page.failure && live.lostAt === null && h('p', {class: 'notice', role: 'alert'}, asSentence(page.failure.message)),
        h('div', {class: live.lostAt !== null && 'old'}, page.kind.render(page)),
    ];
}

const keyOf = (one) => `${one.namespace}/${one.name}/${one.id}`;

/* The first page is drawn into the frame that came with the HTML, so that what is seen already stays. */
function keepFrame() {
    app.firstElementChild.hfKey = 'frame';
    app.querySelector('.page').hfKey = keyOf(parseAddress());
}

function draw() {
    if (!session.known) {
        show(app, startFailure && h('div', {class: 'plain', role: 'alert'}, h('h1', {}, 'The server does not answer.'),
            h('p', {}, inert(startFailure))));
        return;
    }
    if (session.login && !session.actor) {
        document.title = 'Log in · Holdfast';
        show(app, loginForm());
        return;
    }
    if (!page) {
        show(app, h('div', {class: 'plain'}, h('h1', {}, 'There is no namespace that you may look at.')));
        return;
    }
    const title = typeof page.kind.title === 'function' ? page.kind.title(page) : page.kind.title;
    const bad = !live.resting && live.state && live.state.trouble_bad; /* that it needs someone is not known later */
    document.title = `${bad ? `(${bad}) ` : ''}${inert(title)} · Holdfast`;
    show(app, h('div', {class: 'frame', key: 'frame'},
        h('button', {class: 'skip', on: {click: () => document.getElementById('main').focus()}}, 'Skip to the page'),
        navigation(),
        h('main', {id: 'main', tabindex: '-1'}, topBar(),
            h('div', {key: keyOf(page), class: 'page'}, content()))));
    const wanted = focusNext && document.getElementById(focusNext);
    if (wanted) {
        focusNext = null;
        wanted.focus();
    }
}

/* ---- Logging in -------------------------------------------------------------------------------- */

let loginFailure = null;
function loginForm() {
    const submit = async (e) => {
        e.preventDefault();
        const field = e.target.elements.token;
        try {
            await logIn(field.value);
            loginFailure = null;
            route();
        } catch (error) {
            loginFailure = error.message;
            draw();
            document.getElementById('token').focus();
        }
    };
    return h('main', {class: 'login', key: 'login'}, h('form', {on: {submit}}, logo(), h('h1', {}, 'Holdfast'),
        h('div', {class: 'field'}, h('label', {for: 'token'}, 'Token'),
            h('input', {id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', required: true, autofocus: true})),
        loginFailure && h('p', {class: 'failure', role: 'alert'}, asSentence(loginFailure)),
        h('button', {class: 'primary'}, 'Log in')));
}

async function leave() {
    await dialogs.act(logOut);
    loggedOut();
}

function loggedOut() {
    dialogs.closeAll(); /* nothing may stand above the login */
    live.stop();
    clearTimeout(timer);
    page = null;
    draw();
    const field = document.getElementById('token');
    if (field) {
        field.focus();
    }
}

/* ---- Keys and theme ---------------------------------------------------------------------------- */

function switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    /* The server writes it into the page, so that it is known before anything is drawn. */
    document.cookie = `holdfast_theme=${root.dataset.theme}; path=/; SameSite=Lax; max-age=31536000`;
}

function help() {
    const row = (keys, words) => h('tr', {}, h('td', {}, keys.map((key, i) => [i ? ' ' : '', h('kbd', {}, key)])), h('td', {}, words));
    dialogs.tell('Keys', h('table', {class: 'keys'}, h('tbody', {},
        menu.map(([, title, key]) => row(['g', key], title)), row(['/'], 'search'), row(['p'], 'publish an event'),
        row(['t'], 'light or dark'), row(['?'], 'these keys'), row(['Esc'], 'closes a dialog'))));
}

let focusNext = null; /* the id of an element that gets the focus when it is shown */
let afterG = 0; /* when g was pressed */
function onKey(e) {
    const typing = e.target.closest && e.target.closest('input, textarea, select, dialog');
    if (typing || e.ctrlKey || e.metaKey || e.altKey || !page) {
        return;
    }
    if (performance.now() - afterG < 1500) {
        const item = menu.find(([, , key]) => key === e.key);
        afterG = 0;
        if (item) {
            e.preventDefault();
            location.hash = linkTo(page.namespace, item[0]);
            return;
        }
    }
    const actions = {g: () => { afterG = performance.now(); }, t: switchTheme, '?': help,
        p: () => page.may('operator') && publishDialog(page),
        '/': () => { focusNext = 'search'; page.go('search'); draw(); }};
    if (actions[e.key]) {
        e.preventDefault();
        actions[e.key]();
    }
}

/* ---- Beginning --------------------------------------------------------------------------------- */

/* Asks who the reader is and what they may see, until the server answers. */
async function askSession() {
    try {
        await loadSession();
        lookUpZone();
        page ? draw() : route();
    } catch (error) {
        startFailure = error.message;
        draw();
        setTimeout(askSession, 2000);
    }
}

/* What the HTML has, the headline, is drawn already (early.js). Then what else the page came with; then what must be
 * asked for. */
async function begin() {
    if (takeFirstSession()) {
        keepFrame();
        route();
        await whenDrawn();
    }
    askSession();
}

whenLoggedOut(loggedOut);
window.addEventListener('hashchange', () => session.known && (!session.login || session.actor) && route(true));
window.addEventListener('resize', () => draw());
document.addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
        live.rest();
        draw();
    } else {
        live.wake();
        page?.reload();
    }
});
begin();
