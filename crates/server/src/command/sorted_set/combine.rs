//! Commands on several sets: ZUNION, ZINTER, ZDIFF, ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE,
//! ZINTERCARD.

use super::access;
use super::reply::Listing;
use super::result::{self, Entries};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use std::cmp::Ordering;
use std::collections::HashMap;
use store::{Key, Kind};
use wire::Args;
use wire::number::{parse_f64, parse_i64};

/// Set operation of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// Rule by which the scores that a member has in several sets are combined.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// The scores are ignored; the weights of the sets that contain the member are added.
    Count,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Option<Aggregate> {
        match word {
            _ if word.eq_ignore_ascii_case(b"SUM") => Some(Aggregate::Sum),
            _ if word.eq_ignore_ascii_case(b"MIN") => Some(Aggregate::Min),
            _ if word.eq_ignore_ascii_case(b"MAX") => Some(Aggregate::Max),
            _ if word.eq_ignore_ascii_case(b"COUNT") => Some(Aggregate::Count),
            _ => None,
        }
    }

    /// Returns the contribution of one set to a member's score: the product of score and weight,
    /// where infinity times zero is zero.
    fn contribution(self, score: f64, weight: f64) -> f64 {
        let product = match self {
            Aggregate::Count => weight,
            _ => score * weight,
        };
        if product.is_nan() { 0.0 } else { product }
    }

    fn join(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of positive and negative infinity counts as zero.
            Aggregate::Sum | Aggregate::Count if (one + other).is_nan() => 0.0,
            Aggregate::Sum | Aggregate::Count => one + other,
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

/// One of the input sets.
#[derive(Clone, Copy)]
struct Input<'a> {
    key: Key<'a>,
    weight: f64,
    len: usize,
}

/// Arguments of a command.
struct Request<'a> {
    operation: Operation,
    inputs: Vec<Input<'a>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Maximum count of ZINTERCARD.
    limit: usize,
}

/// Kind of command, which determines its options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Reply,
    Store,
    Count,
}

