//! `mayfly serve`: reads settings from a file, the environment and the command line, handles
//! signals, and starts the server.

mod daemon;
mod fatal;
mod program_pages;
mod restart;
mod secrets;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use durability::restart::Phase;
use durability::restart::handover::{self, Handover};
use durability::restart::program::Program;
use policy::names::did_you_mean;
use program_pages::ProgramPages;
use server::run::shut_down;
use server::supervisor::{self, EXTEND, LOADING, READY, STOPPING};
use server::{Server, command, crash, http, logging, run as running};
use session::clock::Clock;
use settings::load::{self, FILE_VARIABLE, Sources};
use settings::words::NOT_SUPERVISED;
use settings::{Config, Id, TABLE, find};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of file descriptors reserved for everything except clients, as in Redis.
const SPARE_FILES: u64 = 32;

/// The most frequently used settings. Every other one is accepted as `--name value`, too.
#[derive(Args, Default)]
#[command(
    after_help = "Every setting of the config file is also accepted as --NAME VALUE, and as a variable of the environment: MAYFLY_NAME."
)]
pub struct Arguments {
    /// Config file in the format of redis.conf: lines of `name value`
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Config file, given as an option
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// TCP port for Redis's protocol [default: 6379]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// TCP port for memcached's protocol [default: none]
    #[arg(long, value_name = "PORT")]
    memcached: Option<String>,
    /// Addresses to listen on, separated by blanks [default: "127.0.0.1 -::1"]
    #[arg(long, value_name = "ADDRESSES", allow_hyphen_values = true)]
    bind: Option<String>,
    /// Number of data threads [default: 1 on up to two cores, else one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<String>,
    /// Maximum memory, such as 100mb, above which keys are evicted or writes refused [default: no
    /// limit]
    #[arg(long, value_name = "BYTES")]
    maxmemory: Option<String>,
    /// Storage engine: slab for all types, segment for many small strings [default: slab]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Eviction policy when memory is full [default: noeviction; recommended: allkeys-s3fifo-w]
    #[arg(long, value_name = "POLICY")]
    maxmemory_policy: Option<String>,
    /// Index that finds expired keys [default: wheel]
    #[arg(long, value_name = "INDEX")]
    expiry: Option<String>,
    /// Address and port for metrics and health checks over HTTP, such as 127.0.0.1:9379 [default:
    /// none]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Password that clients must send
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true)]
    requirepass: Option<String>,
    /// Serve as a node of the cluster whose records are in etcd, such as etcd=http://10.0.0.1:2379;
    /// several URLs are separated by commas (see cluster-name for its name)
    #[arg(long, value_name = "etcd=URLS", value_parser = etcd_of)]
    cluster: Option<String>,
    /// Zone of this node of a cluster, such as a data center [default: none]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Format of the log: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Minimum level of log messages: debug, verbose, notice, warning, nothing [default: notice]
    #[arg(long, value_name = "LEVEL")]
    loglevel: Option<String>,
    /// Check the settings, report all errors in them, and exit
    #[arg(long)]
    check_config: bool,
    /// Whether this is the background process that `daemonize` started
    #[arg(long = daemon::OPTION, hide = true)]
    is_daemon: bool,
    /// Version of the message that the process before a restart sends on standard input
    #[arg(long = handover::OPTION, value_name = "VERSION", hide = true)]
    restarted: Option<String>,
    /// Any other setting, as `join_settings` encodes it
    #[arg(long = SETTING, value_name = "NAME=VALUE", hide = true, allow_hyphen_values = true)]
    settings: Vec<String>,
}

/// Names of the subcommands, for the message about an unknown one.
const SUBCOMMANDS: [&str; 8] = [
    "serve", "check", "cluster", "ping", "bench", "sim", "edge", "trace",
];

/// Maximum number of errors in the settings that are printed after the first one.
const PROBLEMS_MAX: usize = 20;

/// Path of the standard input, which the config file name `-` represents.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Hidden option for settings without their own option.
const SETTING: &str = "setting";

