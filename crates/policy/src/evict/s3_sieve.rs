//! S3-SIEVE: S3-FIFO with SIEVE as its main queue.
//!
//! # Idea
//! SIEVE keeps popular entries better than a queue with reinsertion, but scans pass through it. The
//! small queue of S3-FIFO stops them: only entries that were hit twice in it, or whose keys return
//! soon, reach SIEVE.
//!
//! # Source
//! Section 9.6.4 in J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*,
//! CMU 2024; Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, *SIEVE is Simpler than LRU*,
//! NSDI 2024, <https://www.usenix.org/conference/nsdi24/presentation/zhang-yazhuo>.
//!
//! # State
//! Per entry: 16 bits (see [`qd`](super::qd) and [`sieve`](super::sieve)) and a 4-byte reference in
//! a queue, plus about 0.9 ghosts an entry at 5 bytes.
//!
//! # Cost
//! hit: one write of the entry's bits, or none · miss: a look-up in two cache lines of ghosts ·
//! insert, remove O(1) · evict: one step per entry passed.
//!
//! # Knobs
//! The same as in [`qd`](super::qd): `small` (0.1; 0.001 to 0.9), `ghost` (0.9; 0 to 10).
//!
//! # Departures
//! The same as in [`qd`](super::qd), which provides the small queue and the ghosts. It fills small
//! first, where [`s3fifo`](super::s3fifo) fills main once small is full.
//!
//! # Avoid when
//! A single queue is enough (`sieve`), or the working set does not change quickly: the source found
//! it no better than S3-FIFO on block traces.

use super::qd::{Main, Qd};
use super::sieve::Sieve;

/// The S3-SIEVE policy.
pub type S3Sieve = Qd<Sieve>;

impl Main for Sieve {
    const QD_NAME: &'static str = "s3-sieve";
    /// Number of hits that moves an entry to main, the same as in S3-FIFO.
    const THRESHOLD: u8 = 2;
}
