//! The first bytes of a file: the server and the version of its format.

use crate::dump::version;

/// Length of the header.
pub const HEADER_BYTES: usize = 9;

/// Bytes in place of the header until the file is complete. No server accepts them.
pub const HEADER_PENDING: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// Version of this server's own format.
const MAYFLY: u16 = 1;

/// Version of the format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Read by Redis; up to version 11 also by Valkey.
    Redis(u16),
    /// Read by Valkey.
    Valkey(u16),
    /// Read only by this server.
    Mayfly(u16),
}

impl Version {
    /// Version of plain types, which Redis since 5 and Valkey read.
    pub const PLAIN: Version = Version::Redis(version::PLAIN);

    /// Returns the version that has a type with this number and first version.
    pub(super) fn of_type(code: u8, since: u16) -> Version {
        match since {
            _ if crate::dump::is_own_type(code) => Version::Mayfly(MAYFLY),
            version::VALKEY.. => Version::Valkey(since),
            _ => Version::Redis(since),
        }
    }

    /// Returns the lowest version that has the types of both versions.
    #[must_use]
    pub fn and(self, other: Version) -> Version {
        use Version::{Mayfly, Redis, Valkey};
        match (self, other) {
            (Redis(one), Redis(two)) => Redis(one.max(two)),
            (Valkey(one), Valkey(two)) => Valkey(one.max(two)),
            (Redis(redis), Valkey(valkey)) | (Valkey(valkey), Redis(redis))
                if redis < version::REDIS =>
            {
                Valkey(valkey)
            }
            // Redis and Valkey have different types since then.
            _ => Mayfly(MAYFLY),
        }
    }

    /// Returns the header of a file.
    pub fn header(self) -> [u8; HEADER_BYTES] {
        let (mut header, number) = match self {
            Version::Redis(number) => (*b"REDIS0000", number),
            Version::Valkey(number) => (*b"VALKEY000", number),
            Version::Mayfly(number) => (*b"MAYFLY000", number),
        };
        assert!(number < 1000, "a version has three digits");
        for (place, divisor) in [100, 10, 1].into_iter().enumerate() {
            header[6 + place] = b'0' + (number / divisor % 10) as u8;
        }
        header
    }

    /// Returns the version in a header; `None` if this server cannot read it.
    pub fn read(header: [u8; HEADER_BYTES]) -> Option<Version> {
        let (server, digits) = header.split_at(6);
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        match (server, number) {
            (b"REDIS0", 1..version::VALKEY) => Some(Version::Redis(number)),
            (b"VALKEY", version::VALKEY..=version::MAX) => Some(Version::Valkey(number)),
            (b"MAYFLY", MAYFLY) => Some(Version::Mayfly(number)),
            _ => None,
        }
    }

    /// Describes the servers that load a file of this version, unless Redis and Valkey both do.
    pub fn readers(self) -> Option<&'static str> {
        match self {
            Version::Redis(..version::REDIS) => None,
            Version::Redis(version::REDIS) => Some("only Mayfly and Redis since 7.4 load"),
            Version::Redis(_) => Some("only Mayfly and Redis since 8.6 load"),
            Version::Valkey(_) => Some("only Mayfly and Valkey since 9 load"),
            Version::Mayfly(_) => Some("only Mayfly loads"),
        }
    }

    /// Whether a file that begins with these bytes is a snapshot of any version, including versions
    /// that this server cannot read. Six bytes are enough.
    #[must_use]
    pub fn is_begun(first: &[u8]) -> bool {
        let marks: [&[u8]; 3] = [b"REDIS", b"VALKEY", b"MAYFLY"];
        marks.iter().any(|mark| first.starts_with(mark))
    }

    /// Returns the number by which types are read, because type 22 differs between Redis and
    /// Valkey.
    pub(super) fn number(self) -> u16 {
        match self {
            Version::Redis(number) | Version::Valkey(number) => number,
            Version::Mayfly(_) => version::VALKEY,
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Version::Redis(number) => write!(f, "Redis's version {number}"),
            Version::Valkey(number) => write!(f, "Valkey's version {number}"),
            Version::Mayfly(number) => write!(f, "Mayfly's version {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_version_that_has_both_is_chosen() {
        use Version::{Mayfly, Redis, Valkey};
        for (one, two, both) in [
            (Redis(9), Redis(9), Redis(9)),
            (Redis(9), Redis(12), Redis(12)),
            (Redis(11), Valkey(80), Valkey(80)),
            (Redis(12), Valkey(80), Mayfly(1)),
            (Redis(9), Mayfly(1), Mayfly(1)),
            (Mayfly(1), Valkey(80), Mayfly(1)),
        ] {
            assert_eq!((one.and(two), two.and(one)), (both, both), "{one} {two}");
            assert_eq!(Version::read(both.header()), Some(both));
            assert!(Version::is_begun(&both.header()[..6]), "{both}");
        }
        for (version, readers) in [
            (Redis(11), None),
            (Redis(12), Some("only Mayfly and Redis since 7.4 load")),
            (Redis(13), Some("only Mayfly and Redis since 8.6 load")),
            (Valkey(80), Some("only Mayfly and Valkey since 9 load")),
            (Mayfly(1), Some("only Mayfly loads")),
        ] {
            assert_eq!(version.readers(), readers, "{version}");
        }
        assert_eq!(Redis(9).header(), *b"REDIS0009");
        assert_eq!(Valkey(80).header(), *b"VALKEY080");
        for header in [
            b"REDIS0000",
            b"REDIS0080",
            b"REDIS1001",
            b"VALKEY011",
            b"MAYFLY002",
            b"REDIS00+9",
            &HEADER_PENDING,
        ] {
            assert_eq!(Version::read(*header), None, "{}", header.escape_ascii());
        }
    }
}
