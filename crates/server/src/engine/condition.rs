//! Conditions under which a string is stored or deleted: NX, XX, and comparisons of the value.
//!
//! A digest is XXH3 of 64 bits without a seed, as 16 hexadecimal digits: a client that holds the value
//! computes it and compares a long value by sending 16 bytes.

use crate::command::refusal::Refusal;
use twox_hash::XxHash3_64;

/// When SET may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition<'a> {
    /// In any case.
    #[default]
    Always,
    /// NX: only a new key.
    Absent,
    /// XX: only over a key.
    Present,
    /// IFEQ, IFNE, IFDEQ, IFDNE: by what the key holds.
    Compares(Comparison<'a>),
}

impl<'a> Condition<'a> {
    /// Takes one option: how many arguments it took, 0 when it is none of these. Conditions of
    /// different kinds do not go together.
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

/// Digits of a digest.
pub const DIGEST_DIGITS: usize = 16;

/// How the value must relate to the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// IFEQ.
    Equal,
    /// IFNE.
    Unequal,
    /// IFDEQ.
    DigestEqual,
    /// IFDNE.
    DigestUnequal,
}

/// A condition on what a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// How it is compared.
    pub relation: Relation,
    /// With what: a value or a digest.
    pub operand: &'a [u8],
}

impl Comparison<'_> {
    /// The relation of this option, in any case of letters.
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

    /// Whether the value meets it. An absent one equals nothing, so it is unequal to everything; no
    /// operand is looked at then, not even one that is no digest.
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
            return Err(Refusal::Says(
                "ERR must be exactly 16 hexadecimal characters",
            ));
        }
        Ok(digest_of(value).eq_ignore_ascii_case(self.operand))
    }
}

/// The digest's digits, in lower case.
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
        // The second one is from Redis's own test of leading zeros.
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
