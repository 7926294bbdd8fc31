//! Registry of connected clients. All workers read it for CLIENT LIST, CLIENT KILL and INFO.

use crate::acl::DEFAULT;
use crate::clock::Moment;
use crate::socket::Presence;
use crate::spec::SpecIndex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Arc, Mutex};

/// Bits of `ClientInfo::flags` and their letters in CLIENT LIST.
pub mod flag {
    /// Subscribed to a channel or pattern.
    pub const PUBSUB: u32 = 1;
    /// Within MULTI.
    pub const MULTI: u32 = 1 << 1;
    /// A watched key has changed.
    pub const DIRTY: u32 = 1 << 2;
    /// The connection closes after the pending reply.
    pub const CLOSING: u32 = 1 << 3;
    /// CLIENT NO-EVICT is on.
    pub const NO_EVICT: u32 = 1 << 4;
    /// CLIENT NO-TOUCH is on.
    pub const NO_TOUCH: u32 = 1 << 5;
    /// Blocked in a blocking command.
    pub const BLOCKED: u32 = 1 << 6;
    /// CLIENT TRACKING is on.
    pub const TRACKING: u32 = 1 << 7;
    /// The client to which invalidations were redirected has disconnected.
    pub const BROKEN_REDIRECT: u32 = 1 << 8;
    /// CLIENT TRACKING is on with BCAST.
    pub const BROADCAST: u32 = 1 << 9;
    /// Sent MONITOR.
    pub const MONITOR: u32 = 1 << 10;
    /// Connected through a local socket.
    pub const LOCAL: u32 = 1 << 11;
    /// A replica of this server.
    pub const REPLICA: u32 = 1 << 12;
    /// Sent READONLY to a node of a cluster.
    pub const READONLY: u32 = 1 << 13;
    /// Letters of the flags, in the order of CLIENT LIST.
    pub const LETTERS: &[(u32, char)] = &[
        (REPLICA, 'S'),
        (MONITOR, 'O'),
        (PUBSUB, 'P'),
        (MULTI, 'x'),
        (BLOCKED, 'b'),
        (TRACKING, 't'),
        (BROKEN_REDIRECT, 'R'),
        (BROADCAST, 'B'),
        (DIRTY, 'd'),
        (CLOSING, 'c'),
        (READONLY, 'r'),
        (LOCAL, 'U'),
        (NO_EVICT, 'e'),
        (NO_TOUCH, 'T'),
    ];
}

/// Names that a client has set for itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// Name set by CLIENT SETNAME.
    pub name: String,
    /// Library name set by CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// Library version set by CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
    /// Common name of the client's TLS certificate; empty without one.
    pub certificate_name: String,
    /// Name of the user; empty for the default user.
    user: String,
}

impl ClientNames {
    fn user(&self) -> &str {
        match &self.user[..] {
            "" => DEFAULT,
            name => name,
        }
    }
}

/// State of one client. Its worker writes it; all workers read it.
#[derive(Debug)]
pub struct ClientInfo {
    /// Client id, counted from 1; 0 for a session without a connection.
    pub id: u64,
    /// Remote address.
    pub address: String,
    /// Local address.
    pub local_address: String,
    /// File descriptor of the socket.
    pub fd: i32,
    /// Reference to the socket, if any.
    presence: Option<Presence>,
    /// Index of the worker that serves the client.
    pub worker: usize,
    /// Index of the connection in that worker.
    pub slot: usize,
    /// Time of the connection's acceptance.
    pub created: Moment,
    /// Time of the last command in milliseconds of a [`Moment`].
    pub active_ms: AtomicU64,
    /// Names of the client and of its library.
    pub names: Mutex<ClientNames>,
    /// Bytes of the names on the heap.
    name_bytes: AtomicU64,
    /// Bits of `flag`.
    pub flags: AtomicU32,
    /// Selected database.
    pub db: AtomicU8,
    /// Protocol version, 2 or 3.
    pub resp: AtomicU8,
    /// `SpecIndex` of the last command.
    pub command: AtomicU16,
    /// Number of subscribed channels.
    pub channels: AtomicU32,
    /// Number of subscribed patterns.
    pub patterns: AtomicU32,
    /// Number of subscribed shard channels.
    pub shard_channels: AtomicU32,
    /// Number of commands queued by MULTI; −1 outside a transaction.
    pub queued: AtomicI64,
    /// Number of watched keys.
    pub watched: AtomicU32,
    /// Bytes of incomplete commands.
    pub input_bytes: AtomicU64,
    /// Bytes of unsent replies.
    pub output_bytes: AtomicU64,
    /// Bytes allocated for input.
    pub input_capacity: AtomicU64,
    /// Bytes allocated for unsent replies.
    pub output_capacity: AtomicU64,
    /// Bytes of the positions of an incomplete command's arguments.
    pub argument_bytes: AtomicU64,
    /// Bytes of the commands queued by MULTI.
    pub transaction_bytes: AtomicU64,
    /// Bytes that the client holds in total, with its records.
    pub memory_bytes: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Number of executed commands.
    pub commands: AtomicU64,
    /// Id of the client that receives the invalidations of this one; 0 means this one itself, −1
    /// that tracking is off.
    pub redirect: AtomicI64,
    /// Whether the server has decided to disconnect the client. Its worker does so later.
    is_killed: AtomicBool,
}

