//! Leases of a shard's keys: their end by a change of the key.

use super::Locked;

impl Locked {
    /// Ends the lease of a key.
    #[inline]
    pub fn revoke_lease(&mut self, db: u8, key: &[u8]) {
        if let Some(leases) = &mut self.leases {
            leases.revoke_bytes(db, key);
            self.drop_leases_if_none();
        }
    }

    /// Returns the number of leases, among them some that have ended.
    pub fn lease_count(&self) -> u64 {
        self.leases.as_ref().map_or(0, |leases| leases.len() as u64)
    }

    /// Frees the table of leases if it is empty.
    pub fn drop_leases_if_none(&mut self) {
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
