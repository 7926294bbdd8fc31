//! HTTP dates (RFC 9110, section 5.6.7) as milliseconds since the Unix epoch.

use hyper::header::HeaderValue;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest date that is read: the obsolete format with a weekday in full has 33 bytes.
const BYTES_MAX: usize = 40;

/// Parses a date in any of the three formats. The case of day and month names is ignored, because
/// recipients are expected to be lenient; everything else must match exactly.
pub fn parse(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    if text.len() > BYTES_MAX {
        return None;
    }
    let instant = httpdate::parse_http_date(&with_usual_case(text)).ok()?;
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).ok()
}

/// Returns the text with a capital letter at the beginning of each word and small letters after
/// it, except for the time zone and for the `T` of a time.
fn with_usual_case(text: &str) -> String {
    let mut is_inside = false;
    let mut usual: String = text
        .chars()
        .map(|letter| {
            let cased = if is_inside {
                letter.to_ascii_lowercase()
            } else {
                letter.to_ascii_uppercase()
            };
            is_inside = letter.is_ascii_alphabetic();
            cased
        })
        .collect();
    if usual.ends_with("Gmt") {
        usual.replace_range(usual.len() - 3.., "GMT");
    }
    usual
}

/// Formats an instant in the preferred format. Instants after the year 9999 become the last second
/// of that year.
pub fn format(ms: u64) -> HeaderValue {
    const LAST_SECOND: u64 = 253_402_300_799;
    let instant: SystemTime = UNIX_EPOCH + Duration::from_secs((ms / 1_000).min(LAST_SECOND));
    HeaderValue::from_str(&httpdate::fmt_http_date(instant)).expect("a date is plain ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<u64> {
        parse(&HeaderValue::from_str(text).expect("the input is valid"))
    }

    #[test]
    fn the_three_formats_are_read() {
        let expected = Some(784_111_777_000);
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), expected);
        assert_eq!(read("Sunday, 06-Nov-94 08:49:37 GMT"), expected);
        assert_eq!(read("Sun Nov  6 08:49:37 1994"), expected);
    }

    #[test]
    fn names_are_read_in_any_case() {
        let expected = Some(784_111_777_000);
        assert_eq!(read("SUN, 06 nov 1994 08:49:37 gmt"), expected);
        assert_eq!(read("sunday, 06-NOV-94 08:49:37 GMT"), expected);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun,  06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            "0",
            "-1",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_is_read_back() {
        assert_eq!(parse(&format(784_111_777_000)), Some(784_111_777_000));
        assert!(parse(&format(u64::MAX)).is_some());
    }
}
