//! Access of Lua callbacks to the running script's host.
//!
//! A Lua callback must be `'static`, but the host is borrowed from the request. The safe way,
//! `Lua::scope`, recreates the functions for each run, which costs more than the rest of a short
//! script. Here, the host is lent to the thread for the duration of a run instead.

#![expect(
    unsafe_code,
    reason = "a borrowed host cannot be captured by a callback"
)]

use crate::host::Host;
use std::cell::Cell;
use std::mem::transmute;
use std::ptr::NonNull;

thread_local! {
    /// Host of the script running on this thread, unless a callback is using it.
    static HOST: Cell<Option<NonNull<dyn Host>>> = const { Cell::new(None) };
}

/// Restores the previous host on drop, even after a panic.
struct Restore(Option<NonNull<dyn Host>>);

impl Drop for Restore {
    fn drop(&mut self) {
        HOST.set(self.0);
    }
}

/// Runs `work`, during which callbacks on this thread can access `host` through [`with`].
pub fn lend<R>(host: &mut dyn Host, work: impl FnOnce() -> R) -> R {
    let host = NonNull::from(host);
    // SAFETY: only the lifetime of the pointee changes, and with it nothing in the layout. The
    // pointer is removed from HOST before the borrow ends, because `Restore` is dropped on return
    // and on unwinding.
    let host = unsafe { transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(host) };
    let _restore = Restore(HOST.replace(Some(host)));
    work()
}

/// Calls `use_it` with the lent host. Returns `None` if there is none or it is in use.
pub fn with<R>(use_it: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    let mut host = HOST.take()?;
    let _restore = Restore(Some(host));
    // SAFETY: `lend` holds the exclusive borrow that the pointer came from until it has removed the
    // pointer. While this reference exists, HOST is empty, so that there is no second one.
    Some(use_it(unsafe { host.as_mut() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Args, Output, Protocol};

    struct Counter(u32);

    impl Host for Counter {
        fn call(
            &mut self,
            _args: Args<'_>,
            _protocol: Protocol,
            _out: &mut Output,
        ) -> Option<&'static str> {
            self.0 += 1;
            None
        }
        fn may_call(&mut self, _args: Args<'_>) -> Result<bool, &'static str> {
            Ok(true)
        }
        fn log(&mut self, _level: u8, _text: &[u8]) {}
        fn cpu_seconds(&mut self) -> f64 {
            f64::from(self.0)
        }
        fn tick(&mut self) -> Option<&'static str> {
            None
        }
    }

    #[test]
    fn a_host_is_lent_for_one_call_and_used_by_one_callback_at_a_time() {
        let (mut outer, mut inner) = (Counter(1), Counter(2));
        assert!(with(|host| host.cpu_seconds()).is_none());
        lend(&mut outer, || {
            assert_eq!(with(|host| host.cpu_seconds()), Some(1.0));
            with(|_| assert!(with(|_| ()).is_none(), "it is in use"));
            lend(&mut inner, || {
                assert_eq!(with(|host| host.cpu_seconds()), Some(2.0));
            });
            assert_eq!(with(|host| host.cpu_seconds()), Some(1.0));
        });
        assert!(with(|_| ()).is_none());
    }

    #[test]
    fn a_panic_ends_the_loan() {
        let caught = std::panic::catch_unwind(|| lend(&mut Counter(0), || panic!("by the test")));
        assert!(caught.is_err());
        assert!(with(|_| ()).is_none());
    }
}
