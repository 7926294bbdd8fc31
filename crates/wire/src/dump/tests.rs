use super::crc::crc64;
use super::format::code;
use super::*;
use proptest::prelude::*;

const ROOM: usize = 1 << 20;

/// Everything that a sink received.
#[derive(Debug, Default, PartialEq)]
struct Received {
    kind: Option<ValueType>,
    elements: Vec<Own>,
}

#[derive(Clone, Debug, PartialEq)]
struct Own {
    name: Vec<u8>,
    value: Vec<u8>,
    score: f64,
    deadline: Option<u64>,
}

impl Own {
    fn borrowed(&self) -> Element<'_> {
        Element {
            name: &self.name,
            value: &self.value,
            score: self.score,
            deadline: self.deadline,
        }
    }
}

impl Sink for Received {
    fn begin(&mut self, kind: ValueType) {
        assert_eq!(self.kind.replace(kind), None, "a value begins once");
    }

    fn element(&mut self, element: &Element<'_>) {
        assert!(self.kind.is_some() && !element.score.is_nan());
        self.elements.push(Own {
            name: element.name.to_vec(),
            value: element.value.to_vec(),
            score: element.score,
            deadline: element.deadline,
        });
    }
}

fn received(payload: &[u8]) -> Result<Received, DumpError> {
    let mut received = Received::default();
    read(payload, ROOM, &mut received).map(|()| received)
}

/// Returns a body with its footer.
fn sealed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// Returns the value in a payload as one line.
fn line(payload: &[u8]) -> String {
    let received = match received(payload) {
        Ok(received) => received,
        Err(error) => return format!("{error:?}"),
    };
    let kind = received.kind.expect("it begins");
    let mut line = format!("{kind:?}");
    for Own {
        name,
        value,
        score,
        deadline,
    } in &received.elements
    {
        line += &format!(" {}", name.escape_ascii());
        match kind {
            ValueType::Hash => line += &format!("={}", value.escape_ascii()),
            ValueType::SortedSet => line += &format!(":{score}"),
            _ => {}
        }
        if let Some(deadline) = deadline {
            line += &format!("@{deadline}");
        }
    }
    line
}

fn check(cases: &[(&[u8], &str)]) {
    for (payload, expected) in cases {
        assert_eq!(line(payload), *expected, "b\"{}\"", payload.escape_ascii());
    }
}

#[test]
fn payloads_of_redis_7_0_are_read() {
    check(&[
        (b"\x00\x05hello\x0a\x00cr\xdfve4 \x0a", "String hello"),
        (b"\x00\xc0\xf9\x0a\x00^&\xd10\xd7\xa2B\xab", "String -7"),
        (b"\x00\xc2@B\x0f\x00\x0a\x00O\xf5\xebT\x07\x08\x8b\x03", "String 1000000"),
        (
            b"\x00\xc3\x0b@x\x03abca\xe0i\x02\x01bc\x0a\x00\xc4\x94\xa1p*\xe2>\x06",
            &format!("String {}", "abc".repeat(40)),
        ),
        (
            b"\x12\x01\x02\xc3(@b\x16b\x00\x00\x00\x06\x00\x81a\x02\xdf\xff\x02\xc1,\x02\xf2p\x11\x01\x04\xe0@x\xe06\x00\x01B\xf4 V\x01\x00\x02 \x03\x01\x09\xff\x0a\x00\x8f\x06\xc1\xb5\x07%\xfcG",
            &format!("List a -1 300 70000 {} 8589934592", "x".repeat(64)),
        ),
        (
            b"\x12\x03\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x02\x0d\x0d\x00\x00\x00\x02\x00\x81c\x02\x81d\x02\xff\x02\x0a\x0a\x00\x00\x00\x01\x00\x81e\x02\xff\x0a\x00\xecR6\xa7` \xa1\xdb",
            "List a b c d e",
        ),
        (
            b"\x0b\x14\x04\x00\x00\x00\x03\x00\x00\x00\xfb\xff\xff\xff\x01\x00\x00\x00p\x11\x01\x00\x0a\x00\x86\xa0\xbb\xcf:\x22\xed%",
            "Set -5 1 70000",
        ),
        (b"\x02\x03\xc0\x07\x01a\x02bb\x0a\x00-\x1d\xf7\x1a\xf2\xc6M\xdd", "Set 7 a bb"),
        (
            b"\x11\x1d\x1d\x00\x00\x00\x06\x00\x81b\x02\x84-inf\x05\x81a\x02\x831.5\x04\x81c\x02\x03\x01\xff\x0a\x00)p\xc5\x8f\xcd\xe6\xfc1",
            "SortedSet b:-inf a:1.5 c:3",
        ),
        (
            b"\x05\x02\x01b\x00\x00\x00\x00\x00\x00\xf0\x7f\x01a\x00\x00\x00\x00\x00\x00\xf8?\x0a\x00\x13C\xce\x1a\x14\xf0\x07\xa4",
            "SortedSet b:inf a:1.5",
        ),
        (
            b"\x10\xc3 8\x188\x00\x00\x00\x06\x00\x81f\x02\x81v\x02\x81n\x02\x0c\x01\x84long\x05\x9ey\xe0\x14\x00\x01\x1f\xff\x0a\x00F\xd1\x94\x88\x9d\xd85\xff",
            &format!("Hash f=v n=12 long={}", "y".repeat(30)),
        ),
        (b"\x04\x01\x01f\x01v\x0a\x00\xad\xf2CV\xb1\x86\x0e\xfc", "Hash f=v"),
    ]);
}

