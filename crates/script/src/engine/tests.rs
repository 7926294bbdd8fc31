use super::*;
use crate::cache::Scripts;
use wire::{Output, Span};

/// A host whose commands are GET, SET and FAIL on one value.
#[derive(Default)]
struct OneValue {
    value: Option<Vec<u8>>,
    /// Number of ticks after which the script is ended.
    ticks_max: Option<u32>,
    ticks: u32,
    /// Whether a script is ended after a command.
    ends_calls: bool,
}

impl Host for OneValue {
    fn call(
        &mut self,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Output,
    ) -> Option<&'static str> {
        let mut reply = Reply::new(out, protocol);
        match (args.name(), args.get(1)) {
            (b"set", Some(value)) => {
                self.value = Some(value.to_vec());
                reply.ok();
            }
            (b"get", None) => match &self.value {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"raw", Some(bytes)) => reply.raw(bytes),
            _ => reply.error("ERR no such command"),
        }
        self.ends_calls.then_some("ERR ended by the test")
    }
    fn may_call(&mut self, _args: Args<'_>) -> Result<bool, &'static str> {
        Ok(true)
    }
    fn log(&mut self, _level: u8, _text: &[u8]) {}
    fn cpu_seconds(&mut self) -> f64 {
        1.0
    }
    fn tick(&mut self) -> Option<&'static str> {
        self.ticks += 1;
        let is_over = self.ticks_max.is_some_and(|max| self.ticks > max);
        is_over.then_some("ERR ended by the test")
    }
}

fn engine() -> Engine {
    let options = Options {
        version: "7.4.0",
        memory_bytes: 8 << 20,
    };
    Engine::new(&options).expect("a Lua state")
}

fn run_on(engine: &mut Engine, host: &mut OneValue, text: &str, args: &[&[u8]]) -> Vec<u8> {
    let mut input = Vec::new();
    let mut spans = Vec::new();
    for arg in args {
        spans.push(Span {
            start: input.len() as u32,
            len: arg.len() as u32,
        });
        input.extend_from_slice(arg);
    }
    let script = Scripts::default().add(Script::parse(text.as_bytes()).expect("valid"), false);
    let script = script.expect("room");
    let mut out = Output::default();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    match engine.run(&script, args.len().min(1), Args::new(&input, &spans), host) {
        Ok(finished) => {
            engine.write(finished, || b"NAME".to_vec(), &mut reply, host);
        }
        Err(text) => reply.error(&text),
    }
    out.to_vec()
}

