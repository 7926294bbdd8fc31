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
}

impl Host for OneValue {
    fn call(&mut self, args: Args<'_>, protocol: Protocol, out: &mut Output) {
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
            engine.write(finished, || b"NAME".to_vec(), &mut reply);
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
    fn call(&mut self, _args: Args<'_>, _protocol: Protocol, _out: &mut Output) {
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
    assert_eq!(
        run("return loadstring(string.dump(function() end)) == nil"),
        ":1\r\n"
    );
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
        engine.write(finished.expect("it compiles"), Vec::new, &mut reply);
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
