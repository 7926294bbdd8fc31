//! The log: one line per event, as text or as JSON, written to standard error or a file.
//!
//! A line is one call of `write`, and no wait for a lock, so that a signal handler can write too. A
//! file that was renamed or deleted is opened again by its name with the next line, so that
//! programs which rotate logs need not notify the server.

use log::{Level, LevelFilter, Log, Metadata, Record};
use settings::words::{JSON_LOG, LOG_FORMATS, LOG_LEVELS};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::sync::{OnceLock, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

struct Logger;

/// Destination and format of the log.
struct Output {
    file: Option<Rotated>,
    is_json: bool,
}

/// A file that another program may rename or delete, after which a new one is created under its
/// name.
struct Rotated {
    /// Absolute, because the working directory may change.
    path: PathBuf,
    open: RwLock<Open>,
}

/// An open file, and its identity.
struct Open {
    file: File,
    identity: Option<Identity>,
}

/// Number of a regular file's device, and its own.
type Identity = (u64, u64);

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let identity = identity(&file.metadata()?);
        Ok(Open { file, identity })
    }
}

fn identity(metadata: &fs::Metadata) -> Option<Identity> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

impl Rotated {
    fn new(path: &Path) -> io::Result<Self> {
        let path = path::absolute(path)?;
        let open = RwLock::new(Open::new(&path)?);
        Ok(Rotated { path, open })
    }

    /// Reopens the file if its name refers to another one. If that fails, lines are written to the
    /// previous file.
    fn follow(&self) {
        let named = fs::metadata(&self.path).ok();
        let named = named.map(|metadata| identity(&metadata));
        // What is no file may block, and was not put there by a rotation.
        let is_open = |open: &Open| {
            open.identity.is_none() || named == Some(None) || named == Some(open.identity)
        };
        if self.open.read().is_ok_and(|open| is_open(&open)) {
            return;
        }
        if let Ok(mut open) = self.open.write()
            && !is_open(&open)
            && let Ok(new) = Open::new(&self.path)
        {
            *open = new;
        }
    }

    /// Writes bytes. Waits for no lock: during a change of the file it returns false.
    fn write(&self, bytes: &[u8]) -> bool {
        let Ok(open) = self.open.try_read() else {
            return false;
        };
        let _ = (&open.file).write_all(bytes);
        true
    }
}

static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Starts logging. Can be called once per process. `level` and `format` are words of the settings
/// `loglevel` and `log-format`.
///
/// # Errors
/// The level is unknown, the file cannot be opened, or logging has already started.
pub fn start(level: &str, file: &str, format: &str) -> Result<(), String> {
    if !LOG_LEVELS.contains(&level) {
        let levels = LOG_LEVELS.join(", ");
        return Err(format!("loglevel '{level}': expected one of {levels}"));
    }
    let file = match file {
        "" => None,
        path => {
            let opened = Rotated::new(Path::new(path));
            Some(opened.map_err(|error| format!("logfile {path}: {error}"))?)
        }
    };
    let is_json = format == LOG_FORMATS[JSON_LOG];
    let output = OUTPUT.set(Output { file, is_json });
    output.map_err(|_| "logging has already started".to_owned())?;
    log::set_logger(&Logger).map_err(|error| error.to_string())?;
    set_level(level);
    Ok(())
}

/// Checks that the folder of a log file exists. An empty path is standard error.
///
/// # Errors
/// The folder does not exist.
pub fn check(file: &str) -> Result<(), String> {
    let path = Path::new(file);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(format!(
            "logfile {file}: there is no folder {}",
            folder.display()
        )),
        _ if path.is_dir() => Err(format!("logfile {file}: expected a file, found a folder")),
        _ => Ok(()),
    }
}

/// Sets the log level to one of the words of the `loglevel` setting.
pub fn set_level(level: &str) {
    let index = LOG_LEVELS.iter().position(|word| *word == level);
    log::set_max_level(match index {
        Some(0) => LevelFilter::Trace,
        Some(1) => LevelFilter::Debug,
        Some(3) => LevelFilter::Warn,
        Some(4) => LevelFilter::Off,
        _ => LevelFilter::Info,
    });
}

/// Whether lines are JSON objects.
pub fn is_json() -> bool {
    OUTPUT.get().is_some_and(|output| output.is_json)
}

/// Writes bytes to the log, or to standard error while its file is changed. A failed write must not
/// stop the server. Waits for no lock and allocates nothing.
pub fn write(bytes: &[u8]) {
    let file = OUTPUT.get().and_then(|output| output.file.as_ref());
    if !file.is_some_and(|file| file.write(bytes)) {
        // Not the standard library's stream, which has a lock.
        let _ = rustix::io::write(rustix::stdio::stderr(), bytes);
    }
}

