//! Which responses may be stored, how old they are, and how long they may be used (RFC 9111,
//! sections 3, 4.2 and 5; RFC 5861).
//!
//! [`judge`] is called once, when the head of a response has arrived. It returns [`Terms`], which
//! answer all later questions from the time alone.

use super::dates;
use super::directives::{self, Directives};
use super::targeted;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};

/// Part of the time since the last modification for which a response without a lifetime is fresh:
/// one tenth (RFC 9111, section 4.2.2).
const HEURISTIC_PART: u64 = 10;
/// Maximum of a lifetime that was not given by the origin: one day, in milliseconds.
const HEURISTIC_MS_MAX: u64 = 86_400_000;

/// Times of an operator's choice, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grace {
    /// Time beyond freshness for which a response is used when the origin fails, if the origin has
    /// said nothing about it.
    pub error_ms: u64,
    /// Time beyond freshness for which a response with a validator is kept for revalidation.
    pub keep_ms: u64,
}

impl Default for Grace {
    fn default() -> Self {
        Grace {
            error_ms: 60_000,
            keep_ms: 600_000,
        }
    }
}

/// What [`judge`] needs of the request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Whether the request has the field Authorization.
    pub has_authorization: bool,
    /// Instant at which the request was sent to the origin.
    pub sent_ms: u64,
}

/// Reason for which a response is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The method has no stored responses here.
    Method,
    /// The status is not final, is not understood and must be, or depends on fields of the request
    /// that are no part of the key.
    Status,
    /// `no-store`.
    NoStore,
    /// `private`.
    Private,
    /// The request had credentials, and the response does not permit to share it.
    Authorization,
    /// `Vary: *`.
    VaryStar,
    /// It has neither a lifetime nor a validator.
    Useless,
}

impl Refusal {
    /// All refusals, in the order of their numbers.
    pub const ALL: [Refusal; 7] = [
        Refusal::Method,
        Refusal::Status,
        Refusal::NoStore,
        Refusal::Private,
        Refusal::Authorization,
        Refusal::VaryStar,
        Refusal::Useless,
    ];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Method => "method",
            Refusal::Status => "status",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization",
            Refusal::VaryStar => "vary-star",
            Refusal::Useless => "no-lifetime",
        }
    }
}

/// Times of a stored response. All are milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Instant at which the response was received.
    pub received_ms: u64,
    /// Age when it was received (`corrected_initial_age`).
    pub initial_age_ms: u64,
    /// Age up to which it is fresh.
    pub fresh_ms: u64,
    /// Time beyond freshness during which it is used while it is revalidated.
    pub revalidate_ms: u64,
    /// Time beyond freshness during which it is used when the origin fails.
    pub error_ms: u64,
    /// Time beyond freshness for which it is kept, because it has a validator.
    pub keep_ms: u64,
    /// Whether it must not be used without validation even while it is fresh (`no-cache`).
    pub is_always_validated: bool,
    /// Whether it must not be used stale even if the client accepts it.
    pub must_revalidate: bool,
}

impl Terms {
    /// Returns the age at an instant.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.initial_age_ms
            .saturating_add(now_ms.saturating_sub(self.received_ms))
    }

    /// Remaining time of freshness; negative if the response is stale.
    pub fn remaining_ms(&self, now_ms: u64) -> i64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        signed(self.fresh_ms).saturating_sub(signed(self.age_ms(now_ms)))
    }

    /// Whether the response is fresh and may be used without validation.
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.age_ms(now_ms) < self.fresh_ms
    }

    /// Whether it may be used while it is revalidated.
    pub fn is_usable_meanwhile(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.staleness_ms(now_ms) < self.revalidate_ms
    }

    /// Whether it may be used when the origin fails.
    pub fn is_usable_on_error(&self, now_ms: u64) -> bool {
        !self.is_always_validated && self.staleness_ms(now_ms) < self.error_ms
    }

    /// Time for which it has been stale.
    pub fn staleness_ms(&self, now_ms: u64) -> u64 {
        self.age_ms(now_ms).saturating_sub(self.fresh_ms)
    }

    /// Remaining time of use of any kind. At its end the response leaves the cache.
    pub fn usable_ms(&self, now_ms: u64) -> u64 {
        let stale = self.revalidate_ms.max(self.error_ms).max(self.keep_ms);
        let end = self.fresh_ms.saturating_add(stale);
        end.saturating_sub(self.age_ms(now_ms))
    }

    /// Ends the freshness at an instant, so that the response is stale from then on.
    pub fn end_freshness(&mut self, now_ms: u64) {
        self.fresh_ms = self.fresh_ms.min(self.age_ms(now_ms));
    }
}

