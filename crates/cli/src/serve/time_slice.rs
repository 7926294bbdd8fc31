//! The time slice of the data threads.
//!
//! Where other threads use all cores, a data thread that gets a request may wait until the time
//! slice of another thread ends, up to 4 ms with the usual timer. Such threads are also the
//! server's own, for long commands. Since Linux 6.12 a thread may request a shorter slice; it then
//! runs sooner after it is woken, while its share of a core stays the same. With two other busy
//! processes on two cores, 99.9 % of GETs took at most 1.8 to 2.7 ms (three runs), and 3.3 to
//! 4.1 ms with the default slice. Older systems ignore the request.
#![expect(unsafe_code, reason = "no library has the system call")]

use std::fs;

/// The slice in nanoseconds: that of the server's own pieces of long work (`server::slice`). The
/// system accepts 100 µs to 100 ms.
const SLICE_NS: u64 = 200_000;

/// Requests short slices for the data threads. A refusal, for instance by a sandbox, has no other
/// consequences.
#[cfg(target_os = "linux")]
pub fn shorten() {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    for task in tasks.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let id = task.file_name().to_str().and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| name.starts_with("worker-")) {
            shorten_one(id);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn shorten() {}

/// Whether the system accepted the request for a thread of this process.
#[cfg(target_os = "linux")]
fn shorten_one(thread: libc::pid_t) -> bool {
    let mut attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the system writes at most `size` bytes to the structure, which has as many.
    let got = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            thread,
            &raw mut attributes,
            attributes.size,
            0,
        )
    };
    // Real-time threads have no slices of this kind.
    if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the system reads the structure, which is initialised.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
    set == 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_policy_and_priority() {
        // SAFETY: the call has no preconditions.
        let own = unsafe { libc::gettid() };
        // Priority and `nice` value are the 16th and 17th field after the name.
        let priority = || {
            let path = format!("/proc/self/task/{own}/stat");
            let text = fs::read_to_string(path).expect("the thread runs");
            let (_, fields) = text.rsplit_once(')').expect("a name is in parentheses");
            fields
                .split(' ')
                .skip(16)
                .take(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let before = priority();
        assert!(shorten_one(own));
        assert_eq!(priority(), before);
        assert!(!shorten_one(-1), "there is no such thread");
        shorten();
    }
}
