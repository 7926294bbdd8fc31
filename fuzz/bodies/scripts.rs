//! Fuzz target of scripts: their arguments, their text, and the libraries `cmsgpack`, `cjson` and
//! `struct`. What a script is given arrives unchanged; what a library decodes can be encoded and
//! decoded again with the same result; and every run ends with exactly one well-formed reply.

use script::{Engine, Host, Options, Script};
use std::cell::RefCell;
use std::sync::Arc;
use wire::{Args, Output, Protocol, Reply, ReplyScanner, Span, Value, encode_command};

/// Memory of a script in bytes.
const MEMORY_BYTES: usize = 4 << 20;
/// Number of ticks after which a script is ended.
const TICKS_MAX: u32 = 2_000;

/// Comparison of two values, deep enough for all that the encoders write. Numbers are equal within
/// the precision of the encoder.
const SAME: &str = r#"
    local function near(a, b)
      return a == b or (a ~= a and b ~= b) or math.abs(a - b) <= 1e-13 * math.abs(a)
    end
    local function same(a, b)
      if type(a) ~= type(b) then return false end
      if type(a) == 'number' then return near(a, b) end
      if type(a) ~= 'table' then return a == b end
      for key, value in pairs(a) do
        -- A table that is a key is not found by an equal one.
        if type(key) ~= 'table' and not same(value, b[key]) then return false end
      end
      for key in pairs(b) do
        if type(key) ~= 'table' and a[key] == nil then return false end
      end
      return true
    end
"#;

const ECHO: &str = "return {KEYS, ARGV, redis.call('echo', unpack(ARGV))}";

// The encoder writes tables below its maximum depth as nil.
const MESSAGE_PACK: &str = r#"
    local function depth(value)
      local max = 0
      if type(value) == 'table' then
        for key, inner in pairs(value) do max = math.max(max, depth(key), depth(inner)) end
        max = max + 1
      end
      return max
    end
    local function counted(...)
      return select('#', ...), {...}
    end
    local len, values = counted(cmsgpack.unpack(ARGV[1]))
    for index = 1, len do
      if depth(values[index]) <= 16 then
        local again = cmsgpack.unpack(cmsgpack.pack(values[index]))
        assert(same(values[index], again), 'DIFFERS')
      end
    end
    local at, count = 0, 0
    while at >= 0 and ARGV[1] ~= '' do
      local next, value = cmsgpack.unpack_one(ARGV[1], at)
      count = count + 1
      assert(same(value, values[count]) and (next == -1 or next > at), 'DIFFERS')
      at = next
    end
    assert(count == len, 'DIFFERS')
    return len
"#;

const JSON: &str = r#"
    local value = cjson.decode(ARGV[1])
    local once = cjson.encode(value)
    local again = cjson.decode(once)
    assert(same(value, again), 'DIFFERS')
    return #once
"#;