#[test]
fn payloads_of_valkey_9_1_are_read() {
    check(&[
        (b"\x00\x05helloP\x00\xacX\x16\xe7\xfbfG\xfe", "String hello"),
        (
            b"\x12\x03\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x02\x0d\x0d\x00\x00\x00\x02\x00\x81c\x02\x81d\x02\xff\x02\x0a\x0a\x00\x00\x00\x01\x00\x81e\x02\xffP\x00#x\xff6\xfer\xc6/",
            "List a b c d e",
        ),
        (
            b"\x14\x10\x10\x00\x00\x00\x03\x00\x81a\x02\x82bb\x03\x07\x01\xffP\x00\xb6B\xee\x9e\xb4\x01\xf7\xab",
            "Set a bb 7",
        ),
        (
            b"\x16\x02\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff\x01g\xc0\x01\x00\xd8\xc3,\xbb\x03\x00\x00P\x00m1\xd5kr:\xbc\xcf",
            "Hash f=v g=1@4102444800000",
        ),
    ]);
}

/// Returns a listpack of encoded entries.
fn listpack(entries: &[&[u8]], count: u16) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        body.extend_from_slice(entry);
        body.push(entry.len() as u8);
    }
    let mut pack = (body.len() as u32 + 7).to_le_bytes().to_vec();
    pack.extend_from_slice(&count.to_le_bytes());
    pack.extend_from_slice(&body);
    pack.push(0xFF);
    pack
}

/// Returns a ziplist of encoded entries.
fn ziplist(entries: &[&[u8]], count: u16) -> Vec<u8> {
    let (mut body, mut before, mut last) = (Vec::new(), 0, 10);
    for entry in entries {
        last = body.len() + 10;
        body.push(before);
        body.extend_from_slice(entry);
        before = entry.len() as u8 + 1;
    }
    let mut pack = (body.len() as u32 + 11).to_le_bytes().to_vec();
    pack.extend_from_slice(&(last as u32).to_le_bytes());
    pack.extend_from_slice(&count.to_le_bytes());
    pack.extend_from_slice(&body);
    pack.push(0xFF);
    pack
}

/// Returns the payload of a type whose body, after `head`, is one string.
fn one_string(code: u8, head: &[u8], string: &[u8]) -> Vec<u8> {
    let mut body = vec![code];
    body.extend_from_slice(head);
    body.push(0x80);
    body.extend_from_slice(&(string.len() as u32).to_be_bytes());
    body.extend_from_slice(string);
    sealed(&body, 12)
}

