//! What the thesis claims of C2DN, held against a study's findings.

use super::findings::{Claim, Findings};
use super::found::Found;
use super::scheme::Scheme;
use edge::placement::Placement;

/// What C2DN saves of the bytes that two copies miss, at least (the thesis: 11 %). Against NoRebal it
/// tells no figure, but that there is something.
const SAVED: f64 = 0.08;
/// How unevenly C2DN writes, at most.
const UNEVEN: f64 = 0.005;
/// How much more C2DN misses in the first window after a failure, at most, and two copies at least.
const RISE_CODED: f64 = 0.02;
const RISE_COPIES: f64 = 0.10;
/// The share of unprotected objects: C2DN's at most, the others' at least.
const UNPROTECTED_CODED: f64 = 0.02;
const UNPROTECTED_OTHERS: f64 = 0.15;

const COPIES: Scheme = Scheme::Replicas(2);
const CODED: Scheme = Scheme::coded(3, 1, Placement::Greedy);
const UNBALANCED: Scheme = Scheme::coded(3, 1, Placement::Ring);

/// The run of a scheme at the base size, if it has something to tell.
fn telling(findings: &Findings, servers: usize, scheme: Scheme) -> Option<&Found> {
    let rows = findings.sweep.iter();
    let mut own = rows.filter(|row| row.servers == servers && row.size == findings.base);
    let row = own.find(|row| row.found.scheme == scheme)?;
    Some(&row.found).filter(|found| found.is_telling())
}

/// A claim that something is at least, or at most, a share; none where nothing was found.
fn claim(about: String, found: Option<f64>, limit: f64, is_least: bool) -> Option<Claim> {
    let found = found?;
    let word = if is_least { "at least" } else { "at most" };
    Some(Claim {
        claim: format!("{about}: {word} {} %", percent(limit)),
        found,
        shown: format!("{} %", percent(found)),
        holds: (found >= limit) == is_least || found == limit,
    })
}

/// The claims about schemes that are among the findings, at the base size.
pub(super) fn claims(findings: &Findings, servers: usize) -> Vec<Claim> {
    let mut claims = undisturbed(findings, servers);
    claims.extend(after_a_failure(findings));
    for (scheme, limit, is_least) in [
        (COPIES, UNPROTECTED_OTHERS, true),
        (UNBALANCED, UNPROTECTED_OTHERS, true),
        (CODED, UNPROTECTED_CODED, false),
    ] {
        let about = format!("{scheme}: objects that could not lose a server");
        let share = telling(findings, servers, scheme).map(|found| found.unprotected);
        claims.extend(claim(about, share, limit, is_least));
    }
    claims
}

/// What is missed and written while all servers are up.
fn undisturbed(findings: &Findings, servers: usize) -> Vec<Claim> {
    let at_base = |scheme| telling(findings, servers, scheme);
    let (copies, coded, unbalanced) = (at_base(COPIES), at_base(CODED), at_base(UNBALANCED));
    let saved_of = |of: Option<&Found>, ratio: fn(&Found) -> f64| {
        let (of, coded) = of.zip(coded)?;
        saved(ratio(coded), ratio(of))
    };
    let (bytes, requests) = (Found::byte_miss_ratio, Found::miss_ratio);
    let (fewer_bytes, fewer) = ("misses fewer bytes than", "misses less often than");
    let against = |what: &str, scheme: Scheme| format!("{CODED} {what} {scheme}, by");
    let claims = [
        claim(
            against(fewer_bytes, COPIES),
            saved_of(copies, bytes),
            SAVED,
            true,
        ),
        claim(
            against(fewer_bytes, UNBALANCED),
            saved_of(unbalanced, bytes),
            0.0,
            true,
        ),
        claim(
            against(fewer, UNBALANCED),
            saved_of(unbalanced, requests),
            0.0,
            true,
        ),
        claim(
            format!("{CODED}: write imbalance (max − min) / min"),
            coded.and_then(Found::write_imbalance),
            UNEVEN,
            false,
        ),
    ];
    claims.into_iter().flatten().collect()
}

/// What the first window without a server costs: all requests, which section 5.5.3 seems to count, and those for
/// objects of which it kept a part, as section 5.2.3 speaks of a bucket's.
fn after_a_failure(findings: &Findings) -> Vec<Claim> {
    let failure = |scheme: Scheme| {
        let mut failures = findings.failures.iter();
        failures.find(|one| one.down == 1 && one.scheme == scheme.to_string())
    };
    let rise = |scheme| failure(scheme)?.rises.first().copied().flatten();
    let rise_of_own = |scheme| failure(scheme)?.first_of_own;
    let first = "misses more in the first window after a server went, by";
    let own = "the same, of requests for objects of which it kept a part, by";
    let claims = [
        claim(format!("{CODED} {first}"), rise(CODED), RISE_CODED, false),
        claim(format!("{COPIES} {first}"), rise(COPIES), RISE_COPIES, true),
        claim(
            format!("{CODED}: {own}"),
            rise_of_own(CODED),
            RISE_CODED,
            false,
        ),
        claim(
            format!("{COPIES}: {own}"),
            rise_of_own(COPIES),
            RISE_COPIES,
            true,
        ),
    ];
    claims.into_iter().flatten().collect()
}

/// What is missed less, of what the other misses; none where that is nothing.
pub(super) fn saved(less: f64, more: f64) -> Option<f64> {
    (more > 0.0).then(|| 1.0 - less / more)
}

/// A share in percent, with three digits that matter.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let places = match percent.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{percent:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_nothing_is_saved() {
        assert_eq!(saved(0.0, 0.0), None);
        assert_eq!(saved(0.25, 0.5), Some(0.5));
    }

    #[test]
    fn shares_are_told_in_percent() {
        assert_eq!(percent(0.08), "8");
        assert_eq!(percent(0.005), "0.5");
        assert_eq!(percent(0.12345), "12.3");
        assert_eq!(percent(1.5), "150");
        assert_eq!(percent(-0.0123), "-1.23");
    }
}
