//! Removes from memory the program's pages that only startup has used.
//!
//! Startup runs through much of the program once: relocations, arguments, tables, settings. The
//! system maps sixteen pages around each page that is used, so that half of the program becomes
//! resident. These pages are dropped from the process's memory after startup. The system keeps them
//! in its file cache, and maps them again when they are used.
#![expect(
    unsafe_code,
    reason = "the advice to drop pages is a system call on raw addresses"
)]

use rustix::mm::{Advice, madvise};
use std::thread;
use std::time::Duration;

/// Time for which the program's pages stay in memory. All periodic work begins within it.
const START: Duration = Duration::from_millis(500);

/// Pages of the program and its libraries that equal the pages of their files: code, constants, and
/// data that the linker reads at the start.
pub struct ProgramPages(Vec<(usize, usize)>);

impl ProgramPages {
    /// Returns the pages. No other thread may be running, because it could load a library and so
    /// change the mappings.
    pub fn find() -> ProgramPages {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        ProgramPages(unchanged(&maps))
    }

    /// Drops the pages from resident memory after a while, when all threads of the server have run.
    /// A failure has no consequences.
    pub fn drop_later(self) {
        let thread = thread::Builder::new().name("start".to_owned());
        let _ = thread.spawn(move || {
            thread::sleep(START);
            self.drop_resident();
        });
    }

    fn drop_resident(self) {
        for (start, end) in self.0 {
            // SAFETY: the range is a private mapping of a file that was neither writable nor
            // changed before other threads ran, and nothing unmaps the program or the libraries
            // that it was started with. So the pages are equal to those of the file, from which
            // the system reads them again at the next access, in whatever thread.
            let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed) };
        }
    }
}

/// Returns the addresses of the mappings in `/proc/self/smaps` that are private, of a file, not
/// writable, and without a page of their own. Constants with addresses, which the linker changes
/// before it makes them read-only, have such pages.
fn unchanged(maps: &str) -> Vec<(usize, usize)> {
    let (mut found, mut range) = (Vec::new(), None);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Anonymous:" | "Swap:"), Some("0")) => {}
            (Some("Anonymous:" | "Swap:"), _) => range = None,
            // The last line of a mapping.
            (Some("VmFlags:"), _) => found.extend(range.take()),
            (Some(addresses), Some("r-xp" | "r--p")) => {
                let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
                range = addresses_in(addresses).filter(|_| is_file);
            }
            // The first line of another mapping. The names of properties end with a colon.
            (Some(first), _) if !first.ends_with(':') => range = None,
            _ => {}
        }
    }
    found
}

fn addresses_in(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(permissions: &str, path: &str, anonymous: &str, swap: &str) -> String {
        format!(
            "5600-5700 {permissions} 0001 fe:00 77   {path}\nSize: 4 kB\nRss: 4 kB\n\
             Anonymous: {anonymous} kB\nSwap: {swap} kB\nVmFlags: rd mr\n"
        )
    }

    #[test]
    fn unchanged_mappings_of_files_are_dropped() {
        let own = |permissions: &str| mapping(permissions, "/usr/bin/mayfly", "0", "0");
        assert_eq!(unchanged(&own("r-xp")), [(0x5600, 0x5700)]);
        assert_eq!(unchanged(&own("r--p")), [(0x5600, 0x5700)]);
        for other in [
            own("rwxp"),
            own("rw-p"),
            own("r--s"),
            mapping("r--p", "/usr/bin/mayfly", "4", "0"),
            mapping("r--p", "/usr/bin/mayfly", "0", "4"),
            mapping("r-xp", "[vdso]", "0", "0"),
            mapping("r-xp", "", "0", "0"),
        ] {
            assert_eq!(unchanged(&other), [], "{other}");
            assert_eq!(
                unchanged(&(other.clone() + &own("r-xp") + &other)),
                [(0x5600, 0x5700)],
                "{other}"
            );
        }
        // A report that ends early says nothing about its last mapping.
        assert_eq!(
            unchanged(own("r-xp").trim_end_matches("VmFlags: rd mr\n")),
            []
        );
    }

    /// The process continues to run, including constants that the linker has changed.
    #[test]
    fn the_program_runs_without_its_resident_pages() {
        let pages = ProgramPages::find();
        assert!(pages.0.len() >= 2, "code and constants of the program");
        pages.drop_resident();
        assert_eq!(format!("{:?}", Some(1.5)), "Some(1.5)");
    }
}