/// Writes the report of a crash: a line, and further lines below it.
pub fn write_report(text: &str, details: &str) {
    let ms = now_ms();
    let mut entry = match is_json() {
        true => json(ms, "error", &[("message", text), ("details", details)]),
        false => format!("{}\n{details}", plain(ms, "error", text)),
    };
    entry.push('\n');
    write(entry.as_bytes());
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Libraries log what their authors need, such as each registration of a socket.
        let is_ours = matches!(
            metadata.target().split("::").next(),
            Some(
                "server"
                    | "session"
                    | "settings"
                    | "engine"
                    | "durability"
                    | "node"
                    | "membership"
                    | "mayfly"
            )
        );
        metadata.level() <= log::max_level() && (is_ours || metadata.level() <= Level::Warn)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "notice",
            Level::Debug => "verbose",
            Level::Trace => "debug",
        };
        let text = record.args().to_string();
        let mut line = match is_json() {
            true => json(now_ms(), level, &[("message", &text)]),
            false => plain(now_ms(), level, &text),
        };
        line.push('\n');
        if let Some(file) = OUTPUT.get().and_then(|output| output.file.as_ref()) {
            file.follow();
        }
        write(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Formats a line of text. Client names may contain line breaks; they are replaced so that a client
/// cannot forge a line.
fn plain(ms: u64, level: &str, text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    format!("{} {level} {text}", timestamp(ms))
}

/// Formats a line as a JSON object: time, level, thread, and the given members.
fn json(ms: u64, level: &str, members: &[(&str, &str)]) -> String {
    let thread = std::thread::current();
    let mut line = format!("{{\"time\":\"{}\",\"level\":\"{level}\"", timestamp(ms));
    let name = thread.name().unwrap_or("unnamed");
    for (member, text) in [("thread", name)].iter().chain(members) {
        let _ = write!(line, ",\"{member}\":\"");
        for letter in text.chars() {
            match letter {
                '"' => line.push_str("\\\""),
                '\\' => line.push_str("\\\\"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                control if control < ' ' => {
                    let _ = write!(line, "\\u{:04x}", control as u32);
                }
                other => line.push(other),
            }
        }
        line.push('"');
    }
    line.push('}');
    line
}

/// Formats a Unix time in milliseconds: `2026-11-20T20:33:19.123Z`.
pub fn timestamp(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns year, month and day for a number of days since 1970-01-01 in the proleptic Gregorian
/// calendar. The calculation starts years in March, so that a leap day is the last day of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_0000_03_01: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + DAYS_FROM_0000_03_01;
    let era = days / DAYS_IN_400_YEARS;
    let day_of_era = days % DAYS_IN_400_YEARS;
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines went to the renamed file, and after its deletion nowhere.
    #[test]
    fn a_file_that_was_renamed_is_opened_again() {
        let folder = std::env::temp_dir().join(format!("mayfly-log-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder is writable");
        let (path, old) = (folder.join("log"), folder.join("log.1"));
        let file = Rotated::new(&path).expect("the folder is writable");
        let write = |text: &str| {
            file.follow();
            assert!(file.write(text.as_bytes()));
        };
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        write("a");
        write("b");
        fs::rename(&path, &old).expect("the file is there");
        write("c");
        write("d");
        assert_eq!((read(&old), read(&path)), ("ab".into(), "cd".into()));
        // The name cannot be opened: the previous file is used.
        fs::remove_file(&path).expect("the file is there");
        fs::create_dir(&path).expect("the folder is writable");
        write("e");
        fs::remove_dir(&path).expect("it is empty");
        write("f");
        assert_eq!(read(&path), "f");
        fs::remove_dir_all(&folder).expect("the folder is there");
    }

    #[test]
    fn timestamps_are_formatted_as_utc_dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }

    #[test]
    fn text_of_clients_cannot_forge_a_line() {
        let line = plain(0, "notice", "name a\nb\r\nc");
        assert_eq!(line, "1970-01-01T00:00:00.000Z notice name a b  c");
        let line = json(0, "notice", &[("message", "a\n\"b\"\\\u{1}\té")]);
        assert!(line.starts_with(
            "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"notice\",\"thread\":\""
        ));
        assert!(
            line.ends_with(",\"message\":\"a\\n\\\"b\\\"\\\\\\u0001\\té\"}"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}
