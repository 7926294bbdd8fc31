//! The lease of this node, its registration, and the shard that it belongs to.

use super::{Host, Message, access};
use ::cluster::{Instant, Name};
use membership::directory::Known;
use membership::kv::{Failure, Guard, Kv, Write};
use membership::records::{NODES, PLACE, Registration};
use std::sync::Arc;
use std::time::Duration;

/// Shortest duration of a node's lease; it has whole seconds.
const LEASE_SECONDS_MIN: u64 = 5;
/// Number of lease times of a primary in a node's lease.
const LEASES: u64 = 3;
/// Pause in milliseconds after a registration, in which its record should arrive.
const SETTLE_MS: u64 = 500;

/// State of the registration.
#[derive(Debug, Default)]
pub(super) struct Registering {
    lease: Option<i64>,
    /// Whether a request is under way.
    is_busy: bool,
    /// Instant at which the lease is renewed.
    renews_at: Instant,
    /// Instant until which the record of the last registration is awaited.
    waits_until: Instant,
    /// Last reason why this node cannot register, which is logged once.
    conflict: String,
}

/// What a registration writes.
struct Request {
    lease: Option<i64>,
    ttl: Duration,
    guards: Vec<Guard>,
    key: String,
    value: String,
    /// Whether only the lease is renewed if it still exists.
    is_renewal: bool,
    /// Writes that place the node.
    placement: Vec<Write>,
}

impl<K: Kv> Host<K> {
    fn ttl(&self) -> Duration {
        let lease_ms = self.directory.config().map_or(0, |config| config.lease_ms);
        let seconds = (lease_ms * LEASES).div_ceil(1000);
        Duration::from_secs(seconds.max(LEASE_SECONDS_MIN))
    }

    /// Registers this node, or renews its lease, if that is due.
    pub(super) fn register(&mut self, now: Instant) {
        let Some(config) = self.directory.config() else {
            return;
        };
        let is_waiting = now < self.registering.waits_until;
        if !self.is_connected || self.registering.is_busy || is_waiting {
            return;
        }
        let cluster = config.cluster;
        let (shard, is_placed) = self.wanted_shard();
        let registration = Registration {
            node: access::node(&self.server, self.me),
            shard,
            run: self.server.lifecycle.run_id.clone(),
        };
        let known = self
            .directory
            .nodes()
            .get(&self.me)
            .filter(|known| known.revision != 0);
        if let Some(conflict) = known.and_then(|known| conflict(known, &registration)) {
            if self.registering.conflict != conflict {
                log::error!("cluster: {conflict}");
                self.registering.conflict = conflict;
            }
            return;
        }
        let is_renewal = known.is_some_and(|known| is_same(&known.registration, &registration));
        if is_renewal && now < self.registering.renews_at {
            return;
        }
        let key = format!("{NODES}{}", self.me);
        let revision = known.map_or(0, |known| known.revision);
        let mut guards = vec![Guard::Revision(key.clone(), revision)];
        let mut placement = Vec::new();
        if is_placed {
            guards.push(Guard::Revision(PLACE.into(), self.directory.placed()));
            placement.push(Write::Put(PLACE.into(), self.me.to_string(), None));
        }
        let request = Request {
            lease: self.registering.lease,
            ttl: self.ttl(),
            guards,
            key,
            value: registration.encode(cluster),
            is_renewal,
            placement,
        };
        self.registering.is_busy = true;
        let kv = Arc::clone(&self.kv);
        self.spawn(
            async move { submit(&*kv, request).await },
            Message::Registered,
        );
    }

    /// Returns the shard of this node, and whether the rule has just chosen it.
    fn wanted_shard(&self) -> (Option<Name>, bool) {
        let is_known = |shard: &Name| self.directory.shards().contains_key(shard);
        let kept = self
            .directory
            .shard_of(self.me)
            .or(self.roles.shard)
            .filter(is_known);
        match kept {
            Some(shard) => (Some(shard), false),
            None => {
                let found = self
                    .directory
                    .place(&self.server.config.text(settings::Id::ClusterZone));
                (found, found.is_some())
            }
        }
    }

    pub(super) fn registered(&mut self, result: Result<(i64, bool), Failure>) {
        let now = self.now();
        let ttl_ms = self.ttl().as_millis() as u64;
        let registering = &mut self.registering;
        registering.is_busy = false;
        registering.waits_until = now.after(SETTLE_MS);
        match result {
            Ok((lease, has_applied)) => {
                (registering.lease, registering.renews_at) = (Some(lease), now.after(ttl_ms / 3));
                registering.conflict.clear();
                if !has_applied {
                    self.again.notify_one();
                }
            }
            Err(failure) => {
                self.lost(failure);
                self.again.notify_one();
            }
        }
    }

    /// Returns the shard for which this process is registered.
    pub(super) fn registered_shard(&self) -> Option<Name> {
        let known = self.directory.nodes().get(&self.me)?;
        let is_own = known.registration.run == self.server.lifecycle.run_id;
        known.registration.shard.filter(|_| is_own)
    }
}

/// Renews or creates the lease, and writes the registration unless only the lease is renewed.
/// Returns the lease, and whether all was written.
async fn submit<K: Kv>(kv: &K, request: Request) -> Result<(i64, bool), Failure> {
    let mut is_renewal = request.is_renewal;
    let lease = match request.lease {
        Some(lease) if kv.keep_alive(lease).await? => lease,
        _ => {
            is_renewal = false;
            kv.grant(request.ttl).await?
        }
    };
    if is_renewal {
        return Ok((lease, true));
    }
    let mut writes = vec![Write::Put(request.key, request.value, Some(lease))];
    writes.extend(request.placement);
    let applied = kv.commit(request.guards, writes).await?;
    Ok((lease, applied.is_some()))
}

/// Whether two registrations differ in the position only.
fn is_same(known: &Registration, own: &Registration) -> bool {
    let mut known = known.clone();
    known.node.offset = own.node.offset;
    known == *own
}

/// Returns why this node cannot register while another has its name. A registration with the same
/// address comes from an earlier run and is replaced.
fn conflict(known: &Known, own: &Registration) -> Option<String> {
    let other = &known.registration;
    let is_other = other.run != own.run && other.node.inside != own.node.inside;
    is_other.then(|| {
        format!(
            "node {} is registered at {}: this node waits until that registration ends; \
             two nodes must not share a name, which is in cluster-config-file",
            own.node.id, other.node.inside
        )
    })
}
