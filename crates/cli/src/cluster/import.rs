//! `mayfly cluster import`: copies the keys of a running cluster or server, and switches to the
//! target.

use crate::ping::first_line;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use membership::records::{address, join};
use server::transfer::{Member, Options, Phase, Progress, Side, Switched, Transfer};
use settings::{Config, load};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashMap;
use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Port of an address without one.
const PORT_DEFAULT: u16 = 6379;
/// Shortest time between two lines about a primary in the same phase.
const LINE_TIME: Duration = Duration::from_secs(5);

/// Arguments of `mayfly cluster import`.
#[derive(Args)]
#[command(
    after_help = "Example: copy a cluster of Redis or Valkey while clients use it, and switch when Enter is pressed:\n\n  mayfly cluster import 10.0.0.1:6379 --to 10.0.1.1:7000\n\nWithout --switch, the copy is kept up to date until Enter is pressed. Until the switch has succeeded, clients use the source as before."
)]
pub struct Import {
    /// A node of the cluster to copy, or a single server: Redis since 7.0, Valkey or Mayfly
    #[arg(value_name = "HOST[:PORT]")]
    from: String,
    /// A node of the cluster that receives the keys, or a single server
    #[arg(long, value_name = "HOST[:PORT]")]
    to: String,
    /// Switch as soon as the copy is complete
    #[arg(long)]
    switch: bool,
    /// Remove all keys of the target first
    #[arg(long)]
    replace: bool,
    /// Show what would be copied, and check both sides
    #[arg(long)]
    dry_run: bool,
    /// Longest pause of writes, in seconds, after which a switch is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pause_max: u64,
    /// Time for which writes stay paused at the source after the switch, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    hold: u64,
    /// User of the source
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with the password for the source in its first line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Use TLS for the source; the file contains the authorities that sign its certificates, in PEM
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// File with a certificate for the source, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// File with the private key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// User of the target
    #[arg(long, value_name = "NAME", requires = "to_password_file")]
    to_user: Option<String>,
    /// File with the password for the target in its first line
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<PathBuf>,
    /// Use TLS for the target; the file contains the authorities that sign its certificates, in PEM
    #[arg(long, value_name = "FILE")]
    to_tls_ca: Option<PathBuf>,
    /// File with a certificate for the target, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["to_tls_key", "to_tls_ca"])]
    to_tls_cert: Option<PathBuf>,
    /// File with the private key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "to_tls_cert")]
    to_tls_key: Option<PathBuf>,
}

/// How a side is accessed.
struct Access<'a> {
    place: &'a str,
    user: &'a Option<String>,
    password_file: &'a Option<PathBuf>,
    tls: [&'a Option<PathBuf>; 3],
}

impl Access<'_> {
    /// Returns the settings of a replica with this access.
    fn side(&self) -> Result<Side> {
        let (host, port) = place(self.place)?;
        let config = Config::default();
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let password = self.password_file.as_deref().map(password).transpose()?;
        let [ca, cert, key] = self.tls;
        for (name, value) in [
            ("masteruser", self.user.clone()),
            ("masterauth", password),
            ("tls-ca-cert-file", text(ca)),
            ("tls-cert-file", text(cert)),
            ("tls-key-file", text(key)),
            ("tls-replication", ca.as_ref().map(|_| "yes".to_owned())),
        ] {
            if let Some(value) = value {
                load::set(&config, name, &value).map_err(|error| anyhow!(error))?;
            }
        }
        Ok(Side { config, host, port })
    }
}

fn password(path: &Path) -> Result<String> {
    first_line(path).map_err(|why| anyhow!("password file {}: {why}", path.display()))
}

/// Reads HOST, HOST:PORT, or an address of IPv6 in brackets with a port.
fn place(text: &str) -> Result<(String, u16)> {
    let has_port = |(host, _): (&str, &str)| !host.contains(':') || host.ends_with(']');
    let full = match text.rsplit_once(':').is_some_and(has_port) {
        true => text.to_owned(),
        false => join(text.trim_matches(['[', ']']), PORT_DEFAULT),
    };
    let wrong = || anyhow!("'{text}': expected HOST[:PORT], such as 10.0.0.1:6379 or [::1]:6379");
    address(&full).ok_or_else(wrong)
}

