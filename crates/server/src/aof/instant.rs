//! The instant at which the commands of an append-only file are executed.
//!
//! It is that of the base, at which usually nothing has expired of what they name. But the clock
//! may have gone back after the base was written, and a replica's base is written by another clock
//! than the commands of its primary. Then a command may set a deadline that precedes the base, and
//! a later one may have found the key or the element alive, such as `PERSIST` or `INCR`. So the
//! instant is moved before each deadline that a command sets.

use store::Tick;
use wire::Args;
use wire::dump::{DumpError, Element, Sink, StreamPart, ValueType, may_have_deadlines, read};
use wire::number::parse_i64;

/// Number of arguments after which the option PXAT is not searched, except at the end.
const FIRST_ARGS: usize = 8;
/// Number of arguments at the end among which the option PXAT is searched.
const LAST_ARGS: usize = 3;
/// Maximum number of bytes to which the compressed parts of a payload are unpacked.
const ROOM_BYTES: usize = 1 << 30;

/// Returns the instant for a command and those behind it, of which `now` was the instant so far.
pub fn before_deadlines(args: Args<'_>, now: Tick) -> Tick {
    let name = &args[0];
    let is_expireat = |name: &[u8]| name.eq_ignore_ascii_case(b"pexpireat");
    let mut instant = now;
    let mut set = |text: Option<&[u8]>| {
        if let Some(at) = text.and_then(parse_i64) {
            instant = instant.min(before(at.max(0).unsigned_abs()));
        }
    };
    if is_expireat(name)
        || name
            .split_first()
            .is_some_and(|(_, rest)| is_expireat(rest))
    {
        set(args.get(2));
    } else if name.eq_ignore_ascii_case(b"restore") {
        if (4..args.len()).any(|index| args.is(index, "absttl")) {
            // 0 means that there is no deadline.
            set(args.get(2).filter(|text| *text != b"0"));
        }
        if let Some(at) = args.get(3).and_then(earliest_of) {
            instant = instant.min(before(at));
        }
    } else if args.len() > 4 {
        let last = (args.len() - LAST_ARGS).max(FIRST_ARGS)..args.len() - 1;
        for index in (2..FIRST_ARGS.min(args.len() - 1)).chain(last) {
            if args.is(index, "pxat") {
                set(args.get(index + 1));
            }
        }
    }
    instant
}

/// Returns the last instant before a deadline.
fn before(deadline: u64) -> Tick {
    Tick(deadline.saturating_sub(1).max(1))
}

/// Returns the earliest deadline of an element of a payload; `None` if it has none or is damaged.
fn earliest_of(payload: &[u8]) -> Option<u64> {
    /// The earliest deadline so far.
    struct Earliest(Option<u64>);

    impl Earliest {
        fn add(&mut self, deadline: u64) {
            self.0 = Some(self.0.map_or(deadline, |earliest| earliest.min(deadline)));
        }
    }

    impl Sink for Earliest {
        fn begin(&mut self, _: ValueType) {}
        fn element(&mut self, element: &Element<'_>) {
            element.deadline.into_iter().for_each(|at| self.add(at));
        }
        fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
            if let StreamPart::Deadline(_, at) = part {
                self.add(*at);
            }
            true
        }
    }

    if !may_have_deadlines(payload) {
        return None;
    }
    let mut earliest = Earliest(None);
    let result: Result<(), DumpError> = read(payload, ROOM_BYTES, &mut earliest);
    result.ok().and(earliest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::dump::{Encoding, Writer};
    use wire::{Limits, Parsed, Parser};

    /// Returns the instant for a command, of which the one before was 1000.
    fn instant(words: &[&[u8]]) -> u64 {
        let mut input = Vec::new();
        crate::feed::put_command(&mut input, words.iter().copied());
        let (mut parser, mut spans) = (Parser::new(Limits::default()), Vec::new());
        let parsed = parser.parse(&mut input, &mut spans).expect("a command");
        assert!(matches!(parsed, Parsed::Command { .. }));
        before_deadlines(Args::new(&input, &spans), Tick(1000)).0
    }

    fn of_line(line: &str) -> u64 {
        instant(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn the_instant_is_before_each_deadline() {
        for (line, expected) in [
            ("SET k v PXAT 900", 899),
            ("SET k v PXAT 1000", 999),
            ("SET k v PXAT 1001", 1000),
            ("SET k v PXAT 5000", 1000),
            ("SET k v PXAT x", 1000),
            ("SET k v PXAT", 1000),
            ("SET k PXAT", 1000),
            ("SET k v PXAT -5", 1),
            ("PEXPIREAT k 900", 899),
            ("pexpireat k 1 XX", 1),
            ("HPEXPIREAT k 900 FIELDS 1 f", 899),
            ("spexpireat k 900 MEMBERS 1 f", 899),
            ("PEXPIRE k 900", 1000),
            ("HSETEX k FNX PXAT 900 FIELDS 1 f v", 899),
            ("MSETEX 4 a 1 b 2 c 3 d 4 PXAT 900", 899),
            ("MSETEX 4 a 1 b 2 c 3 d 4 PXAT 900 NX", 899),
            ("RESTORE k 900 payload ABSTTL", 899),
            ("RESTORE k 900 payload REPLACE", 1000),
            ("RESTORE k 0 payload REPLACE ABSTTL", 1000),
            ("GET k", 1000),
            ("PING", 1000),
            ("PEXPIREAT", 1000),
        ] {
            assert_eq!(of_line(line), expected, "{line}");
        }
    }

    #[test]
    fn elements_of_a_payload_have_deadlines_too() {
        let mut writer = Writer::new(Encoding::SetWithDeadlines, 3);
        for deadline in [Some(950), None, Some(900)] {
            let name = b"member";
            writer.put(&Element {
                name,
                deadline,
                ..Element::default()
            });
        }
        let mut payload = writer.finish();
        assert_eq!(instant(&[b"RESTORE", b"k", b"0", &payload, b"ABSTTL"]), 899);
        payload[4] ^= 1;
        assert_eq!(
            instant(&[b"RESTORE", b"k", b"0", &payload, b"ABSTTL"]),
            1000
        );
    }
}
