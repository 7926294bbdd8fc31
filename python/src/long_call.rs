//! Long calls: run on a separate thread, without the interpreter's lock, and interruptible.
//!
//! The calling thread wakes every 25 ms, lets Python handle signals, and reports progress. After an
//! interrupt it returns immediately; the other thread ends at its next call of [`Control::check`]
//! and frees its memory.

use crate::failure::Failure;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Time between two looks at signals: a fourth of the time within which Ctrl-C is honoured.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Counters that a call and its caller share.
#[derive(Default)]
pub struct Control {
    /// Requests done, and [`sim::STOPPED`].
    pub done: AtomicU64,
    /// Requests in total; 0 if unknown.
    pub total: AtomicU64,
}

impl Control {
    /// Counts requests that were read.
    ///
    /// # Errors
    /// The caller was interrupted.
    pub fn check(&self, requests: u64) -> Result<(), Failure> {
        match self.done.fetch_add(requests, Ordering::Relaxed) & sim::STOPPED {
            0 => Ok(()),
            _ => Err(Failure::Stopped),
        }
    }

    /// Begins a phase of `total` requests.
    pub fn begin(&self, total: u64) {
        self.done.fetch_and(sim::STOPPED, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn stop(&self) {
        self.done.fetch_or(sim::STOPPED, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread and returns its result. `progress` is called with the requests done and
/// in total.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Control) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let control = Arc::new(Control::default());
    let (sender, receiver) = sync_channel(1);
    let shared = control.clone();
    let on_thread = move || {
        let found = catch_unwind(AssertUnwindSafe(|| work(&shared)));
        // Nobody receives the result of an interrupted call.
        let _ = sender.send(found);
    };
    std::thread::Builder::new()
        .name("mayfly-replay".into())
        .spawn(on_thread)?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let wait = || {
            let receiver = receiver.lock().expect("one thread uses it");
            receiver.recv_timeout(LOOK_EVERY)
        };
        match py.detach(wait) {
            Ok(Ok(found)) => return Ok(found?),
            Ok(Err(payload)) => return Err(of_panic(payload)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread of the call has ended"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let look = || {
            py.check_signals()?;
            let Some(progress) = progress else {
                return Ok(());
            };
            let done = control.done.load(Ordering::Relaxed) & !sim::STOPPED;
            progress.call1((done, control.total.load(Ordering::Relaxed)))?;
            Ok(())
        };
        if let Err(error) = look() {
            control.stop();
            return Err(error);
        }
    }
}

fn of_panic(payload: Box<dyn std::any::Any + Send>) -> PyErr {
    match payload.downcast::<PyErr>() {
        // A policy in Python raised.
        Ok(error) => *error,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no message");
            PyRuntimeError::new_err(format!("the simulator failed, which is a defect: {text}"))
        }
    }
}
