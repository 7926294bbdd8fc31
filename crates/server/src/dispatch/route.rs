//! The check whether this node of a cluster executes a command, before the command runs or is
//! queued.

use super::check::discard;
use super::{Executor, Step};
use crate::cluster::route::{self, Found};
use crate::command;
use crate::context::Chosen;
use crate::memcached::{self, Progress};
use crate::routing::{self, How, Refusal, Routes};
use crate::state::Server;
use ::cluster::Instant;
use session::session::Session;
use session::spec::{Keys, flag};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::memcached::Request;
use wire::slot::slot;
use wire::{Args, Output, Reply, Span};

/// What a worker knows of the cluster.
pub(super) struct Router {
    /// Whether a topology decides which commands this node executes.
    is_routed: bool,
    routes: Arc<Routes>,
    /// Instant of the worker on the clock of fences.
    now: Instant,
    /// Whether a replica's data was recent enough for reads at the first read since `now`.
    is_fresh: Option<bool>,
    /// Latest end of the fence under which a command of the current connection was executed; `None`
    /// if none was.
    served_until: Option<Instant>,
    /// Whether a command of the current connection was executed that uses keys without naming them.
    uses_keys: bool,
}

impl Router {
    pub fn new(server: &Server) -> Router {
        Router {
            is_routed: server.cluster.is_routed(),
            routes: server.cluster.routes(),
            now: routing::now(&server.clock),
            is_fresh: None,
            served_until: None,
            uses_keys: false,
        }
    }

    /// Sets the instant at which commands run.
    pub fn set_now(&mut self, server: &Server) {
        if self.is_routed {
            self.now = routing::now(&server.clock);
            self.is_fresh = None;
        }
    }

    /// Takes over the current routes.
    #[inline]
    fn refresh(&mut self, server: &Server) {
        if self.is_outdated(server) {
            self.routes = server.cluster.routes();
        }
    }

    /// Checks whether this node executes a command on a slot.
    #[inline]
    fn check(&mut self, server: &Server, slot: u16, how: How) -> Result<(), Refusal> {
        let fence = server.cluster.fence();
        let is_fresh = || *self.is_fresh.get_or_insert_with(|| route::is_fresh(server));
        let standing = route::standing(server, self.now, how, is_fresh);
        self.routes.check(slot, how, standing)?;
        if standing.is_fenced_in {
            self.served_until = self.served_until.max(Some(fence));
        }
        Ok(())
    }

