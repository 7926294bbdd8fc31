//! Access log: one line per request, in JSON or in the combined format, written by a separate
//! thread. If the file is renamed or deleted, a new one is opened under its name within a second,
//! so that log rotation need not notify the node.

use crate::config::{LogField as Field, LogFormat as Format};
use crate::metrics::Metrics;
use crate::rules::dates;
use crate::rules::fields::Lines;
use hyper::Version;
use hyper::header::{HeaderName, REFERER, USER_AGENT};
use std::fmt::{self, Write as _};
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
/// Maximum length of a logged URL or header field in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// Sender of log lines to the thread.
#[derive(Clone)]
pub struct AccessLog {
    lines: SyncSender<String>,
    format: Arc<Format>,
}

impl AccessLog {
    /// Opens the log file and starts the thread. The path `-` stands for standard output.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path, format: Format) -> io::Result<Self> {
        let target = Target::open(path)?;
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&lines, target))?;
        Ok(AccessLog {
            lines: sender,
            format: Arc::new(format),
        })
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

/// Data about a request. When it is dropped, the request is counted and its line is written.
pub struct Record {
    /// Number of content bytes sent.
    pub bytes: u64,
    /// Whether the content ended before reaching its announced length.
    pub is_cut: bool,
    /// Counters of the node.
    pub metrics: Arc<Metrics>,
    /// Data of the line, if there is a log.
    pub entry: Option<Box<Entry>>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.sent(self.bytes, self.is_cut);
        let Some(entry) = &self.entry else {
            return;
        };
        let line = entry.line(self.bytes, self.is_cut);
        if entry.log.lines.try_send(line).is_err() {
            self.metrics.log_lines_lost.fetch_add(1, Relaxed);
        }
    }
}

/// Data that only the line of a request needs.
pub struct Entry {
    /// Wall-clock time at which the request arrived, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Time of arrival on the monotonic clock.
    pub started: Instant,
    /// Address of the client.
    pub client: IpAddr,
    /// Status code of the reply.
    pub status: u16,
    /// Source of the reply, as in the metrics.
    pub source: &'static str,
    /// Value of the Cache-Status field.
    pub cache: String,
    /// Time until the head of the origin's response arrived, if the request went there.
    pub origin_time: Option<Duration>,
    method: String,
    url: String,
    protocol: Version,
    user_agent: Option<String>,
    referer: Option<String>,
    log: AccessLog,
}

/// Request line and fields that a line of the log contains.
pub struct Request<'a, L> {
    /// HTTP method.
    pub method: &'a str,
    /// URL, or the target if it is malformed.
    pub url: String,
    /// Version of HTTP.
    pub protocol: Version,
    /// Header fields.
    pub headers: &'a L,
}

impl Entry {
    /// Begins the entry of a request that arrives now, at `at_ms` of the node's clock.
    pub fn new(
        log: &AccessLog,
        (at_ms, started): (u64, Instant),
        client: IpAddr,
        request: Request<'_, impl Lines>,
    ) -> Box<Self> {
        let text = |name: &HeaderName| {
            let first = request.headers.lines(name).next()?;
            let text = String::from_utf8_lossy(first);
            Some(cut(&text).to_owned())
        };
        Box::new(Entry {
            at_ms,
            started,
            client,
            status: 0,
            source: "",
            cache: String::new(),
            origin_time: None,
            method: cut(request.method).to_owned(),
            user_agent: text(&USER_AGENT),
            referer: text(&REFERER),
            url: request.url,
            protocol: request.protocol,
            log: log.clone(),
        })
    }

    fn line(&self, bytes: u64, is_cut: bool) -> String {
        let mut line = String::with_capacity(512);
        match &*self.log.format {
            Format::Combined => self.combined(&mut line, bytes),
            Format::Json(fields) => {
                for (index, field) in fields.iter().enumerate() {
                    line.push(if index == 0 { '{' } else { ',' });
                    let _ = write!(line, "\"{}\":", field.name());
                    self.field(&mut line, *field, (bytes, is_cut));
                }
                line.push('}');
            }
        }
        line.push('\n');
        line
    }

    /// Writes the value of a field in JSON.
    fn field(&self, line: &mut String, field: Field, (bytes, is_cut): (u64, bool)) {
        let micros = |time: Duration| time.as_micros();
        let text = |line: &mut String, text: Option<&str>| match text {
            Some(text) => quote(line, text),
            None => line.write_str("null"),
        };
        // Writing to a string cannot fail.
        let _ = match field {
            Field::Time => write!(line, "\"{}\"", self.date()),
            Field::Ms => write!(line, "{}", self.at_ms),
            Field::Client => write!(line, "\"{}\"", self.client),
            Field::Method => quote(line, &self.method),
            Field::Url => quote(line, cut(&self.url)),
            Field::Protocol => write!(line, "\"{:?}\"", self.protocol),
            Field::Status => write!(line, "{}", self.status),
            Field::Bytes => write!(line, "{bytes}"),
            Field::Complete => write!(line, "{}", !is_cut),
            Field::Microseconds => write!(line, "{}", micros(self.started.elapsed())),
            Field::OriginMicroseconds => match self.origin_time {
                Some(time) => write!(line, "{}", micros(time)),
                None => line.write_str("null"),
            },
            Field::Source => quote(line, self.source),
            Field::Cache => quote(line, &self.cache),
            Field::UserAgent => text(line, self.user_agent.as_deref()),
            Field::Referer => text(line, self.referer.as_deref()),
        };
    }

