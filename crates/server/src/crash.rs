//! Reports of crashes: a panic, or a fatal signal.
//!
//! A report contains the version, the thread, and the name of the last command that the thread ran,
//! without its arguments. The report of a panic has a backtrace. The report of a signal is written
//! by the signal's handler, where nothing may be allocated or locked, so it has none; the core file
//! has it.

use crate::logging;
use session::inbox;
use session::spec::SpecIndex;
use settings::version;
use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Number of workers whose commands are recorded: the maximum of the setting `threads`.
const WORKERS_MAX: usize = 128;
/// Maximum length of the report of a signal.
const REPORT_BYTES_MAX: usize = 512;

/// Last command of each worker.
static LAST: [AtomicU16; WORKERS_MAX] = [const { AtomicU16::new(SpecIndex::MAX) }; WORKERS_MAX];
/// Function that returns the name of a command.
static NAMES: OnceLock<fn(SpecIndex) -> &'static str> = OnceLock::new();

/// Returns where a worker notes the command that it begins. Workers beyond the maximum share the
/// last place.
pub fn place(worker: usize) -> &'static AtomicU16 {
    &LAST[worker.min(WORKERS_MAX - 1)]
}

/// Name of the command that this thread ran last; `none` outside of workers.
fn last_command() -> &'static str {
    let command = LAST.get(inbox::current()).map(|last| last.load(Relaxed));
    match (command, NAMES.get()) {
        (Some(command), Some(name)) if command != SpecIndex::MAX => name(command),
        _ => "none",
    }
}

/// Writes reports of panics to the log from now on. `names` returns the name of a command.
pub fn report_panics(names: fn(SpecIndex) -> &'static str) {
    let _ = NAMES.set(names);
    std::panic::set_hook(Box::new(report_panic));
}

fn report_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let thread = std::thread::current();
    let place = info.location().map(ToString::to_string);
    let text = format!(
        "crash: panic in thread '{}' at {}: {}; mayfly {}, last command: {}",
        thread.name().unwrap_or("unnamed"),
        place.as_deref().unwrap_or("an unknown place"),
        message.unwrap_or("no message"),
        version::VERSION,
        last_command()
    );
    let backtrace = Backtrace::force_capture().to_string();
    logging::write_report(&text, &backtrace);
}

/// A text of limited length that is not on the heap.
struct Text {
    bytes: [u8; REPORT_BYTES_MAX],
    len: usize,
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let left = REPORT_BYTES_MAX - self.len;
        let taken = text.len().min(left);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// Writes the report of a fatal signal to the log. It only formats numbers and names into a buffer
/// on the stack and calls `write`, so that a signal handler may call it.
pub fn report_signal(name: &str, address: usize) {
    let mut text = Text {
        bytes: [0; REPORT_BYTES_MAX],
        len: 0,
    };
    let is_json = logging::is_json();
    let (begin, end) = match is_json {
        true => ("{\"level\":\"error\",\"message\":\"", "\"}\n"),
        false => ("error ", "\n"),
    };
    let _ = write!(
        text,
        "{begin}crash: {name} at address {address:#x}; mayfly {}, last command of this thread: {}{end}",
        version::VERSION,
        last_command()
    );
    logging::write(&text.bytes[..text.len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_at_its_maximum() {
        let mut text = Text {
            bytes: [0; REPORT_BYTES_MAX],
            len: 0,
        };
        for _ in 0..100 {
            let _ = write!(text, "0123456789");
        }
        assert_eq!(text.len, REPORT_BYTES_MAX);
    }

    #[test]
    fn the_last_command_is_that_of_the_worker() {
        assert_eq!(last_command(), "none");
        inbox::enter(WORKERS_MAX - 1);
        place(WORKERS_MAX).store(3, Relaxed);
        let _ = NAMES.set(|command| if command == 3 { "three" } else { "other" });
        assert_eq!(last_command(), "three");
    }
}
