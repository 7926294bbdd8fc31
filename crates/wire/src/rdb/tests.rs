use super::*;
use crate::dump::{
    Element, Encoding, Sink, StreamForm, StreamNumbers, StreamPart, StreamWriter, ValueType,
};
use proptest::prelude::*;
use std::io::{self, Read};

/// A source that returns at most `step` bytes at a time.
struct Slow<'f> {
    file: &'f [u8],
    step: usize,
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.step.min(buffer.len());
        self.file.read(&mut buffer[..bytes])
    }
}

/// A value as text, one part after the other.
#[derive(Default)]
struct Shown(String);

impl Sink for Shown {
    fn begin(&mut self, kind: ValueType) {
        self.0 += kind.name();
    }

    fn element(&mut self, element: &Element<'_>) {
        let Element {
            name,
            value,
            score,
            deadline,
        } = element;
        self.0 += &format!(" {}", name.escape_ascii());
        if !value.is_empty() {
            self.0 += &format!("={}", value.escape_ascii());
        }
        if *score != 0.0 {
            self.0 += &format!(":{score}");
        }
        if let Some(deadline) = deadline {
            self.0 += &format!("@{deadline}");
        }
    }

    fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
        self.0 += &format!(" {part:?}");
        true
    }
}

/// Returns the items of a file as text, with the version first. The result is the same if values
/// are taken out of the file before they are read.
fn read(file: &[u8], step: usize) -> Result<Vec<String>, RdbError> {
    let result = read_values(file, step, None);
    for bytes_max in [0, 16, 1 << 20] {
        let raw = read_values(file, step, Some(bytes_max));
        match (&result, raw) {
            (Ok(items), raw) => assert_eq!(*items, raw.expect("a sound file")),
            (Err(error), raw) => {
                assert_eq!(
                    error.to_string(),
                    raw.expect_err("a damaged file").to_string()
                );
            }
        }
    }
    result
}

/// Like [`read`], but takes values up to a given length, if any, out of the file first.
fn read_values(file: &[u8], step: usize, raw_max: Option<usize>) -> Result<Vec<String>, RdbError> {
    let mut reader = Reader::new(Slow { file, step });
    let mut items = vec![reader.begin()?.to_string()];
    loop {
        let item = match reader.next()? {
            Item::Field { name, value } => {
                format!("field {}={}", name.escape_ascii(), value.escape_ascii())
            }
            Item::ModuleField(name) => format!("module {name}"),
            Item::Library(code) => format!("library {}", code.escape_ascii()),
            Item::Database(number) => format!("database {number}"),
            Item::Sizes {
                keys,
                keys_with_deadlines,
            } => format!("sizes {keys} {keys_with_deadlines}"),
            Item::Entry(entry) => {
                let deadline = entry.deadline.map(|at| format!("@{at}"));
                let head = format!(
                    "{}{}",
                    entry.key.escape_ascii(),
                    deadline.unwrap_or_default()
                );
                match entry.kind {
                    Kind::Value(_) => {
                        let mut shown = Shown::default();
                        let key = entry.key.to_vec();
                        let raw = raw_max.map(|most| reader.raw_value(most)).transpose()?;
                        match raw.flatten() {
                            Some(raw) => {
                                raw.head.read(&key, raw.bytes, &mut shown)?;
                                let mut dumped = Shown::default();
                                crate::dump::read(&raw.payload(), usize::MAX, &mut dumped)
                                    .expect("a file's value is a payload");
                                assert_eq!(dumped.0, shown.0);
                            }
                            None => reader.value(&mut shown)?,
                        }
                        format!("{head} {}", shown.0)
                    }
                    Kind::Module(name) => format!("{head} module {name}"),
                }
            }
            Item::End => return Ok(items),
        };
        items.push(item);
        // Twice the longest string, and its expansion.
        let bytes_max = WINDOW_BYTES + 2 * file.len() + 2 * 88 * file.len();
        assert!(reader.buffer_bytes() <= bytes_max);
    }
}

