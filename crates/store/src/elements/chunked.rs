//! A growing array in chunks: no call copies more than one chunk, whereas a vector copies all items
//! when it doubles.

/// Items per chunk. Growing the last chunk copies at most 16 KiB of page handles.
const CHUNK: usize = 1024;
/// Minimum and maximum number of items by which the last chunk grows.
const GROWTH: (usize, usize) = (4, 64);

/// An array in chunks of equal size; only the last one may be shorter.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Returns the item at an index below [`Chunked::len`].
    #[inline]
    pub fn at(&self, index: usize) -> &T {
        debug_assert!(index < self.len());
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Returns the item at an index; `None` past the last one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// Returns the item at an index, for changes.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::new());
        }
        let last = self.chunks.last_mut().expect("there is one");
        if last.len() == last.capacity() {
            let growth = (last.len() / 4).clamp(GROWTH.0, GROWTH.1);
            last.reserve_exact(growth.min(CHUNK - last.len()));
        }
        last.push(item);
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.chunks.last_mut()?;
        let item = last.pop();
        if last.is_empty() {
            self.chunks.pop();
        }
        item
    }

    /// Returns the bytes of the array itself, without memory that its items own.
    pub fn heap_bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        (full + last) * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_index() {
        let mut items = Chunked::default();
        for i in 0..3000usize {
            assert_eq!(items.len(), i);
            items.push(i);
        }
        assert!((0..3000).all(|i| *items.at(i) == i));
        assert_eq!((items.get(2999), items.get(3000)), (Some(&2999), None));
        assert!(items.heap_bytes() < 3072 * 8 + 200);
        *items.at_mut(1024) = 7;
        assert_eq!(*items.at(1024), 7);
        for i in (0..3000usize).rev() {
            assert!(items.pop().is_some_and(|item| item == i || i == 1024));
        }
        assert_eq!((items.len(), items.pop()), (0, None));
    }
}
