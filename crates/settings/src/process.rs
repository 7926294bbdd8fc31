//! Facts about this process and machine, as reported by the operating system.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

static ALLOCATOR: OnceLock<&str> = OnceLock::new();

/// Sets the name of the memory allocator for INFO. The binary chooses the allocator, so it calls
/// this once.
pub fn set_allocator(name: &'static str) {
    let _ = ALLOCATOR.set(name);
}

/// Returns the name of the memory allocator; `libc` unless the binary has set another one.
pub fn allocator() -> &'static str {
    ALLOCATOR.get().copied().unwrap_or("libc")
}

/// Returns the resident memory of the process in bytes, or 0 if unknown.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// Returns the number of the process's bytes in swap, or 0 if unknown.
pub fn swapped_bytes() -> u64 {
    status_bytes("VmSwap:")
}

/// Returns a size from the process's status file.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the time in nanoseconds for which all current threads have used a core, and the time for
/// which they have waited for one; 0 if unknown.
pub fn thread_nanos() -> (u64, u64) {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let read = |thread: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    threads
        .filter_map(read)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Returns the machine's memory in bytes, or 0 if unknown.
pub fn machine_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the memory that this process may use: the lowest limit of its control groups, or the
/// machine's memory if that is lower or there is no limit. Returns 0 if unknown.
pub fn memory_limit() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok();
    let limit = group_limit(&groups, Path::new("/sys/fs/cgroup"), read);
    let machine = machine_bytes();
    match limit {
        Some(limit) if machine == 0 || limit < machine => limit,
        _ => machine,
    }
}

/// Returns the lowest `memory.max` of a version 2 control group and its ancestors. `groups` is the
/// text of `/proc/self/cgroup`, where a line that begins with `0::` names the group.
fn group_limit(groups: &str, root: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let name = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = root.join(name);
    let above = group
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    let texts = above.filter_map(|folder| read(&folder.join("memory.max")));
    texts
        .filter_map(|text| text.trim().parse::<u64>().ok())
        .min()
}

/// Returns the CPU time of the process in user and in system mode, in seconds; 0 if unknown.
pub fn cpu_seconds() -> (f64, f64) {
    cpu_seconds_in("/proc/self/stat")
}

/// Returns the CPU time of one of the process's threads, like [`cpu_seconds`].
pub fn thread_cpu_seconds(thread: i32) -> (f64, f64) {
    cpu_seconds_in(&format!("/proc/self/task/{thread}/stat"))
}

fn cpu_seconds_in(file: &str) -> (f64, f64) {
    // The clock tick of /proc is 1/100 second on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(file).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_control_group_and_those_above_it_counts() {
        let root = Path::new("/sys/fs/cgroup");
        let limit = |groups: &str, files: &[(&str, &str)]| {
            let read = |path: &Path| {
                let mut files = files.iter();
                let found = files.find(|(name, _)| path == root.join(name).join("memory.max"));
                found.map(|(_, text)| (*text).to_owned())
            };
            group_limit(groups, root, read)
        };
        assert_eq!(limit("0::/\n", &[("", "1048576\n")]), Some(1 << 20));
        assert_eq!(limit("0::/\n", &[("", "max\n")]), None);
        assert_eq!(limit("0::/\n", &[]), None);
        let files = [("a/b", "max\n"), ("a", "4096\n"), ("", "8192\n")];
        assert_eq!(limit("1:memory:/x\n0::/a/b\n", &files), Some(4096));
        assert_eq!(limit("1:memory:/x\n", &files), None);
        assert_eq!(limit("", &files), None);
    }
}
