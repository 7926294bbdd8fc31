//! Tests that passwords in the server's arguments are hidden.
#![cfg(target_os = "linux")]

use std::fs::read;
use std::process::{Child, Command, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Limit that separates a hang from a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_password_of_the_command_line_is_not_shown_to_other_users() {
    // Regression: `ps` showed the password as long as the server ran.
    let child = Command::new(env!("CARGO_BIN_EXE_mayfly"))
        .args([
            "--port",
            "0",
            "--bind",
            "127.0.0.1",
            "--requirepass",
            "hush",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Server(child.expect("the program was built for this test"));
    let path = format!("/proc/{}/cmdline", server.0.id());
    let started = Instant::now();
    // The program may not have begun yet, or not have read its arguments.
    loop {
        let line = read(&path).expect("it runs");
        if line.ends_with(b"\0--requirepass\0****\0") {
            return;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(started.elapsed() < LIMIT, "{line:?}");
        yield_now();
    }
}
