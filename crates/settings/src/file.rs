//! Reader for files in redis.conf format.
//!
//! A line is `name value…`. Quotes protect blanks, a line that begins with `#` is a comment, and
//! `include` reads other files. This module splits files into directives with their places; `load`
//! validates them.

use crate::files;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use wire::glob;

/// Maximum depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 8;
/// Maximum number of files read per start, so that including whole folders is bounded.
const FILES_MAX: usize = 1_000;
/// Maximum size of a file, so that including a device is bounded.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Byte order mark, which some editors write at the start of a file. It means nothing in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// One setting from a file, the environment or the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// File and line, or the name of the variable or option, for messages.
    pub place: String,
    /// Name in lower case.
    pub name: String,
    /// Words after the name.
    pub words: Vec<String>,
}

impl Directive {
    /// Returns the words of the value joined by blanks.
    pub fn value(&self) -> String {
        self.words.join(" ")
    }
}

/// Directives of a file and its includes, in order, and the errors found.
#[derive(Debug, Default)]
pub struct Reading {
    /// Directives in the order of the lines.
    pub directives: Vec<Directive>,
    /// Errors, each with file and line.
    pub problems: Vec<String>,
    file_count: usize,
}

/// Reads a file and all files that it includes.
pub fn read(path: &Path) -> Reading {
    let mut reading = Reading::default();
    reading.file(path, &mut Vec::new());
    reading
}

impl Reading {
    /// Reads one file. `open` lists the files that include it, outermost first.
    fn file(&mut self, path: &Path, open: &mut Vec<PathBuf>) {
        self.file_count += 1;
        // A file that a command line names may be a pipe: `mayfly <(printf 'port 0')`.
        let opened = match open.is_empty() {
            true => File::open(path),
            false => files::open(path),
        };
        let text = match opened.map_err(|error| error.to_string()).and_then(text_in) {
            Ok(text) => text,
            Err(error) => return self.problems.push(format!("{}: {error}", path.display())),
        };
        open.push(path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            match words(line) {
                Err(error) => self.problems.push(format!("{place}: {error}")),
                Ok(None) => {}
                Ok(Some(words)) if words[0].eq_ignore_ascii_case("include") => {
                    if let Err(error) = self.include(path, &words[1..], open) {
                        self.problems.push(format!("{place}: include: {error}"));
                    }
                }
                Ok(Some(mut words)) => self.directives.push(Directive {
                    place,
                    name: words.remove(0).to_ascii_lowercase(),
                    words,
                }),
            }
        }
        open.pop();
    }

    /// Reads the files included by a line of `path`.
    fn include(
        &mut self,
        path: &Path,
        words: &[String],
        open: &mut Vec<PathBuf>,
    ) -> Result<(), String> {
        let [pattern] = words else {
            return Err("expected one file name".to_owned());
        };
        if open.len() > INCLUDE_DEPTH_MAX {
            return Err(format!("more than {INCLUDE_DEPTH_MAX} nested includes"));
        }
        let pattern = path.parent().unwrap_or(Path::new(".")).join(pattern);
        for file in matching(&pattern)? {
            let full = file.canonicalize().unwrap_or_else(|_| file.clone());
            if open.contains(&full) {
                return Err(format!("{} includes itself", file.display()));
            }
            if self.file_count == FILES_MAX {
                return Err(format!("more than {FILES_MAX} files"));
            }
            self.file(&file, open);
        }
        Ok(())
    }
}

/// Returns the contents of a configuration file.
///
/// # Errors
/// The file cannot be read, is not text or is too large.
pub fn text_of(path: &Path) -> Result<String, String> {
    let file = files::open(path).map_err(|error| error.to_string())?;
    text_in(file)
}

fn text_in(file: File) -> Result<String, String> {
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| error.to_string())?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Returns the files whose names match a pattern, in alphabetical order. A pattern without `*`, `?`
/// or `[` is returned as a file, whether or not it exists.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let is_pattern = |text: &str| text.contains(['*', '?', '[']);
    if !pattern.to_str().is_some_and(is_pattern) {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let (mut found, mut has_matched) = (vec![PathBuf::new()], false);
    for part in pattern.components() {
        let part = Path::new(part.as_os_str());
        match part.to_str().filter(|name| is_pattern(name)) {
            Some(name) => {
                has_matched = true;
                let mut matches = Vec::new();
                for folder in &found {
                    matches.extend(names_in(folder, name).map(|name| folder.join(name)));
                    if matches.len() > FILES_MAX {
                        return Err(format!("more than {FILES_MAX} files"));
                    }
                }
                found = matches;
            }
            None => {
                found.iter_mut().for_each(|path| path.push(part));
                found.retain(|path| !has_matched || path.exists());
            }
        }
    }
    Ok(found)
}

