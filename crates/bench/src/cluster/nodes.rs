//! Clusters of three shards with a replica each, on this machine: ours and a peer's.

use crate::client::Client;
use crate::contestant::peer_args;
use crate::error::{Error, Result};
use crate::process::{self, Cpus};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::Value;

/// Number of shards. Each has one replica.
pub(super) const SHARDS: usize = 3;
const NODES: usize = 2 * SHARDS;
const SLOTS: usize = 16_384;
/// Maximum time until a cluster is whole.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
/// Time that processes have to end before they are killed.
const END_LIMIT: Duration = Duration::from_secs(10);
const POLL_PAUSE: Duration = Duration::from_millis(20);

/// A cluster whose processes end when this is dropped.
pub(super) struct Cluster {
    pub label: String,
    pub version: String,
    nodes: Vec<Node>,
    /// The process that has started the nodes and ends them, if it is not this one.
    parent: Option<Child>,
    cpus: Cpus,
    folder: PathBuf,
}

struct Node {
    address: SocketAddr,
    pid: u32,
    /// The command line that started it.
    line: Vec<String>,
    /// The process if it was started here.
    child: Option<Child>,
}

/// Numbers of a shard's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub primary: usize,
    pub replica: Option<usize>,
}

impl Cluster {
    /// Starts our cluster: `mayfly cluster demo`.
    pub(super) fn ours(program: &Path, args: &[String], cpus: &Cpus) -> Result<Cluster> {
        let label = "mayfly";
        let folder = folder(label)?;
        // etcd uses two ports.
        let port = free_ports(NODES + 2)?;
        let mut command = Command::new(program);
        command.args(["cluster", "demo", "--port", &port.to_string(), "--dir"]);
        command.arg(&folder).args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let parent = cpus
            .during(|| command.spawn())?
            .map_err(Error::system(format!("cannot start {}", program.display())))?;
        let mut cluster = Cluster {
            label: label.into(),
            version: String::new(),
            nodes: Vec::new(),
            parent: Some(parent),
            cpus: cpus.clone(),
            folder,
        };
        cluster.await_parent()?;
        for at in 0..NODES {
            cluster.nodes.push(Node {
                address: local(port + at as u16),
                pid: 0,
                line: Vec::new(),
                child: None,
            });
        }
        cluster.begin()?;
        Ok(cluster)
    }

    /// Reads the output of the parent until it says that the cluster serves.
    fn await_parent(&mut self) -> Result<()> {
        let Some(parent) = &mut self.parent else {
            return Ok(());
        };
        if let Some(output) = parent.stdout.take() {
            let mut lines = BufReader::new(output).lines();
            if lines.any(|line| line.is_ok_and(|line| line.starts_with("the cluster ends"))) {
                return Ok(());
            }
        }
        let mut text = String::new();
        if let Some(output) = &mut parent.stderr {
            // What was read is the reason.
            let _ = output.read_to_string(&mut text);
        }
        Err(Error::server(&self.label, text.trim()))
    }

    /// Starts a cluster of another server with its own cluster protocol.
    pub(super) fn peer(label: &str, program: &Path, cpus: &Cpus) -> Result<Cluster> {
        let folder = folder(label)?;
        let port = free_ports(NODES)?;
        let mut cluster = Cluster {
            label: label.into(),
            version: String::new(),
            nodes: Vec::new(),
            parent: None,
            cpus: cpus.clone(),
            folder,
        };
        for at in 0..NODES {
            let port = port + at as u16;
            let mut args = vec![program.display().to_string()];
            args.extend(peer_args());
            let own = [
                "--port".into(),
                port.to_string(),
                "--cluster-enabled".into(),
                "yes".into(),
                "--cluster-config-file".into(),
                format!("nodes-{port}.conf"),
                "--dir".into(),
                cluster.folder.display().to_string(),
                // Snapshots for replicas of all nodes are in one folder.
                "--dbfilename".into(),
                format!("{port}.rdb"),
            ];
            args.extend(own);
            let child = spawn(&args, cpus)?;
            cluster.nodes.push(Node {
                address: local(port),
                pid: child.id(),
                line: args,
                child: Some(child),
            });
        }
        cluster.meet()?;
        cluster.begin()?;
        Ok(cluster)
    }

