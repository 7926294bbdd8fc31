//! Rules that determine which responses may be stored, how old they are, and how long they may be
//! used (RFC 9111, sections 3, 4.2 and 5; RFC 5861).
//!
//! [`judge`] is called once, when the head of a response has arrived. It returns [`Terms`], which
//! answer all later questions from the time alone.

use super::dates;
use super::directives::{self, Directives};
use super::targeted;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};

/// Divisor of the time since the last modification that gives the freshness lifetime of a response
/// without an explicit one (RFC 9111, section 4.2.2).
const HEURISTIC_PART: u64 = 10;
/// Maximum of a lifetime that the origin did not give, in milliseconds: one day.
const HEURISTIC_MS_MAX: u64 = 86_400_000;

/// Times that the operator chooses, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grace {
    /// Time beyond freshness for which a response is used when the origin fails, unless the origin
    /// has set its own.
    pub error_ms: u64,
    /// Time beyond freshness for which a response with a validator is kept for revalidation.
    pub keep_ms: u64,
    /// Freshness lifetime of a response for which the origin gives none; `None` for the rules of
    /// HTTP.
    pub fresh_ms: Option<u64>,
}

impl Default for Grace {
    fn default() -> Self {
        Grace {
            error_ms: 60_000,
            keep_ms: 600_000,
            fresh_ms: None,
        }
    }
}

/// Properties of the request that [`judge`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Whether the request has the field Authorization.
    pub has_authorization: bool,
    /// Instant at which the request was sent to the origin.
    pub sent_ms: u64,
}

/// Reason why a response is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Responses to this method are not stored.
    Method,
    /// The status is not final, is not understood although it must be, or depends on request fields
    /// that are not part of the key.
    Status,
    /// The response has `no-store`.
    NoStore,
    /// The response has `private`.
    Private,
    /// The request had credentials, and the response does not permit sharing it.
    Authorization,
    /// The response has `Vary: *`.
    VaryStar,
    /// The response has neither a lifetime nor a validator.
    Useless,
    /// The response is longer than the longest that is stored.
    Length,
    /// Memory is too short to keep the response until it is complete.
    Memory,
}

impl Refusal {
    /// All refusals, in the order of their numbers.
    pub const ALL: [Refusal; 9] = [
        Refusal::Method,
        Refusal::Status,
        Refusal::NoStore,
        Refusal::Private,
        Refusal::Authorization,
        Refusal::VaryStar,
        Refusal::Useless,
        Refusal::Length,
        Refusal::Memory,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Method => "method",
            Refusal::Status => "status",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization",
            Refusal::VaryStar => "vary-star",
            Refusal::Useless => "no-lifetime",
            Refusal::Length => "length",
            Refusal::Memory => "memory",
        }
    }
}

/// Times of a stored response, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Instant at which the response was received.
    pub received_ms: u64,
    /// Age of the response when it was received (`corrected_initial_age`).
    pub initial_age_ms: u64,
    /// Age up to which the response is fresh.
    pub fresh_ms: u64,
    /// Time beyond freshness for which the response is used while it is revalidated.
    pub revalidate_ms: u64,
    /// Time beyond freshness for which the response is used when the origin fails.
    pub error_ms: u64,
    /// Time beyond freshness for which the response is kept for validation.
    pub keep_ms: u64,
    /// Whether the response must be validated even while it is fresh (`no-cache`).
    pub is_always_validated: bool,
    /// Whether the response must not be used stale even if the client accepts it.
    pub must_revalidate: bool,
}