impl Import {
    pub(super) fn run(&self) -> Result<()> {
        let source = Access {
            place: &self.from,
            user: &self.user,
            password_file: &self.password_file,
            tls: [&self.tls_ca, &self.tls_cert, &self.tls_key],
        };
        let target = Access {
            place: &self.to,
            user: &self.to_user,
            password_file: &self.to_password_file,
            tls: [&self.to_tls_ca, &self.to_tls_cert, &self.to_tls_key],
        };
        let (source, target) = (source.side()?, target.side()?);
        let options = Options {
            replaces: self.replace,
            pause_max: Duration::from_secs(self.pause_max),
            hold: Duration::from_secs(self.hold),
        };
        let failed = |error| anyhow!("{error}");
        let transfer = Transfer::prepare(&source, &target, options).map_err(failed)?;
        show("from", &transfer.sources);
        show("to  ", &transfer.targets);
        if self.dry_run {
            println!("nothing was changed");
            return Ok(());
        }
        let (stops, switches) = (Arc::default(), Arc::new(AtomicBool::new(self.switch)));
        for signal in [SIGINT, SIGTERM] {
            let registered = signal_hook::flag::register(signal, Arc::clone(&stops));
            registered.context("signals")?;
        }
        if !self.switch {
            let switches = Arc::clone(&switches);
            std::thread::spawn(move || read_line(&switches));
        }
        let mut lines = Lines::new(!self.switch && stdin().is_terminal());
        let run = transfer.run(&stops, &switches, |progress| lines.report(progress));
        match run.map_err(failed)? {
            Some(switched) => print_switched(&switched, &self.to),
            None => bail!("stopped: clients go on at the source; the target keeps what was copied"),
        }
        Ok(())
    }
}

fn show(word: &str, members: &[Member]) {
    for member in members {
        println!(
            "{word} {}  {}  {} keys",
            member.address, member.version, member.keys
        );
    }
}

/// Requests the switch when a line was entered. The end of the input requests nothing.
fn read_line(switches: &AtomicBool) {
    let mut line = String::new();
    if stdin().read_line(&mut line).is_ok_and(|len| len > 0) {
        switches.store(true, Relaxed);
    }
}

fn print_switched(switched: &Switched, to: &str) {
    println!(
        "switched: {} keys, {} of them compared; writes waited for {} ms",
        switched.keys,
        switched.compared,
        switched.paused.as_millis()
    );
    println!(
        "point clients to {to} now: for {} s writes wait at the source, and after that it accepts them again",
        switched.hold.as_secs()
    );
}

/// Prints a line about a primary when its phase changes, and every few seconds.
struct Lines {
    printed: HashMap<String, (Phase, Instant)>,
    /// Whether to mention how the switch is requested.
    prompts: bool,
}

impl Lines {
    fn new(prompts: bool) -> Lines {
        Lines {
            printed: HashMap::new(),
            prompts,
        }
    }

    fn report(&mut self, progress: &[Progress]) {
        for one in progress {
            let last = self.printed.get(&one.address);
            if last.is_some_and(|(phase, at)| *phase == one.phase && at.elapsed() < LINE_TIME) {
                continue;
            }
            eprintln!("{}", line(one));
            let now = (one.phase, Instant::now());
            self.printed.insert(one.address.clone(), now);
        }
        let follows = |one: &Progress| one.phase == Phase::Following;
        if self.prompts && progress.iter().all(follows) {
            self.prompts = false;
            eprintln!("all snapshots are copied: press Enter to switch");
        }
    }
}

fn line(one: &Progress) -> String {
    let phase = match (one.phase, one.snapshot) {
        (Phase::Waiting, _) => "waiting for the snapshot".to_owned(),
        (Phase::Snapshot, (_, 0)) => "snapshot".to_owned(),
        (Phase::Snapshot, (done, total)) => format!("snapshot {} %", done * 100 / total),
        (Phase::Following, _) => format!(
            "following  lag {}  changed keys {}",
            units::show::bytes(one.lag_bytes as f64),
            one.waiting
        ),
    };
    format!(
        "{}  {phase}  sent {} keys, {}",
        one.address,
        one.keys,
        units::show::bytes(one.bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_host_and_perhaps_a_port() {
        for (text, expected) in [
            ("10.0.0.1:7000", Some(("10.0.0.1", 7000))),
            ("cache.example", Some(("cache.example", 6379))),
            ("[::1]:7000", Some(("::1", 7000))),
            ("[::1]", Some(("::1", 6379))),
            ("::1", Some(("::1", 6379))),
            ("", None),
            (":7000", None),
            ("a:b", None),
            ("a:70000", None),
            ("a:0", None),
        ] {
            let found = place(text).ok();
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_line_shows_how_far_a_primary_is() {
        let mut one = Progress {
            address: "a:1".into(),
            phase: Phase::Snapshot,
            snapshot: (50, 200),
            keys: 7,
            bytes: 2048,
            waiting: 3,
            lag_bytes: 10,
        };
        assert_eq!(line(&one), "a:1  snapshot 25 %  sent 7 keys, 2.0 KiB");
        one.phase = Phase::Following;
        let expected = "a:1  following  lag 10 B  changed keys 3  sent 7 keys, 2.0 KiB";
        assert_eq!(line(&one), expected);
    }
}
