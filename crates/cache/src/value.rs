//! Values of entries, and the trait for values that are stored on the heap outside their block.

use policy::Tick;

/// A value on the heap, because it is too large for a block.
pub trait Outside {
    /// Returns the number of bytes that the value occupies on the heap.
    fn heap_bytes(&self) -> usize;
    /// Returns the entry's own deadline if the value stores it. The outer `None` means that the
    /// value does not store it; the inner `None` means that the value records that the entry has
    /// none.
    ///
    /// Only a value whose parts have deadlines stores the entry's own deadline, because the expiry
    /// index then holds the entry under the earliest deadline of all. For all other values, the
    /// indexed deadline is the entry's own.
    fn embedded_deadline(_value: &Value<'_, Self>) -> Option<Option<Tick>>
    where
        Self: Sized,
    {
        None
    }
    /// Frees about `steps` parts of a value that is no longer used. Returns whether any parts are
    /// left.
    fn dismantle(&mut self, _steps: u32) -> bool {
        false
    }
}

/// Value of an entry.
#[derive(Debug)]
pub enum Value<'a, O> {
    /// Bytes in the block, with the caller's tag (1–14).
    Inline(u8, &'a [u8]),
    /// An object on the heap.
    Outside(&'a O),
}

/// Value to be stored in an entry.
#[derive(Debug)]
pub enum NewValue<'a, O> {
    /// Keeps the entry's current value.
    Same,
    /// Bytes, at most [`crate::INLINE_VALUE_MAX`], with the caller's tag (1–14).
    Inline(u8, &'a [u8]),
    /// An object on the heap.
    Outside(O),
}

impl<O: Outside> NewValue<'_, O> {
    /// Returns the size of the new value in bytes; 0 for [`NewValue::Same`].
    pub fn len(&self) -> usize {
        match self {
            NewValue::Same => 0,
            NewValue::Inline(_, bytes) => bytes.len(),
            NewValue::Outside(object) => object.heap_bytes(),
        }
    }

    /// Returns whether the new value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry's own deadline as stored in the new value; see
    /// [`Outside::embedded_deadline`]. Returns `None` for [`NewValue::Same`].
    #[inline]
    pub fn embedded_deadline(&self) -> Option<Option<Tick>> {
        match self {
            NewValue::Same => None,
            NewValue::Inline(tag, bytes) => O::embedded_deadline(&Value::Inline(*tag, bytes)),
            NewValue::Outside(object) => O::embedded_deadline(&Value::Outside(object)),
        }
    }
}

/// Counts of values that embed the entry's own deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EmbeddedCounts {
    /// Number of values that store a deadline or the absence of one.
    pub all: usize,
    /// Number of these values whose entry has no deadline.
    pub without: usize,
}

impl EmbeddedCounts {
    /// Updates the counts when a value that embeds `old` is replaced by one that embeds `new`.
    #[inline]
    pub fn count(&mut self, new: Option<Option<Tick>>, old: Option<Option<Tick>>) {
        self.all += usize::from(new.is_some());
        self.all -= usize::from(old.is_some());
        self.without += usize::from(new == Some(None));
        self.without -= usize::from(old == Some(None));
    }
}