/// Options with their own field in `Arguments`.
const OWN: &[&str] = &[
    "port",
    "memcached",
    "bind",
    "threads",
    "maxmemory",
    "engine",
    "maxmemory-policy",
    "expiry",
    "http",
    "requirepass",
    "cluster",
    "zone",
    "log-format",
    "loglevel",
    "config",
    "check-config",
    daemon::OPTION,
    handover::OPTION,
    SETTING,
];

/// Rewrites `--name value` of any setting in the table to one hidden option, so that the help stays
/// short and the table is the only list. Arguments of subcommands other than `serve` are not
/// changed.
///
/// An argument that is not UTF-8 is not changed either, because it may be the name of a file.
pub fn join_settings(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined = Vec::new();
    let mut arguments = arguments.peekable();
    joined.extend(arguments.next());
    let is_ours = arguments.peek().is_none_or(|first| {
        let is_option = first.as_encoded_bytes().starts_with(b"-");
        let is_other = SUBCOMMANDS.iter().any(|name| first == name);
        first == "serve" || is_option || (!is_other && Path::new(first).exists())
    });
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        let name = text.strip_prefix("--").unwrap_or_default();
        let (name, inline) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let is_setting = !OWN.contains(&name) && (find(name).is_some() || load::is_known(name));
        if !is_ours || !is_setting {
            joined.push(argument);
            continue;
        }
        let name = name.to_owned();
        let mut next = || arguments.next().unwrap_or_default();
        let mut value = inline.unwrap_or_else(|| next().to_string_lossy().into_owned());
        // redis-server accepts several words for one setting: --save 60 1,
        // --client-output-buffer-limit normal 0 0 0.
        let is_word = |word: &OsString| !word.as_encoded_bytes().starts_with(b"--");
        while let Some(word) = arguments.next_if(is_word) {
            value.push(' ');
            value.push_str(&word.to_string_lossy());
        }
        joined.extend([format!("--{SETTING}"), format!("{name}={value}")].map(OsString::from));
    }
    joined
}

/// Returns the URLs of `--cluster etcd=URLS`.
fn etcd_of(text: &str) -> Result<String, String> {
    let urls = text.strip_prefix("etcd=").filter(|urls| !urls.is_empty());
    let expected = || "expected etcd=URLS, such as etcd=http://10.0.0.1:2379".to_owned();
    urls.map(str::to_owned).ok_or_else(expected)
}

impl Arguments {
    /// Returns true if the first word is not the name of a subcommand.
    pub fn names_no_subcommand(&self) -> bool {
        let file = self.file.as_deref();
        !file.is_some_and(|file| {
            SUBCOMMANDS.iter().any(|name| file == Path::new(name)) || file == Path::new("help")
        })
    }

    /// Returns true if the config file is the standard input.
    fn reads_input(&self) -> bool {
        let file = self.file.as_ref().or(self.config.as_ref());
        file.is_some_and(|file| file == Path::new("-"))
    }

    /// Returns the settings of the command line with their values.
    pub fn given(&self) -> Vec<(&str, &str)> {
        let own = [
            ("port", &self.port),
            ("memcached", &self.memcached),
            ("bind", &self.bind),
            ("threads", &self.threads),
            ("maxmemory", &self.maxmemory),
            ("engine", &self.engine),
            ("maxmemory-policy", &self.maxmemory_policy),
            ("expiry", &self.expiry),
            ("http", &self.http),
            ("requirepass", &self.requirepass),
            ("cluster-etcd-endpoints", &self.cluster),
            ("cluster-zone", &self.zone),
            ("log-format", &self.log_format),
            ("loglevel", &self.loglevel),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| value.as_deref().map(|value| (name, value)));
        let joins = self.cluster.as_ref().map(|_| ("cluster-enabled", "yes"));
        let others = self.settings.iter().filter_map(|text| text.split_once('='));
        own.chain(joins).chain(others).collect()
    }
}

