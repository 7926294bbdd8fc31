'use strict';
// redlock: locks that are released, extended, expired and acquired again, also after their holder was killed.

const assert = require('node:assert/strict');
const Redlock = require('redlock');
const { LIMIT_MS, Redis, Worker, connection, main, until } = require('./programs.cjs');

const server = new Redis(connection);
const impatient = new Redlock([server], { retryCount: 0 });
const patient = new Redlock([server], { retryCount: LIMIT_MS / 20, retryDelay: 20, retryJitter: 0 });

async function worker() {
  await impatient.lock('killed', 2_000);
}

async function check() {
  for (let i = 0; i < 2; i += 1) {
    const lock = await impatient.lock('released', LIMIT_MS);
    await assert.rejects(impatient.lock('released', LIMIT_MS), { name: 'LockError' });
    await lock.unlock();
    assert.equal(await server.exists('released'), 0);
  }

  const several = await impatient.lock(['a', 'b'], LIMIT_MS);
  await assert.rejects(impatient.lock('b', LIMIT_MS), { name: 'LockError' });
  await several.unlock();
  await (await impatient.lock('b', LIMIT_MS)).unlock();

  const extended = await impatient.lock('extended', 1_000);
  const longer = await extended.extend(LIMIT_MS);
  assert.ok((await server.pttl('extended')) > 1_000);
  await longer.unlock();

  const expired = await impatient.lock('expired', 200);
  const next = await patient.lock('expired', LIMIT_MS);
  await assert.rejects(expired.unlock(), { name: 'LockError' });
  await next.unlock();

  // The lock is held by one at a time: none of these increments is lost.
  const increment = async () => {
    const lock = await patient.lock('counter-lock', LIMIT_MS);
    await server.set('counter', Number(await server.get('counter')) + 1);
    await lock.unlock();
  };
  await Promise.all([...Array(20)].map(increment));
  assert.equal(await server.get('counter'), '20');

  const holder = new Worker();
  await until('the lock is held', () => server.exists('killed'));
  await holder.kill();
  await (await patient.lock('killed', LIMIT_MS)).unlock();
}

main({ worker, check });
