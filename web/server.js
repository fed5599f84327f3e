/*
 * server.js - talking to the server: who is logged in, requests, and the stream of numbers.
 */
import {now, setClock} from './format.js';

export const session = {known: false, login: false, actor: null, secret: null, namespaces: []};

/* A refusal of the server, with its sentence. */
export class Refusal extends Error {
    constructor(status, detail) {
        super(detail);
        this.status = status;
    }
}

let onLoggedOut = () => {};
export function whenLoggedOut(callback) {
    onLoggedOut = callback;
}

/* What the page came with: the session, and what the overview of the server's own namespace shows; null: nothing. Of
 * all namespaces that there are the session has only that one. */
const first = JSON.parse(document.getElementById('first').textContent);
const FIRST_RANGE_S = 900;

/* Begins with the session that the page came with. False: it must be asked for. Without a session the server may not
 * have been told of it, because a browser sends no cookie with a link of another site. */
export function takeFirstSession() {
    if (first.session.login && !first.session.actor) {
        return false;
    }
    Object.assign(session, first.session, {known: true});
    return true;
}

/* The numbers that the page came with, if they are those that are asked for. They are given once: then they are old. */
function takeFirstNumbers(namespace, range) {
    const numbers = namespace === first.session.namespace && range === FIRST_RANGE_S ? first.live : null;
    first.live = null;
    return numbers;
}

export async function loadSession() {
    const answer = await fetch('session', {cache: 'no-store'});
    if (!answer.ok) {
        throw await refusalOf(answer);
    }
    Object.assign(session, await answer.json(), {known: true});
    return session;
}

export async function logIn(token) {
    await request('POST', 'session', JSON.stringify({token}));
    return loadSession();
}

export async function logOut() {
    await request('DELETE', 'session');
    return loadSession();
}

async function refusalOf(answer) {
    let detail = `${answer.status} ${answer.statusText}`;
    try {
        detail = (await answer.json()).detail || detail;
    } catch (error) {
        /* It is no problem+json: the status must do. */
    }
    return new Refusal(answer.status, detail);
}

async function request(method, path, body) {
    const headers = {};
    if (session.secret && method !== 'GET') {
        headers['X-Holdfast-Secret'] = session.secret;
    }
    if (body !== undefined) {
        headers['Content-Type'] = 'application/json';
    }
    let answer;
    try {
        answer = await fetch(path, {method, headers, body, cache: 'no-store'});
    } catch (error) {
        throw new Refusal(0, 'The server does not answer.');
    }
    if (answer.status === 401 && session.login && path !== 'session') {
        session.actor = null;
        onLoggedOut();
    }
    if (!answer.ok) {
        throw await refusalOf(answer);
    }
    return answer;
}

function pathOf(namespace, path) {
    return `v1/namespaces/${encodeURIComponent(namespace)}/${path}`;
}

/* JSON in which the members `payload`, `metadata` and so on are kept as the texts that they are:
 * their numbers go through no float. */
export async function get(namespace, path) {
    return parseExact(await (await request('GET', pathOf(namespace, path))).text());
}

export async function getText(namespace, path) {
    return (await request('GET', pathOf(namespace, path))).text();
}

export async function post(namespace, path, body = {}) {
    return send('POST', namespace, path, JSON.stringify(body));
}

/* `text` is JSON. */
export async function send(method, namespace, path, text) {
    const answer = await request(method, pathOf(namespace, path), text);
    const said = await answer.text();
    return said ? parseExact(said) : null;
}

/* ---- JSON whose payloads stay texts ------------------------------------------------------------ */

const rawNames = new Set(['payload', 'metadata', 'grants']);

/* Where the JSON value that begins at `at` ends. */
function endOf(text, at) {
    let depth = 0;
    for (; at < text.length; at++) {
        const c = text[at];
        if (c === '"') {
            for (at++; text[at] !== '"'; at++) {
                if (text[at] === '\\') {
                    at++;
                }
            }
        } else if (c === '{' || c === '[') {
            depth++;
        } else if (c === '}' || c === ']') {
            if (depth === 0) {
                return at;
            }
            depth--;
        } else if (c === ',' && depth === 0) {
            return at;
        }
        if (depth === 0 && (c === '"' || c === '}' || c === ']')) {
            return at + 1;
        }
    }
    return at;
}

/* The server writes members one after the other without white space between, so a member begins
 * behind a brace or a comma. Each such value becomes a string of its own text. */
export function parseExact(text) {
    const parts = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
        if (text[at] !== '"') {
            continue;
        }
        const end = endOf(text, at);
        const name = text.slice(at + 1, end - 1);
        if (text[end] === ':' && rawNames.has(name)) {
            const last = endOf(text, end + 1);
            const value = text.slice(end + 1, last);
            parts.push(text.slice(from, end + 1), value === 'null' ? value : JSON.stringify(value));
            from = last;
            at = last - 1;
        } else {
            at = end - 1;
        }
    }
    parts.push(text.slice(from));
    return JSON.parse(parts.join(''));
}

