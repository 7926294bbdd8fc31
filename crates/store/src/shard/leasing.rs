//! Leases of a shard's keys: their end by a change of the key.

use super::Locked;
use policy::Tick;

impl Locked {
    /// Ends the lease of a key, which is given by its hash. Returns whether there was one.
    #[inline]
    pub fn revoke_lease(&mut self, db: u8, hash: u64) -> bool {
        let leases = self.leases.as_mut();
        let is_revoked = leases.is_some_and(|leases| leases.revoke((db, hash)));
        if is_revoked {
            self.drop_leases_if_none();
        }
        is_revoked
    }

    /// Removes leases that have ended, one in each step. Returns whether there are more.
    pub fn remove_ended_leases(&mut self, now: Tick, steps: u32) -> bool {
        let leases = self.leases.as_mut();
        let has_more = leases.is_some_and(|leases| leases.remove_ended(now, steps));
        self.drop_leases_if_none();
        has_more
    }

    /// Returns the number of leases, among them some that have ended.
    pub fn lease_count(&self) -> u64 {
        self.leases.as_ref().map_or(0, |leases| leases.len() as u64)
    }

    /// Frees the table of leases if it is empty.
    fn drop_leases_if_none(&mut self) {
        self.leases.take_if(|leases| leases.is_empty());
    }

    /// Ends the leases of a database that is flushed or swapped.
    pub fn revoke_leases(&mut self, db: u8) {
        if let Some(leases) = &mut self.leases {
            leases.revoke_all(db);
            self.drop_leases_if_none();
        }
    }
}
