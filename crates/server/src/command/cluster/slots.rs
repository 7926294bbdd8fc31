//! Subcommands of CLUSTER that examine the names of all keys of a database, because no index has
//! the keys of a slot: COUNTKEYSINSLOT, GETKEYSINSLOT and SLOT-STATS. On many keys they run in
//! steps, see `dispatch/steps.rs`. Keys that change meanwhile may be left out.

use crate::context::Ctx;
use crate::state::Server;
use std::cmp::Reverse;
use store::View;
use wire::number::parse_i64;
use wire::slot::{SLOTS, slot};
use wire::{Args, Reply};

/// First arguments of the commands that examine all names.
pub const WORDS: &[&str] = &["countkeysinslot", "getkeysinslot", "slot-stats"];

/// Number of keys that one step examines.
const KEYS_PER_STEP: usize = 1024;

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const OUT_OF_RANGE: &str = "ERR Invalid or out of range slot";

/// Which slots SLOT-STATS replies with, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// From the first one to the last one.
    Range(u16, u16),
    /// At most this number, those with the most keys first if the flag is true, and otherwise those
    /// with the fewest.
    Ordered(usize, bool),
}

/// A command that examines all names, and what it has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    goal: Goal,
    /// Number of keys in each slot, for SLOT-STATS; empty before the first step.
    counts: Vec<u64>,
    /// Number of keys found in the slot.
    found: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The number of keys in a slot.
    Count(u16),
    /// The names of at most this number of keys in a slot.
    Names(u16, u64),
    /// The numbers of keys in slots.
    Stats(Selection),
}

impl Walk {
    /// Reads the arguments of a call of CLUSTER whose first one is one of [`WORDS`].
    ///
    /// # Errors
    /// The error to reply with.
    pub fn parse(args: Args<'_>) -> Result<Walk, String> {
        let goal = match args.len() {
            3 if args.is(1, "countkeysinslot") => {
                let slot = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
                Goal::Count(valid(slot).ok_or("ERR Invalid slot")?)
            }
            4 if args.is(1, "getkeysinslot") => {
                let slot = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
                let count = parse_i64(&args[3]).ok_or(NOT_INTEGER)?;
                let both = valid(slot).zip(u64::try_from(count).ok());
                let (slot, count) = both.ok_or("ERR Invalid slot or number of keys")?;
                Goal::Names(slot, count)
            }
            _ => Goal::Stats(selection(args)?),
        };
        Ok(Walk {
            goal,
            counts: Vec::new(),
            found: 0,
        })
    }

    /// Whether a call of CLUSTER examines all names: it is not refused at once.
    pub fn is_one(server: &Server, args: Args<'_>) -> bool {
        let has_word = WORDS.iter().any(|word| args.is(1, word));
        has_word
            && server.config.is_cluster()
            && server.data.segments.is_none()
            && Walk::parse(args).is_ok()
    }

    /// Examines some keys from a position on and adds the wanted names to `list`. Returns the next
    /// position, 0 at the end. All shards are locked.
    pub fn step(
        &mut self,
        view: &mut View<'_>,
        (db, cursor): (u8, u64),
        list: &mut Reply<'_>,
    ) -> u64 {
        let Walk {
            goal,
            counts,
            found,
        } = self;
        match *goal {
            Goal::Count(wanted) => view.scan(db, cursor, KEYS_PER_STEP, &mut |name, _| {
                *found += u64::from(slot(name) == wanted);
            }),
            Goal::Names(_, count) if *found >= count => 0,
            Goal::Names(wanted, count) => {
                let next = view.scan(db, cursor, KEYS_PER_STEP, &mut |name, _| {
                    if *found < count && slot(name) == wanted {
                        list.bulk(name);
                        *found += 1;
                    }
                });
                if *found < count { next } else { 0 }
            }
            Goal::Stats(_) => {
                counts.resize(usize::from(SLOTS), 0);
                view.scan(db, cursor, KEYS_PER_STEP, &mut |name, _| {
                    counts[usize::from(slot(name))] += 1;
                })
            }
        }
    }

