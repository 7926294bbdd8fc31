//! Bitwise combination of strings: BITOP.

use crate::context::Ctx;
use engine::refusal::{Answer, Refusal, check_memory};
use store::{Class, NewDeadline};
use wire::Args;

/// Rule by which BITOP combines its sources. Shorter sources are padded with clear bits. X is the
/// first source, the Y are the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Bits set in X and in no Y.
    Diff,
    /// Bits set in some Y and not in X.
    Diff1,
    /// Bits set in X and in some Y.
    AndOr,
    /// Bits set in exactly one source.
    One,
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("and", Operation::And),
    ("or", Operation::Or),
    ("xor", Operation::Xor),
    ("not", Operation::Not),
    ("diff", Operation::Diff),
    ("diff1", Operation::Diff1),
    ("andor", Operation::AndOr),
    ("one", Operation::One),
];

/// Result of combining the sources so far.
#[derive(Default)]
struct Accumulator {
    /// The result, except for the final combination with `other`.
    bytes: Vec<u8>,
    /// X for operations that apply it last (DIFF1, ANDOR); bits set more than once (ONE).
    other: Vec<u8>,
}

/// Combines each byte of `bytes` with the byte of `source` at the same index, or with 0 beyond its
/// end. `bytes` must be at least as long as `source`.
fn each(bytes: &mut [u8], source: &[u8], combine: impl Fn(u8, u8) -> u8) {
    let (head, tail) = bytes.split_at_mut(source.len());
    for (byte, &other) in head.iter_mut().zip(source) {
        *byte = combine(*byte, other);
    }
    for byte in tail {
        *byte = combine(*byte, 0);
    }
}

impl Accumulator {
    fn add(&mut self, operation: Operation, source: &[u8], is_first: bool) {
        let len = self.bytes.len().max(source.len());
        self.bytes.resize(len, 0);
        self.other.resize(len, 0);
        let bytes = &mut self.bytes;
        match (operation, is_first) {
            (Operation::Diff1 | Operation::AndOr, true) => {
                self.other[..source.len()].copy_from_slice(source);
            }
            (Operation::Not, _) => each(bytes, source, |_, new| !new),
            (Operation::And, false) => each(bytes, source, |old, new| old & new),
            (Operation::Diff, false) => each(bytes, source, |old, new| old & !new),
            (Operation::Xor, false) => each(bytes, source, |old, new| old ^ new),
            (Operation::One, false) => {
                for ((twice, &once), &new) in self.other.iter_mut().zip(&*bytes).zip(source) {
                    *twice |= once & new;
                }
                each(bytes, source, |old, new| old | new);
            }
            (_, true) | (Operation::Or | Operation::Diff1 | Operation::AndOr, false) => {
                each(bytes, source, |old, new| old | new);
            }
        }
    }

    fn result(mut self, operation: Operation) -> Vec<u8> {
        match operation {
            Operation::Diff1 | Operation::One => {
                each(&mut self.bytes, &self.other, |old, other| old & !other);
            }
            Operation::AndOr => each(&mut self.bytes, &self.other, |old, other| old & other),
            _ => {}
        }
        self.bytes
    }
}

/// `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destination key [key …]`: replies with
/// the length of the result. An empty result deletes the destination.
pub fn bitop(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let known = OPERATIONS.iter().find(|known| args.is(1, known.0));
    let &(_, operation) = known.ok_or(Refusal::Syntax)?;
    let error = match operation {
        Operation::Not if args.len() != 4 => {
            "ERR BITOP NOT must be called with a single source key."
        }
        Operation::Diff if args.len() < 5 => {
            "ERR BITOP DIFF must be called with at least two source keys."
        }
        Operation::Diff1 if args.len() < 5 => {
            "ERR BITOP DIFF1 must be called with at least two source keys."
        }
        Operation::AndOr if args.len() < 5 => {
            "ERR BITOP ANDOR must be called with at least two source keys."
        }
        _ => "",
    };
    if !error.is_empty() {
        return Err(Refusal::Message(error));
    }
    let mut accumulator = Accumulator::default();
    for (index, name) in args.from(3).iter().enumerate() {
        let source = ctx.key(name);
        match ctx.view.get(&source)? {
            Some(bytes) => {
                if bytes.len() > accumulator.bytes.len() {
                    // The accumulator has two buffers.
                    check_memory(bytes.len().saturating_mul(2))?;
                }
                accumulator.add(operation, bytes, index == 0);
            }
            None => {
                ctx.missed(&source);
                accumulator.add(operation, &[], index == 0);
            }
        }
    }
    let bytes = accumulator.result(operation);
    let key = ctx.key(&args[2]);
    if bytes.is_empty() {
        if ctx.view.delete(&key) {
            ctx.view.notify(Class::Generic, "del", &key);
        }
    } else {
        let old = ctx.replaced_kind(&key);
        ctx.view.set(&key, &bytes, NewDeadline::Clear);
        ctx.view.notify_stored(&key, old);
        ctx.view.notify(Class::String, "set", &key);
    }
    ctx.reply.integer(bytes.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation for one bit.
    fn plain(operation: Operation, bits: &[bool]) -> bool {
        let some = |bits: &[bool]| bits.contains(&true);
        match operation {
            Operation::And => !bits.contains(&false),
            Operation::Or => some(bits),
            Operation::Xor => bits.iter().filter(|&&bit| bit).count() % 2 == 1,
            Operation::Not => !bits[0],
            Operation::Diff => bits[0] && !some(&bits[1..]),
            Operation::Diff1 => !bits[0] && some(&bits[1..]),
            Operation::AndOr => bits[0] && some(&bits[1..]),
            Operation::One => bits.iter().filter(|&&bit| bit).count() == 1,
        }
    }

    #[test]
    fn every_operation_combines_bits_by_its_rule() {
        // Sources of every length up to three bytes, filled from a fixed sequence.
        let mut state = 7u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for (name, operation) in OPERATIONS {
            for shape in 0..64usize {
                let count = if operation == Operation::Not { 1 } else { 3 };
                let sources: Vec<Vec<u8>> = (0..count)
                    .map(|source| (0..(shape >> (2 * source)) % 4).map(|_| byte()).collect())
                    .collect();
                let mut accumulator = Accumulator::default();
                for (index, source) in sources.iter().enumerate() {
                    accumulator.add(operation, source, index == 0);
                }
                let result = accumulator.result(operation);
                let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
                assert_eq!(result.len(), longest, "{name}");
                for bit in 0..longest * 8 {
                    let is_set = |bytes: &[u8]| {
                        bytes
                            .get(bit / 8)
                            .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
                    };
                    let bits: Vec<bool> = sources.iter().map(|source| is_set(source)).collect();
                    assert_eq!(
                        is_set(&result),
                        plain(operation, &bits),
                        "{name} {sources:?}"
                    );
                }
            }
        }
    }
}
