//! Deadlines in arguments: EX, PX, EXAT, PXAT, KEEPTTL and PERSIST, and the arithmetic of EXPIRE.

use super::refusal::Refusal;
use store::{Instants, NewDeadline, Tick};
use wire::number::{parse_f64, parse_i64};
use wire::{Args, Reply};

/// Unit of a time in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Converts to milliseconds. Returns `None` on overflow of 64 bits.
    fn milliseconds(self, number: i64) -> Option<i64> {
        match self {
            Unit::Seconds => number.checked_mul(1000),
            Unit::Milliseconds => Some(number),
        }
    }
}

/// Origin from which a time in an argument counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The current time: the number is a TTL.
    Now,
    /// The Unix epoch: the number is a point in time.
    Epoch,
}

/// Requested expiration time in milliseconds since the epoch. It may be in the past or negative.
pub type When = i64;

/// Returns the expiration time in the arguments of EXPIRE and similar commands. Accepts any integer
/// that does not overflow.
pub fn instant(
    text: &[u8],
    unit: Unit,
    base: Base,
    now: Tick,
    command: &'static str,
) -> Result<When, Refusal> {
    let number = parse_i64(text).ok_or(Refusal::NotInteger)?;
    sum(number, unit, base, now).ok_or(Refusal::ExpireTime(command))
}

/// Returns `None` on overflow.
fn sum(number: i64, unit: Unit, base: Base, now: Tick) -> Option<When> {
    let span = unit.milliseconds(number)?;
    match base {
        Base::Now => span.checked_add(now.0 as i64),
        Base::Epoch => Some(span),
    }
}

/// Whether an expiration time is past at a view's horizon. A key that gets such a deadline is
/// deleted and reported as expired.
pub fn is_past(when: When, horizon: Tick) -> bool {
    when <= horizon.0 as i64
}

/// Returns the deadline for a future expiration time, limited to 48 bits (the year 10889).
pub fn deadline(when: When) -> Tick {
    Tick(when.max(0) as u64).min(Tick::MAX)
}

/// Maximum timeout of a command in milliseconds. The timeout plus a time of day in milliseconds
/// fits in 63 bits, as in Redis.
const TIMEOUT_MS_MAX: i64 = i64::MAX - Tick::MAX.0 as i64;

const TIMEOUT_RANGE: Refusal = Refusal::Message("ERR timeout is out of range");

/// Parses a timeout in milliseconds, where 0 means no timeout.
///
/// # Errors
/// The timeout is not an integer, negative or out of range.
pub fn whole_timeout_ms(text: &[u8]) -> Result<u64, Refusal> {
    match parse_i64(text) {
        None => Err(Refusal::Message(
            "ERR timeout is not an integer or out of range",
        )),
        Some(ms) if ms > TIMEOUT_MS_MAX => Err(TIMEOUT_RANGE),
        Some(ms) => u64::try_from(ms).map_err(|_| Refusal::Message("ERR timeout is negative")),
    }
}

/// Parses a blocking command's timeout in seconds and returns it in milliseconds, where 0 means no
/// timeout.
///
/// # Errors
/// The timeout is not a number, negative or out of range.
pub fn timeout_ms(text: &[u8]) -> Result<u64, Refusal> {
    let seconds = parse_f64(text).filter(|seconds| !seconds.is_nan());
    let ms = seconds.ok_or(Refusal::Message(
        "ERR timeout is not a float or out of range",
    ))? * 1000.0;
    if ms >= TIMEOUT_MS_MAX as f64 {
        return Err(TIMEOUT_RANGE);
    }
    if ms <= -1.0 {
        return Err(Refusal::Message("ERR timeout is negative"));
    }
    Ok(ms.max(0.0).ceil() as u64)
}

/// Conditions for changing a deadline. An entry without a deadline counts as having an infinite
/// one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// NX: there is no deadline yet.
    nx: bool,
    /// XX: there is a deadline.
    xx: bool,
    /// GT: the new deadline is later.
    gt: bool,
    /// LT: the new deadline is earlier.
    lt: bool,
}

