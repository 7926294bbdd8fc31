//! A user: passwords and selectors.

use super::catalog::Catalog;
use super::selector::{RULES_MAX, RuleError, Selector};
use super::sha256::{Digest, from_hex, hex, is_equal, sha256};
use settings::value::PASSWORD_BYTES_MAX;

/// Name of the user of clients that have not authenticated.
pub const DEFAULT: &str = "default";

/// Checks the length of a password.
///
/// # Errors
/// The password is too long.
pub fn check_password(password: &[u8]) -> Result<(), RuleError> {
    match password.len() > PASSWORD_BYTES_MAX {
        true => Err(RuleError::LongPassword),
        false => Ok(()),
    }
}

/// Context that rules refer to.
#[derive(Clone, Copy)]
pub struct Rules<'c> {
    /// The commands.
    pub catalog: &'c Catalog,
    /// Whether a new user may use all channels (`acl-pubsub-default`).
    pub has_all_channels: bool,
}

/// A user. It is not changed after it was published: a change replaces it by a changed copy.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    is_on: bool,
    has_no_password: bool,
    passwords: Vec<Digest>,
    skips_sanitizing: bool,
    root: Selector,
    selectors: Vec<Selector>,
    is_unrestricted: bool,
}

impl User {
    /// Creates a user who may not log in and may do nothing.
    pub fn new(name: &str, has_all_channels: bool) -> User {
        User {
            name: name.to_owned(),
            is_on: false,
            has_no_password: false,
            passwords: Vec::new(),
            skips_sanitizing: false,
            root: Selector::new(has_all_channels),
            selectors: Vec::new(),
            is_unrestricted: false,
        }
    }

    /// Creates the default user: without a password, or with this one, and with all rights.
    pub fn default_with(password: &str) -> User {
        let mut user = User {
            is_on: true,
            root: Selector::unrestricted(),
            is_unrestricted: true,
            ..User::new(DEFAULT, true)
        };
        user.set_password(password);
        user
    }

