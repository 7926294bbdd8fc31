//! The names of `maxmemory-policy`: Redis's, mapped to the nearest of ours, and ours.

use cache::Scope;
use policy::any::{POLICIES, PolicySpec};

/// Redis's names that are not ours, and what serves them: (Redis's, ours, why).
///
/// Redis's `lru` and `lfu` sample a few keys; ours of the same name do what the words say, and
/// `volatile-ttl` is served by the policy that samples for the nearest deadline.
const REDIS: &[(&str, &str)] = &[
    ("lru", "sampled-lru"),
    ("lrm", "sampled-lru"),
    ("lfu", "s3fifo"),
    ("random", "random"),
];

/// The policy and scope of a name such as `allkeys-s3fifo` or `volatile-clock:2`.
pub(crate) fn parse(name: &str) -> Result<(Option<PolicySpec>, Scope), String> {
    if name == "noeviction" {
        return Ok((None, Scope::Nothing));
    }
    let (scope, rest) = match name.split_once('-') {
        Some(("allkeys", rest)) => (Scope::All, rest),
        Some(("volatile", "ttl")) => (Scope::Volatile, "sampled-ttl"),
        Some(("volatile", rest)) => (Scope::Volatile, rest),
        _ => {
            return Err(format!(
                "no policy '{name}': expected one of {}",
                names().join(" ")
            ));
        }
    };
    let ours = REDIS
        .iter()
        .find(|(redis, _)| *redis == rest)
        .map_or(rest, |(_, ours)| ours);
    let spec: PolicySpec = ours
        .parse()
        .map_err(|error| format!("policy '{name}': {error}"))?;
    if !served_names().any(|served| served == spec.name()) {
        return Err(format!("policy '{name}': only the simulator runs it"));
    }
    Ok((Some(spec), scope))
}

/// The specification of the policy that a name stands for, its knobs written out; `None` for
/// `noeviction` and for what is no name.
pub(crate) fn meaning(name: &str) -> Option<String> {
    let (spec, _) = parse(name).ok()?;
    spec.map(|spec| spec.to_string())
}

/// Our policies that keep few enough bits in an entry to be served.
fn served_names() -> impl Iterator<Item = &'static str> {
    POLICIES
        .iter()
        .filter(|about| about.meta_bits.is_some())
        .map(|about| about.name)
}

/// All names, Redis's first.
pub(crate) fn names() -> Vec<String> {
    let mut names = vec!["noeviction".to_owned()];
    for scope in ["allkeys", "volatile"] {
        let redis = REDIS.iter().map(|(redis, _)| *redis);
        let ours = served_names().filter(|n| !REDIS.iter().any(|(redis, _)| redis == n));
        names.extend(redis.chain(ours).map(|name| format!("{scope}-{name}")));
    }
    names.push("volatile-ttl".to_owned());
    names
}