fn run(text: &str) -> String {
    let out = run_on(
        &mut engine(),
        &mut OneValue::default(),
        text,
        &[b"key", b"argument"],
    );
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn values_become_replies() {
    assert_eq!(run("return 'x'"), "$1\r\nx\r\n");
    assert_eq!(run("return 3.99"), ":3\r\n");
    assert_eq!(run("return -3.99"), ":-3\r\n");
    assert_eq!(run("return 1/0"), ":-9223372036854775808\r\n");
    assert_eq!(run("return true"), ":1\r\n");
    assert_eq!(run("return false"), "$-1\r\n");
    assert_eq!(run("return"), "$-1\r\n");
    assert_eq!(
        run("return {1, {'a'}, nil, 4}"),
        "*2\r\n:1\r\n*1\r\n$1\r\na\r\n"
    );
    assert_eq!(run("return {ok='fine'}"), "+fine\r\n");
    assert_eq!(run("return {err='MY bad\\nthing'}"), "-MY bad thing\r\n");
    assert_eq!(run("return {double=1.5}"), "$3\r\n1.5\r\n");
    assert_eq!(run("return {map={a=1}}"), "*2\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(run("return {set={a=true}}"), "*1\r\n$1\r\na\r\n");
    assert_eq!(
        run("return {KEYS[1], ARGV[1]}"),
        "*2\r\n$3\r\nkey\r\n$8\r\nargument\r\n"
    );
}

#[test]
fn commands_are_called_and_their_errors_raised_or_returned() {
    assert_eq!(
        run("redis.call('set', 'v') return redis.call('get')"),
        "$1\r\nv\r\n"
    );
    assert_eq!(
        run("redis.call('set', 3) return redis.call('get')"),
        "$1\r\n3\r\n"
    );
    assert_eq!(
        run("redis.call('set', 0.5) return redis.call('get')"),
        "$3\r\n0.5\r\n"
    );
    assert_eq!(run("return redis.call('get')"), "$-1\r\n");
    assert_eq!(
        run("\nreturn redis.call('nosuch')"),
        "-ERR no such command script: NAME, on @user_script:2.\r\n"
    );
    assert_eq!(
        run("return redis.pcall('nosuch').err"),
        "$19\r\nERR no such command\r\n"
    );
    assert_eq!(
        run("local ok, e = pcall(redis.call, 'nosuch') return e"),
        "$19\r\nERR no such command\r\n"
    );
}

#[test]
fn arguments_and_replies_of_any_form_take_the_short_or_the_general_way() {
    for (text, reply) in [
        (
            "redis.call('set', string.rep('x', 70000)) return #redis.call('get')",
            ":70000\r\n",
        ),
        ("return redis.call('set', 'v').ok", "$2\r\nOK\r\n"),
        ("return redis.call('set', 'v')", "+OK\r\n"),
        ("return redis.call('get') == false", ":1\r\n"),
        (
            "redis.call('set', '\\255\\0') return #redis.call('get')",
            ":2\r\n",
        ),
        (
            "redis.call('set', '') return redis.call('get')",
            "$0\r\n\r\n",
        ),
        (
            "return coroutine.wrap(function() redis.call('set', 1) return redis.call('get') end)()",
            "$1\r\n1\r\n",
        ),
        (
            "local all = {} for i = 1, 50 do all[i] = redis.call('raw', ':' .. i .. '\\r\\n') end return #all + all[50]",
            ":100\r\n",
        ),
        ("return redis.call('raw', '$-1\\r\\n')", "$-1\r\n"),
        (
            "return redis.call('raw', '*1\\r\\n$1\\r\\na\\r\\n')",
            "*1\r\n$1\r\na\r\n",
        ),
        ("return redis.call('raw', '$5\\r\\r\\n') and 1", "$-1\r\n"),
        (
            "return redis.pcall().err",
            "$64\r\nERR Please specify at least one argument for this redis lib call\r\n",
        ),
        (
            "return redis.pcall('get', {}).err",
            "$63\r\nERR Lua redis lib command arguments must be strings or integers\r\n",
        ),
        (
            "return redis.call('get', nil)",
            "-ERR Lua redis lib command arguments must be strings or integers script: NAME, on @user_script:1.\r\n",
        ),
    ] {
        assert_eq!(run(text), reply, "{text}");
    }
}

/// A host whose commands panic.
struct Panics;

impl Host for Panics {
    fn call(
        &mut self,
        _args: Args<'_>,
        _protocol: Protocol,
        _out: &mut Output,
    ) -> Option<&'static str> {
        panic!("by the test");
    }
    fn may_call(&mut self, _args: Args<'_>) -> Result<bool, &'static str> {
        Ok(true)
    }
    fn log(&mut self, _level: u8, _text: &[u8]) {}
    fn cpu_seconds(&mut self) -> f64 {
        1.0
    }
    fn tick(&mut self) -> Option<&'static str> {
        None
    }
}

#[test]
fn a_panic_of_a_command_reaches_the_caller_of_the_script() {
    let mut engine = engine();
    for text in [
        "return redis.call('get')",
        "return pcall(redis.call, 'get') and 1",
        "redis.pcall('get') return 1",
    ] {
        let script = Scripts::default().add(Script::parse(text.as_bytes()).expect("valid"), false);
        let script = script.expect("room");
        let run = || {
            let args = Args::new(b"", &[]);
            engine.run(&script, 0, args, &mut Panics).is_ok()
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(caught.is_err(), "{text}");
        let after = run_on(&mut engine, &mut OneValue::default(), "return 7", &[]);
        assert_eq!(after, b":7\r\n");
    }
}

#[test]
fn large_keys_and_arguments_are_freed_after_the_script() {
    let mut engine = engine();
    let large = vec![b'x'; 1 << 20];
    let mut host = OneValue::default();
    let before = engine.used_bytes();
    let args: [&[u8]; 2] = [&large, b"a"];
    let reply = run_on(&mut engine, &mut host, "return #KEYS[1]", &args);
    assert_eq!(reply, b":1048576\r\n");
    let text = "collectgarbage() return #ARGV";
    assert_eq!(run_on(&mut engine, &mut host, text, &[]), b":0\r\n");
    assert!(engine.used_bytes() < before + (100 << 10));
}

#[test]
fn all_reply_types_reach_the_script() {
    let field =
        |bytes: &str, path: &str| run(&format!("return redis.call('raw', '{bytes}'){path}"));
    assert_eq!(
        field("%1\\r\\n+a\\r\\n:5\\r\\n", ".map[1] or 'n'"),
        "$1\r\nn\r\n"
    );
    assert_eq!(field("%1\\r\\n$1\\r\\na\\r\\n:5\\r\\n", ".map.a"), ":5\r\n");
    assert_eq!(field("~1\\r\\n$1\\r\\na\\r\\n", ".set.a"), ":1\r\n");
    assert_eq!(field(",1.5\\r\\n", ".double * 2"), ":3\r\n");
    assert_eq!(field("(123\\r\\n", ".big_number"), "$3\r\n123\r\n");
    assert_eq!(field("#t\\r\\n", ""), ":1\r\n");
    assert_eq!(field("_\\r\\n", " == nil"), ":1\r\n");
    assert_eq!(
        field("=5\\r\\ntxt:a\\r\\n", ".verbatim_string.string"),
        "$1\r\na\r\n"
    );
    assert_eq!(field("*2\\r\\n:1\\r\\n*-1\\r\\n", "[2] == false"), ":1\r\n");
    for broken in [
        "",
        "$5\\r\\nab",
        "*3\\r\\n:1\\r\\n",
        "%2\\r\\n",
        "x",
        ":\\r\\n",
    ] {
        assert!(!field(broken, " and 1").is_empty(), "{broken}");
    }
}

#[test]
fn the_sandbox_is_closed() {
    for (text, error) in [
        (
            "return nosuch",
            "Script attempted to access nonexistent global variable 'nosuch'",
        ),
        ("x = 1", "Attempt to modify a readonly table"),
        ("KEYS = {}", "Attempt to modify a readonly table"),
        ("redis.call = 1", "Attempt to modify a readonly table"),
        ("string.x = 1", "Attempt to modify a readonly table"),
        (
            "getmetatable('').__index = 1",
            "Attempt to modify a readonly table",
        ),
        (
            "getmetatable(_G).__index = 1",
            "Attempt to modify a readonly table",
        ),
        ("print(1)", "nonexistent global variable 'print'"),
        ("io.open('x')", "nonexistent global variable 'io'"),
        ("debug.getinfo(1)", "nonexistent global variable 'debug'"),
        ("getfenv(0)", "nonexistent global variable 'getfenv'"),
        ("return os.time()", "attempt to call field 'time'"),
    ] {
        let reply = run(text);
        let expected = format!("-ERR user_script:1: {error}");
        let found = reply.contains(error) && reply.starts_with("-ERR user_script:1:");
        assert!(found, "{text}: {reply}, not {expected}");
    }
    for text in [
        "rawset(_G, 'x', 1)",
        "setmetatable(redis, {})",
        "setmetatable(_G, nil)",
    ] {
        assert!(
            run(text).starts_with("-ERR Attempt to modify a readonly table"),
            "{text}"
        );
    }
    assert_eq!(run("return string.dump == nil"), ":1\r\n");
    assert_eq!(
        run("return loadstring('return KEYS[1]')()"),
        "$3\r\nkey\r\n"
    );
    assert!(run("loadstring('x = 1')()").contains("readonly"));
    assert_eq!(
        run("local n = 0 for k in pairs(bit) do n = n + 1 end return n"),
        ":12\r\n"
    );
    assert_eq!(run("return collectgarbage('stop')"), ":0\r\n");
}

#[test]
fn a_script_leaves_nothing_to_the_next_one() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    run_on(
        &mut engine,
        &mut host,
        "redis.setresp(3) KEYS[7] = 1 return 1",
        &[b"k"],
    );
    let reply = run_on(
        &mut engine,
        &mut host,
        "return {#KEYS, #ARGV, redis.call('get')}",
        &[],
    );
    assert_eq!(reply, b"*3\r\n:0\r\n:0\r\n$-1\r\n");
}

#[test]
fn recursion_and_allocation_end_with_an_error() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    for text in [
        "local function f() return 1 + f() end return f()",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local t = {} t[1] = t return cjson.encode(t)",
        "local function f() coroutine.wrap(f)() end f()",
        "return string.find(string.rep('a', 9999), string.rep('a?', 99999))",
        "return unpack({}, 1, 1e8)",
        "return loadstring(string.rep('(', 9999))()",
        "return cmsgpack.unpack(string.rep('\\145', 99999))",
        "return cjson.decode(string.rep('[', 99999))",
        "return struct.unpack('c2000000000', 'x')",
        "return table.concat({}, 'x', 1, 1e9)",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x.y",
        "return string.format('%99999d', 1)",
    ] {
        let reply = run_on(&mut engine, &mut host, text, &[]);
        assert_eq!(reply.first(), Some(&b'-'), "{text}");
        assert!(reply.len() < 5000, "{text}");
        let after = run_on(&mut engine, &mut host, "return 7", &[]);
        assert_eq!(after, b":7\r\n", "after {text}");
        assert!(engine.used_bytes() < 16 << 20, "after {text}");
    }
}

