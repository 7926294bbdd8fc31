//! The operator's rules for hosts and paths, and their replacement while the node serves.

use super::{Client, Node};
use crate::config::{Invalid, Origin};
use crate::rules::fields::Lines;
use crate::rules::forwarded::{self, is_trusted};
use crate::rules::key::Key;
use crate::rules::operator::{self, Rule};
use crate::rules::plain::Plain;
use hyper::header::{COOKIE, HeaderMap};
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

    /// Returns true if no rule changes a plain request.
    pub(super) fn is_unchanged(&self, key: &Key, plain: &Plain<'_, '_>) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        operator::find(&rules, key.host(), key.target()).is_none_or(|rule| {
            let has_cookies = || plain.lines(&COOKIE).next().is_some();
            !rule.is_bypassed
                && rule.target(key.target()) == key.target()
                && !(rule.has_cookies() && has_cookies())
        })
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
