//! Cache sizes as given on a command line.

use crate::{Columns, Error, Unit};
use std::fmt;
use std::str::FromStr;

/// Maximum share of the footprint in percent. A larger cache holds all objects as well, and a
/// larger share is probably a mistake.
const PERCENT_MAX: f64 = 100.0;

/// Cache size as given: `1000`, `10%`, `64mb`.
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

/// Error for a text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSize(String);

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSize {}

const EXPECTED: &str = "expected a number of objects or bytes (1000), bytes with a unit (64mb), or a \
                        share of all objects or bytes of the trace (10%)";

impl FromStr for Size {
    type Err = BadSize;

    /// ```
    /// let size: Result<sim::Size, _> = "1.5gb".parse();
    /// assert!(size.is_ok());
    /// assert!("0".parse::<sim::Size>().is_err());
    /// assert!("1e30gb".parse::<sim::Size>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadSize> {
        let bad = |problem: &str| BadSize(format!("size '{text}': {problem}"));
        let amount = match text.strip_suffix('%') {
            // Not computed from the fraction: 29 % of 100 would lose a unit by rounding.
            Some(percent) => {
                units::fraction(text).map_err(|_| bad(EXPECTED))?;
                Amount::Percent(percent.parse().map_err(|_| bad(EXPECTED))?)
            }
            None => {
                let amount = units::bytes(text).map_err(|_| bad(EXPECTED))?;
                match text.ends_with(|c: char| c.is_ascii_digit()) {
                    true => Amount::Units(amount),
                    false => Amount::Bytes(amount),
                }
            }
        };
        match amount {
            Amount::Percent(percent) if percent > PERCENT_MAX => {
                return Err(bad(&format!("expected at most {PERCENT_MAX} %")));
            }
            Amount::Percent(0.0) | Amount::Units(0) | Amount::Bytes(0) => {
                return Err(bad("expected more than 0"));
            }
            _ => {}
        }
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
    /// Resolves the size for a trace called `name` whose objects together weigh `footprint`. A
    /// share of the footprint is rounded down.
    ///
    /// # Errors
    /// The size is in bytes where objects are counted, or is a share of less than one unit.
    pub fn resolve(&self, footprint: u64, name: &str, unit: Unit) -> Result<u64, Error> {
        let bad = |problem: String| Error::BadSize {
            given: self.given.clone(),
            problem,
        };
        match (self.amount, unit) {
            (Amount::Bytes(_), Unit::Objects) => Err(bad(
                "in bytes, but objects are counted: expected a number of objects or a share in %"
                    .into(),
            )),
            (Amount::Units(size) | Amount::Bytes(size), _) => Ok(size),
            (Amount::Percent(percent), _) => match (percent * footprint as f64 / 100.0) as u64 {
                0 => Err(bad(format!(
                    "less than one of the {footprint} {} of {name}",
                    unit.name()
                ))),
                size => Ok(size),
            },
        }
    }
}

/// Scales a size to the sampled share of the objects.
pub fn scaled(size: u64, columns: &Columns) -> u64 {
    match columns.share() {
        1.0 => size,
        share => ((size as f64 * share) as u64).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: 0.29 is not a binary fraction, so that dividing by 100 first lost a unit of
    /// 29 % of 100.
    #[test]
    fn a_share_of_one_hundred_objects_is_exact() {
        for percent in 1..=100 {
            let size: Size = format!("{percent}%").parse().expect("it is well formed");
            let resolved = size.resolve(100, "trace", Unit::Objects);
            assert_eq!(resolved.ok(), Some(percent));
        }
    }
}
