//! Commands on the representation of values: OBJECT, MEMORY USAGE.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{Encoding, EntryFacts, Key, Kind};
use wire::Args;
use wire::number::parse_i64;

/// Maximum length of a string with the encoding `embstr` in Redis.
const EMBEDDED_BYTES_MAX: usize = 44;

const OBJECT_HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the encoding that the value has in Redis.",
    "FREQ <key>",
    "    Return the recent access frequency of the key, if the eviction policy counts it.",
    "IDLETIME <key>",
    "    Return the seconds since the last access, if the eviction policy records it.",
    "REFCOUNT <key>",
    "    Return the number of references to the value, which is always 1.",
    "HELP",
    "    Print this help.",
];

const MEMORY_HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USAGE <key> [SAMPLES <count>]",
    "    Return the bytes that the key uses: its entry and its places in the table and the expiry index.",
    "    SAMPLES has no effect, because the size is exact.",
    "DOCTOR",
    "    Return a report about memory problems.",
    "PURGE",
    "    Has no effect, because freed memory returns to the system automatically.",
    "STATS",
    "    Return the memory use of the server by purpose.",
    "HELP",
    "    Print this help.",
];

fn help(ctx: &mut Ctx<'_, '_>, lines: &[&str]) {
    ctx.reply.array(lines.len());
    for line in lines {
        ctx.reply.simple(line);
    }
}

/// Refuses an unknown subcommand.
fn unknown(ctx: &mut Ctx<'_, '_>, container: &str, name: &[u8]) {
    let shown = &name[..name.len().min(128)];
    let text = [
        b"ERR unknown subcommand '".as_slice(),
        shown,
        b"'. Try ",
        container.as_bytes(),
        b" HELP.",
    ]
    .concat();
    ctx.reply.error_bytes(&text);
}

/// `OBJECT ENCODING | FREQ | IDLETIME | REFCOUNT key`, `OBJECT HELP`
pub fn object(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    type Subcommand = fn(&mut Ctx<'_, '_>, &[u8], EntryFacts) -> Answer;
    const SUBCOMMANDS: [(&str, &str, Subcommand); 4] = [
        ("encoding", "object|encoding", encoding),
        ("freq", "object|freq", frequency),
        ("idletime", "object|idletime", idle_time),
        ("refcount", "object|refcount", reference_count),
    ];
    if args.is(1, "help") {
        if args.len() != 2 {
            return Err(Refusal::Arity("object|help"));
        }
        help(ctx, OBJECT_HELP);
        return Ok(());
    }
    let Some(&(_, full_name, run)) = SUBCOMMANDS.iter().find(|known| args.is(1, known.0)) else {
        unknown(ctx, "OBJECT", &args[1]);
        return Ok(());
    };
    if args.len() != 3 {
        return Err(Refusal::Arity(full_name));
    }
    let key = ctx.key(&args[2]);
    match ctx.view.facts(&key) {
        Some(facts) => run(ctx, &args[2], facts),
        None => {
            ctx.reply.null();
            Ok(())
        }
    }
}

fn encoding(ctx: &mut Ctx<'_, '_>, name: &[u8], facts: EntryFacts) -> Answer {
    let key = ctx.key(name);
    let name = encoding_name(ctx, &key, facts)?;
    ctx.reply.bulk(name.as_bytes());
    Ok(())
}

/// Returns Redis's name of the encoding, which is derived from the value.
///
/// # Errors
///
/// The key does not hold what `facts` says.
pub fn encoding_name(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    facts: EntryFacts,
) -> Result<&'static str, Refusal> {
    Ok(match facts.kind {
        Kind::String => match ctx.view.peek(key)? {
            Some(value) if parse_i64(value).is_some() => "int",
            Some(value) if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
            _ => "raw",
        },
        _ => match (facts.kind, facts.encoding) {
            (_, Encoding::Integers) => "intset",
            (_, Encoding::Packed) => "listpack",
            (Kind::List, _) => "quicklist",
            (Kind::SortedSet, _) => "skiplist",
            (Kind::Stream, _) => "stream",
            _ => "hashtable",
        },
    })
}

fn frequency(ctx: &mut Ctx<'_, '_>, _: &[u8], facts: EntryFacts) -> Answer {
    let frequency = facts.frequency.ok_or(Refusal::Message(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    ))?;
    ctx.reply.integer(i64::from(frequency));
    Ok(())
}

fn idle_time(ctx: &mut Ctx<'_, '_>, _: &[u8], facts: EntryFacts) -> Answer {
    let idle_ms = facts.idle_ms.ok_or(Refusal::Message(
        "ERR The maxmemory policy does not record the time of the last access, idle time not tracked.",
    ))?;
    ctx.reply.integer((idle_ms / 1000) as i64);
    Ok(())
}

fn reference_count(ctx: &mut Ctx<'_, '_>, _: &[u8], _: EntryFacts) -> Answer {
    ctx.reply.integer(1);
    Ok(())
}

/// `MEMORY USAGE key [SAMPLES count]`, `MEMORY HELP`
pub fn memory(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.is(1, "help") {
        if args.len() != 2 {
            return Err(Refusal::Arity("memory|help"));
        }
        help(ctx, MEMORY_HELP);
        return Ok(());
    }
    if !args.is(1, "usage") {
        if !crate::command::server::memory(ctx, args) {
            unknown(ctx, "MEMORY", &args[1]);
        }
        return Ok(());
    }
    if args.len() < 3 {
        return Err(Refusal::Arity("memory|usage"));
    }
    let mut index = 3;
    while index < args.len() {
        if !args.is(index, "samples") || index + 1 == args.len() {
            return Err(Refusal::Syntax);
        }
        let samples = parse_i64(&args[index + 1]).ok_or(Refusal::NotInteger)?;
        if samples < 0 {
            return Err(Refusal::Syntax);
        }
        index += 2;
    }
    let key = ctx.key(&args[2]);
    match ctx.view.facts(&key) {
        Some(facts) => ctx.reply.integer(facts.bytes as i64),
        None => ctx.reply.null(),
    }
    Ok(())
}
