/*
 * charts.js - lines over time, sparks, and the picture of the flow, as SVG.
 */
import {h} from './dom.js';
import {clock, inert, minute, rate} from './format.js';

/* Parts of a line: where a value is not known it is broken. */
function segments(points) {
    const parts = [];
    let part = [];
    for (const point of points) {
        if (point[1] === null || point[1] === undefined) {
            part = [];
        } else {
            if (part.length === 0) {
                parts.push(part);
            }
            part.push(point);
        }
    }
    return parts;
}

function paths(points, x, y, base, style) {
    return segments(points).map((part) => {
        const line = part.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join('L');
        const first = x(part[0][0]).toFixed(1);
        const last = x(part[part.length - 1][0]).toFixed(1);
        return [
            h('path', {class: `area ${style}`, d: `M${line}L${last},${base}L${first},${base}Z`}),
            h('path', {class: `line ${style}`, d: `M${line}`}),
        ];
    });
}

const SHORTEST_MS = 60000; /* of a chart */

/* What the pointer is on, by the chart's key. */
const pointed = new Map();

/*
 * A chart with its name, its value now, and its line. points: [[ms, value], ...].
 * options: key, label, value, unit, style ('' or 'bad'), from, to (ms; it begins later if nothing is known of the
 * first part), show (value → text), of (the unit of a value of the line), redraw
 */
export function chart(points, options) {
    const width = 240;
    const height = 64;
    const {to, style = ''} = options;
    const known = points.find(([, value]) => value !== null);
    const from = Math.max(options.from, Math.min(known ? known[0] : to, to - SHORTEST_MS));
    let highest = 0;
    for (const [, value] of points) {
        highest = Math.max(highest, value || 0);
    }
    const top = (highest || 1) * 1.12;
    const x = (at) => Math.max(0, Math.min(width, (at - from) / (to - from || 1) * width));
    const y = (value) => height - value / top * height;
    const at = pointed.get(options.key);
    const near = at === undefined ? null : nearest(points, from + at * (to - from));
    const move = (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        pointed.set(options.key, (event.clientX - box.left) / box.width);
        options.redraw();
    };
    const leave = () => {
        pointed.delete(options.key);
        options.redraw();
    };
    return h('div', {class: 'chart', key: options.key},
        h('div', {class: 'label'}, options.label),
        h('div', {class: 'value'}, near ? options.show(near[1]) : options.value, ' ',
            h('small', {}, near ? `${options.of || ''} at ${clock(near[0])}` : options.unit)),
        h('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
            'aria-label': `${options.label}: ${options.value} ${options.unit}`,
            on: {pointermove: move, pointerleave: leave}},
        h('line', {class: 'axis', x1: 0, x2: width, y1: height, y2: height}),
        paths(points, x, y, height, style),
        near && h('line', {class: 'cursor', x1: x(near[0]), x2: x(near[0]), y1: 0, y2: height})),
        h('div', {class: 'ends', 'aria-hidden': 'true'},
            h('span', {}, minute(from)), h('span', {}, minute(to))));
}

function nearest(points, at) {
    let best = null;
    for (const point of points) {
        if (point[1] !== null && (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at))) {
            best = point;
        }
    }
    return best;
}

/* A line without words, for tables. values: oldest first. */
export function spark(values, style = '') {
    const width = 120;
    const height = 22;
    if (!values || values.every((value) => value === null)) {
        return h('span', {class: 'zero'}, '–');
    }
    const top = Math.max(...values.map((value) => value || 0)) * 1.1 || 1;
    const points = values.map((value, i) => [i, value]);
    /* A line needs two points: the newest is drawn to the edge. */
    points.push([values.length, values[values.length - 1]]);
    return h('svg', {class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none',
        'aria-hidden': 'true'},
    paths(points, (at) => at / values.length * width,
        (value) => height - 1 - value / top * (height - 2), height, style));
}

/* ---- Flow -------------------------------------------------------------------------------------- */

const words = {no_worker: 'not moving', owner_dead: 'not moving', breaker: 'breaker open',
    blocked: 'blocked', paused: 'paused', retrying: 'retrying', standing: 'standing still'};
const styles = {no_worker: 'bad', owner_dead: 'bad', breaker: 'bad', blocked: 'bad', standing: 'slow', paused: 'paused'};

const TOP = 8;
const ROOM_MAX = 48; /* between two nodes, besides the gap */
const LEAST = 5; /* height of a node */
const BROKEN_MAX = 8; /* width of a broken line; it runs through a pale one that is as wide as the rate */

/* How high nodes of a side are, one below the other. */
function stackHeight(nodes, scale, gap) {
    return nodes.reduce((sum, node) => sum + Math.max(node.flow * scale, LEAST) + gap, TOP - gap);
}

/* Where they stand: each as high as what goes through it, all of them in the same height as those of the other side. */
function stack(nodes, scale, gap, height) {
    const room = nodes.length > 1 ? (height - stackHeight(nodes, scale, gap)) / (nodes.length - 1) : 0;
    let y = TOP;
    for (const node of nodes) {
        node.height = Math.max(node.flow * scale, LEAST);
        node.y = y;
        node.used = 0;
        y += node.height + gap + Math.min(room, ROOM_MAX);
    }
}