/// Serves clients until a signal or SHUTDOWN ends the server.
pub fn run(arguments: Arguments) -> Result<()> {
    // The default action would end the process if the file of a certificate or of users has just
    // been replaced. Until the handler below exists, no such file has been read. A second request
    // for a restart may arrive while the first one executes this program.
    for signal in [SIGHUP, SIGUSR2] {
        flag::register(signal, Arc::default()).context("cannot handle signals")?;
    }
    let program = Program::of_this_process().map_err(|why| anyhow!(why))?;
    refuse(restart::check_version(arguments.restarted.as_deref()))?;
    let config = Config::default();
    let warnings = read_settings(&arguments, &config)?;
    if arguments.check_config {
        return check(&config, &warnings, arguments.restarted.is_some());
    }
    if config.is_on(Id::Daemonize) && !arguments.is_daemon {
        return start_in_background(&arguments, &program);
    }
    let is_restarted = arguments.restarted.is_some();
    let inherited = match is_restarted {
        true => restart::receive()?,
        false => Handover::default(),
    };
    let pages = ProgramPages::find();
    start_log(&config, &warnings)?;
    raise_file_limit(&config);
    let is_plain = config.file().is_empty() && arguments.given().is_empty();
    // The handler precedes the first connection, so that the server handles every signal.
    let handled = [SIGTERM, SIGINT, SIGHUP, SIGUSR2];
    let signals = Signals::new(handled).context("cannot handle signals")?;
    let manager = supervisor::socket();
    let manager = manager.filter(|_| config.number(Id::Supervised) != NOT_SUPERVISED);
    let running = running::start_after(config, Clock::System, inherited);
    let running = running.map_err(|why| anyhow!(why))?;
    // The standard input of a restarted program holds the sockets that it takes over.
    if !arguments.reads_input() {
        running.server.lifecycle.restart.set_program(program);
    }
    let pid_file = PidFile::create(&running);
    if is_plain && !arguments.is_daemon && !is_restarted {
        print_usage(&running);
    }
    handle_signals(signals, &running)?;
    let is_loaded = running.wait_until_loaded(|| {
        if let Some(socket) = &manager {
            notify(socket, LOADING);
            notify(socket, EXTEND);
        }
    });
    if let Some(socket) = manager.as_ref().filter(|_| is_loaded) {
        notify(socket, READY);
    }
    // A daemon that restarts has already left its terminal.
    if arguments.is_daemon && is_loaded && !is_restarted {
        daemon::detach()?;
    }
    pages.drop_later();
    let result = wait(running, manager.as_deref());
    drop(pid_file);
    if result.is_ok() {
        log::info!("mayfly has stopped");
    }
    result
}

/// Checks the settings and prints the result. For a restart, the running process expects only the
/// path of the file with the keys.
fn check(config: &Config, warnings: &[String], is_for_restart: bool) -> Result<()> {
    refuse(running::check(config))?;
    if is_for_restart {
        println!("{}", config.keys_path().display());
        return Ok(());
    }
    for warning in warnings {
        println!("warning: {warning}");
    }
    println!("the settings are valid");
    Ok(())
}

/// Starts the log with the warnings about the settings, and the reports of crashes. Passwords in
/// the arguments are hidden from now on.
fn start_log(config: &Config, warnings: &[String]) -> Result<()> {
    let level = find("loglevel").map(|param| config.show(param));
    let format = find("log-format").map(|param| config.show(param));
    logging::start(
        &level.unwrap_or_default(),
        &config.path(Id::LogFile),
        &format.unwrap_or_default(),
    )
    .map_err(|why| anyhow!(why))?;
    crash::report_panics(|index| command::table().name(index));
    fatal::report_signals();
    secrets::hide();
    for warning in warnings {
        log::warn!("{warning}");
    }
    Ok(())
}

/// Waits until the server ends. After a restart it does not return, unless no program can be
/// executed.
fn wait(running: running::Running, manager: Option<&str>) -> Result<()> {
    let server = Arc::clone(&running.server);
    let mut result = running.wait().map_err(|why| anyhow!(why));
    if result.is_ok()
        && let Some(handover) = server.lifecycle.restart.take()
    {
        if let Some(socket) = manager {
            notify(socket, &restart::state());
        }
        result = Err(restart::execute(
            server.lifecycle.restart.program(),
            &handover,
        ));
    }
    // A stop that was requested may fail, so that the service manager is notified only when the
    // server ends.
    if let Some(socket) = manager {
        notify(socket, STOPPING);
    }
    result
}