const STRUCT: &str = r#"
    local values = {struct.unpack(ARGV[1], ARGV[2])}
    local next = table.remove(values)
    assert(next >= 1 and next <= #ARGV[2] + 1, 'DIFFERS')
    local packed = struct.pack(ARGV[1], unpack(values))
    local again = {struct.unpack(ARGV[1], packed)}
    assert(table.remove(again) == #packed + 1, 'DIFFERS')
    if not string.find(ARGV[1], 'f') then
      assert(same(values, again), 'DIFFERS')
    end
    return #values
"#;

/// A host whose commands return their arguments.
#[derive(Default)]
struct Echo {
    ticks: u32,
    received: Vec<Vec<u8>>,
}

impl Host for Echo {
    fn call(
        &mut self,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Output,
    ) -> Option<&'static str> {
        self.received = args.from(1).iter().map(<[u8]>::to_vec).collect();
        let mut reply = Reply::new(out, protocol);
        reply.array(self.received.len());
        for arg in &self.received {
            reply.bulk(arg);
        }
        None
    }

    fn may_call(&mut self, _args: Args<'_>) -> Result<bool, &'static str> {
        Ok(true)
    }

    fn log(&mut self, _level: u8, _text: &[u8]) {}

    fn cpu_seconds(&mut self) -> f64 {
        0.0
    }

    fn tick(&mut self) -> Option<&'static str> {
        self.ticks += 1;
        (self.ticks > TICKS_MAX).then_some("ERR ended by the fuzzer")
    }
}

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// Runs a script in this thread's state. Returns its reply, or `None` if it does not compile.
fn eval(text: &[u8], key_count: usize, args: &[&[u8]], host: &mut Echo) -> Option<Value> {
    let mut input = Vec::new();
    let mut spans = Vec::new();
    for arg in args {
        let (start, len) = (input.len() as u32, arg.len() as u32);
        spans.push(Span { start, len });
        input.extend_from_slice(arg);
    }
    // A state that a panic has left is not used again.
    let mut engine = ENGINE.take().unwrap_or_else(|| {
        let options = Options {
            version: "8.0.0",
            memory_bytes: MEMORY_BYTES,
        };
        Engine::new(&options).expect("a Lua state")
    });
    let mut out = Output::default();
    let ran = Script::parse(text).and_then(|script| {
        let script = Arc::new(script);
        let finished = engine.run(&script, key_count, Args::new(&input, &spans), host)?;
        engine.write(
            finished,
            || b"fuzz".to_vec(),
            &mut Reply::new(&mut out, Protocol::Resp2),
            host,
        );
        Ok(())
    });
    ENGINE.set(Some(engine));
    ran.ok()?;
    assert_eq!(ReplyScanner::default().scan(&out), Ok(Some(out.len())));
    let (value, _) = Value::decode(&out).expect("a reply").expect("a whole one");
    Some(value)
}

/// Runs a script on decoders. Errors are its answer to malformed data, except for a difference.
fn check(code: &str, args: &[&[u8]]) {
    let text = format!("{SAME}{code}");
    let reply = eval(text.as_bytes(), 0, args, &mut Echo::default()).expect("it compiles");
    if let Some(error) = reply.as_error() {
        let is_different = error.windows(7).any(|word| word == b"DIFFERS");
        assert!(!is_different, "{}", error.escape_ascii());
    }
}

/// Cuts the data into pieces, each after a byte with its length.
fn pieces(mut data: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((&len, rest)) = data.split_first() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(len)));
        pieces.push(piece);
        data = rest;
    }
    pieces
}

fn arguments_arrive(key_count: u8, data: &[u8]) {
    let args = pieces(data);
    let key_count = usize::from(key_count).min(args.len());
    let (keys, argv) = args.split_at(key_count);
    let mut host = Echo::default();
    let reply = eval(ECHO.as_bytes(), key_count, &args, &mut host).expect("it compiles");
    assert_eq!(host.received, argv);
    let mut expected = b"*3\r\n".to_vec();
    for list in [keys, argv, argv] {
        encode_command(&mut expected, list);
    }
    let mut encoded = Vec::new();
    reply.encode(&mut encoded);
    assert_eq!(encoded, expected);
}

/// Runs one input. Its first byte selects the part.
pub fn run(data: &[u8]) {
    let Some((&part, rest)) = data.split_first() else {
        return;
    };
    match part % 5 {
        0 => arguments_arrive(part / 5, rest),
        1 => check(MESSAGE_PACK, &[rest]),
        2 => check(JSON, &[rest]),
        3 => {
            let at = rest.iter().position(|byte| *byte == 0);
            let (format, packed) = rest.split_at(at.unwrap_or(rest.len()));
            check(STRUCT, &[format, packed.get(1..).unwrap_or_default()]);
        }
        _ => {
            eval(rest, 1, &[b"key", b"argument"], &mut Echo::default());
        }
    }
}
