//! Commands of the program as processes: output and errors.

mod check;
mod edge;
mod sim;
mod trace;

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A file that is removed at the end of its test.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: impl AsRef<[u8]>) -> Self {
        let name = format!("mayfly-program-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("the folder for temporary files can be written");
        TemporaryFile(path)
    }
}

impl fmt::Display for TemporaryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns a command that runs the program with these space-separated words as its arguments.
fn mayfly(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
    command.args(words.split_whitespace());
    command
}

fn run(words: &str) -> Output {
    let output = mayfly(words).output();
    output.expect("the program was built for this test")
}

/// Returns the output of a run that must succeed.
fn stdout(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the error output of a run that must fail.
fn refusal(output: Output) -> String {
    assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
