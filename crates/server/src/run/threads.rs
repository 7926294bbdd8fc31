//! Threads of a server. One that ends early stops the server, unless the server can do without it.

use super::primary;
use crate::dispatch::long;
use crate::net::listener::Listeners;
use crate::net::worker::Worker;
use crate::replica::{link, removal};
use crate::replication::role;
use crate::saving::writer;
use crate::state::Server;
use crate::{aof, host, links, tls};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Returns the builder of a thread that may run scripts. A part of the stack that is never used
/// takes no memory.
pub(super) fn thread_for_scripts(name: String) -> Builder {
    Builder::new().name(name).stack_size(script::STACK_BYTES)
}

/// Starts the thread for long commands.
pub(super) fn start_long(server: &Arc<Server>) -> Result<(), String> {
    let watched = Arc::clone(server);
    // Nobody waits for this thread, so that a long command does not delay the end of the process.
    // If it panics, the values that it works on are lost, so that the server stops.
    let thread = thread_for_scripts("long".to_owned());
    let spawned = thread.spawn(move || {
        let guard = StopOnDrop::new(watched);
        long::run_thread(&guard.server);
    });
    let failed = |error| format!("thread for long commands: {error}");
    spawned.map(drop).map_err(failed)
}

/// Starts the thread that writes snapshots.
pub(super) fn start_saving(server: &Arc<Server>) -> Result<JoinHandle<Result<(), String>>, String> {
    let watched = Arc::clone(server);
    // A panic could lose a value that the thread has borrowed, so that the server stops.
    let thread = Builder::new().name("saving".to_owned());
    let spawned = thread.spawn(move || {
        let guard = StopOnDrop::new(watched);
        writer::run(&guard.server);
        Ok(())
    });
    spawned.map_err(|error| format!("thread for snapshots: {error}"))
}

/// Starts the thread that writes the append-only file.
pub(super) fn start_aof(server: &Arc<Server>) -> Result<JoinHandle<Result<(), String>>, String> {
    let watched = Arc::clone(server);
    let thread = Builder::new().name("aof".to_owned());
    let spawned = thread.spawn(move || {
        let guard = StopOnDrop::new(watched);
        aof::writer::run(&guard.server);
        Ok(())
    });
    spawned.map_err(|error| format!("thread of the append-only file: {error}"))
}

/// Starts the thread that follows a primary. Nobody waits for it, because it may wait for a
/// network.
pub(super) fn start_link(server: &Arc<Server>) -> Result<(), String> {
    if let Some((host, port)) = primary(&server.config)? {
        role::follow(server, &host, port);
    }
    let server = Arc::clone(server);
    let thread = thread_for_scripts("primary".to_owned());
    let followed = Arc::clone(&server);
    let link = thread.spawn(move || link::run(&followed));
    let thread = Builder::new().name("primary-time".to_owned());
    let watch = thread.spawn(move || removal::run(&server));
    let failed = |error| format!("threads that follow a primary: {error}");
    link.and(watch).map(|_| ()).map_err(failed)
}

/// Starts the threads of a node of a cluster. Nobody waits for them, because they may wait for
/// etcd and for other nodes.
pub(super) fn start_host(server: &Arc<Server>) -> Result<(), String> {
    if !server.cluster.is_routed() {
        return Ok(());
    }
    type Run = fn(&Arc<Server>) -> Result<(), String>;
    // Without the host, a primary serves until its fence, and no replica replaces it. Without the
    // links, messages reach the subscribers of this node only.
    let threads: [(&str, Run); 2] = [("cluster", host::run), ("links", links::run)];
    for (name, run) in threads {
        let watched = Arc::clone(server);
        let spawned = Builder::new().name(name.to_owned()).spawn(move || {
            let guard = StopOnDrop::new(watched);
            if let Err(error) = run(&guard.server) {
                log::error!("cluster: {error}");
            }
        });
        spawned.map_err(|error| format!("thread of the cluster: {error}"))?;
    }
    Ok(())
}

/// Starts the thread that looks at the files of TLS, if a port uses it. Nobody waits for the
/// thread, because it sleeps.
pub(super) fn start_watch(server: &Arc<Server>) -> Result<(), String> {
    if !tls::is_used(&server.config) {
        return Ok(());
    }
    let server = Arc::clone(server);
    let thread = Builder::new().name("certificates".to_owned());
    let spawned = thread.spawn(move || {
        let stops = || server.lifecycle.stops();
        tls::watch::run(&server.network.tls, &server.config, stops);
    });
    let failed = |error| format!("thread for the files of TLS: {error}");
    spawned.map(|_| ()).map_err(failed)
}

/// Starts the workers. The first one gets the listeners.
pub(super) fn start_workers(
    server: &Arc<Server>,
    listeners: Listeners,
) -> Result<Vec<JoinHandle<Result<(), String>>>, String> {
    let mut listeners = Some(listeners);
    let mut workers = Vec::new();
    for index in 0..server.workers.count {
        let listeners = listeners.take().unwrap_or_default();
        let worker = Worker::new(Arc::clone(server), index, listeners)
            .map_err(|error| format!("worker {index}: {error}"))?;
        workers.push(worker);
    }
    let mut threads = Vec::new();
    for (index, mut worker) in workers.into_iter().enumerate() {
        let name = format!("worker-{index}");
        let watched = Arc::clone(server);
        let thread = thread_for_scripts(name).spawn(move || {
            let result = run_worker(watched, || worker.run());
            result.map_err(|error| format!("worker {index}: {error}"))
        });
        threads.push(thread.map_err(|error| format!("worker {index}: {error}"))?);
    }
    Ok(threads)
}

/// Runs a worker. One that ends, by an error or a panic, stops the server, because its clients
/// would hang, and counts as ended for the append-only file, whose thread ends after all workers.
fn run_worker<R>(server: Arc<Server>, work: impl FnOnce() -> R) -> R {
    struct EndOnDrop(Arc<Server>);
    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            self.0.persistence.aof.end_worker();
        }
    }
    let _stop = StopOnDrop::new(Arc::clone(&server));
    let _end = EndOnDrop(server);
    work()
}

/// Stops the server when the thread that owns it ends.
pub(super) struct StopOnDrop {
    server: Arc<Server>,
    pub(super) is_armed: bool,
}

impl StopOnDrop {
    pub(super) fn new(server: Arc<Server>) -> Self {
        let is_armed = true;
        StopOnDrop { server, is_armed }
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if self.is_armed {
            self.server.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use settings::Config;

    /// Regression: the thread of the append-only file waited for the worker for ever, so that the
    /// process did not end.
    #[test]
    fn a_worker_that_panics_counts_as_ended() {
        let server = Server::new(Config::default(), Clock::System).expect("valid settings");
        let server = Arc::new(server);
        for _ in 0..server.workers.count {
            let server = Arc::clone(&server);
            let worker = std::thread::spawn(|| run_worker(server, || -> () { panic!("a fault") }));
            assert!(worker.join().is_err());
        }
        assert!(server.lifecycle.stops());
        aof::writer::run(&server);
    }
}