/// Returns a file of items.
fn framed(items: &[u8], version: Version) -> Vec<u8> {
    let mut framing = Framing::default();
    // The parts of a file may be added one by one.
    items.chunks(7).for_each(|part| framing.add(part));
    let file_bytes = framing.file_bytes();
    let ending = framing.end(version);
    let file = [&ending.header[..], items, &ending.tail].concat();
    assert_eq!(file.len() as u64, file_bytes);
    file
}

fn named(name: &[u8]) -> Element<'_> {
    Element {
        name,
        ..Element::default()
    }
}

/// Returns a stream with a group, a consumer and a pending entry.
fn stream(form: StreamForm) -> StreamWriter {
    let mut writer = StreamWriter::new(form);
    let field = |value: &'static [u8]| [(&b"f"[..], value)].into_iter();
    writer.entry((1, 1), field(b"v"));
    writer.entry((1, 2), field(b"12"));
    let numbers = StreamNumbers {
        len: 2,
        last_id: (1, 2),
        first_id: (1, 1),
        max_deleted_id: (0, 0),
        entries_added: Some(2),
    };
    writer.numbers(&numbers, 1);
    writer.group(b"g", (1, 2), Some(2));
    writer.count(1);
    writer.pending((1, 1), 1000, 3);
    writer.count(1);
    writer.consumer(b"c", 1000, Some(1000));
    writer.count(1);
    writer.owned((1, 1));
    if matches!(form, StreamForm::Messages | StreamForm::Deadlines) {
        writer.pair(100, 100);
        writer.count(0);
        writer.pair(0, 0);
    }
    if form == StreamForm::Deadlines {
        writer.max_age(60_000);
        writer.count(1);
        writer.deadline((1, 2), 2000);
    }
    writer
}

/// Returns a file with an item of every kind.
fn sample() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.field(b"ctime", b"1700000000");
    writer.library(b"#!lua name=a\n");
    writer.database(3);
    writer.sizes(5, 2);
    writer.begin(b"s", Some(5000), Encoding::String, 1);
    writer.put(&named(b"value"));
    writer.begin(b"l", None, Encoding::List, 2);
    writer.put(&named(b"a"));
    writer.put(&named(b"-7"));
    writer.begin(b"h", None, Encoding::RedisHash { first: 100 }, 2);
    writer.put(&Element {
        value: b"v",
        deadline: Some(100),
        ..named(b"f")
    });
    writer.put(&Element {
        value: b"w",
        ..named(b"g")
    });
    writer.begin(b"z", None, Encoding::SortedSetWithDeadlines, 1);
    writer.put(&Element {
        score: 1.5,
        deadline: Some(7000),
        ..named(b"m")
    });
    writer.stream(b"x", Some(1), stream(StreamForm::Deadlines));
    framed(writer.bytes(), writer.version())
}

#[test]
fn every_item_is_read_as_it_was_written() {
    let expected = [
        "Mayfly's version 1",
        "field ctime=1700000000",
        "library #!lua name=a\\n",
        "database 3",
        "sizes 5 2",
        "s@5000 string value",
        "l list a -7",
        "h hash f=v@100 g=w",
        "z zset m:1.5@7000",
    ];
    for step in [1, 2, 7, usize::MAX] {
        let items = read(&sample(), step).expect("it was just written");
        assert_eq!(items[..expected.len()], expected);
        let stream = &items[expected.len()];
        for part in [
            "x@1 stream Entry",
            "MaxAge(60000)",
            "Deadline((1, 2), 2000)",
        ] {
            assert!(stream.contains(part), "{part} in {stream}");
        }
    }
}

