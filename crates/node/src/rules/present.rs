//! Kinds of fields that a request has, found in one pass over their names, so that a request with
//! few fields is not searched for dozens of others.

use super::fields::{is_hop_by_hop, is_unkeyed};
use hyper::header::HeaderMap;

/// Set of kinds of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Present(u16);

impl Present {
    /// Fields of a single connection, including Connection, which may list more.
    pub const HOP_BY_HOP: Present = Present(1);
    /// Fields by which programs choose a response outside of the key.
    pub const UNKEYED: Present = Present(2);
    /// The field Via.
    pub const VIA: Present = Present(4);
    /// Cache-Control and Pragma.
    pub const CACHE: Present = Present(8);
    /// Fields that make a request conditional.
    pub const CONDITION: Present = Present(16);
    /// The field Range.
    pub const RANGE: Present = Present(32);
    /// Content-Length and Transfer-Encoding.
    pub const FRAMING: Present = Present(64);
    /// The field Expect.
    pub const EXPECT: Present = Present(128);
    /// The field Authorization.
    pub const CREDENTIALS: Present = Present(256);

    /// Length of the longest name that has a kind.
    const NAME_BYTES_MAX: usize = 25;

    /// Returns the kinds of the fields of a request.
    pub fn of(headers: &HeaderMap) -> Self {
        let kinds = headers.keys().map(|name| Present::of_name(name.as_str()));
        Present(kinds.fold(0, |all, kind| all | kind.0))
    }

    /// Returns the kinds of fields by their names, in any case.
    pub fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Present::default();
        for name in names {
            let mut lower = [0; Present::NAME_BYTES_MAX];
            // Longer names have no kind, unless they contain an underscore.
            let Some(lower) = lower.get_mut(..name.len()) else {
                if is_unkeyed(name) {
                    all.0 |= Present::UNKEYED.0;
                }
                continue;
            };
            lower.copy_from_slice(name.as_bytes());
            lower.make_ascii_lowercase();
            let kind = std::str::from_utf8(lower).map(Present::of_name);
            all.0 |= kind.unwrap_or_default().0;
        }
        all
    }

    /// Returns true if there is a field of this kind.
    pub fn has(self, kind: Present) -> bool {
        self.0 & kind.0 != 0
    }

    fn of_name(name: &str) -> Present {
        match name {
            "via" => Present::VIA,
            "cache-control" | "pragma" => Present::CACHE,
            "if-match"
            | "if-none-match"
            | "if-modified-since"
            | "if-unmodified-since"
            | "if-range" => Present::CONDITION,
            "range" => Present::RANGE,
            "content-length" => Present::FRAMING,
            "expect" => Present::EXPECT,
            "authorization" => Present::CREDENTIALS,
            "transfer-encoding" => Present(Present::FRAMING.0 | Present::HOP_BY_HOP.0),
            _ if is_hop_by_hop(name) => Present::HOP_BY_HOP,
            _ if is_unkeyed(name) => Present::UNKEYED,
            _ => Present(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{conditional, fields};
    use hyper::header::{HeaderName, HeaderValue};

    fn of(names: &[&'static str]) -> (HeaderMap, Present) {
        let mut headers = HeaderMap::new();
        for name in names {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_static("x"));
        }
        let present = Present::of(&headers);
        (headers, present)
    }

    #[test]
    fn fields_without_a_meaning_for_the_cache_have_no_kind() {
        let (_, present) = of(&["host", "accept", "user-agent", "cookie", "x-forwarded"]);
        assert_eq!(present, Present::default());
    }

    #[test]
    fn every_field_that_is_removed_has_a_kind() {
        for name in fields::HOP_BY_HOP {
            assert!(of(&[name]).1.has(Present::HOP_BY_HOP), "{name}");
        }
        for name in fields::UNKEYED {
            assert!(of(&[name]).1.has(Present::UNKEYED), "{name}");
        }
    }

    #[test]
    fn every_condition_has_a_kind() {
        for name in conditional::FIELDS {
            let (_, present) = of(&["host", name, "accept"]);
            assert!(present.has(Present::CONDITION), "{name}");
        }
    }

    #[test]
    fn names_with_capital_letters_have_the_same_kinds() {
        let others = ["via", "range", "content-length", "expect", "authorization"];
        let names = fields::HOP_BY_HOP.iter().chain(&fields::UNKEYED);
        let names = names.chain(&conditional::FIELDS).chain(&others);
        for name in names {
            let (_, present) = of(&[name]);
            assert_ne!(present, Present::default(), "{name}");
            assert!(name.len() <= Present::NAME_BYTES_MAX, "{name}");
            for name in [name.to_string(), name.to_ascii_uppercase()] {
                assert_eq!(Present::of_names([&*name].into_iter()), present, "{name}");
            }
        }
        let long = "x".repeat(Present::NAME_BYTES_MAX + 1);
        let names = ["Host", "Accept", "Cookie", "", &long];
        assert_eq!(Present::of_names(names.into_iter()), Present::default());
    }

    #[test]
    fn kinds_are_combined() {
        let (_, present) = of(&["range", "via", "pragma", "transfer-encoding"]);
        let kinds = [
            (Present::RANGE, true),
            (Present::VIA, true),
            (Present::CACHE, true),
            (Present::FRAMING, true),
            (Present::HOP_BY_HOP, true),
            (Present::UNKEYED, false),
            (Present::CONDITION, false),
        ];
        for (kind, is_there) in kinds {
            assert_eq!(present.has(kind), is_there, "{kind:?}");
        }
    }
}
