//! `mayfly check`: reads a snapshot file, reports what it contains and where it is damaged, and
//! writes the part before the damage to a new file.

pub mod commands;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::path::Path;
use units::show::{bytes, count};
use wire::dump::{Element, Sink, StreamPart, ValueType};
use wire::rdb::{Framing, HEADER_BYTES, HEADER_PENDING, Item, Kind, RdbError, Reader, Version};

/// Upper bounds of the TTLs that are counted together, in milliseconds, with their names.
const TTLS: [(u64, &str); 5] = [
    (60_000, "up to a minute"),
    (3_600_000, "up to an hour"),
    (86_400_000, "up to a day"),
    (7 * 86_400_000, "up to a week"),
    (u64::MAX, "longer"),
];
/// Maximum number of databases and of modules that are counted by name.
const NAMES_MAX: usize = 1000;
/// Size of the pieces in which a file is copied.
const COPY_BYTES: usize = 1 << 20;

/// What a file contains.
#[derive(Debug, Default)]
pub struct Contents {
    version: Option<Version>,
    writer: Option<String>,
    types: BTreeMap<&'static str, Sums>,
    /// Number of keys by database.
    databases: BTreeMap<u64, u64>,
    /// Number of values and of other data by module.
    modules: BTreeMap<String, u64>,
    libraries: u64,
    /// Number of keys by TTL, as in `TTLS`.
    ttls: [u64; TTLS.len()],
    /// Offset behind the last item that is not damaged.
    end: u64,
}

/// Sums over the values of a type.
#[derive(Debug, Default)]
struct Sums {
    keys: u64,
    with_deadline: u64,
    expired: u64,
    elements: u64,
    elements_with_deadline: u64,
    bytes: u64,
    /// Size and key of the largest value.
    largest: (u64, Vec<u8>),
}

/// Sums over one value.
#[derive(Default)]
struct One {
    elements: u64,
    with_deadline: u64,
    bytes: u64,
}

impl Sink for One {
    fn begin(&mut self, _kind: ValueType) {}

    fn element(&mut self, element: &Element<'_>) {
        self.elements += 1;
        self.with_deadline += u64::from(element.deadline.is_some());
        self.bytes += (element.name.len() + element.value.len()) as u64;
    }

    fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
        match part {
            StreamPart::Entry { names, values, .. } => {
                self.elements += 1;
                let texts = names.iter().chain(*values);
                self.bytes += texts.map(|text| text.len() as u64).sum::<u64>();
            }
            StreamPart::Deadline(..) => self.with_deadline += 1,
            _ => {}
        }
        true
    }
}

impl Contents {
    /// Reads a file. Returns also the damage, if there is any. `now_ms` is the time in milliseconds
    /// since 1970 at which keys count as expired.
    pub fn read(source: impl io::Read, now_ms: u64) -> (Contents, Option<RdbError>) {
        let mut contents = Contents::default();
        let mut reader = Reader::new(source);
        let damage = contents.read_all(&mut reader, now_ms).err();
        (contents, damage)
    }

    fn read_all<R: io::Read>(
        &mut self,
        reader: &mut Reader<R>,
        now_ms: u64,
    ) -> Result<(), RdbError> {
        self.version = Some(reader.begin()?);
        let mut database = 0;
        loop {
            self.end = reader.offset();
            match reader.next()? {
                Item::Field { name, value } if name.ends_with(b"-ver") => {
                    let server = String::from_utf8_lossy(&name[..name.len() - 4]).into_owned();
                    self.writer = Some(format!("{server} {}", String::from_utf8_lossy(value)));
                }
                Item::Field { .. } | Item::Sizes { .. } => {}
                Item::ModuleField(name) => count_name(&mut self.modules, name),
                Item::Library(_) => self.libraries += 1,
                Item::Database(number) => database = number,
                Item::Entry(entry) => {
                    let kind = entry.kind.clone();
                    let (key, deadline) = (entry.key.to_vec(), entry.deadline);
                    let mut one = One::default();
                    let name = match kind {
                        Kind::Value(kind) => {
                            reader.value(&mut one)?;
                            kind.name()
                        }
                        Kind::Module(module) => {
                            reader.skip()?;
                            count_name(&mut self.modules, module);
                            "module"
                        }
                    };
                    count_name(&mut self.databases, database);
                    self.add(name, key, deadline, &one, now_ms);
                }
                Item::End => return Ok(()),
            }
        }
    }