#[test]
fn the_lowest_version_that_has_the_types_is_written() {
    let version = |write: fn(&mut Writer)| {
        let mut writer = Writer::default();
        write(&mut writer);
        writer.version().header()
    };
    let hash = |writer: &mut Writer, form| {
        writer.begin(b"h", None, form, 1);
        writer.put(&named(b"f"));
    };
    assert_eq!(version(|_| ()), *b"REDIS0009");
    assert_eq!(version(|w| w.library(b"")), *b"REDIS0010");
    assert_eq!(
        version(|w| w.stream(b"x", None, stream(StreamForm::Timed))),
        *b"REDIS0011"
    );
    assert_eq!(
        version(|w| w.stream(b"x", None, stream(StreamForm::Messages))),
        *b"REDIS0013"
    );
    let mut writer = Writer::default();
    hash(&mut writer, Encoding::Hash);
    assert_eq!(writer.version(), Version::Redis(9));
    hash(&mut writer, Encoding::ValkeyHash);
    assert_eq!(writer.version(), Version::Valkey(80));
    hash(&mut writer, Encoding::RedisHash { first: 0 });
    assert_eq!(writer.version(), Version::Mayfly(1));
}

#[test]
fn damage_is_reported_or_harmless() {
    let file = sample();
    let whole = read(&file, usize::MAX).expect("it was just written");
    for at in 0..file.len() {
        let error = read(&file[..at], 3).expect_err("the end is missing");
        assert!(matches!(error.cause, Cause::Cut), "{at}: {error}");
        assert!(error.offset <= at as u64);
        for flip in FLIPS {
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            if let Ok(read) = read(&damaged, usize::MAX) {
                assert_eq!(read[1..], whole[1..], "byte {at} flipped by {flip:02x}");
            }
        }
    }
}

#[test]
fn damage_without_a_checksum_does_no_harm_to_the_reader() {
    let mut file = sample();
    let sum = file.len() - 8;
    file[sum..].fill(0);
    assert!(read(&file, usize::MAX).is_ok());
    for at in 0..file.len() {
        for flip in FLIPS {
            let mut damaged = file.clone();
            damaged[at] ^= flip;
            let _ = read(&damaged, usize::MAX);
        }
    }
}

/// Changes to a byte: each single bit, and all bits.
const FLIPS: [u8; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 255];

/// Returns a file of items after a header, without a checksum.
fn unchecked(header: &[u8; 9], items: &[u8]) -> Vec<u8> {
    [header, items, &[255, 0, 0, 0, 0, 0, 0, 0, 0][..]].concat()
}

fn error(file: &[u8]) -> String {
    read(file, usize::MAX)
        .expect_err("it is malformed")
        .to_string()
}

#[test]
fn items_of_other_servers_are_read_or_skipped() {
    let items = b"\xFA\x09redis-ver\x055.0.3\xFE\x00\xFB\x02\x01\xF4\x01\x02\x03\
        \xFD\x01\x00\x00\x00\xF9\x05\x00\x01a\x011\
        \xF8\x41\x00\xFC\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x01b\x012\
        \xFC\x00\x00\x00\x00\x00\x00\x00\x80\x00\x01c\x013";
    let file = unchecked(b"REDIS0013", items);
    assert_eq!(
        read(&file, 1).expect("a sound file"),
        [
            "Redis's version 13",
            "field redis-ver=5.0.3",
            "database 0",
            "sizes 2 1",
            "a@1000 string 1",
            "b string 2",
            "c@0 string 3",
        ]
    );
    // Versions before 5 have no checksum.
    assert!(read(b"REDIS0004\xFE\x00\x00\x01a\x011\xFF", 1).is_ok());
    assert_eq!(
        read(b"REDIS0009\xFF\0\0\0\0\0\0\0\0*1\r\n", 1)
            .expect("an empty file")
            .len(),
        1
    );
}

/// Number of the module `ab-module`, version 1.
fn module_id() -> Vec<u8> {
    let set = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = |c| {
        set.iter()
            .position(|of| *of == c)
            .expect("a valid character") as u64
    };
    let bits = b"ab-module".iter().fold(0, |bits, c| bits << 6 | place(*c));
    [&[0x81][..], &(bits << 10 | 1).to_be_bytes()].concat()
}

