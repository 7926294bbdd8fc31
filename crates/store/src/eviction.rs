//! Names that `maxmemory-policy` accepts, the algorithms that implement them, and the error for an
//! unknown name.

use cache::Scope;
use policy::any::{POLICIES, PolicySpec, find};
use policy::names::{did_you_mean, is_same};

/// A policy name, without the scope prefix, that differs from the name of its algorithm.
struct Mapped {
    name: &'static str,
    served_by: &'static str,
    /// One line of explanation, for the log and the docs.
    note: &'static str,
    /// Whether Redis accepts the name.
    is_redis: bool,
    /// Whether reads do not count.
    ignores_reads: bool,
}

const fn mapped(name: &'static str, served_by: &'static str, note: &'static str) -> Mapped {
    Mapped {
        name,
        served_by,
        note,
        is_redis: true,
        ignores_reads: false,
    }
}

/// Names that are mapped to an algorithm. The log line and the page of policies are written from
/// this table.
///
/// Redis's `lru` and `lfu` are approximations, and its users expect that. The exact algorithms,
/// which the simulator calls `lru` and `lfu`, have other names here.
const MAPPED: &[Mapped] = &[
    mapped(
        "lru",
        "sampled-lru",
        "LRU approximated by sampling, as in Redis; exact-lru keeps the exact order",
    ),
    Mapped {
        ignores_reads: true,
        ..mapped(
            "lrm",
            "sampled-lru",
            "least recently modified: as lru, but only writes count, as in Redis",
        )
    },
    mapped(
        "lfu",
        "s3fifo",
        "keeps frequently used keys by S3-FIFO; exact-lfu counts every access",
    ),
    mapped("random", "random", "a key chosen uniformly"),
    Mapped {
        is_redis: false,
        ..mapped(
            "exact-lru",
            "lru",
            "the least recently used of all keys, which the simulator calls lru",
        )
    },
    Mapped {
        is_redis: false,
        ..mapped(
            "exact-lfu",
            "lfu",
            "the least frequently used of all keys, which the simulator calls lfu",
        )
    },
];

/// The name `ttl`. Redis has it only for keys with a deadline.
const TTL: Mapped = mapped(
    "ttl",
    "sampled-ttl",
    "the nearest deadline among sampled keys, as in Redis",
);

/// Names that the error for a wrong name recommends in addition to Redis's.
const RECOMMENDED: &[&str] = &[
    "allkeys-s3fifo",
    "allkeys-sieve",
    "allkeys-w-tinylfu",
    "allkeys-arc",
    "allkeys-gdsf",
    "allkeys-exact-lru",
];

/// A value of `maxmemory-policy` and the algorithm it selects.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChoice {
    /// The name in its canonical spelling, with the parameters that were given.
    pub name: String,
    /// The selected algorithm with all its parameters; `None` for `noeviction`.
    pub spec: Option<PolicySpec>,
    /// One line of explanation if the name differs from the algorithm's; otherwise empty.
    pub note: &'static str,
    /// Which entries may be evicted.
    pub(crate) scope: Scope,
    /// Whether reads do not count as accesses.
    pub(crate) ignores_reads: bool,
}

impl PolicyChoice {
    /// Returns the choice `noeviction`.
    pub(crate) fn none() -> PolicyChoice {
        PolicyChoice {
            name: "noeviction".to_owned(),
            spec: None,
            note: "",
            scope: Scope::Nothing,
            ignores_reads: false,
        }
    }

    /// Parses a name such as `allkeys-s3fifo` or `volatile-clock:2`. Case and hyphens are ignored.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the policy does not have a given parameter. The message is meant for
    /// users.
    pub fn parse(text: &str) -> Result<PolicyChoice, String> {
        let (given, knobs) = match text.find(':') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        if is_same(given, "noeviction") {
            return Ok(PolicyChoice::none());
        }
        let (scope, prefix, rest) = split_scope(given).ok_or_else(|| unknown(given))?;
        let ttl = (scope == Scope::Volatile).then_some(&TTL);
        let mapped = MAPPED.iter().chain(ttl).find(|row| is_same(row.name, rest));
        let (own, served_by, note) = match mapped {
            Some(row) => (row.name, row.served_by, row.note),
            None => {
                let served = find(rest).ok().filter(|about| about.meta_bits.is_some());
                let name = served.ok_or_else(|| unknown(given))?.name;
                (name, name, "")
            }
        };
        let spec = format!("{served_by}{knobs}").parse::<PolicySpec>();
        Ok(PolicyChoice {
            name: format!("{prefix}-{own}{}", knobs.to_ascii_lowercase()),
            spec: Some(spec.map_err(|error| format!("policy '{text}': {error}"))?),
            note,
            scope,
            ignores_reads: mapped.is_some_and(|row| row.ignores_reads),
        })
    }

    /// Returns the line for the log: the name, and the algorithm if the name does not state it.
    pub fn line(&self) -> String {
        match &self.spec {
            Some(spec) if !self.note.is_empty() => {
                format!("{} (served by {}: {})", self.name, spec.name(), self.note)
            }
            _ => self.name.clone(),
        }
    }
}

