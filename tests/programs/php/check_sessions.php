<?php
// Sessions of phpredis with locks: a second request waits until the first has written, and a lock whose holder was killed expires.

const LIMIT_S = 60;

$port = (int)getenv('PORT');
ini_set('session.use_cookies', '0');
ini_set('session.use_only_cookies', '0');
ini_set('session.cache_limiter', '');
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://127.0.0.1:$port?database=1");
ini_set('redis.session.locking_enabled', '1');
ini_set('redis.session.lock_expire', '2');
ini_set('redis.session.lock_wait_time', '10000');
ini_set('redis.session.lock_retries', (string)(LIMIT_S * 100));

$server = new Redis();
$server->connect('127.0.0.1', $port);
$server->select(1);

function require_that(bool $condition, string $what): void
{
    if (!$condition) {
        fwrite(STDERR, "$what\n");
        exit(1);
    }
}

function until(string $what, callable $condition): void
{
    $limit = microtime(true) + LIMIT_S;
    while (!$condition()) {
        require_that(microtime(true) < $limit, "not within " . LIMIT_S . " s: $what");
        usleep(20000);
    }
}

// Runs one request in a process of its own.
function request(string $kind)
{
    $process = proc_open([PHP_BINARY, __FILE__, $kind], [STDIN, STDOUT, STDERR], $pipes);
    require_that(is_resource($process), 'the request does not start');
    return $process;
}

function start(string $id): void
{
    session_id($id);
    require_that(session_start(), "the session $id was not locked");
}

switch ($argv[1] ?? 'check') {
    case 'increment':
        for ($i = 0; $i < 20; $i++) {
            start('counter');
            $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
            session_write_close();
        }
        exit(0);
    case 'hold':
        start('killed');
        $server->set('holds', '1');
        sleep(LIMIT_S);
        exit(1);
}

// Released and acquired again, by the same request and by others.
for ($i = 1; $i <= 2; $i++) {
    start('again');
    require_that(($_SESSION['runs'] ?? 0) === $i - 1, 'the session has lost its value');
    $_SESSION['runs'] = $i;
    require_that(count($server->keys('*LOCK')) === 1, 'the session is not locked');
    session_write_close();
    require_that(count($server->keys('*LOCK')) === 0, 'the lock was not released');
}

// One request at a time: no increment is lost.
$requests = array_map('request', array_fill(0, 4, 'increment'));
foreach ($requests as $each) {
    require_that(proc_close($each) === 0, 'a request failed');
}
start('counter');
require_that($_SESSION['count'] === 80, "80 increments under the lock made {$_SESSION['count']}");
session_destroy();

// The lock of a killed request expires.
$holder = request('hold');
until('the lock is held', fn() => $server->exists('holds'));
proc_terminate($holder, 9);
proc_close($holder);
require_that(count($server->keys('*LOCK')) === 1, 'the killed request has no lock');
start('killed');
session_write_close();
require_that(count($server->keys('*LOCK')) === 0, 'the lock was not released');
