//! Facts about this process and machine that the operating system reports.

use std::fs;
use std::sync::OnceLock;

static ALLOCATOR: OnceLock<&str> = OnceLock::new();

/// Sets the name of the memory allocator for INFO. The binary calls it once, because it chooses the
/// allocator.
pub fn set_allocator(name: &'static str) {
    let _ = ALLOCATOR.set(name);
}

/// Returns the name of the memory allocator; `libc` unless the binary has set another one.
pub fn allocator() -> &'static str {
    ALLOCATOR.get().copied().unwrap_or("libc")
}

/// Returns the resident memory of the process in bytes, or 0 if it is unknown.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the machine's memory in bytes, or 0 if it is unknown.
pub fn machine_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the CPU time in user and in system mode in seconds, or 0 if it is unknown.
pub fn cpu_seconds() -> (f64, f64) {
    // The clock tick of /proc is 1/100 second on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name in brackets may contain blanks, therefore fields are counted from the
    // closing bracket.
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let mut fields = rest.split(' ').skip(11);
    let mut next = || fields.next().and_then(|text| text.parse::<f64>().ok());
    let user = next().unwrap_or(0.0);
    let system = next().unwrap_or(0.0);
    (user / TICKS, system / TICKS)
}

/// Returns the name, release and architecture of the operating system.
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
