//! Compares this server with a redis-server: the tables of commands and replies, and long random
//! sequences. Replies and keyspace events must be equal. Rows marked with `!` are left out, and all
//! rows after the first one that moves the clock.
//!
//! The tests need a `redis-server`. The marks are made for Debian's 7.0.

use crate::script::{Bench, Step, is_of_replaced, parse, render, sorted, words};
use server::command::{bitmap, hash, hyperloglog, key, list, set, sort, sorted_set, string};
use server::context::Spec;
use session::spec::{Keys, flag};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use store::Tick;
use wire::Protocol;

/// Time limit for the start of the redis-server, for slow machines.
const START_WITHIN: Duration = Duration::from_secs(60);

/// A redis-server process that is stopped on drop. It listens on a socket in the file system, so
/// that tests do not compete for ports.
pub struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The process may have ended already. A failure cannot be handled here.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.snapshot());
    }
}

impl Redis {
    /// Starts the server. A test fails without it, because it would compare nothing.
    pub fn start() -> Redis {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mayfly-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(&name);
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket"])
            .arg(&socket)
            // Texts are compared by their bytes.
            .env("LC_ALL", "C")
            .args(["--save", "", "--appendonly", "no", "--dbfilename"])
            .arg(format!("{name}.rdb"))
            .arg("--dir")
            .arg(std::env::temp_dir())
            .args(["--notify-keyspace-events", "EAmn"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.expect("redis-server is installed");
        Redis { child, socket }
    }

    /// Returns the path of the file that SAVE writes.
    pub fn snapshot(&self) -> PathBuf {
        self.socket.with_extension("sock.rdb")
    }

    fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + START_WITHIN;
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < deadline, "redis-server: {error}"),
            }
            std::thread::yield_now();
        }
    }
}

/// A Redis client, and another one subscribed to keyspace events.
pub struct RedisClient {
    client: UnixStream,
    listener: UnixStream,
    protocol: Protocol,
}

fn send(stream: &mut UnixStream, args: &[Vec<u8>]) {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    stream.write_all(&request).expect("redis-server listens");
}

fn receive(stream: &mut UnixStream, buffer: &mut Vec<u8>, protocol: Protocol) -> String {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some((shown, rest)) = render(buffer, protocol) {
            *buffer = rest.to_vec();
            return shown;
        }
        let len = stream.read(&mut chunk).expect("redis-server answers");
        assert!(len > 0, "redis-server hung up");
        buffer.extend_from_slice(&chunk[..len]);
    }
}

impl RedisClient {
    pub fn new(redis: &Redis, protocol: Protocol) -> RedisClient {
        let mut peer = RedisClient {
            client: redis.connect(),
            listener: redis.connect(),
            protocol,
        };
        peer.run(&words("FLUSHALL"));
        if protocol == Protocol::Resp3 {
            peer.run(&words("HELLO 3"));
        }
        send(&mut peer.listener, &words("PSUBSCRIBE __keyevent@*__:*"));
        receive(&mut peer.listener, &mut Vec::new(), Protocol::Resp2);
        peer
    }

    pub fn run(&mut self, args: &[Vec<u8>]) -> String {
        send(&mut self.client, args);
        receive(&mut self.client, &mut Vec::new(), self.protocol)
    }

    /// Returns the keyspace events since the last call in the notation of the tables, without
    /// classes.
    pub fn events(&mut self) -> Vec<String> {
        send(&mut self.listener, &words("PING"));
        let (mut events, mut buffer) = (Vec::new(), Vec::new());
        loop {
            let shown = receive(&mut self.listener, &mut buffer, Protocol::Resp2);
            let Some(message) =
                shown.strip_prefix("[\"pmessage\" \"__keyevent@*__:*\" \"__keyevent@")
            else {
                return events;
            };
            let (db, rest) = message.split_once("__:").expect("a channel");
            let (name, key) = rest.split_once("\" \"").expect("a channel and a key");
            let key = key.strip_suffix("\"]").expect("the end of a message");
            let db = if db == "0" {
                String::new()
            } else {
                format!(" @{db}")
            };
            events.push(format!("{name} {key}{db}"));
        }
    }
}

pub fn now() -> Tick {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    Tick(since.as_millis() as u64)
}

/// Converts our event to Redis's form: without the class, and with Redis's name.
fn plain(event: &str) -> String {
    event
        .split_once('.')
        .map_or(event, |(_, event)| event)
        .to_string()
}

pub const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// Whether two replies about a deadline differ at most by the time between both commands.
fn is_about_equal(args: &[Vec<u8>], ours: &str, theirs: &str) -> bool {
    let tolerance = match args[0].as_slice() {
        b"TTL" | b"EXPIRETIME" => 1,
        b"PTTL" | b"PEXPIRETIME" => 1000,
        _ => return false,
    };
    match (ours.parse::<i64>(), theirs.parse::<i64>()) {
        (Ok(ours), Ok(theirs)) => ours > 0 && theirs > 0 && ours.abs_diff(theirs) <= tolerance,
        _ => false,
    }
}

