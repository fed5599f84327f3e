/*
 * format.js - numbers, times and words for people. What is not known is a dash.
 *
 * Times are in the reader's zone, with the exact UTC in a title. Ages are by the server's clock,
 * which the last message told (setClock).
 */
import {h} from './dom.js';

export const DASH = '–';

let clockOffset = 0; /* ms that the server's clock is ahead of this machine's */

export function setClock(serverMs) {
    clockOffset = serverMs - Date.now();
}

export function now() {
    return Date.now() + clockOffset;
}

/* 1,234,567. Intl.NumberFormat does the same, and takes longer to begin than the first page may. */
export function number(value) {
    return value === null || value === undefined ? DASH
        : Math.round(value).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* "at least so many" has a plus. */
export function atLeast(value, more) {
    return value === null || value === undefined ? DASH : number(value) + (more ? '+' : '');
}

export function rate(value) {
    if (value === null || value === undefined) {
        return DASH;
    }
    if (value === 0 || value >= 10) {
        return number(value);
    }
    return value < 0.1 ? value.toFixed(2) : value.toFixed(1);
}

export function bytes(value) {
    if (value === null || value === undefined) {
        return DASH;
    }
    const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
    let at = 0;
    while (value >= 1000 && at < units.length - 1) {
        value /= 1000;
        at++;
    }
    return (at === 0 || value >= 100 ? number(value) : value.toFixed(1)) + ' ' + units[at];
}

export const pad = (n) => String(n).padStart(2, '0');

/* 0.4 s, 42 s, 4:02, 3 h 12 m, 2 d */
export function age(seconds) {
    if (seconds === null || seconds === undefined || Number.isNaN(seconds)) {
        return DASH;
    }
    seconds = Math.max(0, seconds);
    if (seconds < 10) {
        return seconds.toFixed(1) + ' s';
    }
    if (seconds < 60) {
        return Math.floor(seconds) + ' s';
    }
    if (seconds < 3600) {
        return Math.floor(seconds / 60) + ':' + pad(Math.floor(seconds % 60));
    }
    if (seconds < 172800) {
        return Math.floor(seconds / 3600) + ' h ' + pad(Math.floor(seconds / 60) % 60) + ' m';
    }
    return number(Math.floor(seconds / 86400)) + ' d';
}

let zoneName = null; /* null: not looked up yet */

/* Looks up the name of the reader's zone. That takes longer than the first page may. */
export function lookUpZone() {
    zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/* The reader's zone: "Europe/Berlin, UTC+1". */
export function zone() {
    const minutes = -new Date(now()).getTimezoneOffset();
    const size = Math.abs(minutes);
    const offset = `${minutes < 0 ? '−' : '+'}${Math.floor(size / 60)}${size % 60 ? ':' + pad(size % 60) : ''}`;
    const utc = `UTC${minutes ? offset : ''}`;
    return zoneName === null || zoneName === 'UTC' ? utc : `${zoneName}, ${utc}`;
}

/* The age of a time as the API writes it. */
export function ageOf(time) {
    return time === null || time === undefined ? null : (now() - Date.parse(time)) / 1000;
}

/* For sentences: "40 seconds", "4 minutes", "2 days". */
export function span(seconds) {
    const units = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']];
    for (const [length, name] of units) {
        if (seconds >= length * (length > 1 ? 2 : 0)) {
            return plural(Math.floor(seconds / length), name);
        }
    }
    return DASH;
}

export function plural(count, noun, nouns) {
    return `${number(count)} ${count === 1 ? noun : nouns || noun + 's'}`;
}

const days = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/* 10:02:17; Fri 10:02 within a week; 3 Nov 10:02, 3 Nov 2025 10:02 */
export function clock(ms, exact) {
    const at = new Date(ms);
    const today = new Date(now());
    const hours = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
    const seconds = `${hours}:${pad(at.getSeconds())}` +
        (exact ? '.' + String(at.getMilliseconds()).padStart(3, '0') : '');
    if (at.toDateString() === today.toDateString()) {
        return seconds;
    }
    const distance = Math.abs(today - at);
    const day = `${at.getDate()} ${months[at.getMonth()]}`;
    if (distance < 6 * 86400000) {
        return `${days[at.getDay()]} ${exact ? seconds : hours}`;
    }
    return `${day}${at.getFullYear() === today.getFullYear() ? '' : ' ' + at.getFullYear()} ` +
        (exact ? seconds : hours);
}

/* 10:02, for what is near: the ends of a chart. */
export function minute(ms) {
    const at = new Date(ms);
    return `${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

/* A time as the API writes it, for people, with the exact one in its title. */
export function time(text, exact) {
    if (text === null || text === undefined) {
        return h('span', {class: 'zero'}, DASH);
    }
    return h('time', {datetime: text, title: text.replace('T', ' ').replace('Z', ' UTC')},
        clock(Date.parse(text), exact));
}

/* A sentence of the library, which writes times in UTC: they are shown as all others. */
export function sentence(text) {
    return String(text).split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/)
        .map((part, i) => i % 2 ? time(part) : inert(part));
}

/* A number of a table: zeros and dashes are faint. */
export function figure(text, style) {
    const faint = text === '0' || text === DASH || text === '0.0 s';
    return h('span', {class: faint ? 'zero' : style}, text);
}

/* A text that another program or person has written, on one line: control characters, and those that change the
 * direction of what follows, are shown as what they are. */
export function inert(text) {
    return inertLines(String(text).replace(/[\n\t]/g, ' '));
}

const WHOLE_MAX = 28;

/* The same where there is little room. A short text stays on one line; a long one may be broken behind punctuation,
 * and within a part of it that is long. */
export function word(text) {
    const shown = inert(text);
    if (shown.length <= WHOLE_MAX) {
        return h('span', {class: 'whole'}, shown);
    }
    const parts = shown.match(/[^.,:;\/_\-\s]{1,24}[.,:;\/_\-\s]*|[.,:;\/_\-\s]+/gu) || [];
    return parts.map((part, i) => i ? [h('wbr'), part] : part);
}

/* The same for many lines. */
export function inertLines(text) {
    return String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
        (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

/* A message of the server as a sentence. */
export function asSentence(text) {
    const shown = inert(text);
    return shown.charAt(0).toUpperCase() + shown.slice(1) + (/[.!?]$/.test(shown) ? '' : '.');
}

export function quote(text, length = 160) {
    const shown = inert(text);
    return `“${shown.length > length ? shown.slice(0, length) + '…' : shown}”`;
}
