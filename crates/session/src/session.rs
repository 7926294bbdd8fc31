//! State of one connected client, without its socket and buffers.

use crate::acl::{Acl, DEFAULT, Outlook, READ, ShortPrefix, User, WRITE, unrestricted};
use crate::clients::{ClientInfo, Endpoint, flag};
use crate::clock::Moment;
use crate::feed::Batch;
use crate::fieldsets::Fieldsets;
use crate::message::Subscriber;
use crate::pubsub::{PubSub, Space, Subscriptions};
use crate::queue::Transaction;
use crate::spec::SpecIndex;
use crate::tracking::TrackingOptions;
use crate::waiting::{BlockingState, Waiter};
use settings::ClientClass;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Tick;
use wire::{Args, Protocol};

/// Contents and format of a snapshot for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotForm {
    /// Whether hashes with field deadlines are written in Valkey's format.
    pub is_valkey: bool,
    /// Whether the snapshot has the keys.
    pub has_keys: bool,
    /// Whether the snapshot has the function libraries.
    pub has_libraries: bool,
}

impl Default for SnapshotForm {
    fn default() -> Self {
        SnapshotForm {
            is_valkey: false,
            has_keys: true,
            has_libraries: true,
        }
    }
}

/// Facts announced with REPLCONF on a connection.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    /// Address of the replica, if it differs from the connection's.
    pub address: Option<String>,
    /// Port on which the replica listens.
    pub port: u16,
    /// Identifier of the replica as a node of a cluster.
    pub node_id: Option<String>,
    /// Random number of the connection to a primary of a cluster; 0 if it has sent none.
    pub link: u64,
    /// Whether it is the link of another node of the cluster, rather than a replica.
    pub is_peer: bool,
    /// Whether the replica sent SYNC, so that no line precedes the snapshot.
    pub is_old: bool,
    /// Snapshot that the replica requests.
    pub form: SnapshotForm,
    /// Whether the replica requests only the snapshot.
    pub is_snapshot_only: bool,
}

/// Bytes of a watched key in addition to its name: an element of the session's set, and one of the
/// store's map with the flag.
const WATCH_BYTES: usize = 160;

/// Replies that the client receives (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// All replies.
    #[default]
    On,
    /// No replies.
    Off,
    /// The reply to the next command is skipped.
    SkipNext,
    /// The reply to the current command is skipped.
    Skip,
}

/// State for the commands of a primary or of an append-only file.
#[derive(Debug, Default)]
pub struct FeedState {
    /// Whether the current command has run a script, rather than being refused first.
    pub has_run_script: bool,
    /// The first command that could not be executed, and the reason.
    failure: Option<String>,
}

impl FeedState {
    /// Records that a command cannot be executed, unless one before could not.
    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// Removes and returns the recorded failure.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }
}