/// Returns the names in a folder that match a pattern, in alphabetical order. Returns none if the
/// folder cannot be read.
fn names_in(folder: &Path, pattern: &str) -> impl Iterator<Item = String> + use<> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_visible = |found: &String| !found.starts_with('.') || pattern.starts_with('.');
    let matches = |found: &String| glob::matches(pattern.as_bytes(), found.as_bytes(), false);
    let mut names: Vec<String> = names.filter(is_visible).filter(matches).collect();
    names.sort();
    names.into_iter()
}

/// Splits a line into words, as Redis does. Returns `None` for an empty line or a comment.
///
/// Blanks separate words. `"…"` may contain blanks, `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH`, which
/// is one byte; a backslash before any other character has no effect. `'…'` may contain blanks and
/// `\'`. A quoted part may begin within a word, and ends the word.
pub(super) fn words(line: &str) -> Result<Option<Vec<String>>, String> {
    let mut rest = line.as_bytes().trim_ascii();
    if matches!(rest, [] | [b'#', ..]) {
        return Ok(None);
    }
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (word, after) = first_word(rest)?;
        words.push(String::from_utf8(word).map_err(|_| "expected a text in UTF-8")?);
        rest = after.trim_ascii_start();
    }
    Ok(Some(words))
}

/// Returns the first word of a line and the rest of the line.
fn first_word(line: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let (mut word, mut at) = (Vec::new(), 0);
    while let Some(byte) = line.get(at).filter(|byte| !byte.is_ascii_whitespace()) {
        if !matches!(byte, b'"' | b'\'') {
            word.push(*byte);
            at += 1;
            continue;
        }
        at = quoted(line, at, &mut word)?;
        if line.get(at).is_some_and(|next| !next.is_ascii_whitespace()) {
            return Err("a closing quote must be followed by a blank".into());
        }
        break;
    }
    Ok((word, &line[at..]))
}

/// Appends to a word the quoted part that begins at `at`. Returns the position after it.
fn quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Result<usize, String> {
    let quote = line[at];
    at += 1;
    loop {
        match (line.get(at), line.get(at + 1)) {
            (None, _) | (Some(b'\\'), None) => return Err("missing closing quote".into()),
            (Some(byte), _) if *byte == quote => return Ok(at + 1),
            (Some(b'\\'), Some(next)) if quote == b'"' => {
                let byte = (*next == b'x').then(|| hex_byte(line.get(at + 2..at + 4)?));
                match byte.flatten() {
                    Some(byte) => {
                        word.push(byte);
                        at += 4;
                    }
                    None => {
                        word.push(escaped(*next));
                        at += 2;
                    }
                }
            }
            (Some(b'\\'), Some(b'\'')) => {
                word.push(b'\'');
                at += 2;
            }
            (Some(byte), _) => {
                word.push(*byte);
                at += 1;
            }
        }
    }
}

