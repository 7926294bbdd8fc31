//! Commands that move members to another sorted set: ZMOVE, BZMOVE, ZMOVEMEMBER.

use super::access::change;
use super::interval::scores;
use super::pop::End;
use super::reply::Listing;
use super::result::Entries;
use crate::command::element_ttl::Timed;
use crate::command::element_ttl::family::names;
use crate::context::Ctx;
use engine::lifetime::timeout_ms;
use engine::refusal::{Answer, Refusal};
use std::collections::HashSet;
use store::{Class, Interval, Key, Kind, Scene, SortedSet};
use wire::Args;
use wire::number::parse_i64;

/// Which members are moved.
enum Selection<'a> {
    /// Up to a number of members from one end, the outermost first.
    From(End, usize),
    /// Up to a number of members whose scores are in an interval, in ascending order.
    Within(Interval<'static>, usize),
    /// The given members in their order; in the second case only those that the destination has
    /// (`true`) or has not.
    Named(Args<'a>, Option<bool>),
}

impl Selection<'_> {
    /// Returns the selected members of the source with their scores.
    fn of_source(&self, set: &SortedSet, scene: &Scene<'_>) -> Entries {
        let mut entries = Entries::new();
        let mut push = |member: &[u8], score| entries.push((member.to_vec(), score));
        match self {
            Selection::From(End::Min, count) => {
                set.each(0..set.len(scene).min(*count), false, scene, push);
            }
            Selection::From(End::Max, count) => {
                let len = set.len(scene);
                set.each(len - len.min(*count)..len, true, scene, push);
            }
            Selection::Within(interval, count) => {
                let mut ranks = set.ranks(interval, scene);
                ranks.end = ranks.end.min(ranks.start.saturating_add(*count));
                set.each(ranks, false, scene, push);
            }
            Selection::Named(members, _) => {
                let mut seen = HashSet::new();
                for member in members.iter().filter(|member| seen.insert(*member)) {
                    if let Some(score) = set.score(member, scene) {
                        push(member, score);
                    }
                }
            }
        }
        entries
    }
}

/// Moves the selected members and replies with them and their scores. Returns false if there are
/// none. A new member of the destination has no deadline, as with SMOVE.
fn run(ctx: &mut Ctx<'_, '_>, args: Args<'_>, selection: &Selection<'_>) -> Result<bool, Refusal> {
    let (source, destination) = (ctx.key(&args[1]), ctx.key(&args[2]));
    let is_sorted_set = |kind| kind == Kind::SortedSet;
    // The look-up of the destination also expires it, with its event, before the move.
    let kinds = [ctx.view.kind(&source), ctx.view.kind(&destination)];
    if kinds[0].is_none() {
        return Ok(false);
    }
    if !kinds.into_iter().flatten().all(is_sorted_set) {
        return Err(Refusal::WrongType);
    }
    if source.bytes == destination.bytes {
        return Ok(false);
    }
    let selected = ctx
        .view
        .read_sorted_set(&source, |set, scene| selection.of_source(set, scene))?;
    let mut moved = selected.unwrap_or_default();
    if let Selection::Named(_, Some(must_exist)) = selection {
        retain(ctx, &destination, &mut moved, *must_exist)?;
    }
    if moved.is_empty() {
        return Ok(false);
    }
    // The addition precedes the removal, so that an eviction by the addition loses nothing.
    let added = ctx.view.edit_sorted_set(&destination, true, |set, scene| {
        for (member, score) in &moved {
            set.set(member, *score, scene);
        }
        Some(())
    })?;
    if let Some(added) = added {
        ctx.edited(&destination, &added, Class::SortedSet, "zadd");
    }
    change(ctx, &source, "zrem", |set, scene| {
        for (member, _) in &moved {
            set.remove(member, scene);
        }
        Some(())
    })?;
    let mut listing = Listing::new(&mut ctx.reply, moved.len(), true);
    for (member, score) in &moved {
        listing.write(member, *score);
    }
    Ok(true)
}

/// Keeps the members that the destination has, or those that it has not.
fn retain(
    ctx: &mut Ctx<'_, '_>,
    destination: &Key<'_>,
    members: &mut Entries,
    must_exist: bool,
) -> Result<(), Refusal> {
    let read = ctx.view.read_sorted_set(destination, |set, scene| {
        members.retain(|(member, _)| set.score(member, scene).is_some() == must_exist);
    })?;
    if read.is_none() && must_exist {
        members.clear();
    }
    Ok(())
}

/// Parses `[COUNT count]` at argument `at`, where the arguments must end.
fn count(args: Args<'_>, at: usize) -> Result<usize, Refusal> {
    if args.len() == at {
        return Ok(1);
    }
    if args.len() != at + 2 || !args.is(at, "count") {
        return Err(Refusal::Syntax);
    }
    let count = parse_i64(&args[at + 1]).filter(|count| *count > 0);
    let count = count.ok_or(Refusal::Message("ERR count should be greater than 0"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// `ZMOVE source destination MIN | MAX | BYSCORE min max [COUNT count]`: without COUNT one member,
/// with BYSCORE all in the range.
pub fn zmove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let selection = if args.is(3, "byscore") {
        if args.len() < 6 {
            return Err(Refusal::Syntax);
        }
        let interval = scores(&args[4], &args[5])?;
        let max = match args.len() {
            6 => usize::MAX,
            _ => count(args, 6)?,
        };
        Selection::Within(interval, max)
    } else {
        Selection::From(End::parse(&args[3])?, count(args, 4)?)
    };
    if !run(ctx, args, &selection)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BZMOVE source destination MIN | MAX timeout [COUNT count]`
pub fn bzmove(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let end = End::parse(&args[3])?;
    let timeout_ms = timeout_ms(&args[4])?;
    let selection = Selection::From(end, count(args, 5)?);
    let source = std::iter::once(&args[1]);
    if !run(ctx, args, &selection)?
        && (args[1] == args[2] || !ctx.wait(args, source, Kind::SortedSet, timeout_ms))
    {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `ZMOVEMEMBER source destination [NX | XX] MEMBERS num-members member …`
pub fn zmovemember(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let must_exist = match () {
        () if args.is(3, "nx") => Some(false),
        () if args.is(3, "xx") => Some(true),
        () => None,
    };
    let words = &SortedSet::WORDS;
    let at = 3 + usize::from(must_exist.is_some());
    let (missing, none, uneven) = (words.missing, words.none, words.uneven);
    let members = names(args.from(at), words.counted, missing, none, uneven)?;
    if !run(ctx, args, &Selection::Named(members, must_exist))? {
        ctx.reply.null_array();
    }
    Ok(())
}
