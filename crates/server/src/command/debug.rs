//! DEBUG: commands that test suites use. `enable-debug-command` says which clients may run them.

use super::key::dump;
use super::key::object::encoding_name;
use super::scripting::functions::load_library;
use super::subcommand::help;
use super::table::commands;
use super::work;
use crate::context::{Ctx, Run, Spec, settle};
use crate::loading::file;
use crate::saving::work::request;
use durability::saving::{Then, Waiting};
use engine::refusal::{Answer, Refusal};
use session::message::Subscriber;
use session::session::Session;
use session::spec::flag::{ADMIN, LOADING, NOSCRIPT, PROTECTED, STALE};
use session::spec::{Access, Keys};
use session::waiting::BlockingState;
use settings::value::bytes;
use settings::words::{DEBUG_LOCAL, DEBUG_REFUSED};
use settings::{Config, Id};
use std::net::SocketAddr;
use std::time::Duration;
use wire::number::{parse_f64, parse_i64};
use wire::{Args, Protocol, glob};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "debug" -2, ADMIN | NOSCRIPT | LOADING | STALE | PROTECTED,
        Keys::After(&["object", "listpack"]) => Access::READ, "1.0.0",
        Run::any(|ctx, args| settle(ctx, args, debug)).estimated(work::debugged),
        "subcommand [argument]...", "A container for debugging commands.";
};

/// Text of DEBUG HELP.
const HELP: &[&str] = &[
    "CHANGE-REPL-ID",
    "    Has no effect.",
    "DICT-RESIZING <0|1>",
    "    Has no effect, because tables are resized in small steps.",
    "ERROR <string>",
    "    Return an error with <string> as its text.",
    "LISTPACK <key>",
    "    Check that the value of <key> is packed.",
    "LOG <message>",
    "    Write <message> to the log.",
    "OBJECT <key>",
    "    Show the encoding and the serialized length of a value.",
    "PROTOCOL <type>",
    "    Return a test value of one of the types string, integer, double, bignum, null,",
    "    array, set, map, attrib, push, verbatim, true, false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Has no effect: large elements of lists are stored like small ones.",
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Write the snapshot file, remove all keys and load the file again. NOSAVE does not write",
    "    it, NOFLUSH keeps keys that it does not have.",
    "REPLYBUFFER PEAK-RESET-TIME <NEVER|RESET|time>",
    "    Has no effect: reply buffers shrink when they are empty.",
    "REPLYBUFFER RESIZING <0|1>",
    "    Has no effect: reply buffers shrink when they are empty.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Stop or continue the removal of expired keys that are not accessed.",
    "SLEEP <seconds>",
    "    Block the server for <seconds>.",
    "STRINGMATCH-LEN <length> <pattern>",
    "    Return whether <pattern> matches <length> times the letter a.",
];

/// Maximum duration of DEBUG SLEEP in seconds.
const SLEEP_SECONDS_MAX: f64 = 3600.0;

/// Maximum length of the text that STRINGMATCH-LEN matches.
const TEXT_BYTES_MAX: i64 = 16 << 20;

/// Error for DEBUG where it is not allowed.
pub const NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";

/// Whether `enable-debug-command` allows DEBUG to this client.
pub fn is_allowed(config: &Config, session: &Session) -> bool {
    let address = session.info.address.parse::<SocketAddr>();
    match config.number(Id::EnableDebugCommand) {
        DEBUG_LOCAL => address.map_or(true, |address| address.ip().to_canonical().is_loopback()),
        allowed => allowed != DEBUG_REFUSED,
    }
}