impl<'a> Request<'a> {
    /// Parses `numkeys key [key …] [option …]` and reads the sizes of the sets.
    fn parse(
        ctx: &mut Ctx<'_, '_>,
        args: Args<'a>,
        operation: Operation,
        kind: CommandKind,
        none: &'static str,
    ) -> Result<Request<'a>, Refusal> {
        let count = parse_i64(&args[0]).ok_or(Refusal::NotInteger)?;
        if count < 1 {
            return Err(Refusal::Message(none));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count >= args.len() {
            return Err(Refusal::Syntax);
        }
        let mut inputs = Vec::with_capacity(count);
        for name in args.iter().skip(1).take(count) {
            let key = ctx.key(name);
            let len = length(ctx, &key)?;
            inputs.push(Input {
                key,
                weight: 1.0,
                len,
            });
        }
        let mut request = Request {
            operation,
            inputs,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let mut options = args.from(count + 1);
        while !options.is_empty() {
            let taken = request.take(options, kind)?;
            options = options.from(taken);
        }
        Ok(request)
    }

    /// Parses one option and returns its number of arguments.
    fn take(&mut self, options: Args<'_>, kind: CommandKind) -> Result<usize, Refusal> {
        let count = self.inputs.len();
        let has_weights = self.operation != Operation::Diff && kind != CommandKind::Count;
        if has_weights && options.is(0, "weights") && options.len() > count {
            for (input, text) in self.inputs.iter_mut().zip(options.iter().skip(1)) {
                let error = Refusal::Message("ERR weight value is not a float");
                input.weight = parse_f64(text).ok_or(error)?;
            }
            return Ok(count + 1);
        }
        match options.get(1) {
            Some(word) if has_weights && options.is(0, "aggregate") => {
                self.aggregate = Aggregate::parse(word).ok_or(Refusal::Syntax)?;
                Ok(2)
            }
            Some(number) if kind == CommandKind::Count && options.is(0, "limit") => {
                let limit = parse_i64(number)
                    .and_then(|limit| usize::try_from(limit).ok())
                    .ok_or(Refusal::Message("ERR LIMIT can't be negative"))?;
                // 0 means no limit.
                self.limit = if limit == 0 { usize::MAX } else { limit };
                Ok(2)
            }
            _ if kind == CommandKind::Reply && options.is(0, "withscores") => {
                self.with_scores = true;
                Ok(1)
            }
            _ => Err(Refusal::Syntax),
        }
    }

    /// Computes the result, in no particular order.
    fn combine(&mut self, ctx: &mut Ctx<'_, '_>) -> Result<Entries, Refusal> {
        match self.operation {
            Operation::Union => self.unite(ctx),
            Operation::Inter => self.intersect(ctx),
            Operation::Diff => self.subtract(ctx),
        }
    }

    /// Sorts the inputs by size. Redis adds the scores of small sets first, which affects the last
    /// digit of a sum.
    fn smallest_first(&mut self) {
        self.inputs.sort_by_key(|input| input.len);
    }

    fn unite(&mut self, ctx: &mut Ctx<'_, '_>) -> Result<Entries, Refusal> {
        self.smallest_first();
        let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
        for input in &self.inputs {
            each(ctx, &input.key, |member, score| {
                let score = self.aggregate.contribution(score, input.weight);
                match scores.get_mut(member) {
                    Some(old) => *old = self.aggregate.join(*old, score),
                    None => _ = scores.insert(member.to_vec(), score),
                }
            })?;
        }
        Ok(scores.into_iter().collect())
    }

    fn intersect(&mut self, ctx: &mut Ctx<'_, '_>) -> Result<Entries, Refusal> {
        self.smallest_first();
        let (first, others) = self.inputs.split_first().expect("there is one at least");
        let mut entries = Entries::new();
        if first.len == 0 {
            return Ok(entries);
        }
        each(ctx, &first.key, |member, score| {
            let score = self.aggregate.contribution(score, first.weight);
            entries.push((member.to_vec(), score));
        })?;
        for input in others {
            keep(ctx, &input.key, &mut entries, |total, score| {
                let score = self.aggregate.contribution(score?, input.weight);
                Some(self.aggregate.join(total, score))
            })?;
        }
        Ok(entries)
    }

    fn subtract(&self, ctx: &mut Ctx<'_, '_>) -> Result<Entries, Refusal> {
        let (first, others) = self.inputs.split_first().expect("there is one at least");
        let mut entries = Entries::new();
        each(ctx, &first.key, |member, score| {
            entries.push((member.to_vec(), score));
        })?;
        for input in others {
            keep(ctx, &input.key, &mut entries, |own, other| {
                other.is_none().then_some(own)
            })?;
        }
        Ok(entries)
    }
}

/// Returns the number of members of a set or sorted set.
fn length(ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> Result<usize, Refusal> {
    let len = match ctx.view.kind(key) {
        Some(Kind::Set) => ctx.view.read_set(key, |set, scene| set.len(scene))?,
        _ => access::read(ctx, key, |set, scene| set.len(scene))?,
    };
    Ok(len.unwrap_or(0))
}

/// Passes the members of a set or sorted set to `visit`. Members of a set have the score 1.
fn each(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    mut visit: impl FnMut(&[u8], f64),
) -> Result<(), Refusal> {
    if ctx.view.kind(key) == Some(Kind::Set) {
        ctx.view.read_set(key, |set, scene| {
            set.each(scene, |member| visit(member, 1.0));
        })?;
    } else {
        ctx.view.read_sorted_set(key, |set, scene| {
            set.each(0..usize::MAX, false, scene, visit);
        })?;
    }
    Ok(())
}

/// Replaces each entry's score by the result of `score_of`, and removes the entry if that is
/// `None`. `score_of` receives the entry's score and its score in the given set or sorted set.
fn keep(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    entries: &mut Entries,
    score_of: impl Fn(f64, Option<f64>) -> Option<f64>,
) -> Result<(), Refusal> {
    let filter = |entries: &mut Entries, find: &dyn Fn(&[u8]) -> Option<f64>| {
        entries.retain_mut(|(member, score)| {
            let new_score = score_of(*score, find(member));
            new_score.inspect(|new| *score = *new).is_some()
        });
    };
    let found = if ctx.view.kind(key) == Some(Kind::Set) {
        ctx.view.read_set(key, |set, scene| {
            filter(entries, &|member| {
                set.contains(member, scene).then_some(1.0)
            });
        })?
    } else {
        ctx.view.read_sorted_set(key, |set, scene| {
            filter(entries, &|member| set.score(member, scene));
        })?
    };
    if found.is_none() {
        filter(entries, &|_| None);
    }
    Ok(())
}

fn in_order(entries: &mut Entries) {
    entries.sort_unstable_by(|(a, one), (b, other)| {
        let by_score = one.partial_cmp(other).unwrap_or(Ordering::Equal);
        by_score.then_with(|| a.cmp(b))
    });
}

fn reply(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    operation: Operation,
    none: &'static str,
) -> Answer {
    let mut request = Request::parse(ctx, args.from(1), operation, CommandKind::Reply, none)?;
    let mut entries = request.combine(ctx)?;
    in_order(&mut entries);
    let mut listing = Listing::new(&mut ctx.reply, entries.len(), request.with_scores);
    for (member, score) in &entries {
        listing.write(member, *score);
    }
    Ok(())
}

fn store(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    operation: Operation,
    event: &'static str,
    none: &'static str,
) -> Answer {
    let mut request = Request::parse(ctx, args.from(2), operation, CommandKind::Store, none)?;
    let mut entries = request.combine(ctx)?;
    in_order(&mut entries);
    result::store(ctx, &args[1], &entries, event);
    Ok(())
}

/// The error for an empty list of keys, with the command's name.
macro_rules! none {
    ($name:literal) => {
        concat!(
            "ERR at least 1 input key is needed for '",
            $name,
            "' command"
        )
    };
}

/// `ZUNION numkeys key [key …] [WEIGHTS weight …] [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]`
pub fn zunion(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, Operation::Union, none!("zunion"))
}

/// `ZINTER numkeys key [key …] [WEIGHTS weight …] [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]`
pub fn zinter(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, Operation::Inter, none!("zinter"))
}

/// `ZDIFF numkeys key [key …] [WITHSCORES]`
pub fn zdiff(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    reply(ctx, args, Operation::Diff, none!("zdiff"))
}

/// `ZUNIONSTORE destination numkeys key [key …] [WEIGHTS weight …] [AGGREGATE …]`
pub fn zunionstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let none = none!("zunionstore");
    store(ctx, args, Operation::Union, "zunionstore", none)
}

/// `ZINTERSTORE destination numkeys key [key …] [WEIGHTS weight …] [AGGREGATE …]`
pub fn zinterstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let none = none!("zinterstore");
    store(ctx, args, Operation::Inter, "zinterstore", none)
}

/// `ZDIFFSTORE destination numkeys key [key …]`
pub fn zdiffstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    store(
        ctx,
        args,
        Operation::Diff,
        "zdiffstore",
        none!("zdiffstore"),
    )
}

/// `ZINTERCARD numkeys key [key …] [LIMIT limit]`
pub fn zintercard(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let none = none!("zintercard");
    let mut request = Request::parse(
        ctx,
        args.from(1),
        Operation::Inter,
        CommandKind::Count,
        none,
    )?;
    let count = request.combine(ctx)?.len().min(request.limit);
    ctx.reply.integer(count as i64);
    Ok(())
}
