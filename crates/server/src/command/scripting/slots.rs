//! Keys that the commands of a script may use on a node of a cluster.

use crate::cluster::route::{self, Found};
use crate::context::{Chosen, Ctx};
use crate::routing::{self, Refusal, Routes};
use std::sync::Arc;
use wire::Args;

/// The slots that a script may use.
pub struct SlotRule {
    routes: Arc<Routes>,
    /// Whether the keys may be in several slots.
    crosses_slots: bool,
    /// Slot of the declared keys and of the keys that were used.
    slot: Option<u16>,
}

impl SlotRule {
    /// Creates the rule of a script; `None` if any key may be used.
    pub fn new(ctx: &Ctx<'_, '_>, crosses_slots: bool, declared: Args<'_>) -> Option<SlotRule> {
        if !ctx.server.cluster.is_routed() || ctx.session.is_of_feed() {
            return None;
        }
        Some(SlotRule {
            // A hold that has begun since then waits for the script and the transaction around it.
            routes: ctx.server.cluster.routes_of(ctx.session.info.worker),
            crosses_slots,
            slot: declared.get(0).map(wire::slot::slot),
        })
    }

    /// Returns the reason why a script may not call a command because of its keys.
    pub fn refusal(
        &mut self,
        ctx: &Ctx<'_, '_>,
        chosen: &Chosen,
        args: Args<'_>,
    ) -> Option<&'static str> {
        let mut found = Found::default();
        if found.add_call(chosen, args).is_err() {
            return Some(CROSS_SLOT);
        }
        if self.routes.has_holds() && route::changes_all(ctx.table, chosen, None) {
            return Some(HELD);
        }
        let slot = found.slot()?;
        let how = route::how(ctx.table, chosen, None, &ctx.session.info);
        let now = routing::now(&ctx.server.clock);
        let is_fresh = || route::is_fresh(ctx.server);
        let standing = route::standing(ctx.server, now, how, is_fresh);
        match self.routes.check(slot, how, standing) {
            Ok(()) => {}
            Err(Refusal::Held(..)) => return Some(HELD),
            Err(Refusal::Down) => return Some(DOWN),
            Err(_) => return Some(NOT_LOCAL),
        }
        let before = self.slot.replace(slot);
        let is_other = before.is_some_and(|before| before != slot);
        (is_other && !self.crosses_slots).then_some(CROSS_SLOT)
    }
}

const CROSS_SLOT: &str = "ERR Script attempted to access keys that do not hash to the same slot";
const NOT_LOCAL: &str = "ERR Script attempted to access a non local key in a cluster node";
const HELD: &str = "TRYAGAIN Script attempted to access a slot that is about to move";
const DOWN: &str = "ERR Script attempted to execute a command while the cluster is down";