#[test]
fn cyclic_and_huge_replies_are_cut() {
    let reply = run("local t = {} t[1] = t return t");
    assert!(reply.contains("-ERR reached lua stack limit"));
    let reply = run("local t = {} for i = 1, 20000 do t[i] = 'x' .. i end return t");
    assert!(reply.starts_with("*20000\r\n$2\r\nx1\r\n"));
    let reply = run("local t = {} for i = 1, 20000 do t['k' .. i] = 'v' end return {map=t}");
    assert!(reply.starts_with("*40000\r\n"));
}

/// Regression: a table with 10^6 references to a string of 1 MB took seconds and a gigabyte before
/// the reply was cut off.
#[test]
fn a_reply_is_as_large_as_the_memory_limit_at_most() {
    let error = "-ERR the reply of the script exceeds script-memory-limit";
    for text in [
        "local s, t = string.rep('x', 1000000), {} for i = 1, 1e5 do t[i] = s end return t",
        "local s, t = string.rep('x', 1000000), {} for i = 1, 1e5 do t[i] = s end return {{t}}",
        "local s, t = string.rep('x', 1000000), {} for i = 1, 1e5 do t[i] = s end return {map=t}",
    ] {
        let reply = run(text);
        assert!(reply.starts_with(error), "{text}: {:.80}", reply);
    }
    assert!(run("return string.rep('x', 2000000)").starts_with("$2000000\r\n"));
}

#[test]
fn a_script_with_many_arguments_gets_all() {
    let args: Vec<Vec<u8>> = (0..20_000)
        .map(|n: u32| n.to_string().into_bytes())
        .collect();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let (mut engine, mut host) = (engine(), OneValue::default());
    for count in [0, 1, 2, 3, 9, 64, 65, 20_000] {
        let text = "return {#KEYS, #ARGV, ARGV[#ARGV] or 'none'}";
        let reply = run_on(&mut engine, &mut host, text, &args[..count]);
        let last = match count {
            0 | 1 => "none".to_owned(),
            count => (count - 1).to_string(),
        };
        let (keys, rest) = (count.min(1), count.saturating_sub(1));
        let expected = format!("*3\r\n:{keys}\r\n:{rest}\r\n${}\r\n{last}\r\n", last.len());
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }
    let reply = run_on(
        &mut engine,
        &mut host,
        "return KEYS[1] .. ARGV[1]",
        &[b"\xff", b"\xfe\0"],
    );
    assert_eq!(reply, b"$3\r\n\xff\xfe\0\r\n");
}

#[test]
fn the_host_ends_a_script_that_cannot_catch_it() {
    for text in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do local c = coroutine.create(function() while true do end end) \
         coroutine.resume(c) end",
        "local function f() pcall(f) while true do end end f()",
    ] {
        let mut host = OneValue {
            ticks_max: Some(3),
            ..OneValue::default()
        };
        let reply = run_on(&mut engine(), &mut host, text, &[]);
        let reply = String::from_utf8_lossy(&reply);
        assert!(
            reply.starts_with("-ERR ended by the test script: NAME"),
            "{text}: {reply}"
        );
    }
}

#[test]
fn decoders_accept_or_refuse_any_bytes() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let letters = b"{}[]\",:0123456789.eE+-truefalsn\\u \x00\x81\x91\xa1\xc4\xd9\xdc\xdf\xff";
    for round in 0..3000 {
        let len = next() as usize % 24;
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                if round % 3 == 0 {
                    next() as u8
                } else {
                    letters[next() as usize % letters.len()]
                }
            })
            .collect();
        let formats: &[u8] = b"bBhHlLTiIfdsxc0123456789<>! ";
        let format: Vec<u8> = (0..len)
            .map(|_| formats[next() as usize % formats.len()])
            .collect();
        // Many values must not pass through pcall: debug builds of Lua 5.1 refuse that.
        let text = "local function try(f, ...) local a = {...} \
                    return pcall(function() local r = {f(unpack(a))} end) end \
                    local a = try(cjson.decode, ARGV[1]) local b = try(cmsgpack.unpack, ARGV[1]) \
                    try(struct.unpack, ARGV[2], ARGV[1]) \
                    try(struct.pack, ARGV[2], 1, 'x', 3, 'y', 5, 6, 7, 8) \
                    try(struct.size, ARGV[2]) \
                    if a then cjson.decode(cjson.encode(cjson.decode(ARGV[1]))) end \
                    if b then cmsgpack.unpack(cmsgpack.pack(cmsgpack.unpack(ARGV[1]))) end \
                    return 1";
        let reply = run_on(&mut engine, &mut host, text, &[b"k", &bytes, &format]);
        // Only a NaN or a nested null key may not be encoded again.
        let shown = String::from_utf8_lossy(&reply);
        let is_refused = shown.contains("must not be NaN")
            || shown.contains("sparse")
            || shown.contains("MessagePack pack needs input")
            || shown.contains("nil");
        assert!(
            reply == b":1\r\n" || is_refused,
            "{bytes:?} {format:?}: {shown}"
        );
    }
}

