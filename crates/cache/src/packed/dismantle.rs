//! Freeing of storage that is no longer needed, in steps.

use super::PackedEntries;
use crate::value::Outside;
use policy::Meta;

/// Number of bytes of an outside object that count as one step of [`PackedEntries::dismantle`].
const BYTES_PER_STEP: usize = 32 << 10;
/// Number of pages freed in one step of [`PackedEntries::dismantle`].
const PAGES_AT_ONCE: usize = 4;

impl<O: Outside, M: Meta, L: Meta> PackedEntries<O, M, L> {
    /// Removes up to `steps` outside objects, or fewer if they are large, passes each to `each`,
    /// and frees a few pages of blocks. Returns whether anything is left. Use it for storage that
    /// is no longer needed, because freeing everything at once may take long.
    pub fn dismantle(&mut self, steps: u32, mut each: impl FnMut(O)) -> bool {
        let mut left = steps;
        while left > 0 {
            let Some(last) = self.blocks.outside.last_mut() else {
                return self.blocks.arena.dismantle(PAGES_AT_ONCE);
            };
            if last
                .as_mut()
                .is_some_and(|held| held.object.dismantle(steps))
            {
                return true;
            }
            left -= 1;
            if let Some(Some(held)) = self.blocks.outside.pop() {
                let more = held.object.heap_bytes() / BYTES_PER_STEP;
                left = left.saturating_sub(u32::try_from(more).unwrap_or(u32::MAX));
                each(held.object);
            }
        }
        true
    }
}
