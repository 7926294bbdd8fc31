//! Copies the keys of a running cluster, or of a single server, to another one, and switches with
//! one pause of writes: `mayfly cluster import`. Both sides may be Redis, Valkey or Mayfly.
//!
//! A thread for each primary of the source follows it as a replica (`link.rs`, `source.rs`). It
//! stores the keys of the snapshot in the target with RESTORE. From the commands that follow it
//! takes only the *names* of the keys that change (`changed.rs`), reads these keys at the source
//! with DUMP and PEXPIRETIME, and stores them again as a whole. So no key in the target depends on
//! the order of two messages, a hot key costs no more than it can be sent, a command of the source
//! need not exist here in all its options, and a key that has expired on the target's clock returns
//! if the source has extended its deadline meanwhile. Deadlines are absolute in both ways of
//! carrying them. A value that changes all the time is sent all the time; large ones wait.
//!
//! The switch (`switch.rs`): writes are paused on all primaries of the source, the position of each
//! is read, each thread reports that it has come so far, numbers of keys and a sample of keys are
//! compared, the pause is made longer, and the positions are read and reached once more. Whatever
//! fails ends the pause, and clients go on at the source.
//!
//! The target is written as by any client, so that its slots may move and its nodes may be replaced
//! meanwhile (`target.rs`). The layout of the source must stay as it is (`layout.rs`).

mod connection;
mod item;
mod layout;
mod link;
mod source;
mod switch;
mod target;

use connection::{Connection, field};
use layout::Layout;
use settings::Config;
use source::Work;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use target::Target;
use wire::Value;

pub use switch::Switched;

/// Reason for which an import fails, for users.
pub type Failure = String;

/// Time between two looks at the threads.
const TURN: Duration = Duration::from_millis(20);
/// Time between two reports, and between two looks at the layout of the source.
const REPORT_TIME: Duration = Duration::from_secs(1);
/// Name of the connection that shows other imports that one is under way.
const NAME: &str = "mayfly-import";

/// Access to one side.
pub struct Side {
    /// Settings as a replica has them: `masteruser`, `masterauth`, `tls-replication` and the files
    /// of TLS.
    pub config: Config,
    /// Host of a node.
    pub host: String,
    /// Port of the node.
    pub port: u16,
}

/// How keys are copied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the target is emptied first.
    pub replaces: bool,
    /// Maximum time for which writes are paused if the switch fails.
    pub pause_max: Duration,
    /// Time for which writes stay paused after the switch.
    pub hold: Duration,
}

/// How far the copy of a primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The source prepares its snapshot.
    Waiting,
    /// The keys of the snapshot are stored.
    Snapshot,
    /// Keys that change are stored.
    Following,
}

/// What is known of the copy of a primary.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Address of the primary.
    pub address: String,
    /// How far it is.
    pub phase: Phase,
    /// Number of bytes of the snapshot that were read, and of all; 0 if it is not known.
    pub snapshot: (u64, u64),
    /// Number of keys that were stored, repeated ones included.
    pub keys: u64,
    /// Number of bytes of their values.
    pub bytes: u64,
    /// Number of keys that have changed and are not stored yet.
    pub waiting: u64,
    /// Number of bytes of the source's feed that were not examined, a second ago at most.
    pub lag_bytes: u64,
}

