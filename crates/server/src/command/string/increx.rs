//! INCREX: increments a counter within bounds and sets its deadline, for rate limits and quotas.

use crate::context::Ctx;
use engine::lifetime::{DeadlineChange, Lifetime};
use engine::refusal::{Answer, Refusal};
use std::cmp::Ordering;
use store::{Class, Key, NewDeadline, Tick};
use wire::number::{Text, parse_i64};
use wire::{Args, LongDouble, Protocol};

/// An integer or a floating-point number, according to the command's options.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i64),
    Float(LongDouble),
}

use Number::{Float, Integer};

impl Number {
    fn parse(text: &[u8], is_float: bool) -> Option<Number> {
        if is_float {
            LongDouble::parse(text).map(Float)
        } else {
            parse_i64(text).map(Integer)
        }
    }

    fn zero(is_float: bool) -> Number {
        Number::parse(b"0", is_float).expect("a number of either kind")
    }

    /// Returns the largest number of the kind.
    fn max(is_float: bool) -> Number {
        if is_float {
            Float(LongDouble::MAX)
        } else {
            Integer(i64::MAX)
        }
    }

    /// Returns the smallest number of the kind.
    fn min(is_float: bool) -> Number {
        if is_float {
            Float(LongDouble::MAX.negated())
        } else {
            Integer(i64::MIN)
        }
    }

    fn is_infinite(self) -> bool {
        matches!(self, Float(number) if number.is_infinite())
    }

    /// Returns `None` if the sum is out of range.
    fn plus(self, other: Number) -> Option<Number> {
        match (self, other) {
            (Integer(one), Integer(other)) => one.checked_add(other).map(Integer),
            (Float(one), Float(other)) => one.plus(other).map(Float),
            _ => unreachable!("one command counts in one kind"),
        }
    }

    fn minus(self, other: Number) -> Option<Number> {
        match (self, other) {
            (Integer(one), Integer(other)) => one.checked_sub(other).map(Integer),
            (Float(one), Float(other)) => one.plus(other.negated()).map(Float),
            _ => unreachable!("one command counts in one kind"),
        }
    }

    fn is_below(self, other: Number) -> bool {
        match (self, other) {
            (Integer(one), Integer(other)) => one < other,
            (Float(one), Float(other)) => one.compare(other) == Ordering::Less,
            _ => unreachable!("one command counts in one kind"),
        }
    }

    /// Replies with an integer, or with a float as its stored text, which is a bulk string in
    /// RESP2.
    fn reply(self, ctx: &mut Ctx<'_, '_>) {
        match self {
            Integer(number) => ctx.reply.integer(number),
            Float(number) => {
                let mut text = Vec::new();
                number.push_decimal(&mut text);
                match ctx.reply.protocol() {
                    Protocol::Resp2 => ctx.reply.bulk(&text),
                    Protocol::Resp3 => ctx.reply.raw(&[b",", &text[..], b"\r\n"].concat()),
                }
            }
        }
    }
}

/// Parsed arguments.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    is_float: bool,
    step: Number,
    lower: Option<Number>,
    upper: Option<Number>,
    /// SATURATE: a result out of bounds is replaced by the bound. Otherwise the command changes
    /// nothing.
    is_saturating: bool,
    lifetime: Lifetime<'a>,
    /// ENX: an existing deadline is kept.
    keeps_deadline: bool,
}

