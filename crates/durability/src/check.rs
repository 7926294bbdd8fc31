//! `mayfly check`: reads a snapshot file, reports its contents and any damage, and copies the part
//! before the damage to a new file.

pub mod commands;
pub mod survey;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::path::Path;
use survey::{Large, Survey, kept, kind_name, shown};
use units::show::{bytes, count};
use wire::dump::{Element, Sink, StreamPart, ValueType};
use wire::rdb::{Framing, HEADER_BYTES, HEADER_PENDING, Item, Kind, RdbError, Reader, Version};

/// Maximum number of databases, and of modules, that are counted by name.
const NAMES_MAX: usize = 1000;
/// Number of prefixes shown in the text output.
const PREFIXES_SHOWN: usize = 10;
/// Size of the buffer for copying a file.
const COPY_BYTES: usize = 1 << 20;

/// Contents of a file.
#[derive(Debug, Default)]
pub struct Contents {
    version: Option<Version>,
    writer: Option<String>,
    types: BTreeMap<&'static str, Sums>,
    /// Number of keys by database.
    databases: BTreeMap<u64, u64>,
    /// Number of values and other data items by module.
    modules: BTreeMap<String, u64>,
    libraries: u64,
    /// Number of keys whose collections are empty. A server does not load them.
    empty: u64,
    survey: Survey,
    /// Offset after the last undamaged item.
    end: u64,
}

/// Totals for the values of one type.
#[derive(Debug, Default)]
pub struct Sums {
    /// Number of keys.
    pub keys: u64,
    /// Number of keys with a deadline.
    pub with_deadline: u64,
    /// Number of keys that have expired.
    pub expired: u64,
    /// Number of keys whose collection is empty. A server does not load them.
    pub empty: u64,
    /// Number of elements; a string counts as one.
    pub elements: u64,
    /// Number of elements that have a deadline.
    pub elements_with_deadline: u64,
    /// Bytes of keys and values, without the overhead of the format or of a server.
    pub bytes: u64,
    /// Size in bytes and key of the largest value.
    largest: (u64, Vec<u8>),
}

/// Totals for one value.
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
    /// Reads a file. Returns its contents and the damage, if any. `now_ms` is the time in
    /// milliseconds since 1970 that decides which keys have expired.
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
                    let kind = match kind {
                        Kind::Value(kind) => {
                            reader.value(&mut one)?;
                            Some(kind)
                        }
                        Kind::Module(module) => {
                            reader.skip()?;
                            count_name(&mut self.modules, module);
                            None
                        }
                    };
                    count_name(&mut self.databases, database);
                    let may_be_empty = matches!(kind, None | Some(ValueType::Stream));
                    self.empty += u64::from(one.elements == 0 && !may_be_empty);
                    let ttl_ms = deadline.and_then(|deadline| deadline.checked_sub(now_ms));
                    let (with_deadline, value_bytes) = (one.with_deadline, one.bytes);
                    let one = Large {
                        bytes: one.bytes + key.len() as u64,
                        elements: one.elements,
                        database,
                        key: kept(&key),
                        kind: kind_name(kind),
                        ttl_ms,
                    };
                    self.add(one, with_deadline, deadline.map(|_| ttl_ms), value_bytes);
                }
                Item::End => return Ok(()),
            }
        }
    }

    /// Adds a key with `elements_with_deadline`. `deadline` contains the remaining time, or
    /// `Some(None)` if the key has expired.
    fn add(
        &mut self,
        one: Large,
        elements_with_deadline: u64,
        deadline: Option<Option<u64>>,
        value_bytes: u64,
    ) {
        let sums = self.types.entry(one.kind).or_default();
        sums.keys += 1;
        sums.with_deadline += u64::from(deadline.is_some());
        sums.expired += u64::from(deadline == Some(None));
        sums.elements += one.elements;
        sums.elements_with_deadline += elements_with_deadline;
        sums.bytes += one.bytes;
        if value_bytes > sums.largest.0 || sums.keys == 1 {
            sums.largest = (value_bytes, one.key.clone());
        }
        self.survey.add(one, deadline);
    }

    /// Returns the file's version and the server that wrote it, as text.
    pub fn origin(&self) -> Option<String> {
        let writer = self.writer.as_deref().unwrap_or("an unknown server");
        self.version
            .map(|version| format!("{version}, written by {writer}"))
    }

    /// Returns the totals of each type by its name.
    pub fn types(&self) -> &BTreeMap<&'static str, Sums> {
        &self.types
    }

    /// Returns the number of keys by database.
    pub fn databases(&self) -> &BTreeMap<u64, u64> {
        &self.databases
    }

    /// Returns the number of keys whose collections are empty.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Returns the distributions of the keys.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Copies the undamaged part of a file to a new file and adds a new checksum.
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

/// Counts a name. Names beyond the maximum number are left out.
fn count_name<N: Ord>(counts: &mut BTreeMap<N, u64>, name: N) {
    if counts.len() < NAMES_MAX || counts.contains_key(&name) {
        *counts.entry(name).or_default() += 1;
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(origin) = self.origin() else {
            return Ok(());
        };
        writeln!(f, "{origin}")?;
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
        let counted = |name: &str, keys: u64| format!("{name} {keys}");
        let ttls = self.survey.ttls().into_iter();
        let ttls = ttls.filter(|(name, _)| !matches!(*name, "none" | "expired"));
        listed(
            f,
            "TTLs",
            ttls.map(|(name, share)| counted(name, share.keys)),
        )?;
        let sizes = self.survey.sizes().into_iter();
        listed(
            f,
            "sizes",
            sizes.map(|(name, share)| counted(&name, share.keys)),
        )?;
        let prefixes = self.survey.prefixes().into_iter().take(PREFIXES_SHOWN);
        listed(
            f,
            "largest prefixes",
            prefixes.map(|(name, share)| {
                let (keys, size) = (count(share.keys as f64), bytes(share.bytes as f64));
                format!("{name} ({keys} keys, {size})")
            }),
        )?;
        if self.empty > 0 {
            let empty = count(self.empty as f64);
            writeln!(f, "empty collections, which are not loaded: {empty}")?;
        }
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
            let key = shown(&sums.largest.1);
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
