// jobs.mjs - measures the job queues that are packages of npm, as bench/measure does the others.
//
//     node jobs.mjs SYSTEM WORK ADDRESS [NAME=VALUE ...]
//
// SYSTEM is graphile-worker, pg-boss or plainjob; works, names and the JSON object that is printed
// are those of measure.c. It runs where the packages are installed. Each queue is called as its
// documents say that it is fastest: several jobs in a call where there is such a call, completions
// that are collected, no pause between polls. MEASURE is the program measure.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";

const ATTEMPTS = 3;
const FILL = 1000;
const [system, work, address, ...rest] = process.argv.slice(2);
const task = { links: 1, batch: 1, events: 0, seconds: 1, rate: 500, server: 0 };
for (const option of rest) {
    const [name, value] = option.split("=");
    task[name] = Number(value);
}

// 90 bytes of JSON, as payload_make of cost.c.
function payload(number) {
    const text = `{"t":${String(number).padStart(19)},"pad":"`;
    return JSON.parse(`${text}${"x".repeat(88 - text.length)}"}`);
}

const payloads = (count) => Array.from({ length: count }, (_, i) => payload(i));
const seconds = () => Number(process.hrtime.bigint()) / 1e9;

// What a process has spent: CPU seconds, and the bytes that it wrote.
function spent(pid, withEnded) {
    try {
        const fields = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\) /s, "").split(" ");
        const ticks = Number(fields[11]) + Number(fields[12]) +
            (withEnded ? Number(fields[13]) + Number(fields[14]) : 0);
        const bytes = /^wchar: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, "latin1"))[1];
        return { parent: Number(fields[1]), cpu: ticks / 100, bytes: Number(bytes) };
    } catch {
        return { parent: 0, cpu: 0, bytes: 0 }; // it has gone
    }
}

// See cost.c: the CPU time of this process and the server's, the bytes of the server.
function costNow() {
    const own = process.cpuUsage();
    const cost = { cpu: (own.user + own.system) / 1e6, bytes: 0 };
    if (!task.server) {
        cost.bytes = spent(process.pid, false).bytes;
        return cost;
    }
    for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
        const pid = Number(name);
        const one = spent(pid, pid === task.server);
        if (pid === task.server || (one.parent === task.server && pid !== process.pid)) {
            cost.cpu += one.cpu;
            cost.bytes += one.bytes;
        }
    }
    return cost;
}

// Runs what is measured, and prints what it took. It answers the number of events, or an object.
async function measure(run) {
    const before = costNow();
    const began = seconds();
    let result = await run();
    const took = seconds() - began;
    const after = costNow();
    result = typeof result === "number" ? { events: result } : result;
    const count = Math.max(result.events, 1);
    const fixed = (value, digits) => Number(value.toFixed(digits));
    console.log(JSON.stringify({
        system,
        work,
        events: result.events,
        seconds: fixed(took, 3),
        rate: fixed(result.events / took, 1),
        cpu_us: fixed((after.cpu - before.cpu) * 1e6 / count, 3),
        bytes: fixed((after.bytes - before.bytes) / count, 1),
        ...(result.latencies ? percentiles(result.latencies) : {}),
    }));
}

function percentiles(latencies) {
    latencies.sort((a, b) => a - b);
    const at = (part) => Number(latencies[Math.floor((latencies.length - 1) * part)].toFixed(3));
    return { p50_ms: at(0.5), p99_ms: at(0.99) };
}

// As many at once as there are links, each one after the other, until the time is over.
async function publishFor(publish) {
    const until = seconds() + task.seconds;
    let done = 0;
    await Promise.all(Array.from({ length: task.links }, async () => {
        while (seconds() < until) {
            await publish(done);
            done += task.batch;
        }
    }));
    return done;
}

// Events become due in another program, in an open loop; how many.
async function publishDue() {
    const publisher = spawn(process.env.MEASURE, [system, "due", address, `rate=${task.rate}`,
        `seconds=${task.seconds}`, `links=${task.links}`], { stdio: ["ignore", "ignore", "inherit"] });
    const [code] = await once(publisher, "exit");
    if (code !== 0) {
        throw new Error("the publisher has failed");
    }
    return Math.floor(task.rate * task.seconds);
}

async function until(condition) {
    while (!condition()) {
        await new Promise((done) => setTimeout(done, 1));
    }
}

// ---- graphile-worker ------------------------------------------------------------------------------

