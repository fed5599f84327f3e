/*
 * dashboard.mjs DRIVER OPEN CLOSED SCREENSHOTS ENGINE TOKENS: looks at the dashboard as a person would, and
 * prints "ok CLAIM" or "not ok CLAIM". One browser for all claims; it waits for conditions.
 */
import {createRequire} from 'node:module';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const [driver, open, closed, screenshots, engine, tokens] = process.argv.slice(2);
const {chromium} = createRequire(join(driver, 'package.json'))('playwright-core');
const profile = mkdtempSync(join(tmpdir(), 'chromium-'));
const holdfast = process.env.HOLDFAST;

let failed = 0;
async function claim(name, check) {
    try {
        const wrong = await check();
        if (wrong) {
            throw new Error(String(wrong));
        }
        console.log(`ok ${name}`);
    } catch (error) {
        failed++;
        console.log(`not ok ${name}`);
        console.error(`# ${name}\n${error.stack || error}`);
    }
}

async function call(base, method, path, body, headers = {}) {
    const answer = await fetch(base + path, {method, headers, body: body === undefined ? undefined : JSON.stringify(body)});
    return {status: answer.status, text: await answer.text(), headers: answer.headers};
}
const run = (...args) => execFileSync(holdfast, args, {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});

const browser = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium', headless: true, viewport: {width: 1280, height: 900},
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync'],
});
const page = browser.pages()[0] || await browser.newPage();
page.setDefaultTimeout(15000);
const trouble = [];
let dialogs = 0;
page.on('pageerror', (error) => trouble.push(`error: ${error.message}`));
page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) &&
    trouble.push(message.text()));
page.on('dialog', (dialog) => { dialogs++; dialog.dismiss(); });
const bases = [open, closed];
page.on('request', (request) => request.url().startsWith('http') && !bases.some((base) => request.url().startsWith(base)) &&
    trouble.push(`asks ${request.url()}`));

const go = async (path, base = open) => { await page.goto(`${base}/#/default/${path}`); };
const text = (words, options) => page.getByText(words, options).first().waitFor();
/* The page's policy forbids what waitForFunction does, so the condition is asked for again and again. */
async function until(condition) {
    const end = Date.now() + 15000;
    while (!await page.evaluate(condition)) {
        if (Date.now() > end) {
            throw new Error(`it does not come true: ${condition}`);
        }
        await page.waitForTimeout(50);
    }
}
const heading = (words) => page.getByRole('heading', {level: 1, name: words}).waitFor();
const picture = (name, full = true) => page.screenshot({path: join(screenshots, `${engine}-${name}.png`), fullPage: full});

/* ---- What is shown ------------------------------------------------------------------------------ */

await claim('the first page is shown within a moment and is small', async () => {
    let bytes = 0;
    const count = async (response) => { bytes += Number((await response.allHeaders())['content-length'] || 0); };
    page.on('response', count);
    await page.goto(open);
    await text('need you');
    page.off('response', count);
    const paint = await page.evaluate(() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd);
    console.error(`first page: ${bytes} bytes, content loaded after ${Math.round(paint)} ms`);
    return bytes > 150000 && `${bytes} bytes`;
});
/* Opens the page while nothing but its files comes from the server. */
async function goWithoutAnswers(path) {
    const unanswered = /\/session$|\/v1\//;
    const asked = [];
    await page.goto('about:blank');
    await page.route(unanswered, (route) => { asked.push(route); }); /* no answer */
    await page.goto(`${open}/${path}`);
    return async () => {
        await page.unroute(unanswered);
        await Promise.all(asked.map((route) => route.continue().catch(() => {})));
    };
}
await claim('the page says how all is before it has asked for anything, and does not call that live', async () => {
    const answer = await goWithoutAnswers('');
    await heading(/things? needs? you/);
    await page.locator('.trouble li', {hasText: 'mailer has not moved for'}).waitFor();
    await page.getByText('connecting…').waitFor();
    await page.locator('tr', {hasText: 'audit'}).waitFor();
    await answer();
});
await claim('what the page came with is not shown for another namespace or another time of the charts', async () => {
    let answer = await goWithoutAnswers('#/elsewhere/');
    await text('Loading…');
    const shown = await page.locator('h1, .trouble li').count();
    await answer();
    await page.evaluate(() => localStorage.setItem('holdfast-range', '3600'));
    answer = await goWithoutAnswers('');
    await text('Loading…');
    await page.evaluate(() => localStorage.clear());
    await answer();
    return shown > 0 && 'it shows what is of another namespace';
});
await claim('the headline says how many things need a person', async () => {
    await page.goto(open);
    await heading(/things? needs? you/);
});
await claim('dead letters are a line of the list of trouble with error and remedy', async () => {
    const line = page.locator('.trouble li', {hasText: 'billing has 40 dead letters'});
    await line.waitFor();
    await line.getByText('connect to 10.0.4.7:5432: refused').waitFor();
    await line.getByRole('button', {name: 'Retry 40…'}).waitFor();
});
await claim('a subscription without a worker is a line of the list of trouble', async () => {
    const line = page.locator('.trouble li', {hasText: 'mailer has not moved for'});
    await line.waitFor();
    await line.getByText('12 events wait').waitFor();
    await line.getByRole('button', {name: 'How to start one'}).click();
    await page.getByRole('dialog').getByText("holdfast work mailer --on 'user.*' --exec ./handler").waitFor();
    await page.keyboard.press('Escape');
});
await claim('a paused subscription shows its reason and is no trouble', async () => {
    await page.locator('tr', {hasText: 'audit'}).getByText('“migration”').waitFor();
    return await page.locator('.trouble li', {hasText: 'audit'}).count() > 0 && 'it is in the list';
});
await claim('names that are HTML are shown as they are', async () => {
    await page.locator('td.name', {hasText: '<img src=x onerror=alert(1)>'}).waitFor();
    return (await page.locator('main img').count() > 0 || dialogs > 0) && 'it became an image';
});
await claim('what does not move stands above what tries again', async () => {
    const names = await page.locator('table.subscriptions td.name').allInnerTexts();
    const [mailer, billing, courier] = ['mailer', 'billing', 'courier'].map((name) => names.indexOf(name));
    return !(mailer >= 0 && mailer < billing && billing < courier) && names.join(' ');
});
await picture('overview');
await claim('an event that is published arrives without a reload', async () => {
    const before = await page.evaluate(() => performance.timeOrigin);
    const id = JSON.parse((await call(open, 'POST', '/v1/events', {type: 'order.paid', payload: {live: 1}})).text).id;
    await page.locator('.flow').getByText('order.paid').waitFor();
    await picture('flow-live');
    return !id || before !== await page.evaluate(() => performance.timeOrigin);
});