impl Terms {
    /// Returns the age at an instant.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.initial_age_ms
            .saturating_add(now_ms.saturating_sub(self.received_ms))
    }

    /// Returns the remaining time of freshness; negative if the response is stale.
    pub fn remaining_ms(&self, now_ms: u64) -> i64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        signed(self.fresh_ms).saturating_sub(signed(self.age_ms(now_ms)))
    }

    /// Returns true if the response is fresh and may be used without validation.
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.age_ms(now_ms) < self.fresh_ms
    }

    /// Returns true if the response may be used while it is revalidated.
    pub fn is_usable_meanwhile(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.staleness_ms(now_ms) < self.revalidate_ms
    }

    /// Returns true if the response may be used when the origin fails.
    pub fn is_usable_on_error(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.staleness_ms(now_ms) < self.error_ms
    }

    /// Returns true if the response answers requests when the origin fails, or does not answer in
    /// time.
    pub fn is_usable_when_failing(&self, now_ms: u64) -> bool {
        self.is_usable_on_error(now_ms) || self.is_usable_meanwhile(now_ms)
    }

    /// Returns true if the response remains in use when the origin fails, so that an error must not
    /// replace it.
    pub fn outlasts_failure(&self, now_ms: u64) -> bool {
        self.is_fresh(now_ms) || self.is_usable_when_failing(now_ms)
    }

    /// Returns the terms of a response that answers only the requests that already wait for it.
    pub fn of_single_use(now_ms: u64) -> Self {
        Terms {
            received_ms: now_ms,
            initial_age_ms: 0,
            fresh_ms: 0,
            revalidate_ms: 0,
            error_ms: 0,
            keep_ms: 0,
            is_always_validated: true,
            must_revalidate: true,
        }
    }

    /// Returns the time for which the response has been stale.
    pub fn staleness_ms(&self, now_ms: u64) -> u64 {
        self.age_ms(now_ms).saturating_sub(self.fresh_ms)
    }

    /// Returns the remaining time for which the response can be used in any way. At its end the
    /// response leaves the cache.
    pub fn usable_ms(&self, now_ms: u64) -> u64 {
        let stale = self.revalidate_ms.max(self.error_ms).max(self.keep_ms);
        let end = self.fresh_ms.saturating_add(stale);
        end.saturating_sub(self.age_ms(now_ms))
    }

    /// Makes the response stale from `now_ms` on.
    pub fn end_freshness(&mut self, now_ms: u64) {
        self.fresh_ms = self.fresh_ms.min(self.age_ms(now_ms));
    }
}

/// Decides whether a response may be stored, and for how long it may be used.
///
/// # Errors
/// Returns the reason if the response must not be stored or would be of no use.
pub fn judge(
    asked: Asked<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    now_ms: u64,
    grace: Grace,
) -> Result<(Terms, Directives), Refusal> {
    if asked.method != Method::GET {
        return Err(Refusal::Method);
    }
    let targeted = targeted::directives(headers);
    let is_targeted = targeted.is_some();
    let rules = targeted.unwrap_or_else(|| Directives::of(headers));
    permit(asked, status, &rules)?;
    let has_validator = headers.contains_key("etag") || headers.contains_key("last-modified");
    let terms = terms(
        asked,
        status,
        headers,
        &rules,
        is_targeted,
        has_validator,
        now_ms,
        grace,
    );
    let is_useful = terms.fresh_ms > terms.initial_age_ms && !terms.is_always_validated;
    // A response that is already stale is worth storing if it can be validated or the origin
    // permits its stale use.
    let has_windows = rules
        .stale_while_revalidate
        .or(rules.stale_if_error)
        .is_some();
    let is_usable = !terms.is_always_validated && has_windows && terms.usable_ms(now_ms) > 0;
    // The response may be older than all of these times.
    let is_kept = has_validator && terms.keep_ms > 0 && terms.usable_ms(now_ms) > 0;
    if !is_useful && !is_usable && !is_kept {
        return Err(Refusal::Useless);
    }
    Ok((terms, rules))
}