/// Starts the server in another process, without the passwords in this process's arguments and
/// environment, because this process waits until the other one has loaded its file.
fn start_in_background(arguments: &Arguments, program: &Program) -> Result<()> {
    if arguments.reads_input() {
        return Err(anyhow!(
            "daemonize: a process in the background cannot read standard input"
        ));
    }
    secrets::hide();
    daemon::start(program)
}

/// Reads the settings of all sources into `config`. Returns warnings for the log.
fn read_settings(arguments: &Arguments, config: &Config) -> Result<Vec<String>> {
    let variable = std::env::var_os(FILE_VARIABLE).map(PathBuf::from);
    let named = arguments.file.as_ref().or(arguments.config.as_ref());
    let path = named.or(variable.as_ref()).map(PathBuf::as_path);
    // As in Redis, `-` is standard input.
    let is_input = arguments.reads_input();
    let path = match is_input {
        true => Some(Path::new(STANDARD_INPUT)),
        false => path,
    };
    if let Some(file) = arguments
        .file
        .as_deref()
        .filter(|file| !is_input && !file.exists())
    {
        return Err(anyhow!("{}", absent(file)));
    }
    let sources = Sources {
        file: path,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        command_line: arguments.given(),
    };
    let outcome = load::load(config, &sources);
    refuse(outcome.problems)?;
    Ok(outcome.warnings)
}

/// Returns the problems as one error, if there are any.
fn refuse(problems: Vec<String>) -> Result<()> {
    let mut problems = problems.into_iter();
    match problems.next() {
        None => Ok(()),
        Some(first) => {
            let more: Vec<String> = problems
                .take(PROBLEMS_MAX)
                .map(|text| format!("\n{text}"))
                .collect();
            Err(anyhow!("{first}{}", more.concat()))
        }
    }
}

/// Describes a file that does not exist. A word that cannot be a path is probably a misspelled
/// subcommand.
fn absent(file: &Path) -> String {
    let text = file.to_string_lossy();
    if text.contains(['/', '.']) {
        return format!("{text}: no such config file");
    }
    let similar = did_you_mean(&text, SUBCOMMANDS);
    let separator = if similar.is_empty() { "" } else { "; " };
    let all = SUBCOMMANDS.join(", ");
    format!("'{text}' is neither a config file nor a subcommand ({all}){separator}{similar}")
}

/// Sends a state to the service manager. A failure is logged, because without the notification the
/// manager would end the server later.
fn notify(socket: &str, state: &str) {
    if let Err(error) = supervisor::notify(socket, state) {
        log::warn!("the service manager's socket {socket} cannot be notified: {error}");
    }
}

