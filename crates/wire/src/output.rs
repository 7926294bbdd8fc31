//! Bounded buffer of reply bytes.
//!
//! An [`Output`] has a maximum length. Bytes that do not fit, or for which no memory can be
//! allocated, cut the output off: the buffer is freed immediately, these and all later bytes are
//! dropped, and the owner closes the connection. Neither the length of a reply nor a failed
//! allocation can therefore end the process. An append checks the free capacity, like that of a
//! `Vec`; the maximum is compared only where the buffer grows.

use crate::number::Text;
use std::ops::Deref;

/// Maximum length of an output without a configured limit, in bytes: twice the largest value.
pub const OUTPUT_BYTES_MAX: usize = 2 << 30;
/// Minimum capacity of a buffer that grows, in bytes.
const GROWTH_BYTES_MIN: usize = 64;

/// Minimum size in bytes of an allocation that is tried before it is made.
pub const LARGE_BYTES: usize = 4 << 20;
/// Bytes that must be left after a large allocation, for small ones of all threads.
const SPARE_BYTES: usize = 32 << 20;

/// Whether this many bytes can be allocated now, with a reserve for small allocations. Where a
/// failed allocation would end the process, a caller checks here before a large one. Other threads
/// may allocate in between.
pub fn can_allocate(bytes: usize) -> bool {
    if bytes < LARGE_BYTES {
        return true;
    }
    let mut trial = Vec::<u8>::new();
    let is_there = trial
        .try_reserve_exact(bytes.saturating_add(SPARE_BYTES))
        .is_ok();
    // Otherwise the compiler may remove an allocation that is never used.
    std::hint::black_box(&trial);
    is_there
}

/// Reason why an output was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOff {
    /// The bytes exceed the maximum length.
    Limit,
    /// Memory for the bytes could not be allocated.
    Memory,
}

/// Buffer of reply bytes with a maximum length.
///
/// ```
/// use wire::{CutOff, Output, Protocol, Reply};
/// let mut output = Output::new(10);
/// Reply::new(&mut output, Protocol::Resp2).ok();
/// assert_eq!(output[..], *b"+OK\r\n");
/// Reply::new(&mut output, Protocol::Resp2).bulk(b"longer than ten bytes");
/// assert_eq!(output.cut_off(), Some(CutOff::Limit));
/// assert!(output.is_empty());
/// ```
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    /// Maximum length. The capacity does not grow beyond it.
    bytes_max: usize,
    /// Reason why the output was cut off. The buffer then has no capacity, so that every append
    /// takes the path on which the buffer grows, which drops the bytes.
    cut_off: Option<CutOff>,
    /// Length beyond which the buffer currently does not grow, because the reply is too long for
    /// one step.
    step_end: usize,
    /// Whether bytes were dropped because of `step_end`.
    is_stopped: bool,
}

impl Default for Output {
    fn default() -> Self {
        Output::new(OUTPUT_BYTES_MAX)
    }
}

impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output {
            bytes,
            ..Output::default()
        }
    }
}

