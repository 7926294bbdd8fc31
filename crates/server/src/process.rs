//! What the operating system knows of this process.

use std::fs;

/// Resident bytes; 0 where it cannot be told.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The machine's memory in bytes; 0 where it cannot be told.
pub fn machine_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Seconds of CPU time in user mode and in the system; 0 where they cannot be told.
pub fn cpu_seconds() -> (f64, f64) {
    // Clock ticks of /proc are hundredths of a second on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may hold blanks: the fields are counted from behind it.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let mut fields = rest.split(' ').skip(11);
    let mut next = || fields.next().and_then(|text| text.parse::<f64>().ok());
    let user = next().unwrap_or(0.0);
    let system = next().unwrap_or(0.0);
    (user / TICKS, system / TICKS)
}

/// The system's name and release.
pub fn system_name() -> String {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let name = format!(
        "{} {} {}",
        read("ostype"),
        read("osrelease"),
        std::env::consts::ARCH
    );
    name.trim().to_owned()
}