#[test]
fn what_is_encoded_is_decoded_again() {
    let value = "{a={1,2,{x='y'}},b=1.5,c=true,d=-300,e=2^40,f=string.rep('z',70000)}";
    let same = "local function same(a, b) if type(a) ~= 'table' then return a == b end \
                for k, v in pairs(a) do if not same(v, b[k]) then return false end end \
                for k in pairs(b) do if a[k] == nil then return false end end return true end ";
    for (encode, decode) in [
        ("cjson.encode", "cjson.decode"),
        ("cmsgpack.pack", "cmsgpack.unpack"),
    ] {
        let text = format!("{same} local v = {value} return same(v, {decode}({encode}(v)))");
        assert_eq!(run(&text), ":1\r\n", "{encode}");
    }
    let numbers = "local f = 'bBhHi3I3lLfd' local a = {-1,255,-2,65535,-8388608,16777215,-5,7,1.5,-0.1} \
                   local b = {struct.unpack(f, struct.pack(f, unpack(a)))} \
                   for i = 1, 10 do if a[i] ~= b[i] then return i end end return 'same'";
    assert_eq!(run(numbers), "$4\r\nsame\r\n");
}

// With sparse_ratio 0 the encoder accepted any index, and wrote nulls up to it without a bound.
#[test]
fn a_sparse_array_is_encoded_within_a_bound() {
    let text = "cjson.encode_sparse_array(false, 0) return cjson.encode({[2^40] = 1})";
    assert!(run(text).contains("not enough memory"));
}

#[test]
fn evicted_scripts_are_removed_from_the_state() {
    let (scripts, mut engine) = (Scripts::default(), engine());
    let mut host = OneValue::default();
    for number in 0..3000 {
        let text = format!("return {number}");
        let script = Script::parse(text.as_bytes()).expect("valid");
        let script = scripts.add(script, false).expect("room");
        let finished = engine.run(&script, 0, Args::new(b"", &[]), &mut host);
        let mut out = Output::default();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        engine.write(
            finished.expect("it compiles"),
            Vec::new,
            &mut reply,
            &mut host,
        );
        assert_eq!(out[..], *format!(":{number}\r\n").as_bytes());
    }
    assert!(
        engine.by_digest.len() <= 1024 + 500,
        "{}",
        engine.by_digest.len()
    );
    assert!(engine.find_body(b"return 0").is_none());
    assert!(engine.find_body(b"return 2999").is_some());
}

// Stock Lua computes the number of results in 32 bits, overflowed, and wrote outside of its stack.
#[test]
fn ranges_beyond_32_bits_are_refused() {
    for range in [
        "0, 2147483647",
        "-1, 2147483647",
        "-2147483648, 2147483647",
        "1, 8000",
        "2147483647, 2^31 + 5",
        "-1/0, 1/0",
        "0/0, 0/0",
        "'-1', '2147483647'",
    ] {
        let reply = run(&format!("return {{unpack({{}}, {range})}}"));
        assert!(
            reply.contains("too many results to unpack"),
            "{range}: {reply}"
        );
    }
    assert_eq!(run("return {unpack({1, 2, 3}, 2)}"), "*2\r\n:2\r\n:3\r\n");
    assert_eq!(run("return {unpack({1}, 5, -5)}"), "*0\r\n");
    // Regression: 7,997 were possible, because three arguments were passed on in any case.
    let of = |len: usize, range: &str| {
        let text =
            "local t = {} for i = 1, LEN do t[i] = i end return select('#', unpack(t RANGE))";
        run(&text
            .replace("LEN", &len.to_string())
            .replace("RANGE", range))
    };
    assert_eq!(of(7999, ""), ":7999\r\n");
    assert!(of(8000, "").contains("too many results"));
    assert_eq!(of(7998, ", 1"), ":7998\r\n");
    assert_eq!(of(7997, ", 1, 7997"), ":7997\r\n");
    let position = run("table.insert({1}, -2147483648, 5)");
    assert!(position.contains("position out of bounds"), "{position}");
    assert_eq!(
        run(
            "local t = {1, 2} table.insert(t, 1, 0) table.insert(t, 3) return {#t, table.concat(t, ',')}"
        ),
        "*2\r\n:4\r\n$7\r\n0,1,2,3\r\n"
    );
}

/// Returns the message that `load` returns together with nil for this reader and the arguments
/// after it.
fn load_error(reader_and_name: &str) -> String {
    run(&format!(
        "local chunk, why = load({reader_and_name}) return tostring(chunk) .. ' ' .. tostring(why)"
    ))
}

const PIECES: &str = "local function pieces(...) local all, at = {...}, 0 \
    return function() at = at + 1 return all[at] end end ";