/// Checks whether the request and the response permit storing (RFC 9111, sections 3 and 3.5).
fn permit(asked: Asked<'_>, status: StatusCode, rules: &Directives) -> Result<(), Refusal> {
    let is_final = status.as_u16() >= 200 && status != StatusCode::NOT_MODIFIED;
    let must_understand = rules.has_must_understand;
    if !is_final || is_of_request(status) || (must_understand && !is_understood(status)) {
        return Err(Refusal::Status);
    }
    if rules.has_no_store && !must_understand {
        return Err(Refusal::NoStore);
    }
    if rules.is_private {
        return Err(Refusal::Private);
    }
    let may_share = rules.is_public || rules.has_must_revalidate || rules.s_maxage.is_some();
    if asked.has_authorization && !may_share {
        return Err(Refusal::Authorization);
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "all are facts of one response")]
fn terms(
    asked: Asked<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    rules: &Directives,
    is_targeted: bool,
    has_validator: bool,
    now_ms: u64,
    grace: Grace,
) -> Terms {
    let date_ms = headers.get("date").and_then(dates::parse).unwrap_or(now_ms);
    let delay_ms = now_ms.saturating_sub(asked.sent_ms);
    let said_ms = directives::age(headers).unwrap_or(0) * 1_000;
    // A delay of less than a second does not count as age, because ages are sent in whole seconds.
    let delay_ms = if delay_ms < 1_000 { 0 } else { delay_ms };
    let apparent_ms = now_ms.saturating_sub(date_ms);
    // Dates have no milliseconds, so that an apparent age of less than a second may come from
    // rounding.
    let apparent_ms = if apparent_ms < 1_000 { 0 } else { apparent_ms };
    let initial_age_ms = apparent_ms.max(said_ms + delay_ms);
    let fresh_ms = explicit_ms(headers, rules, is_targeted, date_ms);
    let fresh_ms = fresh_ms.or(grace.fresh_ms);
    let fresh_ms = fresh_ms.unwrap_or_else(|| heuristic_ms(status, headers, rules, date_ms));
    // `s-maxage` implies `proxy-revalidate` (section 5.2.2.10).
    let must_revalidate =
        rules.has_must_revalidate || rules.has_proxy_revalidate || rules.s_maxage.is_some();
    let stale = |seconds: Option<u64>, default_ms: u64| {
        if must_revalidate || rules.has_no_cache {
            0
        } else {
            seconds.map_or(default_ms, |seconds| seconds * 1_000)
        }
    };
    let is_error = status.is_server_error();
    Terms {
        received_ms: now_ms,
        initial_age_ms,
        fresh_ms,
        revalidate_ms: stale(rules.stale_while_revalidate, 0),
        // An error has no value beyond its own lifetime.
        error_ms: match is_error {
            true => 0,
            false => stale(rules.stale_if_error, grace.error_ms),
        },
        keep_ms: match has_validator && !is_error {
            true => grace.keep_ms,
            false => 0,
        },
        is_always_validated: rules.has_no_cache,
        must_revalidate,
    }
}

/// Returns the freshness lifetime that the origin gives (RFC 9111, section 4.2.1). A targeted field
/// also replaces Expires.
fn explicit_ms(
    headers: &HeaderMap,
    rules: &Directives,
    is_targeted: bool,
    date_ms: u64,
) -> Option<u64> {
    if let Some(seconds) = rules.s_maxage.or(rules.max_age) {
        return Some(seconds * 1_000);
    }
    if !is_targeted && let Some(expires) = headers.get("expires") {
        // A malformed date, such as `0`, counts as past, and so do several dates.
        let is_single = headers.get_all("expires").iter().count() == 1;
        let expires = dates::parse(expires).filter(|_| is_single);
        return Some(expires.map_or(0, |expires| expires.saturating_sub(date_ms)));
    }
    None
}

/// Returns the freshness lifetime that follows from the last modification (RFC 9111, section
/// 4.2.2).
fn heuristic_ms(status: StatusCode, headers: &HeaderMap, rules: &Directives, date_ms: u64) -> u64 {
    if !rules.is_public && !is_heuristic(status) {
        return 0;
    }
    let modified = headers.get("last-modified").and_then(dates::parse);
    modified.map_or(0, |modified| {
        (date_ms.saturating_sub(modified) / HEURISTIC_PART).min(HEURISTIC_MS_MAX)
    })
}

/// Returns true if responses with this status may have a lifetime that the origin did not give (RFC
/// 9110, section 15.1).
fn is_heuristic(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Returns true if a status depends on how the resource was requested: on Range, conditions,
/// Expect, or the length or time of the request. Other requests would get other responses, so such
/// a response is not stored, regardless of its lifetime.
pub fn is_of_request(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        408 | 411 | 412 | 413 | 416 | 417 | 421 | 428 | 431
    )
}

/// Returns true if a status means that the origin, or a gateway before it, fails for the moment. A
/// stored response is then used if its terms permit it (RFC 5861, section 4).
pub fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

/// Returns true if this cache implements the rules of a status: RFC 9110 defines it.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=206 | 300..=305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505
    )
}

#[cfg(test)]
mod tests;