/// State of one client.
#[derive(Debug)]
pub struct Session {
    /// Number of the selected database.
    pub db: u8,
    /// Protocol version.
    pub protocol: Protocol,
    /// Whether the connection closes after the pending output is sent.
    pub is_closing: bool,
    /// Whether the client has authenticated, or connected when there was no password.
    pub is_authenticated: bool,
    /// User whose rights the client has.
    pub user: Arc<User>,
    /// Prefix of keys for which the user's own rules give all rights: the prefix of the last key
    /// that was compared with the patterns.
    prefix: ShortPrefix,
    /// Number of changes to the users when `user` was looked up.
    user_version: u64,
    /// Number of changes to the users when the client was found to have all rights; 0 if it was
    /// not.
    free_version: u64,
    /// Blocking state: the behaviour of a blocking command that finds nothing.
    pub blocking_state: BlockingState,
    /// Place among the clients that wait for a long command, if it waits.
    pub ticket: Option<u64>,
    /// Replies that are sent.
    pub reply_mode: ReplyMode,
    /// Time until which an attempt to authenticate waits, after failures from the same address.
    pub login_at: Option<Moment>,
    /// Whether the next attempt to authenticate is checked without a further wait.
    pub is_login_admitted: bool,
    /// Queued commands within MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// Whether EXEC is running the commands of a transaction, which has left `transaction`.
    pub runs_transaction: bool,
    /// Whether a script runs.
    pub runs_script: bool,
    /// Time of the script or transaction that runs, in microseconds since 1970. All its commands
    /// run at this instant.
    pub instant_us: Option<u64>,
    /// Watched keys with their databases.
    pub watched: BTreeSet<(u8, Vec<u8>)>,
    /// Number of times that this node of a cluster had lost slots at the first WATCH.
    pub watched_losses: u64,
    /// Earliest deadline of a watched key at the time of its WATCH.
    pub watched_due: Option<Tick>,
    /// Bytes that the watched keys take on the heap, here and in the store.
    pub watched_bytes: usize,
    /// Flag that the store sets when a watched key changes.
    pub is_dirty: Arc<AtomicBool>,
    /// Subscribed channels and patterns.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Options of CLIENT TRACKING while it is on.
    pub tracking: Option<Box<TrackingOptions>>,
    /// Whether the error reply of the current command came from a command it ran, in which case it
    /// was counted already.
    pub is_error_counted: bool,
    /// Whether the current command has found, after its shards were released and locked again, that
    /// writes are held. It has done nothing then, and runs again later.
    pub is_held_late: bool,
    /// Index of the argument at which the current command has stopped because its reply is long
    /// enough for one step; `None` if it is complete.
    pub stopped_at: Option<usize>,
    /// Whether monitoring clients were shown the current command before it was held, so that they
    /// are not when it runs again.
    pub is_shown: bool,
    /// Effects of the commands run by the current transaction or script.
    pub effects: Option<Box<Batch>>,
    /// Facts announced with REPLCONF, if the client is or may become a replica.
    pub announced: Option<Box<Announced>>,
    /// Whether the client is a replica.
    pub is_replica: bool,
    /// State for commands of a primary or of an append-only file, if it executes these. They were
    /// executed before and are not refused.
    pub feed: Option<Box<FeedState>>,
    /// Fieldsets prepared for HIMPORT, if any.
    pub fieldsets: Option<Box<Fieldsets>>,
    /// Record of the client that other workers can read.
    pub info: Arc<ClientInfo>,
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// Creates the state for a feed's commands, which count towards a worker's commands. They are
    /// not counted if no worker has this index.
    pub fn of_feed(worker: usize) -> Session {
        Session {
            feed: Some(Box::default()),
            ..Session::within(worker)
        }
    }

    /// Whether the session executes commands of a primary or of an append-only file.
    #[inline]
    pub fn is_of_feed(&self) -> bool {
        self.feed.is_some()
    }

    /// Records the reply to a command of a feed. An error is not reported if the command had the
    /// same effect where it was first executed: a script that fails has had its effects before
    /// that, here as there.
    pub fn note_feed_reply(&mut self, name: &str, reply: &[u8]) {
        let Some(feed) = &mut self.feed else { return };
        let has_run_script = std::mem::take(&mut feed.has_run_script);
        if let Some(error) = reply.strip_prefix(b"-")
            && !has_run_script
        {
            let error = String::from_utf8_lossy(error);
            feed.fail(format!("'{name}' was refused: {}", error.trim_end()));
        }
    }

    /// Creates a session without a connection, with all permissions.
    pub fn new() -> Session {
        Session::within(usize::MAX)
    }

    fn within(worker: usize) -> Session {
        let mut session = Session::of(Arc::new(ClientInfo::new(
            0,
            Endpoint {
                worker,
                ..Endpoint::default()
            },
            Moment::default(),
        )));
        session.is_authenticated = true;
        session.blocking_state = BlockingState::MustReply;
        session
    }

    /// Creates the session of a new connection.
    pub fn of(info: Arc<ClientInfo>) -> Session {
        Session {
            db: 0,
            protocol: Protocol::Resp2,
            is_closing: false,
            is_authenticated: false,
            user: unrestricted(),
            user_version: 0,
            free_version: 0,
            prefix: ShortPrefix::NONE,
            blocking_state: BlockingState::MayBlock,
            ticket: None,
            reply_mode: ReplyMode::On,
            login_at: None,
            is_login_admitted: false,
            transaction: None,
            runs_transaction: false,
            runs_script: false,
            instant_us: None,
            watched: BTreeSet::new(),
            watched_losses: 0,
            watched_due: None,
            watched_bytes: 0,
            is_dirty: Arc::new(AtomicBool::new(false)),
            subscriptions: None,
            tracking: None,
            is_error_counted: false,
            is_held_late: false,
            stopped_at: None,
            is_shown: false,
            effects: None,
            announced: None,
            is_replica: false,
            feed: None,
            fieldsets: None,
            info,
        }
    }