    fn add(
        &mut self,
        kind: &'static str,
        key: Vec<u8>,
        deadline: Option<u64>,
        one: &One,
        now_ms: u64,
    ) {
        let sums = self.types.entry(kind).or_default();
        sums.keys += 1;
        sums.elements += one.elements;
        sums.elements_with_deadline += one.with_deadline;
        sums.bytes += one.bytes + key.len() as u64;
        if one.bytes > sums.largest.0 || sums.keys == 1 {
            sums.largest = (one.bytes, key);
        }
        if let Some(deadline) = deadline {
            sums.with_deadline += 1;
            match deadline.checked_sub(now_ms) {
                None => sums.expired += 1,
                Some(ttl) => {
                    let place = TTLS.iter().position(|(bound, _)| ttl <= *bound);
                    self.ttls[place.expect("the last bound is the largest")] += 1;
                }
            }
        }
    }

    /// Copies the part of a file that is not damaged to a new file, with a checksum of its own.
    ///
    /// # Errors
    /// The header of the file is damaged, the new file exists, or a file cannot be read or written.
    pub fn repair(&self, damaged: &mut File, path: &Path) -> Result<(), String> {
        let version = self
            .version
            .ok_or("nothing can be repaired: the header is damaged")?;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut new = File::create_new(path).map_err(failed)?;
        self.copy(version, damaged, &mut new).map_err(failed)
    }

    fn copy(&self, version: Version, damaged: &mut File, new: &mut File) -> io::Result<()> {
        new.write_all(&HEADER_PENDING)?;
        damaged.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let mut rest = damaged.take(self.end - HEADER_BYTES as u64);
        let mut framing = Framing::default();
        let mut piece = vec![0; COPY_BYTES];
        loop {
            let len = rest.read(&mut piece)?;
            if len == 0 {
                break;
            }
            framing.add(&piece[..len]);
            new.write_all(&piece[..len])?;
        }
        let ending = framing.end(version);
        new.write_all(&ending.tail)?;
        new.seek(SeekFrom::Start(0))?;
        new.write_all(&ending.header)?;
        new.sync_all()
    }
}

/// Counts a name. Beyond the maximum number of names, further ones are left out.
fn count_name<N: Ord>(counts: &mut BTreeMap<N, u64>, name: N) {
    if counts.len() < NAMES_MAX || counts.contains_key(&name) {
        *counts.entry(name).or_default() += 1;
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(version) = self.version else {
            return Ok(());
        };
        let writer = self.writer.as_deref().unwrap_or("an unknown server");
        writeln!(f, "{version}, written by {writer}")?;
        let sum = |of: fn(&Sums) -> u64| self.types.values().map(of).sum::<u64>();
        writeln!(
            f,
            "{} keys, {} with a TTL, {} expired, {} function libraries",
            sum(|sums| sums.keys),
            sum(|sums| sums.with_deadline),
            sum(|sums| sums.expired),
            self.libraries
        )?;
        if !self.types.is_empty() {
            self.table(f)?;
        }
        let databases = self.databases.iter();
        let databases = databases.map(|(number, keys)| format!("{number} ({keys} keys)"));
        listed(f, "databases", databases)?;
        let ttls = TTLS.iter().zip(self.ttls).filter(|(_, keys)| *keys > 0);
        listed(
            f,
            "TTLs",
            ttls.map(|((_, name), keys)| format!("{name} {keys}")),
        )?;
        let modules = self.modules.iter();
        listed(
            f,
            "data of modules, which cannot be loaded",
            modules.map(|(name, count)| format!("{name} ({count})")),
        )
    }
}

impl Contents {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8}{:>14}{:>14}{:>14}{:>16}{:>16}{:>12}  largest value",
            "type", "keys", "with a TTL", "expired", "elements", "with a TTL", "size"
        )?;
        for (name, sums) in &self.types {
            let number = |number: u64| count(number as f64);
            let key = String::from_utf8_lossy(&sums.largest.1)
                .escape_debug()
                .to_string();
            writeln!(
                f,
                "{name:<8}{:>14}{:>14}{:>14}{:>16}{:>16}{:>12}  {} in '{}'",
                number(sums.keys),
                number(sums.with_deadline),
                number(sums.expired),
                number(sums.elements),
                number(sums.elements_with_deadline),
                bytes(sums.bytes as f64),
                bytes(sums.largest.0 as f64),
                key.chars().take(60).collect::<String>()
            )?;
        }
        Ok(())
    }
}

fn listed(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: impl Iterator<Item = String>,
) -> fmt::Result {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}: {}", items.join(", "))
}
