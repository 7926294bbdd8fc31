//! Claims of the thesis about C2DN, checked against the findings of a study.

use super::findings::{Claim, Findings};
use super::found::RunResult;
use super::scheme::Scheme;
use edge::placement::Placement;

/// Minimum share of the bytes missed by two copies that C2DN saves. The thesis reports 11 %;
/// against NoRebal, it reports only that there is a saving.
const SAVED: f64 = 0.08;
/// Maximum write imbalance of C2DN.
const UNEVEN: f64 = 0.005;
/// Limits on the increase of misses in the first window after a failure. This one is the maximum
/// for C2DN; the next one is the minimum for two copies.
const RISE_CODED: f64 = 0.02;
const RISE_COPIES: f64 = 0.10;
/// Limits on the share of unprotected objects. This one is the maximum for C2DN; the next one is
/// the minimum for the others.
const UNPROTECTED_CODED: f64 = 0.02;
const UNPROTECTED_OTHERS: f64 = 0.15;

const COPIES: Scheme = Scheme::Replicas(2);
const CODED: Scheme = Scheme::coded(3, 1, Placement::Greedy);
const UNBALANCED: Scheme = Scheme::coded(3, 1, Placement::Ring);

/// Result of a scheme at the base size, unless the run held nothing.
fn base_result(findings: &Findings, servers: usize, scheme: Scheme) -> Option<&RunResult> {
    let rows = findings.sweep.iter();
    let mut own = rows.filter(|row| row.servers == servers && row.size == findings.base);
    let row = own.find(|row| row.found.scheme == scheme)?;
    Some(&row.found).filter(|found| found.has_requests_and_objects())
}

/// A claim that a value is at least or at most `limit`. `None` without a value.
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

/// Checks the claims about the schemes of the study at the base size.
pub(super) fn claims(findings: &Findings, servers: usize) -> Vec<Claim> {
    let mut claims = undisturbed(findings, servers);
    claims.extend(after_a_failure(findings));
    for (scheme, limit, is_least) in [
        (COPIES, UNPROTECTED_OTHERS, true),
        (UNBALANCED, UNPROTECTED_OTHERS, true),
        (CODED, UNPROTECTED_CODED, false),
    ] {
        let about = format!("{scheme}: objects that would not survive the loss of a server");
        let share = base_result(findings, servers, scheme).map(|found| found.unprotected);
        claims.extend(claim(about, share, limit, is_least));
    }
    claims
}

/// Claims about misses and writes while all servers are up.
fn undisturbed(findings: &Findings, servers: usize) -> Vec<Claim> {
    let at_base = |scheme| base_result(findings, servers, scheme);
    let (copies, coded, unbalanced) = (at_base(COPIES), at_base(CODED), at_base(UNBALANCED));
    let saved_of = |of: Option<&RunResult>, ratio: fn(&RunResult) -> f64| {
        let (of, coded) = of.zip(coded)?;
        saved(ratio(coded), ratio(of))
    };
    let (bytes, requests) = (RunResult::byte_miss_ratio, RunResult::miss_ratio);
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
            coded.and_then(RunResult::write_imbalance),
            UNEVEN,
            false,
        ),
    ];
    claims.into_iter().flatten().collect()
}

/// Checks the claims about the first window after a server's failure: over all requests, which
/// section 5.5.3 seems to count, and over requests for objects of which the server kept a part, as
/// in section 5.2.3.
fn after_a_failure(findings: &Findings) -> Vec<Claim> {
    let failure = |scheme: Scheme| {
        let mut failures = findings.failures.iter();
        failures.find(|one| one.down == 1 && one.scheme == scheme.to_string())
    };
    let rise = |scheme| failure(scheme)?.rises.first().copied().flatten();
    let rise_of_own = |scheme| failure(scheme)?.first_affected_rise;
    let first = "increase of misses in the first window after a server failure";
    let own = "the same for objects of which the server kept a part";
    let claims = [
        claim(format!("{CODED}: {first}"), rise(CODED), RISE_CODED, false),
        claim(
            format!("{COPIES}: {first}"),
            rise(COPIES),
            RISE_COPIES,
            true,
        ),
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

/// Returns the relative reduction; `None` if there is nothing to reduce.
pub(super) fn saved(less: f64, more: f64) -> Option<f64> {
    (more > 0.0).then(|| 1.0 - less / more)
}

/// Formats a share in percent with three significant digits.
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
    fn nothing_is_saved_of_zero_misses() {
        assert_eq!(saved(0.0, 0.0), None);
        assert_eq!(saved(0.25, 0.5), Some(0.5));
    }

    #[test]
    fn shares_are_formatted_in_percent() {
        assert_eq!(percent(0.08), "8");
        assert_eq!(percent(0.005), "0.5");
        assert_eq!(percent(0.12345), "12.3");
        assert_eq!(percent(1.5), "150");
        assert_eq!(percent(-0.0123), "-1.23");
    }
}
