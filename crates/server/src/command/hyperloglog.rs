//! Approximate counts of distinct elements: PFADD, PFCOUNT, PFMERGE. `store::hyperloglog` describes
//! the format.

use super::table::{commands, on_slab};
use super::work;
use crate::context::{Ctx, Spec};
use engine::refusal::{Answer, Refusal};
use session::spec::flag::{ADMIN, DENYOOM, FAST, MAY_WRITE, READONLY, WRITE};
use session::spec::{Access, Form, Keys};
use settings::Id;
use store::hyperloglog::{self, Flaw, Registers};
use store::{Class, NewDeadline};
use wire::Args;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "hyperloglog" [hyperloglog]:
    "pfadd" -2, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "2.8.9",
        on_slab!(pfadd).by_arguments(),
        "key [element]...", "Adds elements to a HyperLogLog.";
    "pfcount" -2, READONLY | MAY_WRITE => Form::Same, Keys::Range(1, -1, 1) => Access::ENCODE, "2.8.9",
        on_slab!(pfcount).estimated(work::hyperloglogs),
        "key...", "Returns the approximate number of distinct elements added to any of the given HyperLogLogs.";
    "pfmerge" -2, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, -1, 1) => Access::MERGE.then(Access::READ), "2.8.9",
        on_slab!(pfmerge).estimated(work::hyperloglogs),
        "destkey [sourcekey:key]...", "Merges HyperLogLogs into the first one.";
    "pfdebug" 3, WRITE | DENYOOM | ADMIN => Form::Same, Keys::Range(2, 2, 1) => Access::ENCODE, "2.8.9",
        on_slab!(pfdebug),
        "subcommand key",
        "Shows the registers or the encoding of a HyperLogLog, or changes it to the dense one.";
    "pfselftest" 1, ADMIN, Keys::None, "2.8.9", on_slab!(pfselftest),
        "", "Tests the estimates of HyperLogLogs.";
};

/// Maximum size of a sketch in its sparse form, in bytes.
fn sparse_bytes_max(ctx: &Ctx<'_, '_>) -> usize {
    ctx.server.config.number(Id::HllSparseMaxBytes) as usize
}

/// `PFADD key [element …]`: replies whether the sketch has changed. A missing sketch is created,
/// even without elements.
fn pfadd(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let elements = args.from(2);
    let bytes_max = sparse_bytes_max(ctx);
    let found = ctx.view.peek(&key)?;
    let is_new = found.is_none();
    let mut changes = is_new;
    if let Some(sketch) = found {
        hyperloglog::known_count(sketch)?;
        for element in elements.iter() {
            changes = hyperloglog::would_change(sketch, element)?;
            if changes {
                break;
            }
        }
    }
    if changes {
        ctx.view.edit(&key, |sketch| -> Result<(), Flaw> {
            if is_new {
                *sketch = hyperloglog::empty();
            }
            for element in elements.iter() {
                hyperloglog::add(sketch, element, bytes_max)?;
            }
            Ok(())
        })??;
        if is_new {
            ctx.view.notify(Class::New, "new", &key);
        }
        ctx.view.notify(Class::String, "pfadd", &key);
    }
    ctx.reply.integer(i64::from(changes));
    Ok(())
}

/// `PFCOUNT key [key …]`: replies with the number of distinct elements in all sketches together.
/// The count of a single sketch is cached in it.
fn pfcount(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut registers = Registers::default();
    let mut known = None;
    let mut is_found = false;
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        match ctx.view.get(&key)? {
            Some(sketch) => {
                is_found = true;
                known = hyperloglog::known_count(sketch)?;
                if known.is_none() || args.len() > 2 {
                    registers.merge(sketch)?;
                }
            }
            None => ctx.missed(&key),
        }
    }
    let count = match known {
        Some(count) if args.len() == 2 => count,
        _ => registers.count(),
    };
    if is_found && known.is_none() && args.len() == 2 {
        let key = ctx.key(&args[1]);
        ctx.view
            .edit(&key, |sketch| hyperloglog::keep_count(sketch, count))?;
    }
    ctx.reply.integer(count as i64);
    Ok(())
}

/// `PFMERGE destination [source …]`: the destination is a source too.
fn pfmerge(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut registers = Registers::default();
    let mut is_dense = false;
    for name in args.from(1).iter() {
        let key = ctx.key(name);
        match ctx.view.get(&key)? {
            Some(sketch) => is_dense |= registers.merge(sketch)?,
            None => ctx.missed(&key),
        }
    }
    let key = ctx.key(&args[1]);
    let publishes_new = ctx.publishes_new(&key);
    let sketch = registers.sketch(is_dense, sparse_bytes_max(ctx));
    ctx.view.set(&key, &sketch, NewDeadline::Keep);
    if publishes_new {
        ctx.view.notify(Class::New, "new", &key);
    }
    ctx.view.notify(Class::String, "pfadd", &key);
    ctx.reply.ok();
    Ok(())
}

/// `PFDEBUG GETREG | DECODE | ENCODING | TODENSE key`, `PFDEBUG SIMD ON | OFF`
fn pfdebug(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    if args.is(1, "simd") {
        // There is only one implementation.
        if !args.is(2, "on") && !args.is(2, "off") {
            return Err(Refusal::Message("ERR Argument must be ON or OFF"));
        }
        ctx.reply.simple("disabled");
        return Ok(());
    }
    let key = ctx.key(&args[2]);
    let sketch = ctx.view.peek(&key)?;
    let sketch = sketch.ok_or(Refusal::Message("ERR The specified key does not exist"))?;
    let mut registers = Registers::default();
    let is_dense = registers.merge(sketch)?;
    match &args[1].to_ascii_lowercase()[..] {
        b"getreg" => {
            ctx.reply.array(registers.ranks().len());
            for rank in registers.ranks() {
                ctx.reply.integer(i64::from(*rank));
            }
        }
        b"decode" if is_dense => {
            return Err(Refusal::Message("ERR HLL encoding is not sparse"));
        }
        b"decode" => {
            let runs = hyperloglog::describe_runs(sketch)?;
            ctx.reply.bulk(runs.as_bytes());
        }
        b"encoding" => ctx.reply.simple(if is_dense { "dense" } else { "sparse" }),
        b"todense" => {
            if !is_dense {
                let dense = registers.sketch(true, 0);
                ctx.view.set(&key, &dense, NewDeadline::Keep);
            }
            ctx.reply.integer(i64::from(!is_dense));
        }
        _ => {
            let shown = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
            ctx.reply
                .error_fmt(format_args!("ERR Unknown PFDEBUG subcommand '{shown}'"));
        }
    }
    Ok(())
}

/// `PFSELFTEST`
fn pfselftest(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) -> Answer {
    match hyperloglog::self_test() {
        Ok(()) => ctx.reply.ok(),
        Err(count) => ctx.reply.error_fmt(format_args!(
            "TESTFAILED wrong estimate of {count} elements"
        )),
    }
    Ok(())
}
