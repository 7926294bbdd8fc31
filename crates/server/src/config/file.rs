//! Reader of files in the format of redis.conf.
//!
//! A line is `name value…`. Quotes protect blanks, a line that begins with `#` is a comment, and
//! `include` reads other files. This module splits files into directives with their places; `load`
//! judges them.

use crate::files;
use crate::glob;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum depth of nested includes.
const INCLUDE_DEPTH_MAX: usize = 8;
/// Maximum number of files that one start reads, so that includes of whole folders end.
const FILES_MAX: usize = 1_000;
/// Maximum size of one file, so that an include of a device ends.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// One setting in a file, in the environment or on the command line.
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
    /// Returns the words of the value, joined by blanks.
    pub fn value(&self) -> String {
        self.words.join(" ")
    }
}

/// Directives of a file and of the files that it includes, in their order, and what is wrong in
/// them.
#[derive(Debug, Default)]
pub struct Reading {
    /// Directives in the order of the lines.
    pub directives: Vec<Directive>,
    /// Errors with file and line.
    pub problems: Vec<String>,
    file_count: usize,
}

/// Reads a file and the files that it includes.
pub fn read(path: &Path) -> Reading {
    let mut reading = Reading::default();
    reading.file(path, &mut Vec::new());
    reading
}

impl Reading {
    /// Reads one file. `open` has the files that include it, the outermost first.
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

    /// Reads the files that a line of `path` includes.
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
    Ok(text)
}

/// Returns the files whose names match a pattern, in alphabetical order. A pattern without `*`, `?`
/// and `[` is a file, whether it exists or not.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let is_pattern = |text: &str| text.contains(['*', '?', '[']);
    let name = pattern.file_name().and_then(|name| name.to_str());
    let name = name.ok_or("expected a file name")?;
    let folder = pattern.parent().unwrap_or(Path::new("."));
    if folder.to_str().is_some_and(is_pattern) {
        return Err("a pattern is accepted in the file name only, not in a folder".to_owned());
    }
    if !is_pattern(name) {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_visible = |found: &String| !found.starts_with('.') || name.starts_with('.');
    let matches = |found: &String| glob::matches(name.as_bytes(), found.as_bytes(), false);
    let mut names: Vec<String> = names.filter(is_visible).filter(matches).collect();
    names.sort();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Splits a line into words. Returns `None` for an empty line or a comment.
pub(super) fn words(line: &str) -> Result<Option<Vec<String>>, String> {
    let mut words = Vec::new();
    let mut chars = line.trim().chars().peekable();
    if matches!(chars.peek(), None | Some('#')) {
        return Ok(None);
    }
    while chars.peek().is_some() {
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        let Some(first) = chars.peek().copied() else {
            break;
        };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            chars.next();
            quoted(&mut chars, first, &mut word)?;
        } else {
            while let Some(letter) = chars.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
    Ok(Some(words))
}

fn quoted(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
    word: &mut String,
) -> Result<(), String> {
    loop {
        match chars.next() {
            None => return Err("missing closing quote".into()),
            Some(letter) if letter == quote => {
                return match chars.peek() {
                    Some(next) if !next.is_whitespace() => {
                        Err("a closing quote must be followed by a blank".into())
                    }
                    _ => Ok(()),
                };
            }
            Some('\\') => match chars.next() {
                Some('n') if quote == '"' => word.push('\n'),
                Some('r') if quote == '"' => word.push('\r'),
                Some('t') if quote == '"' => word.push('\t'),
                Some(other) if quote == '"' || other == '\'' => word.push(other),
                Some(other) => word.extend(['\\', other]),
                None => return Err("missing closing quote".into()),
            },
            Some(letter) => word.push(letter),
        }
    }
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
        assert!(split("# port 6380").is_empty());
        assert!(split("").is_empty());
        assert!(words("a \"b").is_err());
        assert!(words("a \"b\"c").is_err());
    }

    /// A folder with these files, which is removed at the end of the test.
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
            "a.conf:5: include: a pattern",
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
