//! Formats and compressions, told by the endings of names.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// How a trace is written down; docs/traces.md describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated text with named columns.
    Csv,
    /// The Twitter cache trace: comma-separated text with seven columns and no header.
    Twitter,
    /// libCacheSim's records of 24 bytes, each with the next access.
    OracleGeneral,
    /// Block requests of a virtual machine, versions 1 and 2.
    Vscsi,
    /// libCacheSim's own format: a header and records, versions 1 to 8.
    Lcs,
    /// The text of the ARC paper's traces: a first block and a number of blocks on each line.
    Arc,
    /// The text of the LIRS paper's traces: a block on each line, `*` between phases.
    Lirs,
    /// One id a line.
    Ids,
    /// Apache Parquet, with the columns that csv has.
    Parquet,
}

/// Every format with its name, which is its ending without the dot. A name that ends in another comes first.
const NAMES: [(Format, &str); 10] = [
    (Format::Twitter, "twitter.csv"),
    (Format::Csv, "csv"),
    (Format::OracleGeneral, "oracleGeneral.bin"),
    (Format::OracleGeneral, "oracleGeneral"),
    (Format::Vscsi, "vscsi"),
    (Format::Lcs, "lcs"),
    (Format::Arc, "lis"),
    (Format::Lirs, "trc"),
    (Format::Ids, "txt"),
    (Format::Parquet, "parquet"),
];

/// How a trace's bytes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
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

/// The endings of all formats, for messages.
pub(crate) fn endings() -> String {
    let mut endings: Vec<String> = NAMES.iter().map(|(_, name)| format!(".{name}")).collect();
    let last = endings.pop().unwrap_or_default();
    format!("{} or {last}", endings.join(", "))
}

impl Compression {
    /// The compression that a name's ending tells, and the name without that ending.
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
    /// The format that a name's ending tells, whatever compression follows it.
    ///
    /// # Errors
    /// An ending that names no format.
    ///
    /// ```
    /// use trace::Format;
    /// assert_eq!(Format::of_name("a/b.oracleGeneral.bin.zst").unwrap(), Format::OracleGeneral);
    /// assert!(Format::of_name("b.bin").is_err());
    /// ```
    pub fn of_name(name: &str) -> Result<Format, Error> {
        let (_, plain) = Compression::of_name(name);
        let is_ending = |ending: &str| {
            let stem = plain.strip_suffix(ending);
            stem.is_some_and(|stem| stem.ends_with('.'))
        };
        let found = NAMES.iter().find(|(_, ending)| is_ending(ending));
        let (format, _) = found.ok_or_else(|| Error::UnknownFormat { file: name.into() })?;
        Ok(*format)
    }
}

impl FromStr for Format {
    type Err = String;

    /// The format of a name: an ending without its dot, or `twitter`, `arc`, `lirs`, `ids`.
    fn from_str(text: &str) -> Result<Format, String> {
        let more = [
            (Format::Twitter, "twitter"),
            (Format::Arc, "arc"),
            (Format::Lirs, "lirs"),
            (Format::Ids, "ids"),
        ];
        let mut all = NAMES.iter().chain(&more);
        let found = all.find(|(_, name)| name.eq_ignore_ascii_case(text));
        found.map(|(format, _)| *format).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!(
                "no format is called {text:?}; there are twitter, {}",
                names.join(", ")
            )
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().find(|(format, _)| format == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_tell_format_and_compression() {
        for (format, ending) in NAMES {
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
