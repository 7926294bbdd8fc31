//! The operator's rules for hosts and paths, and their replacement while the node serves.

use super::{Client, Node};
use crate::config::{Invalid, Origin};
use crate::encode::Encoder;
use crate::rules::coding::{self, Replaced, Wanted};
use crate::rules::fields::Lines;
use crate::rules::forwarded::{self, is_trusted};
use crate::rules::key::Key;
use crate::rules::operator::{self, Rule};
use crate::rules::plain::Plain;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, COOKIE, HeaderMap};
use std::sync::{Arc, PoisonError};

impl Node {
    /// Replaces the origins and the rules. Responses stay in the store.
    ///
    /// # Errors
    /// Returns an error if the origins cannot be used. The previous settings stay in use.
    pub fn replace(&self, origins: &[Origin], rules: &[Rule]) -> Result<(), Invalid> {
        self.origins.replace(origins)?;
        let rules = rules.iter().cloned().map(Arc::new).collect();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// Returns the rule for a URL.
    pub(super) fn rule(&self, key: &Key) -> Option<Arc<Rule>> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        operator::find(&rules, key.host(), key.target()).cloned()
    }

    /// Returns the key of a URL without the arguments that its rule removes.
    pub(crate) fn normalised(&self, key: Key) -> Key {
        let Some(rule) = self.rule(&key) else {
            return key;
        };
        let target = rule.target(key.target());
        if target == key.target() {
            return key;
        }
        Key::new(key.is_tls(), key.host(), &target).unwrap_or(key)
    }

    /// Returns a plain request with the coding that its rule chooses; `None` if the rule changes
    /// more of it.
    pub(super) fn unchanged<'a, 'h, 'b>(
        &self,
        key: &Key,
        plain: &'a Plain<'h, 'b>,
    ) -> Option<Replaced<'a, Plain<'h, 'b>>> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = None;
        if let Some(rule) = operator::find(&rules, key.host(), key.target()) {
            let has_cookies = || plain.lines(&COOKIE).next().is_some();
            let is_changed = rule.is_bypassed
                || rule.target(key.target()) != key.target()
                || (rule.has_cookies() && has_cookies());
            if is_changed {
                return None;
            }
            wanted = Wanted::choose(&rule.codings, plain, false);
        }
        Some(Replaced {
            request: plain,
            wanted,
        })
    }

    /// Prepares the compression of a response's content, and changes its fields accordingly.
    /// `wanted` is absent if no rule offers a coding.
    pub(super) fn encoder(
        &self,
        wanted: Option<Wanted>,
        status: StatusCode,
        headers: &mut HeaderMap,
        length: Option<u64>,
    ) -> Option<Encoder> {
        let Wanted(coding) = wanted?;
        if headers.contains_key(CONTENT_ENCODING) || !coding::is_compressible(status, headers) {
            return None;
        }
        coding::add_vary(headers);
        let coding = coding.filter(|_| coding::is_long_enough(length))?;
        let encoder = Encoder::new(coding, length, self.store.budget(), &self.metrics)?;
        coding::mark(headers, coding);
        Some(encoder)
    }

    /// Returns the client of a request. A trusted peer says on whose behalf it sends the request.
    pub(super) fn client_of(&self, peer: Client, headers: &HeaderMap) -> Client {
        let trusted = &self.config.trusted;
        if !is_trusted(trusted, peer.address) {
            return peer;
        }
        Client {
            address: forwarded::client(peer.address, headers, trusted),
            is_tls: forwarded::is_tls(headers).unwrap_or(peer.is_tls),
            ..peer
        }
    }
}