#[test]
fn load_compiles_the_pieces_of_its_reader() {
    for (expression, reply) in [
        ("load(pieces('return ', '1', ' + 2'))()", ":3\r\n"),
        ("load(pieces('return ', 7))()", ":7\r\n"),
        ("load(pieces('return 1', '', 'no code'))()", ":1\r\n"),
        ("load(pieces('return 1', nil, 'no code'))()", ":1\r\n"),
        ("select('#', load(pieces())())", ":0\r\n"),
        (
            "select(2, load(pieces('a b')))",
            "(load):1: '=' expected near 'b'",
        ),
        (
            "select(2, load(pieces('a b'), '@file'))",
            "file:1: '=' expected",
        ),
        (
            "select(2, load(pieces('a b'), '=name'))",
            "name:1: '=' expected",
        ),
        (
            "select(2, load(pieces('a b'), 'a b'))",
            "[string \"a b\"]:1: '=' expected",
        ),
        (
            "select(2, load(pieces('a b'), 12))",
            "[string \"12\"]:1: '=' expected",
        ),
        ("select(2, load(pieces('\\27Lua')))", "precompiled chunk"),
        (
            "load('return 1')",
            "bad argument #1 to 'load' (function expected, got string)",
        ),
        (
            "load(pieces(), {})",
            "bad argument #2 to 'load' (string expected, got table)",
        ),
        (
            "load(nil, {})",
            "bad argument #2 to 'load' (string expected, got table)",
        ),
        (
            "loadstring('', {})",
            "bad argument #2 to 'loadstring' (string expected, got table)",
        ),
    ] {
        let found = run(&format!("{PIECES} return {expression}"));
        assert!(found.contains(reply), "{expression}: {found}");
    }
    let reply = run(&format!(
        "{PIECES} return {{pcall(load(pieces('error(', '1)')))}}"
    ));
    assert_eq!(reply, "*2\r\n$-1\r\n$11\r\n(load):1: 1\r\n");
}

// As in Lua, which calls the reader within a protected parser.
#[test]
fn load_returns_the_errors_of_its_reader() {
    for (reader, why) in [
        (
            "function() error('failed') end",
            "nil user_script:1: failed",
        ),
        ("function() error() end", "nil nil"),
        (
            "function() string.rep() end",
            "nil bad argument #1 to 'rep'",
        ),
        (
            "function() return {} end",
            "nil reader function must return a string",
        ),
        (
            "function() return false end",
            "nil reader function must return a string",
        ),
    ] {
        let found = load_error(reader);
        assert!(found.contains(why), "{reader}: {found}");
    }
    let table = run("return select(2, load(function() error({err = 'MINE'}) end))");
    assert_eq!(table, "-MINE\r\n");
    let command = run("return select(2, load(function() return redis.call('fail') end))");
    assert!(command.starts_with("-ERR no such command"), "{command}");
    let yields = "local f = coroutine.wrap(function() return \
        select(2, load(function() coroutine.yield('return 5') end)) end) return f()";
    assert!(
        run(yields).contains("attempt to yield across"),
        "{}",
        run(yields)
    );
}

// The parser of Lua 5.1 does not keep the chunk's name alive (CVE-2025-49844): a reader that it
// calls may collect it.
#[test]
fn a_reader_may_collect_garbage() {
    let text = format!(
        "{PIECES} local count = 0 \
         local chunk = load(function() count = count + 1 collectgarbage() \
           for i = 1, 100 do local s = 'garbage' .. i .. count end \
           if count < 100 then return 'local a' .. count .. ' = 1 ' .. \
             (count % 50 == 0 and 'do local ' or '; local b' .. count % 50 .. ' = 2 do end ') \
             .. (count % 50 == 0 and 'x = 1 end ' or '') end \
           if count == 100 then return 'error(1)' end end, 'na' .. 'me' .. ARGV[1]) \
         collectgarbage() return {{pcall(chunk or error)}}"
    );
    let reply = run(&text);
    assert!(reply.starts_with("*2\r\n$-1\r\n"), "{reply}");
}

// The lexer of Lua 5.1 counts the equals signs of a long bracket in 32 bits.
#[test]
fn code_has_a_maximum_length() {
    let mut engine = Engine::new(&Options {
        version: "7.4.0",
        memory_bytes: 512 << 20,
    })
    .expect("a Lua state");
    for text in [
        "return select(2, loadstring('[' .. string.rep('=', 64 * 2^20)))",
        "local s = string.rep('=', 2^20) return select(2, load(function() return s end))",
    ] {
        let reply = run_on(&mut engine, &mut OneValue::default(), text, &[]);
        assert_eq!(reply, b"$26\r\nchunk is longer than 64 MB\r\n", "{text}");
    }
    let endless = "return select(2, load(function() return 'x' end))";
    let reply = run(endless);
    assert!(reply.contains("not enough memory"), "{reply}");
}

/// Calls every library function with the limits of 32-bit and 64-bit integers.
#[test]
fn no_function_fails_on_the_limits_of_integers() {
    let text = "local n = 0 local hard = {2^31, 2^31 - 1, -2^31, -2^31 - 1, 2^32, 2^53, 2^63, -2^63, \
        1/0, -1/0, 0/0, 0, -1} \
        for _, l in ipairs({string, table, math, bit, cmsgpack, struct, {unpack = unpack, select = select}}) do \
          for k, f in pairs(l) do if type(f) == 'function' and k ~= 'rep' then \
            for _, a in ipairs(hard) do for _, b in ipairs(hard) do \
              for _, first in ipairs({'abc', a, {1, 2, 3}, 'i'}) do \
                pcall(f, first, a, b) pcall(f, first, 'b', a, b) pcall(f, a, first) n = n + 1 \
              end end end end end end return n";
    let mut host = OneValue::default();
    let reply = run_on(&mut engine(), &mut host, text, &[]);
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with(':'), "{reply}");
}

/// Runs work on a thread with the stack that scripts need.
fn on_a_large_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(crate::STACK_BYTES);
    thread
        .spawn(work)
        .expect("a thread")
        .join()
        .expect("no panic");
}