/// Sends one command to both servers and compares the replies and events. A deadline in the past
/// publishes `expired` here and `del` there, intentionally.
pub fn compare(
    bench: &mut Bench,
    peer: &mut RedisClient,
    args: &[Vec<u8>],
    is_unordered: bool,
) -> Option<String> {
    bench.now = now();
    let (mut ours, mut theirs) = (bench.run(args), peer.run(args));
    if is_unordered {
        (ours, theirs) = (sorted(&ours), sorted(&theirs));
    }
    let shown: Vec<_> = args
        .iter()
        .map(|arg| String::from_utf8_lossy(&arg[..arg.len().min(60)]).into_owned())
        .collect();
    let shown = shown.join(" ");
    if ours != theirs && !is_about_equal(args, &ours, &theirs) {
        return Some(format!("{shown}\n  redis  {theirs}\n  mayfly {ours}"));
    }
    let is_refused = ours.starts_with("-ERR");
    let mut ours: Vec<String> = bench
        .last_events()
        .iter()
        .filter(|event| !is_of_replaced(event))
        .map(|event| plain(event))
        .collect();
    let mut theirs = peer.events();
    if args[0].starts_with(b"SORT") {
        // The elements of a set are looked up in stored order, here only up to the first invalid
        // one.
        ours.sort_unstable();
        theirs.sort_unstable();
        if is_refused {
            theirs.clone_from(&ours);
        }
    }
    for (ours, theirs) in ours.iter().zip(&mut theirs) {
        let expired = theirs
            .strip_prefix("del ")
            .map(|key| format!("expired {key}"));
        if expired.as_ref() == Some(ours) {
            theirs.clone_from(ours);
        }
    }
    (ours != theirs).then(|| format!("{shown}\n  redis  {theirs:?}\n  mayfly {ours:?}"))
}

#[test]
fn redis_gives_the_replies_of_the_tables() {
    let redis = Redis::start();
    let mut failures = Vec::new();
    let mut compared = 0;
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/tables");
    for entry in std::fs::read_dir(directory).expect("the tables") {
        let path = entry.expect("a table").path();
        let text = std::fs::read_to_string(&path).expect("text");
        for protocol in PROTOCOLS {
            let start = now();
            let mut bench = Bench::new(protocol, start, 1);
            let mut peer = RedisClient::new(&redis, protocol);
            for row in parse(&text, start) {
                let (args, is_unordered) = match row.step {
                    Step::Advance(_) => break,
                    Step::Command {
                        args, is_unordered, ..
                    } if !row.is_ours => (args, is_unordered),
                    _ => continue,
                };
                compared += 1;
                if let Some(difference) = compare(&mut bench, &mut peer, &args, is_unordered) {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    failures.push(format!("{name}:{} {protocol:?}: {difference}", row.line));
                }
            }
        }
    }
    println!("{compared} commands compared");
    assert!(
        failures.is_empty(),
        "redis-server replies differently; correct the command, or write `!` before the rows of what Redis lacks:\n{}",
        failures.join("\n")
    );
}

/// Formats a command's specification like the first part of COMMAND INFO's reply.
fn described(spec: &Spec) -> String {
    let mut flags: Vec<String> = flag::NAMES
        .iter()
        .filter(|(bit, _)| spec.has(*bit))
        .map(|(_, name)| format!("+{name}"))
        .collect();
    flags.sort();
    let (first, last, step) = match spec.keys {
        Keys::Range(first, last, step) => (first, last, step),
        Keys::FirstAndCounted(_) | Keys::Sort => (1, 1, 1),
        _ => (0, 0, 0),
    };
    let (name, arity, flags) = (spec.name, spec.arity, flags.join(" "));
    format!("[\"{name}\" {arity} [{flags}] {first} {last} {step} ")
}

/// Returns the categories of a command in COMMAND INFO's reply.
fn categories(reply: &str) -> BTreeSet<String> {
    let words = reply.split(|letter: char| " []".contains(letter));
    let categories = words.filter(|word| word.starts_with("+@"));
    categories.map(str::to_string).collect()
}

#[test]
fn redis_describes_commands_on_keys_in_the_same_way() {
    let redis = Redis::start();
    let mut peer = RedisClient::new(&redis, Protocol::Resp2);
    let mut bench = Bench::new(Protocol::Resp2, now(), 1);
    let mut compared = 0;
    let families = [
        string::TABLE,
        key::TABLE,
        sorted_set::TABLE,
        bitmap::TABLE,
        hyperloglog::TABLE,
        hash::TABLE,
        set::TABLE,
        sort::TABLE,
        list::TABLE,
    ];
    for spec in families.into_iter().flatten() {
        // Excludes commands that are newer than Redis 7.0 or not Redis's, containers whose
        // subcommands it describes instead, TTL, which accepts a member here, and commands that
        // accept more arguments since Redis 7.2.
        let is_newer = ["7.4", "8.", "9."]
            .iter()
            .any(|v| spec.since.starts_with(v));
        let is_foreign = !spec.since.starts_with(|first: char| first.is_ascii_digit());
        let is_other =
            ["object", "memory", "ttl", "pttl", "zrank", "zrevrank"].contains(&spec.name);
        if is_newer || is_foreign || is_other {
            continue;
        }
        let reply = peer.run(&words(&format!("COMMAND INFO {}", spec.name)));
        let (head, tail) = reply.split_once(']').expect("flags");
        let (start, flags) = head.rsplit_once('[').expect("flags");
        let mut flags: Vec<&str> = flags.split(' ').collect();
        // Redis 7.0 does not allow the older blocking commands in scripts; later versions do.
        if spec.has(flag::BLOCKING) {
            flags.retain(|flag| *flag != "+noscript");
        }
        flags.sort_unstable();
        let theirs = format!("{start}[{}]{tail}", flags.join(" "));
        let ours = described(spec);
        assert!(theirs.starts_with(&format!("[{ours}")), "{theirs}\n{ours}");
        let ours = bench.run(&words(&format!("COMMAND INFO {}", spec.name)));
        assert_eq!(categories(&ours), categories(&theirs), "{}", spec.name);
        compared += 1;
    }
    assert!(compared > 40);
}