#[test]
fn packed_encodings_contain_numbers_of_every_width() {
    let numbers = "List 127 -4096 -2 8388607 -8388608 -2147483648 9223372036854775807";
    let in_listpack: &[&[u8]] = &[
        b"\x7F",
        b"\xD0\x00",
        b"\xF1\xFE\xFF",
        b"\xF2\xFF\xFF\x7F",
        b"\xF2\x00\x00\x80",
        b"\xF3\x00\x00\x00\x80",
        b"\xF4\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
    ];
    let mut pieces = vec![code::LIST_LISTPACKS, 1, 2];
    let pack = listpack(in_listpack, 7);
    pieces.push(pack.len() as u8);
    pieces.extend_from_slice(&pack);
    check(&[(&sealed(&pieces, 10), numbers)]);
    let in_ziplist: &[&[u8]] = &[
        b"\xFE\x7F",
        b"\xC0\x00\xF0",
        b"\xF1",
        b"\xFD",
        b"\xF0\x00\x00\x80",
        b"\xD0\x00\x00\x00\x80",
        b"\xE0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
        b"\x03abc",
        b"\x40\x02de",
        b"\x80\x00\x00\x00\x01f",
    ];
    let list = "List 127 -4096 0 12 -8388608 -2147483648 9223372036854775807 abc de f";
    let pack = ziplist(in_ziplist, 10);
    check(&[
        (&one_string(code::LIST_ZIPLIST, b"", &pack), list),
        (&one_string(code::LIST_ZIPLISTS, b"\x01", &pack), list),
        (
            &one_string(code::HASH_ZIPLIST, b"", &ziplist(&[b"\x01f", b"\xF4"], 2)),
            "Hash f=3",
        ),
        (
            &one_string(
                code::SORTED_SET_ZIPLIST,
                b"",
                &ziplist(&[b"\xF4", b"\x030.5"], 2),
            ),
            "SortedSet 3:0.5",
        ),
    ]);
}

#[test]
fn hashes_of_redis_before_2_6_are_read() {
    let value = [b'v'; 254];
    let long = [&b"\xFF\x01f\xFE\xFE\x00\x00\x00\x00"[..], &value, b"\xFF"].concat();
    let hash = format!("Hash f={}", "v".repeat(value.len()));
    check(&[
        (
            &one_string(
                code::HASH_ZIPMAP,
                b"",
                b"\x02\x01f\x01\x02vxx\x01g\x02\x0012\xFF",
            ),
            "Hash f=v g=12",
        ),
        (&one_string(code::HASH_ZIPMAP, b"", &long), &hash),
        // Regression: a length in more bytes than it needs was accepted.
        (
            &one_string(
                code::HASH_ZIPMAP,
                b"",
                b"\xFF\x01f\xFE\x03\x00\x00\x00\x00abc\xFF",
            ),
            "Body",
        ),
        (
            &one_string(
                code::HASH_ZIPMAP,
                b"",
                b"\xFF\xFE\x01\x00\x00\x00f\x01\x00v\xFF",
            ),
            "Body",
        ),
        (
            &one_string(code::HASH_ZIPMAP, b"", b"\x01\x01f\xFF"),
            "Body",
        ),
        (
            &one_string(code::HASH_ZIPMAP, b"", b"\x01\x01f\x02\x00v\xFF"),
            "Body",
        ),
    ]);
}

/// Bugs in Redis before 7.0 left such values in files. Redis skips them when it loads a file.
#[test]
fn collections_without_elements_are_read() {
    let empty = |code: u8, head: &[u8], pack: &[u8]| one_string(code, head, pack);
    check(&[
        (&sealed(b"\x01\x00", 9), "List"),
        (&sealed(b"\x02\x00", 9), "Set"),
        (&sealed(b"\x03\x00", 9), "SortedSet"),
        (&sealed(b"\x05\x00", 9), "SortedSet"),
        (&sealed(b"\x04\x00", 9), "Hash"),
        (&sealed(b"\x0E\x00", 9), "List"),
        (&sealed(b"\x12\x00", 10), "List"),
        (&sealed(b"\x16\x00", 12), "Hash"),
        (&sealed(b"\x16\x00", 80), "Hash"),
        (
            &sealed(b"\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00", 12),
            "Hash",
        ),
        (
            &empty(code::LIST_ZIPLISTS, b"\x01", &ziplist(&[], 0)),
            "List",
        ),
        (
            &empty(code::LIST_LISTPACKS, b"\x01\x02", &listpack(&[], 0)),
            "List",
        ),
        (&empty(code::LIST_ZIPLIST, b"", &ziplist(&[], 0)), "List"),
        (
            &empty(code::SORTED_SET_ZIPLIST, b"", &ziplist(&[], 0)),
            "SortedSet",
        ),
        (&empty(code::HASH_ZIPLIST, b"", &ziplist(&[], 0)), "Hash"),
        (&empty(code::HASH_ZIPMAP, b"", b"\x00\xFF"), "Hash"),
        (&empty(code::HASH_LISTPACK, b"", &listpack(&[], 0)), "Hash"),
        (
            &empty(code::HASH_REDIS_LISTPACK, &[0; 8], &listpack(&[], 0)),
            "Hash",
        ),
        (
            &empty(code::SORTED_SET_LISTPACK, b"", &listpack(&[], 0)),
            "SortedSet",
        ),
        (&empty(code::SET_LISTPACK, b"", &listpack(&[], 0)), "Set"),
        (
            &empty(code::SET_INTEGERS, b"", &[2, 0, 0, 0, 0, 0, 0, 0]),
            "Set",
        ),
    ]);
}