/// Decides whether a response may be stored, and for how long it may be used.
///
/// # Errors
/// The reason for which it must not be stored, or would be of no use.
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
    // A response that is stale already is worth storing if it can be validated, or if the origin
    // permits its use.
    let has_windows = rules
        .stale_while_revalidate
        .or(rules.stale_if_error)
        .is_some();
    let is_usable = !terms.is_always_validated && has_windows && terms.usable_ms(now_ms) > 0;
    // Its age may be beyond all of that.
    let is_kept = has_validator && terms.keep_ms > 0 && terms.usable_ms(now_ms) > 0;
    if !is_useful && !is_usable && !is_kept {
        return Err(Refusal::Useless);
    }
    Ok((terms, rules))
}

/// RFC 9111, sections 3 and 3.5.
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
    // A delay below a second is no age: ages are sent in whole seconds.
    let delay_ms = if delay_ms < 1_000 { 0 } else { delay_ms };
    let apparent_ms = now_ms.saturating_sub(date_ms);
    // Dates have no milliseconds, so that an apparent age below a second may be rounding.
    let apparent_ms = if apparent_ms < 1_000 { 0 } else { apparent_ms };
    let initial_age_ms = apparent_ms.max(said_ms + delay_ms);
    let fresh_ms = lifetime_ms(status, headers, rules, is_targeted, date_ms);
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
        error_ms: stale(
            rules.stale_if_error,
            if is_error { 0 } else { grace.error_ms },
        ),
        keep_ms: if has_validator { grace.keep_ms } else { 0 },
        is_always_validated: rules.has_no_cache,
        must_revalidate,
    }
}

/// Freshness lifetime (RFC 9111, section 4.2.1). A targeted field replaces Expires, too.
fn lifetime_ms(
    status: StatusCode,
    headers: &HeaderMap,
    rules: &Directives,
    is_targeted: bool,
    date_ms: u64,
) -> u64 {
    if let Some(seconds) = rules.s_maxage.or(rules.max_age) {
        return seconds * 1_000;
    }
    if !is_targeted && let Some(expires) = headers.get("expires") {
        // A malformed date, such as `0`, is in the past. So is one of several.
        let is_single = headers.get_all("expires").iter().count() == 1;
        let expires = dates::parse(expires).filter(|_| is_single);
        return expires.map_or(0, |expires| expires.saturating_sub(date_ms));
    }
    if !rules.is_public && !is_heuristic(status) {
        return 0;
    }
    let modified = headers.get("last-modified").and_then(dates::parse);
    modified.map_or(0, |modified| {
        (date_ms.saturating_sub(modified) / HEURISTIC_PART).min(HEURISTIC_MS_MAX)
    })
}

/// Statuses whose responses may have a lifetime that the origin did not give (RFC 9110, section
/// 15.1).
fn is_heuristic(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Whether a status depends on how a resource was requested: on Range, conditions, Expect, the
/// length and the time of the request, and not on the resource. Other requests would get other
/// responses, so that such a one is not stored, whatever lifetime it has.
pub fn is_of_request(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        408 | 411 | 412 | 413 | 416 | 417 | 421 | 428 | 431
    )
}

/// Statuses whose rules this cache implements: those that RFC 9110 defines.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=206 | 300..=305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505
    )
}

#[cfg(test)]
mod tests;
