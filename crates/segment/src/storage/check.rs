//! Consistency check of heap, directory, table and contents.

use super::content::Objects;
use super::plan::EvictionPlan;
use super::store::Storage;

impl<C: Objects, P: EvictionPlan> Storage<C, P> {
    /// Panics if the data structures are inconsistent. For tests and fuzzers, while no thread
    /// writes; slow.
    pub(crate) fn check(&self) {
        let heap = self.heap();
        let used_lines = self.table().line_count();
        let mut live = vec![(0, 0); heap.count() as usize + 1];
        let mut lines = 0;
        let mut items = 0;
        let chains = self.table().locked_chains(heap, self.directory());
        for (number, chain) in chains.enumerate() {
            let (line_count, object_count) = chain.extent();
            lines += line_count as u64;
            let mut found = 0;
            for slot in chain.slots() {
                let location = slot.word.location();
                let words = self.content().words_at(heap, location);
                assert!(location.offset + words <= heap.header(location.segment).used());
                let hash = self.hash_at(location);
                assert!(slot.word.has_tag_of(hash));
                assert_eq!(self.table().chain_of(hash), number as u64);
                let of_segment = &mut live[location.segment.0 as usize];
                of_segment.0 += 1;
                of_segment.1 += words;
                found += 1;
            }
            assert_eq!(found, object_count);
            let is_short = line_count == 1 || found > 6 * (line_count as u64 - 1);
            assert!(is_short, "a line too many");
            items += found;
        }
        assert_eq!(items, self.item_count());
        // The rest of the last piece consists of first lines for future chains.
        assert!(lines <= used_lines);
        let directory = self.directory().lock();
        directory.check(heap);
        for id in heap.ids() {
            let live = live[id.0 as usize];
            assert!(directory.lists.is_held(id) || live == (0, 0), "{id:?}");
            if directory.lists.is_held(id) {
                assert_eq!(heap.header(id).live(), live, "{id:?}");
            }
        }
    }
}