    /// Checks whether this node executes a command. Returns `None` if it does; otherwise the client
    /// has the reply, or the command waits.
    #[inline]
    pub fn route(
        &mut self,
        server: &Server,
        session: &mut Session,
        chosen: &Chosen,
        args: &Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Option<Step> {
        match self.is_routed && !session.is_of_feed() {
            true => self.route_by_topology(server, session, chosen, args, reply),
            false => None,
        }
    }

    fn route_by_topology(
        &mut self,
        server: &Server,
        session: &mut Session,
        chosen: &Chosen,
        args: &Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Option<Step> {
        self.refresh(server);
        let is_plain = matches!(chosen.spec.keys, Keys::Range(1, 1, _));
        let refusal = match args.get(1).filter(|_| is_plain) {
            Some(key) => {
                let how = route::how(command::table(), chosen, None, &session.info);
                self.check(server, slot(key), how).err()?
            }
            None => self.check_slot(server, session, chosen, *args).err()?,
        };
        Some(self.refuse(server, session, chosen, refusal, reply))
    }

    /// Like [`Router::route`], for a command that was routed before its shards were locked: checks
    /// it again if the routes have changed since.
    #[inline]
    pub fn route_again(
        &mut self,
        server: &Server,
        session: &mut Session,
        chosen: &Chosen,
        args: &Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Option<Step> {
        match self.is_routed && self.is_outdated(server) {
            true => self.route(server, session, chosen, args, reply),
            false => None,
        }
    }

    fn check_slot(
        &mut self,
        server: &Server,
        session: &Session,
        chosen: &Chosen,
        args: Args<'_>,
    ) -> Result<(), Refusal> {
        let (table, mut found) = (command::table(), Found::default());
        let queued = session.transaction.as_deref();
        match (chosen.spec.keys, queued) {
            (Keys::Queued, Some(queued)) => found.add_queued(table, queued)?,
            _ => found.add_call(chosen, args)?,
        }
        if self.routes.has_holds() && route::changes_all(table, chosen, queued) {
            return Err(Refusal::HandOver);
        }
        let Some(slot) = found.slot() else {
            let uses = flag::WRITE | flag::MAY_WRITE | flag::READONLY;
            self.uses_keys |= chosen.flags() & uses != 0;
            return Ok(());
        };
        let how = route::how(table, chosen, queued, &session.info);
        self.check(server, slot, how)
    }

    /// Checks whether this node executes a write to a key.
    pub fn route_write(&mut self, server: &Server, key: &[u8]) -> Result<(), Refusal> {
        if !self.is_routed {
            return Ok(());
        }
        self.refresh(server);
        self.check(server, slot(key), How::Write)
    }

    /// Checks whether this node executes a request of memcached's protocol. Its keys may be in
    /// several slots of this node.
    pub fn route_items(
        &mut self,
        server: &Server,
        session: &Session,
        (request, keys, input): (&Request, &[Span], &[u8]),
        out: &mut Output,
    ) -> Option<Progress> {
        if !self.is_routed {
            return None;
        }
        if request.key_count == 0 {
            self.uses_keys = true;
            return None;
        }
        self.refresh(server);
        let names = memcached::meant_keys(request, keys, input);
        let mut checked = names
            .iter()
            .map(|name| self.check(server, slot(name), How::Write));
        let refusal = checked.find_map(Result::err)?;
        drop(checked);
        if route::may_wait(server, refusal) {
            return Some(Progress::Waits);
        }
        let text = route::text(server, &self.routes, &session.info, refusal);
        memcached::refuse_keys(request, &text, out).then_some(Progress::Done)
    }

    /// Like [`Router::route_items`], for a request that was routed before its shards were locked.
    pub fn route_items_again(
        &mut self,
        server: &Server,
        session: &Session,
        routed: (&Request, &[Span], &[u8]),
        out: &mut Output,
    ) -> Option<Progress> {
        match self.is_routed && self.is_outdated(server) {
            true => self.route_items(server, session, routed, out),
            false => None,
        }
    }

    /// Whether the routes have changed since the last check.
    #[inline]
    fn is_outdated(&self, server: &Server) -> bool {
        server.cluster.serial() != self.routes.serial
    }

    #[cold]
    fn refuse(
        &self,
        server: &Server,
        session: &mut Session,
        chosen: &Chosen,
        refusal: Refusal,
        reply: &mut Reply<'_>,
    ) -> Step {
        if route::may_wait(server, refusal) {
            return Step::Waits;
        }
        match chosen.spec.keys {
            Keys::Queued => discard(server, session),
            _ => session.break_transaction(),
        }
        reply.error(&route::text(server, &self.routes, &session.info, refusal));
        Step::Refused
    }
}

impl Executor<'_> {
    /// Begins a piece of work, while no command is under way. A change of the routes waits for
    /// its end.
    pub fn begin_work(&self) {
        self.used_routes.begin();
    }

    /// Ends the work, so that the thread may sleep.
    pub fn rest(&self) {
        self.used_routes.rest();
    }

    /// Begins to serve a connection.
    pub fn begin_connection(&mut self) {
        self.begin_work();
        self.router.served_until = None;
        self.router.uses_keys = false;
    }

    /// Whether this node has executed a command of the connection that was served as the primary.
    pub fn has_served(&self) -> bool {
        self.router.served_until.is_some()
    }

    /// Whether a command of the connection that was served may have changed or read keys of this
    /// primary.
    pub fn has_used_keys(&self) -> bool {
        self.router.served_until.is_some() || self.router.uses_keys
    }

    /// Whether the replies to the connection that was served must not be sent: a command was
    /// executed as a primary whose fence may have ended before that, so that another primary may
    /// have served in between.
    pub fn is_beyond_fence(&self) -> bool {
        let Some(until) = self.router.served_until else {
            return false;
        };
        self.is_late(until)
    }

    /// Whether the reply of a blocked or long command must not be sent, for the same reason.
    pub fn is_beyond_fence_late(&self, reply: &[u8]) -> bool {
        let is_served = self.server.cluster.is_routed() && !self.server.replication.is_replica();
        is_served && reply.first() != Some(&b'-') && self.is_late(Instant::default())
    }

    fn is_late(&self, until: Instant) -> bool {
        let cluster = &self.server.cluster;
        let is_late = routing::now(&self.server.clock) >= until.max(cluster.fence());
        cluster.counts.late.fetch_add(u64::from(is_late), Relaxed);
        is_late
    }
}