/// Redis 7.4's release candidates stored whole deadlines, and 22 and 23 are Valkey's in its files.
#[test]
fn hashes_with_deadlines_of_release_candidates_are_read() {
    let entries: &[&[u8]] = &[
        b"\x81f",
        b"\x01",
        b"\xF4\x00\xD8\xC3\x2C\xBB\x03\x00\x00",
        b"\x81g",
        b"\x81v",
        b"\x00",
    ];
    let packed = one_string(code::HASH_CANDIDATE_LISTPACK, b"", &listpack(entries, 6));
    let plain = b"\x16\x02\x81\x00\x00\x03\xBB\x2C\xC3\xD8\x00\x01f\xC0\x01\x00\x01g\x01v";
    check(&[
        (&packed, "Hash f=1@4102444800000 g=v"),
        (&sealed(plain, 12), "Hash f=1@4102444800000 g=v"),
        (
            &sealed(
                b"\x16\x01\x81\x80\x00\x00\x00\x00\x00\x00\x00\x01f\x01v",
                12,
            ),
            "Body",
        ),
        (&sealed(b"\x17\x00", 80), "Body"),
    ]);
}

#[test]
fn hashes_with_deadlines_are_read_as_redis_writes_them() {
    let first = 4_102_444_800_000u64.to_le_bytes();
    let entries: &[&[u8]] = &[
        b"\x81f",
        b"\x01",
        b"\xF4\x00\xD8\xC3\x2C\xBB\x03\x00\x00",
        b"\x81g",
        b"\x81v",
        b"\x00",
    ];
    let packed = one_string(code::HASH_REDIS_LISTPACK, &first, &listpack(entries, 6));
    let mut plain = vec![code::HASH_REDIS];
    plain.extend_from_slice(&first);
    plain.extend_from_slice(b"\x03\x01\x01f\xC0\x01\x00\x01g\x01v\x41\x00\x01h\x00");
    check(&[
        (&packed, "Hash f=1@4102444800000 g=v"),
        (
            &sealed(&plain, 12),
            "Hash f=1@4102444800000 g=v h=@4102444800255",
        ),
        (
            &sealed(b"\x03\x02\x01a\xFE\x01b\x041e20", 8),
            "SortedSet a:inf b:100000000000000000000",
        ),
    ]);
}

