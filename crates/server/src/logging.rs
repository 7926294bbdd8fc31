//! The log: one line per event, written to standard error or a file.

use crate::config::words::LOG_LEVELS;
use log::{LevelFilter, Log, Metadata, Record};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

struct Logger {
    file: Option<Mutex<File>>,
}

/// Starts logging. Can be called once per process.
///
/// # Errors
/// The file cannot be opened, or logging has already started.
pub fn start(level: &str, file: &str) -> Result<(), String> {
    let file = match file {
        "" => None,
        path => Some(Mutex::new(open(Path::new(path))?)),
    };
    log::set_boxed_logger(Box::new(Logger { file })).map_err(|error| error.to_string())?;
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

fn open(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| format!("logfile {}: {error}", path.display()))
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

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis() as u64);
        let level = match record.level() {
            log::Level::Error => "error",
            log::Level::Warn => "warning",
            log::Level::Info => "notice",
            log::Level::Debug => "verbose",
            log::Level::Trace => "debug",
        };
        // Client names may contain line breaks. They are removed so that a client cannot forge a
        // log line.
        let text = record.args().to_string().replace(['\n', '\r'], " ");
        let line = format!("{} {level} {text}\n", timestamp(ms));
        // A failed write to the log must not stop the server.
        let _ = match &self.file {
            None => std::io::stderr().lock().write_all(line.as_bytes()),
            Some(file) => match file.lock() {
                Ok(mut file) => file.write_all(line.as_bytes()),
                Err(_) => Ok(()),
            },
        };
    }

    fn flush(&self) {}
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
    use super::timestamp;

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
}