/// Splits a name such as `allkeys-…` or `volatile-…` into the scope, the canonical prefix and the
/// rest.
fn split_scope(name: &str) -> Option<(Scope, &'static str, &str)> {
    let (prefix, rest) = name.split_once(['-', '_'])?;
    let scopes = [(Scope::All, "allkeys"), (Scope::Volatile, "volatile")];
    let found = scopes.into_iter().find(|(_, own)| is_same(own, prefix));
    found.map(|(scope, prefix)| (scope, prefix, rest))
}

/// Returns the error for a name that does not exist, or that only the simulator supports.
fn unknown(given: &str) -> String {
    let all = names();
    let mapped = MAPPED.iter().find(|row| is_same(row.name, given));
    let served = find(given).ok().filter(|about| about.meta_bits.is_some());
    let bare = mapped
        .map(|row| row.name)
        .or(served.map(|about| about.name));
    let suggestion = match bare {
        Some(name) => format!("did you mean 'allkeys-{name}' or 'volatile-{name}'?"),
        None => did_you_mean(given, all.iter().map(String::as_str)),
    };
    let space = if suggestion.is_empty() { "" } else { " " };
    let rows = |prefix: &str| -> Vec<String> {
        let redis = MAPPED.iter().filter(|row| row.is_redis);
        redis.map(|row| format!("{prefix}-{}", row.name)).collect()
    };
    let redis = [rows("allkeys"), rows("volatile")].concat().join(", ");
    format!(
        "no policy is called '{given}': {suggestion}{space}names of Redis: noeviction, {redis}, \
         volatile-ttl; recommended: {}; docs/reference/policies.md lists all",
        RECOMMENDED.join(", ")
    )
}

/// Returns the canonical names of all supported policies, beginning with Redis's.
pub(crate) fn names() -> Vec<String> {
    let mut names = vec!["noeviction".to_owned()];
    for scope in ["allkeys", "volatile"] {
        let mapped = MAPPED.iter().map(|row| row.name);
        let served = POLICIES.iter().filter(|about| about.meta_bits.is_some());
        // An algorithm whose name is mapped to another one has a name of its own in the table.
        let own = served.map(|about| about.name);
        let own = own.filter(|name| !MAPPED.iter().any(|row| row.name == *name));
        names.extend(mapped.chain(own).map(|name| format!("{scope}-{name}")));
    }
    names.push(format!("volatile-{}", TTL.name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served_by(name: &str) -> String {
        let choice = PolicyChoice::parse(name).expect("the name is served");
        choice.spec.expect("it evicts").to_string()
    }

    #[test]
    fn every_listed_name_is_its_own_canonical_spelling() {
        for name in names() {
            let choice = PolicyChoice::parse(&name).expect("a listed name is served");
            assert_eq!(choice.name, name);
        }
    }

    #[test]
    fn every_served_algorithm_has_a_name() {
        let listed: Vec<String> = names().iter().skip(1).map(|name| served_by(name)).collect();
        let served = POLICIES.iter().filter(|about| about.meta_bits.is_some());
        for about in served {
            let is_listed = |spec: &String| spec.split(':').next() == Some(about.name);
            assert!(listed.iter().any(is_listed), "{} is not listed", about.name);
        }
    }

    #[test]
    fn exact_and_approximate_names_stand_for_different_algorithms() {
        assert!(served_by("allkeys-lru").starts_with("sampled-lru"));
        assert!(served_by("allkeys-lfu").starts_with("s3fifo"));
        assert_eq!(served_by("volatile-exact-lru"), "lru");
        assert!(served_by("allkeys-exact-lfu").starts_with("lfu"));
        let line = PolicyChoice::parse("allkeys-lru").map(|choice| choice.line());
        assert!(line.is_ok_and(|line| line.starts_with("allkeys-lru (served by sampled-lru: ")));
    }

    #[test]
    fn names_ignore_case_and_hyphens_and_have_aliases() {
        for (given, canonical) in [
            ("NoEviction", "noeviction"),
            ("AllKeys-LRU", "allkeys-lru"),
            ("volatile-S3-FIFO:0.2", "volatile-s3fifo:0.2"),
            ("allkeys-2q", "allkeys-twoq"),
            ("allkeys-wtinylfu", "allkeys-w-tinylfu"),
            ("volatile-TTL", "volatile-ttl"),
        ] {
            let choice = PolicyChoice::parse(given).expect("it is a spelling of a name");
            assert_eq!(choice.name, canonical);
        }
    }

    #[test]
    fn a_wrong_name_gets_a_suggestion_and_a_short_list() {
        let error = PolicyChoice::parse("allkeys-lur").expect_err("there is no such policy");
        assert!(error.contains("did you mean 'allkeys-lru'"), "{error}");
        assert!(error.contains("volatile-ttl") && error.contains("allkeys-s3fifo"));
        assert!(!error.contains("memcached"), "{error}");
        for wrong in [
            "",
            "lru",
            "allkeys-ttl",
            "allkeys-belady",
            "allkeys-lru:x=1",
        ] {
            assert!(PolicyChoice::parse(wrong).is_err(), "{wrong}");
        }
    }
}