for (const [path, title, words] of [['flow', 'Flow', 'order.placed'], ['subscriptions', 'Subscriptions', 'billing'],
    ['dead', '40 dead letters', 'connect to 10.0.4.7:5432: refused'], ['later', 'Later and schedules', 'nightly'],
    ['nodes', 'Nodes', 'live'], ['search', 'Search', 'order.paid'], ['subscriptions/billing', 'billing', 'How to start a worker']]) {
    await claim(`the page ${path} shows what the database holds`, async () => {
        await go(path);
        await heading(title);
        await text(words);
        await picture(path.replace('/', '-'));
    });
}

/* ---- Numbers ------------------------------------------------------------------------------------- */

/* What the command says; nothing works now, so both say the same until one of them is wrong. */
const objectOf = (...args) => JSON.parse(run(...args, '--json').split('\n')[0]);
const linesOf = (...args) => run(...args, '--json').trim().split('\n').map((line) => JSON.parse(line));
const shown = (value, more) => value.toLocaleString('en') + (more ? '+' : '');
const cellsOf = (row) => row.locator('td').allInnerTexts();
const factsOf = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll('dl.facts dt')]
    .map((term) => [term.textContent, term.nextElementSibling.textContent])));
const differ = (what, seen, wanted) => String(seen) !== String(wanted) && `${what}: "${seen}" instead of "${wanted}"`;

await claim('the numbers of the subscriptions are those of stats', async () => {
    await go('subscriptions');
    await heading('Subscriptions');
    for (const one of objectOf('stats').by_subscription) {
        const cells = await cellsOf(page.locator('tr', {has: page.getByRole('link', {name: one.name, exact: true})}));
        const wrong = differ(`${one.name} waiting`, cells[2], shown(one.pending, one.pending_more)) ||
            differ(`${one.name} in hand`, cells[6], shown(one.in_flight)) ||
            differ(`${one.name} retrying`, cells[7], shown(one.retrying)) ||
            differ(`${one.name} dead`, cells[8], shown(one.dead));
        if (wrong) {
            return wrong;
        }
    }
});
await claim('the numbers of one subscription are those of sub show', async () => {
    for (const name of ['ledger', 'billing', 'mailer', 'audit']) {
        const one = objectOf('sub', 'show', name);
        await go(`subscriptions/${name}`);
        await heading(name);
        const facts = await factsOf();
        const waiting = await page.locator('.chart', {hasText: 'Waiting'}).locator('.value').textContent();
        const wrong = differ(`${name} position`, facts.Position, `up to ${shown(one.checkpoint)} of ${shown(one.head)}` +
                (one.lag ? `, ${shown(one.lag)} position${one.lag === 1 ? '' : 's'} behind` : '')) ||
            differ(`${name} waiting`, waiting, `${shown(one.pending, one.pending_more)} event${one.pending === 1 ? '' : 's'}`) ||
            differ(`${name} in hand`, facts['In hand'], shown(one.in_flight)) ||
            differ(`${name} retrying`, facts.Retrying, shown(one.retrying)) ||
            differ(`${name} dead`, facts['Dead letters'], shown(one.dead)) ||
            differ(`${name} partitions`, await page.locator('section', {hasText: 'Partitions'}).locator('tbody tr').count(), one.partitions.length);
        if (wrong) {
            return wrong;
        }
    }
});
await claim('the page of a subscription never shows the numbers of the one before it', async () => {
    await go('subscriptions/ledger');
    await heading('ledger');
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route(/live\?.*subscription=billing/, async (route) => { await held; await route.continue(); });
    await go('subscriptions/billing');
    await heading('billing');
    const early = (await factsOf())['Dead letters'];
    release();
    await page.locator('dd', {hasText: /^40$/}).waitFor();
    await page.unroute(/live\?.*subscription=billing/);
    return early !== undefined && early !== '40' && `it showed ${early} dead letters`;
});
await claim('dead letters are counted by each field as dlq list counts them', async () => {
    await go('dead');
    await heading(/dead letters?/);
    for (const field of ['error', 'subscription', 'type', 'reason']) {
        await page.getByLabel('Group by').selectOption(field);
        const groups = linesOf('dlq', 'list', '--group-by', field);
        const table = page.locator('section', {has: page.getByLabel('Group by')});
        await table.getByRole('columnheader', {name: field}).waitFor();
        const counts = await table.locator('tbody td:nth-child(2)').allInnerTexts();
        const wrong = differ(`by ${field}`, counts, groups.map((group) => shown(group.count)));
        if (wrong) {
            return wrong;
        }
    }
});
await claim('the page says how many groups it does not show, and which numbers are not whole', async () => {
    await page.route(/dead-letters\/groups/, async (route) => {
        const response = await route.fetch();
        const answer = await response.json();
        await route.fulfill({response, json: {...answer, groups: answer.groups + 5, dead_letters: answer.dead_letters + 7, more: true}});
    });
    await page.goto('about:blank');
    await go('dead');
    await text('1 of 6+ groups are shown; the others have 7 dead letters.');
    await text('the numbers are at least so large');
    await page.locator('td', {hasText: /^40\+$/}).waitFor();
    await page.unroute(/dead-letters\/groups/);
});
await claim('the numbers of schedules, events for later and nodes are those of the command', async () => {
    await go('later');
    await heading('Later and schedules');
    const words = `${linesOf('later', 'list').length} event waits for its time; ${linesOf('schedule', 'list').length} schedules.`;
    await text(words);
    await go('nodes');
    await heading('Nodes');
    const live = linesOf('node', 'list').filter((node) => node.state === 'live');
    return differ('live nodes', await page.locator('tbody tr', {hasText: 'live'}).count(), live.length);
});
await claim('the flow shows as many events a second of a type as came in the last minute', async () => {
    await go('flow');
    await heading('Flow');
    const rows = page.locator('tbody tr');
    const sum = async () => (await rows.locator('td:nth-child(2)').allInnerTexts()).reduce((all, one) => all + Number(one), 0);
    await rows.first().waitFor();
    const {rate} = objectOf('stats');
    const seen = await sum();
    return Math.abs(seen - rate) > 0.1 + rate / 4 && `${seen} instead of ${rate}`;
});

