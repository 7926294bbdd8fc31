//! The order in which a thread calls listeners and drops values.
//!
//! A listener, or the destructor of a value, may change a cache and thereby make further entries
//! leave. If these were reported within the same call, a listener that inserts entries could be
//! called recursively to any depth. So while a thread reports the entries removed by one change
//! (the *outermost* change), the entries removed by further changes on the same thread wait in a
//! queue. The outermost change reports them, too, before it returns.
//!
//! A listener that makes an entry leave at each call, such as one that puts evicted entries back
//! into the full cache, would keep the outermost change busy forever, and its queue would grow
//! without bound. The queue therefore holds at most [`CHAIN_MAX`] entries to report for each entry
//! of the outermost change. Further entries leave immediately without a call of the listener, which
//! ends the chain, and are counted ([`Stats::unreported`](crate::Stats::unreported)). Changes with
//! nothing to report are not queued either, with one exception: a change made by the destructor of
//! a dropped value waits until that destructor has returned.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::LocalKey;

/// Maximum number of reported entries that listener calls make leave, for each entry that a call by
/// the program makes leave.
pub(crate) const CHAIN_MAX: usize = 100;

/// Queue of changes whose entries are not handled yet. Each function reports the entries of one
/// change, or only drops them.
type Queue = RefCell<VecDeque<Box<dyn FnOnce(Reports)>>>;

/// Whether a listener is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reports {
    All,
    None,
}

thread_local! {
    static IS_UNDER_WAY: Cell<bool> = const { Cell::new(false) };
    /// Number of entries that may still be appended to `TO_REPORT`.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    static TO_REPORT: Queue = const { RefCell::new(VecDeque::new()) };
    static IS_DROPPING: Cell<bool> = const { Cell::new(false) };
    static TO_DROP: Queue = const { RefCell::new(VecDeque::new()) };
    /// First panic of the functions called so far.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Returns true while this thread reports the entries of a change, so that further changes must
/// append to the queue.
pub(crate) fn is_under_way() -> bool {
    IS_UNDER_WAY.get()
}

/// Queues a change made during the outermost one, with `entry_count` entries to report. `end` is
/// called later, or immediately if there is nothing to report.
pub(crate) fn append(entry_count: usize, end: impl FnOnce(Reports) + 'static) {
    let left = LEFT.get().checked_sub(entry_count);
    LEFT.set(left.unwrap_or(0));
    let is_reported = left.is_some() && entry_count > 0;
    let queue = if is_reported { &TO_REPORT } else { &TO_DROP };
    let mut end: Option<Box<dyn FnOnce(Reports)>> = Some(Box::new(end));
    let _ = queue.try_with(|queue| queue.borrow_mut().extend(end.take()));
    // The queue no longer exists while the thread ends.
    if let Some(end) = end {
        return end(Reports::None);
    }
    // The destructor of a value that is dropped here may append to the queue. A loop needs no stack
    // for that, unlike recursion.
    if !is_reported && !IS_DROPPING.replace(true) {
        end_all(&TO_DROP, Reports::None);
        IS_DROPPING.set(false);
    }
}

/// Runs the report of the outermost change, which reports or drops `entry_count` entries, and then
/// the reports of all changes that follow from it. A panic is passed on after all of them.
pub(crate) fn run(entry_count: usize, report: impl FnOnce()) {
    IS_UNDER_WAY.set(true);
    LEFT.set(entry_count.saturating_mul(CHAIN_MAX));
    shield(report);
    end_all(&TO_REPORT, Reports::All);
    IS_UNDER_WAY.set(false);
    if let Ok(Some(payload)) = PANIC.try_with(Cell::take) {
        resume_unwind(payload);
    }
}

/// Calls the functions of a queue until it is empty. Each call may append to the queue.
fn end_all(queue: &'static LocalKey<Queue>, reports: Reports) {
    let next = || queue.try_with(|queue| queue.borrow_mut().pop_front());
    while let Ok(Some(end)) = next() {
        shield(|| end(reports));
    }
}

/// Calls `act` and keeps its panic until the end of the outermost change.
fn shield(act: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
        let _ = PANIC.try_with(|panic| panic.set(panic.take().or(Some(payload))));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// A report that causes another report each time it is called.
    fn endless(calls: &Rc<Cell<usize>>) {
        calls.set(calls.get() + 1);
        assert!(is_under_way());
        let again = calls.clone();
        append(1, move |reports| {
            if reports == Reports::All {
                endless(&again);
            }
        });
    }

    #[test]
    fn a_chain_of_reports_ends_and_needs_no_stack() {
        let calls = Rc::new(Cell::new(0));
        run(1, || endless(&calls));
        assert_eq!(calls.get(), 1 + CHAIN_MAX);
        calls.set(0);
        run(1_000, || endless(&calls));
        assert_eq!(calls.get(), 1 + 1_000 * CHAIN_MAX);
        assert!(!is_under_way());
    }

    #[test]
    fn one_call_of_a_listener_keeps_a_bounded_number_of_entries() {
        // Regression: everything that one call made leave was kept until the call returned.
        let entry = Rc::new(());
        let (reported, unreported) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let leave = |entry_count| {
            let entry = entry.clone();
            let counts = [reported.clone(), unreported.clone()];
            append(entry_count, move |reports| {
                let count = &counts[usize::from(reports == Reports::None)];
                count.set(count.get() + entry_count);
                drop(entry);
            });
        };
        run(1, || {
            for _ in 0..1_000 {
                leave(1);
                leave(0);
            }
            assert_eq!(Rc::strong_count(&entry), 1 + CHAIN_MAX);
        });
        assert_eq!(Rc::strong_count(&entry), 1);
        assert_eq!(
            (reported.get(), unreported.get()),
            (CHAIN_MAX, 1_000 - CHAIN_MAX)
        );
    }

    #[test]
    fn what_leaves_by_a_chain_of_drops_needs_no_stack() {
        fn endless(left: usize) {
            append(0, move |reports| {
                assert_eq!(reports, Reports::None);
                (left > 0).then(|| endless(left - 1));
            });
        }
        run(1, || endless(100_000));
    }

    #[test]
    fn reports_that_follow_run_in_order_and_after_a_panic() {
        std::panic::set_hook(Box::new(|_| {}));
        let seen = Rc::new(RefCell::new(Vec::new()));
        let note = |number: u32| {
            let seen = seen.clone();
            move |_| seen.borrow_mut().push(number)
        };
        let outermost = || {
            run(1, || {
                append(1, note(1));
                append(1, |_| panic!("a listener fails"));
                append(1, note(2));
                note(0)(Reports::All);
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(outermost)).is_err());
        assert_eq!(*seen.borrow(), [0, 1, 2]);
        assert!(!is_under_way());
        drop(std::panic::take_hook());
    }
}
