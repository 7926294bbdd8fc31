//! A command's arguments, as places in the input buffer.

use std::ops::Range;

/// The bound on a whole command, as Redis's `client-query-buffer-limit`.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;

// Spans are 32 bits wide: no frame reaches what they cannot say.
const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize);

/// Where one argument lies in the input buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// How many bytes.
    pub len: u32,
}

impl Span {
    /// Both must be below [`FRAME_BYTES_MAX`], which the parser sees to.
    #[inline]
    pub(crate) fn new(start: usize, len: usize) -> Self {
        debug_assert!(start <= FRAME_BYTES_MAX);
        debug_assert!(len <= FRAME_BYTES_MAX);
        Span {
            start: start as u32,
            len: len as u32,
        }
    }
    /// As a range of indexes.
    #[inline]
    pub fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// The arguments of one command, the name first, borrowed from the input buffer.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    input: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Views `input` through `spans`: the very bytes that [`Parser::parse`] saw, from the same start.
    #[inline]
    pub fn new(input: &'a [u8], spans: &'a [Span]) -> Self {
        Args { input, spans }
    }
    /// How many arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }
    /// Whether there is not even a name.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.input[span.range()])
    }
    /// The command's name as the client spelled it; empty if there is none.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or(&[])
    }
    /// Whether the argument at `index` is `word` in any case of letters.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index)
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }
    /// The arguments from `first` on.
    #[inline]
    pub fn from(&self, first: usize) -> Args<'a> {
        Args {
            input: self.input,
            spans: self.spans.get(first..).unwrap_or(&[]),
        }
    }
    /// The arguments in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let input = self.input;
        self.spans.iter().map(move |span| &input[span.range()])
    }
    /// Whether this is a line of an HTTP request (`POST …` or `Host: …`): a browser was talked into
    /// sending it, and the connection must be dropped before a later line of it runs as a command.
    pub fn is_http(&self) -> bool {
        self.is(0, "post") || self.is(0, "host:")
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.get(index)
            .expect("the caller checked how many arguments there are")
    }
}
