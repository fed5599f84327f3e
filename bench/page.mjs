/*
 * page.mjs DRIVER LOADS ADDRESS: opens the first page of a dashboard again and again, with nothing in the browser's
 * cache, and prints medians as a JSON object:
 *
 *   headline_ms   until the headline, which says whether all is well, is drawn
 *   paint_ms      until anything is drawn (first contentful paint)
 *   bare_ms       the same of a page of two letters of the same server (/healthz): what the browser itself takes
 *   kilobytes     of all answers until nothing more comes but the stream
 *   requests      so many
 *
 * Times are from the beginning of the navigation until the frame was shown, by the browser's clock. Loads of the two
 * pages take turns, so that both see the same machine.
 */
import {createRequire} from 'node:module';
import {join} from 'node:path';

const [driver, loads, address] = process.argv.slice(2);
const {chromium} = createRequire(join(driver, 'package.json'))('playwright-core');
const browser = await chromium.launch({executablePath: '/usr/bin/chromium', headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync']});
const SETTLED_MS = 500;

/* Lets the browser note when the first heading is drawn: that needs an attribute, which the page would take away. */
function watchHeadline() {
    const remove = Element.prototype.removeAttribute;
    Element.prototype.removeAttribute = function (name) {
        return name === 'elementtiming' ? undefined : remove.call(this, name);
    };
    const watch = () => document.querySelector('h1:not([elementtiming])')?.setAttribute('elementtiming', 'headline');
    new MutationObserver(watch).observe(document, {childList: true, subtree: true});
    new PerformanceObserver((list) => { window.headline ??= list.getEntries()[0].renderTime; })
        .observe({type: 'element', buffered: true});
}

/* Answers what the page says when it says it. */
async function ask(page, question) {
    for (;;) {
        const answer = await page.evaluate(question);
        if (answer) {
            return answer;
        }
        await page.waitForTimeout(20);
    }
}

async function load(path, look) {
    const context = await browser.newContext({viewport: {width: 1280, height: 900}});
    const page = await context.newPage();
    await page.addInitScript(watchHeadline);
    await page.goto(address + path);
    const seen = await look(page);
    await context.close();
    return seen;
}

const painted = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;

const first = [];
const bare = [];
for (let i = 0; i <= Number(loads); i++) {
    bare.push({bare_ms: await load('/healthz', (page) => ask(page, painted))});
    first.push(await load('/', async (page) => {
        const headline_ms = await ask(page, () => window.headline);
        const paint_ms = await ask(page, painted);
        await page.waitForTimeout(SETTLED_MS);
        const sizes = await page.evaluate(() => ['navigation', 'resource']
            .flatMap((type) => performance.getEntriesByType(type)).map((entry) => entry.transferSize));
        return {headline_ms, paint_ms, kilobytes: sizes.reduce((sum, size) => sum + size, 0) / 1000,
            requests: sizes.length};
    }));
}
await browser.close();

/* Without the first load, which starts parts of the browser. */
function median(rows, name) {
    const values = rows.slice(1).map((row) => row[name]).sort((a, b) => a - b);
    return Math.round(values[Math.floor((values.length - 1) / 2)] * 10) / 10;
}
const names = (rows) => Object.keys(rows[0]).map((name) => [name, median(rows, name)]);
console.log(JSON.stringify(Object.fromEntries([...names(first), ...names(bare)])));
