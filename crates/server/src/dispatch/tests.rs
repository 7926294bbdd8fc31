//! Tests of dispatch without sockets.

mod expired;
mod fed;
mod held;
mod linked;
mod logins;
mod names;
mod replayed;
mod routed;

use super::*;
use crate::effects;
use session::clock::Clock;
use settings::{Config, Id, Value};

const NOW: u64 = 1_700_000_000_000;

/// A server with a manual clock, and one client.
struct Bench {
    server: Server,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        let server = Server::new(Config::default(), Clock::manual(NOW)).expect("valid options");
        Bench {
            server,
            session: Session::new(),
        }
    }

    fn say(&mut self, line: &str) -> String {
        self.run(&line.split(' ').collect::<Vec<_>>())
    }

    fn run(&mut self, words: &[&str]) -> String {
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut out = Vec::new();
        exec(
            &self.server,
            &mut self.session,
            &args,
            self.server.clock.now(),
            &mut out,
        );
        String::from_utf8(out).expect("text")
    }

    /// Runs commands and compares their replies without line ends.
    fn table(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.say(line);
            assert_eq!(reply.replace("\r\n", " ").trim_end(), *expected, "{line}");
        }
    }
}

/// Regression: commands whose keys follow a word or a number of keys of a script had no
/// specification of their keys. These are Redis's.
#[test]
fn keys_behind_words_and_counts_are_specified() {
    let index = |at: &str| format!("begin_search type index spec index {at}");
    let word = |word: &str, from: &str| {
        format!("begin_search type keyword spec keyword {word} startfrom {from}")
    };
    let range = |last: &str, limit: &str| {
        format!("find_keys type range spec lastkey {last} keystep 1 limit {limit}")
    };
    let count = "find_keys type keynum spec keynumidx 0 firstkey 1 keystep 1";
    let one = format!("{} {}", index("1"), range("0", "0"));
    let unknown = "begin_search type unknown spec find_keys type unknown spec".to_owned();
    let mut bench = Bench::new();
    for (name, searches) in [
        ("eval", vec![format!("{} {count}", index("2"))]),
        ("fcall_ro", vec![format!("{} {count}", index("2"))]),
        (
            "xread",
            vec![format!("{} {}", word("STREAMS", "1"), range("-1", "2"))],
        ),
        (
            "xreadgroup",
            vec![format!("{} {}", word("STREAMS", "4"), range("-1", "2"))],
        ),
        (
            "georadius",
            vec![
                one.clone(),
                format!("{} {}", word("STORE", "6"), range("0", "0")),
                format!("{} {}", word("STOREDIST", "6"), range("0", "0")),
            ],
        ),
        ("sort", vec![one.clone(), unknown.clone(), unknown.clone()]),
        ("sort_ro", vec![one, unknown]),
    ] {
        let reply = bench.run(&["COMMAND", "INFO", name]);
        let is_word = |line: &&str| !line.starts_with(['*', '$', '+']) && !line.is_empty();
        let words: Vec<&str> = reply.lines().filter(is_word).collect();
        let words = words.join(" ").replace(" :", " ");
        let found: Vec<&str> = words.split("flags ").skip(1).map(str::trim).collect();
        assert_eq!(found, searches, "{name}");
    }
}

/// Regression: TIME moved within a script.
#[test]
fn all_commands_of_a_script_or_transaction_have_one_time() {
    let mut bench = Bench::new();
    bench.server.clock = Clock::System;
    let code = "local a = redis.call('time') for i = 1, 100000 do end local b = redis.call('time') \
                redis.call('set', 'k', 1, 'px', 5000) \
                local at = redis.call('pexpiretime', 'k') - 5000 \
                local ms = a[1] * 1000 + math.floor(a[2] / 1000) \
                return {a[1] - b[1], a[2] - b[2], at - ms}";
    let reply = bench.run(&["EVAL", code, "0"]);
    assert_eq!(reply, "*3\r\n:0\r\n:0\r\n:0\r\n");
    for line in ["MULTI", "TIME", "EVAL code 0", "TIME"] {
        bench.run(
            &line
                .split(' ')
                .map(|word| if word == "code" { code } else { word })
                .collect::<Vec<_>>(),
        );
    }
    let reply = bench.say("EXEC");
    let times: Vec<&str> = reply.split("*2\r\n").skip(1).collect();
    assert_eq!(times.len(), 2, "{reply}");
    assert!(times[0].starts_with(times[1]), "{reply}");
    assert!(bench.session.instant_us.is_none() && !bench.session.runs_script);
}

