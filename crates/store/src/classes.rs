//! Classes of keys: names for the keys with a common prefix or in a common database, with
//! statistics and with rules for their TTLs.
//!
//! An entry does not store its class. It is found from the database and the bytes of the key, when
//! the key is accessed, written or removed; so entries pay nothing, and other classes can be
//! defined at any time. `classes/counts.rs` counts, `view/classes.rs` applies the rules to
//! commands.

use crate::eviction::PolicyChoice;
use crate::quotas::DbLimits;
use policy::Tick;
use std::cmp::Reverse;
use std::collections::BTreeMap;

mod counts;
mod recent;

pub(crate) use counts::ShardClasses;
pub use counts::{ClassCounts, ClassFacts, ClassSums, MISS_CAUSES};
pub(crate) use recent::Gone;

/// Maximum number of classes.
pub const CLASSES_MAX: usize = 64;
/// Maximum length of a prefix in bytes.
pub const PREFIX_BYTES_MAX: usize = 255;
/// Reported name of the keys that belong to no class.
pub const OTHER: &str = "other";

/// Rules for the TTLs of a class. They hold for what clients of this server write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlRules {
    /// TTL in milliseconds of a key that is stored without one.
    pub default_ms: Option<u64>,
    /// Maximum TTL in milliseconds. A key without a TTL gets this one.
    pub max_ms: Option<u64>,
    /// Percentage by which a TTL is shortened at most. The part of it is a function of the key.
    pub jitter_percent: u8,
    /// Whether a read sets the TTL to the default again.
    pub is_sliding: bool,
}

impl TtlRules {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        *self == TtlRules::default()
    }

    /// Returns the deadline of a key that a command stores with this deadline. It is never later,
    /// unless the command gave none.
    pub(crate) fn deadline(&self, key: &[u8], wanted: Option<Tick>, now: Tick) -> Option<Tick> {
        let ttl = match wanted {
            Some(at) => at.0.saturating_sub(now.0),
            None => self.default_ms.or(self.max_ms)?,
        };
        let ttl = self.max_ms.map_or(ttl, |max| ttl.min(max));
        let ttl = ttl - self.jitter_ms(key, ttl);
        Some(Tick(now.0.saturating_add(ttl.max(1))).min(Tick::MAX))
    }

    /// Returns the deadline of a key to which a present value moves with its deadline.
    pub(crate) fn moved(&self, key: &[u8], own: Option<Tick>, now: Tick) -> Option<Tick> {
        match (own, self.max_ms) {
            (None, _) => self.deadline(key, None, now),
            (Some(own), Some(max)) => Some(own.min(Tick(now.0.saturating_add(max)))),
            (Some(own), None) => Some(own),
        }
    }

    /// Returns the milliseconds by which a TTL is shortened: the same share of it for each TTL of a
    /// key, on every server and after every restart.
    fn jitter_ms(&self, key: &[u8], ttl_ms: u64) -> u64 {
        if self.jitter_percent == 0 {
            return 0;
        }
        // FNV-1a, and a multiplication that spreads its low bits.
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let share = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let most = u128::from(ttl_ms) * u128::from(self.jitter_percent) / 100;
        ((most * u128::from(share)) >> 32) as u64
    }
}

/// One class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassRule {
    /// Unique name.
    pub name: String,
    /// Bytes with which the keys begin. Empty for a class of a whole database.
    pub prefix: Vec<u8>,
    /// Database of the keys; `None` for all databases.
    pub db: Option<u8>,
    /// Rules for the TTLs of its keys.
    pub ttl: TtlRules,
    /// Memory limits. Only for a class of a whole database.
    pub limits: DbLimits,
    /// Eviction policy of its own. Only for a class of a whole database.
    pub policy: Option<PolicyChoice>,
}

impl ClassRule {
    /// Whether the class has memory limits or a policy.
    fn has_own_memory(&self) -> bool {
        self.limits != DbLimits::default() || self.policy.is_some()
    }

    /// Returns an error unless the memory limits and the policy are possible.
    fn check_memory(&self) -> Result<(), String> {
        let DbLimits {
            min_bytes,
            max_bytes,
        } = self.limits;
        if self.has_own_memory() && self.whole_db().is_none() {
            return Err(format!(
                "class {}: maxmemory, minmemory and policy need a class of a whole database (db without prefix), because keys with a prefix share the policy of their database",
                self.name
            ));
        }
        if max_bytes > 0 && min_bytes > max_bytes {
            return Err(format!("class {}: minmemory exceeds maxmemory", self.name));
        }
        Ok(())
    }

