//! The claims. Each states that a policy misses less than another, with the numbers that the thesis
//! gives and the section where it gives them.

use super::TraceKind;
use policy::any::POLICIES;

/// Claim that `subject` misses less than `over`.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Policy that the claim is about.
    pub subject: &'static str,
    /// Policy with which the subject is compared.
    pub over: &'static str,
    /// Kind of traces that the claim is about; `None` for all.
    pub kind: Option<TraceKind>,
    /// Whether the claim is about the byte miss ratio.
    pub is_of_bytes: bool,
    /// Section or figure of the thesis.
    pub source: &'static str,
    /// Numbers that the thesis gives there.
    pub says: &'static str,
}

const fn claim(
    subject: &'static str,
    over: &'static str,
    source: &'static str,
    says: &'static str,
) -> Claim {
    Claim {
        subject,
        over,
        kind: None,
        is_of_bytes: false,
        source,
        says,
    }
}

const fn of(kind: TraceKind, claim: Claim) -> Claim {
    Claim {
        kind: Some(kind),
        ..claim
    }
}

const fn of_bytes(claim: Claim) -> Claim {
    Claim {
        is_of_bytes: true,
        ..claim
    }
}

/// Claims of the thesis, in the order of its sections.
pub(super) const CLAIMS: &[Claim] = &[
    of(
        TraceKind::Web,
        claim(
            "clock",
            "lru",
            "7.3",
            "better on > 70 % of web traces; mean 1 %",
        ),
    ),
    of(
        TraceKind::Block,
        claim(
            "clock",
            "lru",
            "7.3",
            "better on > 90 % of block traces, small; mean 1 %",
        ),
    ),
    claim(
        "clock:2",
        "lru",
        "7.3",
        "better on > 90 % of web traces; mean 2.5 %",
    ),
    claim("arc", "fifo", "7.4", "mean 14.2 %"),
    claim("arc", "lru", "7.4", "mean 6.4 %"),
    claim("qd-arc", "arc", "7.4", "mean 1.5 %, up to 59.8 %"),
    claim("qd-lirs", "lirs", "7.4", "mean 2.7 %, up to 49.6 %"),
    claim("qd-lecar", "lecar", "7.4", "mean 4.8 %, up to 58.8 %"),
    claim(
        "qd-cacheus",
        "cacheus",
        "7.4",
        "better at almost all percentiles",
    ),
    claim("qd-lhd", "lhd", "7.4", "better at almost all percentiles"),
    claim("qd-lp-fifo", "lirs", "7.4", "mean 1.8 %"),
    claim("qd-lp-fifo", "cacheus", "7.4", "mean 2.3 %"),
    claim("s3fifo", "fifo", "8.4.2", "large: mean 14 %, P90 32 %"),
    claim(
        "s3fifo",
        "w-tinylfu",
        "8.4.2",
        "better at almost all percentiles",
    ),
    claim(
        "s3fifo",
        "lirs",
        "8.4.2",
        "better at almost all percentiles",
    ),
    claim(
        "s3fifo",
        "twoq",
        "8.4.2",
        "better at almost all percentiles",
    ),
    claim("s3fifo", "arc", "8.4.2", "better at almost all percentiles"),
    claim(
        "w-tinylfu",
        "fifo",
        "8.4.2",
        "worse on 20 % of traces, small: on 50 %",
    ),
    claim("lru", "b-lru", "8.4.2", "B-LRU is worse in most cases"),
    claim(
        "s3fifo",
        "s3fifo-d",
        "8.5.2",
        "better but for 2 % of traces",
    ),
    of(
        TraceKind::Web,
        claim(
            "sieve",
            "fifo",
            "9.3.2",
            "large: mean 21 %, P90 42 % (CDN1)",
        ),
    ),
    of(
        TraceKind::Web,
        claim(
            "sieve",
            "clock",
            "9.3.2",
            "21 % against 15 % over FIFO (CDN1)",
        ),
    ),
    of(
        TraceKind::Web,
        claim("sieve", "arc", "9.3.2", "mean 1.5 %, up to 63.2 % (CDN1)"),
    ),
    of(
        TraceKind::Web,
        claim("lecar-sieve", "lecar", "9.5.2", "mean 4.5 %"),
    ),
    of(
        TraceKind::Web,
        claim("twoq-sieve", "twoq", "9.5.2", "better"),
    ),
    of(
        TraceKind::Web,
        claim(
            "arc-sieve",
            "arc",
            "9.5.2",
            "large: mean 3.7 %, up to 62.5 %",
        ),
    ),
    of(
        TraceKind::Web,
        claim("arc-sieve", "sieve", "9.5.2", "mean 2.4 %, up to 40.6 %"),
    ),
    of_bytes(of(
        TraceKind::Web,
        claim(
            "sieve",
            "arc",
            "9.6.1",
            "larger reductions at all percentiles",
        ),
    )),
    of(
        TraceKind::Block,
        claim(
            "s3fifo",
            "sieve",
            "9.6.4",
            "SIEVE is visibly worse on blocks",
        ),
    ),
    of(
        TraceKind::Block,
        claim(
            "s3-sieve",
            "sieve",
            "9.6.4",
            "significantly better on blocks",
        ),
    ),
    of(
        TraceKind::Block,
        claim("s3fifo", "s3-sieve", "9.6.4", "slightly better on blocks"),
    ),
    of(
        TraceKind::Web,
        claim(
            "s3-sieve",
            "s3fifo",
            "9.6.4",
            "slightly better on web traces",
        ),
    ),
    of(
        TraceKind::Web,
        claim(
            "s3fifo",
            "sieve",
            "9.6.4",
            "slightly better, small most of all",
        ),
    ),
];

/// Policies compared in figure 8.6.
pub(super) const FIELD: &[&str] = &[
    "s3fifo",
    "w-tinylfu",
    "lirs",
    "twoq",
    "slru",
    "arc",
    "cacheus",
    "lecar",
    "lhd",
    "fifo-merge",
    "b-lru",
    "clock",
    "lru",
];

/// All implemented policies that the claims and figure 8.6 name, with FIFO and the optimal bound.
pub fn policies() -> Vec<&'static str> {
    let named = CLAIMS.iter().flat_map(|claim| [claim.subject, claim.over]);
    let mut policies = vec!["fifo", "belady"];
    for name in FIELD.iter().copied().chain(named) {
        let plain = name.split(':').next();
        let exists = POLICIES.iter().any(|about| Some(about.name) == plain);
        if exists && !policies.contains(&name) {
            policies.push(name);
        }
    }
    policies
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::any::PolicySpec;

    #[test]
    fn every_policy_named_is_one() {
        for name in policies() {
            assert!(name.parse::<PolicySpec>().is_ok(), "{name}");
        }
        assert!(policies().len() > 20);
    }
}
