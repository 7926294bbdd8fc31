//! Tests that the frequent commands of caches do not allocate once buffers and tables have their
//! size.

use server::dispatch::{Call, Executor};
use server::{Server, command};
use session::Session;
use session::clock::Clock;
use settings::Config;
use store::Tick;
use wire::memcached::{Limits, Parsed, Parser, Request};
use wire::{Output, Span};

/// Number of commands per batch.
const CALLS: usize = 1000;
/// Maximum number of allocations per batch: an executor and the deadline index's chunks, but none
/// per command.
const ALLOCATIONS_MAX: u64 = 20;
const NOW: Tick = Tick(1_700_000_000_000);

/// A batch as it arrives from a client, with all arguments in one buffer.
#[derive(Default)]
struct Batch {
    input: Vec<u8>,
    spans: Vec<Span>,
    calls: Vec<Call>,
}

impl Batch {
    /// Creates a batch with `command` for each key, which replaces `KEY` in it.
    fn new(command: &str, keys: &[String]) -> Batch {
        let mut batch = Batch::default();
        for key in keys {
            let (start, first) = (batch.input.len(), batch.spans.len());
            for word in command.replace("KEY", key).split(' ') {
                batch.spans.push(Span {
                    start: (batch.input.len() - start) as u32,
                    len: word.len() as u32,
                });
                batch.input.extend_from_slice(word.as_bytes());
            }
            let name = command.split(' ').next().unwrap_or_default();
            batch.calls.push(Call {
                start,
                len: batch.input.len() - start,
                first,
                count: batch.spans.len() - first,
                index: command::table().lookup(name.as_bytes()),
                memo: None,
            });
        }
        batch
    }
}

/// Runs a batch at one point in time, like a worker. The replies are written to `out`.
fn run(server: &Server, session: &mut Session, batch: &mut Batch, now: Tick, out: &mut Output) {
    out.clear();
    let mut executor = Executor::new(server, 0, now);
    executor.prepare(&mut batch.calls, &batch.input, &batch.spans, session.db);
    for call in &batch.calls {
        let args = call.args(&batch.input, &batch.spans);
        executor.run(session, args, call, out);
    }
    executor.finish();
}

#[test]
fn frequent_commands_do_not_allocate() {
    count_allocations("slab", 1, &[]);
}

/// The segment engine does not serve SETRANGE and GETRANGE.
#[test]
fn frequent_commands_on_the_segment_engine_do_not_allocate() {
    for threads in [1, 2] {
        count_allocations("segment", threads, &["SETRANGE", "GETRANGE"]);
    }
}

/// With several data threads, a command locks its own shards; the list of locks for several keys is
/// allocated per command.
#[test]
fn frequent_commands_on_one_key_do_not_allocate_with_several_threads() {
    count_allocations("slab", 2, &["MGET"]);
}

fn server(engine: &str, threads: usize) -> Server {
    let options = store::Options {
        shards: 4,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 1,
    };
    let clock = Clock::manual(NOW.0);
    let config = Config::default();
    let param = settings::find("engine").expect("a setting of this name");
    config.set(param, engine).expect("an engine");
    Server::with_store(config, &options, threads, clock).expect("valid options")
}