    /// Returns the database if all its keys that belong to no class with a prefix are this class.
    pub(crate) fn whole_db(&self) -> Option<u8> {
        self.db.filter(|_| self.prefix.is_empty())
    }
}

/// A class as it is compared with keys.
#[derive(Debug)]
struct Matcher {
    /// The first bytes of the prefix, up to eight.
    head: u64,
    /// Bits of the head that the prefix has.
    mask: u64,
    /// The other bytes of the prefix.
    rest: Box<[u8]>,
    prefix_len: usize,
    db: Option<u8>,
    index: u8,
}

/// Number of bytes that are compared at once.
const HEAD_BYTES: usize = 8;

/// Returns the first bytes of a text, up to eight, as a number whose other bytes are 0.
#[inline]
fn head_of(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(head) => u64::from_le_bytes(*head),
        None => {
            let bytes = text.iter().rev();
            bytes.fold(0, |head, byte| head << 8 | u64::from(*byte))
        }
    }
}

impl Matcher {
    fn new(rule: &ClassRule, index: usize) -> Matcher {
        let len = rule.prefix.len();
        Matcher {
            head: head_of(&rule.prefix),
            mask: head_of(&[0xff; HEAD_BYTES][..len.min(HEAD_BYTES)]),
            rest: rule.prefix.get(HEAD_BYTES..).unwrap_or(&[]).into(),
            prefix_len: len,
            db: rule.db,
            index: index as u8,
        }
    }

    #[inline]
    fn matches(&self, db: u8, head: u64, key: &[u8]) -> bool {
        (head ^ self.head) & self.mask == 0
            && key.len() >= self.prefix_len
            && self.db.is_none_or(|own| own == db)
            && (self.rest.is_empty() || key[HEAD_BYTES..].starts_with(&self.rest))
    }
}

/// Finds the matchers that may apply to a key, which is usually one, by two of the key's first
/// bytes.
#[derive(Debug, Default)]
struct Filter {
    /// Positions of the two bytes in the head, in bits.
    shifts: [u32; 2],
    /// Matchers that permit a value of the byte, one bit each, for each position. `None` without
    /// classes.
    permitted: Option<Box<[[u64; 256]; 2]>>,
}

impl Filter {
    /// Chooses the bytes that distinguish the prefixes best.
    fn new(matchers: &[Matcher]) -> Filter {
        if matchers.is_empty() {
            return Filter::default();
        }
        let rows: Vec<[u64; 256]> = (0..HEAD_BYTES)
            .map(|at| {
                std::array::from_fn(|byte| {
                    let permits = |one: &Matcher| {
                        let (mask, own) = (one.mask >> (8 * at), one.head >> (8 * at));
                        (own ^ byte as u64) & mask & 0xff == 0
                    };
                    let bits = matchers.iter().enumerate();
                    bits.fold(0, |set, (rank, one)| set | u64::from(permits(one)) << rank)
                })
            })
            .collect();
        let byte_of = |one: &Matcher, at: usize| (one.head >> (8 * at) & 0xff) as usize;
        let candidates = |a: usize, b: usize| -> u32 {
            let each = matchers.iter();
            let sets = each.map(|one| rows[a][byte_of(one, a)] & rows[b][byte_of(one, b)]);
            sets.map(u64::count_ones).sum()
        };
        let pairs = (0..HEAD_BYTES).flat_map(|a| (a..HEAD_BYTES).map(move |b| (a, b)));
        let (a, b) = pairs
            .min_by_key(|(a, b)| candidates(*a, *b))
            .unwrap_or((0, 0));
        Filter {
            shifts: [8 * a as u32, 8 * b as u32],
            permitted: Some(Box::new([rows[a], rows[b]])),
        }
    }

    /// Returns the matchers that may apply to a key with this head, one bit each.
    #[inline]
    fn candidates(&self, head: u64) -> u64 {
        let Some([first, second]) = self.permitted.as_deref() else {
            return 0;
        };
        let byte = |shift: u32| usize::from((head >> shift) as u8);
        first[byte(self.shifts[0])] & second[byte(self.shifts[1])]
    }
}

