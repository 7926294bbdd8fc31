//! Runs a whole server: the listeners and one thread per worker, until it is stopped.

use crate::command::acl::{check_users, load_at_start};
use crate::command::scripting::functions::load_library;
use crate::loading::file::{self as loading, Origin, Source};
use crate::net::listener::Listeners;
use crate::restart::work as restarts;
use crate::saving::work;
use crate::state::{Server, thread_count};
use crate::tls::Tls;
use crate::{command, host, http, learner, logging, replay};
use durability::restart::handover::Handover;
use durability::restart::{Request, Restart};
use engine::segment;
use session::clock::Clock;
use session::message::PortProtocol;
use settings::words::SEGMENT_ENGINE;
use settings::{Config, Id, TABLE, bytes_for_people};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use threads::{
    StopOnDrop, start_aof, start_host, start_link, start_long, start_saving, start_watch,
    start_workers, thread_for_scripts,
};

mod threads;

/// A running server.
pub struct Running {
    /// State that the workers share.
    pub server: Arc<Server>,
    /// Addresses on which the server listens for Redis's protocol.
    pub addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<Result<(), String>>>,
    /// Receives a message when the snapshot file is loaded, and is closed if that has failed.
    /// `None` if there is no file.
    loaded: Option<Receiver<()>>,
}

/// Maximum time between two calls of the closure of [`Running::wait_until_loaded`].
const LOAD_REPORT_INTERVAL: Duration = Duration::from_secs(30);

impl Running {
    /// Waits until the snapshot file is loaded, and calls `report` at the beginning and every 30
    /// seconds. Returns false if the load failed or was ended by a stop.
    pub fn wait_until_loaded(&self, mut report: impl FnMut()) -> bool {
        let Some(loaded) = &self.loaded else {
            return true;
        };
        loop {
            report();
            match loaded.recv_timeout(LOAD_REPORT_INTERVAL) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Waits until all workers have stopped.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub fn wait(self) -> Result<(), String> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err("a worker panicked; see the log".into()));
            result = result.and(ended);
        }
        // A worker that has failed may have left a segment in any state.
        if result.is_ok()
            && let Some(segments) = &self.server.data.segments
        {
            segments.keep();
        }
        result
    }

    /// Requests the server to stop and waits until it has.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub fn stop(self) -> Result<(), String> {
        self.server.stop();
        self.wait()
    }
}

/// Checks everything that [`start`] reads in addition to the settings: users, certificates, new
/// names of commands, ports and paths. Opens no port and writes no file. Returns what is wrong.
pub fn check(config: &Config) -> Vec<String> {
    let mut problems = conflicts(config);
    let others = [
        command::rename(&config.renames()),
        check_users(config).map(drop),
        Tls::default().load(config),
        logging::check(&config.path(Id::LogFile)),
    ];
    problems.extend(others.into_iter().filter_map(Result::err));
    problems
}

/// Checks everything that depends only on the settings and the file system. Returns what is wrong.
fn conflicts(config: &Config) -> Vec<String> {
    let mut problems = Listeners::check(config, http::address(config));
    let segments = match config.number(Id::Engine) {
        SEGMENT_ENGINE => segment::check(config, thread_count(config)),
        _ => Ok(()),
    };
    let is_segment = config.number(Id::Engine) == SEGMENT_ENGINE;
    let cluster = match config.is_routed() && is_segment {
        true => Err(
            "cluster-enabled yes: expected engine slab, because CLUSTER GETKEYSINSLOT lists keys"
                .into(),
        ),
        false => Ok(()),
    };
    let others = [
        primary(config).map(drop),
        check_dir(config),
        segments,
        host::check(config),
        cluster,
    ];
    problems.extend(others.into_iter().filter_map(Result::err));
    problems
}

fn check_dir(config: &Config) -> Result<(), String> {
    let dir = config.text(Id::Dir);
    match fs::metadata(&dir) {
        Ok(found) if !found.is_dir() => Err(format!("dir {dir}: expected a folder, found a file")),
        _ => Ok(()),
    }
}

/// Returns the host and the port of the primary; `None` if the server is not a replica.
fn primary(config: &Config) -> Result<Option<(String, u16)>, String> {
    let primary = config.text(Id::ReplicaOf);
    if primary.is_empty() || primary.eq_ignore_ascii_case("no one") {
        return Ok(None);
    }
    let words = primary.split_once(' ');
    let address = words.and_then(|(host, port)| Some((host.to_owned(), port.trim().parse().ok()?)));
    address
        .map(Some)
        .ok_or_else(|| format!("replicaof '{primary}': expected a host and a port"))
}

