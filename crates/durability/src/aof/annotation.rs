//! Annotations: lines in the file that give the time at which the following commands were executed.
//!
//! A replica writes its primary's commands to the file as received. Commands from Redis before
//! version 7 may contain TTLs and automatic IDs, which depend on the execution time. Redis ignores
//! Mayfly's annotations, and writes annotations of its own if `aof-timestamp-enabled` is on.
//!
//! ```text
//! #MS:1700000000123    written by Mayfly, in milliseconds
//! #TS:1700000000       written by Redis, in seconds
//! ```

use store::Tick;

/// Returns the line that precedes commands executed at an instant.
pub fn line(executed_at: Tick) -> Vec<u8> {
    format!("#MS:{}\r\n", executed_at.0).into_bytes()
}

/// Returns the instant that a line contains, or `None` for any other annotation, which is ignored.
///
/// # Errors
/// The line is damaged. The message says what was expected.
pub fn parse(line: &[u8]) -> Result<Option<Tick>, &'static str> {
    let (digits, unit_ms, expected) = match line.split_at_checked(4) {
        Some((b"#MS:", digits)) => (digits, 1, "expected '#MS:' and a time in milliseconds"),
        Some((b"#TS:", digits)) => (digits, 1000, "expected '#TS:' and a time in seconds"),
        _ => return Ok(None),
    };
    let text = std::str::from_utf8(digits.trim_ascii_end()).map_err(|_| expected)?;
    let number: u64 = text.parse().map_err(|_| expected)?;
    Ok(Some(Tick(number.saturating_mul(unit_ms))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_as_it_was_written() {
        for ms in [1, 1_700_000_000_123, u64::MAX] {
            assert_eq!(parse(&line(Tick(ms))), Ok(Some(Tick(ms))));
        }
        assert_eq!(parse(b"#TS:17\r\n"), Ok(Some(Tick(17_000))));
        assert_eq!(parse(b"#"), Ok(None));
        assert_eq!(parse(b"#a remark\r\n"), Ok(None));
        for damaged in ["#MS:\r\n", "#MS:1x\r\n", "#TS:-1\r\n", "#TS:1.5\r\n"] {
            parse(damaged.as_bytes()).expect_err(damaged);
        }
    }
}