    /// Whether the client is known to have all rights. If not, [`Session::refresh`] determines it.
    #[inline]
    pub fn has_all_rights(&self, acl: &Acl) -> bool {
        self.free_version == acl.version()
    }

    /// Whether the client has authenticated and `user` is up to date.
    #[inline]
    pub fn has_current_user(&self, acl: &Acl) -> bool {
        self.is_authenticated && self.user_version == acl.version()
    }

    /// Whether the rules of the user, which must be up to date, allow a command for a reason that
    /// can be found quickly. The command must not be a container. If the result is false, the
    /// command may still be allowed.
    #[inline(always)]
    pub fn is_allowed_at_once(&mut self, index: SpecIndex, args: &Args<'_>) -> bool {
        match self.user.root().outlook(index) {
            Outlook::Open => false,
            Outlook::Free => true,
            Outlook::OnKey => {
                let first = args.first_eight(1);
                first.is_some_and(|first| self.prefix.begins(first)) || self.may_use_key(args)
            }
        }
    }

    /// Whether the user's own rules give all rights for the key that is the first argument.
    #[inline(never)]
    fn may_use_key(&mut self, args: &Args<'_>) -> bool {
        let rules = self.user.root();
        let first = args.first_eight(1);
        if let Some(prefix) = first.and_then(|first| rules.short_prefix_of(first)) {
            self.prefix = prefix;
            return true;
        }
        let key = args.get(1);
        key.is_some_and(|key| rules.allows_key(key, READ | WRITE))
    }

    /// Looks up the user again if the users have changed. A user that was removed has no rights.
    /// The commands of a feed have all rights, because their users' rights were checked before.
    pub fn refresh(&mut self, acl: &Acl) {
        if self.is_of_feed() {
            self.free_version = acl.version();
            return;
        }
        if self.user_version != acl.version() {
            let (found, version) = acl.find(self.user.name());
            self.user = found.unwrap_or_else(|| Arc::new(User::new(self.user.name(), false)));
            self.user_version = version;
            self.free_version = 0;
            self.prefix = ShortPrefix::NONE;
        }
        if self.may_pass(acl.needs_password()) && self.user.is_unrestricted() {
            self.free_version = self.user_version;
        }
    }

    /// Gives the client the rights of a user.
    pub fn log_in(&mut self, user: Arc<User>) {
        self.info.set_user(user.name());
        self.user = user;
        self.is_authenticated = true;
        (self.user_version, self.free_version) = (0, 0);
        self.prefix = ShortPrefix::NONE;
    }

    /// Gives the client the rights of the default user. If that user has a password, the client
    /// must authenticate.
    pub fn log_out(&mut self, acl: &Acl) {
        if let (Some(user), _) = acl.find(DEFAULT) {
            self.log_in(user);
        }
        self.is_authenticated = !acl.needs_password();
    }

    /// Whether the client may run all commands of its user. Otherwise it may run only those that
    /// are allowed before authentication.
    pub fn may_pass(&self, needs_password: bool) -> bool {
        self.is_authenticated || !needs_password
    }

    /// Returns the number of subscriptions in one namespace.
    pub fn subscription_count(&self, space: Space) -> usize {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.map_or(0, |subscriptions| subscriptions.count(space))
    }

    /// Returns the number of subscriptions in one namespace alone.
    pub fn subscription_len(&self, space: Space) -> usize {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.map_or(0, |all| all.names(space).len())
    }

    /// Whether the client has any subscription.
    pub fn is_subscriber(&self) -> bool {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// Returns the client's address for messages.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber::of(&self.info)
    }

    /// Returns the class whose output limits apply.
    pub fn class(&self) -> ClientClass {
        if self.is_subscriber() {
            ClientClass::PubSub
        } else {
            ClientClass::Normal
        }
    }

    /// Removes all subscriptions of a client that disconnects.
    pub fn forget_subscriptions(&mut self, pubsub: &PubSub) {
        if let Some(subscriptions) = self.subscriptions.take() {
            pubsub.forget(*subscriptions, self.subscriber());
            self.update_subscription_counts();
        }
    }