/* ---- An event ------------------------------------------------------------------------------------ */

await claim('an event shows where it went, and its payload byte for byte', async () => {
    await go('event/1');
    await page.locator('pre.payload', {hasText: '{"order":1,"ref":9007199254740993}'}).waitFor();
    await page.locator('.lane', {hasText: 'ledger'}).getByText('done').waitFor();
    await page.locator('.lane', {hasText: 'billing'}).getByText('dead after 1 attempt').waitFor();
    await page.locator('.lane', {hasText: 'audit'}).getByText(/waits: it was paused/).waitFor();
    await picture('event');
});
await claim('a hostile payload is shown inert', async () => {
    const hostile = {html: '<script>alert(1)</script><img src=x onerror=alert(2)>', rtl: 'a\u202eb', bell: '\u0007', end: '</pre>'};
    const made = await call(open, 'POST', '/v1/events', {type: 'stock.moved', key: '<b>k</b>', payload: hostile});
    await go(`event/${JSON.parse(made.text).id}`);
    await page.locator('pre.payload', {hasText: '<script>alert(1)</script>'}).waitFor();
    const shown = await page.locator('pre.payload').textContent();
    return (/[\u202e\u0007]/.test(shown) || dialogs > 0 || await page.locator('main script, main img').count() > 0) && shown;
});
await claim('a payload of a megabyte is shown in part, and whole when asked for', async () => {
    const made = await call(open, 'POST', '/v1/events', {type: 'stock.moved', payload: {big: 'x'.repeat(1000000)}});
    await go(`event/${JSON.parse(made.text).id}`);
    await page.getByRole('button', {name: 'Show all 1.0 MB'}).click();
    await until(() => document.querySelector('pre.payload').textContent.length > 1000000);
});
await claim('a payload is indented on request, and its numbers and escapes stay as they are', async () => {
    const payload = '{"big":12345678901234567890,"e":1e400,"half":"\\ud83d\\ude00","list":[1.10]}';
    const made = await fetch(`${open}/v1/events`, {method: 'POST', body: `{"type":"stock.moved","payload":${payload}}`});
    await go(`event/${(await made.json()).id}`);
    await page.locator('pre.payload', {hasText: payload}).waitFor();
    await page.getByRole('button', {name: 'Indented'}).click();
    const wanted = '{\n  "big": 12345678901234567890,\n  "e": 1e400,\n  "half": "\\ud83d\\ude00",\n  "list": [\n    1.10\n  ]\n}';
    return differ('indented', await page.locator('pre.payload').textContent(), wanted);
});
await claim('hostile names, keys, errors and notes are shown inert on every page', async () => {
    const hostile = '<img src=x onerror=alert(1)>\u202egnp.exe';
    const path = encodeURIComponent(hostile);
    await call(open, 'PUT', `/v1/subscriptions/${path}`, {patterns: ['stock.*'], from: 'start', mode: 'shared', attempts_max: 1});
    await call(open, 'PUT', `/v1/schedules/${path}`, {expression: '@yearly', type: 'stock.moved', payload: {a: hostile}, key: hostile});
    await call(open, 'POST', `/v1/schedules/${path}/pause`, {reason: hostile});
    await call(open, 'POST', '/v1/events', {type: 'stock.moved', key: hostile, tenant: hostile, metadata: {m: hostile}, deliver_at: '2100-01-01T00:00:00Z'});
    const {id} = JSON.parse((await call(open, 'POST', '/v1/events', {type: 'stock.moved', key: hostile, tenant: hostile, metadata: {m: hostile}})).text);
    const {lease} = JSON.parse((await call(open, 'POST', `/v1/subscriptions/${path}/claim`, {max: 100})).text);
    await call(open, 'POST', `/v1/subscriptions/${path}/bury`, {lease, error: hostile});
    await call(open, 'POST', `/v1/subscriptions/${path}/pause`, {reason: hostile});
    const letter = JSON.parse((await call(open, 'GET', `/v1/dead-letters?subscription=${path}&limit=1`)).text).items[0];
    for (const at of ['', 'flow', 'subscriptions', `subscriptions/${path}`, 'dead', `dead?subscription=${path}`, `dead/${letter.dead_id}`, 'later',
        `schedule/${path}`, 'search', `event/${id}`]) {
        await go(at);
        await page.locator('main', {hasText: 'onerror=alert(1)>\\u202egnp.exe'}).waitFor();
        if (await page.locator('main img').count() > 0 || dialogs > 0 || (await page.locator('body').innerText()).includes('\u202e')) {
            return `not inert: ${at}`;
        }
    }
    await call(open, 'POST', '/v1/dead-letters/purge', {subscription: hostile});
    await call(open, 'DELETE', `/v1/subscriptions/${path}`);
    await call(open, 'DELETE', `/v1/schedules/${path}`);
    run('later', 'cancel', linesOf('later', 'list').find((one) => one.key === hostile).id);
});
await claim('a search by key finds the event', async () => {
    await go('search');
    await page.getByLabel('Key').fill('o-7');
    await page.keyboard.press('Enter');
    await until(() => document.querySelectorAll('tbody tr').length === 1);
    await text('o-7');
});

