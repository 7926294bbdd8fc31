//! `mayfly serve`: settings from a file and the command line, signals, the log.

use anyhow::{Context, Result, anyhow};
use clap::Args;
use server::clock::Clock;
use server::config::{Config, Id, TABLE, file, find};
use server::{logging, run as running};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File descriptors for everything but clients, as Redis reckons.
const SPARE_FILES: u64 = 32;

/// The settings that most people want; every other one is taken as `--name value` too.
#[derive(Args, Default)]
#[command(after_help = "Any setting of the config file is taken as --NAME VALUE, too.")]
pub struct Arguments {
    /// A config file in redis.conf's form: lines of `name value`
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same, by name
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// The TCP port [default: 6379]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// The TCP port for memcached's protocol [default: none]
    #[arg(long, value_name = "PORT")]
    memcached: Option<String>,
    /// Addresses to listen on, apart by blanks [default: "127.0.0.1 -::1"]
    #[arg(long, value_name = "ADDRESSES", allow_hyphen_values = true)]
    bind: Option<String>,
    /// Data threads [default: one, or one per core beyond two cores]
    #[arg(long, value_name = "COUNT")]
    threads: Option<String>,
    /// Memory in use beyond which keys are evicted or writes refused, such as 100mb [default: no bound]
    #[arg(long, value_name = "BYTES")]
    maxmemory: Option<String>,
    /// What holds the keys: slab for everything, segment for many small strings [default: slab]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// What to evict when memory is full [default: noeviction; recommended: allkeys-s3fifo]
    #[arg(long, value_name = "POLICY")]
    maxmemory_policy: Option<String>,
    /// The index that finds keys whose deadline has passed [default: wheel]
    #[arg(long, value_name = "INDEX")]
    expiry: Option<String>,
    /// The password that clients must give
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true)]
    requirepass: Option<String>,
    /// What is logged: debug, verbose, notice, warning, nothing [default: notice]
    #[arg(long, value_name = "LEVEL")]
    loglevel: Option<String>,
    /// Another setting, as `join_settings` writes it
    #[arg(long = SETTING, value_name = "NAME=VALUE", hide = true, allow_hyphen_values = true)]
    settings: Vec<String>,
}

/// The hidden option that carries settings without an option of their own.
const SETTING: &str = "setting";

/// Options with a place of their own in `Arguments`.
const OWN: &[&str] = &[
    "port",
    "memcached",
    "bind",
    "threads",
    "maxmemory",
    "engine",
    "maxmemory-policy",
    "expiry",
    "requirepass",
    "loglevel",
    "config",
    SETTING,
];

/// Rewrites `--name value` of the settings' table into the one option that takes them all, so that the
/// help stays short and the table is kept once. Other subcommands than `serve` are left alone.
///
/// An argument that is no text is left as it is: it may name a file.
pub fn join_settings(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined = Vec::new();
    let mut arguments = arguments.peekable();
    joined.extend(arguments.next());
    let is_ours = arguments.peek().is_none_or(|first| {
        let is_option = first.as_encoded_bytes().starts_with(b"-");
        first == "serve" || is_option || Path::new(first).exists()
    });
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        let name = text.strip_prefix("--").unwrap_or_default();
        let (name, inline) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let is_setting = !OWN.contains(&name) && (find(name).is_some() || file::is_known(name));
        if !is_ours || !is_setting {
            joined.push(argument);
            continue;
        }
        let name = name.to_owned();
        let mut next = || arguments.next().unwrap_or_default();
        let mut value = inline.unwrap_or_else(|| next().to_string_lossy().into_owned());
        // redis-server takes several words: --save 60 1, --client-output-buffer-limit normal 0 0 0.
        let is_word = |word: &OsString| !word.as_encoded_bytes().starts_with(b"--");
        while let Some(word) = arguments.next_if(is_word) {
            value.push(' ');
            value.push_str(&word.to_string_lossy());
        }
        joined.extend([format!("--{SETTING}"), format!("{name}={value}")].map(OsString::from));
    }
    joined
}

impl Arguments {
    /// What the command line sets, by name.
    fn given(&self) -> Vec<(&str, &str)> {
        let own = [
            ("port", &self.port),
            ("memcached", &self.memcached),
            ("bind", &self.bind),
            ("threads", &self.threads),
            ("maxmemory", &self.maxmemory),
            ("engine", &self.engine),
            ("maxmemory-policy", &self.maxmemory_policy),
            ("expiry", &self.expiry),
            ("requirepass", &self.requirepass),
            ("loglevel", &self.loglevel),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| value.as_deref().map(|value| (name, value)));
        let others = self.settings.iter().filter_map(|text| text.split_once('='));
        own.chain(others).collect()
    }
}

