//! Grace periods: they determine when memory that readers may still see can be reused.
//!
//! A reader *pins* itself: it stores the current epoch in a cell of its own thread, reads, and
//! stores 0. A writer unlinks entries, advances the epoch, makes all threads execute a barrier, and
//! reads all cells. An entry that was unlinked before the advance can be reused when every cell is
//! 0 or holds the new epoch or a later one:
//!
//! - If the writer has seen the reader's store and its epoch is new, then the reader read the epoch
//!   after the advance, and therefore sees that the entry is unlinked.
//! - If the writer has not seen the reader's store, then the reader executed the barrier before
//!   that store, and therefore all its reads follow the unlinking.
//!
//! The barrier is asymmetric where the system has `membarrier` (Linux): the writer pays about 3 µs
//! for each batch of retired entries, and a reader pays two plain stores. Elsewhere, and under Loom
//! and Miri, both execute a fence.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
// Cells' numbers are not shared between threads, so that Loom need not explore them.
use std::sync::atomic::AtomicUsize;

/// Number of cells in a block. A process has one block for each 32 threads that read at the same
/// time.
const BLOCK: usize = if cfg!(loom) { 3 } else { 32 };
/// Value of [`Pinned::outer`] for a cell that is given back when the reader leaves.
const LENT: u64 = u64::MAX;

/// Cell of a thread, on its own cache lines.
#[repr(align(128))]
pub(crate) struct Pin {
    /// Epoch at which the thread pinned itself; 0 while it is not reading.
    epoch: AtomicU64,
    is_taken: AtomicBool,
    /// Number of the cell, set when it is first claimed. Only the thread that owns the cell reads
    /// it.
    number: AtomicUsize,
}

struct Block {
    pins: [Pin; BLOCK],
    next: OnceLock<Box<Block>>,
}

/// All cells, and the current epoch.
pub(crate) struct Domain {
    epoch: AtomicU64,
    first: Block,
}

macro_rules! constructors {
    ($($const:tt)?) => {
        impl Pin {
            $($const)? fn new() -> Self {
                Pin {
                    epoch: AtomicU64::new(0),
                    is_taken: AtomicBool::new(false),
                    number: AtomicUsize::new(0),
                }
            }
        }
        impl Domain {
            /// Creates a domain that has no readers.
            pub(crate) $($const)? fn new() -> Self {
                Domain {
                    epoch: AtomicU64::new(1),
                    first: Block::new(),
                }
            }
        }
    };
}

#[cfg(not(loom))]
constructors!(const);
#[cfg(loom)]
constructors!();

impl Block {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Block {
            pins: [const { Pin::new() }; BLOCK],
            next: OnceLock::new(),
        }
    }
    #[cfg(loom)]
    fn new() -> Self {
        Block {
            pins: std::array::from_fn(|_| Pin::new()),
            next: OnceLock::new(),
        }
    }
}

impl Domain {
    /// Claims a free cell and returns it with its number. There are as many cells as threads have
    /// used one at the same time.
    pub(crate) fn claim(&self) -> (&Pin, usize) {
        let mut block = &self.first;
        let mut first = 0;
        loop {
            for (at, pin) in block.pins.iter().enumerate() {
                let is_free = !pin.is_taken.load(Ordering::Relaxed);
                if is_free && !pin.is_taken.swap(true, Ordering::Acquire) {
                    pin.number.store(first + at, Ordering::Relaxed);
                    return (pin, first + at);
                }
            }
            block = block.next.get_or_init(|| Box::new(Block::new()));
            first += BLOCK;
        }
    }

    /// Begins a read. Returns the cell's previous value, for [`Domain::leave`].
    #[inline(always)]
    pub(crate) fn enter(&self, pin: &Pin) -> u64 {
        let outer = pin.epoch.load(Ordering::Relaxed);
        if outer == 0 {
            pin.epoch
                .store(self.epoch.load(Ordering::Acquire), Ordering::Relaxed);
            barrier::light();
        }
        outer
    }

    /// Ends a read. A read within another one leaves the cell as it is.
    #[inline(always)]
    pub(crate) fn leave(pin: &Pin, outer: u64) {
        if outer != 0 {
            return Self::leave_inner(pin, outer);
        }
        pin.epoch.store(0, Ordering::Release);
    }

