//! Client and scheme of a request that has come through trusted proxies (X-Forwarded-For,
//! X-Forwarded-Proto).

use hyper::header::HeaderMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Range of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    /// Number of leading bits that all addresses share.
    bits: u8,
}

/// Error for a text that is not a [`Network`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidNetwork(String);

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = "expected an address such as 10.0.0.1, or a range such as 10.0.0.0/8";
        write!(f, "'{}': {expected}", self.0)
    }
}

impl std::error::Error for InvalidNetwork {}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| invalid())?,
            None => bits_max,
        };
        match bits <= bits_max {
            true => Ok(Network { address, bits }),
            false => Err(invalid()),
        }
    }
}

impl Network {
    /// Returns true if the range has an address.
    pub fn has(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.bits)
    }
}

/// Returns true if one of the ranges has an address.
pub fn is_trusted(trusted: &[Network], address: IpAddr) -> bool {
    trusted.iter().any(|network| network.has(address))
}

/// Returns the client of a request that a trusted peer has sent: the last address in
/// X-Forwarded-For that is not trusted, because everything before it may be invented.
pub fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let members = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    let mut last = peer;
    for member in members {
        let text = std::str::from_utf8(member).unwrap_or_default().trim();
        let Ok(address) = text.parse::<IpAddr>() else {
            break;
        };
        last = address.to_canonical();
        if !is_trusted(trusted, last) {
            break;
        }
    }
    last
}

/// Returns whether the client of a trusted peer uses TLS, if the peer says so.
pub fn is_tls(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-forwarded-proto")?.as_bytes() {
        b"https" => Some(true),
        b"http" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        let all = texts
            .iter()
            .map(|text| text.parse().expect("the text is valid"));
        all.collect()
    }

    #[test]
    fn ranges_are_read_and_others_refused() {
        let all = networks(&["10.0.0.0/8", "::1", "2001:db8::/32", "192.0.2.1"]);
        for (address, is_in) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("::1", true),
            ("::2", false),
            ("2001:db8:ffff::1", true),
            ("2001:db9::1", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("::ffff:10.0.0.1", true),
        ] {
            let address = address.parse().expect("the text is valid");
            assert_eq!(is_trusted(&all, address), is_in, "{address}");
        }
        for text in ["", "a", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert!(networks(&["0.0.0.0/0"])[0].has([1, 2, 3, 4].into()));
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_trusted() {
        let trusted = networks(&["10.0.0.0/8"]);
        let peer = IpAddr::from([10, 0, 0, 1]);
        for (lines, expected) in [
            (&[][..], "10.0.0.1"),
            (&["1.2.3.4"], "1.2.3.4"),
            (&["9.9.9.9, 1.2.3.4, 10.0.0.2"], "1.2.3.4"),
            (&["9.9.9.9", "1.2.3.4,10.0.0.2"], "1.2.3.4"),
            (&["x, 10.0.0.2"], "10.0.0.2"),
            (&["unknown"], "10.0.0.1"),
            (&["2001:db8::1"], "2001:db8::1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", HeaderValue::from_static(line));
            }
            let found = client(peer, &headers, &trusted).to_string();
            assert_eq!(found, expected, "{lines:?}");
        }
    }

    #[test]
    fn the_scheme_is_read_if_it_is_known() {
        let mut headers = HeaderMap::new();
        assert_eq!(is_tls(&headers), None);
        for (text, expected) in [("https", Some(true)), ("http", Some(false)), ("ws", None)] {
            headers.insert("x-forwarded-proto", HeaderValue::from_static(text));
            assert_eq!(is_tls(&headers), expected);
        }
    }

    proptest! {
        #[test]
        fn ranges_compare_the_leading_bits(own: u32, other: u32, bits in 0_u8..=32) {
            let network = Network { address: IpAddr::V4(own.into()), bits };
            let shift = 32 - u32::from(bits);
            let is_same = own.checked_shr(shift) == other.checked_shr(shift);
            prop_assert_eq!(network.has(IpAddr::V4(other.into())), is_same);
        }
    }
}
