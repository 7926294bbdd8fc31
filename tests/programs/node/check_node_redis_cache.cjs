'use strict';
// Client-side caching of node-redis: replies from the client's memory until the key is changed, expired or flushed.

const assert = require('node:assert/strict');
const { createClient, BasicClientSideCache } = require('redis');
const { PORT, main, until } = require('./programs.cjs');

async function open(options) {
  const client = createClient({ url: `redis://127.0.0.1:${PORT}`, RESP: 3, ...options });
  client.on('error', (error) => console.error(error));
  return client.connect();
}

async function check() {
  const cache = new BasicClientSideCache({ maxEntries: 100, ttl: 0, evictPolicy: 'LRU' });
  const reader = await open({ clientSideCache: cache });
  const writer = await open();
  const hits = () => cache.stats().hitCount;

  await writer.set('a', '1');
  assert.equal(await reader.get('a'), '1');
  assert.equal(await reader.get('a'), '1');
  assert.equal(hits(), 1, 'the second reply comes from the cache');
  await writer.set('a', '2');
  await until('a change is seen', async () => (await reader.get('a')) === '2');

  await writer.hSet('h', { x: '1', y: '2' });
  assert.deepEqual({ ...(await reader.hGetAll('h')) }, { x: '1', y: '2' });
  const before = hits();
  await reader.hGetAll('h');
  assert.equal(hits(), before + 1);
  await writer.hDel('h', 'y');
  await until('a removed field is seen', async () => Object.keys(await reader.hGetAll('h')).length === 1);

  await writer.set('short', '1', { PX: 300 });
  assert.equal(await reader.get('short'), '1');
  await until('an expired key is seen', async () => (await reader.get('short')) === null);

  await reader.get('a');
  await writer.flushAll();
  await until('a flush is seen', async () => (await reader.get('a')) === null);
  await writer.set('a', '3');
  await until('a key that was absent is seen', async () => (await reader.get('a')) === '3');

  // The server closes the connection: the cache is cleared, and tracking begins again with the next connection.
  const id = await reader.clientId();
  await writer.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]);
  await until('the reader is connected again', async () => (await reader.clientId().catch(() => id)) !== id);
  assert.equal(await reader.get('a'), '3');
  await writer.set('a', '4');
  await until('a change after the reconnection is seen', async () => (await reader.get('a')) === '4');
}

main({ check });
