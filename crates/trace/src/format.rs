//! The list of formats, and the compressions; both are found by the endings of names.

use crate::entry::{Entry, Workload};
use crate::error::Error;
#[cfg(not(feature = "parquet"))]
use crate::parquet_absent::PARQUET;
#[cfg(feature = "parquet")]
use crate::parquet_reader::PARQUET;
use crate::prepared_source::PREPARED;
use crate::{blocks, csv, jsonl, lcs, lists, vscsi};
use std::fmt;
use std::str::FromStr;

/// Every format. Help and messages list them in this order.
static FORMATS: [&Entry; 17] = [
    &csv::TWITTER,
    &csv::CSV,
    &csv::TSV,
    &csv::CACHEBENCH,
    &jsonl::JSONL,
    &lcs::ORACLE_GENERAL,
    &vscsi::VSCSI,
    &lcs::LCS,
    &blocks::MSR,
    &blocks::TENCENT,
    &blocks::ALIBABA,
    &blocks::MQSIM,
    &lists::ARC,
    &lists::LIRS,
    &lists::IDS,
    &PARQUET,
    &PREPARED,
];

/// Encoding of a trace; docs/reference/traces.md describes each. A format is found by its own name,
/// or by the ending of a trace's name.
#[derive(Clone, Copy)]
pub struct Format(&'static Entry);

/// Compression of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    #[default]
    Plain,
    /// zstd, `.zst`.
    Zstd,
    /// gzip, `.gz`.
    Gzip,
    /// xz, `.xz`.
    Xz,
}

const COMPRESSIONS: [(Compression, &str); 3] = [
    (Compression::Zstd, ".zst"),
    (Compression::Gzip, ".gz"),
    (Compression::Xz, ".xz"),
];

/// Returns all endings, each with its format.
fn endings() -> impl Iterator<Item = (Format, &'static str)> {
    let of_entry = |entry: &'static Entry| {
        let endings = entry.endings.iter();
        endings.map(move |ending| (Format(entry), *ending))
    };
    FORMATS.into_iter().flat_map(of_entry)
}

/// Joins words to a list such as "a, b or c".
fn listed(words: impl Iterator<Item = String>, conjunction: &str) -> String {
    let mut words: Vec<String> = words.collect();
    let last = words.pop().unwrap_or_default();
    format!("{} {conjunction} {last}", words.join(", "))
}

impl Compression {
    /// Returns the compression that the ending of a name stands for, and the name without that
    /// ending.
    pub fn of_name(name: &str) -> (Compression, &str) {
        for (compression, ending) in COMPRESSIONS {
            if let Some(plain) = name.strip_suffix(ending) {
                return (compression, plain);
            }
        }
        (Compression::Plain, name)
    }
}

impl Format {
    /// Returns the format that the ending of a name stands for, whether or not the ending of a
    /// compression follows it.
    ///
    /// # Errors
    /// The ending belongs to no format.
    ///
    /// ```
    /// use trace::Format;
    /// let format = Format::of_name("a/b.oracleGeneral.zst").unwrap();
    /// assert_eq!(format.to_string(), "oracleGeneral.bin");
    /// assert!(Format::of_name("b.bin").is_err());
    /// ```
    pub fn of_name(name: &str) -> Result<Format, Error> {
        let (_, plain) = Compression::of_name(name);
        let is_ending = |ending: &str| {
            let stem = plain.strip_suffix(ending);
            stem.is_some_and(|stem| stem.ends_with('.'))
        };
        // A name that ends in .twitter.csv ends in .csv, too: the longer ending counts.
        let found = endings().filter(|(_, ending)| is_ending(ending));
        let found = found.max_by_key(|(_, ending)| ending.len());
        found
            .map(|(format, _)| format)
            .ok_or_else(|| Error::UnknownFormat {
                file: name.into(),
                known: listed(endings().map(|(_, ending)| format!(".{ending}")), "or"),
            })
    }

    /// Comma-separated text with named columns.
    pub const CSV: Format = Format(&csv::CSV);

    /// Whether the format's requests carry the position of the object's next request, which
    /// [`crate::Spool::annotate`] finds.
    pub fn has_next_access(self) -> bool {
        self.0.has_next_access
    }

    /// Kind of system whose traces are published in this format.
    pub fn workload(self) -> Workload {
        self.0.workload
    }

    pub(crate) fn entry(self) -> &'static Entry {
        self.0
    }

    /// Returns the names of the formats that can be written, for messages.
    pub(crate) fn written() -> String {
        let written = FORMATS.into_iter().filter(|entry| entry.encode.is_some());
        listed(written.map(|entry| entry.endings[0].to_owned()), "and")
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.0.endings == other.0.endings
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Format({self})")
    }
}

impl FromStr for Format {
    type Err = String;

    /// Returns the format of a name: an ending without its dot, or `twitter`, `arc`, `lirs`, `ids`.
    /// Upper and lower case are equal.
    fn from_str(text: &str) -> Result<Format, String> {
        let is_named = |entry: &&Entry| {
            let mut names = entry.endings.iter().chain(entry.aliases);
            names.any(|name| name.eq_ignore_ascii_case(text))
        };
        let found = FORMATS.into_iter().find(|entry| is_named(entry));
        found.map(Format).ok_or_else(|| {
            let names = endings().map(|(_, ending)| ending.to_owned());
            format!("format {text:?}: expected {}", listed(names, "or"))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.endings[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_determine_format_and_compression() {
        for (format, ending) in endings() {
            for (compression, packed) in COMPRESSIONS.into_iter().chain([(Compression::Plain, "")])
            {
                let name = format!("x/trace.{ending}{packed}");
                assert_eq!(Format::of_name(&name).expect("it is known"), format);
                assert_eq!(Compression::of_name(&name).0, compression);
            }
            assert_eq!(ending.parse(), Ok(format));
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        for name in ["csv", "a.csv.bz2", "a.zst", "a.CSVX", "acsv", ""] {
            assert!(Format::of_name(name).is_err(), "{name}");
        }
        assert!("polar".parse::<Format>().is_err());
    }
}