impl Deref for Output {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Output {
    /// Creates an empty output. A maximum above [`OUTPUT_BYTES_MAX`] is lowered to it.
    pub fn new(bytes_max: usize) -> Output {
        Output {
            bytes: Vec::new(),
            bytes_max: bytes_max.min(OUTPUT_BYTES_MAX),
            cut_off: None,
            step_end: usize::MAX,
            is_stopped: false,
        }
    }
    /// Limits the bytes that the next command may append if the buffer must grow for them. Further
    /// bytes are dropped, and [`Output::end_step`] returns true.
    #[inline]
    pub fn begin_step(&mut self, bytes_max: usize) {
        self.step_end = self.bytes.len().saturating_add(bytes_max);
    }
    /// Removes the bound of [`Output::begin_step`]. Returns whether bytes were dropped because of
    /// it. The caller then removes the incomplete reply.
    #[inline]
    pub fn end_step(&mut self) -> bool {
        self.step_end = usize::MAX;
        std::mem::take(&mut self.is_stopped)
    }
    /// Whether further bytes are dropped, because the output was cut off or the step has too many.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.cut_off.is_some() || self.is_stopped
    }
    /// Creates an empty output that may grow as far as this one, also within the current step.
    pub fn part(&self) -> Output {
        Output {
            step_end: self.step_end.saturating_sub(self.bytes.len()),
            ..Output::new(self.room())
        }
    }
    /// Sets the maximum length. Capacity that is already allocated may still be used up.
    pub fn set_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(OUTPUT_BYTES_MAX);
    }
    /// Returns the number of bytes that may still be appended.
    pub fn room(&self) -> usize {
        match self.cut_off {
            Some(_) => 0,
            None => self.bytes_max.saturating_sub(self.bytes.len()),
        }
    }
    /// Returns the reason why the output was cut off.
    pub fn cut_off(&self) -> Option<CutOff> {
        self.cut_off
    }
    /// Whether the output was cut off. Bytes appended later are dropped.
    #[inline]
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.is_some()
    }
    /// Cuts the output off: frees the buffer, and drops all bytes appended later.
    #[cold]
    pub fn cut(&mut self, why: CutOff) {
        self.bytes = Vec::new();
        self.cut_off.get_or_insert(why);
    }
    /// Returns the allocated bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
    /// Allocates memory for `more` bytes. Returns false if the output is, or was before, cut off.
    #[inline]
    pub fn reserve(&mut self, more: usize) -> bool {
        more <= self.bytes.capacity() - self.bytes.len() || self.grow(more)
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> bool {
        if self.is_cut_off() {
            return false;
        }
        if more > self.room() {
            self.cut(CutOff::Limit);
            return false;
        }
        let len = self.bytes.len();
        if len.saturating_add(more) > self.step_end {
            self.is_stopped = true;
            return false;
        }
        let amortised = (self.bytes.capacity() * 2).max(GROWTH_BYTES_MIN);
        let most = self.bytes_max.min(self.step_end);
        let target = amortised.min(most).max(len + more);
        let is_there = can_allocate(target) && self.bytes.try_reserve_exact(target - len).is_ok();
        if !is_there {
            self.cut(CutOff::Memory);
        }
        is_there
    }
    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if self.reserve(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }
    /// Appends one byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        if self.reserve(1) {
            self.bytes.push(byte);
        }
    }
    /// Appends the decimal digits of a number.
    #[inline]
    pub fn push_u64(&mut self, number: u64) {
        self.extend_from_slice(Text::unsigned(number).as_bytes());
    }
    /// Appends the bytes of another output. If the other one was cut off or stopped, so is this
    /// one.
    pub fn append(&mut self, other: &Output) {
        self.is_stopped |= other.is_stopped;
        match other.cut_off {
            Some(why) => self.cut(why),
            None => self.extend_from_slice(other),
        }
    }
    /// Inserts bytes before those at `position`, such as the head of an array whose length becomes
    /// known only at its end.
    pub fn insert(&mut self, position: usize, bytes: &[u8]) {
        let moved = self.bytes.len().saturating_sub(position);
        if self.reserve(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
            let end = self.bytes.len() - bytes.len();
            self.bytes
                .copy_within(end - moved..end, end - moved + bytes.len());
            self.bytes[end - moved..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    /// Removes everything after `position`.
    pub fn truncate(&mut self, position: usize) {
        self.bytes.truncate(position);
    }
    /// Returns the bytes after `position` for modification.
    pub fn from_mut(&mut self, position: usize) -> &mut [u8] {
        self.bytes.get_mut(position..).unwrap_or(&mut [])
    }
    /// Removes all bytes; the memory stays allocated.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
    /// Removes the first `count` bytes.
    pub fn remove_front(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }
    /// Moves the bytes out, for callers that append to a `Vec`. They must reserve memory before
    /// with [`Output::reserve`] and return the bytes by [`Output::put_back`].
    #[inline]
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
    /// Puts back the bytes that [`Output::take_bytes`] moved out. Bytes beyond the maximum cut the
    /// output off.
    #[inline]
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        if self.is_cut_off() {
            self.bytes = Vec::new();
        } else if self.bytes.len() > self.bytes_max {
            self.cut(CutOff::Limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_holds_up_to_its_maximum() {
        let mut output = Output::new(100);
        output.extend_from_slice(&[1; 60]);
        output.extend_from_slice(&[2; 39]);
        output.push(3);
        assert_eq!((output.len(), output.capacity()), (100, 100));
        assert_eq!((output.room(), output.cut_off()), (0, None));
        output.push(4);
        assert_eq!(output.cut_off(), Some(CutOff::Limit));
    }

    #[test]
    fn a_cut_off_output_frees_its_memory_and_drops_later_bytes() {
        let mut output = Output::new(1000);
        output.extend_from_slice(&[7; 900]);
        output.extend_from_slice(&[7; 900]);
        assert_eq!((output.len(), output.capacity(), output.room()), (0, 0, 0));
        output.push(1);
        output.extend_from_slice(b"more");
        output.push_u64(17);
        assert!(!output.reserve(1));
        output.truncate(500);
        output.remove_front(500);
        assert!(output.from_mut(3).is_empty());
        assert_eq!((output.len(), output.capacity()), (0, 0));
    }

    #[test]
    fn a_failed_allocation_cuts_the_output_off() {
        let mut output = Output::new(usize::MAX);
        assert_eq!(output.room(), OUTPUT_BYTES_MAX);
        // No allocator has this much memory; the maximum is raised to get there.
        output.bytes_max = usize::MAX;
        output.extend_from_slice(b"before");
        assert!(!output.reserve(isize::MAX as usize - 10));
        assert_eq!(output.cut_off(), Some(CutOff::Memory));
        assert!(output.is_empty());
    }

    #[test]
    fn a_trial_finds_what_no_machine_has() {
        assert!(can_allocate(0) && can_allocate(LARGE_BYTES) && can_allocate(8 << 20));
        assert!(!can_allocate(isize::MAX as usize) && !can_allocate(usize::MAX));
    }

    #[test]
    fn a_part_that_was_cut_off_cuts_the_whole_off() {
        let mut whole = Output::new(1000);
        whole.extend_from_slice(b"head");
        let mut part = Output::new(3);
        part.extend_from_slice(b"abc");
        whole.append(&part);
        assert_eq!(whole[..], *b"headabc");
        part.push(b'd');
        whole.append(&part);
        assert_eq!(whole.cut_off(), Some(CutOff::Limit));
    }

    #[test]
    fn a_step_drops_the_bytes_beyond_its_bound() {
        let mut output = Output::new(1_000);
        output.extend_from_slice(b"before");
        output.begin_step(200);
        output.extend_from_slice(&[1; 150]);
        assert!(!output.is_full());
        let mut part = output.part();
        part.extend_from_slice(&[2; 70]);
        assert!(part.is_full() && part.is_empty());
        output.append(&part);
        assert!(output.is_full() && output.end_step());
        assert_eq!(&output[..6], b"before");
        output.truncate(6);
        // Without a bound it grows again.
        output.extend_from_slice(&[3; 900]);
        assert!(!output.is_full() && !output.end_step());
        assert_eq!(output.len(), 906);
        // The maximum length takes precedence.
        output.begin_step(10);
        output.extend_from_slice(&[4; 900]);
        assert_eq!(output.cut_off(), Some(CutOff::Limit));
        assert!(!output.end_step());
    }

    #[test]
    fn bytes_are_inserted_before_others() {
        let mut output = Output::new(10);
        output.extend_from_slice(b"abcd");
        output.insert(1, b"XYZ");
        assert_eq!(output[..], *b"aXYZbcd");
        output.insert(7, b"!");
        assert_eq!(output[..], *b"aXYZbcd!");
        output.insert(0, b"long");
        assert_eq!(output.cut_off(), Some(CutOff::Limit));
        output.insert(3, b"x");
        assert!(output.is_empty());
    }

    #[test]
    fn bytes_put_back_are_bounded() {
        let mut output = Output::new(8);
        assert!(output.reserve(8));
        let mut bytes = output.take_bytes();
        bytes.extend_from_slice(b"12345678");
        output.put_back(bytes);
        assert_eq!(output[..], *b"12345678");
        let mut bytes = output.take_bytes();
        bytes.push(b'9');
        output.put_back(bytes);
        assert_eq!(output.cut_off(), Some(CutOff::Limit));
        output.put_back(vec![1; 100]);
        assert!(output.is_empty());
    }
}
