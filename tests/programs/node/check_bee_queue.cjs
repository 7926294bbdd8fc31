'use strict';
// bee-queue: results, delayed and retried jobs, and a worker that is killed in a job.

const assert = require('node:assert/strict');
const Queue = require('bee-queue');
const { PORT, Redis, Worker, connection, holdTheFirstTime, main, until } = require('./programs.cjs');

const server = new Redis(connection);
const open = (isWorker) =>
  new Queue('jobs', { redis: { host: '127.0.0.1', port: PORT }, isWorker, activateDelayedJobs: true, delayedDebounce: 100, stallInterval: 1_000 });

const JOBS = {
  add: async ({ a, b }) => a + b,
  failsOnce: async () => {
    if ((await server.incr('runs:failsOnce')) < 2) throw new Error('first run');
    return 'done';
  },
  held: async () => {
    await holdTheFirstTime(server, 'bee');
    return 'done';
  },
};

function worker() {
  const queue = open(true);
  queue.process(4, (job) => JOBS[job.data.name](job.data));
  // Looks for stalled jobs at every interval.
  queue.checkStalledJobs(1_000, (error) => error && console.error(error));
}

async function check() {
  const queue = open(false);
  await queue.ready();
  let running = new Worker();
  const results = new Map();
  queue.on('job succeeded', (id, value) => results.set(id, value));
  const result = async (job) => {
    await until(`job ${job.id} succeeds`, () => results.has(job.id));
    return results.get(job.id);
  };
  const add = (a, b) => queue.createJob({ name: 'add', a, b });

  assert.equal(await result(await add(1, 2).save()), 3);
  const many = await Promise.all([...Array(50).keys()].map((i) => add(i, i).save()));
  assert.deepEqual(await Promise.all(many.map(result)), [...Array(50).keys()].map((i) => 2 * i));
  assert.equal(await result(await add(3, 4).delayUntil(Date.now() + 300).save()), 7);
  assert.equal(await result(await queue.createJob({ name: 'failsOnce' }).retries(1).backoff('fixed', 100).save()), 'done');

  const held = await queue.createJob({ name: 'held' }).save();
  await until('the job has begun', async () => (await server.exists('runs:bee')) === 1);
  await running.kill();
  assert.equal((await queue.checkHealth()).active, 1);
  running = new Worker();
  assert.equal(await result(held), 'done');
  assert.equal(await result(await add(5, 6).save()), 11);
  await until('nothing is active', async () => (await queue.checkHealth()).active === 0);
  await running.kill();
}

main({ worker, check });
