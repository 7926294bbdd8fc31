'use strict';
// rate-limiter-flexible over ioredis and node-redis: points that are used up, returned, blocked and new after the window.

const assert = require('node:assert/strict');
const { RateLimiterRedis, RLWrapperBlackAndWhite } = require('rate-limiter-flexible');
const { createClient } = require('redis');
const { PORT, Redis, connection, main, until } = require('./programs.cjs');

async function withClient(storeClient, keyPrefix) {
  const limiter = (options) => new RateLimiterRedis({ storeClient, useRedisPackage: keyPrefix === 'node-redis', ...options });
  const perDay = limiter({ keyPrefix: `${keyPrefix}-day`, points: 3, duration: 86_400 });
  for (const remaining of [2, 1, 0]) assert.equal((await perDay.consume('u')).remainingPoints, remaining);
  await assert.rejects(perDay.consume('u'), { remainingPoints: 0 });
  assert.ok((await perDay.reward('u', 2)).remainingPoints >= 0);
  assert.equal(await perDay.delete('u'), true);
  assert.equal((await perDay.consume('u', 2)).remainingPoints, 1);
  assert.equal((await perDay.get('u')).consumedPoints, 2);

  const perSecond = limiter({ keyPrefix: `${keyPrefix}-second`, points: 1, duration: 1 });
  const isAllowed = () => perSecond.consume('u').then(() => true, () => false);
  assert.ok(await isAllowed());
  await until('the limiter refuses', async () => !(await isAllowed()));
  await until('the limiter allows after its window', isAllowed);

  const blocking = limiter({ keyPrefix: `${keyPrefix}-block`, points: 1, duration: 1, blockDuration: 600 });
  await blocking.consume('u');
  await assert.rejects(blocking.consume('u'), ({ msBeforeNext }) => msBeforeNext > 500_000);

  const listed = new RLWrapperBlackAndWhite({ limiter: perDay, whiteList: ['friend'], blackList: ['foe'] });
  await listed.consume('friend', 100);
  await assert.rejects(listed.consume('foe'));
}

async function check() {
  await withClient(new Redis(connection), 'ioredis');
  const client = createClient({ url: `redis://127.0.0.1:${PORT}` });
  client.on('error', (error) => console.error(error));
  await client.connect();
  await withClient(client, 'node-redis');
}

main({ check });
