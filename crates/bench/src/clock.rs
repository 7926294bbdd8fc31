//! Wall-clock time. Deadlines are wall-clock times, so that lateness is measured with the same
//! clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the microseconds since the Unix epoch.
pub(crate) fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Returns the milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    wall_us() / 1000
}

/// Sleeps until the wall clock reaches this time in milliseconds.
pub(crate) fn sleep_until_ms(instant_ms: u64) {
    loop {
        let left = (instant_ms * 1000).saturating_sub(wall_us());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_micros(left));
    }
}

/// Returns a generous time limit in milliseconds for loading this many keys. Deadlines are set this
/// far ahead, so that no key expires while keys are being loaded.
pub(crate) fn fill_allowance_ms(key_count: u64) -> u64 {
    2000 + key_count / 150
}
