//! Pages of the program that only the start has used.
//!
//! The start runs through much of the program once: arguments, tables, settings. The system maps
//! sixteen pages around each page of code that is used, so that half of the program becomes
//! resident. These pages are dropped from the memory of the process after the start. The system
//! keeps them in its cache of files, from which those that are still used are mapped again.
#![expect(
    unsafe_code,
    reason = "the advice to drop pages is a system call on raw addresses"
)]

use rustix::mm::{Advice, madvise};

/// Drops the pages of code from resident memory. A failure has no consequences.
pub fn drop_unused() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(code) {
        // SAFETY: the range is a private mapping of a file that is not writable, so that its pages
        // are equal to those of the file, from which the system reads them again at the next
        // access, in whatever thread.
        let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed) };
    }
}

/// Returns the addresses of a line of `/proc/self/maps` if it is code in a file.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp" && words.nth(3)?.starts_with('/');
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    is_code.then_some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_in_files_is_dropped() {
        let line = |permissions: &str, path: &str| {
            format!("5600-5700 {permissions} 0001 fe:00 77   {path}")
        };
        assert_eq!(
            code(&line("r-xp", "/usr/bin/mayfly")),
            Some((0x5600, 0x5700))
        );
        for (permissions, path) in [
            ("r--p", "/usr/bin/mayfly"),
            ("rwxp", "/a"),
            ("r-xp", "[vdso]"),
            ("r-xp", ""),
        ] {
            assert_eq!(code(&line(permissions, path)), None, "{permissions} {path}");
        }
        // This process continues to run.
        drop_unused();
    }
}