/* ---- The stream -------------------------------------------------------------------------------- */

/*
 * One connection for a page. `state` has what came last: totals, trouble, rows with their sparks,
 * the points of the charts. A connection that ends is made again; since when there is none is said
 * in lostAt, and if the server refuses one, its sentence is in refusal.
 */
export class Live {
    constructor(changed) {
        this.changed = changed;
        this.state = null;
        this.lostAt = null;
        this.refusal = null;
        this.lastAt = 0; /* when the last message came, by performance.now() */
        this.broken = false; /* the connection has ended, and no message has come since */
        this.sparks = new Map();
        this.url = null;
        this.resting = false;
        this.retry = 0;
        setInterval(() => this.look(), 1000);
    }

    /* What to watch; undefined parameters are left out. */
    watch(namespace, params) {
        const query = new URLSearchParams();
        for (const [name, value] of Object.entries(params)) {
            if (value !== undefined && value !== null && value !== '' && value !== false) {
                query.set(name, String(value));
            }
        }
        const url = pathOf(namespace, `live?${query}`);
        if (url === this.url) {
            return;
        }
        if (namespace !== this.namespace || String(params.range) !== this.range) {
            this.namespace = namespace;
            this.range = String(params.range);
            this.state = null;
            this.refusal = null;
            this.sparks.clear();
        }
        this.rangeMs = (params.range || 0) * 1000;
        this.url = url;
        const numbers = takeFirstNumbers(namespace, params.range);
        if (numbers) {
            this.keep(numbers);
        }
        this.open();
    }

    stop() {
        this.url = null;
        this.close();
    }

    /* A page that is not seen has no connection: a browser has no more than six to a server, for all its pages. */
    rest() {
        this.resting = true;
        this.close();
    }

    wake() {
        this.resting = false;
        if (this.url) {
            this.open();
        }
    }

    close() {
        clearTimeout(this.retry);
        if (this.source) {
            this.source.close();
            this.source = null;
        }
    }

    open() {
        this.close();
        if (this.resting) {
            return;
        }
        const source = new EventSource(this.url);
        this.source = source;
        this.openedAt = performance.now();
        source.addEventListener('live', (event) => {
            if (source === this.source) {
                this.take(JSON.parse(event.data));
            }
        });
        source.onerror = () => {
            if (source !== this.source) {
                return;
            }
            this.broken = true;
            if (source.readyState === EventSource.CLOSED) {
                this.again();
            }
        };
    }

    /* The server has refused: perhaps the session has ended, or the namespace was removed. A stream
     * does not tell the reason, so the same is asked for once without a stream. */
    again() {
        this.close();
        const url = this.url;
        this.retry = setTimeout(async () => {
            let refusal = null;
            try {
                await loadSession();
                if (session.login && !session.actor) {
                    onLoggedOut();
                    return;
                }
                await request('GET', url);
            } catch (error) {
                refusal = error.status ? error : null;
            }
            if (url !== this.url) {
                return;
            }
            this.refusal = refusal;
            if (refusal) {
                this.changed();
                this.again();
            } else {
                this.open();
            }
        }, 1500);
        this.look();
    }

    take(message) {
        this.lastAt = performance.now();
        this.lostAt = null;
        this.broken = false;
        this.refusal = null;
        this.keep(message);
        this.changed();
    }

    keep(message) {
        const before = this.state;
        if (message.at) {
            setClock(Date.parse(message.at) + (message.age_ms || 0));
        }
        if (!message.points && before) {
            message.points = before.points;
            this.addPoint(message);
        }
        for (const row of message.rows || []) {
            if (row.spark) {
                this.sparks.set(row.name, row.spark);
            } else {
                row.spark = this.sparks.get(row.name);
            }
        }
        this.state = message;
    }

    addPoint(message) {
        const points = message.points;
        const at = Date.parse(message.at);
        if (!points || !message.totals || points.length && points[points.length - 1][0] >= at) {
            return;
        }
        const totals = message.totals;
        const oldest = totals.oldest_unpaused ? (at - Date.parse(totals.oldest_unpaused)) / 1000 : 0;
        points.push([at, totals.published, totals.delivered, oldest, totals.dead, totals.died]);
        while (points.length && points[0][0] < at - this.rangeMs) {
            points.shift();
        }
    }

    /* Once a second: has the server fallen silent? */
    look() {
        const period = this.state ? this.state.period_ms : 1000;
        const silent = performance.now() - Math.max(this.lastAt, this.openedAt || 0);
        if (this.url && !this.resting && silent > (this.broken ? 4000 : Math.max(4000, 3 * period))) {
            if (this.lostAt === null) {
                this.lostAt = now() - silent;
            }
            this.changed();
        }
    }
}