    /// Removes all subscriptions if they are few, and some of them otherwise. Returns whether none
    /// is left.
    pub fn unsubscribe_some(&mut self, pubsub: &PubSub) -> bool {
        let subscriber = self.subscriber();
        if let Some(subscriptions) = &mut self.subscriptions {
            pubsub.unsubscribe_some(subscriptions, subscriber);
            self.update_subscription_counts();
        }
        self.subscriptions.is_none()
    }

    /// Updates the subscription counts that other workers read, and frees the subscriptions if none
    /// is left.
    pub fn update_subscription_counts(&mut self) {
        let count = |space| self.subscription_len(space) as u32;
        self.info.channels.store(count(Space::Channel), Relaxed);
        self.info.patterns.store(count(Space::Pattern), Relaxed);
        self.info.shard_channels.store(count(Space::Shard), Relaxed);
        let is_subscriber = self.is_subscriber();
        self.set_flag(flag::PUBSUB, is_subscriber);
        if !is_subscriber {
            self.subscriptions = None;
        }
    }

    /// Adds a watched key. Returns false if it was watched already.
    pub fn watch(&mut self, db: u8, key: &[u8]) -> bool {
        let is_new = self.watched.insert((db, key.to_vec()));
        if is_new {
            self.watched_bytes += 2 * key.len() + WATCH_BYTES;
        }
        is_new
    }

    /// Removes all watched keys and returns them.
    pub fn take_watched(&mut self) -> BTreeSet<(u8, Vec<u8>)> {
        self.watched_bytes = 0;
        self.watched_due = None;
        std::mem::take(&mut self.watched)
    }

    /// Returns the bytes that the session holds on the heap: queued commands, a blocked command,
    /// subscriptions, watched keys, prefixes of tracked keys and fieldsets.
    pub fn heap_bytes(&self) -> usize {
        let transaction = self.transaction.as_deref();
        let subscriptions = self.subscriptions.as_deref();
        let tracking = self.tracking.as_deref();
        let fieldsets = self.fieldsets.as_deref();
        transaction.map_or(0, Transaction::heap_bytes)
            + self.waiter().map_or(0, |waiter| waiter.heap_bytes())
            + subscriptions.map_or(0, Subscriptions::heap_bytes)
            + tracking.map_or(0, TrackingOptions::heap_bytes)
            + fieldsets.map_or(0, Fieldsets::heap_bytes)
            + self.watched_bytes
            + self.info.name_bytes()
    }

    /// Sets or clears bits of `clients::flag`.
    pub fn set_flag(&self, bits: u32, is_on: bool) {
        if is_on {
            self.info.flags.fetch_or(bits, Relaxed);
        } else {
            self.info.flags.fetch_and(!bits, Relaxed);
        }
    }

    /// Whether all of these bits of `clients::flag` are set.
    pub fn has_flag(&self, bits: u32) -> bool {
        self.info.flags.load(Relaxed) & bits == bits
    }

    /// Discards the queued commands and ends the transaction.
    pub fn end_transaction(&mut self) {
        self.transaction = None;
        self.info.queued.store(-1, Relaxed);
        self.set_flag(flag::MULTI | flag::DIRTY, false);
    }

    /// Marks an open transaction so that EXEC refuses it.
    pub fn break_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_broken = true;
        }
    }

    /// Returns the blocked command, if any.
    pub fn waiter(&self) -> Option<&Arc<Waiter>> {
        match &self.blocking_state {
            BlockingState::Blocked(waiter) => Some(waiter),
            _ => None,
        }
    }

    /// Whether a command is blocked, or runs on the thread for long commands.
    pub fn is_blocked(&self) -> bool {
        matches!(
            self.blocking_state,
            BlockingState::Blocked(_) | BlockingState::RunsLong
        )
    }

    /// Unblocks the session and returns the command that was blocked.
    pub fn end_wait(&mut self) -> Option<Arc<Waiter>> {
        let before = std::mem::replace(&mut self.blocking_state, BlockingState::MayBlock);
        self.set_flag(flag::BLOCKED, false);
        match before {
            BlockingState::Blocked(waiter) => Some(waiter),
            _ => None,
        }
    }
}