/// Starts a server with the given settings.
///
/// # Errors
/// An address cannot be bound, or a setting is invalid. The message is meant for users.
pub fn start(config: Config, clock: Clock) -> Result<Running, String> {
    start_after(config, clock, Handover::default())
}

/// Starts a server that continues with the sockets and the snapshot of the process before it.
///
/// # Errors
/// Returns the errors of [`start`].
pub fn start_after(
    config: Config,
    clock: Clock,
    mut inherited: Handover,
) -> Result<Running, String> {
    command::rename(&config.renames())?;
    if let Some(problem) = conflicts(&config).into_iter().next() {
        return Err(problem);
    }
    let listeners = Listeners::bind(&config, &mut inherited)?;
    let http_listener = http::bind(http::address(&config), &mut inherited)?;
    let addresses = listeners.addresses(PortProtocol::Resp, false);
    let others = other_ports(&listeners);
    let with_tls = listeners.addresses(PortProtocol::Resp, true);
    let listening = listeners.describe(&config);
    let server = Arc::new(Server::new(config, clock)?);
    // The server is new, so that nothing was stored yet.
    let _ = server.network.listening.set(listening);
    if let Some(first) = addresses.first().or(with_tls.first()) {
        let _ = server.network.first_address.set(*first);
    }
    load_at_start(&server.auth, &server.config)?;
    server.network.tls.load(&server.config)?;
    if let Some(address) = addresses.first() {
        server.network.port.store(address.port(), Relaxed);
    }
    set_restarts(&server, inherited);
    host::prepare(&server)?;
    // From here on, clients get LOADING until the file is loaded.
    work::prepare(&server)?;
    let load =
        prepare_load(&server).map_err(|why| with_snapshot(&server.lifecycle.restart, why))?;
    let mut threads = start_workers(&server, listeners)?;
    if server.data.segments.is_none() {
        start_long(&server)?;
        threads.push(start_saving(&server)?);
        threads.push(start_aof(&server)?);
        start_link(&server)?;
        start_host(&server)?;
    }
    if server.data.segments.is_some() {
        threads.push(start_learner(&server)?);
    }
    if let Some(listener) = http_listener {
        threads.push(start_http(&server, listener)?);
    }
    start_watch(&server)?;
    let mut loaded = None;
    if let Some(load) = load {
        let (sender, receiver) = mpsc::channel();
        threads.push(start_loading(&server, load, sender)?);
        loaded = Some(receiver);
    }
    log_start(&server, &addresses);
    for (protocol, addresses) in others {
        if !addresses.is_empty() {
            log::info!("serving {protocol} on {}", shown(&addresses));
        }
    }
    Ok(Running {
        server,
        addresses,
        threads,
        loaded,
    })
}

/// Starts the thread that learns for the segment engine. It may fail without the server; the engine
/// then discards what it reported last.
fn start_learner(server: &Arc<Server>) -> Result<JoinHandle<Result<(), String>>, String> {
    let server = Arc::clone(server);
    let thread = Builder::new().name("learner".to_owned()).spawn(move || {
        learner::run(&server);
        Ok(())
    });
    thread.map_err(|error| format!("learner: {error}"))
}

/// Prepares restarts: the snapshot of the restart that started this process, and the thread for the
/// next one.
fn set_restarts(server: &Arc<Server>, inherited: Handover) {
    if inherited.socket_count() > 0 {
        log::warn!(
            "{} listening sockets of the process before are closed, because the settings name \
             other addresses",
            inherited.socket_count()
        );
    }
    server
        .lifecycle
        .restart
        .inherit(inherited.snapshot().map(Path::to_path_buf));
    // The server owns the function.
    let server_of = Arc::downgrade(server);
    server.lifecycle.restart.set_runner(move |number, request| {
        let Some(server) = server_of.upgrade() else {
            return false;
        };
        let thread = Builder::new().name("restart".to_owned());
        let spawned = thread.spawn(move || restarts::run(&server, number, request));
        spawned.is_ok()
    });
}