    fn date(&self) -> String {
        let date = dates::format(self.at_ms);
        date.to_str().unwrap_or_default().to_owned()
    }

    /// Writes the line in the combined format of Apache and nginx.
    fn combined(&self, line: &mut String, bytes: u64) {
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let date = self.date();
        let part = |range: std::ops::Range<usize>| date.get(range).unwrap_or_default();
        let (day, month, year, time) = (part(5..7), part(8..11), part(12..16), part(17..25));
        let _ = write!(
            line,
            "{} - - [{day}/{month}/{year}:{time} +0000] \"",
            self.client
        );
        escape(line, &self.method);
        line.push(' ');
        escape(line, cut(target(&self.url)));
        let _ = write!(line, " {:?}\" {} {bytes} \"", self.protocol, self.status);
        escape(line, self.referer.as_deref().unwrap_or("-"));
        line.push_str("\" \"");
        escape(line, self.user_agent.as_deref().unwrap_or("-"));
        line.push('"');
    }
}

/// Returns the beginning of a text, so that lines are bounded.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns path and query of a URL.
fn target(url: &str) -> &str {
    let host = url.split_once("://").map(|(_, rest)| rest);
    let path = host.and_then(|rest| rest.find('/').map(|at| &rest[at..]));
    path.unwrap_or(url)
}

/// Appends a text as nginx does in the combined format: quotes, backslashes, and all but printable
/// ASCII become `\xNN`.
fn escape(line: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..=31 | 127.. => _ = write!(line, "\\x{byte:02X}"),
            _ => line.push(char::from(byte)),
        }
    }
}

/// Appends a text as a JSON string.
fn quote(line: &mut String, text: &str) -> fmt::Result {
    line.push('"');
    for letter in text.chars() {
        match letter {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            letter if letter.is_control() => write!(line, "\\u{:04x}", u32::from(letter))?,
            letter => line.push(letter),
        }
    }
    line.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderMap, HeaderValue};

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
        quote(&mut line, "a\"b\\c\nd").expect("a string takes everything");
        assert_eq!(line, r#""a\"b\\c\u000ad""#);
        line.clear();
        escape(&mut line, "a\"b\\c\nd\u{e9}\u{7f}");
        assert_eq!(line, r"a\x22b\x5Cc\x0Ad\xC3\xA9\x7F");
    }

    fn entry(format: Format, url: &str) -> Box<Entry> {
        let (lines, _) = sync_channel(1);
        let log = AccessLog {
            lines,
            format: Arc::new(format),
        };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("agent \"1\""));
        let request = Request {
            method: "GET",
            url: url.into(),
            protocol: Version::HTTP_2,
            headers: &headers,
        };
        let client = [192, 0, 2, 7].into();
        let mut entry = Entry::new(&log, (784_111_777_000, Instant::now()), client, request);
        entry.status = 200;
        entry.cache = "mayfly; hit".into();
        entry.source = "hit";
        entry
    }

    #[test]
    fn the_combined_format_is_that_of_nginx() {
        let line = entry(Format::Combined, "http://a/b?c").line(5, false);
        let expected = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /b?c HTTP/2.0\" 200 5 \
            \"-\" \"agent \\x221\\x22\"\n";
        assert_eq!(line, expected);
        // A malformed target has no host.
        let line = entry(Format::Combined, "*").line(0, true);
        assert!(line.contains("\"GET * HTTP/2.0\" 200 0 "), "{line}");
    }

    #[test]
    fn a_line_in_json_has_the_chosen_fields_in_their_order() {
        let fields = ["status", "user_agent", "referer", "origin_microseconds"];
        let fields: Result<Vec<Field>, String> = fields.iter().map(|name| name.parse()).collect();
        let format = Format::Json(fields.expect("the names are valid"));
        let line = entry(format, "http://a/").line(5, false);
        let expected = "{\"status\":200,\"user_agent\":\"agent \\\"1\\\"\",\"referer\":null,\
            \"origin_microseconds\":null}\n";
        assert_eq!(line, expected);
        let error = "agent".parse::<Field>().expect_err("it is not a field");
        assert!(
            error.starts_with("expected one of time, ms, client"),
            "{error}"
        );
        // All names are read back, and a line with all of them is one object.
        for field in Field::ALL {
            assert_eq!(field.name().parse(), Ok(field));
        }
        let long = format!("http://a/{}", "\u{e9}".repeat(TEXT_BYTES_MAX));
        let line = entry(Format::default(), &long).line(5, false);
        let parsed: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        let object = parsed.as_object().expect("it is an object");
        assert_eq!(object.len(), Field::ALL.len());
        let url = object["url"].as_str().expect("it is a text");
        assert!(url.len() <= TEXT_BYTES_MAX && long.starts_with(url));
    }
}
