/*
 * payload.js - the payload of an event, and the attempts of a delivery.
 */
import {h} from './dom.js';
import {bytes, DASH, inertLines, time, word} from './format.js';
import * as dialogs from './dialogs.js';
import {table} from './tables.js';

const SHOWN = 65536; /* characters of a payload that are shown at once */

/* A payload byte for byte, or indented; of a long one the beginning, and the rest when it is asked for. */
export function payloadBox(page, text) {
    const all = page.local.allOfPayload || text.length <= SHOWN;
    const part = all ? text : text.slice(0, SHOWN);
    const choose = (name, value) => () => {
        page.local[name] = value;
        page.redraw();
    };
    return h('div', {class: 'payload-box'},
        h('pre', {class: 'payload', tabindex: '0', 'aria-label': 'Payload'}, inertLines(page.local.indented ? indent(part) : part)),
        h('p', {class: 'pager'},
            h('button', {class: 'link', 'aria-pressed': String(Boolean(page.local.indented)), on: {click: choose('indented', !page.local.indented)}},
                page.local.indented ? 'As it was published' : 'Indented'),
            navigator.clipboard && h('button', {class: 'link', on: {click: () => dialogs.act(() => navigator.clipboard.writeText(text), 'The payload is copied.')}}, 'Copy'),
            !all && h('button', {class: 'link', on: {click: choose('allOfPayload', true)}}, `Show all ${bytes(text.length)}`),
            h('span', {}, bytes(new TextEncoder().encode(text).length))));
}

/* JSON with each member on a line of its own. Only white space is added or removed: texts and numbers stay the
 * characters that they are. */
function indent(text) {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s"{}[\],:]+/g) || [];
    let depth = 0;
    const line = () => '\n' + '  '.repeat(Math.min(depth, 40));
    return tokens.map((token, i) => {
        if (token === '{' || token === '[') {
            depth++;
            return '}]'.includes(tokens[i + 1] || ' ') ? token : token + line();
        }
        if (token === '}' || token === ']') {
            depth = Math.max(0, depth - 1);
            return '{['.includes(tokens[i - 1] || ' ') ? token : line() + token;
        }
        return token === ',' ? token + line() : token === ':' ? ': ' : token;
    }).join('');
}

export function attemptTable(attempts) {
    return table([
        ['When', (attempt) => time(attempt.at, true)],
        ['Where', (attempt) => word(attempt.node || DASH), 'mono'],
        ['Error', (attempt) => word(attempt.error || DASH), 'wrap'],
    ], attempts);
}