// Each of Lua's calls of C takes a buffer of 8 KiB, and decoders and encoders are recursive.
#[test]
fn deep_calls_and_deep_data_end_with_an_error() {
    on_a_large_stack(|| {
        let (mut engine, mut host) = (engine(), OneValue::default());
        let deep = "cjson.decode_max_depth(9999) cjson.encode_max_depth(9999)";
        for (inner, depth) in [
            (
                "cjson.decode(string.rep('[', 990) .. string.rep(']', 990))",
                192,
            ),
            (
                "cjson.decode(string.rep('[', 1990) .. string.rep(']', 1990))",
                196,
            ),
            ("cmsgpack.unpack(string.rep('\\145', 990) .. '\\1')", 192),
            (
                "local t = {} for i = 1, 1990 do t = {t} end cjson.encode(t)",
                190,
            ),
            (
                "local t = {} for i = 1, 1990 do t = {a = t} end cjson.encode(t)",
                190,
            ),
            (
                "string.find(string.rep('a', 900), string.rep('a-', 990) .. 'b')",
                190,
            ),
            (
                "string.find(string.rep('a', 9000), string.rep('a-', 990) .. 'b')",
                190,
            ),
        ] {
            let text = format!(
                "{deep} local function d(k) if k > 0 then string.gsub('a', 'a', \
                 function() d(k - 1) end) else {inner} end end pcall(d, {depth}) return 1"
            );
            host.ticks = 0;
            host.ticks_max = Some(500);
            let reply = run_on(&mut engine, &mut host, &text, &[]);
            assert!(!reply.is_empty(), "{text}");
        }
    });
}

#[test]
fn deep_objects_are_encoded_and_returned() {
    on_a_large_stack(|| {
        let text = "local t = {} for i = 1, 990 do t = {a = t} end return #cjson.encode(t)";
        assert_eq!(run(text), ":5942\r\n");
        let text =
            "redis.setresp(3) local t = {1} for i = 1, 480 do t = {map = {a = t}} end return t";
        let reply = run(text);
        assert!(
            reply.ends_with("*1\r\n:1\r\n"),
            "{}",
            &reply[reply.len() - 60..]
        );
    });
}

#[test]
fn libraries_write_no_more_than_the_memory_of_a_script() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    for text in [
        "return #cmsgpack.pack(t)",
        "return #cmsgpack.pack(unpack(t))",
        "return #cjson.encode(t)",
        "local o = {} for i = 1, 400 do o['k' .. i] = s end return #cjson.encode(o)",
        "return #struct.pack(string.rep('s', 400), unpack(t))",
        "return redis.pcall('echo', unpack(t)).err .. redis.call('echo', unpack(t))",
        "return redis.acl_check_cmd('echo', unpack(t))",
    ] {
        let text = format!(
            "local s = string.rep('x', 1000000) local t = {{}} for i = 1, 400 do t[i] = s end {text}"
        );
        let reply = run_on(&mut engine, &mut host, &text, &[]);
        let reply = String::from_utf8_lossy(&reply);
        let is_refused =
            reply.contains("not enough memory") || reply.contains("exceed script-memory-limit");
        assert!(is_refused, "{text}: {reply}");
    }
    let text = "local s = string.rep('x', 1000000) local t = {} for i = 1, 400 do t[i] = s end \
                redis.log(redis.LOG_WARNING, unpack(t)) return 1";
    assert_eq!(run_on(&mut engine, &mut host, text, &[]), b":1\r\n");
}

// Nothing counted what one call of C or of a library did, or the writing of the reply.
#[test]
fn the_host_ends_what_is_not_an_instruction() {
    for text in [
        "local a = {} a[1] = a a[2] = a return a",
        "redis.setresp(3) local a = {map = {}} a.map[1] = a a.map[2] = a return a",
        "local t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10} for i = 1, 14 do local n = {} \
         for j = 1, 10 do n[j] = t end t = n end return #cmsgpack.pack(t)",
        "local t = {1, 2} for i = 1, 900 do t = {t, t} end return #cjson.encode(t)",
        "local t = {} for i = 1, 900 do t = {t, a = t} end return #cjson.encode(t)",
        "return string.find(string.rep('a', 200000), string.rep('a-', 60) .. 'b')",
        "return string.match(string.rep('a', 200000), '(.-)(.-)(.-)b')",
        "return string.gsub(string.rep('a', 200000), '(.-)(.-)(.-)b', 'x')",
        "return string.gmatch(string.rep('a', 200000), '.-.-.-b')()",
        "return string.find(string.rep('a', 100), string.rep('a?', 100) .. string.rep('a', 100))",
        "return string.find(string.rep('(', 200000), '%b()%b()')",
        "for i = 1, 1e9 do local s = string.rep('x', 1000000) end",
        "local t = {} for i = 1, 100000 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
        "local s = string.rep('x', 1000000) while true do redis.sha1hex(s) end",
        "local s = string.rep('[],', 100000) while true do cjson.decode('[' .. s .. '1]') end",
    ] {
        let mut host = OneValue {
            ticks_max: Some(30),
            ..OneValue::default()
        };
        let reply = run_on(&mut engine(), &mut host, text, &[]);
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(200)]);
        assert!(
            shown.starts_with("-ERR ended by the test"),
            "{text}: {shown}"
        );
    }
    assert_eq!(
        run("for i = 1, 10000 do string.rep('', 2147483647) end return 1"),
        ":1\r\n"
    );
    let mut host = OneValue {
        ends_calls: true,
        ..OneValue::default()
    };
    let text = "pcall(redis.call, 'set', 1) while true do end";
    let reply = run_on(&mut engine(), &mut host, text, &[]);
    assert!(reply.starts_with(b"-ERR ended by the test"));
}

// The collector started at twice the memory in use, which was beyond the limit.
#[test]
fn memory_in_use_may_come_near_the_limit() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    // The limit is 8 MiB.
    for kept in [2_000_000, 4_000_000, 5_500_000] {
        let text = format!(
            "local keep = string.rep('x', 100) local t = {{}} \
             for i = 1, {kept} / 100000 do t[i] = string.rep('z', 99990) .. i end \
             for i = 1, 3000 do local s = string.rep('y', 50000) .. i end return #t"
        );
        let reply = run_on(&mut engine, &mut host, &text, &[]);
        assert_eq!(
            reply.first(),
            Some(&b':'),
            "{kept}: {}",
            String::from_utf8_lossy(&reply)
        );
    }
    let text = "local t = {} for i = 1, 1e9 do t[i] = string.rep('z', 9999) .. i end";
    let reply = run_on(&mut engine, &mut host, text, &[]);
    assert!(reply.starts_with(b"-ERR not enough memory"));
    assert_eq!(run_on(&mut engine, &mut host, "return 7", &[]), b":7\r\n");
}

