//! Memory that traces and replays may use if no limit is given.

/// Share of the available memory, in percent, that is used when no limit is given.
const MEMORY_PERCENT: u64 = 80;
/// Memory limit in bytes if the system does not report the available memory.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// Returns the memory in bytes that may be used if no limit is given.
pub fn memory_share() -> u64 {
    available_memory().unwrap_or(MEMORY_UNKNOWN) / 100 * MEMORY_PERCENT
}

/// Returns the memory in bytes that is available without swapping, as reported by the system.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
