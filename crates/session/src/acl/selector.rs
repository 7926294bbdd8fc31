//! A selector: commands, keys and channels that a user may use together.

use super::catalog::{Catalog, CommandSet, Shapes, category, contains};
use crate::spec::{COMMANDS_MAX, SpecIndex};
use std::hash::{DefaultHasher, Hasher};
use wire::glob;

/// Right to read a key's value.
pub const READ: u8 = 1;
/// Right to change a key's value.
pub const WRITE: u8 = 2;

/// Maximum number of patterns, and of rules about commands, of one selector.
pub const RULES_MAX: usize = 1024;

/// Maximum length of a first argument that is allowed, in bytes. Each rule about commands is
/// compared with all others.
const FIRST_ARGUMENT_MAX: usize = 256;

/// Maximum length of a name times the work per byte for the patterns with special characters. A
/// longer name matches none of these patterns, so that one check takes a bounded time, some 20 ms.
const GLOB_WORK_MAX: usize = 1 << 24;
/// Work per byte of a name for a pattern with special characters, in addition to a unit for each
/// byte of the pattern. Only classes in long parts of a pattern cost as much as its length.
const GLOB_WORK_MIN: usize = 64;

/// Reason why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The command or the category does not exist.
    Unknown,
    /// The rule has no valid form.
    Syntax,
    /// A pattern of keys follows `~*`.
    KeysAfterAll,
    /// A pattern of channels follows `&*`.
    ChannelsAfterAll,
    /// The password to remove does not exist.
    NoPassword,
    /// A password is longer than 4,096 bytes.
    LongPassword,
    /// The digest of a password does not have 64 hexadecimal digits in lower case.
    Digest,
    /// A first argument was allowed for a subcommand.
    FirstArgument,
    /// An allowed first argument is longer than 256 bytes.
    LongArgument,
    /// A rule of a selector ends with a parenthesis, which ends the selector.
    Parenthesis,
    /// A user or a selector has too many rules.
    TooMany,
}

impl RuleError {
    /// Returns the description, in Redis's wording where Redis has one.
    pub fn text(self) -> &'static str {
        match self {
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::LongPassword => "A password has at most 4096 bytes",
            RuleError::Digest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::LongArgument => "A first argument has at most 256 bytes",
            RuleError::FirstArgument => "Allowing first-arg of a subcommand is not supported",
            RuleError::Parenthesis => "A rule of a selector can't end with a parenthesis",
            RuleError::TooMany => "A user has at most 1024 rules of one kind",
        }
    }
}

/// A glob pattern, prepared for matching.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// Hash of the text, compared first, because many long patterns may begin alike.
    hash: u64,
    text: Box<[u8]>,
    form: Form,
}

/// A prefix of at most eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortPrefix {
    /// The bytes of the prefix; the rest is zero.
    bytes: u64,
    /// Bits of `bytes` that belong to the prefix.
    mask: u64,
}

impl ShortPrefix {
    /// The prefix of no name: a bit outside of the mask is set.
    pub const NONE: ShortPrefix = ShortPrefix { bytes: 1, mask: 0 };

    /// Whether a name that starts with these bytes begins with the prefix.
    #[inline(always)]
    pub fn begins(self, first: &[u8; 8]) -> bool {
        u64::from_le_bytes(*first) & self.mask == self.bytes
    }
}

/// Result of the rules for a command before its arguments are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outlook {
    /// The right depends on the arguments, or the command is denied.
    Open,
    /// The command has no subcommands and is allowed regardless of its arguments.
    Free,
    /// The command has no subcommands, and its only key is its first argument. It is allowed on
    /// every key for which all rights are given, but not on all keys.
    OnKey,
}

/// Form of a pattern, which decides how it is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The name is the pattern.
    Exact,
    /// The name begins with the pattern without its final `*`.
    Prefix,
    /// The name matches the pattern.
    Glob,
}