#[test]
fn a_minus_in_an_error_stays() {
    assert_eq!(run("return {err='-x y'}"), "--x y\r\n");
    assert_eq!(run("return redis.error_reply('-x y')"), "-x y\r\n");
}

#[test]
fn descriptions_of_functions_are_bounded() {
    let options = Options {
        version: "7.4.0",
        memory_bytes: 8 << 20,
    };
    let mut engine = Engine::for_functions(&options).expect("a Lua state");
    let code = "#!lua name=l\nlocal s = ('x'):rep(400000) for i = 1, 5 do \
                redis.register_function{function_name='f' .. i, description=s, callback=function() end} end";
    let mut library = crate::Library::parse(code.as_bytes()).expect("valid");
    let refused = engine.try_library(&mut library, &mut OneValue::default());
    assert!(refused.expect_err("too large").contains("exceed 1 MB"));
}

/// Regression: a script could put a function into the metatable of all arrays that `cjson` decodes,
/// which the scripts of other users then ran.
#[test]
fn the_metatable_of_decoded_arrays_cannot_be_changed() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    let mut run = |text: &str| {
        let reply = run_on(&mut engine, &mut host, text, &[]);
        String::from_utf8_lossy(&reply).into_owned()
    };
    let arrays = "cjson.decode_array_with_array_mt(true) local t = cjson.decode('[]') \
                  local m = getmetatable(t) ";
    for change in [
        "m.__index = function() return 'evil' end",
        "rawset(m, '__index', {'evil'})",
        "setmetatable(m, {__index = {__index = {'evil'}}})",
        "getmetatable(m).__newindex = nil",
        "getmetatable(cjson.new().decode('[]') or m).__index = {'evil'}",
    ] {
        let reply = run(&format!("{arrays}{change} return 1"));
        assert!(
            reply.contains("readonly table") || change.contains("new()"),
            "{change}: {reply}"
        );
    }
    assert_eq!(run("return cjson.decode('[]')[1]"), "$-1\r\n");
    assert_eq!(run("return cjson.new().decode('[]')[1]"), "$-1\r\n");
    assert_eq!(
        run("return cjson.encode(cjson.decode('[]'))"),
        "$2\r\n[]\r\n"
    );
    let own = "local t = cjson.decode('[1]') setmetatable(t, {__index = {[2] = 7}}) return t[2]";
    assert_eq!(run(own), ":7\r\n");
    let marked = "return cjson.encode(setmetatable({}, getmetatable(cjson.decode('[]'))))";
    assert_eq!(run(marked), "$2\r\n[]\r\n");
}

/// Regression: the time limit for loading applied to all libraries together, so that each call
/// failed on a thread that had to load many of them. A library that failed also prevented others
/// from being loaded.
#[test]
fn each_library_is_loaded_with_a_host_of_its_own() {
    let options = Options {
        version: "7.4.0",
        memory_bytes: 8 << 20,
    };
    let mut engine = Engine::for_functions(&options).expect("a Lua state");
    let new_host = || OneValue {
        ticks_max: Some(50),
        ..OneValue::default()
    };
    let libraries = crate::Libraries::default();
    let add = |name: &str, body: &str| {
        let code = format!("#!lua name={name}\n{body}");
        let mut library = crate::Library::parse(code.as_bytes()).expect("valid");
        let function = crate::Registered {
            name: format!("f_{name}").into(),
            description: None,
            flags: crate::Flags::default(),
        };
        library.register(function).expect("the first");
        let added = libraries.change(|map| {
            map.insert(library.name.clone(), Arc::new(library));
            Ok(())
        });
        added.expect("room");
    };
    for number in 0..5 {
        let body = format!(
            "local x = 0 for i = 1, 20000 do x = x + 1 end \
             redis.register_function('F_l{number}', function() return {number} end) \
             redis.register_function('f_other', function() return 'other' end)"
        );
        add(&format!("l{number}"), &body);
    }
    add("bad", "local always always()");
    add("slow", "while true do end");
    for _ in 0..2 {
        for number in 0..5 {
            let name = format!("f_L{number}");
            let found = engine.find_function(&libraries, name.as_bytes(), new_host);
            assert!(found.expect("it is loaded").is_some(), "{name}");
            let (bytes, spans) = (Vec::new(), Vec::new());
            let args = Args::new(&bytes, &spans);
            let mut host = new_host();
            let called = engine.call_function(name.as_bytes(), 0, args, &mut host);
            let mut out = Output::default();
            let mut reply = Reply::new(&mut out, Protocol::Resp2);
            engine.write(called.expect("found"), Vec::new, &mut reply, &mut host);
            assert_eq!(String::from_utf8_lossy(&out), format!(":{number}\r\n"));
        }
        for (name, error) in [
            ("f_bad", "always"),
            ("f_slow", "always"),
            ("none", "always"),
        ] {
            let refused = engine.find_function(&libraries, name.as_bytes(), new_host);
            let refused = refused.expect_err("its library fails");
            assert!(refused.contains(error), "{refused}");
        }
        // A function that the registry does not contain is not called.
        assert!(
            engine
                .find_function(&libraries, b"f_other", new_host)
                .is_err()
        );
    }
    let removed = libraries.change(|map| {
        map.retain(|name, _| name == b"l3");
        Ok(())
    });
    removed.expect("room");
    let mut find = |name: &[u8]| engine.find_function(&libraries, name, new_host);
    assert!(find(b"f_l3").expect("no failure").is_some());
    assert!(find(b"f_l2").expect("no failure").is_none());
}