async function graphile() {
    const { run, makeWorkerUtils, Logger } = await import("graphile-worker");
    const logger = new Logger(() => () => {});
    const utils = await makeWorkerUtils({ connectionString: address, logger });
    let handled = 0;
    const latencies = [];
    const taskList = {
        bench(job) {
            handled++;
            if (job.t > 0 && work === "latency") {
                latencies.push((seconds() - job.t / 1e9) * 1e3);
            }
        },
    };
    const preset = {
        worker: {
            concurrentJobs: 24,
            maxPoolSize: 10,
            // Latency is measured without collecting: a job is taken as soon as it is there.
            ...(work === "latency" ? {} : {
                localQueue: { size: 500 },
                completeJobBatchDelay: 0,
                failJobBatchDelay: 0,
            }),
        },
    };
    const start = () => run({ connectionString: address, taskList, preset, logger, noHandleSignals: true });
    await utils.migrate();
    if (work === "setup") {
        await utils.release();
        return;
    }
    if (work === "latency") {
        const runner = await start();
        await utils.addJob("bench", payload(0));
        await until(() => handled === 1);
        await measure(async () => {
            const events = await publishDue();
            await until(() => handled === events + 1);
            return { events, latencies };
        });
        await runner.stop();
    } else {
        for (let done = 0; done < task.events; done += FILL) {
            await utils.addJobs(payloads(FILL).map((job) => ({ identifier: "bench", payload: job })));
        }
        await measure(async () => {
            const runner = await start();
            await until(() => handled === task.events);
            await runner.stop();
            return handled;
        });
    }
    await utils.release();
}

// ---- pg-boss --------------------------------------------------------------------------------------

async function pgBoss() {
    const module = await import("pg-boss");
    const PgBoss = module.PgBoss ?? module.default;
    const boss = new PgBoss({ connectionString: address, max: task.links, supervise: false, schedule: false });
    boss.on("error", (error) => { throw error; });
    await boss.start();
    await boss.createQueue("bench");
    const options = { retryLimit: ATTEMPTS - 1, retryDelay: 0, retryBackoff: false };
    // From version 11 on the queue's name is a parameter of its own.
    const insert = (jobs) => boss.insert.length > 1
        ? boss.insert("bench", jobs.map((data) => ({ data, ...options })))
        : boss.insert(jobs.map((data) => ({ name: "bench", data, ...options })));
    if (work === "publish") {
        const publish = task.batch === 1
            ? (number) => boss.send("bench", payload(number))
            : () => insert(payloads(task.batch));
        await publish(0);
        await measure(() => publishFor(publish));
    } else if (work !== "setup") {
        for (let done = 0; done < task.events; done += FILL) {
            await insert(payloads(FILL));
        }
        const settle = work.startsWith("fail")
            ? (ids) => boss.fail("bench", ids) : (ids) => boss.complete("bench", ids);
        await measure(async () => {
            let handled = 0;
            await Promise.all(Array.from({ length: task.links }, async () => {
                let jobs;
                while ((jobs = await boss.fetch("bench", { batchSize: task.batch }))?.length > 0) {
                    await settle(jobs.map((job) => job.id));
                    handled += jobs.length;
                }
            }));
            return handled;
        });
    }
    await boss.stop({ graceful: false });
}

// ---- plainjob -------------------------------------------------------------------------------------

async function plainjob() {
    const { better, defineQueue, defineWorker } = await import("plainjob");
    const { default: Database } = await import("better-sqlite3");
    const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
    const database = new Database(address);
    const queue = defineQueue({ connection: better(database), logger: quiet });
    database.pragma("synchronous = FULL"); // defineQueue sets NORMAL, which does not sync commits
    if (work === "publish") {
        const publish = task.batch === 1
            ? (number) => queue.add("bench", payload(number))
            : () => queue.addMany("bench", payloads(task.batch));
        publish(0);
        await measure(() => publishFor(publish));
    } else {
        for (let done = 0; done < task.events; done += FILL) {
            queue.addMany("bench", payloads(FILL));
        }
        await measure(async () => {
            let handled = 0;
            const worker = defineWorker("bench", async () => { handled++; }, {
                queue,
                logger: quiet,
                onCompleted: () => { if (handled === task.events) worker.stop(); },
            });
            await worker.start();
            return handled;
        });
    }
    queue.close();
}

const systems = { "graphile-worker": graphile, "pg-boss": pgBoss, plainjob };
if (!systems[system]) {
    console.error(`jobs: there is no ${system} here`);
    process.exit(2);
}
await systems[system]();
process.exit(0);
