//! Integers of any width within a string: BITFIELD, BITFIELD_RO.

use super::bit;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use session::spec::Access;
use store::Class;
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Returns the use of BITFIELD's key, which may be read-only.
pub fn access(args: Args<'_>) -> Access {
    let writes = |at: usize| args.is(at, "set") || args.is(at, "incrby");
    match (2..args.len()).any(writes) {
        true => Access::UPDATE,
        false => Access::READ,
    }
}

/// Width of an integer field and whether it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    bits: u32,
    is_signed: bool,
}

/// Handling of a number that its field cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Keep the lower bits.
    Wrap,
    /// Use the nearest number that the field can represent.
    Saturate,
    /// Write nothing.
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

#[derive(Clone, Copy, Debug)]
struct FieldOperation {
    width: Width,
    offset: u64,
    action: Action,
}

impl Width {
    fn parse(text: &[u8]) -> Result<Width, Refusal> {
        const BAD: Refusal = Refusal::Message(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (&sign, digits) = text.split_first().ok_or(BAD)?;
        let (is_signed, bits_max) = match sign {
            b'i' => (true, 64),
            b'u' => (false, 63),
            _ => return Err(BAD),
        };
        let bits = parse_i64(digits)
            .filter(|bits| (1..=bits_max).contains(bits))
            .ok_or(BAD)?;
        Ok(Width {
            bits: bits as u32,
            is_signed,
        })
    }

    /// Returns the smallest and the largest number that the field can represent.
    fn bounds(self) -> (i128, i128) {
        if self.is_signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Drops all bits above the width of the field. The highest remaining bit is the sign if the
    /// field is signed.
    fn cut(self, number: i128) -> i64 {
        let low = number & ((1 << self.bits) - 1);
        let is_negative = self.is_signed && low >> (self.bits - 1) & 1 == 1;
        (if is_negative {
            low - (1 << self.bits)
        } else {
            low
        }) as i64
    }

    /// Returns the number to write for `number`, or `None` if the field must not be written.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (low, high) = self.bounds();
        if (low..=high).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.cut(number)),
            Overflow::Saturate => Some(number.clamp(low, high) as i64),
            Overflow::Fail => None,
        }
    }
}

/// A field with the bits around it: up to nine bytes, as one number.
struct Window {
    at: usize,
    len: usize,
    word: u128,
    /// Number of bits after the field.
    shift: u32,
}

impl Window {
    /// Reads the bytes that contain the field; bits beyond the end are clear.
    fn read(bytes: &[u8], width: Width, offset: u64) -> Window {
        let (at, inside) = ((offset / 8) as usize, (offset % 8) as u32);
        let len = (inside + width.bits).div_ceil(8) as usize;
        let mut word = 0;
        for index in at..at + len {
            word = word << 8 | u128::from(bytes.get(index).copied().unwrap_or(0));
        }
        Window {
            at,
            len,
            word,
            shift: len as u32 * 8 - inside - width.bits,
        }
    }

    fn number(&self, width: Width) -> i64 {
        width.cut((self.word >> self.shift) as i128)
    }

    /// Replaces the field. `bytes` must reach to its end.
    fn write(&self, bytes: &mut [u8], width: Width, number: i64) {
        let mask = ((1u128 << width.bits) - 1) << self.shift;
        let field = ((number as u128) << self.shift) & mask;
        let mut word = self.word & !mask | field;
        for byte in bytes[self.at..self.at + self.len].iter_mut().rev() {
            *byte = word as u8;
            word >>= 8;
        }
    }
}

impl FieldOperation {
    /// Parses all operations of a command.
    fn parse(args: Args<'_>) -> Result<Vec<FieldOperation>, Refusal> {
        let mut operations = Vec::new();
        let mut overflow = Overflow::Wrap;
        let mut index = 0;
        while index < args.len() {
            let behind = args.len() - index - 1;
            if args.is(index, "overflow") && behind >= 1 {
                overflow = match () {
                    () if args.is(index + 1, "wrap") => Overflow::Wrap,
                    () if args.is(index + 1, "sat") => Overflow::Saturate,
                    () if args.is(index + 1, "fail") => Overflow::Fail,
                    () => return Err(Refusal::Message("ERR Invalid OVERFLOW type specified")),
                };
                index += 2;
                continue;
            }
            let is_get = args.is(index, "get") && behind >= 2;
            let is_set = args.is(index, "set") && behind >= 3;
            let is_add = args.is(index, "incrby") && behind >= 3;
            if !is_get && !is_set && !is_add {
                return Err(Refusal::Syntax);
            }
            let width = Width::parse(&args[index + 1])?;
            // `#5` is the field with index 5 if all fields have this width.
            let offset = match args[index + 2].strip_prefix(b"#") {
                Some(number) => bit::offset(number, u64::from(width.bits))?,
                None => bit::offset(&args[index + 2], 1)?,
            };
            let mut number = 0;
            if !is_get {
                number = parse_i64(&args[index + 3]).ok_or(Refusal::NotInteger)?;
            }
            let action = match () {
                () if is_get => Action::Get,
                () if is_set => Action::Set(number, overflow),
                () => Action::Add(number, overflow),
            };
            operations.push(FieldOperation {
                width,
                offset,
                action,
            });
            index += if is_get { 3 } else { 4 };
        }
        Ok(operations)
    }

    /// Returns the minimum length of the string for a write in bytes; 0 if the operation only
    /// reads.
    fn min_len(&self) -> usize {
        match self.action {
            Action::Get => 0,
            _ => ((self.offset + u64::from(self.width.bits)).div_ceil(8)) as usize,
        }
    }

    fn read(&self, bytes: &[u8]) -> i64 {
        Window::read(bytes, self.width, self.offset).number(self.width)
    }