impl Conditions {
    /// Parses all options. If one is unknown or they conflict, writes the error and returns `None`.
    pub fn parse(reply: &mut Reply<'_>, options: Args<'_>) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        for option in options.iter() {
            if !conditions.take(option) {
                reply.error_bytes(&[b"ERR Unsupported option ", option].concat());
                return None;
            }
        }
        match conditions.check() {
            Ok(()) => Some(conditions),
            Err(refusal) => {
                refusal.write(reply);
                None
            }
        }
    }

    /// Parses one option. Returns false if it is not a condition.
    pub fn take(&mut self, word: &[u8]) -> bool {
        let flag = match word {
            _ if word.len() != 2 => return false,
            _ if word.eq_ignore_ascii_case(b"NX") => &mut self.nx,
            _ if word.eq_ignore_ascii_case(b"XX") => &mut self.xx,
            _ if word.eq_ignore_ascii_case(b"GT") => &mut self.gt,
            _ if word.eq_ignore_ascii_case(b"LT") => &mut self.lt,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Refuses incompatible conditions.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.nx && (self.xx || self.gt || self.lt) {
            return Err(Refusal::Message(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if self.gt && self.lt {
            return Err(Refusal::Message(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(())
    }

    /// Whether the conditions permit the change of a deadline.
    pub fn hold(&self, old: Option<Tick>, when: When) -> bool {
        let is_later = old.is_some_and(|old| when > old.0 as i64);
        let is_earlier = old.is_none_or(|old| when < old.0 as i64);
        (!self.nx || old.is_none())
            && (!self.xx || old.is_some())
            && (!self.gt || is_later)
            && (!self.lt || is_earlier)
    }
}

/// Deadline option of SET, GETEX and MSETEX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime<'a> {
    /// There is no such option.
    #[default]
    Unspecified,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT or PXAT, with the text of the number.
    Until(Unit, Base, &'a [u8]),
}

/// Effect of a lifetime on an entry, with the number parsed and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    /// The entry gets this deadline.
    To(NewDeadline),
    /// The deadline has already passed.
    Past,
}

impl<'a> Lifetime<'a> {
    /// Parses all options of GETEX, which does not include KEEPTTL.
    pub fn of_getex(options: Args<'a>) -> Result<Lifetime<'a>, Refusal> {
        let mut lifetime = Lifetime::default();
        let mut index = 0;
        while let Some(option) = options.get(index) {
            match lifetime.take(option, options.get(index + 1))? {
                0 => return Err(Refusal::Syntax),
                taken => index += taken,
            }
        }
        match lifetime {
            Lifetime::Keep => Err(Refusal::Syntax),
            lifetime => Ok(lifetime),
        }
    }

    /// Parses one option with `next` as its argument. Returns the number of consumed arguments, or
    /// 0 if it is not a deadline option. A different option before it is an error; the same option
    /// again replaces the previous one.
    pub fn take(&mut self, option: &[u8], next: Option<&'a [u8]>) -> Result<usize, Refusal> {
        let (unit, base) = match option.len() {
            2 if option.eq_ignore_ascii_case(b"EX") => (Unit::Seconds, Base::Now),
            2 if option.eq_ignore_ascii_case(b"PX") => (Unit::Milliseconds, Base::Now),
            4 if option.eq_ignore_ascii_case(b"EXAT") => (Unit::Seconds, Base::Epoch),
            4 if option.eq_ignore_ascii_case(b"PXAT") => (Unit::Milliseconds, Base::Epoch),
            7 if option.eq_ignore_ascii_case(b"KEEPTTL") => {
                return self.become_plain(Lifetime::Keep);
            }
            7 if option.eq_ignore_ascii_case(b"PERSIST") => {
                return self.become_plain(Lifetime::Persist);
            }
            _ => return Ok(0),
        };
        let number = next.ok_or(Refusal::Syntax)?;
        match *self {
            Lifetime::Unspecified => {}
            Lifetime::Until(other_unit, other_base, _)
                if (other_unit, other_base) == (unit, base) => {}
            _ => return Err(Refusal::Syntax),
        }
        *self = Lifetime::Until(unit, base, number);
        Ok(2)
    }

    fn become_plain(&mut self, wanted: Lifetime<'static>) -> Result<usize, Refusal> {
        if *self != Lifetime::Unspecified && *self != wanted {
            return Err(Refusal::Syntax);
        }
        *self = wanted;
        Ok(1)
    }

    /// Returns the effect on an entry, or `otherwise` if no option was given. The number must be
    /// positive.
    pub fn deadline_change(
        self,
        instants: Instants,
        command: &'static str,
        otherwise: NewDeadline,
    ) -> Result<DeadlineChange, Refusal> {
        let (unit, base, text) = match self {
            Lifetime::Unspecified => return Ok(DeadlineChange::To(otherwise)),
            Lifetime::Keep => return Ok(DeadlineChange::To(NewDeadline::Keep)),
            Lifetime::Persist => return Ok(DeadlineChange::To(NewDeadline::Clear)),
            Lifetime::Until(unit, base, text) => (unit, base, text),
        };
        let number = parse_i64(text).ok_or(Refusal::NotInteger)?;
        let when = sum(number, unit, base, instants.now)
            .filter(|_| number > 0)
            .ok_or(Refusal::ExpireTime(command))?;
        Ok(if is_past(when, instants.horizon) {
            DeadlineChange::Past
        } else {
            DeadlineChange::To(NewDeadline::At(deadline(when)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick(1_000_000);

    #[test]
    fn an_expiration_time_is_refused_only_if_it_overflows() {
        let seconds =
            |text: &str, base| instant(text.as_bytes(), Unit::Seconds, base, NOW, "expire");
        assert_eq!(seconds("10", Base::Now), Ok(1_010_000));
        assert_eq!(seconds("-10", Base::Now), Ok(990_000));
        assert_eq!(seconds("-10", Base::Epoch), Ok(-10_000));
        assert_eq!(seconds("x", Base::Now), Err(Refusal::NotInteger));
        for text in [
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775",
        ] {
            assert_eq!(seconds(text, Base::Now), Err(Refusal::ExpireTime("expire")));
        }
        assert_eq!(
            instant(
                b"-9223372036854775808",
                Unit::Milliseconds,
                Base::Now,
                NOW,
                "pexpire"
            ),
            Ok(i64::MIN + 1_000_000)
        );
    }

    #[test]
    fn a_deadline_beyond_the_maximum_becomes_the_maximum() {
        assert_eq!(deadline(i64::MAX), Tick::MAX);
        assert_eq!(deadline(5), Tick(5));
    }

    #[test]
    fn deadline_options_exclude_each_other() {
        let mut lifetime = Lifetime::default();
        assert_eq!(lifetime.take(b"ex", Some(b"5")), Ok(2));
        assert_eq!(lifetime.take(b"EX", Some(b"6")), Ok(2));
        assert_eq!(lifetime.take(b"px", Some(b"6")), Err(Refusal::Syntax));
        assert_eq!(lifetime.take(b"keepttl", None), Err(Refusal::Syntax));
        assert_eq!(lifetime.take(b"nx", None), Ok(0));
        assert_eq!(
            lifetime.deadline_change(NOW.into(), "set", NewDeadline::Clear),
            Ok(DeadlineChange::To(NewDeadline::At(Tick(1_006_000))))
        );
        assert_eq!(Lifetime::default().take(b"EX", None), Err(Refusal::Syntax));
    }
}
