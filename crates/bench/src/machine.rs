//! Facts about the machine and the command, which begin a report.

use ::report::Page;
use serde::Serialize;
use std::ffi::OsString;
use std::fs;

/// Facts about the machine on which a report was made.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Number of logical processors.
    pub cores: usize,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// Reads the facts of this machine from /proc.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        let cpus = read("/proc/cpuinfo");
        // The CPU mask of this thread may be smaller than the machine, so it is not used.
        let cores = cpus
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count();
        Machine {
            cpu: field(&cpus, "model name").unwrap_or_else(|| "unknown".into()),
            cores: cores.max(1),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel,
        }
    }

    /// Returns the facts in one line.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        let Machine {
            cpu, cores, kernel, ..
        } = self;
        format!("{cpu}, {cores} cores, {gib:.1} GiB, Linux {kernel}")
    }
}

/// Returns an empty page with the command and the machine.
pub(crate) fn page(title: &str, command: &str, machine: &Machine) -> Page {
    let mut page = Page::new(title);
    page.command(command).fact("machine", &machine.line());
    page
}

/// Returns the value after `name` and a colon, of the first line that has it.
fn field(text: &str, name: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let mut found = values.filter(|(key, _)| key.trim() == name);
    found.next().map(|(_, value)| value.trim().to_owned())
}

/// Returns the command line of this process, quoted for a shell. The program appears by its name
/// without its folder.
pub(crate) fn command() -> String {
    joined(std::env::args_os())
}

/// Joins arguments and quotes them for a shell. They need not be UTF-8.
fn joined(words: impl Iterator<Item = OsString>) -> String {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let quoted = words.map(|word| quote(&word));
    let all: Vec<String> = std::iter::once(name).chain(quoted).collect();
    all.join(" ")
}

fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        assert_eq!(quote("--peer=redis"), "--peer=redis");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_command_of_any_bytes_is_reported() {
        use std::os::unix::ffi::OsStringExt;
        let words = [
            b"/bin/mayfly".to_vec(),
            b"bench".to_vec(),
            b"a\xff.csv".to_vec(),
        ];
        let reported = joined(words.into_iter().map(OsString::from_vec));
        assert_eq!(reported, "mayfly bench 'a\u{fffd}.csv'");
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here();
        assert!(machine.cores > 0);
        assert!(machine.memory_bytes > 1 << 20);
        let text = "model name : A\nmodel name : B\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A"));
    }
}
