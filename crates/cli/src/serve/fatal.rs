//! Handlers of fatal signals, which write a report before the signal takes its default action.
//!
//! Signal libraries offer no handler with a separate stack, which a stack overflow needs, and
//! refuse these signals in safe code. This file therefore has unsafe code.
#![expect(unsafe_code, reason = "signal handlers are registered by a C function")]

use libc::{c_int, c_void, siginfo_t};
use server::crash;
use std::mem::MaybeUninit;

/// Signals for errors in the program, with their names.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// Writes the report. It calls only functions that are permitted in a signal handler: `write` and
/// `raise`.
extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    let found = SIGNALS.iter().find(|(number, _)| *number == signal);
    // SAFETY: the system passes a valid pointer to a handler that was registered with SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: the field is a plain number in every variant; for a signal that was sent by a process
    // it has no meaning.
    let address = unsafe { info.si_addr() };
    crash::report_signal(found.map_or("a signal", |(_, name)| name), address as usize);
    // The system has restored the default action (SA_RESETHAND), which ends the process.
    // SAFETY: `raise` has no preconditions and may be called in a handler.
    unsafe { libc::raise(signal) };
}

/// Registers the handlers. A signal that cannot be handled keeps its default action.
pub fn report_signals() {
    for (signal, _) in SIGNALS {
        let action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zero bytes are a valid action: the default one, without flags.
        let mut action = unsafe { action.assume_init() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags =
            libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
        // SAFETY: the action is initialised, its handler has the signature that SA_SIGINFO
        // requires, and the old action is not wanted.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}