impl Pattern {
    fn new(text: &[u8]) -> Pattern {
        let is_special = |byte: &u8| b"*?[\\".contains(byte);
        let form = match text.iter().position(is_special) {
            None => Form::Exact,
            Some(at) if at + 1 == text.len() && text[at] == b'*' => Form::Prefix,
            Some(_) => Form::Glob,
        };
        Pattern {
            hash: hash_of(text),
            text: text.into(),
            form,
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self.form {
            Form::Exact => name == &self.text[..],
            Form::Prefix => name.starts_with(&self.text[..self.text.len() - 1]),
            Form::Glob => glob::matches(&self.text, name, false),
        }
    }

    fn short_prefix(&self) -> Option<ShortPrefix> {
        let prefix = match self.form {
            Form::Prefix if self.text.len() <= 9 => &self.text[..self.text.len() - 1],
            _ => return None,
        };
        let (mut bytes, mut mask) = ([0; 8], [0; 8]);
        bytes[..prefix.len()].copy_from_slice(prefix);
        mask[..prefix.len()].fill(u8::MAX);
        Some(ShortPrefix {
            bytes: u64::from_le_bytes(bytes),
            mask: u64::from_le_bytes(mask),
        })
    }
}

/// Commands, keys and channels that may be used together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Bit of each allowed command and subcommand, by its index.
    commands: CommandSet,
    /// Outlook of each command by its index: a byte, which is found with fewer instructions than
    /// bits of two sets. It follows from the other fields.
    outlooks: [Outlook; COMMANDS_MAX],
    /// Whether the rules about commands start from all commands instead of none.
    starts_from_all: bool,
    /// Command rules after the start, in the order in which they apply.
    rules: Vec<String>,
    /// Commands that are allowed with this first argument only.
    first_arguments: Vec<(SpecIndex, String)>,
    has_all_keys: bool,
    /// Patterns of keys with the rights on them.
    keys: Vec<(Pattern, u8)>,
    /// Whether each pattern of keys allows reading and writing.
    has_full_patterns: bool,
    /// Patterns of keys that are short prefixes and allow reading and writing. It follows from
    /// `keys`.
    prefixes: Vec<ShortPrefix>,
    has_all_channels: bool,
    channels: Vec<Pattern>,
    /// Maximum length of a name that patterns with special characters match, in bytes.
    glob_bytes_max: usize,
}

impl Selector {
    /// Creates a selector that allows nothing, or all channels.
    pub fn new(has_all_channels: bool) -> Selector {
        Selector {
            commands: [0; COMMANDS_MAX / 64],
            outlooks: [Outlook::Open; COMMANDS_MAX],
            starts_from_all: false,
            rules: Vec::new(),
            first_arguments: Vec::new(),
            has_all_keys: false,
            keys: Vec::new(),
            has_full_patterns: true,
            prefixes: Vec::new(),
            has_all_channels,
            channels: Vec::new(),
            glob_bytes_max: GLOB_WORK_MAX,
        }
    }

    /// Creates a selector that allows everything.
    pub fn unrestricted() -> Selector {
        Selector {
            commands: [u64::MAX; COMMANDS_MAX / 64],
            outlooks: [Outlook::Free; COMMANDS_MAX],
            starts_from_all: true,
            has_all_keys: true,
            ..Selector::new(true)
        }
    }

