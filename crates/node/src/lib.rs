//! An HTTP reverse-proxy cache: one node of an edge cluster, or a standalone cache.
//!
//! [`rules`] are the rules of HTTP caching as pure functions. [`store`] is the memory tier, built
//! on the project's library with its eviction policies and its expiry index, so that responses
//! leave memory when their usable time ends. [`disk`] is the tier for responses evicted from
//! memory, and [`scrub`] verifies it. [`fill`] is content that arrives from an origin and that
//! several clients can read meanwhile. [`proxy`] decides how a request is answered. [`cluster`]
//! connects a node to a cluster that stores large objects in chunks, and [`membership`] reads the
//! cluster's nodes and maps from etcd. [`listen`], [`admin`] and [`peer_port`] are the ports.
//!
//! ```text
//! client -> listen -> proxy -> store (-> disk)              hit
//!                       |-> flights -> fill of another fetch   collapsed
//!                       '-> origin -> fill -> store             miss
//! ```
//!
//! Deliberately absent: agreement among nodes without etcd, and rewriting of content other than
//! compression ([`encode`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod access_log;
pub mod admin;
mod alarm;
pub mod body;
pub mod budget;
pub mod clock;
pub mod cluster;
pub mod coded;
pub mod config;
pub mod disk;
pub mod encode;
pub mod fill;
pub mod flights;
mod http1;
pub mod listen;
pub mod membership;
pub mod metrics;
pub mod object;
pub mod origin;
pub mod peer_port;
pub mod proxy;
pub mod purge;
pub mod rules;
pub mod scrub;
mod socket;
pub mod status;
pub mod store;
pub mod stream;
mod tags;

pub use clock::{Clock, ManualClock};
pub use config::{
    ClusterConfig, Config, DiskConfig, EtcdConfig, File, Health, Invalid, Limits, LogField,
    LogFormat, Origin, Security, Server, Setting, Value,
};
pub use edge::ServerId;
pub use metrics::Reply;
pub use rules::forwarded::Network;

use ::membership::etcd::Etcd;
use cluster::Cluster;
use proxy::Node;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Maximum number of threads for reads that wait for the disk, name look-ups and purges.
const BLOCKING_THREADS: usize = 32;

/// Time between two adaptations of the store to the content outside it.
const FIT_TIME: Duration = Duration::from_millis(100);

/// Node that is serving requests.
pub struct Running {
    /// The node.
    pub node: Arc<Node>,
    /// Addresses for clients, addresses without TLS first.
    pub addresses: Vec<SocketAddr>,
    /// Address for other nodes of the cluster.
    pub peers: Option<SocketAddr>,
    /// Address for operators.
    pub admin: Option<SocketAddr>,
    certificate: Option<watch::Sender<TlsAcceptor>>,
    admin_certificate: Option<watch::Sender<TlsAcceptor>>,
    etcd: Option<Arc<Etcd>>,
    stop: watch::Sender<bool>,
    listeners: JoinSet<()>,
    connections: Arc<Semaphore>,
}

