//! Commands that add members and change scores: ZADD, ZINCRBY.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::{Class, Scene, SortedSet};
use wire::Args;
use wire::number::parse_f64;

/// Options of ZADD.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Only adds members.
    pub nx: bool,
    /// Only changes scores.
    pub xx: bool,
    gt: bool,
    lt: bool,
    /// Whether the reply counts changed scores, too.
    pub ch: bool,
    incr: bool,
}

impl Options {
    /// Parses the options and returns them with the index of the first score.
    fn parse(args: Args<'_>) -> Result<(Options, usize), Refusal> {
        let mut options = Options::default();
        let mut first = 2;
        while let Some(word) = args.get(first) {
            let option = match word {
                _ if word.eq_ignore_ascii_case(b"NX") => &mut options.nx,
                _ if word.eq_ignore_ascii_case(b"XX") => &mut options.xx,
                _ if word.eq_ignore_ascii_case(b"GT") => &mut options.gt,
                _ if word.eq_ignore_ascii_case(b"LT") => &mut options.lt,
                _ if word.eq_ignore_ascii_case(b"CH") => &mut options.ch,
                _ if word.eq_ignore_ascii_case(b"INCR") => &mut options.incr,
                _ => break,
            };
            *option = true;
            first += 1;
        }
        let count = args.len().saturating_sub(first);
        if count == 0 || !count.is_multiple_of(2) {
            return Err(Refusal::Syntax);
        }
        options.refuse(count / 2).map_or(Ok((options, first)), Err)
    }

    fn refuse(self, pairs: usize) -> Option<Refusal> {
        let Options { nx, xx, gt, lt, .. } = self;
        if nx && xx {
            return Some(Refusal::Message(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if (nx && (gt || lt)) || (gt && lt) {
            return Some(Refusal::Message(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        (self.incr && pairs > 1).then_some(Refusal::Message(
            "ERR INCR option supports a single increment-element pair",
        ))
    }
}

/// Effect of ZADD on one member.
enum Effect {
    Added(f64),
    Changed(f64),
    /// The member had this score already.
    Same(f64),
    /// The member had this score already, but its deadline was removed.
    Persisted(f64),
    /// A condition did not hold.
    Skipped,
}

impl Options {
    fn apply(
        self,
        set: &mut SortedSet,
        number: f64,
        member: &[u8],
        scene: &Scene<'_>,
    ) -> Result<Effect, Refusal> {
        let old = set.score(member, scene);
        let is_skipped = match old {
            Some(_) => self.nx,
            None => self.xx,
        };
        if is_skipped {
            return Ok(Effect::Skipped);
        }
        let score = match old {
            Some(old) if self.incr => old + number,
            _ => number,
        };
        if score.is_nan() {
            return Err(Refusal::Message(
                "ERR resulting score is not a number (NaN)",
            ));
        }
        if old.is_some_and(|old| (self.lt && score >= old) || (self.gt && score <= old)) {
            return Ok(Effect::Skipped);
        }
        // As with HSET and HINCRBY, replacing a score removes the deadline and incrementing keeps
        // it.
        let may_persist = !self.incr && old.is_some() && set.has_deadlines();
        let is_persisted = may_persist && set.deadline(member, scene).flatten().is_some();
        if is_persisted {
            set.set_deadline(member, None, scene);
        }
        Ok(match old {
            Some(old) if old == score && is_persisted => Effect::Persisted(score),
            Some(old) if old == score => Effect::Same(score),
            old => {
                set.set(member, score, scene);
                old.map_or(Effect::Added(score), |_| Effect::Changed(score))
            }
        })
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member …]`
pub fn zadd(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (options, first) = Options::parse(args)?;
    add(ctx, &args[1], &parse_entries(args, first)?, options)
}

/// `ZINCRBY key increment member`
pub fn zincrby(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let options = Options {
        incr: true,
        ..Options::default()
    };
    add(ctx, &args[1], &parse_entries(args, 2)?, options)
}

/// Parses pairs of a score and a member.
fn parse_entries<'a>(args: Args<'a>, first: usize) -> Result<Vec<(f64, &'a [u8])>, Refusal> {
    let mut entries = Vec::with_capacity((args.len() - first) / 2);
    let pairs = args.from(first);
    let members = pairs.iter().skip(1).step_by(2);
    for (score, member) in pairs.iter().step_by(2).zip(members) {
        entries.push((parse_f64(score).ok_or(Refusal::NotFloat)?, member));
    }
    Ok(entries)
}

/// Adds members with their scores to the sorted set under a key, and replies.
pub fn add(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    entries: &[(f64, &[u8])],
    options: Options,
) -> Answer {
    let key = ctx.key(key);
    let (mut added, mut changed, mut persisted, mut score) = (0, 0, false, None);
    let mut refusal = None;
    let edited = ctx.view.edit_sorted_set(&key, !options.xx, |set, scene| {
        for (number, member) in entries {
            match options.apply(set, *number, member, scene) {
                Ok(Effect::Added(new)) => (added, score) = (added + 1, Some(new)),
                Ok(Effect::Changed(new)) => (changed, score) = (changed + 1, Some(new)),
                Ok(Effect::Same(new)) => score = Some(new),
                Ok(Effect::Persisted(new)) => (persisted, score) = (true, Some(new)),
                Ok(Effect::Skipped) => {}
                Err(error) => refusal = Some(error),
            }
        }
        (persisted || added + changed > 0).then_some(())
    })?;
    refusal.map_or(Ok(()), Err)?;
    if let Some(edited) = edited {
        let event = if options.incr { "zincr" } else { "zadd" };
        ctx.edited(&key, &edited, Class::SortedSet, event);
    }
    match score {
        Some(score) if options.incr => ctx.reply.double(score),
        None if options.incr => ctx.reply.null(),
        _ if options.ch => ctx.reply.integer(added + changed),
        _ => ctx.reply.integer(added),
    }
    Ok(())
}
