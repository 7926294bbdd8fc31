//! Sizes of caches as people write them.

use crate::{Columns, Error, Unit};
use std::fmt;
use std::str::FromStr;

/// The largest share of the footprint that is taken for one and not for a slip.
const PERCENT_MAX: f64 = 1000.0;
/// The largest size in units of its own.
const UNITS_MAX: f64 = (1u64 << 62) as f64;

/// The size of a cache, as given: `1000`, `10%`, `64mb`.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    given: String,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// In the cache's own unit.
    Units(u64),
    Bytes(u64),
    Percent(f64),
}

/// Why a size was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSize(String);

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSize {}

const EXPECTED: &str = "expected objects or bytes (1000), bytes with a unit (64mb: kb, mb, gb, tb of \
                        1024, 1024², …), or a share of all objects or bytes of the trace (10%)";

impl FromStr for Size {
    type Err = BadSize;

    /// ```
    /// let size: Result<sim::Size, _> = "1.5gb".parse();
    /// assert!(size.is_ok());
    /// assert!("0".parse::<sim::Size>().is_err());
    /// assert!("1e30gb".parse::<sim::Size>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadSize> {
        let unit_at = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let misunderstood = || BadSize(format!("'{text}' is no size: {EXPECTED}"));
        let number: f64 = number.parse().map_err(|_| misunderstood())?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "%" | "b" => 1.0,
            "kb" | "k" => 1024.0,
            "mb" | "m" => 1024.0 * 1024.0,
            "gb" | "g" => 1024.0 * 1024.0 * 1024.0,
            "tb" | "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return Err(misunderstood()),
        };
        let amount = number * factor;
        let is_whole = amount.fract() == 0.0 || factor > 1.0;
        let amount = match unit {
            _ if amount <= 0.0 => {
                return Err(BadSize(format!(
                    "'{text}': a cache of no size holds nothing"
                )));
            }
            "%" if amount <= PERCENT_MAX => Amount::Percent(amount),
            "%" => {
                let text = format!("'{text}': more than {PERCENT_MAX} % of all objects");
                return Err(BadSize(text));
            }
            _ if amount > UNITS_MAX => {
                return Err(BadSize(format!("'{text}': more than 2^62 bytes")));
            }
            _ if !is_whole => return Err(misunderstood()),
            "" => Amount::Units(amount as u64),
            _ => Amount::Bytes(amount as u64),
        };
        Ok(Size {
            given: text.into(),
            amount,
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl Size {
    /// The size for the trace called `name`, all of whose objects together weigh `footprint`: a share of
    /// that is rounded down.
    ///
    /// # Errors
    /// Bytes where objects are counted, and a share of less than one unit.
    pub fn resolve(&self, footprint: u64, name: &str, unit: Unit) -> Result<u64, Error> {
        let bad = |problem: String| Error::BadSize {
            given: self.given.clone(),
            problem,
        };
        match (self.amount, unit) {
            (Amount::Bytes(_), Unit::Objects) => Err(bad(
                "bytes, where objects are counted: give a number of objects or a share in %".into(),
            )),
            (Amount::Units(size) | Amount::Bytes(size), _) => Ok(size),
            (Amount::Percent(percent), _) => match (percent * footprint as f64 / 100.0) as u64 {
                0 => Err(bad(format!(
                    "of all {footprint} {} of {name}, that is less than one",
                    unit.name()
                ))),
                size => Ok(size),
            },
        }
    }
}

/// Bytes as people write them: `65536`, `64kb`; no share of anything.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    match text.parse::<Size>().ok()?.amount {
        Amount::Units(bytes) | Amount::Bytes(bytes) => Some(bytes),
        Amount::Percent(_) => None,
    }
}

/// How large the cache is that stands for one of `size` when a share of the objects is looked at.
pub fn scaled(size: u64, columns: &Columns) -> u64 {
    match columns.share() {
        1.0 => size,
        share => ((size as f64 * share) as u64).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.29 is no binary fraction: a hundredth taken first lost a unit of 29 % of 100.
    #[test]
    fn a_share_of_a_hundred_is_its_percent() {
        for percent in 1..=1_000 {
            let size: Size = format!("{percent}%").parse().expect("it is well formed");
            let resolved = size.resolve(100, "trace", Unit::Objects);
            assert_eq!(resolved.ok(), Some(percent));
        }
    }
}
