//! Delay of the machine itself: how late a thread wakes after sleeping for one millisecond.
//!
//! On shared CPUs, a thread may have to wait for other programs before it runs, for longer than any
//! server takes to reply. While an experiment measures lateness, threads on the CPUs of server and
//! load sleep and record how late they woke. The measured lateness cannot be smaller than theirs.

use crate::latency::{Latencies, Percentiles};
use crate::process::Cpus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(1);

/// Threads that sleep for a millisecond at a time until they are stopped.
pub(crate) struct Noise {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Latencies>>,
}

impl Noise {
    /// Starts one thread on the caller's CPUs and one on the server's CPUs.
    pub(crate) fn start(server_cpus: &Cpus) -> Noise {
        let is_over = Arc::new(AtomicBool::new(false));
        let places = [None, Some(server_cpus.clone())];
        let threads = places.into_iter().map(|cpus| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                // If pinning is refused, the thread measures the CPUs on which it runs.
                let _ = cpus.map(|cpus| cpus.pin());
                let mut latencies = Latencies::new();
                while !is_over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    std::thread::sleep(NAP);
                    latencies.record(start.elapsed().saturating_sub(NAP));
                }
                latencies
            })
        });
        Noise {
            threads: threads.collect(),
            is_over,
        }
    }

    /// Stops the threads and returns their delays.
    pub(crate) fn finish(self) -> Percentiles {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Latencies::new();
        for thread in self.threads {
            all.add(&thread.join().expect("a nap does not panic"));
        }
        all.percentiles()
    }
}