/// Returns the ports other than Redis's, with their names in the log.
fn other_ports(listeners: &Listeners) -> Vec<(&'static str, Vec<SocketAddr>)> {
    let named = [
        ("Redis's protocol with TLS", PortProtocol::Resp, true),
        ("memcached's protocol", PortProtocol::Memcached, false),
        (
            "memcached's protocol with TLS",
            PortProtocol::Memcached,
            true,
        ),
    ];
    let named = named.into_iter();
    named
        .map(|(name, protocol, has_tls)| (name, listeners.addresses(protocol, has_tls)))
        .collect()
}

/// Starts the thread for metrics and health checks.
fn start_http(
    server: &Arc<Server>,
    listener: TcpListener,
) -> Result<JoinHandle<Result<(), String>>, String> {
    let address = listener.local_addr();
    let thread = http::start(server, listener)?;
    if let Ok(address) = address {
        log::info!("serving metrics and health checks on http://{address}");
    }
    Ok(thread)
}

/// Function that loads files.
type Load = Box<dyn FnOnce(&Server) -> Result<(), String> + Send>;

/// Finds the files to load: the append-only file, or the snapshot file.
fn prepare_load(server: &Server) -> Result<Option<Load>, String> {
    if let Some(file) = replay::prepare(server)? {
        return Ok(Some(Box::new(move |server| replay::load(server, file))));
    }
    let source = loading::prepare(server)?;
    Ok(source.map(|source| -> Load {
        Box::new(move |server| {
            let Source { name, file, bytes } = source;
            loading::load(server, &name, file, bytes, Origin::Start, load_library)?;
            work::warn_unsaved(server, None);
            Ok(())
        })
    }))
}

/// Stops the server, after a snapshot if save points are set. If the snapshot fails, the server
/// goes on. `cause` is for the log.
///
/// # Errors
/// Another stop awaits its snapshot.
pub fn shut_down(server: &Server, cause: &str) -> Result<(), &'static str> {
    work::stop(server, cause, None, None, false).map(|_| ())
}

/// Executes the program again, which may be another version, with the same keys and listening
/// sockets. The server goes on until the program accepts the settings and the keys are saved.
/// `cause` is for the log.
///
/// # Errors
/// A restart is not possible now.
pub fn restart(server: &Server, cause: &str) -> Result<(), &'static str> {
    let request = Request {
        cause: cause.to_owned(),
        wants: None,
        client: None,
    };
    restarts::request(server, request)
}

/// Starts the thread that loads files. The server stops if it cannot be loaded, because
/// a cache with a part of its keys would be saved over the file.
fn start_loading(
    server: &Arc<Server>,
    load: Load,
    loaded: Sender<()>,
) -> Result<JoinHandle<Result<(), String>>, String> {
    let server = Arc::clone(server);
    let thread = thread_for_scripts("loader".to_owned());
    let spawned = thread.spawn(move || {
        let mut guard = StopOnDrop::new(Arc::clone(&server));
        let loaded_all = load(&server);
        loaded_all.map_err(|why| with_snapshot(&server.lifecycle.restart, why))?;
        guard.is_armed = false;
        // A load that is ended by a stop has read a part of the file.
        if !server.lifecycle.stops() {
            work::follow_restart(&server);
        }
        // A server that does not wait for the load has dropped the receiver.
        let _ = loaded.send(());
        Ok(())
    });
    spawned.map_err(|error| format!("thread that loads the snapshot file: {error}"))
}

/// Adds to an error the path of the snapshot with the keys of the process before a restart.
fn with_snapshot(restart: &Restart, why: String) -> String {
    match restart.inherited() {
        Some(path) => format!(
            "{why}; the keys of the process before stay in {}",
            path.display()
        ),
        None => why,
    }
}

fn shown(addresses: &[SocketAddr]) -> String {
    if addresses.is_empty() {
        return "no port without TLS".into();
    }
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    addresses.join(" and ")
}