/// Starts a node on the current Tokio runtime.
///
/// # Errors
/// Returns an error if a setting cannot be used, or an address cannot be bound.
pub fn start(config: Config) -> Result<Running, Invalid> {
    let node = Arc::new(Node::new(config)?);
    let config = &node.config;
    let (stop, stopped) = watch::channel(false);
    let connections = Arc::new(Semaphore::new(config.limits.connections));
    let mut listeners = JoinSet::new();
    let mut addresses = vec![];
    let address = |listener: &tokio::net::TcpListener| {
        let address = listener.local_addr();
        address.map_err(|error| Invalid(format!("a socket without an address: {error}")))
    };
    let certificate = acceptor(config.certificate.as_ref())?;
    let admin_certificate = acceptor(config.admin_certificate.as_ref())?;
    let tls = certificate.as_ref().map(watch::Sender::subscribe);
    let (caught_up, is_caught_up) = watch::channel(node.cluster.is_none());
    for (listener, tls) in listen::bind_all(config, tls)? {
        addresses.push(address(&listener)?);
        let permits = connections.clone();
        let serving = listen::serve(node.clone(), listener, tls, permits, stopped.clone());
        listeners.spawn(when(is_caught_up.clone(), stopped.clone(), serving));
    }
    for path in &config.listen_unix {
        let listener = listen::socket::bind_path(path)?;
        let permits = connections.clone();
        let serving = listen::serve(node.clone(), listener, None, permits, stopped.clone());
        listeners.spawn(when(is_caught_up.clone(), stopped.clone(), serving));
    }
    let (mut peers, mut etcd) = (None, None);
    if let Some(cluster) = &node.cluster
        && let Some(bound) = peer_port::bind(config)?
    {
        peers = Some(address(&bound)?);
        let serving = peer_port::serve(node.clone(), cluster.clone(), bound, stopped.clone());
        listeners.spawn(serving);
        listeners.spawn(cluster.clone().probe(stopped.clone()));
        listeners.spawn(cluster.clone().repair(stopped.clone()));
        if let Some((following, client)) = follow(cluster, stopped.clone())? {
            listeners.spawn(following);
            etcd = Some(client);
        }
        listeners.spawn(cluster.clone().catch_up(caught_up));
    }
    listeners.spawn(scrub::run(node.clone(), stopped.clone()));
    listeners.spawn(fit(node.clone(), stopped.clone()));
    let admin = match config.admin {
        None => None,
        Some(wanted) => {
            let listener = listen::bind(wanted)?;
            let bound = address(&listener)?;
            let tls = admin_certificate.as_ref().map(watch::Sender::subscribe);
            listeners.spawn(admin::serve(node.clone(), listener, tls, stopped));
            Some(bound)
        }
    };
    Ok(Running {
        node,
        addresses,
        peers,
        admin,
        certificate,
        admin_certificate,
        etcd,
        stop,
        listeners,
        connections,
    })
}

/// Serves clients as soon as the node has caught up, unless it is stopped before.
async fn when(
    mut is_caught_up: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
    serving: impl Future<Output = ()>,
) {
    tokio::select! {
        waited = is_caught_up.wait_for(|is_so| *is_so) => drop(waited),
        _ = stop.changed() => return,
    }
    serving.await;
}

/// Returns the acceptor of TLS connections with a certificate and its key, if there is one.
fn acceptor(
    files: Option<&(PathBuf, PathBuf)>,
) -> Result<Option<watch::Sender<TlsAcceptor>>, Invalid> {
    let acceptor = files.map(|(certificate, key)| listen::tls(certificate, key));
    let acceptor = acceptor.transpose()?;
    Ok(acceptor.map(|acceptor| watch::channel(acceptor).0))
}

/// Adapts the store to the content outside it until `stop` changes. Fetches do so, too; content
/// from disk and from other nodes does not.
async fn fit(node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    while tokio::time::timeout(FIT_TIME, stop.changed())
        .await
        .is_err()
    {
        node.store.fit();
    }
}

/// Returns the task that follows etcd, and its client, if etcd lists the cluster's nodes. The last
/// map of an earlier run is used immediately.
fn follow(
    cluster: &Arc<Cluster>,
    stop: watch::Receiver<bool>,
) -> Result<Option<(impl Future<Output = ()> + use<>, Arc<Etcd>)>, Invalid> {
    let config = cluster.config();
    let (Some(etcd), Some(shared), Some(own)) = (&config.etcd, cluster.membership(), config.own())
    else {
        return Ok(None);
    };
    let client = Arc::new(Etcd::new(&etcd.access)?);
    let is_plain = config.security == Security::Plain;
    let copy = etcd.copy.as_deref();
    let map_config = config.map_config();
    let copy = copy.and_then(|path| membership::read_copy(path, &map_config, is_plain));
    if let Some(record) = &copy {
        log::info!("map {} from the last run", record.map.id().version);
        membership::Host::install(&**cluster, record);
    }
    let state = membership::state::State::new(config.own, map_config, is_plain, copy);
    let settings = membership::Settings {
        own: own.clone(),
        lease: etcd.lease,
        rebalance: etcd.rebalance,
        copy: etcd.copy.clone(),
    };
    let (host, shared) = (cluster.clone(), shared.clone());
    let kv = client.clone();
    let following = membership::run(kv, host, state, settings, shared, stop);
    Ok(Some((following, client)))
}