#[test]
fn malformed_payloads_are_refused() {
    let body = |code: u8, string: &[u8]| one_string(code, b"", string);
    let pack = |entries: &[&[u8]], count| listpack(entries, count);
    let number = |at: usize, to: u8| {
        let mut bytes = pack(&[b"\x81f", b"\x81v"], 2);
        bytes[at] = to;
        body(code::HASH_LISTPACK, &bytes)
    };
    let broken_ziplist = |at: usize, to: u8| {
        let mut bytes = ziplist(&[b"\x01f", b"\x01v"], 2);
        bytes[at] = to;
        body(code::HASH_ZIPLIST, &bytes)
    };
    let mut cases = vec![
        // Unsupported types: streams, modules, an unknown one.
        sealed(b"\x0F\x01", 11),
        sealed(b"\x07\x01", 11),
        sealed(b"\xFF\x01a", 9),
        sealed(b"", 9),
        // Missing bytes, bytes after the end.
        sealed(b"\x04\x01\x01f", 9),
        sealed(b"\x00\x05abcd", 9),
        sealed(b"\x00\x02abc", 9),
        sealed(b"\x02\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a", 9),
        sealed(b"\x00\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9),
        sealed(b"\x00\xC4", 9),
        sealed(b"\x02\xC0\x01", 9),
        // Invalid scores and deadlines.
        sealed(b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xF8\x7F", 9),
        sealed(b"\x03\x01\x01a\xFD", 9),
        sealed(b"\x16\x01\x01f\x01v\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 80),
        sealed(
            b"\x18\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x01\x02\x01f\x01v",
            12,
        ),
        // A string that expands beyond the limit.
        sealed(b"\x00\xC3\x03\x80\x00\x10\x00\x01\x00x\xE0", 9),
        // Invalid packed entries: length, count, end, unknown head, half a pair, missing end of an
        // entry.
        number(0, 14),
        number(4, 3),
        number(12, 0xFE),
        number(6, 0xF5),
        number(8, 3),
        body(code::HASH_LISTPACK, &pack(&[b"\x81f"], 1)),
        body(code::SET_LISTPACK, b""),
        body(code::SORTED_SET_LISTPACK, &pack(&[b"\x81f", b"\x81v"], 2)),
        broken_ziplist(0, 16),
        broken_ziplist(4, 10),
        broken_ziplist(8, 1),
        broken_ziplist(13, 2),
        body(
            code::SET_INTEGERS,
            b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00",
        ),
        body(
            code::SET_INTEGERS,
            b"\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00",
        ),
        sealed(b"\x12\x01\x03\x01a", 9),
        sealed(b"\x12\x01\x01\x00", 9),
    ];
    for case in cases.drain(..) {
        assert_eq!(line(&case), "Body", "b\"{}\"", case.escape_ascii());
    }
    let good = sealed(b"\x00\x01a", 9);
    let mut other = good.clone();
    other[2] = b'b';
    for case in [
        &other[..],
        &good[..good.len() - 1],
        b"",
        b"123456789",
        &sealed(b"\x00\x01a", 0),
        &sealed(b"\x00\x01a", 256),
    ] {
        assert_eq!(line(case), "Footer", "b\"{}\"", case.escape_ascii());
    }
}

fn element(kind: ValueType, has_deadlines: bool) -> impl Strategy<Value = Own> {
    let text = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            any::<i16>().prop_map(|number| number.to_string().into_bytes()),
            Just(vec![b'x'; 20_000]),
        ]
    };
    let score = any::<i64>().prop_map(|number| number as f64 / 8.0);
    let deadline = prop::option::of(0..=i64::MAX as u64);
    (text(), text(), score, deadline).prop_map(move |(name, value, score, deadline)| Own {
        name,
        value: if kind == ValueType::Hash {
            value
        } else {
            Vec::new()
        },
        score: if kind == ValueType::SortedSet {
            score
        } else {
            0.0
        },
        deadline: deadline.filter(|_| has_deadlines),
    })
}

proptest! {
    #[test]
    fn written_payloads_are_read_back(
        (kind, elements) in prop_oneof![
            Just((ValueType::List, false)),
            Just((ValueType::Set, false)),
            Just((ValueType::Set, true)),
            Just((ValueType::SortedSet, true)),
            Just((ValueType::Hash, false)),
            Just((ValueType::Hash, true)),
        ]
        .prop_flat_map(|(kind, has)| (Just(kind), prop::collection::vec(element(kind, has), 1..80))),
        is_valkey: bool,
    ) {
        let first = elements.iter().filter_map(|element| element.deadline).min();
        let form = match (kind, first) {
            (ValueType::Set, None) => Encoding::Set,
            (ValueType::Set, Some(_)) => Encoding::SetWithDeadlines,
            (ValueType::SortedSet, None) => Encoding::SortedSet,
            (ValueType::SortedSet, Some(_)) => Encoding::SortedSetWithDeadlines,
            (ValueType::Hash, None) => Encoding::Hash,
            (ValueType::Hash, Some(_)) if is_valkey => Encoding::ValkeyHash,
            (ValueType::Hash, Some(first)) => Encoding::RedisHash { first },
            _ => Encoding::List,
        };
        let mut writer = Writer::new(form, elements.len());
        elements.iter().for_each(|element| writer.put(&element.borrowed()));
        let expected = Received { kind: Some(kind), elements };
        prop_assert_eq!(received(&writer.finish()), Ok(expected));
    }
}