/// State of a thread, shared with the one that coordinates.
#[derive(Debug)]
struct Shard {
    address: String,
    phase: AtomicU8,
    snapshot_done: AtomicU64,
    snapshot_total: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
    waiting: AtomicU64,
    /// Position in the feed up to which changed keys are stored.
    position: AtomicU64,
    /// Position of the source as last read.
    offset: AtomicU64,
    /// Whether a pause now would be short.
    is_close: AtomicBool,
    /// Position that must be reached, with all keys that have changed until then.
    goal: AtomicU64,
    /// Last goal that was reached.
    reached: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

impl Shard {
    fn new(address: String) -> Shard {
        Shard {
            address,
            phase: AtomicU8::new(0),
            snapshot_done: AtomicU64::new(0),
            snapshot_total: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            position: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            is_close: AtomicBool::new(false),
            goal: AtomicU64::new(u64::MAX),
            reached: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    fn progress(&self) -> Progress {
        let phases = [Phase::Waiting, Phase::Snapshot, Phase::Following];
        let phase = phases[usize::from(self.phase.load(Relaxed))];
        let (offset, position) = (self.offset.load(Relaxed), self.position.load(Relaxed));
        Progress {
            address: self.address.clone(),
            phase,
            snapshot: (
                self.snapshot_done.load(Relaxed),
                self.snapshot_total.load(Relaxed),
            ),
            keys: self.keys.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            lag_bytes: match phase {
                Phase::Following => offset.saturating_sub(position),
                _ => 0,
            },
        }
    }

    fn failure(&self) -> Option<Failure> {
        let failure = self.failure.lock().expect("the lock is not poisoned");
        failure.clone()
    }
}

/// A server of one side, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its address.
    pub address: String,
    /// Its name and version.
    pub version: String,
    /// Number of its keys.
    pub keys: u64,
}

/// An import whose sides were checked.
pub struct Transfer<'a> {
    source: &'a Side,
    target: &'a Side,
    options: Options,
    layout: Layout,
    target_layout: Layout,
    /// A connection to each primary of the source.
    controls: Vec<Connection>,
    /// A connection to each primary of the target.
    stores: Vec<Connection>,
    /// The connection that other imports find.
    _claim: Connection,
    /// Primaries of the source.
    pub sources: Vec<Member>,
    /// Primaries of the target.
    pub targets: Vec<Member>,
}

fn open(side: &Side) -> Result<(Layout, Vec<Connection>), Failure> {
    let mut seed = Connection::open(side, &side.host, side.port)?;
    let layout = Layout::read(&mut seed, side)?;
    let nodes = layout.nodes.iter();
    let connections = nodes.map(|node| Connection::open(side, &node.host, node.port));
    let connections = connections.collect::<Result<_, _>>()?;
    Ok((layout, connections))
}

fn member(connection: &mut Connection) -> Result<(Member, String), Failure> {
    let facts = connection.text(&["INFO", "server"])?;
    let versions = ["mayfly", "valkey", "redis"];
    let version = versions.iter().find_map(|name| {
        let version = field(&facts, &format!("{name}_version"))?;
        Some(format!("{name} {version}"))
    });
    let sizes = connection.sizes()?;
    let run = field(&facts, "run_id").unwrap_or_default().to_owned();
    let member = Member {
        address: connection.address.clone(),
        version: version.unwrap_or_default(),
        keys: sizes.values().map(|(keys, _)| keys).sum(),
    };
    Ok((member, run))
}

impl<'a> Transfer<'a> {
    /// Connects to both sides and checks them. Nothing is changed.
    ///
    /// # Errors
    /// A server cannot be reached or used, a slot has no owner in the target, the target has keys
    /// that are not to be replaced, or another import is under way.
    pub fn prepare(
        source: &'a Side,
        target: &'a Side,
        options: Options,
    ) -> Result<Transfer<'a>, Failure> {
        let (layout, mut controls) = open(source)?;
        let (target_layout, mut stores) = open(target)?;
        if layout.nodes.is_empty() {
            return Err(format!("{}: no slot has an owner", source.host));
        }
        if let Some(slot) = layout.first_without(&target_layout) {
            return Err(format!(
                "slot {slot} has no owner in the target: expected all slots of the source to have one"
            ));
        }
        let (mut sources, mut targets, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for control in &mut controls {
            check_source(control, layout.is_cluster)?;
            let (member, run) = member(control)?;
            sources.push(member);
            runs.push(run);
        }
        for store in &mut stores {
            let (member, run) = member(store)?;
            if runs.contains(&run) {
                let address = &store.address;
                return Err(format!(
                    "{address} belongs to both sides: expected two clusters"
                ));
            }
            if member.keys > 0 && !options.replaces {
                return Err(format!(
                    "the target {} has {} keys: expected none, or --replace, which removes all keys of the target",
                    member.address, member.keys
                ));
            }
            targets.push(member);
        }
        let claim = claim(target, &target_layout)?;
        Ok(Transfer {
            source,
            target,
            options,
            layout,
            target_layout,
            controls,
            stores,
            _claim: claim,
            sources,
            targets,
        })
    }