impl Running {
    /// Reads the certificates for clients, operators, other nodes and etcd again, with their keys,
    /// for new connections. Returns false if none is configured.
    ///
    /// # Errors
    /// Returns an error if they are invalid. The previous ones stay in use.
    pub fn reload(&self) -> Result<bool, Invalid> {
        let config = &self.node.config;
        let all = [
            (&self.certificate, &config.certificate),
            (&self.admin_certificate, &config.admin_certificate),
        ];
        let all = all.map(|(sender, files)| sender.as_ref().zip(files.as_ref()));
        for (sender, (certificate, key)) in all.into_iter().flatten() {
            sender.send_replace(listen::tls(certificate, key)?);
        }
        let for_nodes = match &self.node.cluster {
            Some(cluster) => cluster.credentials().reload()?,
            None => false,
        };
        if let Some(etcd) = &self.etcd {
            etcd.reload()?;
        }
        Ok(all.iter().any(Option::is_some) || for_nodes || self.etcd.is_some())
    }

    /// Replaces origins and rules by those of other settings. A difference in the rest is logged,
    /// because it needs a restart.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used. The previous ones stay in use.
    pub fn replace(&self, config: Config) -> Result<(), String> {
        config.check().map_err(|error| error.to_string())?;
        let replaced = self.node.replace(&config.origins, &config.rules);
        replaced.map_err(|error| error.to_string())?;
        let rest = |config: &Config| Config {
            origins: vec![],
            rules: vec![],
            ..config.clone()
        };
        let texts = [&self.node.config, &config].map(|config| format!("{:?}", rest(config)));
        if texts[0] != texts[1] {
            log::warn!("changes of other settings than origins and rules need a restart");
        }
        Ok(())
    }

    /// Stops accepting connections, and waits until open ones have finished or the configured time
    /// is over. The contents of memory are then written to the disk tier.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.listeners.join_next().await.is_some() {}
        let limits = &self.node.config.limits;
        let count = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        let all = self.connections.acquire_many(count);
        let wait = limits.stop_time + Duration::from_secs(1);
        let _ = tokio::time::timeout(wait, all).await;
        let node = self.node.clone();
        let _ = tokio::task::spawn_blocking(move || node.store.save()).await;
    }
}

/// Function that reads the settings again; its error is a text for the log.
pub type Reread = Box<dyn Fn() -> Result<Config, String>>;

/// Runs a node until the process receives SIGTERM or SIGINT. On SIGHUP, it reads the certificates
/// again, and with `reread` also origins and rules.
///
/// # Errors
/// Returns an error if the runtime cannot be started, a setting is invalid, or an address cannot be
/// bound.
pub fn run(
    config: Config,
    threads: usize,
    reread: Option<Reread>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("edge")
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // The default action would end the process without saving the content of memory.
        let mut hangup = signal(SignalKind::hangup())?;
        let running = start(config)?;
        for address in &running.addresses {
            log::info!("serving clients on {address}");
        }
        if let Some(address) = running.peers {
            log::info!("serving other nodes on {address}");
        }
        if let Some(address) = running.admin {
            log::info!("serving operators on {address}");
        }
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {
                    match running.reload() {
                        Ok(true) => log::info!("SIGHUP: the certificates were read again"),
                        Ok(false) => log::info!("SIGHUP: there is no certificate to be read again"),
                        Err(why) => log::warn!("SIGHUP: previous certificates stay in use: {why}"),
                    }
                    if let Some(reread) = &reread {
                        match reread().and_then(|config| running.replace(config)) {
                            Ok(()) => log::info!("SIGHUP: origins and rules were read again"),
                            Err(why) => log::warn!("SIGHUP: previous settings stay in use: {why}"),
                        }
                    }
                }
            }
        }
        log::info!("stopping");
        running.stop().await;
        Ok(())
    })
}