#[test]
fn data_of_modules_is_named() {
    let parts = b"\x01\x05\x02\x40\x50\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x03abc\x00";
    let field = [&b"\xF7"[..], &module_id(), b"\x02\x01", parts].concat();
    let key = [&b"\x07\x01k"[..], &module_id(), parts, b"\x00\x01s\x011"].concat();
    assert_eq!(
        read(&unchecked(b"REDIS0010", &[field, key].concat()), 1).expect("a sound file"),
        [
            "Redis's version 10",
            "module ab-module",
            "k module ab-module",
            "s string 1"
        ]
    );
    // Metadata of keys: class KMT1, version 0; the lowest bit allows to skip it.
    let class = |flags: u32| {
        let name = [10, 12, 19, 53]
            .iter()
            .fold(0, |bits, place| bits << 6 | place);
        (name << 8 | flags).to_le_bytes()
    };
    let metadata = |flags| {
        let items = [
            &b"\xF3\x01"[..],
            &class(flags),
            b"\x02\x05\x00\x00\x01s\x011",
        ]
        .concat();
        unchecked(b"REDIS0013", &items)
    };
    assert_eq!(
        read(&metadata(1), 1).expect("a sound file")[1],
        "s string 1"
    );
    assert_eq!(
        error(&metadata(0)),
        "offset 10: expected a key, found metadata of module class 'KMT1'"
    );
    assert_eq!(
        error(&unchecked(b"VALKEY080", b"\xF3\x01")),
        "offset 10: expected a key, found an unfinished import of cluster slots"
    );
}

#[test]
fn errors_name_the_offset_and_what_was_expected() {
    for (file, expected) in [
        (
            b"REDIS9999".to_vec(),
            "offset 0: expected a header such as REDIS0009, VALKEY080 or MAYFLY001, found 'REDIS9999'",
        ),
        (
            b"REDI".to_vec(),
            "offset 0: expected a header such as REDIS0009, VALKEY080 or MAYFLY001, found the end \
             of the file",
        ),
        (
            unchecked(b"REDIS0009", b"\x1B\x01k"),
            "offset 9: expected an item or a type of value, found number 27 in Redis's version 9",
        ),
        (
            unchecked(b"REDIS0009", b"\xFE\x05\x01\x01k\x90"),
            "offset 15: expected a list (type 1), the value of key 'k' in database 5, found other \
             bytes",
        ),
        (
            b"REDIS0009\x00\x01k\x80\x00\x01\x00\x00abc".to_vec(),
            "offset 17: expected a string (type 0), the value of key 'k' in database 0, found the \
             end of the file",
        ),
        (
            b"REDIS0009\xFF\x01\x00\x00\x00\x00\x00\x00\x00".to_vec(),
            "offset 10: expected the checksum of the file, found 0000000000000001 (computed \
             74ad0ffbbc7aac9a)",
        ),
        (
            unchecked(b"REDIS0009", b"\xFA\xC3\x05\x40\xFF"),
            "offset 19: expected the name of a field, found other bytes",
        ),
    ] {
        assert_eq!(error(&file), expected);
    }
}

