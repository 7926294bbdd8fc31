//! Passwords in the command line and in the environment. `/proc/PID/cmdline` shows the former to
//! every user of the machine, and `/proc/PID/environ` the latter to the user of the process. Both
//! are overwritten after they have been read. They are visible for some milliseconds before that,
//! and remain in the program that started the server; `requirepass-file` avoids both.

use settings::load::VARIABLE_PREFIX;
use settings::{Kind, find};
use std::fs::{File, OpenOptions, read, read_to_string};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

/// Index of the address of the first argument among the fields of `/proc/PID/stat` after the name.
const ARGUMENTS_FIELD: usize = 45;
/// Index of the address of the first environment variable among the same fields.
const ENVIRONMENT_FIELD: usize = 47;

/// Overwrites the values of secret settings in the arguments and in the environment of this
/// process.
pub fn hide() {
    let hide = |file: &str, secrets: fn(&[u8]) -> Vec<Range<usize>>, field: usize| {
        let found = secrets(&read(file)?);
        match found.is_empty() {
            true => Ok(()),
            false => overwrite(&found, field),
        }
    };
    let arguments = hide("/proc/self/cmdline", in_arguments, ARGUMENTS_FIELD);
    let environment = hide("/proc/self/environ", in_environment, ENVIRONMENT_FIELD);
    if let Err(error) = arguments.and(environment) {
        log::warn!(
            "passwords in the arguments and the environment of this process cannot be hidden: {error}"
        );
    }
}

/// Returns the positions of the values of secret settings. A NUL byte ends each argument.
fn in_arguments(line: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut is_value, mut is_first_value) = (0, false, false);
    for argument in line.split(|byte| *byte == 0) {
        let (start, end) = (at, at + argument.len());
        at = end + 1;
        // The first value of an option may begin like an option.
        let must_be_value = std::mem::take(&mut is_first_value);
        let option = argument.strip_prefix(b"--");
        let Some(option) = option.filter(|_| !must_be_value) else {
            if is_value && start < end {
                found.push(start..end);
            }
            continue;
        };
        let name_len = option.iter().position(|byte| *byte == b'=');
        let name = &option[..name_len.unwrap_or(option.len())];
        is_value = is_secret(name);
        is_first_value = is_value && name_len.is_none();
        if let Some(len) = name_len.filter(|_| is_value) {
            found.push(start + 2 + len + 1..end);
        }
    }
    found
}

/// Returns the positions of the values of environment variables that are secret settings. A NUL
/// byte ends each variable.
fn in_environment(block: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for variable in block.split(|byte| *byte == 0) {
        let (start, end) = (at, at + variable.len());
        at = end + 1;
        let name = variable.split(|byte| *byte == b'=').next();
        let name = name.unwrap_or_default();
        let setting = name.strip_prefix(VARIABLE_PREFIX.as_bytes());
        let setting = setting.map(|setting| String::from_utf8_lossy(setting).replace('_', "-"));
        let value = start + name.len() + 1;
        if value < end && setting.is_some_and(|setting| is_secret(setting.as_bytes())) {
            found.push(value..end);
        }
    }
    found
}

/// Returns true if a setting is secret. `user` lines also contain passwords.
fn is_secret(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    name.eq_ignore_ascii_case("user") || find(name).is_some_and(|param| param.kind == Kind::Secret)
}

fn overwrite(found: &[Range<usize>], field: usize) -> io::Result<()> {
    let start = address(field)?;
    let mut memory: File = OpenOptions::new().write(true).open("/proc/self/mem")?;
    for range in found {
        memory.seek(SeekFrom::Start(start + range.start as u64))?;
        memory.write_all(&vec![b'*'; range.len()])?;
    }
    Ok(())
}

/// Returns an address in this process's status.
fn address(field: usize) -> io::Result<u64> {
    let stat = read_to_string("/proc/self/stat")?;
    // The name, in parentheses, may contain spaces.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let address = fields.split(' ').nth(field);
    let address = address.and_then(|field| field.parse().ok());
    address.filter(|address| *address > 0).ok_or_else(|| {
        io::Error::other("/proc/self/stat does not contain the addresses of the arguments")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_settings_are_found() {
        let line = b"mayfly\0--port\x007\0--requirepass\0one\0two\0--save\0\0--requirepass=three\0--user\0a on >pw\0";
        let found: Vec<&[u8]> = in_arguments(line)
            .into_iter()
            .map(|range| &line[range])
            .collect();
        assert_eq!(found, [&b"one"[..], b"two", b"three", b"a on >pw"]);
        assert!(in_arguments(b"mayfly\0serve\0requirepass\0").is_empty());
        assert!(in_arguments(b"").is_empty());
    }

    /// Regression: a password that begins like an option was not found.
    #[test]
    fn the_first_value_of_an_option_may_begin_with_hyphens() {
        let line = b"mayfly\0--requirepass\0--one\0--masterauth\0--two\0--port\x007\0--port\0";
        let found: Vec<&[u8]> = in_arguments(line)
            .into_iter()
            .map(|range| &line[range])
            .collect();
        assert_eq!(found, [&b"--one"[..], b"--two"]);
    }

    #[test]
    fn values_of_secret_variables_are_found() {
        let block = b"HOME=/\0MAYFLY_REQUIREPASS=one=1\0MAYFLY_PORT=7\0MAYFLY_MASTERAUTH=two\0MAYFLY_USER=a on >pw\0REQUIREPASS=x\0MAYFLY_REQUIREPASS\0MAYFLY_REQUIREPASS=\0";
        let found: Vec<&[u8]> = in_environment(block)
            .into_iter()
            .map(|range| &block[range])
            .collect();
        assert_eq!(found, [&b"one=1"[..], b"two", b"a on >pw"]);
        assert!(in_environment(b"").is_empty());
    }
}
