//! PROXY protocol, versions 1 and 2: the address of the client, which a balancer sends before the
//! first byte of a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of bytes that distinguish the versions and end no header.
pub const FIRST_BYTES: usize = 12;
/// Maximum length of a header of version 1, with its end.
pub const LINE_BYTES_MAX: usize = 107;
/// Number of bytes of version 2 after the first ones and before the addresses.
pub const FIXED_BYTES: usize = 4;
/// Maximum number of bytes of addresses and further values in version 2.
pub const REST_BYTES_MAX: usize = 2_048;

const SIGNATURE: [u8; FIRST_BYTES] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Version of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A line of text.
    Line,
    /// Bytes with a length.
    Binary,
}

/// Returns the version of a header by its first bytes; `None` if there is no header.
pub fn version(first: &[u8; FIRST_BYTES]) -> Option<Version> {
    match first {
        &SIGNATURE => Some(Version::Binary),
        first if first.starts_with(b"PROXY ") => Some(Version::Line),
        _ => None,
    }
}

/// Reads a line of version 1 with its end. Returns the client's address, or `None` for the peer
/// itself.
///
/// # Errors
/// Returns an error if the line is malformed.
pub fn line(line: &[u8]) -> Result<Option<IpAddr>, &'static str> {
    const EXPECTED: &str =
        "PROXY protocol: expected PROXY TCP4 or TCP6, two addresses and two ports";
    let text = line.strip_suffix(b"\r\n").ok_or(EXPECTED)?;
    let text = std::str::from_utf8(text).map_err(|_| EXPECTED)?;
    let words: Vec<&str> = text.split(' ').collect();
    let (kind, source) = match words[..] {
        ["PROXY", "UNKNOWN", ..] => return Ok(None),
        ["PROXY", kind, source, _, from, to] if is_port(from) && is_port(to) => (kind, source),
        _ => return Err(EXPECTED),
    };
    let address: IpAddr = source.parse().map_err(|_| EXPECTED)?;
    match (kind, address.is_ipv4()) {
        ("TCP4", true) | ("TCP6", false) => Ok(Some(address)),
        _ => Err(EXPECTED),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Returns the number of bytes that follow the fixed ones of version 2.
///
/// # Errors
/// Returns an error if the header is too long.
pub fn rest_bytes(fixed: [u8; FIXED_BYTES]) -> Result<usize, &'static str> {
    let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    match length <= REST_BYTES_MAX {
        true => Ok(length),
        false => Err("PROXY protocol: expected at most 2,048 bytes of addresses and values"),
    }
}

/// Reads the fixed bytes and the rest of version 2. Returns the client's address, or `None` for the
/// peer itself.
///
/// # Errors
/// Returns an error if the header is malformed.
pub fn binary(fixed: [u8; FIXED_BYTES], rest: &[u8]) -> Result<Option<IpAddr>, &'static str> {
    let [command, family, ..] = fixed;
    match command {
        // Health checks of the balancer itself.
        0x20 => return Ok(None),
        0x21 => {}
        _ => return Err("PROXY protocol: expected version 2 with LOCAL or PROXY"),
    }
    let short = "PROXY protocol: expected two addresses and two ports";
    match family >> 4 {
        1 if rest.len() >= 12 => {
            let source: [u8; 4] = rest[..4].try_into().map_err(|_| short)?;
            Ok(Some(Ipv4Addr::from(source).into()))
        }
        2 if rest.len() >= 36 => {
            let source: [u8; 16] = rest[..16].try_into().map_err(|_| short)?;
            Ok(Some(Ipv6Addr::from(source).to_canonical()))
        }
        1 | 2 => Err(short),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read() {
        let of = |text: &str| line(text.as_bytes());
        let client = Ok(Some(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(of("PROXY TCP4 192.0.2.1 10.0.0.1 5000 80\r\n"), client);
        let long = "PROXY TCP6 2001:db8::1 ::1 65535 65535\r\n";
        assert_eq!(of(long), Ok("2001:db8::1".parse().ok()));
        assert_eq!(of("PROXY UNKNOWN\r\n"), Ok(None));
        assert_eq!(of("PROXY UNKNOWN ::1 ::1 1 2\r\n"), Ok(None));
        for text in [
            "PROXY TCP4 192.0.2.1 10.0.0.1 5000 80\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 70000 80\r\n",
            "PROXY TCP4 192.0.2.1\r\n",
            "PROXY UDP4 192.0.2.1 10.0.0.1 1 2\r\n",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn binary_headers_are_read() {
        let fixed = [0x21, 0x11, 0, 12];
        let rest = [192, 0, 2, 1, 10, 0, 0, 1, 0, 9, 0, 80];
        assert_eq!(rest_bytes(fixed), Ok(12));
        assert_eq!(binary(fixed, &rest), Ok(Some([192, 0, 2, 1].into())));
        assert!(binary(fixed, &rest[..11]).is_err());
        assert_eq!(binary([0x20, 0, 0, 0], &[]), Ok(None));
        assert_eq!(binary([0x21, 0, 0, 0], &[]), Ok(None));
        assert!(binary([0x11, 0x11, 0, 12], &rest).is_err());
        let mut long = [0; 36];
        long[15] = 1;
        let client = binary([0x21, 0x21, 0, 36], &long);
        assert_eq!(client, Ok("::1".parse().ok()));
        assert!(rest_bytes([0x21, 0x11, 9, 0]).is_err());
        assert_eq!(version(&SIGNATURE), Some(Version::Binary));
        assert_eq!(version(b"PROXY TCP4 1"), Some(Version::Line));
        assert_eq!(version(b"GET / HTTP/1"), None);
    }

    proptest! {
        #[test]
        fn damaged_headers_are_refused_or_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            fixed: [u8; 4],
        ) {
            let _ = (line(&bytes), binary(fixed, &bytes), rest_bytes(fixed));
        }
    }
}
