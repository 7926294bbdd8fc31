'use strict';
// Parts of the checks of Node programs: the server, a wait with a limit, and worker processes.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const Redis = require('ioredis');

const PORT = Number(process.env.PORT);
// Separates a program that hangs from a slow machine.
const LIMIT_MS = 60_000;
const connection = { host: '127.0.0.1', port: PORT, maxRetriesPerRequest: null };

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Evaluates `condition` until it is true, and returns its value.
async function until(what, condition) {
  const limit = Date.now() + LIMIT_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > limit) throw new Error(`not within ${LIMIT_MS} ms: ${what}`);
    await sleep(20);
  }
}

// Body of a job whose first run never ends, so that its worker can be killed in the middle of it.
async function holdTheFirstTime(server, name) {
  if ((await server.incr(`runs:${name}`)) === 1) await new Promise(() => {});
}

// Starts the running file again with the argument `worker`.
class Worker {
  constructor() {
    this.process = spawn(process.execPath, [process.argv[1], 'worker'], { stdio: ['ignore', 'inherit', 'inherit'] });
    this.ended = once(this.process, 'exit');
  }

  // Ends it as a crash does.
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

// Runs `worker` in a worker process and `check` in the others. A check that does not end keeps its process, which the runner stops.
function main({ worker, check }) {
  const body = process.argv[2] === 'worker' ? worker() : check().then(() => process.exit(0));
  Promise.resolve(body).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { LIMIT_MS, PORT, Redis, Worker, connection, holdTheFirstTime, main, sleep, until };
