//! What an entry holds, and what the storage asks of it.

use policy::Tick;

/// A value too large for a block, on the heap.
pub trait Outside {
    /// Its bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// The deadline of the whole that a value keeps itself. It does so when parts of it have deadlines,
    /// for then its entry is filed under the earliest of all. `None`: no part has one, and what the
    /// entry is filed under is the deadline of the whole.
    fn embedded_deadline(_value: &Value<'_, Self>) -> Option<Option<Tick>>
    where
        Self: Sized,
    {
        None
    }
    /// Drops about so many parts of one that nobody will ask for again; true while there are more.
    fn dismantle(&mut self, _steps: u32) -> bool {
        false
    }
}

/// What an entry holds.
#[derive(Debug)]
pub enum Value<'a, O> {
    /// Bytes in the block, with the caller's tag (1–14).
    Inline(u8, &'a [u8]),
    /// An object on the heap.
    Outside(&'a O),
}

/// What an entry shall hold.
#[derive(Debug)]
pub enum NewValue<'a, O> {
    /// What it holds already.
    Same,
    /// Bytes, at most [`crate::INLINE_VALUE_MAX`], with the caller's tag (1–14).
    Inline(u8, &'a [u8]),
    /// An object on the heap.
    Outside(O),
}

impl<O: Outside> NewValue<'_, O> {
    /// Its bytes.
    pub fn len(&self) -> usize {
        match self {
            NewValue::Same => 0,
            NewValue::Inline(_, bytes) => bytes.len(),
            NewValue::Outside(object) => object.heap_bytes(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The deadline of the whole that it keeps, as [`Outside::embedded_deadline`] has it; `None`, too, for
    /// what is held already.
    #[inline]
    pub fn embedded_deadline(&self) -> Option<Option<Tick>> {
        match self {
            NewValue::Same => None,
            NewValue::Inline(tag, bytes) => O::embedded_deadline(&Value::Inline(*tag, bytes)),
            NewValue::Outside(object) => O::embedded_deadline(&Value::Outside(object)),
        }
    }
}

/// How many values keep the deadline of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EmbeddedCounts {
    /// All of them.
    pub all: usize,
    /// Those of them that have none to keep.
    pub without: usize,
}

impl EmbeddedCounts {
    /// One that keeps this came in the place of one that kept that.
    #[inline]
    pub fn count(&mut self, new: Option<Option<Tick>>, old: Option<Option<Tick>>) {
        self.all += usize::from(new.is_some());
        self.all -= usize::from(old.is_some());
        self.without += usize::from(new == Some(None));
        self.without -= usize::from(old == Some(None));
    }
}