fn debug(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"sleep", 3) => sleep(&args[2])?,
        (b"error", 3) => {
            let text = args[2].iter().map(|byte| match byte {
                b'\r' | b'\n' => b' ',
                byte => *byte,
            });
            let text: Vec<u8> = text.collect();
            ctx.reply.error_bytes(&text);
            return Ok(());
        }
        (b"log", 3) => log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(&args[2])),
        (b"protocol", 3) => return protocol(ctx, &args[2]),
        (b"object", 3) => return object(ctx, &args[2]),
        (b"listpack", 3) => return packed(ctx, &args[2]),
        (b"set-active-expire", 3) => {
            let is_on = parse_i64(&args[2]).is_some_and(|number| number != 0);
            ctx.server.data.keyspace.set_active_expiry(is_on);
        }
        (b"stringmatch-len", 4) => {
            let len = parse_i64(&args[2]).filter(|len| (0..=TEXT_BYTES_MAX).contains(len));
            let text = vec![b'a'; len.ok_or(Refusal::NotInteger)? as usize];
            let matches = glob::matches(&args[3], &text, false);
            ctx.reply.integer(i64::from(matches));
            return Ok(());
        }
        (b"quicklist-packed-threshold", 3) => {
            let size = std::str::from_utf8(&args[2]).ok().and_then(bytes);
            let is_valid = size.is_some_and(|size| size != 1 && size < 4 << 30);
            is_valid.then_some(()).ok_or(Refusal::Message(
                "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
            ))?;
        }
        (b"replybuffer", 4) if args.is(2, "peak-reset-time") => {
            let is_word = args.is(3, "never") || args.is(3, "reset");
            let is_valid = is_word || parse_i64(&args[3]).is_some();
            is_valid.then_some(()).ok_or(Refusal::NotInteger)?;
        }
        (b"replybuffer", 4) if args.is(2, "resizing") => {}
        (b"reload", 2..) => return reload(ctx, args),
        (b"change-repl-id", 2) | (b"dict-resizing", 3) => {}
        (b"help", 2) => {
            help(ctx, "DEBUG", HELP);
            return Ok(());
        }
        _ => {
            let shown = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
            ctx.reply.error_fmt(format_args!(
                "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try DEBUG HELP."
            ));
            return Ok(());
        }
    }
    ctx.reply.ok();
    Ok(())
}

/// Writes the snapshot file and loads it again.
fn reload(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (mut saves, mut flushes) = (true, true);
    for word in args.from(2).iter() {
        match &word.to_ascii_lowercase()[..] {
            b"nosave" => saves = false,
            b"noflush" => flushes = false,
            // A key that exists is replaced by that of the file in any case.
            b"merge" => {}
            _ => {
                return Err(Refusal::Message(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    if !saves {
        ctx.unlocked(|server| file::reload(server, flushes, load_library))
            .map_err(Refusal::Message)?;
        ctx.reply.ok();
        return Ok(());
    }
    let waiting = Waiting {
        client: Subscriber::of(&ctx.session.info),
        protocol: ctx.session.protocol,
    };
    let then = Then::Reload(waiting, flushes);
    request(ctx.server, "DEBUG RELOAD".to_owned(), then).map_err(Refusal::Message)?;
    ctx.session.blocking_state = BlockingState::RunsLong;
    Ok(())
}

fn sleep(text: &[u8]) -> Answer {
    let seconds = parse_f64(text).filter(|seconds| (0.0..=SLEEP_SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or(Refusal::Message("ERR value is not a valid float"))?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Ok(())
}

/// Number of bytes in a DUMP payload other than the value: the type before it, and version and
/// checksum after it.
const FRAME_BYTES: usize = 1 + 2 + 8;

const NO_KEY: Refusal = Refusal::Message("ERR no such key");

fn object(ctx: &mut Ctx<'_, '_>, name: &[u8]) -> Answer {
    let key = ctx.key(name);
    let facts = ctx.view.facts(&key).ok_or(NO_KEY)?;
    let idle_seconds = facts.idle_ms.unwrap_or(0) / 1000;
    let encoding = encoding_name(ctx, &key, facts)?;
    let payload = dump::payload(ctx, &key)?.unwrap_or_default();
    let len = payload.len().saturating_sub(FRAME_BYTES);
    // Clients parse the fields by their names. The address means nothing to them.
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:{idle_seconds}"
    );
    ctx.reply.simple(&text);
    Ok(())
}

fn packed(ctx: &mut Ctx<'_, '_>, name: &[u8]) -> Answer {
    let key = ctx.key(name);
    let facts = ctx.view.facts(&key).ok_or(NO_KEY)?;
    match encoding_name(ctx, &key, facts)? {
        "listpack" => ctx.reply.simple("The value is packed"),
        _ => return Err(Refusal::Message("ERR Not a listpack encoded object.")),
    }
    Ok(())
}

fn protocol(ctx: &mut Ctx<'_, '_>, name: &[u8]) -> Answer {
    let is_resp2 = ctx.reply.protocol() == Protocol::Resp2;
    let reply = &mut ctx.reply;
    match &name.to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        #[expect(clippy::approx_constant, reason = "these are the digits of Redis")]
        b"double" => reply.double(3.141),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if is_resp2 => {
            return Err(Refusal::Message(
                "ERR RESP2 is not supported by this command",
            ));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(Refusal::Message(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
