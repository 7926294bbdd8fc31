//! Conditions for storing or deleting a string: NX, XX, and comparisons with the current value.
//!
//! A digest is 64-bit XXH3 without a seed, written as 16 hexadecimal digits. A client that holds
//! the value can compute it, and so compares a long value by sending 16 bytes.

use crate::refusal::Refusal;
use twox_hash::XxHash3_64;

/// Condition of SET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition<'a> {
    /// No condition.
    #[default]
    Always,
    /// NX: the key does not exist.
    Absent,
    /// XX: the key exists.
    Present,
    /// IFEQ, IFNE, IFDEQ, IFDNE: a comparison with the current value.
    Compares(Comparison<'a>),
}

impl<'a> Condition<'a> {
    /// Parses one option and returns its number of arguments, or 0 if the option is not a
    /// condition. Conditions of different kinds are an error.
    pub fn take(&mut self, option: &[u8], next: Option<&'a [u8]>) -> Result<usize, Refusal> {
        let (wanted, taken) = if option.eq_ignore_ascii_case(b"NX") {
            (Condition::Absent, 1)
        } else if option.eq_ignore_ascii_case(b"XX") {
            (Condition::Present, 1)
        } else if let Some(relation) = Comparison::relation(option) {
            let operand = next.ok_or(Refusal::Syntax)?;
            (Condition::Compares(Comparison { relation, operand }), 2)
        } else {
            return Ok(0);
        };
        let is_same_kind = match (&*self, &wanted) {
            (Condition::Always, _) => true,
            (Condition::Compares(old), Condition::Compares(new)) => old.relation == new.relation,
            (old, new) => *old == *new,
        };
        if !is_same_kind {
            return Err(Refusal::Syntax);
        }
        *self = wanted;
        Ok(taken)
    }

    /// Whether the condition holds for a string, or for a missing key.
    ///
    /// # Errors
    /// The operand is not a digest.
    pub fn holds(&self, old: Option<&[u8]>) -> Result<bool, Refusal> {
        match self {
            Condition::Always => Ok(true),
            Condition::Absent => Ok(old.is_none()),
            Condition::Present => Ok(old.is_some()),
            Condition::Compares(comparison) => comparison.holds(old),
        }
    }
}

/// Number of digits in a digest.
pub const DIGEST_DIGITS: usize = 16;

/// Relation between the value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// IFEQ: equal to the operand.
    Equal,
    /// IFNE: different from the operand.
    Unequal,
    /// IFDEQ: the digest is equal to the operand.
    DigestEqual,
    /// IFDNE: the digest is different from the operand.
    DigestUnequal,
}

/// A comparison with the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// Required relation.
    pub relation: Relation,
    /// Operand: a value or a digest.
    pub operand: &'a [u8],
}

impl Comparison<'_> {
    /// Returns the relation that an option names. Case is ignored.
    pub fn relation(option: &[u8]) -> Option<Relation> {
        const NAMES: [(&[u8], Relation); 4] = [
            (b"IFEQ", Relation::Equal),
            (b"IFNE", Relation::Unequal),
            (b"IFDEQ", Relation::DigestEqual),
            (b"IFDNE", Relation::DigestUnequal),
        ];
        NAMES
            .iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name))
            .map(|&(_, relation)| relation)
    }

    /// Whether the comparison holds for a value. A missing value is unequal to every operand, and
    /// the operand is not checked in that case.
    pub fn holds(&self, value: Option<&[u8]>) -> Result<bool, Refusal> {
        let Some(value) = value else {
            return Ok(matches!(
                self.relation,
                Relation::Unequal | Relation::DigestUnequal
            ));
        };
        Ok(match self.relation {
            Relation::Equal => value == self.operand,
            Relation::Unequal => value != self.operand,
            Relation::DigestEqual => self.matches_digest(value)?,
            Relation::DigestUnequal => !self.matches_digest(value)?,
        })
    }

    fn matches_digest(&self, value: &[u8]) -> Result<bool, Refusal> {
        if self.operand.len() != DIGEST_DIGITS || !self.operand.iter().all(u8::is_ascii_hexdigit) {
            return Err(Refusal::Message(
                "ERR must be exactly 16 hexadecimal characters",
            ));
        }
        Ok(digest_of(value).eq_ignore_ascii_case(self.operand))
    }
}

/// Returns the digest in lower-case digits.
pub fn digest_of(value: &[u8]) -> [u8; DIGEST_DIGITS] {
    let hash = XxHash3_64::oneshot(value);
    std::array::from_fn(|index| {
        let nibble = hash >> (4 * (DIGEST_DIGITS - 1 - index)) & 0xf;
        b"0123456789abcdef"[nibble as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_equal_those_of_redis() {
        // The second row is from Redis's own test of leading zeros.
        let table: [(&[u8], &[u8; 16]); 2] = [
            (b"", b"2d06800538d394c2"),
            (
                b"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd",
                b"00006c38adf31777",
            ),
        ];
        for (value, digest) in table {
            assert_eq!(digest_of(value), *digest);
        }
    }
}
