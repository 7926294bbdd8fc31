//! This process's program: how it was started, and how to run it again.

use super::handover::{OPTION, VERSION};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Maximum time that the program may take to check its settings.
const CHECK_TIME_MAX: Duration = Duration::from_secs(60);
/// Interval at which a running check is polled.
const CHECK_PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of bytes read from a check's output.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;

/// A program with its arguments and its environment.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of the file. Links are not resolved, so that a link may point to another version.
    pub path: PathBuf,
    /// Name by which the process was started.
    pub name: OsString,
    /// Arguments after the name.
    pub arguments: Vec<OsString>,
    /// Environment variables, captured at startup. The process's own environment is not passed on,
    /// because passwords in it are overwritten after startup.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Returns how this process was started. Must be called before anything changes its arguments,
    /// its working directory or its environment.
    ///
    /// # Errors
    /// The path of the program cannot be determined. The message is meant for users.
    pub fn of_this_process() -> Result<Program, String> {
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_default();
        let path = path_of(&name, env::var_os("PATH").as_deref());
        let path = match path {
            Some(path) => path,
            None => env::current_exe().map_err(|error| format!("path of this program: {error}"))?,
        };
        let own = format!("--{OPTION}=");
        let is_own = |argument: &OsString| argument.as_encoded_bytes().starts_with(own.as_bytes());
        Ok(Program {
            path,
            name,
            arguments: arguments.filter(|argument| !is_own(argument)).collect(),
            environment: env::vars_os().collect(),
        })
    }

    /// Returns the command that executes the program at `path` with the same name, arguments and
    /// environment.
    pub fn command(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        command.arg0(&self.name).args(&self.arguments);
        let variables = self.environment.iter().map(|(name, value)| (name, value));
        command.env_clear().envs(variables);
        command
    }

    /// Returns the command that executes the program at `path` as a restarted one.
    pub fn restart(&self, path: &Path) -> Command {
        let mut command = self.command(path);
        command.arg(format!("--{OPTION}={VERSION}"));
        command
    }

    /// Runs the program to check its settings and whether it accepts the handover. Returns its
    /// output: the path of the file from which it loads keys at startup
    /// ([`settings::Config::keys_path`]).
    ///
    /// # Errors
    /// The program cannot be executed, refuses its settings, or takes too long. The message is
    /// meant for users.
    pub fn check(&self) -> Result<PathBuf, String> {
        let shown = self.path.display();
        let mut command = self.restart(&self.path);
        command.arg("--check-config").env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| format!("{shown} cannot be executed: {error}"))?;
        let start = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if start.elapsed() < CHECK_TIME_MAX => thread::sleep(CHECK_PAUSE),
                Ok(None) => {
                    let _ = child.kill().and_then(|()| child.wait());
                    let seconds = CHECK_TIME_MAX.as_secs();
                    return Err(format!(
                        "{shown} has not checked its settings in {seconds} s"
                    ));
                }
                Err(error) => return Err(format!("{shown}: {error}")),
            }
        };
        if status.success() {
            return Ok(text_of(child.stdout.take()).into());
        }
        let text = text_of(child.stderr.take());
        Err(format!("{shown} refuses its settings ({status}): {text}"))
    }
}

/// Returns the output of a program that has ended, without any part that cannot be read.
fn text_of(output: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        let _ = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Returns the path of the program with this name, as found by a shell.
fn path_of(name: &OsStr, folders: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 || name.has_root() {
        return std::path::absolute(name).ok();
    }
    let mut all = env::split_paths(folders?).filter(|folder| folder.is_absolute());
    all.find_map(|folder| {
        let path = folder.join(name);
        path.is_file().then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            name: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("SECRET".into(), "a b".into())],
        }
    }

    #[test]
    fn a_check_passes_the_options_and_reports_errors() {
        // Regression: the environment was that of the process, in which passwords are overwritten.
        let script = r#"test "$0 $1" = "--restarted=2 --check-config" && test -z "$NOTIFY_SOCKET" && test "$SECRET" = "a b" && test -z "$CARGO_MANIFEST_DIR" && echo /a/b"#;
        assert_eq!(shell(script).check(), Ok("/a/b".into()));
        let error = shell("echo port is taken >&2; exit 3").check();
        let error = error.expect_err("it has failed");
        assert!(error.starts_with("/bin/sh refuses its settings"), "{error}");
        assert!(error.ends_with("3): port is taken"), "{error}");
        let absent = Program {
            path: "/nonexistent/mayfly".into(),
            ..shell("")
        };
        let error = absent.check().expect_err("there is no such file");
        assert!(error.contains("cannot be executed"), "{error}");
    }

    #[test]
    fn a_name_with_a_folder_is_a_path_and_others_are_searched() {
        let path = |name: &str| path_of(OsStr::new(name), Some(OsStr::new("/nonexistent:/bin")));
        assert_eq!(path("/a/link"), Some("/a/link".into()));
        let here = env::current_dir().expect("a folder");
        assert_eq!(path("./mayfly"), Some(here.join("mayfly")));
        assert_eq!(path("sh"), Some("/bin/sh".into()));
        assert_eq!(path("no-such-program"), None);
        assert_eq!(path_of(OsStr::new("sh"), None), None);
    }
}