/// Serves until a signal or SHUTDOWN.
pub fn run(arguments: Arguments) -> Result<()> {
    let config = Config::default();
    let mut warnings = Vec::new();
    let path = arguments.file.as_deref().or(arguments.config.as_deref());
    if let Some(path) = path {
        file::read(&config, path, &mut warnings).map_err(|why| anyhow!(why))?;
        let full = path.canonicalize().unwrap_or(path.to_path_buf());
        config.set_file(&full.to_string_lossy());
    }
    for (name, value) in arguments.given() {
        let warning = file::set(&config, name, value).map_err(|why| anyhow!("--{name}: {why}"))?;
        warnings.extend(warning.map(|warning| format!("command line: {warning}")));
    }
    let level = find("loglevel").map(|param| config.show(param));
    logging::start(&level.unwrap_or_default(), &config.text(Id::LogFile))
        .map_err(|why| anyhow!(why))?;
    for warning in warnings {
        log::warn!("{warning}");
    }
    raise_file_limit(&config);
    let is_plain = path.is_none() && arguments.given().is_empty();
    // Before anyone can connect, so that a signal never meets a server that does not heed it.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen to signals")?;
    let running = running::start(config, Clock::System).map_err(|why| anyhow!(why))?;
    if is_plain {
        welcome(&running);
    }
    heed_signals(signals, &running)?;
    let result = running.wait().map_err(|why| anyhow!(why));
    if result.is_ok() {
        log::info!("mayfly has ended; nothing was saved");
    }
    result
}

/// Tells who started the server without arguments how to talk to it.
fn welcome(running: &running::Running) {
    let Some(address) = running.addresses.first() else {
        return;
    };
    println!(
        "Talk to it:    redis-cli -h {} -p {} SET greeting hello PX 5000",
        address.ip(),
        address.port()
    );
    println!(
        "Ask it:        redis-cli -h {} -p {} INFO expiry",
        address.ip(),
        address.port()
    );
    println!(
        "Configure it:  mayfly --help   ({} settings: redis-cli CONFIG GET '*')",
        TABLE.len()
    );
    println!("End it:        Ctrl-C");
}

/// Ends the server on SIGTERM and SIGINT; the second one ends the process at once.
fn heed_signals(mut signals: Signals, running: &running::Running) -> Result<()> {
    let server = Arc::clone(&running.server);
    let mut is_ending = false;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGHUP {
                    log::info!("SIGHUP: nothing is read again; use CONFIG SET");
                    continue;
                }
                if std::mem::replace(&mut is_ending, true) {
                    std::process::exit(1);
                }
                let name = if signal == SIGTERM {
                    "SIGTERM"
                } else {
                    "SIGINT"
                };
                log::info!("{name}: ending");
                server.stop();
            }
        })
        .context("cannot start the signals' thread")?;
    Ok(())
}

/// Raises the soft limit of open files to what `maxclients` needs, or lowers that.
fn raise_file_limit(config: &Config) {
    let wanted = config.number(Id::MaxClients) as u64 + SPARE_FILES;
    let Ok(reached) = rlimit::increase_nofile_limit(wanted) else {
        return;
    };
    if reached < wanted {
        let clients = reached.saturating_sub(SPARE_FILES).max(1);
        log::warn!(
            "only {reached} files may be open: maxclients is {clients} instead of {}",
            config.number(Id::MaxClients)
        );
        if let Some(param) = find("maxclients") {
            let _ = config.set(param, &clients.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(line: &str) -> String {
        let words = join_settings(line.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn settings_without_an_option_of_their_own_are_joined() {
        assert_eq!(
            join("mayfly --port 7 --hz 5"),
            "mayfly --port 7 --setting hz=5"
        );
        assert_eq!(
            join("mayfly serve --timeout=3 --maxclients 9"),
            "mayfly serve --setting timeout=3 --setting maxclients=9"
        );
        assert_eq!(
            join("mayfly --client-output-buffer-limit normal 0 0 0 --port 1"),
            "mayfly --setting client-output-buffer-limit=normal 0 0 0 --port 1"
        );
        assert_eq!(join("mayfly bench --timeout 3"), "mayfly bench --timeout 3");
        assert_eq!(join("mayfly --nonsense 3"), "mayfly --nonsense 3");
    }

    #[test]
    fn each_own_option_is_a_setting() {
        for name in OWN
            .iter()
            .filter(|name| !["config", SETTING].contains(name))
        {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
