//! The field Cache-Status (RFC 9211), which describes how a cache handled a request.

use super::freshness::Terms;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt::{self, Write};
use std::time::Duration;

/// Name of the field.
pub const FIELD: &str = "cache-status";
/// Name of the field as a `HeaderName`, so that it need not be parsed for each reply.
pub const NAME: HeaderName = HeaderName::from_static(FIELD);

/// Cause of a miss: the reason why a request was forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// The method is not served from the cache.
    Method,
    /// The request requires it, or the cache is not used for it.
    Request,
    /// Responses to this URL could not be stored lately.
    Bypass,
    /// Nothing is stored under the URL.
    UriMiss,
    /// The stored responses of the URL were selected by other request fields.
    VaryMiss,
    /// The stored response is stale.
    Stale,
    /// The stored response is a part that does not contain the requested one.
    Partial,
}

impl Forward {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Forward; 7] = [
        Forward::Method,
        Forward::Request,
        Forward::Bypass,
        Forward::UriMiss,
        Forward::VaryMiss,
        Forward::Stale,
        Forward::Partial,
    ];

    /// Returns the name in the field and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Forward::Method => "method",
            Forward::Request => "request",
            Forward::Bypass => "bypass",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Partial => "partial",
        }
    }
}

/// Way in which a response came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStatus {
    /// Reason why the request was forwarded; `None` for a hit.
    pub forward: Option<Forward>,
    /// Status of the origin's response, if it differs from the status sent.
    pub forward_status: Option<u16>,
    /// Whether the response was stored.
    pub is_stored: bool,
    /// Whether another request's fetch was shared.
    pub is_collapsed: bool,
    /// Remaining freshness in seconds; negative if the response is stale.
    pub ttl_seconds: Option<i64>,
    /// Further detail, as a token.
    pub detail: Option<&'static str>,
    /// Time until the head of the origin's response arrived, if the request went there. The field
    /// does not contain it.
    pub origin_time: Option<Duration>,
}

impl CacheStatus {
    /// Sets the remaining freshness.
    pub fn set_ttl(&mut self, terms: &Terms, now_ms: u64) {
        self.ttl_seconds = Some(terms.remaining_ms(now_ms).div_euclid(1_000));
    }

    /// Returns the field's value. It begins with the cache's name, which must be a token.
    pub fn value(&self, cache: &str) -> HeaderValue {
        let mut text = String::with_capacity(64);
        // Writing to a string cannot fail.
        let _ = self.write(cache, &mut text);
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("mayfly"))
    }

    /// Writes the value of the field.
    ///
    /// # Errors
    /// Returns an error if writing to `text` fails.
    pub fn write(&self, cache: &str, text: &mut impl Write) -> fmt::Result {
        text.write_str(cache)?;
        match self.forward {
            None => text.write_str("; hit")?,
            Some(forward) => write!(text, "; fwd={}", forward.name())?,
        }
        if let Some(status) = self.forward_status {
            write!(text, "; fwd-status={status}")?;
        }
        if self.is_stored {
            text.write_str("; stored")?;
        }
        if self.is_collapsed {
            text.write_str("; collapsed")?;
        }
        if let Some(seconds) = self.ttl_seconds {
            write!(text, "; ttl={seconds}")?;
        }
        if let Some(detail) = self.detail {
            write!(text, "; detail={detail}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_misses_are_written() {
        let hit = CacheStatus {
            ttl_seconds: Some(-5),
            ..CacheStatus::default()
        };
        assert_eq!(hit.value("mayfly"), "mayfly; hit; ttl=-5");
        let miss = CacheStatus {
            forward: Some(Forward::UriMiss),
            forward_status: Some(304),
            is_stored: true,
            is_collapsed: true,
            ..CacheStatus::default()
        };
        let text = "mayfly; fwd=uri-miss; fwd-status=304; stored; collapsed";
        assert_eq!(miss.value("mayfly"), text);
    }
}
