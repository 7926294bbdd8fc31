//! Nodes of the tree, and the pages that hold them.

use alloc::vec::Vec;

/// Position of the bits of a reference that give the kind of the node.
pub(super) const KIND_SHIFT: u32 = 29;
/// Mask of the bits of a reference that hold the index among the nodes of its kind.
pub(super) const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;
/// Reference value that stands for no node.
pub(super) const NOTHING: u32 = u32::MAX;
/// Approximate number of bytes allocated at once.
const PAGE_BYTES: usize = 4096;

/// A node whose children are sorted by their bytes.
#[derive(Clone, Copy)]
pub(super) struct Sorted<const N: usize> {
    pub(super) depth: u8,
    count: u8,
    bytes: [u8; N],
    pub(super) children: [u32; N],
}

impl<const N: usize> Sorted<N> {
    pub(super) fn new(depth: u8, pairs: &[(u8, u32)]) -> Self {
        let mut node = Sorted {
            depth,
            count: pairs.len() as u8,
            bytes: [0; N],
            children: [NOTHING; N],
        };
        for (index, &(byte, child)) in pairs.iter().enumerate() {
            node.bytes[index] = byte;
            node.children[index] = child;
        }
        node
    }

    pub(super) fn add(&mut self, byte: u8, child: u32) {
        let count = usize::from(self.count);
        let at = self.bytes[..count].partition_point(|&other| other < byte);
        self.bytes.copy_within(at..count, at + 1);
        self.children.copy_within(at..count, at + 1);
        self.bytes[at] = byte;
        self.children[at] = child;
        self.count += 1;
    }

    pub(super) fn remove(&mut self, byte: u8) {
        let count = usize::from(self.count);
        let at = self.bytes[..count].partition_point(|&other| other < byte);
        assert_eq!(self.bytes[at], byte);
        self.bytes.copy_within(at + 1..count, at);
        self.children.copy_within(at + 1..count, at);
        self.count -= 1;
    }

    pub(super) fn view(&self) -> View<'_> {
        let count = usize::from(self.count);
        View::Sorted(&self.bytes[..count], &self.children[..count])
    }

    pub(super) fn child_mut(&mut self, byte: u8) -> &mut u32 {
        let at = self.bytes[..usize::from(self.count)].partition_point(|&other| other < byte);
        assert_eq!(self.bytes[at], byte);
        &mut self.children[at]
    }
}

/// A node with a place for each byte.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    pub(super) depth: u8,
    occupied: [u64; 4],
    pub(super) children: [u32; 256],
}

impl Direct {
    pub(super) fn new(depth: u8, pairs: &[(u8, u32)]) -> Self {
        let mut node = Direct {
            depth,
            occupied: [0; 4],
            children: [NOTHING; 256],
        };
        for &(byte, child) in pairs {
            node.add(byte, child);
        }
        node
    }

    pub(super) fn add(&mut self, byte: u8, child: u32) {
        self.children[usize::from(byte)] = child;
        self.occupied[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    pub(super) fn remove(&mut self, byte: u8) {
        self.children[usize::from(byte)] = NOTHING;
        self.occupied[usize::from(byte / 64)] &= !(1 << (byte % 64));
    }
}

/// The children of a node.
pub(super) enum View<'a> {
    Sorted(&'a [u8], &'a [u32]),
    Direct(&'a Direct),
}

impl View<'_> {
    pub(super) fn child(&self, byte: u8) -> Option<u32> {
        match self {
            View::Sorted(bytes, children) => {
                let at = bytes.partition_point(|&other| other < byte);
                (bytes.get(at) == Some(&byte)).then(|| children[at])
            }
            View::Direct(node) => {
                let child = node.children[usize::from(byte)];
                (child != NOTHING).then_some(child)
            }
        }
    }

    pub(super) fn first(&self) -> u32 {
        match self {
            View::Sorted(_, children) => children[0],
            View::Direct(node) => {
                let words = node.occupied.iter().enumerate();
                let mut occupied = words.filter(|(_, word)| **word != 0);
                let (index, word) = occupied.next().expect("a node has children");
                node.children[index * 64 + word.trailing_zeros() as usize]
            }
        }
    }

    /// Returns the last child whose byte is less than `byte`; with 256, the last child.
    pub(super) fn below(&self, byte: usize) -> Option<u32> {
        match self {
            View::Sorted(bytes, children) => {
                let at = bytes.partition_point(|&other| usize::from(other) < byte);
                at.checked_sub(1).map(|at| children[at])
            }
            View::Direct(node) => {
                let mut end = byte;
                while end > 0 {
                    let word = (end - 1) / 64;
                    let kept = end - word * 64;
                    let bits = node.occupied[word] << (64 - kept) >> (64 - kept);
                    if bits != 0 {
                        return Some(node.children[word * 64 + bits.ilog2() as usize]);
                    }
                    end = word * 64;
                }
                None
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            View::Sorted(bytes, _) => bytes.len(),
            View::Direct(node) => node.occupied.iter().map(|w| w.count_ones() as usize).sum(),
        }
    }

    pub(super) fn pairs(&self) -> Vec<(u8, u32)> {
        match self {
            View::Sorted(bytes, children) => bytes
                .iter()
                .copied()
                .zip(children.iter().copied())
                .collect(),
            View::Direct(node) => {
                let all = (0..=u8::MAX).zip(node.children);
                all.filter(|(_, child)| *child != NOTHING).collect()
            }
        }
    }
}

/// An array without gaps that grows and shrinks by pages.
pub(crate) struct Dense<T> {
    pages: Vec<Vec<T>>,
    pub(crate) len: usize,
}

impl<T: Copy> Dense<T> {
    const ITEMS: usize = if size_of::<T>() * 4 > PAGE_BYTES {
        4
    } else {
        PAGE_BYTES / size_of::<T>()
    };

    pub(crate) const fn new() -> Self {
        Dense {
            pages: Vec::new(),
            len: 0,
        }
    }

    pub(crate) fn get(&self, index: u32) -> &T {
        &self.pages[index as usize / Self::ITEMS][index as usize % Self::ITEMS]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.pages[index as usize / Self::ITEMS][index as usize % Self::ITEMS]
    }

    pub(crate) fn push(&mut self, item: T) -> u32 {
        if self.len == self.pages.len() * Self::ITEMS {
            self.pages.push(Vec::with_capacity(Self::ITEMS));
        }
        let page = self.pages.last_mut().expect("there is one with room");
        page.push(item);
        self.len += 1;
        assert!(self.len <= INDEX_MASK as usize);
        self.len as u32 - 1
    }

    /// Removes an item, whose place the last item takes. Returns the index that the last item had.
    pub(crate) fn swap_remove(&mut self, index: u32) -> u32 {
        let page = self.pages.last_mut().expect("it holds the item");
        let last = page.pop().expect("no page is empty");
        if page.is_empty() {
            self.pages.pop();
            if self.pages.len() <= self.pages.capacity() / 4 {
                self.pages.shrink_to(self.pages.len() * 2);
            }
        }
        self.len -= 1;
        if (index as usize) < self.len {
            *self.get_mut(index) = last;
        }
        self.len as u32
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.pages.len() * Self::ITEMS * size_of::<T>()
            + self.pages.capacity() * size_of::<Vec<T>>()
    }
}