fn count_allocations(engine: &str, threads: usize, but: &[&str]) {
    let server = server(engine, threads);
    let mut session = Session::new();
    let mut out = Output::from(Vec::with_capacity(1 << 20));
    let keys: Vec<String> = (0..CALLS).map(|index| format!("key:{index}")).collect();
    let commands = [
        "SET KEY 12345",
        "GET KEY",
        "GET none:KEY",
        "MGET KEY none:KEY KEY",
        "SET KEY 54321 EX 100",
        "SETEX KEY 100 12345",
        "SET KEY 1 KEEPTTL",
        "SET KEY 2 NX",
        "INCR KEY",
        "INCRBY KEY -5",
        "EXISTS KEY",
        "TTL KEY",
        "EXPIRE KEY 200",
        "EXPIRE KEY 300 GT",
        "PERSIST KEY",
        "GETRANGE KEY 0 2",
        "GETEX KEY EX 50",
        "STRLEN KEY",
        "APPEND KEY 1",
        "SETRANGE KEY 0 7",
        "GETSET KEY 8",
        "MSET KEY 1 KEY 2",
        "SETNX KEY 1",
        "TYPE KEY",
        "TOUCH KEY",
        "DEL KEY",
        "DEL KEY",
    ];
    let mut costly = Vec::new();
    for round in 0..3 {
        for command in commands {
            let mut batch = Batch::new(command, &keys);
            let cost = allocation_counter::measure(|| {
                run(&server, &mut session, &mut batch, NOW, &mut out);
            });
            let is_refused = out.windows(4).any(|bytes| bytes == b"-ERR");
            // The first rounds grow buffers and tables to their size.
            let is_free = but.iter().any(|name| command.starts_with(name));
            assert!(!is_refused || is_free, "{command}");
            if round == 2 && !is_free && cost.count_total > ALLOCATIONS_MAX {
                costly.push(format!("{command}: {} allocations", cost.count_total));
            }
        }
    }
    assert!(
        costly.is_empty(),
        "{CALLS} calls each:\n{}",
        costly.join("\n")
    );
}

/// Returns requests in memcached's protocol, one for each key, which replaces `KEY` in them.
fn memcached_requests(request: &str, keys: &[String]) -> String {
    keys.iter().map(|key| request.replace("KEY", key)).collect()
}

/// Runs requests at one point in time, like a worker. The replies are written to `out`.
fn run_memcached(
    server: &Server,
    session: &mut Session,
    input: &str,
    found: &mut (Vec<(usize, Request)>, Vec<Span>),
    out: &mut Output,
) {
    let (requests, spans) = found;
    out.clear();
    requests.clear();
    spans.clear();
    let mut parser = Parser::new(Limits {
        value_bytes_max: 1 << 20,
    });
    let (input, mut at) = (input.as_bytes(), 0);
    while let Parsed::Request { consumed, request } = parser.parse(&input[at..], spans) {
        requests.push((at, request));
        at += consumed;
    }
    assert_eq!(at, input.len());
    let mut executor = Executor::new(server, 0, NOW);
    let keys = requests.iter().flat_map(|(at, request)| {
        let here = &input[*at..];
        let keys = request.keys(spans).iter();
        keys.map(|span| &here[span.range()])
    });
    executor.prepare_keys(keys);
    for (at, request) in requests.iter() {
        executor.run_memcached(session, request, request.keys(spans), &input[*at..], out);
    }
    executor.finish();
}

#[test]
fn memcached_requests_do_not_allocate() {
    for engine in ["slab", "segment"] {
        for threads in [1, 2] {
            count_allocations_of_memcached(engine, threads);
        }
    }
}

fn count_allocations_of_memcached(engine: &str, threads: usize) {
    let server = server(engine, threads);
    let mut session = Session::new();
    let (mut found, mut out) = (
        Default::default(),
        Output::from(Vec::with_capacity(1 << 20)),
    );
    let keys: Vec<String> = (0..CALLS).map(|index| format!("key:{index}")).collect();
    let requests = [
        "set KEY 0 0 5\r\n12345\r\n",
        "set KEY 7 100 5\r\n12345\r\n",
        "get KEY\r\n",
        "gets KEY\r\n",
        "get none:KEY\r\n",
        "touch KEY 50\r\n",
        "gat 60 KEY\r\n",
        "mg KEY v\r\n",
        "mg KEY k v t h\r\n",
        "ms KEY 2 T90\r\n12\r\n",
        "delete KEY\r\n",
        "delete KEY\r\n",
    ];
    for round in 0..3 {
        for request in requests {
            let input = memcached_requests(request, &keys);
            let cost = allocation_counter::measure(|| {
                run_memcached(&server, &mut session, &input, &mut found, &mut out);
            });
            let is_costly = round == 2 && cost.count_total > ALLOCATIONS_MAX;
            assert!(
                !is_costly,
                "{engine} {request}: {} for {CALLS}",
                cost.count_total
            );
        }
    }
}
