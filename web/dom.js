/*
 * dom.js - making elements, and making a page look like a newly made one.
 *
 * A page is described as a whole each time (h), and morph changes what is shown where it differs: an
 * element that stays keeps its focus, selection and scroll position. Whatever is a text reaches the
 * document as a text node or an attribute, never as HTML; the server's policy (trusted types)
 * refuses anything else.
 */
const SVG = 'http://www.w3.org/2000/svg';
const svgTags = new Set(['svg', 'path', 'line', 'rect', 'circle', 'text', 'tspan', 'g', 'title', 'desc']);

/* h('a', {class: 'x', key: 'k', href: '#', on: {click: f}}, 'text', child, [children]) */
export function h(tag, props, ...children) {
    const node = props && props.svg || svgTags.has(tag) && tag !== 'title'
        ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
        if (value === null || value === undefined || value === false || name === 'svg') {
            continue;
        }
        if (name === 'on') {
            listen(node, value);
        } else if (name === 'key') {
            node.hfKey = value;
        } else if (name === 'value') {
            node.value = value;
            node.hfValue = value;
        } else {
            node.setAttribute(name, value === true ? '' : String(value));
        }
    }
    append(node, children);
    return node;
}

function append(node, children) {
    for (const child of children) {
        if (Array.isArray(child)) {
            append(node, child);
        } else if (child !== null && child !== undefined && child !== false) {
            node.append(child instanceof Node ? child : document.createTextNode(String(child)));
        }
    }
}

/* Listeners are kept beside the element, so that morph can replace them. */
function listen(node, listeners) {
    node.hfOn = listeners;
    for (const type of Object.keys(listeners)) {
        node.addEventListener(type, dispatch);
    }
}

function dispatch(event) {
    const listener = this.hfOn && this.hfOn[event.type];
    if (listener) {
        listener.call(this, event);
    }
}

function isSame(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.hfKey === b.hfKey;
}

/* Makes `shown` look like `wanted`. */
export function morph(shown, wanted) {
    if (shown.nodeType === Node.TEXT_NODE) {
        if (shown.data !== wanted.data) {
            shown.data = wanted.data;
        }
        return;
    }
    morphAttributes(shown, wanted);
    if (wanted.hfOn) {
        for (const type of Object.keys(wanted.hfOn)) {
            if (!shown.hfOn || !(type in shown.hfOn)) {
                shown.addEventListener(type, dispatch);
            }
        }
    }
    shown.hfOn = wanted.hfOn;
    morphChildren(shown, wanted);
    /* After the children: a choice needs its options. What a reader has typed stays. */
    if (wanted.hfValue !== undefined && wanted.hfValue !== shown.hfValue) {
        shown.hfValue = wanted.hfValue;
        shown.value = wanted.hfValue;
    }
}

function morphAttributes(shown, wanted) {
    for (const {name, value} of [...wanted.attributes]) {
        if (shown.getAttribute(name) !== value) {
            shown.setAttribute(name, value);
        }
    }
    for (const {name} of [...shown.attributes]) {
        if (!wanted.hasAttribute(name) && name !== 'open') {
            shown.removeAttribute(name);
        }
    }
}

function morphChildren(shown, wanted) {
    const keyed = new Map();
    for (const child of shown.childNodes) {
        if (child.hfKey !== undefined) {
            keyed.set(child.hfKey, child);
        }
    }
    let at = shown.firstChild;
    for (const child of [...wanted.childNodes]) {
        const known = child.hfKey === undefined ? undefined : keyed.get(child.hfKey);
        if (known && isSame(known, child)) {
            if (known !== at) {
                shown.insertBefore(known, at);
            } else {
                at = at.nextSibling;
            }
            morph(known, child);
        } else if (at && child.hfKey === undefined && at.hfKey === undefined && isSame(at, child)) {
            const next = at.nextSibling;
            morph(at, child);
            at = next;
        } else {
            shown.insertBefore(child, at);
        }
    }
    while (at) {
        const next = at.nextSibling;
        at.remove();
        at = next;
    }
}

/* Shows these children in an element. */
export function show(parent, ...children) {
    const wanted = document.createElement(parent.nodeName);
    append(wanted, children);
    morphChildren(parent, wanted);
}

const DRAWN_MS = 200; /* a page that is not seen is not drawn */

/* Until what is shown now has been drawn. */
export function whenDrawn() {
    return new Promise((resolve) => {
        setTimeout(resolve, DRAWN_MS);
        requestAnimationFrame(() => setTimeout(resolve, 0));
    });
}
