//! Access log: one line of JSON per request, written by a separate thread. If the file is renamed
//! or deleted, a new one is opened under its name within a second, so that log rotation need not
//! notify the node.

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

/// Maximum number of lines that wait for the thread. Further lines are dropped and counted.
const LINES_MAX: usize = 65_536;
/// Maximum time that a line stays in the thread's buffer.
const FLUSH_TIME: Duration = Duration::from_millis(500);
/// Number of bytes written at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum length of a logged URL in bytes.
const URL_BYTES_MAX: usize = 1_024;

/// Sender of log lines to the thread.
#[derive(Clone)]
pub struct AccessLog(SyncSender<String>);

impl AccessLog {
    /// Opens the log file and starts the thread. The path `-` stands for standard output.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let target = Target::open(path)?;
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&lines, target))?;
        Ok(AccessLog(sender))
    }
}

/// Device number and inode number of a regular file.
type Identity = (u64, u64);

/// Destination of the thread's lines.
enum Target {
    Output(BufWriter<Stdout>),
    /// A file with its name and its identity.
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

    /// Reopens the file under its name if another program has renamed or deleted it. If that fails,
    /// lines still go to the previous file.
    fn follow(&mut self) -> io::Result<()> {
        let Target::File(file, path, Some(open)) = self else {
            return Ok(());
        };
        let named = std::fs::metadata(&path).ok();
        // Opening anything but a regular file may block, and log rotation creates only regular
        // files.
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

/// Writes lines until all senders are gone. If writing fails, lines are lost, but no requests.
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

/// Data that is logged about a request. The line is written when the record is dropped.
pub struct Record {
    /// Wall-clock time at which the request arrived, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Time of arrival on the monotonic clock.
    pub started: Instant,
    /// Address of the client.
    pub client: IpAddr,
    /// HTTP method.
    pub method: String,
    /// URL of the request.
    pub url: String,
    /// Status code of the reply.
    pub status: u16,
    /// Number of content bytes sent.
    pub bytes: u64,
    /// Whether the content ended before reaching its announced length.
    pub is_cut: bool,
    /// Value of the Cache-Status field.
    pub cache: String,
    /// Log to which the line is sent, if any.
    pub log: Option<AccessLog>,
    /// Counters of the node.
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
    /// Begins the record of a request to which nothing has been sent yet.
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

/// Appends a text as a JSON string.
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

    /// Regression: lines went to the renamed file until the next start.
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