/// Logs the addresses on which the server listens, and its main settings.
fn log_start(server: &Server, addresses: &[SocketAddr]) {
    let maxmemory = match server.config.maxmemory_bytes() {
        0 => "unlimited".to_owned(),
        bytes => bytes_for_people(bytes),
    };
    let engine = server.data.engine().describe(&server.config);
    let path = server.config.path(Id::UnixSocket);
    let places = match (addresses.is_empty(), path.is_empty()) {
        (_, true) => shown(addresses),
        (true, false) => format!("the local socket {path}"),
        (false, false) => format!("{} and the local socket {path}", shown(addresses)),
    };
    log::info!(
        "mayfly {} serves on {} with {} data thread{}, memory {maxmemory}, {}",
        env!("CARGO_PKG_VERSION"),
        places,
        server.workers.count,
        if server.workers.count == 1 { "" } else { "s" },
        engine,
    );
    if let Some(warning) = server.data.engine().warning(server.workers.count) {
        log::warn!("{warning}");
    }
    for name in unused_settings(&server.config) {
        log::warn!(
            "{name} has no effect: it is a setting of the segment engine (--engine segment)"
        );
    }
    let is_open = addresses.iter().any(|address| !address.ip().is_loopback());
    if is_open && !server.auth.needs_password() {
        if server.config.is_on(Id::ProtectedMode) {
            log::warn!(
                "no password is set: only connections from this machine are accepted (protected mode)"
            );
        } else {
            log::warn!(
                "no password is set and protected mode is off: every client that can reach this address has full access"
            );
        }
    }
}

/// Returns the names of settings that were changed although only the other engine uses them.
fn unused_settings(config: &Config) -> Vec<&'static str> {
    const OF_SEGMENTS: [Id; 5] = [
        Id::SegmentSize,
        Id::SegmentEviction,
        Id::SegmentMerge,
        Id::LearnCpu,
        Id::LearnInterval,
    ];
    if config.number(Id::Engine) == SEGMENT_ENGINE {
        return Vec::new();
    }
    let defaults = Config::default();
    let changed = |id: &Id| config.number(*id) != defaults.number(*id);
    let file = (!config.text(Id::SegmentFile).is_empty()).then_some(Id::SegmentFile);
    let ids = OF_SEGMENTS.into_iter().filter(changed).chain(file);
    ids.map(|id| TABLE[id as usize].name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::find;

    #[test]
    fn changed_settings_of_the_other_engine_are_named() {
        let config = Config::default();
        assert!(unused_settings(&config).is_empty());
        for (name, value) in [("segment-merge", "3"), ("learn-cpu", "50")] {
            let param = find(name).expect("a setting");
            config.set(param, value).expect("a number");
        }
        assert_eq!(unused_settings(&config), ["segment-merge", "learn-cpu"]);
        let engine = find("engine").expect("a setting");
        config.set(engine, "segment").expect("an engine");
        assert!(unused_settings(&config).is_empty());
    }

    /// Returns the report of a check of settings, and the error of a start with them.
    fn refused(settings: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
        let config = || {
            let config = Config::default();
            for (name, value) in settings {
                let param = find(name).expect("a setting");
                config.set(param, value).expect("a valid value");
            }
            config
        };
        let started = start(config(), Clock::System);
        (check(&config()), started.err())
    }

    #[test]
    fn a_check_reports_what_a_start_refuses() {
        let name = format!("mayfly-conflicts-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("file");
        fs::write(&file, b"x").expect("a file");
        let file = file.to_str().expect("a path");
        let absent = folder.join("absent/socket");
        let absent = absent.to_str().expect("a path");
        for (settings, text) in [
            (
                &[("replicaof", "127.0.0.1")][..],
                "expected a host and a port",
            ),
            (
                &[("replicaof", "127.0.0.1 99999")],
                "expected a host and a port",
            ),
            (&[("bind", "")], "no address to listen on"),
            (&[("bind", "a.b")], "expected an IP address"),
            (&[("dir", file)], "expected a folder"),
            (&[("unixsocket", absent)], "there is no folder"),
            (&[("unixsocket", file)], "not a socket"),
            (
                &[("unixsocket", "s"), ("memcached-unixsocket", "s")],
                "the same path",
            ),
            (
                &[("port", "28555"), ("http", "127.0.0.1:28555")],
                "the same port",
            ),
            (
                &[("port", "28555"), ("http", "[::]:28555")],
                "the same port",
            ),
            (
                &[("engine", "segment"), ("maxmemory", "1mb")],
                "is too little",
            ),
            (
                &[("engine", "segment"), ("appendonly", "yes")],
                "no append-only file",
            ),
        ] {
            let (problems, error) = refused(settings);
            assert!(
                problems.iter().any(|one| one.contains(text)),
                "{settings:?}: {problems:?}"
            );
            assert_eq!(error.as_ref(), problems.first(), "{settings:?}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