#[test]
fn a_string_longer_than_the_buffer_is_read_and_the_buffer_shrinks_again() {
    let long = vec![b'x'; 5 * WINDOW_BYTES];
    let mut writer = Writer::default();
    for name in [&long[..], b"a", &long[..WINDOW_BYTES], b"b"] {
        writer.begin(b"k", None, Encoding::String, 1);
        writer.put(&named(name));
    }
    writer.begin(b"l", None, Encoding::List, 100_000);
    (0..100_000).for_each(|_| writer.put(&named(b"element")));
    let file = framed(writer.bytes(), writer.version());
    let mut reader = Reader::new(&file[..]);
    reader.begin().expect("a header");
    let mut buffers = Vec::new();
    while let Item::Entry(_) = reader.next().expect("a sound file") {
        reader.value(&mut Shown::default()).expect("a sound file");
        buffers.push(reader.buffer_bytes());
    }
    assert!(buffers[0] >= 5 * WINDOW_BYTES, "{buffers:?}");
    assert!(buffers[0] <= 11 * WINDOW_BYTES, "{buffers:?}");
    assert!(buffers[1] <= 2 * WINDOW_BYTES, "{buffers:?}");
    assert!(buffers[4] <= 2 * WINDOW_BYTES, "{buffers:?}");
    // A stated length of 4 GB takes no memory.
    let mut reader = Reader::new(&b"REDIS0009\x00\x01k\x80\xFF\xFF\xFF\xFFabc"[..]);
    reader.begin().expect("a header");
    reader.next().expect("a key");
    assert!(reader.next().is_err());
    assert!(reader.buffer_bytes() <= 2 * WINDOW_BYTES);
}

#[test]
fn an_error_of_the_source_is_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk on fire"))
        }
    }
    let error = Reader::new(Broken).begin().expect_err("it cannot be read");
    assert!(
        error.to_string().ends_with("found an error: disk on fire"),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
}

/// An item to write, and how it is read.
fn item() -> impl Strategy<Value = (Vec<u8>, Version, String)> {
    let text = || {
        prop_oneof![
            "[a-z]{1,9}",
            "[0-9]{1,4}",
            "[a-z]{200}",
            "-[1-9][0-9]{0,12}"
        ]
    };
    let written = |write: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::default();
        write(&mut writer);
        (writer.take(), writer.version())
    };
    let form = prop_oneof![
        Just((Encoding::String, "string")),
        Just((Encoding::List, "list")),
        Just((Encoding::Set, "set")),
        Just((Encoding::SetWithDeadlines, "set")),
    ];
    let names = prop::collection::vec(text(), 1..20);
    let value = (text(), prop::option::of(0..1u64 << 60), form, names).prop_map(
        move |(key, deadline, (form, kind), names)| {
            let names = match form {
                Encoding::String => &names[..1],
                _ => &names[..],
            };
            let (bytes, version) = written(&|writer| {
                writer.begin(key.as_bytes(), deadline, form, names.len());
                names
                    .iter()
                    .for_each(|name| writer.put(&named(name.as_bytes())));
            });
            let deadline = deadline.map(|at| format!("@{at}")).unwrap_or_default();
            (
                bytes,
                version,
                format!("{key}{deadline} {kind} {}", names.join(" ")),
            )
        },
    );
    let database = (0..1u64 << 40).prop_map(move |number| {
        let (bytes, version) = written(&|writer| writer.database(number));
        (bytes, version, format!("database {number}"))
    });
    let field = (text(), text()).prop_map(move |(name, value)| {
        let (bytes, version) = written(&|w| w.field(name.as_bytes(), value.as_bytes()));
        (bytes, version, format!("field {name}={value}"))
    });
    let library = text().prop_map(move |code| {
        let (bytes, version) = written(&|writer| writer.library(code.as_bytes()));
        (bytes, version, format!("library {code}"))
    });
    prop_oneof![6 => value, 1 => database, 1 => field, 1 => library]
}

proptest! {
    #[test]
    fn items_of_several_writers_are_read_as_one_file(
        items in prop::collection::vec(item(), 0..40),
        step in 1..300usize,
    ) {
        let bytes: Vec<u8> = items.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
        let version = items.iter().fold(Version::PLAIN, |all, (_, version, _)| all.and(*version));
        let expected = items.iter().map(|(.., text)| text.clone());
        let expected: Vec<String> = [version.to_string()].into_iter().chain(expected).collect();
        prop_assert_eq!(read(&framed(&bytes, version), step).expect("it was just written"), expected);
    }
}
