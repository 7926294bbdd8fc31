'use strict';
// Clients of a cluster, ioredis and node-redis, against one server with `cluster-enabled emulated`.

const assert = require('node:assert/strict');
const { createCluster } = require('redis');
const { PORT, Redis, main } = require('./programs.cjs');

const HOST = '127.0.0.1';
const KEYS = [...Array(100).keys()].map((number) => `key:${number}`);

async function ioredis(scaleReads) {
  const cluster = new Redis.Cluster([{ host: HOST, port: PORT }], { scaleReads });
  await Promise.all(KEYS.map((key) => cluster.set(key, key, 'EX', 3600)));
  assert.deepEqual(await Promise.all(KEYS.map((key) => cluster.get(key))), KEYS);
  assert.deepEqual(await cluster.mget('{a}x', '{a}y'), [null, null]);
  assert.deepEqual(await cluster.multi().set('{a}x', '1').incr('{a}x').exec(), [[null, 'OK'], [null, 2]]);
  assert.deepEqual(cluster.nodes('master').map((node) => node.options.port), [PORT]);
  await cluster.flushall();
  await cluster.quit();
}

async function nodeRedis(RESP) {
  const cluster = createCluster({ rootNodes: [{ url: `redis://${HOST}:${PORT}` }], RESP, useReplicas: true });
  await cluster.connect();
  assert.deepEqual(cluster.masters.map((node) => node.port), [PORT]);
  await Promise.all(KEYS.map((key) => cluster.set(key, key, { EX: 3600 })));
  assert.deepEqual(await Promise.all(KEYS.map((key) => cluster.get(key))), KEYS);
  assert.deepEqual(await cluster.multi().set('{a}x', '1').incr('{a}x').exec(), ['OK', 2]);
  let received;
  const message = new Promise((resolve) => (received = resolve));
  await cluster.sSubscribe('news', received);
  assert.equal(await cluster.sPublish('news', 'first'), 1);
  assert.equal(await message, 'first');
  await cluster.close();
}

async function check() {
  await ioredis('master');
  await ioredis('all');
  await nodeRedis(2);
  await nodeRedis(3);
}

main({ check });