    #[cold]
    fn leave_inner(pin: &Pin, outer: u64) {
        if outer == LENT {
            pin.epoch.store(0, Ordering::Release);
            pin.is_taken.store(false, Ordering::Release);
        }
    }

    /// Advances the epoch and returns the new one. Memory that the caller unlinked, or saw
    /// unlinked, before the call can be reused once [`Domain::oldest`] is at least the new epoch.
    pub(crate) fn advance(&self) -> u64 {
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        barrier::heavy();
        epoch
    }

    /// Returns the earliest epoch at which a reader has pinned itself, or `u64::MAX` if there is no
    /// reader.
    pub(crate) fn oldest(&self) -> u64 {
        let mut oldest = u64::MAX;
        let mut block = Some(&self.first);
        while let Some(here) = block {
            for pin in &here.pins {
                match pin.epoch.load(Ordering::Acquire) {
                    0 => {}
                    epoch => oldest = oldest.min(epoch),
                }
            }
            block = here.next.get().map(|next| &**next);
        }
        oldest
    }
}

/// The two halves of the barrier between readers and writers.
mod barrier {
    use super::{Ordering, fence};
    use std::sync::atomic::compiler_fence;

    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    mod kind {
        use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
        use std::sync::atomic::{AtomicBool, Ordering};

        static IS_ASYMMETRIC: AtomicBool = AtomicBool::new(false);

        /// Registers the process for `membarrier`.
        pub(in super::super) fn prepare() {
            if membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
                && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
            {
                IS_ASYMMETRIC.store(true, Ordering::SeqCst);
            }
        }

        /// Returns true if `heavy` alone orders readers. The result becomes true before the first
        /// cache exists, and stays true. A reader that saw false executes a fence, which always
        /// suffices.
        #[inline(always)]
        pub(in super::super) fn is_asymmetric() -> bool {
            IS_ASYMMETRIC.load(Ordering::Relaxed)
        }

        pub(super) fn all_threads() {
            membarrier(MembarrierCommand::PrivateExpedited)
                .expect("the process has registered for this command");
        }
    }

    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    mod kind {
        pub(in super::super) fn prepare() {}
        pub(in super::super) fn is_asymmetric() -> bool {
            false
        }
        pub(super) fn all_threads() {}
    }

    pub(super) use kind::is_asymmetric;
    #[cfg(not(loom))]
    pub(super) use kind::prepare;