    /// Returns the number for the reply, and the number to write if it differs from the current
    /// one.
    fn result(&self, bytes: &[u8]) -> (Option<i64>, Option<i64>) {
        let old = Window::read(bytes, self.width, self.offset).number(self.width);
        let (wanted, overflow) = match self.action {
            Action::Get => return (Some(old), None),
            // The 64 bits of the number are taken as unsigned.
            Action::Set(number, overflow) if !self.width.is_signed => {
                (i128::from(number as u64), overflow)
            }
            Action::Set(number, overflow) => (i128::from(number), overflow),
            Action::Add(number, overflow) => (i128::from(old) + i128::from(number), overflow),
        };
        let Some(new) = self.width.fit(wanted, overflow) else {
            return (None, None);
        };
        let replied = match self.action {
            Action::Add(..) => new,
            _ => old,
        };
        (Some(replied), (old != new).then_some(new))
    }

    /// Executes the operation. Returns the number for the reply and whether the field has changed.
    fn run(&self, bytes: &mut [u8]) -> (Option<i64>, bool) {
        let (reply, new) = self.result(bytes);
        if let Some(new) = new {
            Window::read(bytes, self.width, self.offset).write(bytes, self.width, new);
        }
        (reply, new.is_some())
    }
}

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value |
/// INCRBY type offset increment …]`
pub fn bitfield(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let operations = FieldOperation::parse(args.from(2))?;
    let len = operations
        .iter()
        .map(FieldOperation::min_len)
        .max()
        .unwrap_or(0);
    if len == 0 {
        return read_all(ctx, &args[1], &operations);
    }
    let key = ctx.key(&args[1]);
    let old_len = ctx.view.peek(&key)?.map(<[u8]>::len);
    let has_grown = old_len.is_none_or(|old| old < len);
    if has_grown {
        ctx.view.check_growth(key.db, len, 0)?;
    }
    if !has_grown {
        let bytes = ctx.view.get(&key)?.unwrap_or(&[]);
        let results = operations.iter().map(|operation| operation.result(bytes));
        let results: Vec<_> = results.collect();
        if results.iter().all(|(_, new)| new.is_none()) {
            write_replies(&mut ctx.reply, results.into_iter().map(|(reply, _)| reply));
            return Ok(());
        }
    }
    let mut has_changed = false;
    let replies = ctx.view.edit(&key, |bytes| {
        if has_grown {
            bytes.resize(len, 0);
        }
        let run = |operation: &FieldOperation| {
            let (reply, is_new) = operation.run(bytes);
            let is_write = !matches!(operation.action, Action::Get) && reply.is_some();
            has_changed |= is_new || has_grown && is_write;
            reply
        };
        operations.iter().map(run).collect::<Vec<_>>()
    })?;
    if old_len.is_none() {
        ctx.view.notify(Class::New, "new", &key);
    }
    if has_changed {
        ctx.view.notify(Class::String, "setbit", &key);
    }
    write_replies(&mut ctx.reply, replies.into_iter());
    Ok(())
}

fn write_replies(reply: &mut Reply<'_>, replies: impl ExactSizeIterator<Item = Option<i64>>) {
    reply.array(replies.len());
    for number in replies {
        match number {
            Some(number) => reply.integer(number),
            None => reply.null(),
        }
    }
}

/// `BITFIELD_RO key [GET type offset …]`
pub fn bitfield_ro(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let operations = FieldOperation::parse(args.from(2))?;
    if operations.iter().any(|operation| operation.min_len() > 0) {
        let text = "ERR BITFIELD_RO only supports the GET subcommand";
        return Err(Refusal::Message(text));
    }
    read_all(ctx, &args[1], &operations)
}

fn read_all(ctx: &mut Ctx<'_, '_>, name: &[u8], operations: &[FieldOperation]) -> Answer {
    let key = ctx.key(name);
    let found = ctx.view.get(&key)?;
    let is_missing = found.is_none();
    let bytes = found.unwrap_or(&[]);
    ctx.reply.array(operations.len());
    for operation in operations {
        ctx.reply.integer(operation.read(bytes));
    }
    if is_missing {
        ctx.missed(&key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_field_reads_back_and_neighbouring_bits_do_not_change() {
        for is_signed in [false, true] {
            for bits in 1..=if is_signed { 64 } else { 63 } {
                let width = Width { bits, is_signed };
                let (low, high) = width.bounds();
                for offset in 0..20 {
                    for filler in [0u8, 0xff, 0x5a] {
                        for number in [low, high, low + high / 3] {
                            let mut bytes = vec![filler; 11];
                            let number = width.cut(number);
                            Window::read(&bytes, width, offset).write(&mut bytes, width, number);
                            let operation = FieldOperation {
                                width,
                                offset,
                                action: Action::Get,
                            };
                            assert_eq!(operation.read(&bytes), number, "{width:?} at {offset}");
                            let bit = |bytes: &[u8], at: u64| {
                                bytes[(at / 8) as usize] >> (7 - at % 8) & 1
                            };
                            let outside =
                                (0..88).filter(|&at| at < offset || at >= offset + u64::from(bits));
                            for at in outside {
                                assert_eq!(bit(&bytes, at), bit(&[filler; 11], at));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_overflow_wraps_saturates_or_fails() {
        let width = Width {
            bits: 3,
            is_signed: true,
        };
        assert_eq!(width.fit(4, Overflow::Wrap), Some(-4));
        assert_eq!(width.fit(4, Overflow::Saturate), Some(3));
        assert_eq!(width.fit(-5, Overflow::Saturate), Some(-4));
        assert_eq!(width.fit(4, Overflow::Fail), None);
        assert_eq!(width.fit(3, Overflow::Fail), Some(3));
    }
}
