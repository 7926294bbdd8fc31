//! The manifest of an append-only file: the names of its parts, in the format of Redis 7.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b
//! file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//!
//! The base comes first, followed by the increments in order. Parts of type `h` are no longer
//! needed and are deleted.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Maximum length of a manifest in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the file in the folder.
    pub name: String,
    /// Sequence number among the parts of its type.
    pub sequence: u64,
}

/// Parts of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Base: all keys at one instant.
    pub base: Option<Part>,
    /// Increments: the commands since then.
    pub increments: Vec<Part>,
    /// Parts that are no longer needed.
    pub history: Vec<Part>,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// A message that names the line.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let mut manifest = Manifest::default();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}", index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words = words(line).ok_or_else(|| wrong("a quote is not closed"))?;
            let (pairs, rest) = words.as_chunks::<2>();
            let value = |name: &str| {
                pairs
                    .iter()
                    .find(|[key, _]| key == name)
                    .map(|pair| &pair[1])
            };
            let (Some(name), Some(sequence), Some(kind), []) =
                (value("file"), value("seq"), value("type"), rest)
            else {
                return Err(wrong("expected 'file NAME seq NUMBER type b, i or h'"));
            };
            if name.is_empty() || name.contains('/') || name == "." || name == ".." {
                return Err(wrong("expected the name of a file without a folder"));
            }
            let sequence: u64 = sequence
                .parse()
                .map_err(|_| wrong("expected a number after 'seq'"))?;
            let part = Part {
                name: name.clone(),
                sequence,
            };
            match &kind[..] {
                "b" if manifest.base.is_some() => return Err(wrong("there are two base files")),
                "b" => manifest.base = Some(part),
                "h" => manifest.history.push(part),
                "i" => {
                    let last = manifest.increments.last();
                    if last.is_some_and(|last| last.sequence >= sequence) {
                        return Err(wrong(
                            "expected a larger number than that of the increment before",
                        ));
                    }
                    manifest.increments.push(part);
                }
                _ => return Err(wrong("expected the type b, i or h")),
            }
        }
        match manifest.base.is_none() && manifest.increments.is_empty() {
            true => Err("it names no file".to_owned()),
            false => Ok(manifest),
        }
    }

    /// Reads a manifest. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read or its text is malformed. The message names the file.
    pub fn read(path: &Path) -> Result<Option<Manifest>, String> {
        let failed = |error: String| format!("{}: {error}", path.display());
        let len = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| failed(error.to_string()))?.len(),
        };
        if len > BYTES_MAX {
            return Err(failed(format!(
                "expected at most {BYTES_MAX} bytes, found {len}"
            )));
        }
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Manifest::parse(&text).map(Some).map_err(failed)
    }

    /// Returns the manifest as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let base = self.base.iter().map(|part| (part, 'b'));
        let history = self.history.iter().map(|part| (part, 'h'));
        let increments = self.increments.iter().map(|part| (part, 'i'));
        for (part, kind) in base.chain(history).chain(increments) {
            let name = match part.name.contains([' ', '"', '\\']) {
                true => format!(
                    "\"{}\"",
                    part.name.replace('\\', "\\\\").replace('"', "\\\"")
                ),
                false => part.name.clone(),
            };
            let sequence = part.sequence;
            // Writing to a string does not fail.
            let _ = writeln!(text, "file {name} seq {sequence} type {kind}");
        }
        text
    }

    /// Replaces a manifest file atomically, even if the machine crashes.
    ///
    /// # Errors
    /// The file system returned an error.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<()> {
        let temporary = folder.join(format!("temp-{name}"));
        let mut file = File::create(&temporary)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, folder.join(name))?;
        File::open(folder)?.sync_all()
    }

    /// Returns the sequence numbers of the next base and the next increment.
    pub fn next_sequences(&self) -> (u64, u64) {
        let base = self.base.as_ref().map_or(0, |part| part.sequence);
        let increment = self.increments.last().map_or(0, |part| part.sequence);
        (base + 1, increment + 1)
    }
}

/// Splits a line into words. A quoted word may contain blanks, and quotes after a backslash.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut chars) = (Vec::new(), line.chars().peekable());
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let mut word = String::new();
        match chars.peek() {
            None => return Some(words),
            Some('"') => {
                chars.next();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => word.push(chars.next()?),
                        c => word.push(c),
                    }
                }
            }
            Some(_) => {
                while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace()) {
                    word.push(c);
                }
            }
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let part = |name: &str, sequence| Part {
            name: name.to_owned(),
            sequence,
        };
        let manifest = Manifest {
            base: Some(part("a.aof.3.base.rdb", 3)),
            increments: vec![part("a.aof.4.incr.aof", 4), part("a \"b\\.5.incr.aof", 5)],
            history: vec![part("a.aof.2.base.rdb", 2)],
        };
        assert_eq!(Manifest::parse(&manifest.text()), Ok(manifest.clone()));
        assert_eq!(manifest.next_sequences(), (4, 6));
        let redis = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i startoffset 0\n";
        let parsed = Manifest::parse(redis).expect("a manifest of Redis");
        assert_eq!(parsed.increments.len(), 1);
    }

    #[test]
    fn a_damaged_manifest_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "it names no file"),
            (
                "file a seq 1 type b\nfile c seq 2 type b\n",
                "line 2: there are two",
            ),
            ("file a seq x type b\n", "line 1: expected a number"),
            ("file ../a seq 1 type b\n", "line 1: expected the name"),
            ("file a seq 1 type q\n", "line 1: expected the type"),
            (
                "file a seq 2 type i\nfile b seq 2 type i\n",
                "line 2: expected a larger",
            ),
            ("file \"a seq 1 type b\n", "line 1: a quote"),
            ("nonsense\n", "line 1: expected 'file"),
        ] {
            let error = Manifest::parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