await claim('a search that finds nothing says that the log has none', async () => {
    await page.getByLabel('Key').fill('nowhere');
    await page.keyboard.press('Enter');
    await text('The log has none.');
});
await claim('a schedule shows its next times, and when the clocks are changed', async () => {
    await go('schedule/clocks');
    await text('the clocks jump from 02:00 to 03:00 over the planned time');
    await picture('schedule');
    return await page.locator('tbody tr').count() < 6 && 'there are fewer than six';
});
await claim('the page of a subscription begins with what is wrong with it', async () => {
    await go('subscriptions/mailer');
    await page.locator('.trouble li', {hasText: 'mailer has not moved for'}).waitFor();
});

/* Of each row of a section's table the texts of its cells, without what stands in a second line. */
const rowsOf = (section) => page.locator(section).locator('tbody tr').evaluateAll((rows) => rows.map((row) =>
    Object.fromEntries([...row.cells].map((cell) => [cell.dataset.title, [...cell.childNodes]
        .filter((node) => !(node.classList && node.classList.contains('why'))).map((node) => node.textContent).join('')]))));
const section = (title) => page.locator('section', {has: page.getByRole('heading', {name: title, exact: true})});
await claim('the retries of a subscription are those of retry list, with their errors and next times', async () => {
    const list = linesOf('retry', 'list', 'courier', '-n', '10');
    await go('subscriptions/courier');
    await section('Retries').getByText('1 to 10').waitFor();
    await picture('retries');
    const rows = await rowsOf('#retries');
    for (const [i, one] of list.entries()) {
        const wrong = differ(`key ${i}`, rows[i].Key, one.key) || differ(`error ${i}`, rows[i].Error, one.error) ||
            differ(`held ${i}`, rows[i]['Held behind it'], String(one.held)) ||
            !/^in (59|60):\d\d$|^in 1 h 00 m$/.test(rows[i]['Next attempt']) && !/^in 5\d:\d\d$/.test(rows[i]['Next attempt']) &&
            `the next attempt is ${rows[i]['Next attempt']}`;
        if (wrong) {
            return wrong;
        }
    }
    return await page.locator('main b', {hasText: 'courier'}).count() > 0 && 'an error became HTML';
});
await claim('the time until a next attempt runs down while the page is looked at', async () => {
    const first = (await rowsOf('#retries'))[0]['Next attempt'];
    const cell = section('Retries').locator('td[data-title="Next attempt"]').first();
    const end = Date.now() + 15000;
    while ((await cell.textContent()).startsWith(first)) {
        if (Date.now() > end) {
            return `it stays at ${first}`;
        }
        await page.waitForTimeout(100);
    }
});
await claim('retries are turned page by page, and back', async () => {
    const list = linesOf('retry', 'list', 'courier');
    await section('Retries').getByRole('button', {name: 'Next'}).click();
    await section('Retries').getByText('11 to 12').waitFor();
    const rows = await rowsOf('#retries');
    const wrong = differ('keys of the second page', rows.map((row) => row.Key).join(' '), list.slice(10).map((one) => one.key).join(' '));
    await section('Retries').getByRole('button', {name: 'Before'}).click();
    await section('Retries').getByText('1 to 10').waitFor();
    return wrong;
});
await claim('what is held behind a retry is one click away, and so is the way back', async () => {
    const first = linesOf('retry', 'list', 'courier').find((one) => one.held > 0);
    await go(`subscriptions/courier?behind=${first.position}`);
    await page.getByRole('heading', {name: `Held behind position ${shown(first.position)}`}).waitFor();
    await until(() => document.querySelectorAll('#retries tbody tr').length === 2);
    const rows = await rowsOf('#retries');
    await picture('held');
    await page.getByRole('link', {name: 'All retries'}).click();
    await section('Retries').waitFor();
    return differ('key', rows[0].Key, first.key) ||
        differ('next attempt', rows[0]['Next attempt'], `behind position ${shown(first.position)}`) ||
        differ('error', rows[0].Error, 'not tried yet');
});
await claim('the event of a retry is one click away', async () => {
    await section('Retries').getByRole('link', {name: 'parcel.sent'}).first().click();
    await heading('parcel.sent');
    await page.locator('.lane', {hasText: 'courier'}).getByText('tries again at').waitFor();
});
await claim('a subscription without retries says so', async () => {
    await go('subscriptions/ledger');
    await section('Retries').getByText('No event waits for another attempt.').waitFor();
});
await claim('the events that an ordered subscription has in hand are shown with who has them and since when', async () => {
    const one = objectOf('sub', 'show', 'packer');
    await go('subscriptions/packer');
    await section('In hand').waitFor();
    await picture('in-hand');
    const rows = await section('In hand').locator('tbody tr').evaluateAll((all) => all.map((row) =>
        [...row.cells].map((cell) => cell.textContent)));
    const parts = await section('Partitions').locator('td[data-title="In hand"]').allTextContents();
    return differ('rows', rows.length, one.running.length) || differ('in hand', one.in_flight, 2) ||
        differ('in hand of the partition', parts[0], '2') ||
        one.running.map((event, i) => differ(`key ${i}`, rows[i][1], event.key) ||
            !rows[i][2].startsWith(event.node) && `row ${i} names ${rows[i][2]} and not ${event.node}` ||
            !/for \d/.test(rows[i][3]) && `row ${i} does not say for how long`).find(Boolean);
});

