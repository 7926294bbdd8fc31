//! Passwords of the command line, which `ps` and `/proc/PID/cmdline` would show to every user of
//! the machine. They are overwritten once they were read. Until then, for some milliseconds, they
//! can be seen; `requirepass-file` avoids that.

use server::config::{Kind, find};
use std::fs::{File, OpenOptions, read, read_to_string};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

/// Index of the address of the first argument among the fields of `/proc/PID/stat` behind the name.
const ARGUMENTS_FIELD: usize = 45;

/// Overwrites the values of secret settings in the arguments of this process.
pub fn hide() {
    let hidden = read("/proc/self/cmdline").and_then(|line| {
        let found = secrets(&line);
        match found.is_empty() {
            true => Ok(()),
            false => overwrite(&found),
        }
    });
    if let Err(error) = hidden {
        log::warn!("passwords in the arguments of this process cannot be hidden: {error}");
    }
}

/// Returns the positions of the values of secret settings. A NUL byte ends each argument.
fn secrets(line: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut is_value) = (0, false);
    for argument in line.split(|byte| *byte == 0) {
        let (start, end) = (at, at + argument.len());
        at = end + 1;
        let Some(option) = argument.strip_prefix(b"--") else {
            if is_value && start < end {
                found.push(start..end);
            }
            continue;
        };
        let name_len = option.iter().position(|byte| *byte == b'=');
        let name = &option[..name_len.unwrap_or(option.len())];
        is_value = is_secret(name);
        if let Some(len) = name_len.filter(|_| is_value) {
            found.push(start + 2 + len + 1..end);
        }
    }
    found
}

/// Whether a setting is secret. `user` lines contain passwords, too.
fn is_secret(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    name == "user" || find(name).is_some_and(|param| param.kind == Kind::Secret)
}

fn overwrite(found: &[Range<usize>]) -> io::Result<()> {
    let start = arguments_address()?;
    let mut memory: File = OpenOptions::new().write(true).open("/proc/self/mem")?;
    for range in found {
        memory.seek(SeekFrom::Start(start + range.start as u64))?;
        memory.write_all(&vec![b'*'; range.len()])?;
    }
    Ok(())
}

/// Returns the address of this process's first argument.
fn arguments_address() -> io::Result<u64> {
    let stat = read_to_string("/proc/self/stat")?;
    // The name, in parentheses, may contain blanks.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let field = fields.split(' ').nth(ARGUMENTS_FIELD);
    let address = field.and_then(|field| field.parse().ok());
    address.filter(|address| *address > 0).ok_or_else(|| {
        io::Error::other("/proc/self/stat does not contain the address of the arguments")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_settings_are_found() {
        let line = b"mayfly\0--port\x007\0--requirepass\0one\0two\0--save\0\0--requirepass=three\0--user\0a on >pw\0";
        let found: Vec<&[u8]> = secrets(line)
            .into_iter()
            .map(|range| &line[range])
            .collect();
        assert_eq!(found, [&b"one"[..], b"two", b"three", b"a on >pw"]);
        assert!(secrets(b"mayfly\0serve\0requirepass\0").is_empty());
        assert!(secrets(b"").is_empty());
    }
}
