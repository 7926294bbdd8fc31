//! Set of slots, in few bytes for each.
//!
//! ```text
//! up to 32 slots   one list of 32-bit slots, in no order                 4 bytes per slot
//! more             chunks of 65,536 slots (512 KiB of the arena):
//!                  up to 4,096 of them as a sorted list of 16-bit numbers   2 bytes per slot
//!                  more as one bit for each possible slot                 ≤ 2 bytes per slot
//! ```
//!
//! An entry takes at least two granules, so that a slot of a chunk of small entries that are all
//! members takes one bit in four or fewer. Lists grow by a quarter. These are the containers of
//! Chambi, Lemire, Kaser and Godin, *Better bitmap performance with Roaring bitmaps*, Software:
//! Practice and Experience, 2016, without its runs.

/// Maximum number of slots in one unordered list.
const FEW_MAX: usize = 32;
/// Maximum number of slots in a sorted list. A longer one would take more bytes than bits do.
const SORTED_MAX: usize = 4096;
/// Number of slots below which bits become a sorted list again. It is smaller than the maximum of a
/// list, so that alternating insertions and removals do not convert at each step.
const BITS_MIN: usize = 3072;
/// Number of words of one chunk's bits.
const WORDS: usize = (1 << 16) / 64;

/// Set of slots.
#[derive(Debug)]
pub struct Members {
    form: Form,
    len: u32,
}

#[derive(Debug)]
enum Form {
    Few(Vec<u32>),
    /// Sorted by `high`; no chunk is empty.
    Many(Vec<Chunk>),
}

/// Slots with the same upper 16 bits.
#[derive(Debug)]
struct Chunk {
    high: u16,
    low: Low,
}

#[derive(Debug)]
enum Low {
    Sorted(Vec<u16>),
    Bits(Box<[u64; WORDS]>, u32),
}

/// Makes room for one more element, by a quarter of the present ones instead of doubling.
fn reserve<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(1));
    }
}

/// Releases room if less than half of it is in use.
fn release<T>(list: &mut Vec<T>) {
    if list.len() < list.capacity() / 2 {
        list.shrink_to(list.len() + list.len() / 4);
    }
}

fn parts(slot: u32) -> (u16, u16) {
    ((slot >> 16) as u16, slot as u16)
}

impl Low {
    fn insert(&mut self, low: u16) {
        match self {
            Low::Sorted(list) => {
                let Err(at) = list.binary_search(&low) else {
                    unreachable!("a slot is inserted once");
                };
                reserve(list);
                list.insert(at, low);
                if list.len() > SORTED_MAX {
                    let mut bits = Box::new([0; WORDS]);
                    for low in &*list {
                        bits[usize::from(low / 64)] |= 1 << (low % 64);
                    }
                    *self = Low::Bits(bits, list.len() as u32);
                }
            }
            Low::Bits(bits, len) => {
                bits[usize::from(low / 64)] |= 1 << (low % 64);
                *len += 1;
            }
        }
    }

    fn remove(&mut self, low: u16) -> bool {
        match self {
            Low::Sorted(list) => {
                let Ok(at) = list.binary_search(&low) else {
                    return false;
                };
                list.remove(at);
                release(list);
            }
            Low::Bits(bits, len) => {
                let (word, bit) = (&mut bits[usize::from(low / 64)], 1 << (low % 64));
                if *word & bit == 0 {
                    return false;
                }
                *word &= !bit;
                *len -= 1;
                if (*len as usize) < BITS_MIN {
                    let mut list = Vec::with_capacity(*len as usize);
                    self.each(&mut |low| list.push(low));
                    *self = Low::Sorted(list);
                }
            }
        }
        true
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Low::Sorted(list) => list.binary_search(&low).is_ok(),
            Low::Bits(bits, _) => bits[usize::from(low / 64)] >> (low % 64) & 1 == 1,
        }
    }

    fn len(&self) -> usize {
        match self {
            Low::Sorted(list) => list.len(),
            Low::Bits(_, len) => *len as usize,
        }
    }

    fn last(&self) -> u16 {
        match self {
            Low::Sorted(list) => *list.last().expect("no chunk is empty"),
            Low::Bits(bits, _) => {
                let word = bits.iter().rposition(|word| *word != 0);
                let word = word.expect("no chunk is empty");
                (word as u32 * 64 + 63 - bits[word].leading_zeros()) as u16
            }
        }
    }

    fn each(&self, each: &mut dyn FnMut(u16)) {
        match self {
            Low::Sorted(list) => list.iter().for_each(|low| each(*low)),
            Low::Bits(bits, _) => {
                for (at, word) in bits.iter().enumerate() {
                    let mut rest = *word;
                    while rest != 0 {
                        each((at as u32 * 64 + rest.trailing_zeros()) as u16);
                        rest &= rest - 1;
                    }
                }
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Low::Sorted(list) => list.capacity() * size_of::<u16>(),
            Low::Bits(..) => size_of::<[u64; WORDS]>(),
        }
    }
}

