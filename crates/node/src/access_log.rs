//! The access log: one line of JSON per request, written by a thread of its own. A file that was
//! renamed or deleted is opened again by its name within a second, so that programs which rotate
//! logs need not notify the node.

use crate::metrics::Metrics;
use crate::rules::dates;
use std::fmt::Write as _;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait for the thread. Further ones are dropped and counted.
const LINES_MAX: usize = 65_536;
/// Longest time for which a line stays in the thread's buffer.
const FLUSH_TIME: Duration = Duration::from_millis(500);
/// Bytes that are written at once.
const BUFFER_BYTES: usize = 64 << 10;
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
        let target = Target::open(path)?;
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&lines, target))?;
        Ok(AccessLog(sender))
    }
}

/// Number of a regular file's device, and its own.
type Identity = (u64, u64);

/// Where the thread writes.
enum Target {
    Output(BufWriter<Stdout>),
    /// A file, its name, and its identity.
    File(BufWriter<File>, PathBuf, Option<Identity>),
}

impl Target {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            let output = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
            return Ok(Target::Output(output));
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let identity = identity(&file.metadata()?);
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Target::File(file, path.to_owned(), identity))
    }

    /// Opens the file of this name if another program has renamed or deleted the previous one. If
    /// that fails, lines are written to the previous one.
    fn follow(&mut self) -> io::Result<()> {
        let Target::File(file, path, Some(open)) = self else {
            return Ok(());
        };
        let named = std::fs::metadata(&path).ok();
        // What is no file may block, and was not put there by a rotation.
        if named.is_some_and(|named| identity(&named).is_none_or(|named| named == *open)) {
            return Ok(());
        }
        file.flush()?;
        *self = Target::open(path)?;
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Target::Output(output) => output.write_all(line),
            Target::File(file, ..) => file.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Output(output) => output.flush(),
            Target::File(file, ..) => file.flush(),
        }
    }
}

fn identity(metadata: &Metadata) -> Option<Identity> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// Writes lines until all senders are gone. A failure to write loses lines, not requests.
fn write_lines(lines: &Receiver<String>, mut target: Target) {
    let mut has_failed = false;
    let mut followed = Instant::now();
    loop {
        let line = lines.recv_timeout(FLUSH_TIME);
        let mut result = Ok(());
        if followed.elapsed() >= FLUSH_TIME {
            followed = Instant::now();
            result = target.follow();
        }
        let written = match line {
            Ok(line) => target.write(line.as_bytes()),
            Err(RecvTimeoutError::Timeout) => target.flush(),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = target.flush();
                return;
            }
        };
        match result.and(written) {
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

    /// Lines went to the renamed file until the next start.
    #[test]
    fn a_file_that_was_renamed_is_opened_again() {
        let folder = std::env::temp_dir().join(format!("mayfly-access-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        let (path, old) = (folder.join("log"), folder.join("log.1"));
        let mut target = Target::open(&path).expect("the folder is writable");
        target.write(b"a").expect("the file is writable");
        std::fs::rename(&path, &old).expect("the file is there");
        target.write(b"b").expect("the file is writable");
        target.follow().expect("the folder is writable");
        target.write(b"c").expect("the file is writable");
        target.flush().expect("the file is writable");
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!((read(&old), read(&path)), ("ab".into(), "c".into()));
        std::fs::remove_dir_all(&folder).expect("the folder is there");
    }

    #[test]
    fn control_characters_do_not_end_a_line() {
        let mut line = String::new();
        quote(&mut line, "a\"b\\c\nd");
        assert_eq!(line, r#""a\"b\\c\u000ad""#);
    }
}