    /// Makes one cluster of nodes that do not know each other.
    fn meet(&self) -> Result<()> {
        let mut clients = Vec::new();
        for at in 0..NODES {
            clients.push(self.until(|| self.client(at))?);
        }
        for at in 1..NODES {
            let port = self.nodes[at].address.port().to_string();
            clients[0].call(&["CLUSTER", "MEET", "127.0.0.1", &port])?;
        }
        let borders: Vec<usize> = (0..=SHARDS).map(|at| at * SLOTS / SHARDS).collect();
        for (at, client) in clients.iter_mut().take(SHARDS).enumerate() {
            let range = [borders[at].to_string(), (borders[at + 1] - 1).to_string()];
            client.call(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
        }
        for at in 0..NODES {
            self.until(|| {
                let text = self.text(at, &["CLUSTER", "INFO"])?;
                let is_known = text.contains(&format!("cluster_known_nodes:{NODES}"));
                self.expect(is_known, "its nodes do not know each other")
            })?;
        }
        for at in SHARDS..NODES {
            let primary = self.text(at - SHARDS, &["CLUSTER", "MYID"])?;
            self.until(|| {
                let mut client = self.client(at)?;
                client.call(&["CLUSTER", "REPLICATE", &primary]).map(drop)
            })?;
        }
        Ok(())
    }

    /// Waits until the cluster is whole, and reads what all trials need.
    fn begin(&mut self) -> Result<()> {
        self.await_whole()?;
        for node in &mut self.nodes {
            let info = Client::connect(&self.label, node.address)?.info("server")?;
            let id = info.get("process_id").and_then(|id| id.parse().ok());
            node.pid = id.unwrap_or_default();
            if node.line.is_empty() {
                node.line = command_line(node.pid)?;
            }
            for (field, name) in [("mayfly_version", "Mayfly"), ("valkey_version", "Valkey")] {
                if let Some(version) = info.get(field) {
                    self.version = format!("{name} {version}");
                }
            }
        }
        Ok(())
    }

    pub(super) fn client(&self, at: usize) -> Result<Client> {
        Client::connect(&self.label, self.nodes[at].address)
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    /// Returns a node's reply as text.
    pub(super) fn text(&self, at: usize, command: &[&str]) -> Result<String> {
        let reply = self.client(at)?.call(command)?;
        let text = reply.as_bytes().map(String::from_utf8_lossy);
        text.map(Into::into)
            .ok_or_else(|| Error::server(&self.label, format!("{command:?}: {reply:?}")))
    }

    fn expect(&self, is_so: bool, otherwise: &str) -> Result<()> {
        match is_so {
            true => Ok(()),
            false => Err(Error::server(&self.label, otherwise)),
        }
    }

    /// Repeats an action until it succeeds, or returns its last error.
    pub(super) fn until<T>(&self, mut action: impl FnMut() -> Result<T>) -> Result<T> {
        let end = Instant::now() + WHOLE_LIMIT;
        loop {
            match action() {
                Err(_) if Instant::now() < end => std::thread::sleep(POLL_PAUSE),
                result => return result,
            }
        }
    }

    /// Waits until all nodes agree that each shard has a primary and a replica that follows it.
    pub(super) fn await_whole(&self) -> Result<()> {
        self.until(|| {
            let owners = self.owners(0)?;
            self.expect(owners.len() == SHARDS, "it has not all shards")?;
            for at in 0..NODES {
                let text = self.text(at, &["CLUSTER", "INFO"])?;
                self.expect(text.contains("cluster_state:ok"), "its state is not ok")?;
                self.expect(self.owners(at)? == owners, "its nodes do not agree")?;
            }
            for (_, owner) in owners {
                self.expect(owner.replica.is_some(), "a shard has no replica")?;
                let info = self.client(owner.primary)?.info("replication")?;
                let replica = info.get("slave0").map_or("", String::as_str);
                self.expect(replica.contains("state=online"), "a replica is not online")?;
            }
            Ok(())
        })
    }

    /// Returns the first slots of all shards with their owners, as a node knows them.
    fn owners(&self, at: usize) -> Result<Vec<(u16, Owner)>> {
        let mut owners: Vec<(u16, Owner)> = Vec::new();
        for (range, owner) in self.ranges(at)? {
            if !owners.iter().any(|(_, known)| *known == owner) {
                owners.push((range.0, owner));
            }
        }
        Ok(owners)
    }

    /// Returns all ranges of slots with their owners, as a node knows them.
    pub(super) fn ranges(&self, at: usize) -> Result<Vec<((u16, u16), Owner)>> {
        let reply = self.client(at)?.call(&["CLUSTER", "SLOTS"])?;
        let wrong = || Error::server(&self.label, format!("CLUSTER SLOTS: {reply:?}"));
        let node = |value: &Value| {
            let port = value.as_list()?.get(1)?.as_integer()?;
            let mut nodes = self.nodes.iter();
            nodes.position(|node| i64::from(node.address.port()) == port)
        };
        let range = |value: &Value| {
            let parts = value.as_list()?;
            let slots = (parts.first()?.as_integer()?, parts.get(1)?.as_integer()?);
            let owner = Owner {
                primary: node(parts.get(2)?)?,
                replica: parts.get(3).and_then(node),
            };
            Some(((slots.0 as u16, slots.1 as u16), owner))
        };
        let ranges = reply.as_list().ok_or_else(wrong)?.iter().map(range);
        let mut ranges: Vec<_> = ranges.collect::<Option<_>>().ok_or_else(wrong)?;
        ranges.sort_by_key(|((first, _), _)| *first);
        Ok(ranges)
    }

    /// Returns the numbers of all primaries in a cluster that is whole.
    pub(super) fn primaries(&self) -> Result<Vec<usize>> {
        let owners = self.owners(0)?.into_iter();
        Ok(owners.map(|(_, owner)| owner.primary).collect())
    }

    /// Returns the owner of a slot in a cluster that is whole.
    pub(super) fn owner(&self, slot: u16) -> Result<Owner> {
        let ranges = self.ranges(0)?;
        let mut ranges = ranges.into_iter();
        let found = ranges.find(|((first, last), _)| (*first..=*last).contains(&slot));
        found
            .map(|(_, owner)| owner)
            .ok_or_else(|| Error::server(&self.label, format!("slot {slot} has no owner")))
    }

    /// Kills a node with SIGKILL.
    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        let node = &mut self.nodes[at];
        signal(node.pid, Signal::KILL);
        match &mut node.child {
            Some(child) => child.wait().map(drop).map_err(Error::system("a node")),
            None => Ok(()),
        }
    }

    /// Starts a killed node again, and waits until the cluster is whole.
    pub(super) fn revive(&mut self, at: usize) -> Result<()> {
        let node = &mut self.nodes[at];
        let child = spawn(&node.line, &self.cpus)?;
        node.pid = child.id();
        node.child = Some(child);
        self.await_whole()
    }

    /// Returns the CPU time in nanoseconds that all nodes have used, with processes that they have
    /// started and that have ended.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        let mut sum = 0;
        for node in &self.nodes {
            sum += process::cpu_ns(node.pid)? + process::children_ns(node.pid)?;
        }
        Ok(sum)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(child) = &mut node.child {
                end(child);
            }
        }
        if let Some(parent) = &mut self.parent {
            end(parent);
        }
        // What remains is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Asks a process to end, and kills it after a time.
fn end(child: &mut Child) {
    signal(child.id(), Signal::TERM);
    let end = Instant::now() + END_LIMIT;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL_PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a signal to a process, which may have ended.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the command line of a process.
fn command_line(pid: u32) -> Result<Vec<String>> {
    let path = format!("/proc/{pid}/cmdline");
    let line = std::fs::read(&path).map_err(Error::system(format!("cannot read {path}")))?;
    let line = String::from_utf8_lossy(&line);
    // Each argument ends with a zero.
    let words = line.strip_suffix('\0').unwrap_or(&line).split('\0');
    Ok(words.map(str::to_owned).collect())
}

fn spawn(line: &[String], cpus: &Cpus) -> Result<Child> {
    let (program, args) = line.split_first().expect("a command line has a program");
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    cpus.during(|| command.spawn())?
        .map_err(Error::system(format!("cannot start {program}")))
}

/// Creates a folder for the files of a cluster.
fn folder(label: &str) -> Result<PathBuf> {
    let name = format!("mayfly-bench-{label}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)
        .map_err(Error::system(format!("cannot create {}", folder.display())))?;
    Ok(folder)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns the first of some free ports in a row. Those of Valkey's links between nodes are 10,000
/// higher.
fn free_ports(count: usize) -> Result<u16> {
    let starts = (20_000..32_000).step_by(16);
    let skipped = std::process::id() as usize % 500;
    let is_free = |port: u16| TcpListener::bind(local(port)).is_ok();
    let mut starts = starts.clone().skip(skipped).chain(starts);
    starts
        .find(|start| (*start..*start + count as u16).all(is_free))
        .ok_or_else(|| Error::Usage(format!("no {count} free ports in a row")))
}
