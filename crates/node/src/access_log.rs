//! The access log: one line of JSON per request, written by a thread of its own.

use crate::metrics::Metrics;
use crate::rules::dates;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait for the thread. Further ones are dropped and counted.
const LINES_MAX: usize = 65_536;
/// Longest time for which a line stays in the thread's buffer.
const FLUSH_TIME: Duration = Duration::from_millis(500);
/// Maximum length of a logged URL in bytes.
const URL_BYTES_MAX: usize = 1_024;

/// Where lines are sent.
#[derive(Clone)]
pub struct AccessLog(SyncSender<String>);

impl AccessLog {
    /// Opens a file, `-` for standard output, and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let target: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(OpenOptions::new().create(true).append(true).open(path)?)
        };
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&lines, target))?;
        Ok(AccessLog(sender))
    }
}

/// Writes lines until all senders are gone. A failure to write loses lines, not requests.
fn write_lines(lines: &Receiver<String>, target: Box<dyn Write + Send>) {
    let mut target = BufWriter::with_capacity(64 << 10, target);
    let mut has_failed = false;
    loop {
        let result = match lines.recv_timeout(FLUSH_TIME) {
            Ok(line) => target.write_all(line.as_bytes()),
            Err(RecvTimeoutError::Timeout) => target.flush(),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = target.flush();
                return;
            }
        };
        match result {
            Err(error) if !has_failed => {
                log::warn!("the access log cannot be written: {error}");
                has_failed = true;
            }
            Err(_) => {}
            Ok(()) => has_failed = false,
        }
    }
}

/// What is logged of a request. It is written when it is dropped.
pub struct Record {
    /// Instant at which the request arrived, on the wall clock.
    pub at_ms: u64,
    /// The same instant on the monotonic clock.
    pub started: Instant,
    /// Client.
    pub client: IpAddr,
    /// Method.
    pub method: String,
    /// URL.
    pub url: String,
    /// Status that was sent.
    pub status: u16,
    /// Bytes of content that were sent.
    pub bytes: u64,
    /// Whether the content ended early.
    pub is_cut: bool,
    /// Value of Cache-Status.
    pub cache: String,
    /// Where the line is sent.
    pub log: Option<AccessLog>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.sent(self.bytes, self.is_cut);
        let Some(log) = &self.log else {
            return;
        };
        if log.0.try_send(self.line()).is_err() {
            self.metrics.log_lines_lost.fetch_add(1, Relaxed);
        }
    }
}

impl Record {
    /// Begins the record of a request of which nothing was sent.
    pub fn new(
        at_ms: u64,
        started: Instant,
        client: IpAddr,
        log: Option<AccessLog>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Record {
            at_ms,
            started,
            client,
            method: String::new(),
            url: String::new(),
            status: 0,
            bytes: 0,
            is_cut: false,
            cache: String::new(),
            log,
            metrics,
        }
    }

    fn line(&self) -> String {
        let mut line = String::with_capacity(256);
        let date = dates::format(self.at_ms);
        let _ = write!(
            line,
            "{{\"time\":\"{}\",\"ms\":{},\"client\":\"{}\",\"method\":",
            date.to_str().unwrap_or_default(),
            self.at_ms,
            self.client
        );
        quote(&mut line, &self.method);
        line.push_str(",\"url\":");
        let mut end = self.url.len().min(URL_BYTES_MAX);
        while !self.url.is_char_boundary(end) {
            end -= 1;
        }
        quote(&mut line, &self.url[..end]);
        let _ = write!(
            line,
            ",\"status\":{},\"bytes\":{},\"complete\":{},\"microseconds\":{},\"cache\":",
            self.status,
            self.bytes,
            !self.is_cut,
            self.started.elapsed().as_micros()
        );
        quote(&mut line, &self.cache);
        line.push_str("}\n");
        line
    }
}

/// Appends a JSON string.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    for letter in text.chars() {
        match letter {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(line, "\\u{:04x}", u32::from(letter));
            }
            letter => line.push(letter),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_end_a_line() {
        let mut line = String::new();
        quote(&mut line, "a\"b\\c\nd");
        assert_eq!(line, r#""a\"b\\c\u000ad""#);
    }
}