/// Returns the byte that a letter after a backslash stands for.
fn escaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else {
        return None;
    };
    Some((digit(*high)? * 16 + digit(*low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        words(line).expect("valid").unwrap_or_default()
    }

    #[test]
    fn lines_split_into_words() {
        assert_eq!(split("port 6380"), ["port", "6380"]);
        assert_eq!(
            split("  requirepass \"a b\\\"c\" "),
            ["requirepass", "a b\"c"]
        );
        assert_eq!(split("logfile ''"), ["logfile", ""]);
        assert_eq!(split("a\tb\x0cc \r"), ["a", "b", "c"]);
        assert!(split("# port 6380").is_empty());
        assert!(split("").is_empty());
        assert!(words("a \"b").is_err());
        assert!(words("a \"b\"c").is_err());
    }

    /// Regression: `CONFIG REWRITE` of Redis writes non-ASCII bytes as `\xHH`. They were read as
    /// plain letters, which changed passwords.
    #[test]
    fn quotes_and_escapes_are_those_of_redis() {
        for (text, word) in [
            (r#""\xc3\xa9\x41""#, "\u{e9}A"),
            (r#""\xg1\x4""#, "xg1x4"),
            (r#""\a\b\n\r\t\\\"\'\q""#, "\x07\x08\n\r\t\\\"'q"),
            (r"'a\'b\n\\ c'", r"a'b\n\\ c"),
            (r#"~"a b""#, "~a b"),
            (r"a\n", r"a\n"),
        ] {
            assert_eq!(split(text), [word], "{text}");
        }
        for wrong in [
            r#""a\"#,
            r#""a\""#,
            r"'a\'",
            r#"a"b"c"#,
            r#""\xff""#,
            r#"'a"b"#,
        ] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    /// Regression: a pattern in a folder's name was refused.
    #[test]
    fn patterns_of_folders_are_expanded() {
        let folder = Folder::new("folders", &[("main.conf", "include conf.d/*/[ab]*.conf\n")]);
        for (part, file, text) in [
            ("two", "a.conf", "port 3\n"),
            ("one", "b.conf", "port 2\n"),
            ("one", "a.conf", "port 1\n"),
            ("one", "c.conf", "port 9\n"),
        ] {
            let inner = folder.0.join("conf.d").join(part);
            fs::create_dir_all(&inner).expect("a folder can be made");
            fs::write(inner.join(file), text).expect("a file can be written");
        }
        let reading = read(&folder.0.join("main.conf"));
        assert_eq!(reading.problems, Vec::<String>::new());
        let values: Vec<String> = reading.directives.iter().map(Directive::value).collect();
        assert_eq!(values, ["1", "2", "3"]);
    }

    /// A folder with given files, removed at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Folder {
            let folder = std::env::temp_dir().join(format!("mayfly-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder can be made");
            for (file, text) in files {
                fs::write(folder.join(file), text).expect("a file can be written");
            }
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let folder = Folder::new("mark", &[("main.conf", "\u{feff}port 1\nport 2\n")]);
        let reading = read(&folder.0.join("main.conf"));
        assert_eq!(reading.problems, Vec::<String>::new());
        let names = reading.directives.iter().map(|d| d.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["port", "port"]);
    }

    #[test]
    fn included_files_are_read_in_order_of_their_names() {
        let folder = Folder::new(
            "includes",
            &[
                (
                    "main.conf",
                    "port 1\ninclude part-*.conf\ninclude none-*.conf\nport 4\n",
                ),
                ("part-b.conf", "port 3\n"),
                ("part-a.conf", "PORT 2\n"),
                (".part-c.conf", "port 9\n"),
            ],
        );
        let reading = read(&folder.0.join("main.conf"));
        assert_eq!(reading.problems, Vec::<String>::new());
        let values: Vec<String> = reading.directives.iter().map(Directive::value).collect();
        assert_eq!(values, ["1", "2", "3", "4"]);
        assert!(reading.directives.iter().all(|d| d.name == "port"));
        assert!(reading.directives[2].place.ends_with("part-b.conf:1"));
    }

    #[test]
    fn circular_missing_and_endless_includes_are_problems_with_their_lines() {
        let folder = Folder::new(
            "circles",
            &[
                (
                    "a.conf",
                    "include b.conf\n\nport \"1\ninclude absent.conf\ninclude x/*/y\n",
                ),
                ("b.conf", "include *.conf\n"),
                ("c.conf", "include /dev/zero\n"),
                ("d.conf", "include one two\n"),
            ],
        );
        let problems = read(&folder.0.join("a.conf")).problems.join("\n");
        for part in [
            "b.conf:1: include:",
            "a.conf includes itself",
            "a.conf:3: missing closing quote",
            "absent.conf: No such file",
        ] {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        let problems = read(&folder.0.join("c.conf")).problems.join("\n");
        let expected = "/dev/zero: expected a regular file";
        assert!(problems.contains(expected), "{problems}");
        let problems = read(&folder.0.join("d.conf")).problems.join("\n");
        assert!(
            problems.contains("d.conf:1: include: expected one file name"),
            "{problems}"
        );
    }
}
