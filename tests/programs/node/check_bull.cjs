'use strict';
// Bull: results, delayed and retried jobs, priorities, and a worker that is killed in a job.

const assert = require('node:assert/strict');
const Queue = require('bull');
const { PORT, Redis, Worker, connection, holdTheFirstTime, main, until } = require('./programs.cjs');

const server = new Redis(connection);
const SETTINGS = { lockDuration: 2_000, lockRenewTime: 500, stalledInterval: 1_000, maxStalledCount: 5, guardInterval: 200 };
const open = () => new Queue('jobs', { redis: { host: '127.0.0.1', port: PORT }, settings: SETTINGS });

const JOBS = {
  add: async ({ a, b }) => a + b,
  failsTwice: async (_, job) => {
    if (job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
    return job.attemptsMade;
  },
  held: async () => {
    await holdTheFirstTime(server, 'bull');
    return 'done';
  },
};

function worker() {
  const queue = open();
  for (const [name, run] of Object.entries(JOBS)) queue.process(name, 2, (job) => run(job.data, job));
}

async function check() {
  const queue = open();
  let running = new Worker();
  const result = (job) => job.finished();

  assert.equal(await result(await queue.add('add', { a: 1, b: 2 })), 3);
  const many = await queue.addBulk([...Array(50).keys()].map((i) => ({ name: 'add', data: { a: i, b: i }, opts: { priority: (i % 3) + 1 } })));
  assert.deepEqual(await Promise.all(many.map(result)), [...Array(50).keys()].map((i) => 2 * i));
  const delayed = await queue.add('add', { a: 3, b: 4 }, { delay: 300 });
  assert.equal(await delayed.getState(), 'delayed');
  assert.equal(await result(delayed), 7);
  assert.equal(await result(await queue.add('failsTwice', {}, { attempts: 3, backoff: 100 })), 2);
  await assert.rejects(result(await queue.add('failsTwice', {})), /attempt 0/);

  const held = await queue.add('held', {});
  await until('the job has begun', async () => (await server.exists('runs:bull')) === 1);
  await running.kill();
  assert.equal(await held.getState(), 'active');
  running = new Worker();
  assert.equal(await result(held), 'done');
  await until('the lock of the job is released', async () => (await server.exists(`bull:jobs:${held.id}:lock`)) === 0);
  assert.equal(await result(await queue.add('add', { a: 5, b: 6 })), 11);
  await running.kill();
}

main({ worker, check });