/// Regression: the client stayed in the transaction, so that its next commands were queued.
#[test]
fn an_exec_that_is_refused_ends_the_transaction() {
    let mut bench = Bench::new();
    bench.table(&[
        ("watch w", "+OK"),
        ("multi", "+OK"),
        ("set k v", "+QUEUED"),
        (
            "exec now",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        ),
        ("get k", "$-1"),
        ("exec", "-ERR EXEC without MULTI"),
        ("set w 1", "+OK"),
        // The flag of the keys watched before is not used again.
        ("watch x", "+OK"),
        ("multi", "+OK"),
        ("set k v", "+QUEUED"),
        ("exec", "*1 +OK"),
        ("multi", "+OK"),
        ("get k", "+QUEUED"),
        ("acl setuser default -exec", "+QUEUED"),
        ("exec", "*2 $1 v +OK"),
        ("multi", "+OK"),
        ("get k", "+QUEUED"),
        (
            "exec",
            "-EXECABORT Transaction discarded because of: NOPERM User default has no permissions to run the 'exec' command",
        ),
        ("get k", "$1 v"),
    ]);
    let mut bench = Bench::new();
    bench
        .server
        .config
        .put(Id::ReplicaServeStale, &Value::Number(0));
    bench.table(&[("multi", "+OK"), ("get k", "+QUEUED")]);
    bench.server.replication.is_replica.store(true, Relaxed);
    bench.table(&[(
        "exec",
        "-EXECABORT Transaction discarded because of: MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    )]);
    bench.server.replication.is_replica.store(false, Relaxed);
    bench.table(&[("get k", "$-1")]);
}

/// Regression: memory kept by functions stayed in the Lua state.
#[test]
fn removed_libraries_free_what_their_functions_have_kept() {
    let mut bench = Bench::new();
    let code = |name: &str| {
        format!(
            "#!lua name={name}\nlocal kept = '' redis.register_function('{name}', function() \
             kept = string.rep('x', 4000000) return #kept end)"
        )
    };
    for (first, second) in [("FLUSH", None), ("DELETE", Some("a"))] {
        for name in ["a", "b"] {
            let reply = bench.run(&["FUNCTION", "LOAD", "REPLACE", &code(name)]);
            assert_eq!(reply, format!("$1\r\n{name}\r\n"));
        }
        bench.table(&[("FCALL a 0", ":4000000")]);
        assert!(bench.server.scripting.vm_bytes() > 4_000_000);
        let words = ["FUNCTION", first].into_iter().chain(second);
        assert_eq!(bench.run(&words.collect::<Vec<_>>()), "+OK\r\n");
        assert!(bench.server.scripting.vm_bytes() < 1_000_000);
    }
}

#[test]
fn unknown_commands_and_wrong_arity_get_redis_errors() {
    Bench::new().table(&[
        ("PiNg", "+PONG"),
        ("echo hi", "$2 hi"),
        ("echo", "-ERR wrong number of arguments for 'echo' command"),
        (
            "nope a b",
            "-ERR unknown command 'nope', with args beginning with: 'a' 'b'",
        ),
        (
            "MIGRATE h 1 k 0 5",
            "-ERR unknown command 'MIGRATE': moving keys between servers is not served yet",
        ),
    ]);
}

#[test]
fn a_transaction_queues_runs_and_aborts() {
    Bench::new().table(&[
        ("exec", "-ERR EXEC without MULTI"),
        ("discard", "-ERR DISCARD without MULTI"),
        ("multi", "+OK"),
        ("multi", "-ERR MULTI calls can not be nested"),
        ("watch k", "-ERR WATCH inside MULTI is not allowed"),
        ("ping", "+QUEUED"),
        ("echo x", "+QUEUED"),
        ("exec", "*2 +PONG $1 x"),
        ("multi", "+OK"),
        (
            "nope",
            "-ERR unknown command 'nope', with args beginning with:",
        ),
        (
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("multi", "+OK"),
        ("ping", "+QUEUED"),
        ("discard", "+OK"),
        ("ping", "+PONG"),
    ]);
}

#[test]
fn memory_is_checked_once_per_transaction() {
    // Regression: memory was checked for each command of a transaction. The check of other shards
    // released the locks, so that another client's write came between two commands and the second
    // was refused.
    let mut bench = Bench::new();
    let value = "v".repeat(100_000);
    // Each value fits alone.
    bench.table(&[("config set maxmemory 120000", "+OK")]);
    let set = |key: &str| format!("set {key} {value}");
    for line in ["multi", &set("a"), &set("b"), "set c 1"] {
        bench.say(line);
    }
    bench.table(&[
        ("exec", "*3 +OK +OK +OK"),
        (
            "set d 1",
            "-OOM command not allowed when used memory > 'maxmemory'.",
        ),
    ]);
}

#[test]
fn info_reports_objects_that_wait_to_be_freed() {
    let mut bench = Bench::new();
    let value = "v".repeat(100_000);
    let elements: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    bench.say(&format!("set large {value}"));
    bench.say(&format!("rpush list {}", elements.join(" ")));
    bench.say("set small v");
    bench.say("del large list small");
    let reported = |bench: &mut Bench| {
        let text = bench.say("info memory");
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.expect("the field").parse().expect("a number")
        };
        (
            number("lazyfree_pending_objects:"),
            number("lazyfreed_objects:"),
        )
    };
    assert_eq!(reported(&mut bench), (2, 0));
    let space = &bench.server.data.keyspace;
    for shard in 0..space.shard_count() {
        while space.background_step(shard, Tick(NOW), 100, &mut Vec::new()) {}
    }
    assert_eq!(reported(&mut bench), (0, 2));
    bench.table(&[
        ("mset a 1 b 2", "+OK"),
        ("flushall", "+OK"),
        ("config resetstat", "+OK"),
    ]);
    assert_eq!(reported(&mut bench), (2, 0));
}

#[test]
fn a_removed_value_counts_until_it_is_freed_and_writes_free_it_at_the_limit() {
    // Regression: what waited to be freed was not counted, so that memory exceeded the limit.
    let mut bench = Bench::new();
    let elements: Vec<String> = (0..2000).map(|n| format!("element:{n:010}")).collect();
    let push = format!("rpush list {}", elements.join(" "));
    (0..100).for_each(|_| drop(bench.say(&push)));
    let full = bench.server.used_bytes();
    let limit = full + 200_000;
    bench.say(&format!("config set maxmemory {limit}"));
    assert_eq!(bench.say("del list"), ":1\r\n");
    let pending = |bench: &Bench| bench.server.data.keyspace.pending_bytes();
    let bytes = pending(&bench);
    assert!(bytes > 3_000_000, "{bytes}");
    assert!(bench.server.used_bytes() > full - 100_000);
    let text = bench.say("info memory");
    assert!(text.contains(&format!("lazyfree_pending_bytes:{bytes}\r\n")));
    let mut count = 0;
    while bench.server.data.engine().used_bytes() < full - 500_000 {
        assert_eq!(
            bench.say(&format!("set key:{count} {}", "v".repeat(100))),
            "+OK\r\n"
        );
        // A write frees what waits in the shard of its key.
        let used = bench.server.used_bytes();
        assert!(used <= limit + 300_000, "{used} after {count} writes");
        count += 1;
    }
    assert!(pending(&bench) < bytes / 3);
    // A flushed database counts, too.
    bench.say("flushall");
    assert!(pending(&bench) > 3_000_000);
    let space = &bench.server.data.keyspace;
    for shard in 0..space.shard_count() {
        while space.background_step(shard, Tick(NOW), 100, &mut Vec::new()) {}
    }
    assert_eq!(pending(&bench), 0);
}

impl Bench {
    /// Returns the statistics of all commands since the last call: name, calls, rejected and failed
    /// calls.
    fn counts(&mut self) -> String {
        let text = self.say("info commandstats");
        let mut shown = Vec::new();
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_"))
        {
            let number = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=")).expect("a field");
                rest.split(',').next().expect("a number").to_owned()
            };
            let name = line.split(':').next().expect("a name");
            if !["info", "config|resetstat"].contains(&name) {
                let (calls, rejected) = (number("calls"), number("rejected_calls"));
                shown.push(format!(
                    "{name} {calls} {rejected} {}",
                    number("failed_calls")
                ));
            }
        }
        self.say("config resetstat");
        shown.join(", ")
    }
}

#[test]
fn statistics_name_subcommands_and_distinguish_refused_from_failed_calls() {
    // Regression: subcommands were counted under their container, and a refusal for lack of memory
    // as a failed call. The expected counts are those of Redis 8.6.
    let mut bench = Bench::new();
    let endpoint = clients::Endpoint::default();
    let info = clients::ClientInfo::new(0, endpoint, Moment::default());
    bench.session = Session::of(Arc::new(info));
    bench.counts();
    let mut check = |lines: &[&str], expected: &str| {
        for line in lines {
            bench.say(line);
        }
        assert_eq!(bench.counts(), expected, "{lines:?}");
    };
    check(&["get", "get a b", "set"], "get 0 2 0, set 0 1 0");
    check(&["nope", "client nope", "config nope x"], "");
    check(
        &[
            "client id x",
            "config get",
            "object encoding",
            "memory usage",
            "client kill",
        ],
        "client|id 0 1 0, client|kill 0 1 0, config|get 0 1 0, memory|usage 0 1 0, object|encoding 0 1 0",
    );
    check(
        &[
            "client list",
            "client no-evict maybe",
            "object encoding k",
            "command count",
            "acl help",
        ],
        "acl|help 1 0 0, client|list 1 0 0, client|no-evict 1 0 1, command|count 1 0 0, object|encoding 1 0 0",
    );
    check(
        &["lpush l 1", "get l", "incr l"],
        "get 1 0 1, incr 1 0 1, lpush 1 0 0",
    );
    check(
        &[
            "multi", "get l", "exec", "multi", "set a", "exec", "exec", "discard",
        ],
        "get 1 0 1, set 0 1 0, multi 2 0 0, exec 3 0 2, discard 1 0 1",
    );
    check(&["debug sleep 0", "debug"], "debug 0 2 0");
    check(
        &[
            "config set maxmemory 1",
            "set a 1",
            "multi",
            "get a",
            "set a 1",
            "exec",
        ],
        "set 0 2 0, multi 1 0 0, exec 1 0 1, config|set 1 0 0",
    );
    check(
        &[
            "config set maxmemory 0",
            "multi",
            "client id",
            "config get x",
            "exec",
        ],
        "multi 1 0 0, exec 1 0 0, client|id 1 0 0, config|get 1 0 0, config|set 1 0 0",
    );
}

#[test]
fn a_command_is_refused_for_lack_of_memory_when_it_is_queued() {
    // Regression: only EXEC was refused, so that a client learned of it after all its commands.
    let mut bench = Bench::new();
    bench.table(&[
        ("set k v", "+OK"),
        ("multi", "+OK"),
        ("set a 1", "+QUEUED"),
        ("discard", "+OK"),
        ("config set maxmemory 1", "+OK"),
        ("multi", "+OK"),
        ("get k", "+QUEUED"),
        (
            "set a 1",
            "-OOM command not allowed when used memory > 'maxmemory'.",
        ),
        (
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("multi", "+OK"),
        ("get k", "+QUEUED"),
        ("exec", "*1 $1 v"),
    ]);
}

#[test]
fn keys_do_not_expire_during_a_pause() {
    let mut bench = Bench::new();
    bench.table(&[
        ("set a 1 px 50", "+OK"),
        ("set b 1 px 50", "+OK"),
        ("hset h f v g w", ":2"),
        ("hpexpire h 50 fields 1 f", "*1 :1"),
        ("client pause 10000 write", "+OK"),
    ]);
    bench.server.clock.set_ms(NOW + 100);
    let mut events = Vec::new();
    for shard in 0..bench.server.data.keyspace.shard_count() {
        let space = &bench.server.data.keyspace;
        let now = bench.server.clock.now();
        let expired = space.expire(shard, now, 1000, &mut events, &mut |_, _| {});
        assert_eq!(expired.count, 0);
        space.background_step(shard, now, 1000, &mut events);
    }
    // Expired keys are hidden.
    bench.table(&[
        ("get a", "$-1"),
        ("exists a b", ":0"),
        ("hgetall h", "*2 $1 g $1 w"),
        ("hlen h", ":1"),
        ("dbsize", ":3"),
        ("client unpause", "+OK"),
        ("get a", "$-1"),
        ("dbsize", ":2"),
    ]);
    assert_eq!(bench.server.data.keyspace.counters().expired_keys, 1);
}

#[test]
fn an_error_of_a_command_in_a_script_or_a_transaction_is_counted_once() {
    // Regression: an error that redis.pcall returned was not counted.
    let mut bench = Bench::new();
    for (lines, expected) in [
        (&["eval return(redis.call('select',99)) 0"][..], 1),
        (&["eval return(redis.pcall('select',99)) 0"], 1),
        (&["eval redis.pcall('select',99)return(1) 0"], 1),
        (&["eval redis.pcall('nosuch')return(1) 0"], 1),
        (&["eval return(redis.call('multi')) 0"], 1),
        (&["eval_ro return(redis.call('set','k','v')) 0"], 1),
        (&["eval return(redis.error_reply('MINE')) 0"], 1),
        (&["eval error('mine') 0"], 1),
        (&["eval redis.pcall('nosuch')error('mine') 0"], 2),
        (&["multi", "select 99", "exec"], 1),
        (
            &["multi", "eval return(redis.call('select',99)) 0", "exec"],
            1,
        ),
    ] {
        bench.say("config resetstat");
        for line in lines {
            bench.say(line);
        }
        let errors = bench.server.observability.stats.errors();
        let count: u64 = errors.iter().map(|(_, count)| count).sum();
        assert_eq!(count, expected, "{lines:?}: {errors:?}");
    }
}

#[test]
fn debug_needs_the_setting_that_allows_it() {
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    let mut bench = Bench::new();
    bench.table(&[
        ("debug sleep 0", refused),
        (
            "config get enable-debug-command",
            "*2 $20 enable-debug-command $2 no",
        ),
    ]);
    assert!(
        bench
            .say("config set enable-debug-command yes")
            .contains("immutable")
    );
    let param = settings::find("enable-debug-command").expect("a setting");
    for (word, expected) in [("yes", "+OK"), ("local", "+OK"), ("no", refused)] {
        bench.server.config.set(param, word).expect("a word");
        bench.table(&[("debug sleep 0", expected)]);
    }
}

#[test]
fn command_describes_subcommands_and_the_access_to_keys() {
    // The replies are those of Redis 8.6, apart from tips and the order of COMMAND LIST.
    let mut bench = Bench::new();
    bench.table(&[
        (
            "command info client|id nope client|nope",
            "*3 *10 $9 client|id :2 *3 +noscript +loading +stale :0 :0 :0 *2 +@slow +@connection *0 *0 *0 *-1 *-1",
        ),
        (
            "command list filterby pattern config*",
            "*6 $6 config $10 config|get $11 config|help $16 config|resetstat $14 config|rewrite $10 config|set",
        ),
        ("command list filterby nope x", "-ERR syntax error"),
        ("command getkeysandflags set a 1", "*1 *2 $1 a *2 +OW +update"),
        ("command getkeysandflags set a 1 get", "*1 *2 $1 a *3 +RW +access +update"),
        ("command getkeysandflags del a b", "*2 *2 $1 a *2 +RM +delete *2 $1 b *2 +RM +delete"),
        ("command getkeysandflags copy a b", "*2 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update"),
        (
            "command getkeysandflags lmove a b left left",
            "*2 *2 $1 a *3 +RW +access +delete *2 $1 b *2 +RW +insert",
        ),
        (
            "command getkeysandflags zunionstore d 2 a b",
            "*3 *2 $1 d *2 +OW +update *2 $1 a *2 +RO +access *2 $1 b *2 +RO +access",
        ),
        (
            "command getkeysandflags sort a store b store c",
            "*2 *2 $1 a *2 +RO +access *2 $1 c *2 +OW +update",
        ),
        (
            "command getkeysandflags georadius a 0 0 1 m store b storedist c",
            "*3 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update *2 $1 c *2 +OW +update",
        ),
        ("command getkeysandflags bitfield a get u8 0", "*1 *2 $1 a *2 +RO +access"),
        ("command getkeysandflags object encoding a", "*1 *2 $1 a *1 +RO"),
        (
            "command getkeysandflags xreadgroup group g c streams a b > 0",
            "*2 *2 $1 a *2 +RO +access *2 $1 b *2 +RO +access",
        ),
        ("command getkeysandflags pfdebug getreg a", "*1 *2 $1 a *2 +RW +access"),
        ("command getkeys debug object a", "*1 $1 a"),
        ("command getkeys debug sleep 0", "*0"),
        ("command getkeys sort a by x* store b", "*2 $1 a $1 b"),
        ("command getkeys zunion 3 a b", "-ERR Invalid arguments specified for command"),
        ("command getkeys lmpop 0 a left", "-ERR Invalid arguments specified for command"),
        ("command getkeys get", "-ERR Invalid number of arguments specified for command"),
        ("command getkeys object nope a", "-ERR Invalid command specified"),
        ("command getkeys nope", "-ERR Invalid command specified"),
        ("command getkeys client list", "-ERR The command has no key arguments"),
        ("command getkeys ping", "-ERR The command has no key arguments"),
        ("command getkeys", "-ERR wrong number of arguments for 'command|getkeys' command"),
        ("client nope", "-ERR unknown subcommand 'nope'. Try CLIENT HELP."),
        ("multi", "+OK"),
        ("config nope", "-ERR unknown subcommand 'nope'. Try CONFIG HELP."),
        ("exec", "-EXECABORT Transaction discarded because of previous errors."),
    ]);
    let documented = bench.say("command docs memory");
    assert!(
        documented.contains("$11\r\nsubcommands\r\n"),
        "{documented}"
    );
    assert!(
        documented.contains("$12\r\nmemory|usage\r\n"),
        "{documented}"
    );
}

fn set_up(settings: &[(&str, &str)]) -> Bench {
    let config = Config::default();
    for (name, value) in settings {
        let param = settings::find(name).expect("a setting");
        config.set(param, value).expect("a value that fits");
    }
    Bench {
        server: Server::new(config, Clock::manual(NOW)).expect("valid settings"),
        session: Session::new(),
    }
}

#[test]
fn a_scan_of_few_keys_ends_in_one_call() {
    // Regression: a scan of three keys took three calls: it stopped after 100 empty buckets.
    let mut bench = Bench::new();
    bench.table(&[
        ("scan 0", "*2 $1 0 *0"),
        ("set a 1", "+OK"),
        ("scan 0", "*2 $1 0 *1 $1 a"),
    ]);
    for number in 0..8 {
        bench.say(&format!("set key:{number} 1"));
    }
    let reply = bench.say("scan 0");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n*9\r\n"), "{reply}");
    bench.table(&[
        ("scan 0 type nosuch", "*2 $1 0 *0"),
        ("scan 0 match a", "*2 $1 0 *1 $1 a"),
    ]);
}

#[test]
fn the_memory_of_a_key_does_not_depend_on_other_keys() {
    // Regression: a share of the empty table was added, so that the only key used 6 KB.
    let mut bench = Bench::new();
    let usage = |bench: &mut Bench, key: &str| -> u64 {
        let reply = bench.say(&format!("memory usage {key}"));
        reply[1..].trim_end().parse().expect("a number")
    };
    bench.say("set a 1");
    let alone = usage(&mut bench, "a");
    assert!((8..64).contains(&alone), "{alone}");
    bench.say("set b 1 ex 100");
    let with_deadline = usage(&mut bench, "b");
    assert!(
        (alone + 1..96).contains(&with_deadline),
        "{alone} {with_deadline}"
    );
    for number in 0..2000 {
        bench.say(&format!("set key:{number} 1"));
    }
    assert_eq!(usage(&mut bench, "a"), alone);
    let large = "x".repeat(100_000);
    bench.say(&format!("set large {large}"));
    assert!((100_000..110_000).contains(&usage(&mut bench, "large")));
}

#[test]
fn the_number_of_databases_can_be_configured() {
    // Regression: only 16 was accepted.
    let mut bench = set_up(&[("databases", "256")]);
    let refused = "-ERR DB index is out of range";
    bench.table(&[
        ("select 256", refused),
        ("select 255", "+OK"),
        ("set a 255", "+OK"),
        ("set b 1 px 50", "+OK"),
        ("select 0", "+OK"),
        ("get a", "$-1"),
        ("copy a b db 300", refused),
        ("move a 256", refused),
        ("set a 0", "+OK"),
        ("move a 200", ":1"),
        ("swapdb 200 255", "+OK"),
        ("select 200", "+OK"),
        ("get a", "$3 255"),
        ("select 255", "+OK"),
        ("get a", "$1 0"),
        ("info keyspace", "$105 # Keyspace db200:keys=2,expires=1,avg_ttl=50,subexpiry=0 db255:keys=1,expires=0,avg_ttl=0,subexpiry=0"),
        ("config get databases", "*2 $9 databases $3 256"),
    ]);
    bench.server.clock.set_ms(NOW + 51);
    let mut events = Vec::new();
    for shard in 0..bench.server.data.keyspace.shard_count() {
        let (space, now) = (&bench.server.data.keyspace, bench.server.clock.now());
        space.expire(shard, now, 1000, &mut events, &mut |_, _| {});
        space.background_step(shard, now, 1000, &mut events);
    }
    bench.server.data.keyspace.check();
    bench.table(&[
        ("select 200", "+OK"),
        ("dbsize", ":1"),
        ("flushall", "+OK"),
        ("dbsize", ":0"),
        ("select 255", "+OK"),
        ("dbsize", ":0"),
    ]);
    let mut bench = set_up(&[("databases", "1")]);
    bench.table(&[
        ("select 1", refused),
        ("set a 1", "+OK"),
        ("swapdb 0 1", refused),
    ]);
    let param = settings::find("databases").expect("a setting");
    for wrong in ["0", "257", "x"] {
        assert!(Config::default().set(param, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_segment_engine_says_why_it_refuses_a_database() {
    let mut bench = set_up(&[("engine", "segment"), ("maxmemory", "64mb")]);
    bench.table(&[
        ("select 0", "+OK"),
        ("select 1", "-ERR DB index is out of range: the segment engine has only database 0; select 0, for example with a URL that ends in /0, or start the server with --engine slab"),
        ("select 16", "-ERR DB index is out of range"),
    ]);
}

#[test]
fn reads_do_not_count_for_the_least_recently_modified_key() {
    // Regression: allkeys-lrm was the same as allkeys-lru.
    for (policy, is_read_kept) in [("allkeys-lrm", false), ("allkeys-lru", true)] {
        let mut bench = set_up(&[("maxmemory-policy", policy)]);
        for number in 0..2000 {
            bench.say(&format!("set read:{number} {}", "x".repeat(100)));
        }
        for number in 0..2000 {
            bench.say(&format!("set written:{number} {}", "x".repeat(100)));
        }
        for number in 0..2000 {
            bench.say(&format!("get read:{number}"));
        }
        let used = bench.server.used_bytes();
        bench.say(&format!("config set maxmemory {}", used * 2 / 3));
        let mut events = Vec::new();
        for _ in 0..1000 {
            for shard in 0..bench.server.data.keyspace.shard_count() {
                let (space, now) = (&bench.server.data.keyspace, bench.server.clock.now());
                space.background_step(shard, now, 1000, &mut events);
            }
        }
        let mut kept = |kind: &str| {
            let mut exists = |number| bench.say(&format!("exists {kind}:{number}")) == ":1\r\n";
            (0..2000)
                .map(|number| usize::from(exists(number)))
                .sum::<usize>()
        };
        let (read, written) = (kept("read"), kept("written"));
        assert!(read + written < 3000, "{policy}: {read} + {written}");
        assert_eq!(read > written, is_read_kept, "{policy}: {read} {written}");
    }
}

#[test]
fn settings_without_effect_are_accepted_at_run_time_too() {
    // Regression: a configuration file with maxmemory-samples was accepted, CONFIG SET refused it.
    let mut bench = Bench::new();
    bench.table(&[
        ("config set maxmemory-samples 10", "+OK"),
        ("config set hz 50 maxmemory 100mb", "+OK"),
        ("config get maxmemory", "*2 $9 maxmemory $9 104857600"),
        (
            "config set maxmemory 12q",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory or percent value such as 104857600, 100mb or 80%",
        ),
    ]);
    let refused = bench.say("config set maxmemory-policy 2q");
    assert!(
        refused.contains("did you mean 'allkeys-twoq' or 'volatile-twoq'?"),
        "{refused}"
    );
}