/// Addresses of a connection and its position among the workers.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// Remote address.
    pub address: String,
    /// Local address.
    pub local_address: String,
    /// File descriptor of the socket.
    pub fd: i32,
    /// Reference to the socket, if any.
    pub presence: Option<Presence>,
    /// Index of the worker that serves the client.
    pub worker: usize,
    /// Index of the connection in that worker.
    pub slot: usize,
}

impl ClientInfo {
    /// Creates the state of a new client.
    pub fn new(id: u64, endpoint: Endpoint, now: Moment) -> ClientInfo {
        ClientInfo {
            id,
            address: endpoint.address,
            local_address: endpoint.local_address,
            fd: endpoint.fd,
            presence: endpoint.presence,
            worker: endpoint.worker,
            slot: endpoint.slot,
            created: now,
            active_ms: AtomicU64::new(now.0),
            names: Mutex::new(ClientNames::default()),
            name_bytes: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            db: AtomicU8::new(0),
            resp: AtomicU8::new(2),
            command: AtomicU16::new(SpecIndex::MAX),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            queued: AtomicI64::new(-1),
            watched: AtomicU32::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            input_capacity: AtomicU64::new(0),
            output_capacity: AtomicU64::new(0),
            argument_bytes: AtomicU64::new(0),
            transaction_bytes: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            redirect: AtomicI64::new(-1),
            is_killed: AtomicBool::new(false),
        }
    }

    /// Decides that the client is disconnected. From now on it is served no more, although its
    /// worker closes the connection later. Returns false if that was already decided.
    pub fn kill(&self) -> bool {
        !self.is_killed.swap(true, AcqRel)
    }

