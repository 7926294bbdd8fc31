//! One connected client, apart from its socket and buffers.

use crate::clients::{ClientInfo, Place, flag};
use crate::clock::Moment;
use crate::config::ClientClass;
use crate::message::Subscriber;
use crate::pubsub::{PubSub, Space, Subscriptions};
use crate::queue::Transaction;
use crate::waiting::{Stance, Waiter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wire::Protocol;

/// Which replies the client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not that of the next command.
    SkipNext,
    /// Not this one.
    Skip,
}

/// What the server knows of one client.
#[derive(Debug)]
pub struct Session {
    /// The selected database.
    pub db: u8,
    /// The dialect.
    pub protocol: Protocol,
    /// The connection ends once what is written so far is sent.
    pub is_closing: bool,
    /// Has given the password, or came when there was none.
    pub is_authenticated: bool,
    /// What a command does that finds nothing.
    pub stance: Stance,
    /// Which replies are sent.
    pub reply_mode: ReplyMode,
    /// Queued commands, within MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// Watched keys, with their databases.
    pub watched: Vec<(u8, Vec<u8>)>,
    /// Set by the store when a watched key changes.
    pub is_dirty: Arc<AtomicBool>,
    /// Channels and patterns.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// What others may see of it.
    pub info: Arc<ClientInfo>,
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// A client without a connection, which may do everything.
    pub fn new() -> Session {
        let mut session = Session::of(Arc::new(ClientInfo::new(
            0,
            Place {
                worker: usize::MAX,
                ..Place::default()
            },
            Moment::default(),
        )));
        session.is_authenticated = true;
        session.stance = Stance::Answers;
        session
    }

    /// A client that has just connected.
    pub fn of(info: Arc<ClientInfo>) -> Session {
        Session {
            db: 0,
            protocol: Protocol::Resp2,
            is_closing: false,
            is_authenticated: false,
            stance: Stance::MayWait,
            reply_mode: ReplyMode::On,
            transaction: None,
            watched: Vec::new(),
            is_dirty: Arc::new(AtomicBool::new(false)),
            subscriptions: None,
            info,
        }
    }

    /// Whether it may do everything, or has to authenticate first.
    pub fn may_pass(&self, needs_password: bool) -> bool {
        self.is_authenticated || !needs_password
    }

    /// Names subscribed to in one space.
    pub fn subscription_count(&self, space: Space) -> usize {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.map_or(0, |subscriptions| subscriptions.count(space))
    }

    /// Whether it listens to anything.
    pub fn is_subscriber(&self) -> bool {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// How messages find it.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber {
            worker: self.info.worker,
            slot: self.info.slot,
            client: self.info.id,
        }
    }

    /// Whose output limits apply.
    pub fn class(&self) -> ClientClass {
        if self.is_subscriber() {
            ClientClass::PubSub
        } else {
            ClientClass::Normal
        }
    }

    /// Stops listening to everything.
    pub fn unsubscribe_all(&mut self, pubsub: &PubSub) {
        let Some(subscriptions) = self.subscriptions.take() else {
            return;
        };
        for space in [Space::Channel, Space::Pattern, Space::Shard] {
            for name in subscriptions.names(space) {
                pubsub.unsubscribe(space, name, self.subscriber());
            }
        }
        self.info.channels.store(0, Relaxed);
        self.info.patterns.store(0, Relaxed);
        self.set_flag(flag::PUBSUB, false);
    }

    /// Sets or clears bits of `clients::flag`.
    pub fn set_flag(&self, bits: u32, is_on: bool) {
        if is_on {
            self.info.flags.fetch_or(bits, Relaxed);
        } else {
            self.info.flags.fetch_and(!bits, Relaxed);
        }
    }

    /// Forgets the queued commands.
    pub fn end_transaction(&mut self) {
        self.transaction = None;
        self.info.queued.store(-1, Relaxed);
        self.set_flag(flag::MULTI | flag::DIRTY, false);
    }

    /// Marks an open transaction as one that EXEC will refuse.
    pub fn break_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_broken = true;
        }
    }

    /// The command that waits, if one does.
    pub fn waiter(&self) -> Option<&Arc<Waiter>> {
        match &self.stance {
            Stance::Waits(waiter) => Some(waiter),
            _ => None,
        }
    }

    /// Whether one does.
    pub fn waits(&self) -> bool {
        self.waiter().is_some()
    }

    /// It waits no longer.
    pub fn end_wait(&mut self) {
        self.stance = Stance::MayWait;
        self.set_flag(flag::BLOCKED, false);
    }
}
