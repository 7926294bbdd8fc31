//! Values compared before they are replaced or deleted: IFEQ and its kin, DIGEST, DELEX.
//!
//! A digest is XXH3 of 64 bits without a seed, as 16 hexadecimal digits: a client that holds the value
//! can compute it, and compares a long value by sending 16 bytes.

use crate::command::refusal::{Answer, Refusal};
use crate::context::Ctx;
use store::Class;
use twox_hash::XxHash3_64;
use wire::Args;

/// Digits of a digest.
const DIGEST_DIGITS: usize = 16;

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
fn digest_of(value: &[u8]) -> [u8; DIGEST_DIGITS] {
    let hash = XxHash3_64::oneshot(value);
    std::array::from_fn(|index| {
        let nibble = hash >> (4 * (DIGEST_DIGITS - 1 - index)) & 0xf;
        b"0123456789abcdef"[nibble as usize]
    })
}

/// `DIGEST key`
pub fn digest(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match ctx.view.get(&key)? {
        Some(value) => ctx.reply.bulk(&digest_of(value)),
        None => {
            ctx.reply.null();
            ctx.missed(&key);
        }
    }
    Ok(())
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`: without a condition it deletes
/// a key of any type; an absent key is never deleted, whatever the condition.
pub fn delex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    match args.len() {
        2 => {}
        4 => {
            if ctx.view.kind(&key).is_none() {
                ctx.reply.integer(0);
                return Ok(());
            }
            let value = ctx.view.peek(&key).map_err(|_| {
                Refusal::Says("ERR Key should be of string type if conditions are specified")
            })?;
            let relation = Comparison::relation(&args[2]).ok_or(Refusal::Says(
                "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
            ))?;
            let operand = &args[3];
            if !(Comparison { relation, operand }).holds(value)? {
                ctx.reply.integer(0);
                return Ok(());
            }
        }
        _ => return Err(Refusal::Arity("delex")),
    }
    let is_deleted = ctx.view.delete(&key);
    if is_deleted {
        ctx.view.notify(Class::Generic, "del", &key);
    }
    ctx.reply.integer(i64::from(is_deleted));
    Ok(())
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