    /// Whether the server has decided to disconnect the client.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Acquire)
    }

    /// Whether a reply can reach the client: the server has not decided to disconnect it, and it
    /// has not disconnected itself.
    pub fn is_reachable(&self) -> bool {
        let presence = self.presence.as_ref();
        !self.is_killed() && presence.is_none_or(Presence::is_connected)
    }

    /// Whether the client is subscribed to anything.
    pub fn is_subscriber(&self) -> bool {
        self.flags.load(Relaxed) & flag::PUBSUB != 0
    }

    /// Returns the client's name; empty without one.
    pub fn name(&self) -> String {
        self.names
            .lock()
            .expect("the lock is not poisoned")
            .name
            .clone()
    }

    /// Changes the names that the client chooses, and counts their bytes.
    pub fn change_names(&self, change: impl FnOnce(&mut ClientNames)) {
        let mut names = self.names.lock().expect("the lock is not poisoned");
        change(&mut names);
        let chosen = [&names.name, &names.lib_name, &names.lib_ver];
        let bytes: usize = chosen.iter().map(|name| name.capacity()).sum();
        self.name_bytes.store(bytes as u64, Relaxed);
    }

    /// Returns the bytes of the names on the heap.
    pub fn name_bytes(&self) -> usize {
        self.name_bytes.load(Relaxed) as usize
    }

    /// Returns the name of the client's user.
    pub fn user(&self) -> String {
        let names = self.names.lock().expect("the lock is not poisoned");
        names.user().to_owned()
    }

    /// Sets the name of the client's user.
    pub fn set_user(&self, name: &str) {
        let mut names = self.names.lock().expect("the lock is not poisoned");
        names.user = if name == DEFAULT { "" } else { name }.to_owned();
    }

    /// Formats the client's line of CLIENT LIST, without a line end. `name_of` returns the name of
    /// a command.
    pub fn line(&self, now: Moment, name_of: impl Fn(SpecIndex) -> &'static str) -> String {
        let names = self.names.lock().expect("the lock is not poisoned").clone();
        let bits = self.flags.load(Relaxed);
        let mut letters: String = flag::LETTERS
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, letter)| *letter)
            .collect();
        if letters.is_empty() {
            letters.push('N');
        }
        let age = now.since(self.created) / 1000;
        let idle = now.since(Moment(self.active_ms.load(Relaxed))) / 1000;
        let output = self.output_bytes.load(Relaxed);
        let input = self.input_bytes.load(Relaxed);
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name={} age={age} idle={idle} flags={letters} db={}",
            self.id,
            self.address,
            self.local_address,
            self.fd,
            names.name,
            self.db.load(Relaxed),
        );
        let _ = write!(
            line,
            " sub={} psub={} ssub={} multi={} watch={} qbuf={input} qbuf-free={} argv-mem={} multi-mem={}",
            self.channels.load(Relaxed),
            self.patterns.load(Relaxed),
            self.shard_channels.load(Relaxed),
            self.queued.load(Relaxed),
            self.watched.load(Relaxed),
            self.input_capacity.load(Relaxed).saturating_sub(input),
            self.argument_bytes.load(Relaxed),
            self.transaction_bytes.load(Relaxed),
        );
        let _ = write!(
            line,
            " rbs=0 rbp=0 obl={output} oll=0 omem={} tot-mem={} events={} cmd={}",
            self.output_capacity.load(Relaxed),
            self.memory_bytes.load(Relaxed),
            if output > 0 { "rw" } else { "r" },
            name_of(self.command.load(Relaxed)),
        );
        let _ = write!(
            line,
            " user={} redir={} resp={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} tot-cmds={}",
            names.user(),
            self.redirect.load(Relaxed),
            self.resp.load(Relaxed),
            names.lib_name,
            names.lib_ver,
            self.worker,
            self.received_bytes.load(Relaxed),
            self.sent_bytes.load(Relaxed),
            self.commands.load(Relaxed),
        );
        if !names.certificate_name.is_empty() {
            let is_shown = |letter: char| letter.is_ascii_graphic();
            let name = names
                .certificate_name
                .replace(|letter| !is_shown(letter), "?");
            let _ = write!(line, " tls-cn={name}");
        }
        line
    }
}

/// All connected clients.
#[derive(Default)]
pub struct Registry {
    all: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    last_id: AtomicU64,
    /// Number of reserved places for connections, which `maxclients` bounds.
    count: AtomicU64,
}

impl Registry {
    /// Registers a connection under a new id.
    pub fn add(&self, endpoint: Endpoint, now: Moment) -> Arc<ClientInfo> {
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        let info = Arc::new(ClientInfo::new(id, endpoint, now));
        let mut all = self.all.lock().expect("the lock is not poisoned");
        all.insert(id, Arc::clone(&info));
        info
    }

    /// Reserves a place for a connection unless `max` places are reserved. Returns whether it did.
    pub fn reserve(&self, max: u64) -> bool {
        self.count
            .fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1))
            .is_ok()
    }

    /// Releases the place of a connection.
    pub fn release(&self) {
        self.count.fetch_sub(1, Relaxed);
    }

    /// Removes a client from the registry.
    pub fn remove(&self, id: u64) {
        self.all
            .lock()
            .expect("the lock is not poisoned")
            .remove(&id);
    }

    /// Returns the client with this id.
    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        let all = self.all.lock().expect("the lock is not poisoned");
        all.get(&id).cloned()
    }

    /// Returns the number of connections.
    pub fn len(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all clients, ordered by id.
    pub fn list(&self) -> Vec<Arc<ClientInfo>> {
        let all = self.all.lock().expect("the lock is not poisoned");
        all.values().cloned().collect()
    }
}