    /// Writes the reply, or the part of it that precedes the names.
    pub fn begin_reply(&self, reply: &mut Reply<'_>) {
        match self.goal {
            Goal::Count(_) => reply.integer(self.found as i64),
            Goal::Names(..) => reply.array(self.found as usize),
            Goal::Stats(selection) => self.reply_stats(selection, reply),
        }
    }

    fn reply_stats(&self, selection: Selection, reply: &mut Reply<'_>) {
        let slots: Vec<u16> = match selection {
            Selection::Range(first, last) => (first..=last).collect(),
            Selection::Ordered(limit, has_most_first) => {
                let mut all: Vec<u16> = (0..SLOTS).collect();
                let count = |slot: &u16| self.counts[usize::from(*slot)];
                match has_most_first {
                    true => all.sort_by_key(|slot| Reverse(count(slot))),
                    false => all.sort_by_key(count),
                }
                all.truncate(limit);
                all
            }
        };
        reply.array(slots.len());
        for slot in slots {
            reply.array(2);
            reply.integer(i64::from(slot));
            reply.map(1);
            reply.bulk(b"key-count");
            reply.integer(self.counts[usize::from(slot)] as i64);
        }
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}

/// Returns a slot that exists.
fn valid(slot: i64) -> Option<u16> {
    u16::try_from(slot).ok().filter(|slot| *slot < SLOTS)
}

/// Reads the arguments of SLOT-STATS.
fn selection(args: Args<'_>) -> Result<Selection, String> {
    let slot = |at: usize| args.get(at).and_then(parse_i64).and_then(valid);
    if args.is(2, "slotsrange") && args.len() == 5 {
        let (first, last) = slot(3).zip(slot(4)).ok_or(OUT_OF_RANGE)?;
        return match first <= last {
            true => Ok(Selection::Range(first, last)),
            false => Err(format!(
                "ERR Start slot number {first} is greater than end slot number {last}"
            )),
        };
    }
    if !args.is(2, "orderby") {
        return Err(
            "ERR unknown subcommand or wrong number of arguments for 'slot-stats'. Try CLUSTER HELP."
                .to_owned(),
        );
    }
    if !args.is(3, "key-count") {
        return Err("ERR Unrecognized sort metric for ORDERBY.".to_owned());
    }
    let (mut limit, mut order, mut at) = (None, None, 4);
    while at < args.len() {
        if args.is(at, "limit") && at + 1 < args.len() && limit.is_none() {
            let number = parse_i64(&args[at + 1]).filter(|n| (1..=i64::from(SLOTS)).contains(n));
            let number = number
                .ok_or("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).")?;
            limit = Some(number as usize);
            at += 2;
        } else if (args.is(at, "asc") || args.is(at, "desc")) && order.is_none() {
            order = Some(args.is(at, "desc"));
            at += 1;
        } else {
            return Err("ERR syntax error".to_owned());
        }
    }
    let limit = limit.unwrap_or(usize::from(SLOTS));
    Ok(Selection::Ordered(limit, order.unwrap_or(true)))
}

/// Runs a command that examines all names at once. All shards are locked.
pub(super) fn examine(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.data.segments.is_some() {
        let word = String::from_utf8_lossy(&args[1]).to_uppercase();
        return ctx.reply.error_fmt(format_args!(
            "ERR 'CLUSTER {word}' is not served by the segment engine; start with --engine slab"
        ));
    }
    let mut walk = match Walk::parse(args) {
        Ok(walk) => walk,
        Err(error) => return ctx.reply.error(&error),
    };
    let mut found = ctx.reply.part();
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let mut cursor = 0;
    loop {
        cursor = walk.step(ctx.view.view, (ctx.session.db, cursor), &mut list);
        if cursor == 0 {
            break;
        }
    }
    walk.begin_reply(&mut ctx.reply);
    ctx.reply.append(&found);
}