/// File of the setting `pidfile`, which is removed at the end.
struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the process number. As in Redis, only a warning is logged if the file cannot be
    /// written.
    fn create(running: &running::Running) -> PidFile {
        let config = &running.server.config;
        let path = match config.path(Id::PidFile) {
            path if !path.is_empty() => path,
            _ if config.is_on(Id::Daemonize) => daemon::PID_FILE.to_owned(),
            _ => return PidFile(None),
        };
        let path = PathBuf::from(path);
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => PidFile(Some(path)),
            Err(error) => {
                log::warn!("pidfile {}: {error}", path.display());
                PidFile(None)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The folder may no longer be writable, but nothing depends on the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Prints instructions for use if the server was started without arguments.
fn print_usage(running: &running::Running) {
    let Some(address) = running.addresses.first() else {
        return;
    };
    println!(
        "Store a key:    redis-cli -h {} -p {} SET greeting hello PX 5000",
        address.ip(),
        address.port()
    );
    println!(
        "Show status:    redis-cli -h {} -p {} INFO expiry",
        address.ip(),
        address.port()
    );
    println!(
        "Configure:      mayfly --help   ({} settings: redis-cli CONFIG GET '*')",
        TABLE.len()
    );
    println!("Stop:           Ctrl-C");
}

/// Stops the server on SIGTERM and SIGINT, after a snapshot if save points are set. Another signal
/// while this stop is in progress ends the process immediately. After a stop that failed, a signal
/// begins a new one.
fn handle_signals(mut signals: Signals, running: &running::Running) -> Result<()> {
    let server = Arc::clone(&running.server);
    let mut stopping = Stopping::default();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR2 {
                    if let Err(why) = running::restart(&server, "SIGUSR2") {
                        log::warn!("SIGUSR2: {why}");
                    }
                    continue;
                }
                if signal == SIGHUP {
                    log::info!("SIGHUP: the config file is not read again; use CONFIG SET");
                    server.network.tls.reload(&server.config);
                    command::acl::reload(&server);
                    continue;
                }
                let name = if signal == SIGTERM {
                    "SIGTERM"
                } else {
                    "SIGINT"
                };
                if server.lifecycle.restart.phase() == Phase::Executing {
                    // The workers have ended, so that the program would no longer receive the
                    // signal.
                    std::process::exit(0);
                }
                if stopping.is_repeated(Progress::of(&server)) {
                    log::warn!("{name}: exiting without a snapshot");
                    std::process::exit(1);
                }
                log::info!("{name}: stopping");
                if let Err(why) = shut_down(&server, name) {
                    log::warn!("{name}: {why}");
                }
                stopping.begin(Progress::of(&server));
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}

/// Progress of a server's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No stop is in progress.
    Serves,
    /// The stop with this number waits for its snapshot.
    Saves(u64),
    /// The workers are ending.
    Ends,
}

impl Progress {
    fn of(server: &Server) -> Progress {
        match server.persistence.saving.stop_in_progress() {
            _ if server.lifecycle.stops() => Progress::Ends,
            Some(number) => Progress::Saves(number),
            None => Progress::Serves,
        }
    }
}

/// Progress of the last stop that a signal has begun or found.
#[derive(Debug, Default)]
struct Stopping(Option<Progress>);

impl Stopping {
    /// Records the progress after a signal was handled.
    fn begin(&mut self, progress: Progress) {
        self.0 = Some(progress);
    }

    /// Returns true if a signal repeats an earlier one whose stop is in progress.
    fn is_repeated(&self, now: Progress) -> bool {
        match (self.0, now) {
            (None | Some(Progress::Serves), _) | (_, Progress::Serves) => false,
            (Some(begun), now) => begun == now || now == Progress::Ends,
        }
    }
}

/// Raises the soft limit of open files as far as `maxclients` needs. If that fails, lowers
/// `maxclients`.
fn raise_file_limit(config: &Config) {
    let spare = |files| match http::address(config) {
        Some(_) => SPARE_FILES + http::connections_max(files) as u64,
        None => SPARE_FILES,
    };
    let wanted = config.number(Id::MaxClients) as u64 + spare(u64::MAX);
    let Ok(reached) = rlimit::increase_nofile_limit(wanted) else {
        return;
    };
    let spare = spare(reached);
    if reached < config.number(Id::MaxClients) as u64 + spare {
        let clients = reached.saturating_sub(spare).max(1);
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

    #[test]
    fn only_a_signal_that_repeats_one_ends_the_process_at_once() {
        // Regression: after a stop that had failed, the next signal ended the process without a
        // snapshot.
        let mut stopping = Stopping::default();
        for progress in [Progress::Serves, Progress::Saves(1), Progress::Ends] {
            assert!(!stopping.is_repeated(progress), "the first signal");
        }
        stopping.begin(Progress::Saves(1));
        assert!(stopping.is_repeated(Progress::Saves(1)));
        assert!(stopping.is_repeated(Progress::Ends));
        assert!(
            !stopping.is_repeated(Progress::Serves),
            "the stop has failed"
        );
        assert!(
            !stopping.is_repeated(Progress::Saves(2)),
            "SHUTDOWN follows"
        );
        stopping.begin(Progress::Saves(2));
        assert!(stopping.is_repeated(Progress::Saves(2)));
        stopping.begin(Progress::Serves);
        assert!(!stopping.is_repeated(Progress::Saves(3)), "it was refused");
    }

    fn join(line: &str) -> String {
        let words = join_settings(line.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn settings_without_an_option_of_their_own_use_the_hidden_option() {
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
        let own = [
            "config",
            "check-config",
            // Short forms of settings.
            "cluster",
            "zone",
            daemon::OPTION,
            handover::OPTION,
            SETTING,
        ];
        for name in OWN.iter().filter(|name| !own.contains(name)) {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
