//! Selection among the responses of one URL by request fields (RFC 9111, section 4.1).

use super::fields::Lines;
use hyper::header::{HeaderMap, HeaderName};

/// Maximum number of fields that Vary may list. A response with more is not stored.
const FIELDS_MAX: usize = 16;

/// Request fields by which a response was selected, with their normalized values; `None` for an
/// absent field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection(Vec<(HeaderName, Option<Vec<u8>>)>);

impl Selection {
    /// Reads the request fields that the response lists in Vary. Returns `None` if the response
    /// must not be reused: `*`, a malformed name, or too many names.
    pub fn of(request: &impl Lines, response: &HeaderMap) -> Option<Self> {
        let mut fields: Vec<(HeaderName, Option<Vec<u8>>)> = vec![];
        for line in response.get_all("vary") {
            for name in line.as_bytes().split(|&byte| byte == b',') {
                let name = name.trim_ascii();
                if name.is_empty() {
                    continue;
                }
                // `*` is a valid token, and must be checked separately.
                let name = HeaderName::from_bytes(name)
                    .ok()
                    .filter(|name| name != "*")?;
                if fields.iter().any(|(known, _)| *known == name) {
                    continue;
                }
                if fields.len() == FIELDS_MAX {
                    return None;
                }
                let value = normalised(&name, request);
                fields.push((name, value));
            }
        }
        fields.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        Some(Selection(fields))
    }

    /// Returns the fields in the order of their names, for storage.
    pub fn fields(&self) -> &[(HeaderName, Option<Vec<u8>>)] {
        &self.0
    }

    /// Creates a selection from fields that [`Selection::fields`] has returned.
    pub fn from_fields(fields: Vec<(HeaderName, Option<Vec<u8>>)>) -> Self {
        Selection(fields)
    }

    /// Returns true if a request has the same values.
    pub fn matches(&self, request: &impl Lines) -> bool {
        let is_equal =
            |(name, value): &(HeaderName, Option<Vec<u8>>)| normalised(name, request) == *value;
        self.0.iter().all(is_equal)
    }

    /// Returns the size in memory in bytes.
    pub fn bytes(&self) -> usize {
        let of = |value: &Option<Vec<u8>>| 56 + value.as_ref().map_or(0, Vec::len);
        self.0.iter().map(|(_, value)| of(value)).sum()
    }
}

/// Joins the lines of a field, and removes white space around commas. For fields that list
/// preferences, case and order are also removed, because each member has its own weight.
fn normalised(name: &HeaderName, request: &impl Lines) -> Option<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = vec![];
    for line in request.lines(name) {
        let parts = line.split(|&byte| byte == b',');
        members.extend(parts.map(|part| part.trim_ascii().to_vec()));
    }
    if members.is_empty() {
        return None;
    }
    let is_list_of_preferences = matches!(
        name.as_str(),
        "accept" | "accept-charset" | "accept-encoding" | "accept-language"
    );
    if is_list_of_preferences {
        for member in &mut members {
            member.retain(|byte| !matches!(byte, b' ' | b'\t'));
            member.make_ascii_lowercase();
        }
        members.sort_unstable();
    }
    Some(members.join(&b", "[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::headers;

    #[test]
    fn listed_fields_must_be_equal() {
        let response = headers(&[("vary", "Foo, bar"), ("vary", "Baz")]);
        let request = headers(&[("foo", "1"), ("bar", "2")]);
        let selection = Selection::of(&request, &response).expect("the input is valid");
        assert!(selection.matches(&request));
        assert!(selection.matches(&headers(&[("foo", "1"), ("bar", "2"), ("other", "3")])));
        assert!(!selection.matches(&headers(&[("foo", "1")])));
        assert!(!selection.matches(&headers(&[("foo", "1"), ("bar", "2"), ("baz", "")])));
    }

    #[test]
    fn a_star_anywhere_never_matches() {
        for vary in ["*", "*, *", ", *", "Foo, *", "*, Foo", "not a name"] {
            assert_eq!(
                Selection::of(&headers(&[]), &headers(&[("vary", vary)])),
                None,
                "{vary}"
            );
        }
    }

    #[test]
    fn lines_and_white_space_are_normalised() {
        let response = headers(&[("vary", "foo")]);
        let selection =
            Selection::of(&headers(&[("foo", "1,2")]), &response).expect("the input is valid");
        assert!(selection.matches(&headers(&[("foo", "1"), ("foo", "2")])));
        assert!(selection.matches(&headers(&[("foo", " 1 ,\t2 ")])));
        assert!(!selection.matches(&headers(&[("foo", "2, 1")])));
    }

    #[test]
    fn preferences_have_neither_case_nor_order() {
        let response = headers(&[("vary", "accept-language")]);
        let request = headers(&[("accept-language", "en, de;q=0.5")]);
        let selection = Selection::of(&request, &response).expect("the input is valid");
        assert!(selection.matches(&headers(&[("accept-language", "DE; q=0.5,EN")])));
        assert!(!selection.matches(&headers(&[("accept-language", "de, en;q=0.5")])));
    }
}