/// Regression: a script that was ended between a command and the conversion of its reply left that
/// reply to the next script.
#[test]
fn a_reply_is_not_left_to_the_next_script() {
    let (mut engine, mut host) = (engine(), OneValue::default());
    run_on(
        &mut engine,
        &mut host,
        "return redis.call('set', 'secret')",
        &[],
    );
    run_on(&mut engine, &mut host, "return redis.call('get')", &[]);
    engine.state.has_reply.set(true);
    let reply = run_on(&mut engine, &mut host, "return redis.pcall({})", &[]);
    assert!(reply.starts_with(b"-ERR Lua redis lib command arguments"));
}

/// Regression: each call could keep as much memory as a run may allocate, without an overall bound,
/// and memory kept by a removed library was never freed.
#[test]
fn the_memory_that_functions_keep_is_bounded_and_freed() {
    const MEMORY_BYTES: usize = 8 << 20;
    let options = Options {
        version: "7.4.0",
        memory_bytes: MEMORY_BYTES,
    };
    let mut engine = Engine::for_functions(&options).expect("a Lua state");
    let empty_bytes = engine.used_bytes();
    let code = "#!lua name=l\nlocal kept = {} \
        redis.register_function('keep', function() \
          kept[#kept + 1] = string.rep('x' .. #kept, 1000000) return #kept end) \
        redis.register_function('clear', function() kept = {} return 0 end)";
    let libraries = crate::Libraries::default();
    let mut library = crate::Library::parse(code.as_bytes()).expect("valid");
    let mut host = OneValue::default();
    engine.try_library(&mut library, &mut host).expect("valid");
    let added = libraries.change(|map| {
        map.insert(library.name.clone(), Arc::new(library));
        Ok(())
    });
    added.expect("room");
    let mut call = |engine: &mut Engine, name: &[u8]| {
        let found = engine.find_function(&libraries, name, OneValue::default);
        assert!(found.expect("it is loaded").is_some());
        let (bytes, spans) = (Vec::new(), Vec::new());
        let called = engine.call_function(name, 0, Args::new(&bytes, &spans), &mut host);
        let mut out = Output::default();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        engine.write(called.expect("found"), Vec::new, &mut reply, &mut host);
        String::from_utf8_lossy(&out).into_owned()
    };
    let max = KEPT_RUNS * MEMORY_BYTES;
    for _ in 0..2 {
        let refused = (0..100)
            .map(|_| call(&mut engine, b"keep"))
            .find(|reply| reply.starts_with('-'));
        assert!(
            refused
                .expect("memory is full")
                .contains("not enough memory")
        );
        assert!(
            (max / 2..=max).contains(&engine.used_bytes()),
            "{}",
            engine.used_bytes()
        );
        assert_eq!(call(&mut engine, b"clear"), ":0\r\n");
    }
    for _ in 0..5 {
        call(&mut engine, b"keep");
    }
    let removed = libraries.change(|map| {
        map.clear();
        Ok(())
    });
    removed.expect("room");
    engine.free_removed(&libraries);
    assert!(
        engine.used_bytes() < empty_bytes + (1 << 20),
        "{}",
        engine.used_bytes()
    );
}

#[test]
fn both_matchers_of_patterns_return_the_same() {
    let text = "local t, p, r = ARGV[1], ARGV[2], ARGV[3] local out = {} \
        local function add(...) for i = 1, select('#', ...) do local v = tostring((select(i, ...))) \
          local a, b = string.find(v, 'user_script:1: ', 1, true) \
          out[#out + 1] = a == 1 and string.sub(v, b + 1) or v end out[#out + 1] = '|' end \
        local function try(f, ...) add(pcall(f, ...)) end \
        try(string.find, t, p) try(string.find, t, p, 2) try(string.find, t, p, -2) \
        try(string.match, t, p) try(string.match, t, p, 3) try(string.match, t, p, 99) \
        add(pcall(function() local n = 0 for a, b in string.gmatch(t, p) do \
          add(a, b) n = n + 1 if n > 50 then break end end end)) \
        try(string.gsub, t, p, r) try(string.gsub, t, p, r, 2) try(string.gsub, t, p, 7) \
        try(string.gsub, t, p, {a = 'x', b = false, aa = 1}) try(string.gsub, t, p, {a = {}}) \
        try(string.gsub, t, p, function(a, b) return b end) \
        try(string.gsub, t, p) try(string.gsub, t, p, r, 'x') \
        return table.concat(out, ',')";
    let (mut stock, mut bounded) = (engine(), engine());
    bounded.state.steps_max.set(0.0);
    let mut seed = 0x2545_F491_4F6C_DD1Du64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    let items = [
        "a", "b", "(", ")", "()", ".", "%a", "%W", "%s", "[ab]", "[^a]", "[a-c]", "[%w]", "[]a]",
        "[", "*", "+", "-", "?", "*", "-", "^", "$", "%", "%1", "%2", "%b()", "%b", "%f[a]", "%f",
        "%z", "\0",
    ];
    let parts = ["x", "%0", "%1", "%2", "%%", "%", "%a"];
    let mut host = OneValue::default();
    for _ in 0..4_000 {
        let text_len = 1 + next() % 12;
        let subject: Vec<u8> = (0..text_len)
            .map(|_| b"aabbc (),1\0"[next() % 11])
            .collect();
        let count = next() % 7;
        let pattern: String = (0..count).map(|_| items[next() % items.len()]).collect();
        let count = next() % 4;
        let replacement: String = (0..count).map(|_| parts[next() % parts.len()]).collect();
        let args: [&[u8]; 4] = [b"k", &subject, pattern.as_bytes(), replacement.as_bytes()];
        let expected = run_on(&mut stock, &mut host, text, &args);
        let found = run_on(&mut bounded, &mut host, text, &args);
        // Stock `gsub` accepts a capture that is not closed if the replacement does not use it.
        if String::from_utf8_lossy(&found).contains("unfinished capture") {
            continue;
        }
        assert_eq!(
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(&found),
            "{} {pattern:?} {replacement:?}",
            subject.escape_ascii()
        );
    }
}