/// The options as sent, each at most once.
#[derive(Default)]
struct Options<'a> {
    by: Option<(bool, &'a [u8])>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    is_saturating: bool,
    is_enx: bool,
    lifetime: Lifetime<'a>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, Refusal> {
        let mut options = Options::default();
        let mut index = 0;
        while let Some(option) = args.get(index) {
            index += options.take(option, args.get(index + 1))?;
        }
        if options.is_enx && options.lifetime == Lifetime::Persist {
            return Err(Refusal::Syntax);
        }
        if options.is_enx && options.lifetime == Lifetime::Unspecified {
            return Err(Refusal::Message("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }

    /// Parses one option and returns its number of arguments.
    fn take(&mut self, option: &[u8], next: Option<&'a [u8]>) -> Result<usize, Refusal> {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        let flag = match option {
            _ if is("SATURATE") => Some(&mut self.is_saturating),
            _ if is("ENX") => Some(&mut self.is_enx),
            _ => None,
        };
        if let Some(flag) = flag {
            return if std::mem::replace(flag, true) {
                Err(Refusal::Syntax)
            } else {
                Ok(1)
            };
        }
        let is_by = is("BYINT") || is("BYFLOAT");
        if is_by || is("LBOUND") || is("UBOUND") {
            let operand = next.ok_or(Refusal::Syntax)?;
            let is_first = match option {
                _ if is_by => self.by.replace((is("BYFLOAT"), operand)).is_none(),
                _ if is("LBOUND") => self.lower.replace(operand).is_none(),
                _ => self.upper.replace(operand).is_none(),
            };
            return if is_first {
                Ok(2)
            } else {
                Err(Refusal::Syntax)
            };
        }
        let was_said = self.lifetime != Lifetime::Unspecified;
        let taken = self.lifetime.take(option, next)?;
        if taken == 0 || was_said || self.lifetime == Lifetime::Keep {
            return Err(Refusal::Syntax);
        }
        Ok(taken)
    }

    fn plan(&self) -> Result<Plan<'a>, Refusal> {
        let (is_float, text) = self.by.unwrap_or((false, b"1"));
        let step = Number::parse(text, is_float).ok_or(Refusal::Message(if is_float {
            "ERR Increment is not a valid float"
        } else {
            "ERR Increment is not an integer or out of range"
        }))?;
        if step.is_infinite() {
            return Err(Refusal::Message("ERR BYFLOAT increment cannot be Infinity"));
        }
        let bound = |text: Option<&[u8]>, refusals: [&'static str; 2]| match text {
            None => Ok(None),
            Some(text) => Number::parse(text, is_float)
                .map(Some)
                .ok_or(Refusal::Message(refusals[usize::from(is_float)])),
        };
        let lower = bound(
            self.lower,
            [
                "ERR LBOUND is not an integer or out of range",
                "ERR LBOUND is not a valid float",
            ],
        )?;
        let upper = bound(
            self.upper,
            [
                "ERR UBOUND is not an integer or out of range",
                "ERR UBOUND is not a valid float",
            ],
        )?;
        if let (Some(lower), Some(upper)) = (lower, upper)
            && upper.is_below(lower)
        {
            return Err(Refusal::Message("ERR LBOUND can't be greater than UBOUND"));
        }
        Ok(Plan {
            is_float,
            step,
            lower,
            upper,
            is_saturating: self.is_saturating,
            lifetime: self.lifetime,
            keeps_deadline: self.is_enx,
        })
    }
}

impl Plan<'_> {
    /// Returns the new number and the increment that was applied, or `None` if the bounds forbid
    /// it.
    fn count(&self, old: Number) -> Result<Option<(Number, Number)>, Refusal> {
        let is_down = self.step.is_below(Number::zero(self.is_float));
        let sum = old.plus(self.step);
        let beyond = if is_down {
            Number::min(self.is_float)
        } else {
            Number::max(self.is_float)
        };
        let mut new = sum.unwrap_or(beyond);
        let mut is_out = sum.is_none();
        if let Some(lower) = self.lower.filter(|&lower| new.is_below(lower)) {
            (new, is_out) = (lower, true);
        }
        if let Some(upper) = self.upper.filter(|upper| upper.is_below(new)) {
            (new, is_out) = (upper, true);
        }
        if !is_out {
            return Ok(Some((new, self.step)));
        }
        if !self.is_saturating {
            return Ok(None);
        }
        let added = new
            .minus(old)
            .ok_or(Refusal::Message("ERR applied increment would overflow"))?;
        Ok(Some((new, added)))
    }
}

/// `INCREX key [BYINT increment | BYFLOAT increment] [LBOUND lower] [UBOUND upper] [SATURATE]
/// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST] [ENX]`
///
/// Replies with the new number and the applied increment. A result out of bounds is not stored and
/// the increment is 0, unless SATURATE is given. A deadline in the past deletes the key and
/// publishes `expired`.
pub fn increx(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let plan = Options::parse(args.from(2))?.plan()?;
    let expiration =
        plan.lifetime
            .deadline_change(ctx.view.instants(), "increx", NewDeadline::Keep)?;
    let key = ctx.key(&args[1]);
    let stored = match ctx.view.peek(&key)? {
        None => None,
        Some(text) => {
            let refusal = if plan.is_float {
                Refusal::NotFloat
            } else {
                Refusal::NotInteger
            };
            Some(Number::parse(text, plan.is_float).ok_or(refusal)?)
        }
    };
    let old = stored.unwrap_or(Number::zero(plan.is_float));
    if old.is_infinite() {
        return Err(Refusal::Message("ERR value cannot be Infinity"));
    }
    let counted = plan.count(old)?;
    if let Some((new, _)) = counted {
        let old_deadline = ctx.view.deadline(&key).flatten();
        let expiration = if plan.keeps_deadline && old_deadline.is_some() {
            DeadlineChange::To(NewDeadline::Keep)
        } else {
            expiration
        };
        write(ctx, &key, stored.is_none(), new, expiration, old_deadline);
    }
    let (new, added) = counted.unwrap_or((old, Number::zero(plan.is_float)));
    ctx.reply.array(2);
    new.reply(ctx);
    added.reply(ctx);
    Ok(())
}

fn write(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    is_new: bool,
    number: Number,
    expiration: DeadlineChange,
    old_deadline: Option<Tick>,
) {
    let DeadlineChange::To(deadline) = expiration else {
        ctx.view.expire_now(key);
        return;
    };
    let event = match number {
        Integer(number) => {
            ctx.view
                .update(key, Text::integer(number).as_bytes(), deadline);
            "incrby"
        }
        Float(number) => {
            let mut text = Vec::new();
            number.push_decimal(&mut text);
            ctx.view.update(key, &text, deadline);
            "incrbyfloat"
        }
    };
    if is_new {
        ctx.view.notify(Class::New, "new", key);
    }
    ctx.view.notify(Class::String, event, key);
    match deadline {
        NewDeadline::At(_) => ctx.view.notify(Class::Generic, "expire", key),
        NewDeadline::Clear if old_deadline.is_some() => {
            ctx.view.notify(Class::Generic, "persist", key);
        }
        _ => {}
    }
}