/// All classes.
#[derive(Debug, Default)]
pub struct Classes {
    rules: Vec<ClassRule>,
    /// The class with the longest prefix first; of equal prefixes, those of one database first.
    matchers: Vec<Matcher>,
    filter: Filter,
    has_ttl_rules: bool,
    is_any_sliding: bool,
}

impl Classes {
    /// Creates a set of classes.
    ///
    /// # Errors
    ///
    /// There are too many, a prefix is too long, or two classes have the same name or the same
    /// keys. The message is meant for users.
    pub fn new(rules: Vec<ClassRule>) -> Result<Classes, String> {
        if rules.len() > CLASSES_MAX {
            return Err(format!("there are at most {CLASSES_MAX} classes"));
        }
        for (at, rule) in rules.iter().enumerate() {
            if rule.prefix.len() > PREFIX_BYTES_MAX {
                return Err(format!(
                    "class {}: a prefix has at most {PREFIX_BYTES_MAX} bytes",
                    rule.name
                ));
            }
            rule.check_memory()?;
            for other in &rules[..at] {
                if other.name == rule.name {
                    return Err(format!("there are two classes '{}'", rule.name));
                }
                if (&other.prefix, other.db) == (&rule.prefix, rule.db) {
                    let names = (&other.name, &rule.name);
                    return Err(format!(
                        "the classes '{}' and '{}' have the same prefix and database",
                        names.0, names.1
                    ));
                }
            }
        }
        let numbered = rules.iter().enumerate();
        let mut matchers: Vec<Matcher> =
            numbered.map(|(at, rule)| Matcher::new(rule, at)).collect();
        matchers.sort_by_key(|one| (Reverse(one.prefix_len), one.db.is_none()));
        let filter = Filter::new(&matchers);
        let has_ttl_rules = rules.iter().any(|rule| !rule.ttl.is_empty());
        let is_any_sliding = rules.iter().any(|rule| rule.ttl.is_sliding);
        Ok(Classes {
            rules,
            matchers,
            filter,
            has_ttl_rules,
            is_any_sliding,
        })
    }

    /// Returns the classes in the order of their definition.
    pub fn rules(&self) -> &[ClassRule] {
        &self.rules
    }

    /// Returns the memory limits of the databases that have limits or a policy of their own, with
    /// the names of their classes.
    pub(crate) fn limits(&self) -> BTreeMap<u8, (String, DbLimits)> {
        let of_dbs = self.rules.iter().filter_map(|rule| {
            let db = rule.whole_db().filter(|_| rule.has_own_memory())?;
            Some((db, (rule.name.clone(), rule.limits)))
        });
        of_dbs.collect()
    }

    /// Returns the databases' own policies.
    pub(crate) fn policies(&self) -> BTreeMap<u8, PolicyChoice> {
        let of_dbs = self.rules.iter();
        let of_dbs = of_dbs.filter_map(|rule| Some((rule.whole_db()?, rule.policy.clone()?)));
        of_dbs.collect()
    }

    /// Whether a class has rules for TTLs.
    pub(crate) fn has_ttl_rules(&self) -> bool {
        self.has_ttl_rules
    }

    /// Whether reads renew the deadlines of a class.
    pub(crate) fn is_any_sliding(&self) -> bool {
        self.is_any_sliding
    }