    /// Orders the reader's store before its reads, unless `heavy` does that.
    #[inline(always)]
    pub(super) fn light() {
        if is_asymmetric() {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Orders the writer's stores before its reads of the cells, in all threads.
    pub(super) fn heavy() {
        if is_asymmetric() {
            kind::all_threads();
        }
        fence(Ordering::SeqCst);
    }
}

/// Domain of the readers of all caches of the process.
#[cfg(not(loom))]
pub(crate) static READERS: Domain = Domain::new();

/// Returns true if a grace period may begin for a single entry: once per tick of the system's
/// coarse clock in the process, every 1 to 10 ms, because a grace period costs 3 µs and interrupts
/// all running threads.
#[cfg(not(loom))]
pub(crate) fn may_hurry() -> bool {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = crate::clock::system_recent().0;
    LAST.load(Ordering::Relaxed) != now && LAST.swap(now, Ordering::Relaxed) != now
}

/// Prepares the barrier. Must be called before the first cache is shared.
#[cfg(not(loom))]
pub(crate) fn prepare() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(barrier::prepare);
}

#[cfg(not(loom))]
thread_local! {
    /// Cell of this thread, once it has one that needs no fence.
    static OWN: Cell<Option<&'static Pin>> = const { Cell::new(None) };
    static RETURN: Return = const { Return(Cell::new(None)) };
}

/// Cell of the thread, which is given back when the thread ends.
struct Return(Cell<Option<&'static Pin>>);

#[cfg(not(loom))]
impl Drop for Return {
    fn drop(&mut self) {
        OWN.set(None);
        if let Some(pin) = self.0.take() {
            pin.is_taken.store(false, Ordering::Release);
        }
    }
}

/// Proof that the current thread is pinned: entries that it finds are not reused while the guard
/// exists.
pub(crate) trait Guard {
    /// Returns a small number that no other thread has at the same time.
    fn number(&self) -> usize;
}

/// Guard of a thread that reads, alone or within another read.
pub(crate) struct Pinned {
    pin: &'static Pin,
    outer: u64,
    /// Makes the guard `!Send`, because a cell belongs to its thread.
    not_send: PhantomData<*const ()>,
}

/// Pins the current thread.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn pin() -> Pinned {
    match OWN.get() {
        Some(pin) => Pinned {
            pin,
            outer: READERS.enter(pin),
            not_send: PhantomData,
        },
        None => pin_first(),
    }
}

/// Guard of a read that is not within another one and began without a fence.
#[cfg(not(loom))]
pub(crate) struct Outermost {
    pin: &'static Pin,
    /// Makes the guard `!Send`, because a cell belongs to its thread.
    not_send: PhantomData<*const ()>,
}

/// Pins the current thread if it is not pinned, has a cell, and needs no fence. It takes a few
/// instructions less than [`pin`].
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn pin_outermost() -> Option<Outermost> {
    let pin = OWN.get()?;
    if pin.epoch.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let epoch = READERS.epoch.load(Ordering::Acquire);
    pin.epoch.store(epoch, Ordering::Relaxed);
    // No fence is needed, because `OWN` is set only where the writer's barrier alone orders
    // readers.
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    Some(Outermost {
        pin,
        not_send: PhantomData,
    })
}

#[cfg(not(loom))]
impl Guard for Outermost {
    #[inline(always)]
    fn number(&self) -> usize {
        self.pin.number.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
impl Drop for Outermost {
    #[inline(always)]
    fn drop(&mut self) {
        self.pin.epoch.store(0, Ordering::Release);
    }
}

/// Pins a thread that has no cell yet, or whose reads begin with a fence.
#[cfg(not(loom))]
#[inline(never)]
fn pin_first() -> Pinned {
    // While the thread ends, its destructors run in an unknown order. A cell that no destructor
    // would give back is lent for one read.
    let kept = RETURN.try_with(|kept| {
        kept.0.get().unwrap_or_else(|| {
            let (pin, _) = READERS.claim();
            kept.0.set(Some(pin));
            pin
        })
    });
    let is_kept = kept.is_ok();
    let pin = kept.unwrap_or_else(|_| READERS.claim().0);
    if is_kept && barrier::is_asymmetric() {
        OWN.set(Some(pin));
    }
    let outer = READERS.enter(pin);
    Pinned {
        pin,
        outer: if is_kept { outer } else { LENT },
        not_send: PhantomData,
    }
}

impl Guard for Pinned {
    #[inline(always)]
    fn number(&self) -> usize {
        self.pin.number.load(Ordering::Relaxed)
    }
}

impl Drop for Pinned {
    #[inline(always)]
    fn drop(&mut self) {
        Domain::leave(self.pin, self.outer);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_within_another_keeps_the_first_epoch() {
        let domain = Domain::new();
        let (pin, number) = domain.claim();
        assert_eq!(number, 0);
        assert_eq!(domain.oldest(), u64::MAX);
        let outer = domain.enter(pin);
        let epoch = domain.advance();
        assert!(domain.oldest() < epoch, "the reader began before");
        let inner = domain.enter(pin);
        Domain::leave(pin, inner);
        assert!(domain.oldest() < epoch, "the outer read goes on");
        Domain::leave(pin, outer);
        assert_eq!(domain.oldest(), u64::MAX);
        domain.enter(pin);
        assert!(domain.oldest() >= epoch);
    }

    #[test]
    fn more_threads_than_a_block_has_cells_get_different_cells() {
        let domain = Domain::new();
        let numbers: Vec<usize> = (0..100).map(|_| domain.claim().1).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn cells_of_threads_that_have_ended_are_used_again() {
        let numbers: Vec<usize> = (0..200)
            .map(|_| {
                let thread = std::thread::spawn(|| pin().number());
                thread.join().expect("the thread does not panic")
            })
            .collect();
        assert!(numbers.iter().all(|&number| number < 200));
        let mut distinct = numbers;
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() < 100, "{} cells", distinct.len());
    }
}
