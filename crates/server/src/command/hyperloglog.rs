//! Approximate counts of distinct elements: PFADD, PFCOUNT, PFMERGE. `store::hyperloglog` describes
//! the format.

use super::refusal::{Answer, Refusal};
use super::table::{commands, on_slab};
use super::work;
use crate::config::Id;
use crate::context::{Ctx, Spec};
use crate::spec::Keys;
use crate::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use store::hyperloglog::{self, Flaw, Registers};
use store::{Class, NewDeadline};
use wire::Args;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "hyperloglog":
    "pfadd" -2, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.8.9", on_slab!(pfadd).by_arguments(),
        "Adds elements to a HyperLogLog.";
    "pfcount" -2, READONLY, Keys::Range(1, -1, 1), "2.8.9", on_slab!(pfcount).estimated(work::hyperloglogs),
        "Returns the approximate number of distinct elements added to any of the given HyperLogLogs.";
    "pfmerge" -2, WRITE | DENYOOM, Keys::Range(1, -1, 1), "2.8.9", on_slab!(pfmerge).estimated(work::hyperloglogs),
        "Merges HyperLogLogs into the first one.";
};

impl From<Flaw> for Refusal {
    fn from(flaw: Flaw) -> Refusal {
        Refusal::Message(match flaw {
            Flaw::NoSketch => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Flaw::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

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
