//! First line of a script or function library: `#!lua name=… flags=…`. Its words may be quoted, as
//! in an inline command.

use wire::Span;
use wire::inline::{UnbalancedQuotes, split_words};

/// Flags of a script or function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The script does not write.
    pub const NO_WRITES: Flags = Flags(1);
    /// The script may run when memory is full.
    pub const ALLOW_OOM: Flags = Flags(2);
    /// The script may run on a stale replica.
    pub const ALLOW_STALE: Flags = Flags(4);
    /// The script refuses to run in a cluster.
    pub const NO_CLUSTER: Flags = Flags(8);
    /// The script may access keys of several slots.
    pub const ALLOW_CROSS_SLOT: Flags = Flags(16);
    /// The script has no first line and follows the rules for older scripts.
    pub const COMPATIBLE: Flags = Flags(32);

    /// Names of the flags in scripts.
    const NAMES: [(&'static str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT),
    ];

    /// Whether all of these flags are set.
    pub fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Sets these flags too.
    pub fn add(&mut self, flags: Flags) {
        self.0 |= flags.0;
    }

    /// Returns the flag with this name.
    pub fn named(name: &[u8]) -> Option<Flags> {
        let found = Flags::NAMES
            .iter()
            .find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, flag)| *flag)
    }

    /// Returns the names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Flags::NAMES.iter().filter(move |(_, flag)| self.has(*flag));
        set.map(|(name, _)| *name)
    }
}

/// The parsed first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Words of the line. The first begins with `#!`.
    words: Vec<Vec<u8>>,
    /// Length of the line without its line end. The code begins with the line end, so that line
    /// numbers stay correct.
    pub len: usize,
}

/// Reason why a line cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The line end is missing.
    NoEnd,
    /// A quote is not closed, or a closing quote is not followed by a blank.
    Quotes,
}

/// Reason why a first line was rejected, in Redis's words.
pub type HeaderError = String;

/// Returns the text after a prefix, whose case is ignored.
fn after<'a>(word: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let (start, rest) = word.split_at_checked(prefix.len())?;
    start
        .eq_ignore_ascii_case(prefix.as_bytes())
        .then_some(rest)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Header {
    /// Parses the first line; returns `None` if the text does not begin with `#!`.
    ///
    /// # Errors
    /// The line end is missing, or quotes are not balanced.
    pub fn parse(text: &[u8]) -> Result<Option<Header>, Unreadable> {
        if !text.starts_with(b"#!") {
            return Ok(None);
        }
        let end = text.iter().position(|byte| *byte == b'\n');
        let len = end.ok_or(Unreadable::NoEnd)?;
        let mut line = text[..len].to_vec();
        let mut spans = Vec::new();
        split_words(&mut line, &mut spans).map_err(|UnbalancedQuotes| Unreadable::Quotes)?;
        let word = |span: &Span| {
            let start = span.start as usize;
            line[start..start + span.len as usize].to_vec()
        };
        Ok(Some(Header {
            words: spans.iter().map(word).collect(),
            len,
        }))
    }

    /// Returns the word with the engine's name, including `#!`.
    fn engine_word(&self) -> &[u8] {
        self.words.first().map_or(b"#!", Vec::as_slice)
    }

    /// Returns the name of the engine.
    pub fn engine(&self) -> &[u8] {
        self.engine_word().get(2..).unwrap_or_default()
    }

    fn options(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().skip(1).map(Vec::as_slice)
    }

    /// Reads the flags of a script for EVAL.
    ///
    /// # Errors
    /// The engine, an option or a flag is unknown.
    pub fn script_flags(&self) -> Result<Flags, HeaderError> {
        if self.engine() != b"lua" {
            let engine = shown(self.engine_word());
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        let mut flags = Flags::default();
        for option in self.options() {
            let Some(names) = option.strip_prefix(b"flags=") else {
                let option = shown(option);
                return Err(format!("ERR Unknown lua shebang option: {option}"));
            };
            if names.is_empty() {
                continue;
            }
            for name in names.split(|byte| *byte == b',') {
                let flag = Flags::named(name);
                flags.add(flag.ok_or_else(|| {
                    format!("ERR Unexpected flag in script shebang: {}", shown(name))
                })?);
            }
        }
        Ok(flags)
    }

    /// Reads a function library's name.
    ///
    /// # Errors
    /// The name is missing or given twice, or an option is unknown.
    pub fn library_name(&self) -> Result<&[u8], HeaderError> {
        let mut name = None;
        for option in self.options() {
            let Some(given) = after(option, "name=") else {
                let option = shown(option);
                return Err(format!("ERR Invalid metadata value given: {option}"));
            };
            if name.replace(given).is_some() {
                let text = "ERR Invalid metadata value, name argument was given multiple times";
                return Err(text.into());
            }
        }
        name.ok_or_else(|| "ERR Library name was not given".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Header {
        let header = Header::parse(text.as_bytes()).expect("a readable line");
        header.expect("a header")
    }

    #[test]
    fn flags_of_a_script_are_read() {
        assert_eq!(Header::parse(b"return 1"), Ok(None));
        let flags = |text: &str| header(text).script_flags();
        assert_eq!(flags("#!lua\nreturn 1"), Ok(Flags::default()));
        assert_eq!(flags("#!lua flags=\n"), Ok(Flags::default()));
        // Regression: quotes were part of the words.
        for text in [
            "#!lua flags=no-writes,allow-oom\nreturn 1",
            "#!lua flags=\"no-writes,allow-oom\"\n",
            "#!\"lua\" 'flags=no-writes' flags='allow-oom'\n",
        ] {
            let flags = flags(text).expect("valid flags");
            let names: Vec<&str> = flags.names().collect();
            assert_eq!(names, ["no-writes", "allow-oom"], "{text}");
        }
        for (text, error) in [
            ("#!py\n", "ERR Unexpected engine in script shebang: #!py"),
            ("#!\n", "ERR Unexpected engine in script shebang: #!"),
            ("#! lua\n", "ERR Unexpected engine in script shebang: #!"),
            ("#!lua x=1\n", "ERR Unknown lua shebang option: x=1"),
            (
                "#!lua flags=a\n",
                "ERR Unexpected flag in script shebang: a",
            ),
            (
                "#!lua flags=no-writes,\n",
                "ERR Unexpected flag in script shebang: ",
            ),
        ] {
            assert_eq!(flags(text), Err(error.to_string()), "{text}");
        }
    }

    #[test]
    fn a_line_without_an_end_or_with_open_quotes_is_unreadable() {
        assert_eq!(Header::parse(b"#!lua"), Err(Unreadable::NoEnd));
        for text in ["#!lua name=\"x\n", "#!lua name=\"x\"y\n", "#!'lua\n"] {
            let parsed = Header::parse(text.as_bytes());
            assert_eq!(parsed, Err(Unreadable::Quotes), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_library_is_read() {
        // Regression: quotes were part of the name, and the case of `name` mattered.
        for text in [
            "#!lua name=x\n",
            "#!lua\tname=x\r\n",
            "#!lua name=\"x\"\n",
            "#!lua name='x'\n",
            "#!lua 'name=x'\n",
            "#!lua name=\"\\x78\"\n",
            "#!lua NAME=x\n",
        ] {
            assert_eq!(header(text).library_name(), Ok(&b"x"[..]), "{text}");
        }
        for text in ["#!lua\n", "#!lua name=a name=b\n", "#!lua foo=a\n"] {
            assert!(header(text).library_name().is_err(), "{text}");
        }
    }
}