/* Subscriptions stand about where their types do, so that few lines cross. */
function byHeight(targets) {
    const height = (target) => target.types.reduce((sum, index) => sum + index, 0) / target.types.length;
    return targets.sort((a, b) => height(a) - height(b));
}

function shorten(text, length) {
    const shown = inert(text);
    return shown.length > length ? shown.slice(0, length - 1) + '…' : shown;
}

/*
 * Types on the left, subscriptions on the right. A line is as wide as the rate at which events of
 * the type enter the log; it is broken where the subscription does not move: red, amber where that
 * may pass, and grey where it is paused.
 */
export function flowPicture(flow, narrow, href) {
    const types = flow.types.map((type) => ({...type, flow: 0}));
    const targets = byHeight(flow.subscriptions.filter((one) => one.types.length > 0)
        .map((one) => ({...one, flow: 0, state: one.state === 'catching_up' && one.rate === 0 ? 'standing' : one.state})));
    const links = [];
    for (const target of targets) {
        for (const index of target.types) {
            links.push({type: types[index], target, rate: types[index].rate});
            target.flow += types[index].rate;
        }
    }
    for (const type of types) {
        type.flow = type.rate;
    }
    if (!links.length) {
        return null;
    }
    const total = Math.max(types.reduce((sum, one) => sum + one.flow, 0),
        targets.reduce((sum, one) => sum + one.flow, 0));
    const scale = 260 / (total || 1);
    const width = narrow ? 380 : 1000;
    const left = narrow ? 108 : 190;
    const right = width - (narrow ? 118 : 220);
    const gap = narrow ? 20 : 18;
    const height = Math.max(stackHeight(types, scale, gap), stackHeight(targets, scale, gap));
    stack(types, scale, gap, height);
    stack(targets, scale, gap, height);
    const shares = new Map(types.map((type) => [type, links.filter((l) => l.type === type).length]));
    return h('svg', {class: 'flow', viewBox: `0 0 ${width} ${height + TOP}`, role: 'img',
        'aria-label': 'Which types of events go to which subscriptions'},
    links.map((link) => ribbon(link, shares.get(link.type), scale, left, right)),
    types.map((type) => h('g', {},
        h('rect', {class: 'node', x: left - 6, y: type.y, width: 6, height: type.height, rx: 2}),
        label(left - 14, type, 'end', `${rate(type.rate)}/s`, left - 14, narrow))),
    targets.map((target) => h('g', {},
        h('rect', {class: `node ${styleOf(target)}`, x: right, y: target.y, width: 6,
            height: target.height, rx: 2}),
        h('a', {svg: true, href: href(target.name), tabindex: '-1'},
            label(right + 14, target, 'start', words[target.state] || (target.rate === null ? '' : `${rate(target.rate)}/s`),
                width - right - 14, narrow)))));
}

const styleOf = (target) => styles[target.state] || '';

function ribbon(link, share, scale, left, right) {
    const from = Math.max(link.rate * scale / share, 1.2);
    const to = Math.max(link.rate * scale, 1.2);
    const a = link.type.y + link.type.used;
    const b = link.target.y + link.target.used;
    const middle = (left + right) / 2;
    link.type.used += link.rate * scale / share;
    link.target.used += link.rate * scale;
    const style = styleOf(link.target);
    const shape = h('path', {class: `ribbon full ${style}`,
        d: `M${left},${a.toFixed(1)}C${middle},${a.toFixed(1)} ${middle},${b.toFixed(1)} ${right},${b.toFixed(1)}` +
           `L${right},${(b + to).toFixed(1)}C${middle},${(b + to).toFixed(1)} ${middle},${(a + from).toFixed(1)} ` +
           `${left},${(a + from).toFixed(1)}Z`});
    return style ? [shape, h('path', {class: `ribbon ${style}`, 'stroke-width': Math.min(Math.max(from, 2), BROKEN_MAX).toFixed(1),
        d: `M${left},${(a + from / 2).toFixed(1)}C${middle},${(a + from / 2).toFixed(1)} ` +
           `${middle},${(b + to / 2).toFixed(1)} ${right},${(b + to / 2).toFixed(1)}`})] : shape;
}

const LETTER = 7.2; /* how wide a letter is, about */

/* The name and the figure of a node, the name as long as there is room for. */
function label(x, node, anchor, figure, room, narrow) {
    const letters = Math.floor(room / LETTER);
    const name = shorten(node.name, Math.max(6, narrow ? letters : letters - figure.length - 1));
    const y = node.y + node.height / 2 + (narrow ? -1 : 4);
    return h('text', {x, y, 'text-anchor': anchor}, name + (narrow ? '' : ' '),
        h('tspan', narrow ? {class: 'soft', x, dy: 12} : {class: 'soft'}, figure));
}
