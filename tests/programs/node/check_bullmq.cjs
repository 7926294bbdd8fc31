'use strict';
// BullMQ: results, delayed and retried jobs, priorities, flows, rate limits, events of a stream, and a worker that is killed in a job.

const assert = require('node:assert/strict');
const { FlowProducer, Queue, QueueEvents, Worker: Processor } = require('bullmq');
const { LIMIT_MS, Redis, Worker, connection, holdTheFirstTime, main, until } = require('./programs.cjs');

const server = new Redis(connection);

const JOBS = {
  add: async (job) => job.data.a + job.data.b,
  failsTwice: async (job) => {
    if (job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
    return job.attemptsMade;
  },
  sum: async (job) => Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0),
  held: async () => {
    await holdTheFirstTime(server, 'bullmq');
    return 'done';
  },
};

function worker() {
  const processor = new Processor('jobs', (job) => JOBS[job.name](job), {
    connection,
    concurrency: 4,
    // A job is stalled, and runs again, when its worker has not renewed its lock for this time.
    lockDuration: 2_000,
    stalledInterval: 1_000,
    maxStalledCount: 5,
    limiter: { max: 1_000, duration: 1_000 },
  });
  processor.on('error', (error) => console.error(error));
}

async function check() {
  const queue = new Queue('jobs', { connection });
  const events = new QueueEvents('jobs', { connection });
  await events.waitUntilReady();
  const result = (job) => job.waitUntilFinished(events, LIMIT_MS);
  let running = new Worker();

  assert.equal(await result(await queue.add('add', { a: 1, b: 2 })), 3);
  const many = await queue.addBulk([...Array(100).keys()].map((i) => ({ name: 'add', data: { a: i, b: i }, opts: { priority: (i % 3) + 1 } })));
  assert.deepEqual(await Promise.all(many.map(result)), [...Array(100).keys()].map((i) => 2 * i));
  const delayed = await queue.add('add', { a: 3, b: 4 }, { delay: 300 });
  assert.equal(await delayed.getState(), 'delayed');
  assert.equal(await result(delayed), 7);
  const retried = await queue.add('failsTwice', {}, { attempts: 3, backoff: { type: 'fixed', delay: 100 } });
  assert.equal(await result(retried), 2);
  const failed = await queue.add('failsTwice', {}, { attempts: 1 });
  await assert.rejects(result(failed), /attempt 0/);
  assert.equal(await failed.getState(), 'failed');

  const children = [1, 2, 3].map((i) => ({ name: 'add', queueName: 'jobs', data: { a: i, b: i } }));
  const tree = await new FlowProducer({ connection }).add({ name: 'sum', queueName: 'jobs', children });
  assert.equal(await result(tree.job), 12);

  const scheduled = [];
  events.on('completed', ({ jobId, returnvalue }) => jobId.startsWith('repeat:') && scheduled.push(returnvalue));
  await queue.upsertJobScheduler('every', { every: 200 }, { name: 'add', data: { a: 1, b: 1 } });
  await until('a repeated job ran three times', () => scheduled.length >= 3);
  assert.ok(await queue.removeJobScheduler('every'));

  const held = await queue.add('held', {});
  await until('the job has begun', async () => (await server.exists('runs:bullmq')) === 1);
  const lock = `bull:jobs:${held.id}:lock`;
  await until('the job is locked', () => server.exists(lock));
  await running.kill();
  running = new Worker();
  assert.equal(await result(held), 'done');
  assert.equal(await server.exists(lock), 0, 'the lock of the job is left');
  assert.equal(await result(await queue.add('add', { a: 5, b: 6 })), 11);
  await until('nothing is active', async () => (await queue.getActiveCount()) === 0);
  await running.kill();
}

main({ worker, check });
