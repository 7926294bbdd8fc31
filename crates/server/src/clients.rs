//! All connected clients, as any worker may see them: for CLIENT LIST, CLIENT KILL and INFO.

use crate::clock::Moment;
use crate::command::{self, SpecIndex};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};
use std::sync::{Arc, Mutex};

/// Bits of `ClientInfo::flags`, with CLIENT LIST's letters.
pub mod flag {
    /// Subscribed.
    pub const PUBSUB: u32 = 1;
    /// Within MULTI.
    pub const MULTI: u32 = 1 << 1;
    /// A watched key has changed.
    pub const DIRTY: u32 = 1 << 2;
    /// To be closed once the reply is sent.
    pub const CLOSING: u32 = 1 << 3;
    /// CLIENT NO-EVICT.
    pub const NO_EVICT: u32 = 1 << 4;
    /// CLIENT NO-TOUCH.
    pub const NO_TOUCH: u32 = 1 << 5;
    /// Waits within a blocking command.
    pub const BLOCKED: u32 = 1 << 6;
    /// Letters, in CLIENT LIST's order.
    pub const LETTERS: &[(u32, char)] = &[
        (PUBSUB, 'P'),
        (MULTI, 'x'),
        (BLOCKED, 'b'),
        (DIRTY, 'd'),
        (CLOSING, 'c'),
        (NO_EVICT, 'e'),
        (NO_TOUCH, 'T'),
    ];
}

/// What clients say about themselves.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
}

/// One client, written by its worker, read by all.
#[derive(Debug)]
pub struct ClientInfo {
    /// Counts up from 1; 0 when there is no connection.
    pub id: u64,
    /// The other side.
    pub address: String,
    /// Our side.
    pub local_address: String,
    /// The socket's number.
    pub fd: i32,
    /// The worker that serves it.
    pub worker: usize,
    /// Its place there.
    pub slot: usize,
    /// When it came.
    pub created: Moment,
    /// When it last sent something, a `Moment`.
    pub active_ms: AtomicU64,
    /// Names.
    pub names: Mutex<Names>,
    /// Bits of `flag`.
    pub flags: AtomicU32,
    /// The selected database.
    pub db: AtomicU8,
    /// 2 or 3.
    pub resp: AtomicU8,
    /// The last command.
    pub command: AtomicU16,
    /// Channels subscribed to.
    pub channels: AtomicU32,
    /// Patterns subscribed to.
    pub patterns: AtomicU32,
    /// Commands queued by MULTI; −1 outside of it.
    pub queued: AtomicI64,
    /// Keys watched.
    pub watched: AtomicU32,
    /// Bytes of unfinished commands.
    pub input_bytes: AtomicU64,
    /// Bytes of unsent replies.
    pub output_bytes: AtomicU64,
    /// Bytes of all its buffers.
    pub memory_bytes: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Commands run.
    pub commands: AtomicU64,
    /// CLIENT KILL has chosen it.
    pub is_killed: AtomicBool,
}

/// Where a connection stands.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The other side.
    pub address: String,
    /// Our side.
    pub local_address: String,
    /// The socket's number.
    pub fd: i32,
    /// The worker that serves it.
    pub worker: usize,
    /// Its place there.
    pub slot: usize,
}

impl ClientInfo {
    /// A client with this identity.
    pub fn new(id: u64, place: Place, now: Moment) -> ClientInfo {
        ClientInfo {
            id,
            address: place.address,
            local_address: place.local_address,
            fd: place.fd,
            worker: place.worker,
            slot: place.slot,
            created: now,
            active_ms: AtomicU64::new(now.0),
            names: Mutex::new(Names::default()),
            flags: AtomicU32::new(0),
            db: AtomicU8::new(0),
            resp: AtomicU8::new(2),
            command: AtomicU16::new(SpecIndex::MAX),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            queued: AtomicI64::new(-1),
            watched: AtomicU32::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            is_killed: AtomicBool::new(false),
        }
    }

    /// Whether it is subscribed to anything.
    pub fn is_subscriber(&self) -> bool {
        self.flags.load(Relaxed) & flag::PUBSUB != 0
    }

    /// Its name; empty when it has none.
    pub fn name(&self) -> String {
        self.names.lock().expect("no holder panics").name.clone()
    }

    /// Its line of CLIENT LIST, without an end.
    pub fn line(&self, now: Moment) -> String {
        let names = self.names.lock().expect("no holder panics").clone();
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
            " sub={} psub={} ssub=0 multi={} watch={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0",
            self.channels.load(Relaxed),
            self.patterns.load(Relaxed),
            self.queued.load(Relaxed),
            self.watched.load(Relaxed),
            self.input_bytes.load(Relaxed),
        );
        let _ = write!(
            line,
            " rbs=0 rbp=0 obl={output} oll=0 omem={output} tot-mem={} events={} cmd={}",
            self.memory_bytes.load(Relaxed),
            if output > 0 { "rw" } else { "r" },
            command::table()
                .get(self.command.load(Relaxed) as usize)
                .map_or("NULL", |spec| spec.name),
        );
        let _ = write!(
            line,
            " user=default redir=-1 resp={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} tot-cmds={}",
            self.resp.load(Relaxed),
            names.lib_name,
            names.lib_ver,
            self.worker,
            self.received_bytes.load(Relaxed),
            self.sent_bytes.load(Relaxed),
            self.commands.load(Relaxed),
        );
        line
    }
}

/// The registry of connected clients.
#[derive(Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    last_id: AtomicU64,
    /// How many there are.
    count: AtomicU64,
}

impl Clients {
    /// Takes in a connection.
    pub fn add(&self, place: Place, now: Moment) -> Arc<ClientInfo> {
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        let info = Arc::new(ClientInfo::new(id, place, now));
        let mut all = self.all.lock().expect("no holder panics");
        all.insert(id, Arc::clone(&info));
        info
    }

    /// Counts a connection before it is served, if there is room for it.
    pub fn reserve(&self, max: u64) -> bool {
        self.count
            .fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1))
            .is_ok()
    }

    /// Gives back what `reserve` took.
    pub fn release(&self) {
        self.count.fetch_sub(1, Relaxed);
    }

    /// Forgets a client.
    pub fn remove(&self, id: u64) {
        self.all.lock().expect("no holder panics").remove(&id);
    }

    /// How many are connected.
    pub fn len(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, by id.
    pub fn list(&self) -> Vec<Arc<ClientInfo>> {
        let all = self.all.lock().expect("no holder panics");
        all.values().cloned().collect()
    }
}

/// An address as Redis writes it.
pub fn show_address(address: SocketAddr) -> String {
    address.to_string()
}