/* ---- Doing things -------------------------------------------------------------------------------- */

await claim('a subscription is paused with a reason and resumed from its page', async () => {
    await go('subscriptions/ledger');
    await page.getByRole('button', {name: 'Pause…'}).click();
    await page.getByLabel('Reason').fill('a test');
    await page.getByRole('button', {name: 'Pause', exact: true}).click();
    await text('“a test”');
    if (!run('sub', 'show', 'ledger', '--json').includes('"paused_reason":"a test"')) {
        return 'the database does not have it';
    }
    await page.getByRole('button', {name: 'Resume'}).click();
    await page.getByRole('button', {name: 'Pause…'}).waitFor();
});
await claim('a seek says before it is done how many positions will come', async () => {
    await page.getByRole('button', {name: 'Move…', exact: true}).click();
    await page.getByRole('dialog').getByText(/\d+ positions of the log would come/).waitFor();
    await page.keyboard.press('Escape');
});
await claim('a dead letter is retried with another payload from its page', async () => {
    await go('dead');
    await page.locator('section', {hasText: 'One by one'}).locator('td.name a').first().click();
    await page.getByRole('button', {name: 'Edit and retry…'}).click();
    await page.getByLabel('Payload (JSON)').fill('{"order": 1, "ref": 9007199254740995}');
    await page.getByRole('dialog').getByRole('button', {name: 'Retry'}).click();
    await heading('39 dead letters');
});
await claim('all dead letters of one error are retried with progress', async () => {
    await go('');
    await page.locator('.trouble li', {hasText: 'billing'}).getByRole('button', {name: /Retry/}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Retry 39'}).click();
    await page.getByRole('dialog').getByText('Done: 39.').waitFor();
    await picture('retried', false);
    await page.keyboard.press('Escape');
    return JSON.parse((await call(open, 'GET', '/v1/stats')).text).dead !== 0 && 'some are left';
});
await claim('a seek moves a subscription to the place that was given', async () => {
    await go('subscriptions/audit');
    await page.getByRole('button', {name: 'Move…', exact: true}).click();
    await page.getByLabel('Where').fill('7');
    await page.getByRole('dialog').getByText(/\d+ positions of the log would come/).waitFor();
    await page.getByRole('button', {name: 'Move it'}).click();
    await page.locator('dd', {hasText: /^up to 7 of /}).waitFor();
});
await claim('an event is cancelled for one subscription, with a reason', async () => {
    await go('event/8');
    await page.locator('.lane', {hasText: 'audit'}).getByRole('button', {name: 'Cancel…'}).click();
    await page.getByLabel('Reason').fill('not for the archive');
    await page.getByRole('button', {name: 'Cancel the event'}).click();
    await page.locator('.lane', {hasText: 'audit'}).getByText(/cancelled.*: not for the archive/).waitFor();
});
const subscribe = (name, pattern) => call(open, 'PUT', `/v1/subscriptions/${name}`, {patterns: [pattern], from: 'start', mode: 'shared'});
const claimOf = async (name) => JSON.parse((await call(open, 'POST', `/v1/subscriptions/${name}/claim`, {max: 1, lease_ms: 600000})).text);
await claim('a lease is taken away from the worker that has it', async () => {
    await subscribe('silent', 'user.*');
    await claimOf('silent');
    await go('subscriptions/silent');
    await page.getByRole('button', {name: 'Take away…'}).click();
    await page.getByRole('button', {name: 'Take it away'}).click();
    await page.getByRole('heading', {name: 'In hand'}).waitFor({state: 'detached'});
});
await claim('a dead letter that no handler was for says so, and can be retried', async () => {
    const {position} = JSON.parse((await call(open, 'POST', '/v1/events', {type: 'odd.type'})).text);
    await call(open, 'PUT', '/v1/subscriptions/picky', {patterns: ['user.*'], from: position - 1, on_unhandled: 'dead_letter'});
    run('work', 'picky', '--on', 'user.*', '--on-unhandled', 'dead_letter', '--exec', 'true', '--until-empty');
    await go('');
    const line = page.locator('.trouble li', {hasText: 'picky has 1 dead letter: no pattern of the subscription matches'});
    await line.getByRole('button', {name: 'Retry 1…'}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Retry 1'}).waitFor();
    await page.keyboard.press('Escape');
});
await claim('a dead letter is resolved with a note from its page', async () => {
    await go('dead?subscription=picky');
    await page.locator('td.name a').first().click();
    await page.getByRole('button', {name: 'Resolve…'}).click();
    await page.getByLabel('Note').fill('sent by hand');
    await page.getByRole('dialog').getByRole('button', {name: 'Resolve'}).click();
    await text(/sent by hand/);
    return await page.getByRole('button', {name: 'Resolve…'}).count() > 0 && 'it can be resolved again';
});
await claim('a subscription is removed after a question', async () => {
    await go('subscriptions/silent');
    await page.getByRole('button', {name: 'Remove…'}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Remove'}).click();
    await heading('Subscriptions');
    return (await call(open, 'GET', '/v1/subscriptions/silent')).status !== 404 && 'it is still there';
});
await claim('many subscriptions without a worker are one line of the list of trouble', async () => {
    await Promise.all(['cold-1', 'cold-2', 'cold-3'].map((name) => subscribe(name, 'user.*')));
    await go('');
    await page.locator('.trouble li', {hasText: /^\d+ subscriptions have no worker/}).waitFor();
    await Promise.all(['cold-1', 'cold-2', 'cold-3'].map((name) => call(open, 'DELETE', `/v1/subscriptions/${name}`)));
});
await claim('of an event that very many subscriptions take those that matter come first, and all are counted', async () => {
    const names = Array.from({length: 50}, (_, i) => `crowd-${i}`);
    await Promise.all(names.map((name) => subscribe(name, 'order.placed')));
    const states = objectOf('event', 'show', '1').states.filter((one) => one.state !== 'not_for_it');
    const count = (state) => states.filter((one) => one.state === state).length;
    const words = [['dead', 'dead'], ['retrying', 'retrying'], ['processing', 'in hand'], ['held', 'held'], ['pending', 'waiting'],
        ['cancelled', 'cancelled'], ['done', 'done']].filter(([state]) => count(state) > 0);
    await go('event/1');
    await page.locator('.timeline').getByText('40 are shown, those that matter first.').waitFor();
    await page.locator('.lane', {hasText: 'billing'}).getByText('due for its next attempt since').waitFor();
    const wrong = differ('counts', await page.locator('.timeline > p').first().textContent(), `${states.length} subscriptions: ` +
            words.map(([state, word]) => `${count(state)} ${word}`).join(', ') + '.') ||
        differ('first lane', await page.locator('.lane a').first().textContent(),
            states.find((one) => one.state === words[0][0]).subscription);
    await page.getByRole('button', {name: 'More'}).click();
    await page.getByRole('button', {name: 'More'}).waitFor({state: 'detached'});
    const lanes = await page.locator('.lane:not(.ends)').count();
    await Promise.all(names.map((name) => call(open, 'DELETE', `/v1/subscriptions/${name}`)));
    return wrong || differ('lanes', lanes, states.length);
});
await claim('with more dead letters than are looked at the list of trouble says which were, and the exact number', async () => {
    await call(open, 'POST', '/v1/events', Array.from({length: 520}, () => ({type: 'flood.came', payload: {}})));
    await subscribe('flooded', 'flood.*');
    const claimed = JSON.parse((await call(open, 'POST', '/v1/subscriptions/flooded/claim', {max: 520})).text);
    await call(open, 'POST', '/v1/subscriptions/flooded/bury', {lease: claimed.lease, error: 'the dam broke'});
    const dead = objectOf('sub', 'show', 'flooded').dead;
    await go('');
    const line = page.locator('.trouble li', {hasText: 'flooded has'});
    await line.getByText('with one error: the dam broke').waitFor();
    await picture('flooded');
    const words = await line.locator('.words').textContent();
    await call(open, 'POST', '/v1/dead-letters/purge', {subscription: 'flooded'});
    await call(open, 'DELETE', '/v1/subscriptions/flooded');
    return differ('dead', dead, 520) || !words.startsWith('flooded has 520 dead letters; of the newest 500 of the namespace ' +
        '500 are its own with one error: the dam broke') && `it says: ${words}`;
});
await claim('a schedule runs now, is paused and resumed', async () => {
    await go('later');
    const row = page.locator('tr', {hasText: 'nightly'});
    await row.getByRole('button', {name: 'Run now…'}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Run now'}).click();
    await text(/Published at position/);
    await row.getByRole('button', {name: 'Pause…'}).click();
    await page.getByLabel('Reason').fill('holidays');
    await page.getByRole('dialog').getByRole('button', {name: 'Pause'}).click();
    await row.getByText('“holidays”').waitFor();
    await row.getByRole('button', {name: 'Resume'}).click();
    await row.getByRole('button', {name: 'Pause…'}).waitFor();
});
await claim('an event for later is moved, and taken away', async () => {
    const row = page.locator('tr', {hasText: 'k-later'});
    await row.getByRole('button', {name: 'Move…'}).click();
    await page.getByLabel('When').fill('2100-01-31T12:00:00Z');
    await page.getByRole('button', {name: 'Move it'}).click();
    await row.getByText('2100').waitFor();
    await row.getByRole('button', {name: 'Take away…'}).click();
    await page.getByRole('button', {name: 'Take it away'}).click();
    await row.waitFor({state: 'detached'});
});
await claim('an event is published from the page', async () => {
    await go('search');
    await heading('Search');
    await page.keyboard.press('p');
    await page.getByLabel('Type').last().fill('order.cancelled');
    await page.getByLabel('Payload (JSON)').fill('{"n": 12345678901234567890}');
    await page.getByRole('dialog').getByRole('button', {name: 'Publish'}).click();
    await page.locator('pre.payload', {hasText: '{"n": 12345678901234567890}'}).waitFor();
});
await claim('of a subscription that stands still no time is said at which it will be done', async () => {
    await go('');
    const row = page.locator('tr', {hasText: 'packer'});
    await row.getByText('standing still').waitFor();
    const words = await row.innerText();
    return words.includes('done in') && words;
});

/* ---- Keys, theme, width -------------------------------------------------------------------------- */

await claim('everything is reached by keys, and a dialog gives the focus back', async () => {
    await go('');
    await heading(/need|well|watch/);
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await heading('Subscriptions');
    await page.keyboard.press('/');
    await heading('Search');
    await until(() => document.activeElement.id === 'search');
    await page.keyboard.press('Escape');
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('?');
    await page.getByRole('dialog', {name: 'Keys'}).waitFor();
    await page.keyboard.press('Tab');
    if (!await page.evaluate(() => document.activeElement.closest('dialog') || document.activeElement === document.body)) {
        return 'the focus left the dialog';
    }
    await page.keyboard.press('Escape');
    await go('subscriptions/ledger');
    const button = page.getByRole('button', {name: 'Pause…'});
    await button.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({state: 'detached'});
    return await button.evaluate((node) => node !== document.activeElement) && 'the focus is elsewhere';
});
/* Presses Tab until what has the focus has this text; each on the way must show that it has it. */
async function tabTo(words) {
    for (let i = 0; i < 60; i++) {
        await page.keyboard.press('Tab');
        const [label, outlined] = await page.evaluate(() => [document.activeElement.textContent,
            getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement === document.body]);
        if (!outlined) {
            throw new Error(`the focus is not seen on "${label}"`);
        }
        if (label === words) {
            return;
        }
    }
    throw new Error(`no way to "${words}"`);
}
await claim('a subscription is found, paused and resumed with keys only, and the focus is seen all the way', async () => {
    await go('');
    await heading(/need|well|watch/);
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await heading('Subscriptions');
    await tabTo('ledger');
    await page.keyboard.press('Enter');
    await heading('ledger');
    await tabTo('Pause…');
    await page.keyboard.press('Enter');
    await page.keyboard.type('keys');
    await page.keyboard.press('Enter');
    await text('“keys”');
    await tabTo('Resume');
    await page.keyboard.press('Enter');
    await page.getByRole('button', {name: 'Pause…'}).waitFor();
});
await claim('the skip link leads to the contents of the page', async () => {
    await page.reload();
    await heading('ledger');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    return await page.evaluate(() => document.activeElement.id !== 'main') && 'it does not';
});
await claim('the dark theme is kept after a reload', async () => {
    await go('');
    await heading(/need|well|watch/);
    const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.keyboard.press('t');
    await page.reload();
    await heading(/need|well|watch/);
    const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await picture('dark');
    await page.keyboard.press('t');
    return light === dark && 'it is as light';
});
await claim('the page is dark if the system prefers it', async () => {
    await page.evaluate(() => { localStorage.clear(); delete document.documentElement.dataset.theme; });
    await page.emulateMedia({colorScheme: 'dark'});
    const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.emulateMedia({colorScheme: 'light'});
    return dark === await page.evaluate(() => getComputedStyle(document.body).backgroundColor) && dark;
});
await claim('no page is wider than a telephone of 390 pixels', async () => {
    await page.setViewportSize({width: 390, height: 844});
    for (const path of ['', 'flow', 'subscriptions', 'subscriptions/mailer', 'dead', 'later', 'nodes', 'search', 'event/1']) {
        await go(path);
        await page.locator('h1').waitFor();
        await picture(`phone-${path.replace('/', '-') || 'overview'}`);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        if (width > 390) {
            return `${path || 'overview'} is ${width} wide`;
        }
    }
});
await page.setViewportSize({width: 1280, height: 900});

/* ---- Who may --------------------------------------------------------------------------------------- */

await claim('a server with tokens asks for a login first', async () => {
    await page.goto(closed);
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await text('the token is not known');
    await page.getByLabel('Token').fill('see');
    await page.keyboard.press('Enter');
    await heading(/need|well|watch/);
});
await claim('a viewer sees no buttons of actions that it may not do, and is told so', async () => {
    await go('subscriptions/ledger', closed);
    await text('viewer: may only look');
    await page.getByRole('button', {name: 'How to start a worker'}).waitFor();
    return await page.getByRole('button', {name: /Pause|Move|Remove|Resume/}).count() > 0 && 'there are some';
});
await claim('scripts cannot read the cookie of the session', async () =>
    await page.evaluate(() => document.cookie.includes('holdfast_session')) && 'they can');
await claim('a change with the cookie alone is refused by the server', async () => {
    const status = await page.evaluate(async () =>
        (await fetch('v1/subscriptions/ledger/pause', {method: 'POST', body: '{}'})).status);
    return status !== 403 && `status ${status}`;
});
await claim('logging out ends the session', async () => {
    await page.getByRole('button', {name: /Log out/}).click();
    await page.getByLabel('Token').waitFor();
    return (await page.evaluate(async () => (await fetch('v1/stats')).status)) !== 401 && 'the session goes on';
});
await claim('an operator sees the buttons of actions that it may do, and no others', async () => {
    await page.getByLabel('Token').fill('do');
    await page.keyboard.press('Enter');
    await go('subscriptions/ledger', closed);
    await page.getByRole('button', {name: 'Pause…'}).waitFor();
    const removes = await page.getByRole('button', {name: 'Remove…'}).count();
    await page.getByRole('button', {name: /Log out/}).click();
    await page.getByLabel('Token').waitFor();
    return removes > 0 && 'it may remove';
});
await claim('an admin may pause and resume a subscription', async () => {
    await page.getByLabel('Token').fill('all');
    await page.keyboard.press('Enter');
    await go('subscriptions/ledger', closed);
    await page.getByRole('button', {name: 'Pause…'}).click();
    await page.getByRole('dialog').getByRole('button', {name: 'Pause'}).click();
    await page.getByRole('button', {name: 'Resume'}).click();
    await page.getByRole('button', {name: 'Pause…'}).waitFor();
});
await claim('the page of a session that has ended asks for a login, also if a dialog is open', async () => {
    await page.getByRole('button', {name: 'Pause…'}).click();
    await page.getByRole('dialog').waitFor();
    const lines = readFileSync(tokens, 'utf8');
    writeFileSync(tokens, lines.replace(/^ada .*$/m, ''));
    await page.getByLabel('Token').fill('see');
    await page.keyboard.press('Enter');
    await heading('ledger');
});

/* ---- What may happen meanwhile ------------------------------------------------------------------- */

await claim('an address with a namespace that is not there shows no other one', async () => {
    await page.goto(`${open}/#/nowhere/dead`);
    await heading('That is not there.');
    await page.getByRole('link', {name: 'default'}).waitFor();
});
await claim('the page says that its namespace was removed, and leads to others', async () => {
    await call(open, 'PUT', '/v1/namespaces/shop', {});
    await page.goto(`${open}/#/shop/`);
    await text('Nothing was published yet');
    await call(open, 'DELETE', '/v1/namespaces/shop?force=true');
    await heading('That is not there.');
    await page.getByRole('link', {name: 'default'}).click();
    await heading(/need|well|watch/);
});

await claim('a page that is not seen has no connection, and goes on when it is seen', async () => {
    await go('');
    await page.locator('.pill.live').waitFor();
    const hide = (hidden) => page.evaluate((value) => {
        Object.defineProperty(document, 'hidden', {value, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    const ended = page.waitForEvent('requestfailed', (request) => request.url().includes('/live?'));
    await hide(true);
    await ended;
    const begins = page.waitForRequest((request) => request.url().includes('/live?'));
    await hide(false);
    await begins;
    await page.locator('.pill.live').waitFor();
});
await claim('ages are by the clock of the server, not of the browser', async () => {
    await page.evaluate(() => { const real = Date.now; Date.now = () => real() + 3600000; });
    await call(open, 'POST', '/v1/events', {type: 'user.created'});
    const waits = page.locator('tr', {hasText: 'mailer'}).locator('td:nth-child(4)');
    await page.waitForTimeout(1200); /* until the next sample is drawn */
    return /h|d/.test(await waits.innerText()) && await waits.innerText();
});

/* A server of its own that may go away; it comes back at the same address. */
async function serve(listen) {
    const server = spawn(holdfast, ['serve', '--listen', listen], {stdio: ['ignore', 'ignore', 'pipe']});
    let said = '';
    for await (const chunk of server.stderr) {
        said += chunk;
        if (/ on http:\S+:\d+/.test(said)) {
            break;
        }
    }
    return {server, address: said.match(/ on http:\/\/(\S+:\d+)/)[1]};
}
const ended = ({server}) => new Promise((resolve) => { server.on('exit', resolve); server.kill('SIGKILL'); });
await claim('the page says since when the server is away, and goes on when it comes back', async () => {
    const first = await serve('127.0.0.1:0');
    bases.push(`http://${first.address}`);
    await page.goto(`http://${first.address}/`);
    await page.locator('.pill.live').waitFor();
    await ended(first);
    await text(/No connection since/);
    await text(/These numbers are .* old/);
    const second = await serve(first.address);
    await page.locator('.pill.live').waitFor();
    const old = await page.locator('.notice').count();
    await page.goto('about:blank');
    await ended(second);
    return old > 0 && 'it still says that the numbers are old';
});
await claim('no policy was violated, no script failed, nothing was fetched from elsewhere', async () =>
    trouble.length > 0 && trouble.join('\n'));

await browser.close();
rmSync(profile, {recursive: true, force: true});
process.exit(failed ? 1 : 0);
