//! CPU time, memory and CPU affinity of a process, from the operating system.

use crate::error::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::fs;
use std::str::FromStr;

/// Returns the CPU time in nanoseconds that the process has used in user and kernel mode.
///
/// It is the sum over the process's threads, as counted by the scheduler. Threads that have ended
/// are not included, so the sum decreases when a thread ends. The threads of the measured servers
/// do not end during a measurement.
pub(crate) fn cpu_ns(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let unreadable = || Error::system(format!("cannot read {folder}"));
    let mut sum = 0;
    for entry in fs::read_dir(&folder).map_err(unreadable())? {
        let path = entry.map_err(unreadable())?.path().join("schedstat");
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let used = text
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok());
        sum += used.unwrap_or(0);
    }
    Ok(sum)
}

/// Returns the CPU time in user mode in nanoseconds, in steps of the kernel's clock (10 ms).
pub(crate) fn user_ns(pid: u32) -> Result<u64> {
    times_ns(pid).map(|[user, ..]| user)
}

/// Returns the CPU time in nanoseconds that ended processes have used which this one had started,
/// in steps of the kernel's clock.
pub(crate) fn children_ns(pid: u32) -> Result<u64> {
    times_ns(pid).map(|[_, _, user, system]| user + system)
}

/// Returns the times in nanoseconds in user and kernel mode, of the process and of its children
/// that have ended.
fn times_ns(pid: u32) -> Result<[u64; 4]> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(Error::system(format!("cannot read {path}")))?;
    // The program's name, in parentheses, may contain any characters. The times begin with the
    // twelfth field after it.
    let behind = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = behind.split(' ').collect();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Ok(std::array::from_fn(|at| {
        let ticks = fields.get(11 + at).and_then(|field| field.parse().ok());
        ticks.unwrap_or(0u64) * tick_ns
    }))
}

/// Returns the resident memory in bytes from the kernel's counter, which is fast and accurate to
/// about 100 KiB.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/statm");
    let text = fs::read_to_string(&path).map_err(Error::system(format!("cannot read {path}")))?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    Ok(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}

/// Returns the resident memory in bytes, counted page by page, which is exact but slow for a large
/// process.
pub(crate) fn resident_bytes_exact(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let Ok(text) = fs::read_to_string(&path) else {
        return resident_bytes(pid);
    };
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib: Option<u64> =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    match kib {
        Some(kib) => Ok(kib * 1024),
        None => resident_bytes(pid),
    }
}

/// A set of CPUs: `0`, `0,2`, `0-3`, or `none` for no pinning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "none" {
            return Ok(Cpus(Vec::new()));
        }
        let wrong = || format!("{text:?} is not a list of CPUs such as 0, 0,2 or 0-3, nor none");
        let number = |part: &str| {
            let cpu: usize = part.trim().parse().map_err(|_| wrong())?;
            if cpu < CpuSet::MAX_CPU {
                Ok(cpu)
            } else {
                Err(wrong())
            }
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
                None => cpus.push(number(part)?),
            }
        }
        Ok(Cpus(cpus))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "none");
        }
        let names: Vec<String> = self.0.iter().map(usize::to_string).collect();
        write!(f, "{}", names.join(","))
    }
}

impl Cpus {
    /// Returns all CPUs of the machine, because a thread started by a pinned thread inherits its
    /// CPUs.
    pub(crate) fn all() -> Cpus {
        // The system ignores CPUs of the set that do not exist.
        Cpus((0..CpuSet::MAX_CPU).collect())
    }

    /// Returns the first CPU for the server and the second for the load, if there are at least two.
    pub(crate) fn default_for(is_server: bool) -> Cpus {
        let allowed: Vec<usize> = match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect(),
            Err(_) => Vec::new(),
        };
        match allowed[..] {
            [first, second, ..] => Cpus(vec![if is_server { first } else { second }]),
            _ => Cpus(Vec::new()),
        }
    }

    /// Runs `action` with the calling thread pinned to these CPUs. Threads and processes that it
    /// starts inherit them.
    pub(crate) fn during<T>(&self, action: impl FnOnce() -> T) -> Result<T> {
        let refused = |errno: rustix::io::Errno| Error::System {
            doing: format!("cannot run on CPU {self}"),
            source: errno.into(),
        };
        if self.0.is_empty() {
            return Ok(action());
        }
        let before = sched_getaffinity(None).map_err(refused)?;
        self.pin()?;
        let result = action();
        sched_setaffinity(None, &before).map_err(refused)?;
        Ok(result)
    }

    /// Pins the calling thread, and the threads that it starts later, to these CPUs.
    pub(crate) fn pin(&self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        self.0.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set).map_err(|errno| Error::System {
            doing: format!("cannot run on CPU {self}"),
            source: errno.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_nonsense_is_refused() {
        let read = |text: &str| text.parse::<Cpus>().map(|cpus| cpus.to_string());
        assert_eq!(read("0").as_deref(), Ok("0"));
        assert_eq!(read("0,2-4").as_deref(), Ok("0,2,3,4"));
        assert_eq!(read("none").as_deref(), Ok("none"));
        for text in ["", "x", "1-", "-1", "99999"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let pid = std::process::id();
        assert!(cpu_ns(pid).expect("it runs") > 0);
        // Loops until the kernel's clock has counted some CPU time of this thread.
        while user_ns(pid).expect("it runs") == 0 {
            std::hint::spin_loop();
        }
        let (quick, exact) = (resident_bytes(pid), resident_bytes_exact(pid));
        assert!(quick.expect("it runs") > 100_000);
        assert!(exact.expect("it runs") > 100_000);
    }
}