    /// Returns the class of a key, or the number of classes if it belongs to none.
    #[inline]
    pub fn of(&self, db: u8, key: &[u8]) -> usize {
        let head = head_of(key);
        let mut left = self.filter.candidates(head);
        while left != 0 {
            let one = &self.matchers[left.trailing_zeros() as usize];
            if one.matches(db, head, key) {
                return usize::from(one.index);
            }
            left &= left - 1;
        }
        self.rules.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn rule(name: &str, prefix: &str, db: Option<u8>) -> ClassRule {
        ClassRule {
            name: name.to_owned(),
            prefix: prefix.as_bytes().to_vec(),
            db,
            ..ClassRule::default()
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_then_the_database() {
        let rules = vec![
            rule("all", "s", None),
            rule("session", "session:", None),
            rule("tenant", "session:", Some(3)),
            rule("db", "", Some(3)),
        ];
        let classes = Classes::new(rules).expect("valid classes");
        for (db, key, expected) in [
            (0, "session:1", 1),
            (3, "session:1", 2),
            (0, "session", 0),
            (3, "session", 0),
            (3, "other", 3),
            (3, "", 3),
            (0, "", 4),
            (0, "x", 4),
        ] {
            assert_eq!(classes.of(db, key.as_bytes()), expected, "{db} {key}");
        }
        assert_eq!(Classes::default().of(0, b"key"), 0);
    }

    #[test]
    fn classes_that_are_not_distinct_are_refused() {
        let error = |rules| Classes::new(rules).expect_err("it is refused");
        let two = vec![rule("a", "x", None), rule("a", "y", None)];
        assert_eq!(error(two), "there are two classes 'a'");
        let two = vec![rule("a", "x", Some(1)), rule("b", "x", Some(1))];
        assert!(error(two).contains("'a' and 'b' have the same prefix"));
        assert!(error(vec![rule("a", &"x".repeat(256), None)]).contains("255"));
        let many: Vec<ClassRule> = (0..65)
            .map(|n| rule(&format!("{n}"), &format!("{n}:"), None))
            .collect();
        assert!(Classes::new(many[..64].to_vec()).is_ok());
        assert!(error(many).contains("at most 64"));
    }

    #[test]
    fn jitter_shortens_a_ttl_by_a_share_that_only_the_key_determines() {
        let now = Tick(1_000_000);
        let rules = TtlRules {
            jitter_percent: 10,
            ..TtlRules::default()
        };
        let (mut least, mut most) = (u64::MAX, 0);
        for number in 0..10_000 {
            let key = format!("session:{number}");
            let at = |ttl| rules.deadline(key.as_bytes(), Some(Tick(now.0 + ttl)), now);
            let ttl = at(1_000_000).expect("a deadline").0 - now.0;
            assert!((900_000..=1_000_000).contains(&ttl));
            (least, most) = (least.min(ttl), most.max(ttl));
            let double = at(2_000_000).expect("a deadline").0 - now.0;
            assert!(double.abs_diff(2 * ttl) <= 1);
            assert_eq!(at(1), Some(Tick(now.0 + 1)));
        }
        assert!(least < 901_000 && most > 999_000, "{least} {most}");
    }

    #[test]
    fn the_maximum_limits_ttls_and_replaces_missing_ones() {
        let now = Tick(1_000);
        let rules = |default_ms, max_ms| TtlRules {
            default_ms,
            max_ms,
            ..TtlRules::default()
        };
        let cases = [
            ((None, None), Some(500), Some(500)),
            ((None, None), None, None),
            ((Some(100), None), None, Some(100)),
            ((Some(100), None), Some(500), Some(500)),
            ((None, Some(200)), None, Some(200)),
            ((None, Some(200)), Some(500), Some(200)),
            ((Some(300), Some(200)), None, Some(200)),
            ((Some(100), Some(200)), Some(150), Some(150)),
        ];
        for ((default, max), wanted, expected) in cases {
            let at = |ttl: Option<u64>| ttl.map(|ttl| Tick(now.0 + ttl));
            let rules = rules(default, max);
            assert_eq!(rules.deadline(b"k", at(wanted), now), at(expected));
            assert_eq!(rules.moved(b"k", at(wanted), now), at(expected));
        }
        let endless = rules(Some(u64::MAX), None).deadline(b"k", None, now);
        assert_eq!(endless, Some(Tick::MAX));
    }

    proptest! {
        #[test]
        fn a_key_belongs_to_the_class_that_a_search_of_all_finds(
            prefixes in prop::collection::btree_set(("[ab]{0,3}|a{6,9}b?", prop::option::of(0u8..3)), 0..20),
            keys in prop::collection::vec((0u8..3, "[abc]{0,5}|a{5,12}b?"), 1..30),
        ) {
            let rules: Vec<ClassRule> = prefixes
                .iter()
                .enumerate()
                .map(|(at, (prefix, db))| rule(&format!("{at}"), prefix, *db))
                .collect();
            let classes = Classes::new(rules.clone()).expect("valid classes");
            for (db, key) in keys {
                let matching = rules.iter().enumerate().filter(|(_, rule)| {
                    key.as_bytes().starts_with(&rule.prefix) && rule.db.is_none_or(|own| own == db)
                });
                let best = matching.max_by_key(|(_, rule)| (rule.prefix.len(), rule.db.is_some()));
                let expected = best.map_or(rules.len(), |(at, _)| at);
                prop_assert_eq!(classes.of(db, key.as_bytes()), expected);
            }
        }
    }
}
