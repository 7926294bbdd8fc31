//! A request that may be answered from the store, and how a stored response may be used for it.

use crate::object::Object;
use crate::rules::coding::Wanted;
use crate::rules::directives::Directives;
use crate::rules::key::Key;
use crate::rules::operator::Rule;
use crate::rules::ranges::Requested;
use hyper::header::{HeaderMap, HeaderValue};
use std::net::IpAddr;
use std::sync::Arc;

/// A request that may be answered from the store.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(super) key: Key,
    pub(super) is_head: bool,
    /// Header fields, without fields of a single connection and fields that choose a response
    /// outside of the key.
    pub(super) headers: HeaderMap,
    pub(super) wanted: Option<Requested>,
    pub(super) has_condition: bool,
    pub(super) directives: Directives,
    pub(super) client: IpAddr,
    /// Whether another node forwarded the request, so that it must be answered here.
    pub(super) is_peer: bool,
    /// Rule of the operator for the URL.
    pub(super) rule: Option<Arc<Rule>>,
    /// Coding that the client receives, if the rule offers any. It is in the fields, too.
    pub(super) wanted_coding: Option<Wanted>,
}

#[cfg(test)]
impl Lookup {
    /// Returns a client's request for `http://a/` without header fields.
    pub(super) fn plain() -> Self {
        Lookup {
            key: Key::parse("http://a/").expect("the text is valid"),
            is_head: false,
            headers: HeaderMap::new(),
            wanted: None,
            has_condition: false,
            directives: Directives::default(),
            client: [127, 0, 0, 1].into(),
            is_peer: false,
            rule: None,
            wanted_coding: None,
        }
    }
}

impl Lookup {
    /// Returns the key of the fetch that this request can share. A part is fetched separately from
    /// the whole.
    pub(super) fn flight(&self) -> String {
        let range = self.range();
        match range {
            Some(range) => format!(
                "{}\n{}",
                self.key,
                String::from_utf8_lossy(range.as_bytes())
            ),
            None => self.key.to_string(),
        }
    }

    /// Returns true if the request is for a part of a response, which a fetch of the whole answers,
    /// too.
    pub(super) fn is_for_part(&self) -> bool {
        self.range().is_some()
    }

    /// Returns true if a stale response answers the request when the origin fails or is slow. A
    /// client that demands a recent response waits for the origin.
    pub(super) fn accepts_stale(&self) -> bool {
        let asked = &self.directives;
        !asked.has_no_cache && asked.max_age.is_none() && asked.min_fresh.is_none()
    }

    /// Returns the name under which responses that could not be stored are remembered. Requests
    /// with credentials have separate names, so that personal responses do not affect other
    /// requests.
    pub(super) fn passed_name(&self) -> String {
        match self.has_credentials() {
            true => format!("{}\n", self.key),
            false => self.key.to_string(),
        }
    }

    fn has_credentials(&self) -> bool {
        let has = |name: &str| self.headers.contains_key(name);
        has("authorization") || has("cookie")
    }

    /// Returns true if an error with these fields is the same for all clients: it neither results
    /// from credentials nor sets them.
    pub(super) fn is_impersonal(&self, response: &HeaderMap) -> bool {
        !self.has_credentials() && !response.contains_key("set-cookie")
    }

    /// Returns the range to forward. Several ranges are answered from the whole, so that origins
    /// need not combine them.
    pub(super) fn range(&self) -> Option<&HeaderValue> {
        let wanted = self.wanted.as_ref()?;
        let is_plain = wanted.is_single() && !self.headers.contains_key("if-range");
        self.headers.get("range").filter(|_| is_plain)
    }
}

/// Possible use of a stored response for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Usability {
    Fresh,
    StaleAccepted,
    StaleMeanwhile,
    Unusable,
}

/// Determines how a stored response can be used (RFC 9111, sections 4.2.4 and 5.2.1; RFC 5861,
/// section 3).
pub(super) fn usability(object: &Object, asked: &Directives, now_ms: u64) -> Usability {
    let terms = &object.head.terms;
    let age_ms = terms.age_ms(now_ms);
    let is_too_old = asked
        .max_age
        .is_some_and(|seconds| age_ms > seconds.saturating_mul(1_000))
        || asked.max_age == Some(0);
    if asked.has_no_cache || is_too_old {
        return Usability::Unusable;
    }
    if terms.is_fresh(now_ms) {
        let margin_ms = asked.min_fresh.map_or(0, |seconds| seconds * 1_000);
        let is_enough = terms.remaining_ms(now_ms) >= margin_ms as i64;
        return if is_enough {
            Usability::Fresh
        } else {
            Usability::Unusable
        };
    }
    if asked.min_fresh.is_some() {
        return Usability::Unusable;
    }
    let accepted_ms = asked
        .max_stale
        .map_or(0, |seconds| seconds.saturating_mul(1_000));
    let may_be_stale = !terms.must_revalidate && !terms.is_always_validated;
    if may_be_stale && terms.staleness_ms(now_ms) < accepted_ms {
        return Usability::StaleAccepted;
    }
    if terms.is_usable_meanwhile(now_ms) {
        return Usability::StaleMeanwhile;
    }
    Usability::Unusable
}
