//! Values that live outside the arena.

use cache::Outside;

/// The tag of an inline string.
pub(crate) const TAG_STRING: u8 = 1;

/// A value too large for a block.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// A string, with room to grow when it grows by APPEND or SETRANGE.
    String(Vec<u8>),
}

impl Outside for Object {
    fn heap_bytes(&self) -> usize {
        match self {
            Object::String(bytes) => bytes.capacity(),
        }
    }
}