impl Default for Members {
    fn default() -> Self {
        Members {
            form: Form::Few(Vec::new()),
            len: 0,
        }
    }
}

impl Members {
    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds a slot that is not a member. Returns the change of the bytes on the heap.
    pub fn insert(&mut self, slot: u32) -> i64 {
        let before = self.list_bytes();
        self.len += 1;
        let (high, low) = parts(slot);
        match &mut self.form {
            Form::Few(list) if list.len() < FEW_MAX => {
                debug_assert!(!list.contains(&slot));
                reserve(list);
                list.push(slot);
                self.list_bytes() - before
            }
            Form::Few(list) => {
                let all = std::mem::take(list);
                (self.form, self.len) = (Form::Many(Vec::new()), 0);
                let chunks: i64 = all.iter().map(|slot| self.insert(*slot)).sum();
                chunks + self.insert(slot) - before
            }
            Form::Many(chunks) => {
                let at = match chunks.binary_search_by_key(&high, |chunk| chunk.high) {
                    Ok(at) => at,
                    Err(at) => {
                        reserve(chunks);
                        let low = Low::Sorted(Vec::new());
                        chunks.insert(at, Chunk { high, low });
                        at
                    }
                };
                let chunk = &mut chunks[at].low;
                let held = chunk.heap_bytes() as i64;
                chunk.insert(low);
                chunk.heap_bytes() as i64 - held + self.list_bytes() - before
            }
        }
    }

    /// Removes a member. Returns the change of the bytes on the heap; `None` if the slot is no
    /// member.
    pub fn remove(&mut self, slot: u32) -> Option<i64> {
        let before = self.list_bytes();
        let (high, low) = parts(slot);
        let mut change = 0;
        match &mut self.form {
            Form::Few(list) => {
                let at = list.iter().position(|one| *one == slot)?;
                list.swap_remove(at);
                release(list);
            }
            Form::Many(chunks) => {
                let at = chunks
                    .binary_search_by_key(&high, |chunk| chunk.high)
                    .ok()?;
                let chunk = &mut chunks[at].low;
                let held = chunk.heap_bytes() as i64;
                if !chunk.remove(low) {
                    return None;
                }
                change = chunk.heap_bytes() as i64 - held;
                if chunk.len() == 0 {
                    change -= chunk.heap_bytes() as i64;
                    chunks.remove(at);
                    release(chunks);
                }
                if chunks.is_empty() {
                    *self = Members::default();
                    return Some(change - before);
                }
            }
        }
        self.len -= 1;
        Some(change + self.list_bytes() - before)
    }

    /// Whether a slot is a member.
    pub fn contains(&self, slot: u32) -> bool {
        let (high, low) = parts(slot);
        match &self.form {
            Form::Few(list) => list.contains(&slot),
            Form::Many(chunks) => {
                let at = chunks.binary_search_by_key(&high, |chunk| chunk.high);
                at.is_ok_and(|at| chunks[at].low.contains(low))
            }
        }
    }

    /// Returns a member; `None` if there is none.
    pub fn last(&self) -> Option<u32> {
        match &self.form {
            Form::Few(list) => list.last().copied(),
            Form::Many(chunks) => {
                let chunk = chunks.last()?;
                Some(u32::from(chunk.high) << 16 | u32::from(chunk.low.last()))
            }
        }
    }

    /// Passes at most about `max` members to `each`, beginning at an arbitrary one. A chunk is
    /// passed as a whole, so that there may be 65,536 more.
    pub fn each(&self, max: usize, each: &mut dyn FnMut(u32)) {
        match &self.form {
            Form::Few(list) => list.iter().take(max).for_each(|slot| each(*slot)),
            Form::Many(chunks) => {
                let mut passed = 0;
                for chunk in chunks {
                    if passed >= max {
                        break;
                    }
                    let high = u32::from(chunk.high) << 16;
                    chunk.low.each(&mut |low| each(high | u32::from(low)));
                    passed += chunk.low.len();
                }
            }
        }
    }

    /// Returns the bytes of the list of slots or chunks.
    fn list_bytes(&self) -> i64 {
        (match &self.form {
            Form::Few(list) => list.capacity() * size_of::<u32>(),
            Form::Many(chunks) => chunks.capacity() * size_of::<Chunk>(),
        }) as i64
    }

    /// Returns the bytes on the heap. Takes time proportional to the number of chunks.
    pub fn heap_bytes(&self) -> usize {
        let chunks = match &self.form {
            Form::Few(_) => &[][..],
            Form::Many(chunks) => chunks,
        };
        let low: usize = chunks.iter().map(|chunk| chunk.low.heap_bytes()).sum();
        self.list_bytes() as usize + low
    }
}
