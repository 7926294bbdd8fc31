//! The first line of a script or function library: `#!lua name=… flags=…`.

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
    /// The script has no first line, so that the rules of old scripts hold.
    pub const COMPATIBLE: Flags = Flags(32);

    /// Names that scripts use.
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
pub struct Header<'a> {
    /// Name of the engine after `#!`.
    pub engine: &'a [u8],
    /// Options after the engine.
    options: Vec<&'a [u8]>,
    /// Length of the line without its end. The code begins there, so that lines keep their numbers.
    pub len: usize,
}

/// Reason why a first line was refused, as Redis states it.
pub type HeaderError = String;

impl<'a> Header<'a> {
    /// Parses the first line; returns `None` if the text does not begin with `#!`.
    ///
    /// # Errors
    /// The line has no end or names no engine.
    pub fn parse(text: &'a [u8], invalid: &str) -> Result<Option<Header<'a>>, HeaderError> {
        let Some(rest) = text.strip_prefix(b"#!") else {
            return Ok(None);
        };
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| format!("ERR {invalid}"))?;
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let mut parts = rest[..end].split(blank).filter(|part| !part.is_empty());
        let engine = parts.next().ok_or_else(|| format!("ERR {invalid}"))?;
        Ok(Some(Header {
            engine,
            options: parts.collect(),
            len: end + 2,
        }))
    }

    /// Reads the flags of a script for EVAL.
    ///
    /// # Errors
    /// The engine, an option or a flag is unknown.
    pub fn script_flags(&self) -> Result<Flags, HeaderError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if self.engine != b"lua" {
            let engine = text(self.engine);
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        let mut flags = Flags::default();
        for option in &self.options {
            let Some(names) = option.strip_prefix(b"flags=") else {
                let option = text(option);
                return Err(format!("ERR Unknown lua shebang option: {option}"));
            };
            for name in names
                .split(|byte| *byte == b',')
                .filter(|name| !name.is_empty())
            {
                let flag = Flags::named(name);
                flags.add(flag.ok_or_else(|| {
                    format!("ERR Unexpected flag in script shebang: {}", text(name))
                })?);
            }
        }
        Ok(flags)
    }

    /// Reads the name of a function library.
    ///
    /// # Errors
    /// The name is missing or given twice, or an option is unknown.
    pub fn library_name(&self) -> Result<&'a [u8], HeaderError> {
        let mut name = None;
        for option in &self.options {
            let Some(given) = option.strip_prefix(b"name=") else {
                let option = String::from_utf8_lossy(option).into_owned();
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

    #[test]
    fn flags_of_a_script_are_read() {
        let read = |text: &str| {
            let header = Header::parse(text.as_bytes(), "Invalid script shebang");
            header.map(|header| header.map(|header| header.script_flags()))
        };
        assert_eq!(read("return 1"), Ok(None));
        assert_eq!(read("#!lua\nreturn 1"), Ok(Some(Ok(Flags::default()))));
        let flags = read("#!lua flags=no-writes,allow-oom\nreturn 1");
        let flags = flags.expect("valid").expect("a header").expect("flags");
        assert!(flags.has(Flags::NO_WRITES) && flags.has(Flags::ALLOW_OOM));
        assert_eq!(
            flags.names().collect::<Vec<_>>(),
            ["no-writes", "allow-oom"]
        );
        for (text, error) in [
            ("#!py\n", "ERR Unexpected engine in script shebang: py"),
            ("#!lua x=1\n", "ERR Unknown lua shebang option: x=1"),
            (
                "#!lua flags=a\n",
                "ERR Unexpected flag in script shebang: a",
            ),
        ] {
            assert_eq!(read(text), Ok(Some(Err(error.to_string()))));
        }
        assert_eq!(read("#!lua"), Err("ERR Invalid script shebang".to_string()));
        assert_eq!(read("#!\n"), Err("ERR Invalid script shebang".to_string()));
    }

    #[test]
    fn the_name_of_a_library_is_read() {
        let read = |text: &str| {
            let header = Header::parse(text.as_bytes(), "Invalid library metadata");
            let header = header.expect("valid").expect("a header");
            header
                .library_name()
                .map(|name| String::from_utf8_lossy(name).into_owned())
        };
        assert_eq!(read("#!lua name=x\n"), Ok("x".to_string()));
        assert!(read("#!lua\n").is_err());
        assert!(read("#!lua name=a name=b\n").is_err());
        assert!(read("#!lua foo=a\n").is_err());
    }
}