    /// Whether everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.commands.iter().all(|word| *word == u64::MAX)
            && self.has_all_keys
            && self.has_all_channels
    }

    /// Whether a command or subcommand is allowed, or allowed with this first argument.
    #[inline]
    pub fn allows_command(&self, index: SpecIndex, first_argument: Option<&[u8]>) -> bool {
        let index_bit = 1u64 << (index % 64);
        self.commands[index as usize / 64] & index_bit != 0
            || self.first_arguments.iter().any(|(allowed, argument)| {
                *allowed == index
                    && first_argument
                        .is_some_and(|given| given.eq_ignore_ascii_case(argument.as_bytes()))
            })
    }

    /// Whether all keys are allowed.
    #[inline]
    pub fn allows_all_keys(&self) -> bool {
        self.has_all_keys
    }

    /// Whether every pattern of keys gives all rights, so that the rights need not be determined.
    #[inline]
    pub fn has_full_patterns(&self) -> bool {
        self.has_full_patterns
    }

    #[inline]
    fn matches(&self, pattern: &Pattern, name: &[u8]) -> bool {
        (name.len() <= self.glob_bytes_max || pattern.form != Form::Glob) && pattern.matches(name)
    }

    /// Returns the work per byte of a name for the patterns with special characters.
    pub fn glob_work(&self) -> usize {
        let patterns = self.keys.iter().map(|(pattern, _)| pattern);
        let globs = patterns.chain(&self.channels);
        globs
            .filter(|pattern| pattern.form == Form::Glob)
            .map(|pattern| GLOB_WORK_MIN + pattern.text.len())
            .sum()
    }

    /// Bounds the length of names by the work per byte for all patterns with special characters
    /// that the user has.
    pub fn bound_names(&mut self, glob_work: usize) {
        self.glob_bytes_max = GLOB_WORK_MAX / glob_work.max(1);
    }

    /// Whether a key is allowed with these rights.
    #[inline]
    pub fn allows_key(&self, key: &[u8], rights: u8) -> bool {
        self.has_all_keys
            || self
                .keys
                .iter()
                .any(|(pattern, given)| given & rights == rights && self.matches(pattern, key))
    }

    /// Returns the result of the rules for a command, which must not be a container.
    #[inline(always)]
    pub fn outlook(&self, index: SpecIndex) -> Outlook {
        // An index is less than the number of commands, so that the remainder is the index.
        self.outlooks[index as usize % COMMANDS_MAX]
    }

    /// Returns a short prefix, for which all rights are given, of names that start with these
    /// bytes.
    pub fn short_prefix_of(&self, first: &[u8; 8]) -> Option<ShortPrefix> {
        let mut prefixes = self.prefixes.iter();
        prefixes.find(|prefix| prefix.begins(first)).copied()
    }

    /// Derives from the rules the key prefixes, and the commands that need no check or only the
    /// check of one key.
    pub fn settle(&mut self, shapes: &Shapes) {
        let is_full = |(_, rights): &(Pattern, u8)| *rights == READ | WRITE;
        self.has_full_patterns = self.keys.iter().all(is_full);
        let full = self.keys.iter().filter(|entry| is_full(entry));
        self.prefixes = full
            .filter_map(|(pattern, _)| pattern.short_prefix())
            .collect();
        for index in 0..COMMANDS_MAX as SpecIndex {
            let is_allowed = contains(&self.commands, index)
                && (self.has_all_channels || !contains(&shapes.on_channels, index));
            self.outlooks[index as usize] = match is_allowed {
                true if self.has_all_keys || contains(&shapes.keyless, index) => Outlook::Free,
                true if contains(&shapes.one_key, index) => Outlook::OnKey,
                _ => Outlook::Open,
            };
        }
    }

    /// Whether every key may be read.
    pub fn allows_reading_all(&self) -> bool {
        let is_all = |(pattern, given): &(Pattern, u8)| given & READ != 0 && *pattern.text == *b"*";
        self.has_all_keys || self.keys.iter().any(is_all)
    }

    /// Whether all channels are allowed.
    pub fn allows_all_channels(&self) -> bool {
        self.has_all_channels
    }

    /// Whether a channel is allowed. A channel pattern must be one of the allowed patterns.
    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.has_all_channels
            || self.channels.iter().any(|pattern| match is_pattern {
                true => *pattern.text == *name,
                false => self.matches(pattern, name),
            })
    }

    /// Applies a rule about commands, keys or channels. [`Selector::settle`] follows the last one.
    ///
    /// # Errors
    /// The rule is not valid.
    pub fn apply(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), RuleError> {
        // An ACL file could not be read with such a rule.
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
        if rule.iter().any(is_blank) {
            return Err(RuleError::Syntax);
        }
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule.first() {
            _ if is("allkeys") || is("~*") => self.reset_keys(true),
            _ if is("resetkeys") => self.reset_keys(false),
            _ if is("allchannels") || is("&*") => self.reset_channels(true),
            _ if is("resetchannels") => self.reset_channels(false),
            _ if is("allcommands") || is("+@all") => self.reset_commands(true),
            _ if is("nocommands") || is("-@all") => self.reset_commands(false),
            Some(b'~') => self.add_keys(&rule[1..], READ | WRITE)?,
            Some(b'%') => {
                let (rights, pattern) = read_rights(&rule[1..]).ok_or(RuleError::Syntax)?;
                self.add_keys(pattern, rights)?;
            }
            Some(b'&') => self.add_channel(&rule[1..])?,
            Some(sign @ (b'+' | b'-')) => {
                let text = std::str::from_utf8(&rule[1..]).map_err(|_| RuleError::Unknown)?;
                let text = text.to_ascii_lowercase();
                self.change_commands(*sign == b'+', &text, catalog)?;
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn reset_keys(&mut self, has_all: bool) {
        self.has_all_keys = has_all;
        self.keys.clear();
    }

    fn reset_channels(&mut self, has_all: bool) {
        self.has_all_channels = has_all;
        self.channels.clear();
    }

    fn reset_commands(&mut self, has_all: bool) {
        self.starts_from_all = has_all;
        self.commands = [if has_all { u64::MAX } else { 0 }; COMMANDS_MAX / 64];
        self.rules.clear();
        self.first_arguments.clear();
    }

    fn add_keys(&mut self, pattern: &[u8], rights: u8) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        check_count(self.keys.len())?;
        let pattern = Pattern::new(pattern);
        match self.keys.iter_mut().find(|(other, _)| *other == pattern) {
            Some((_, given)) => *given |= rights,
            None => self.keys.push((pattern, rights)),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        check_count(self.channels.len())?;
        let pattern = Pattern::new(pattern);
        if !self.channels.contains(&pattern) {
            self.channels.push(pattern);
        }
        Ok(())
    }

    /// Allows or denies a category, a command, a subcommand, or a first argument of a command.
    /// `name` is in lower case.
    fn change_commands(
        &mut self,
        allows: bool,
        name: &str,
        catalog: &Catalog,
    ) -> Result<(), RuleError> {
        if self.rules.len() >= RULES_MAX {
            return Err(RuleError::TooMany);
        }
        if let Some(name) = name.strip_prefix('@') {
            let bit = category(name.as_bytes()).ok_or(RuleError::Unknown)?;
            self.set_commands(catalog.members(bit), allows);
        } else if let Some(index) = catalog.find(name) {
            self.set_command(index, allows, catalog);
        } else {
            let (container, argument) = match name.rsplit_once('|') {
                Some(parts) if allows => parts,
                _ => return Err(RuleError::Unknown),
            };
            let index = catalog.find(container).ok_or(RuleError::Unknown)?;
            match catalog.get(index) {
                entry if entry.is_subcommand => return Err(RuleError::FirstArgument),
                _ if argument.is_empty() => return Err(RuleError::Syntax),
                _ if argument.len() > FIRST_ARGUMENT_MAX => {
                    return Err(RuleError::LongArgument);
                }
                entry if !entry.subcommands.is_empty() => return Err(RuleError::Unknown),
                _ => {}
            }
            let allowed = (index, argument.to_owned());
            self.first_arguments.retain(|other| *other != allowed);
            self.first_arguments.push(allowed);
        }
        self.replace_rule(allows, name);
        Ok(())
    }

    /// Allows or denies all commands of a set.
    fn set_commands(&mut self, set: &CommandSet, allows: bool) {
        for (word, bits) in self.commands.iter_mut().zip(set) {
            *word = if allows { *word | bits } else { *word & !bits };
        }
        self.first_arguments
            .retain(|(index, _)| !contains(set, *index));
    }

    /// Allows or denies a command and its subcommands.
    fn set_command(&mut self, index: SpecIndex, allows: bool, catalog: &Catalog) {
        let own = index..index + 1;
        for index in own.chain(catalog.get(index).subcommands.clone()) {
            let bit = 1u64 << (index % 64);
            let word = &mut self.commands[index as usize / 64];
            *word = if allows { *word | bit } else { *word & !bit };
        }
        self.first_arguments.retain(|(other, _)| *other != index);
    }

    /// Adds a rule that replaces earlier ones about the same command or its subcommands.
    fn replace_rule(&mut self, allows: bool, name: &str) {
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(name);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        let sign = if allows { '+' } else { '-' };
        self.rules.push(format!("{sign}{name}"));
    }

    /// Returns the rules about commands, beginning with `+@all` or `-@all`.
    pub fn describe_commands(&self) -> String {
        let start = if self.starts_from_all {
            "+@all"
        } else {
            "-@all"
        };
        let rules = self.rules.iter().map(String::as_str);
        std::iter::once(start)
            .chain(rules)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the rules about keys.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let rules = self.keys.iter().map(|(pattern, rights)| {
            let start: &[u8] = match *rights {
                READ => b"%R~",
                WRITE => b"%W~",
                // In the short form it would be the rule that allows all keys.
                _ if *pattern.text == *b"*" => b"%RW~",
                _ => b"~",
            };
            [start, &pattern.text].concat()
        });
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules about channels.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter();
        let rules = rules.map(|pattern| [b"&", &pattern.text[..]].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// Returns all rules in the form of ACL LIST.
    pub fn describe(&self) -> Vec<u8> {
        let mut parts = vec![self.describe_keys()];
        if !self.has_all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.describe_channels());
        parts.push(self.describe_commands().into_bytes());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

/// Splits the text after `%` into the rights and the pattern.
fn read_rights(rule: &[u8]) -> Option<(u8, &[u8])> {
    let end = rule.iter().position(|byte| *byte == b'~')?;
    let rights = match &rule[..end].to_ascii_uppercase()[..] {
        b"R" => READ,
        b"W" => WRITE,
        b"RW" | b"WR" => READ | WRITE,
        _ => return None,
    };
    Some((rights, &rule[end + 1..]))
}

fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// Checks whether a pattern may be added to `count` others.
fn check_count(count: usize) -> Result<(), RuleError> {
    match count < RULES_MAX {
        true => Ok(()),
        false => Err(RuleError::TooMany),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comparison of eight bytes at a time agrees with a bytewise comparison for every pair of
    /// lengths.
    #[test]
    fn prefixes_of_all_lengths_are_compared() {
        let text = b"abcdefghijklmnop";
        for len in 0..text.len() {
            let pattern = Pattern::new(&[&text[..len], b"*"].concat());
            assert_eq!(pattern.form, Form::Prefix);
            for end in 0..=text.len() {
                assert_eq!(pattern.matches(&text[..end]), end >= len, "{len} {end}");
                for at in 0..end {
                    let mut other = text[..end].to_vec();
                    other[at] ^= 1;
                    let expected = end >= len && at >= len;
                    assert_eq!(pattern.matches(&other), expected, "{len} {end} {at}");
                }
            }
        }
    }
}
