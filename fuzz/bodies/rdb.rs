//! Fuzz target of snapshot files. Reading ends, in memory that is bounded by the size of the file,
//! and is the same for all sizes of reads, and if values are taken out of the file before they are
//! built. What was read can be written and read again. The first
//! byte is the size of the reads.

use super::dump::{Received, elements, encoding, written_stream};
use std::io::Read;
use wire::dump::ValueType;
use wire::rdb::{Framing, Item, Kind, RdbError, Reader, Version, WINDOW_BYTES, Writer};

/// An item that owns its parts.
#[derive(Debug, PartialEq)]
enum Own {
    Field(Vec<u8>, Vec<u8>),
    Module,
    Library(Vec<u8>),
    Database(u64),
    Sizes(u64, u64),
    Entry(Vec<u8>, Option<u64>, Received),
}

/// A source that returns a limited number of bytes at a time.
struct Slow<'f>(&'f [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.1.min(buffer.len());
        self.0.read(&mut buffer[..bytes])
    }
}

fn read(file: &[u8], step: usize, raw_max: Option<usize>) -> Result<Vec<Own>, RdbError> {
    let mut reader = Reader::new(Slow(file, step));
    reader.begin()?;
    let mut items = Vec::new();
    loop {
        let item = match reader.next()? {
            Item::Field { name, value } => Own::Field(name.to_vec(), value.to_vec()),
            Item::ModuleField(_) => Own::Module,
            Item::Library(code) => Own::Library(code.to_vec()),
            Item::Database(number) => Own::Database(number),
            Item::Sizes {
                keys,
                keys_with_deadlines,
            } => Own::Sizes(keys, keys_with_deadlines),
            Item::Entry(entry) => {
                let (key, deadline) = (entry.key.to_vec(), entry.deadline);
                match entry.kind {
                    Kind::Value(_) => {
                        let mut received = Received::default();
                        let raw = raw_max.map(|most| reader.raw_value(most)).transpose()?;
                        match raw.flatten() {
                            Some(raw) => raw.head.read(&key, raw.bytes, &mut received)?,
                            None => reader.value(&mut received)?,
                        }
                        Own::Entry(key, deadline, received)
                    }
                    Kind::Module(_) => Own::Module,
                }
            }
            Item::End => return Ok(items),
        };
        items.push(item);
        assert!(reader.buffer_bytes() <= 2 * WINDOW_BYTES + 4 * 88 * file.len());
    }
}

/// Whether a value is a collection without elements, which is not written.
fn is_empty(item: &Own) -> bool {
    let Own::Entry(_, _, value) = item else {
        return false;
    };
    value.kind != Some(ValueType::Stream) && value.elements.is_empty()
}

fn written(items: &[Own]) -> Vec<u8> {
    let mut writer = Writer::default();
    for item in items {
        match item {
            Own::Field(name, value) => writer.field(name, value),
            Own::Module => {}
            Own::Library(code) => writer.library(code),
            Own::Database(number) => writer.database(*number),
            Own::Sizes(keys, deadlines) => writer.sizes(*keys, *deadlines),
            Own::Entry(key, deadline, value) if value.kind == Some(ValueType::Stream) => {
                writer.stream(key, *deadline, written_stream(&value.parts));
            }
            entry if is_empty(entry) => {}
            Own::Entry(key, deadline, value) => {
                let count = value.elements.len();
                writer.begin(key, *deadline, encoding(value, false), count);
                elements(value).for_each(|element| writer.put(&element));
            }
        }
    }
    let mut framing = Framing::default();
    framing.add(writer.bytes());
    let ending = framing.end(writer.version());
    assert!(Version::read(ending.header).is_some());
    [&ending.header[..], writer.bytes(), &ending.tail].concat()
}

pub fn run(data: &[u8]) {
    let Some((&step, file)) = data.split_first() else {
        return;
    };
    let raw_max = 16 * usize::from(step);
    match (
        read(file, usize::from(step) + 1, None),
        read(file, usize::MAX, Some(raw_max)),
    ) {
        (Ok(items), Ok(same)) => {
            assert_eq!(items, same);
            let again = read(&written(&items), usize::MAX, None).expect("it was just written");
            let is_written = |item: &Own| *item != Own::Module && !is_empty(item);
            let items = items.into_iter().filter(is_written);
            assert_eq!(again, items.collect::<Vec<_>>());
        }
        (Err(error), Err(same)) => {
            assert_eq!(error.to_string(), same.to_string());
            assert!(error.offset <= file.len() as u64);
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}