    /// Replaces the passwords by this one, or removes all of them if it is empty.
    pub fn set_password(&mut self, password: &str) {
        self.has_no_password = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(sha256(password.as_bytes()));
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the user may log in.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the user may log in with any password.
    pub fn has_no_password(&self) -> bool {
        self.has_no_password
    }

    /// Whether the user has all rights.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Returns the user's own rules.
    #[inline]
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// Returns the selectors, the user's own rules first.
    #[inline]
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether the user may log in with a password of this digest.
    pub fn accepts(&self, digest: &Digest) -> bool {
        let is_known = self
            .passwords
            .iter()
            .fold(false, |found, password| found | is_equal(password, digest));
        self.is_on && (self.has_no_password || is_known)
    }

    /// Applies the rules of ACL SETUSER, in their order.
    ///
    /// # Errors
    /// Returns the place of the first invalid rule, counted from 0, the rule in a form that may be
    /// shown, and the reason. The user must be discarded.
    pub fn apply_all(&mut self, words: &[&[u8]], rules: Rules<'_>) -> Result<(), BadRule> {
        let mut at = 0;
        while at < words.len() {
            let first = at;
            let mut rule = words[at].to_vec();
            // A selector may consist of several words.
            while rule.starts_with(b"(") && !rule.ends_with(b")") {
                at += 1;
                let Some(word) = words.get(at) else {
                    return Err(BadRule {
                        place: first,
                        shown: shown(words[first]),
                        error: None,
                    });
                };
                rule.push(b' ');
                rule.extend_from_slice(word);
            }
            at += 1;
            self.apply(&rule, rules).map_err(|error| BadRule {
                place: first,
                shown: shown(&rule),
                error: Some(error),
            })?;
        }
        self.root.settle(&rules.catalog.shapes);
        let glob_work = self.selectors().map(Selector::glob_work).sum();
        for selector in std::iter::once(&mut self.root).chain(&mut self.selectors) {
            selector.bound_names(glob_work);
        }
        let is_unrestricted = self.selectors().any(Selector::is_unrestricted);
        self.is_unrestricted = is_unrestricted;
        Ok(())
    }

    fn apply(&mut self, rule: &[u8], rules: Rules<'_>) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            b"" => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if is("sanitize-payload") => self.skips_sanitizing = false,
            _ if is("nopass") => {
                self.has_no_password = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.has_no_password = false;
                self.passwords.clear();
            }
            [b'>', password @ ..] => {
                check_password(password)?;
                self.add_password(sha256(password))?;
            }
            [b'#', digits @ ..] => {
                self.add_password(from_hex(digits).ok_or(RuleError::Digest)?)?;
            }
            [b'<', password @ ..] => {
                check_password(password)?;
                self.remove_password(&sha256(password))?;
            }
            [b'!', digits @ ..] => {
                self.remove_password(&from_hex(digits).ok_or(RuleError::Digest)?)?;
            }
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::new(rules.has_all_channels);
                let words = inner.split(|byte| *byte == b' ');
                for word in words.filter(|word| !word.is_empty()) {
                    // ACL SAVE writes the rules in another order, so that it would end the selector
                    // too early.
                    if word.ends_with(b")") {
                        return Err(RuleError::Parenthesis);
                    }
                    selector.apply(word, rules.catalog)?;
                }
                selector.settle(&rules.catalog.shapes);
                if self.selectors.len() >= RULES_MAX {
                    return Err(RuleError::TooMany);
                }
                self.selectors.push(selector);
            }
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => *self = User::new(&self.name, rules.has_all_channels),
            _ => self.root.apply(rule, rules.catalog)?,
        }
        Ok(())
    }

    fn add_password(&mut self, digest: Digest) -> Result<(), RuleError> {
        if self.passwords.len() >= RULES_MAX {
            return Err(RuleError::TooMany);
        }
        if !self.passwords.contains(&digest) {
            self.passwords.push(digest);
        }
        self.has_no_password = false;
        Ok(())
    }

    fn remove_password(&mut self, digest: &Digest) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|other| other == digest);
        self.passwords.remove(place.ok_or(RuleError::NoPassword)?);
        Ok(())
    }

    /// Returns the flags of ACL GETUSER.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.has_no_password {
            flags.push("nopass");
        }
        flags.push(match self.skips_sanitizing {
            true => "skip-sanitize-payload",
            false => "sanitize-payload",
        });
        flags
    }

    /// Returns the digests of the passwords in hexadecimal digits.
    pub fn passwords(&self) -> impl Iterator<Item = String> {
        self.passwords.iter().map(hex)
    }

    /// Returns the user's line in an ACL file, without a line end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = format!("user {} {}", self.name, self.flags().join(" ")).into_bytes();
        for digest in self.passwords() {
            line.extend_from_slice(b" #");
            line.extend_from_slice(digest.as_bytes());
        }
        line.push(b' ');
        line.extend_from_slice(&self.root.describe());
        for selector in &self.selectors {
            line.extend_from_slice(b" (");
            line.extend_from_slice(&selector.describe());
            line.push(b')');
        }
        line
    }
}

impl std::fmt::Debug for User {
    /// Shows the name only, because passwords must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish()
    }
}

/// A rule that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// Position of the rule's first word among the words, counted from 0.
    pub place: usize,
    /// The rule, without a password.
    pub shown: String,
    /// The reason; `None` if the parenthesis of a selector is not closed.
    pub error: Option<RuleError>,
}

impl BadRule {
    /// Returns the description in Redis's wording.
    pub fn text(&self) -> String {
        let shown = &self.shown;
        match self.error {
            Some(error) => {
                let text = error.text();
                format!("Error in ACL SETUSER modifier '{shown}': {text}")
            }
            None => format!("Unmatched parenthesis in acl selector starting at '{shown}'."),
        }
    }
}

/// Returns a rule in a form that may be shown: at most 128 characters, and without a password,
/// which a selector may contain by mistake.
fn shown(rule: &[u8]) -> String {
    let Some(inner) = rule.strip_prefix(b"(") else {
        return shown_word(rule);
    };
    let words = inner.split(|byte| *byte == b' ').map(shown_word);
    let words: Vec<String> = words.take(SHOWN_MAX).collect();
    let shown = format!("({}", words.join(" "));
    shown.chars().take(SHOWN_MAX).collect()
}

/// Maximum number of characters of a rule that are shown.
const SHOWN_MAX: usize = 128;

fn shown_word(word: &[u8]) -> String {
    match word {
        [sign @ (b'>' | b'<' | b'#' | b'!'), ..] => format!("{}(hidden)", char::from(*sign)),
        _ => String::from_utf8_lossy(&word[..word.len().min(SHOWN_MAX)]).into_owned(),
    }
}
