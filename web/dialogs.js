/*
 * dialogs.js - questions and tasks above the page. A dialog keeps the focus within itself and gives
 * it back when it ends, as the browser's own <dialog> does; Escape ends it.
 */
import {h, show} from './dom.js';
import {asSentence, inertLines, number} from './format.js';

/* Shows a dialog; fill(body, close) shows what is in it and may do so again. */
export function open(title, fill) {
    const returnTo = document.activeElement;
    const dialog = h('dialog', {'aria-labelledby': 'dialog-title'});
    const body = h('div', {class: 'body'});
    const close = () => dialog.close();
    dialog.append(h('h2', {id: 'dialog-title'}, title), body);
    dialog.addEventListener('close', () => {
        dialog.remove();
        if (returnTo && returnTo.isConnected) {
            returnTo.focus();
        }
    });
    document.body.append(dialog);
    fill(body, close);
    dialog.showModal();
    const first = dialog.querySelector('[autofocus], input, textarea, select, button');
    if (first) {
        first.focus();
    }
    return dialog;
}

export function closeAll() {
    document.querySelectorAll('dialog').forEach((dialog) => dialog.close());
}

/*
 * A form: fields are {name, label, value, kind: 'text'|'number'|'area', note, required};
 * run(values) does it, and what it throws is shown. extra(values) may show more below the fields, and
 * is asked again when one changes.
 */
export function form(title, {words, fields = [], action, danger, run, extra}) {
    return open(title, (body, close) => {
        const values = Object.fromEntries(fields.map((field) => [field.name, field.value ?? '']));
        let failure = null;
        let busy = false;
        let more = null;
        const draw = () => show(body, h('form', {method: 'dialog', on: {submit}},
            words && [words].flat().map((text) => h('p', {}, text)),
            fields.map((field) => input(field, values, changed)),
            more && h('div', {class: 'extra'}, more),
            failure && h('p', {class: 'failure', role: 'alert'}, failure),
            h('div', {class: 'actions'},
                h('button', {type: 'button', on: {click: close}}, 'Cancel'),
                h('button', {type: 'submit', class: danger ? 'danger' : 'primary', disabled: busy},
                    typeof action === 'function' ? action(values) : action))));
        async function changed() {
            if (extra) {
                more = await extra(values);
                draw();
            } else if (typeof action === 'function') {
                draw();
            }
        }
        async function submit(event) {
            event.preventDefault();
            if (busy) {
                return;
            }
            busy = true;
            failure = null;
            draw();
            try {
                await run(values);
                close();
            } catch (error) {
                failure = asSentence(error.message);
                busy = false;
                draw();
            }
        }
        draw();
        changed();
    });
}

function input(field, values, changed) {
    const id = `field-${field.name}`;
    const on = {
        input: (event) => {
            values[field.name] = event.target.value;
            changed();
        },
    };
    const props = {id, name: field.name, on, required: field.required, autocomplete: 'off',
        spellcheck: 'false', placeholder: field.placeholder};
    const control = field.kind === 'area'
        ? h('textarea', {...props, rows: field.rows || 10, value: field.value ?? ''})
        : h('input', {...props, type: field.kind || 'text', min: field.min, max: field.max, value: field.value ?? ''});
    return h('div', {class: 'field', key: id}, h('label', {for: id}, field.label), control, field.note && h('small', {}, field.note));
}

/* Asks before something that cannot be undone. */
export function confirm(title, words, action, run, danger = true) {
    return form(title, {words, action, danger, run});
}

/* Something to read. */
export function tell(title, ...children) {
    return open(title, (body, close) => show(body, children,
        h('div', {class: 'actions'}, h('button', {class: 'primary', autofocus: true,
            on: {click: close}}, 'Close'))));
}

/* Lines to copy into a terminal. */
export function commands(title, words, lines) {
    const text = lines.join('\n');
    tell(title, [words].flat().map((line) => h('p', {}, line)), h('pre', {tabindex: '0'}, inertLines(text)));
}

/*
 * Work in steps with progress: step() does some of it and answers {done, left}, how many it has done and how many are
 * left. Closing the dialog stops it.
 */
export function progress(title, total, step, ended) {
    let stopped = false;
    open(title, (body, close) => {
        let done = 0;
        let state = 'working';
        let failure = null;
        const words = () => state === 'working' ? `${number(done)} of ${number(total)}…`
            : state === 'stopped' ? `Stopped after ${number(done)}.` : `Done: ${number(done)}.`;
        const draw = () => show(body,
            h('p', {role: 'status'}, words()),
            h('progress', {max: Math.max(total, 1), value: Math.min(done, total), 'aria-label': title}),
            state === 'working' && h('p', {class: 'soft small'}, 'It stops when this dialog or the page is closed.'),
            failure && h('p', {class: 'failure', role: 'alert'}, failure),
            h('div', {class: 'actions'}, state === 'working'
                ? h('button', {on: {click: () => { stopped = true; }}}, 'Stop')
                : h('button', {class: 'primary', on: {click: close}}, 'Close')));
        const work = async () => {
            for (let left = total; left > 0 && !stopped;) {
                const answer = await step();
                done += answer.done;
                left = answer.left;
                draw();
            }
        };
        draw();
        work().then(() => { state = stopped ? 'stopped' : 'done'; },
            (error) => { state = 'stopped'; failure = asSentence(error.message); })
            .finally(() => { draw(); ended(); });
    }).addEventListener('close', () => { stopped = true; });
}

/* ---- A line that says what was done ------------------------------------------------------------ */

let hideTimer = 0;
export function say(text, bad) {
    let line = document.getElementById('toast');
    if (!line) {
        line = h('div', {id: 'toast', role: 'status'});
        document.body.append(line);
    }
    line.className = bad ? 'bad shown' : 'shown';
    line.textContent = text;
    clearTimeout(hideTimer);
    hideTimer = setTimeout(() => { line.className = ''; }, 6000);
}

/* Does something, and says that it is done, or why not. */
export async function act(run, done) {
    try {
        await run();
        if (done) {
            say(done);
        }
    } catch (error) {
        say(asSentence(error.message), true);
    }
}