    /// Copies keys until it is stopped, or until the switch, which `switches` requests. Calls
    /// `report` once a second. Returns `None` if it was stopped.
    ///
    /// # Errors
    /// The copy or the switch has failed. Clients may write at the source in any case.
    pub fn run(
        mut self,
        stops: &AtomicBool,
        switches: &AtomicBool,
        mut report: impl FnMut(&[Progress]),
    ) -> Result<Option<Switched>, Failure> {
        if self.options.replaces {
            for store in &mut self.stores {
                store.call(&["FLUSHALL"])?;
            }
        }
        self.copy_functions()?;
        let addresses = self.layout.nodes.iter().map(layout::Node::address);
        let shards: Vec<Shard> = addresses.map(Shard::new).collect();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (index, shard) in shards.iter().enumerate() {
                let (source, layout) = (self.source, self.layout.clone());
                let ends = &ends;
                let target = Target::new(self.target, self.target_layout.clone(), ends);
                scope.spawn(move || {
                    let result = follow(source, layout, index, shard, ends, target);
                    if let Err(error) = result {
                        let mut failure = shard.failure.lock().expect("the lock is not poisoned");
                        *failure = Some(error);
                    }
                });
            }
            let result = self.coordinate(&shards, stops, switches, &mut report);
            ends.store(true, Relaxed);
            result
        })
    }

    fn coordinate(
        &mut self,
        shards: &[Shard],
        stops: &AtomicBool,
        switches: &AtomicBool,
        report: &mut impl FnMut(&[Progress]),
    ) -> Result<Option<Switched>, Failure> {
        let mut reported_at = Instant::now();
        while !stops.load(Relaxed) {
            if let Some(failure) = shards.iter().find_map(Shard::failure) {
                return Err(failure);
            }
            let is_close = |shard: &Shard| shard.is_close.load(Relaxed);
            if switches.load(Relaxed) && shards.iter().all(is_close) {
                return self.switch(shards, stops).map(Some);
            }
            std::thread::sleep(TURN);
            if reported_at.elapsed() >= REPORT_TIME {
                reported_at = Instant::now();
                self.check_layout()?;
                for (control, shard) in self.controls.iter_mut().zip(shards) {
                    shard.offset.store(position(control)?, Relaxed);
                }
                let progress: Vec<Progress> = shards.iter().map(Shard::progress).collect();
                report(&progress);
            }
        }
        Ok(None)
    }

    /// Checks that each slot of the source has the owner that it had at the beginning, as each
    /// primary knows it.
    fn check_layout(&mut self) -> Result<(), Failure> {
        for control in &mut self.controls {
            if Layout::read(control, self.source)? != self.layout {
                return Err(format!(
                    "{}: slots or primaries of the source have changed during the import: begin it again with --replace when they stay",
                    control.address
                ));
            }
        }
        Ok(())
    }

    /// Loads the function libraries of the source on all primaries of the target.
    fn copy_functions(&mut self) -> Result<(), Failure> {
        for control in &mut self.controls {
            let reply = control.call(&["FUNCTION", "DUMP"])?;
            let Some(payload) = reply.as_bytes() else {
                return Err(format!(
                    "{}: FUNCTION DUMP: expected a text",
                    control.address
                ));
            };
            for store in &mut self.stores {
                store.call(&[&b"FUNCTION"[..], b"RESTORE", payload, b"REPLACE"])?;
            }
        }
        Ok(())
    }
}

fn follow(
    source: &Side,
    layout: Layout,
    index: usize,
    shard: &Shard,
    stops: &AtomicBool,
    target: Target<'_>,
) -> Result<(), Failure> {
    let node = &layout.nodes[index];
    let reader = Connection::open(source, &node.host, node.port)?;
    let mut work = Work {
        source,
        layout: &layout,
        index,
        shard,
        stops,
        target,
        failures_seen: 0,
        reader,
        batch_keys: 1,
    };
    work.run()
}

/// Returns the position of a primary in its history.
fn position(control: &mut Connection) -> Result<u64, Failure> {
    let facts = control.text(&["INFO", "replication"])?;
    let position = field(&facts, "master_repl_offset").and_then(|at| at.parse().ok());
    match (field(&facts, "role"), position) {
        (Some("master"), Some(position)) => Ok(position),
        _ => Err(format!(
            "{}: this node is not a primary any more",
            control.address
        )),
    }
}

/// Checks that a primary of the source can be followed.
fn check_source(control: &mut Connection, is_cluster: bool) -> Result<(), Failure> {
    let reply = control.call(&["COMMAND", "INFO", "PEXPIRETIME"])?;
    if !matches!(reply.as_list(), Some([Value::Array(_)])) {
        return Err(format!(
            "{}: this server has no PEXPIRETIME: expected Redis 7.0 or later, Valkey, or Mayfly",
            control.address
        ));
    }
    position(control)?;
    if is_cluster {
        let nodes = control.text(&["CLUSTER", "NODES"])?;
        let mut own = nodes.lines().filter(|line| line.contains("myself"));
        if own.any(|line| line.contains(" [")) {
            return Err(format!(
                "{}: slots move to or from this node: expected the move to end before",
                control.address
            ));
        }
    }
    Ok(())
}

/// Opens the connection that marks the target as one of this import. Of two imports that begin at
/// once, both may fail.
fn claim(target: &Side, layout: &Layout) -> Result<Connection, Failure> {
    let node = &layout.nodes[0];
    let mut claim = Connection::open(target, &node.host, node.port)?;
    claim.call(&["CLIENT", "SETNAME", NAME])?;
    let clients = claim.text(&["CLIENT", "LIST"])?;
    let name = format!(" name={NAME} ");
    match clients.lines().filter(|line| line.contains(&name)).count() {
        0 | 1 => Ok(claim),
        _ => Err(format!("another import to {} is under way", claim.address)),
    }
}
