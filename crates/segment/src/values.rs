//! Requests to an engine that stores bytes: values, numbers, marks, and new deadlines.

use crate::engine::Segcache;
use crate::storage::{
    Condition, Content, Key, METADATA_BYTES, ObjectView, Payload, Receipt, Refused, Stored,
    VALUE_MAX, Value, WORD, decimal_len,
};
use crate::writer::Writer;
use policy::Tick;

/// Maximum number of attempts at a read-modify-write. An attempt fails if another thread changes
/// the same hash chain meanwhile.
const TRIES: u32 = 64;
/// Maximum size of the buffer that a writer keeps between requests, in bytes.
const SCRATCH_MAX: usize = 64 << 10;

/// Description of an object that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Size of the value in bytes.
    pub len: usize,
    /// Number that the client stored with the value.
    pub client_flags: u32,
    /// Bits that belong to the host.
    pub marks: u8,
    /// Version, for [`Condition::Unchanged`].
    pub cas: u32,
    /// Time at which the object expires; `None` means never.
    pub deadline: Option<Tick>,
}

impl Item {
    fn new(view: &ObjectView<'_>, receipt: Receipt) -> Item {
        Item {
            len: view.len,
            client_flags: view.client_flags,
            marks: view.marks,
            cas: receipt.cas,
            deadline: receipt.deadline,
        }
    }
}

/// Reason why a number was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// The key is absent.
    Absent,
    /// `number_of` did not accept the value as a number.
    NoNumber,
    /// The caller declined the change.
    Declined,
    /// The changed value could not be stored.
    Refused(Refused),
}

impl Writer {
    fn keep_scratch(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        bytes.shrink_to(SCRATCH_MAX);
        self.scratch = bytes;
    }
}

impl Segcache<Stored> {
    /// Appends the value of a key to `out`. This counts as a request for it.
    ///
    /// ```
    /// use policy::Tick;
    /// use segment::{Condition, Config, Segcache, Value};
    ///
    /// let cache: Segcache = Segcache::new(&Config::default()).expect("valid");
    /// let mut writer = cache.writer().expect("the first");
    /// let key = cache.key(b"name");
    /// let now = Tick(1_000);
    /// let value = Value::plain(b"value");
    /// cache.set(&mut writer, &key, value, Some(100_000), Condition::Always, now)?;
    /// let mut out = vec![];
    /// let item = cache.get(&key, now, &mut out).expect("it is there");
    /// assert_eq!(out, b"value");
    /// // TTLs are rounded down, here to 96 seconds.
    /// assert_eq!(item.deadline, Some(Tick(97_000)));
    /// assert!(cache.get(&key, Tick(97_001), &mut out).is_none());
    /// # Ok::<(), segment::Refused>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &Key<&[u8]>, now: Tick, out: &mut Vec<u8>) -> Option<Item> {
        self.get_framed(key, now, out, |_, _| true)
    }

    /// Appends a value like [`Segcache::get`]. `frame` appends bytes before the value, and returns
    /// true if the value must follow. If the object changes meanwhile, the appended bytes are
    /// removed and `frame` is called again.
    #[inline]
    pub fn get_framed(
        &self,
        key: &Key<&[u8]>,
        now: Tick,
        out: &mut Vec<u8>,
        frame: impl FnMut(&mut Vec<u8>, &Item) -> bool,
    ) -> Option<Item> {
        self.copy(key, now, true, out, frame)
    }

    /// Appends the value of a key without counting a request for it.
    pub fn peek(&self, key: &Key<&[u8]>, now: Tick, out: &mut Vec<u8>) -> Option<Item> {
        self.copy(key, now, false, out, |_, _| true)
    }

    /// Returns the properties of a key's object without its value, and without counting a request
    /// for it.
    pub fn look(&self, key: &Key<&[u8]>, now: Tick) -> Option<Item> {
        self.read(key, now, false, |view, receipt| {
            Some(Item::new(&Stored::parse(view)?, receipt))
        })
    }

    #[inline(always)]
    fn copy(
        &self,
        key: &Key<&[u8]>,
        now: Tick,
        counts: bool,
        out: &mut Vec<u8>,
        mut frame: impl FnMut(&mut Vec<u8>, &Item) -> bool,
    ) -> Option<Item> {
        let begin = out.len();
        let found = self.read(key, now, counts, |view, receipt| {
            out.truncate(begin);
            let view = Stored::parse(view)?;
            let item = Item::new(&view, receipt);
            let is_complete = !frame(out, &item) || view.append(out);
            is_complete.then_some(item)
        });
        if found.is_none() {
            out.truncate(begin);
        }
        found
    }

    /// Prefetches the cache lines in which this key's object probably begins, once the line of
    /// [`Segcache::prefetch`] has arrived. If that line does not refer to the object, the next line
    /// of the table is prefetched.
    #[inline]
    pub fn prefetch_object(&self, key: &Key<&[u8]>) {
        self.storage.prefetch_object(key.hash);
    }

    /// Stores a value, which expires after `ttl_ms` milliseconds, or never if that is `None`.
    ///
    /// # Errors
    /// Returns [`Refused`] if the value was not stored, in which case nothing has changed.
    #[inline]
    pub fn set(
        &self,
        writer: &mut Writer,
        key: &Key<&[u8]>,
        value: Value<'_>,
        ttl_ms: Option<u64>,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        self.store(writer, key, Payload::Bytes(value), ttl_ms, condition, now)
    }

    /// Changes a value that is a number, in place if it has been changed before. Returns the new
    /// number.
    ///
    /// `number_of` decides which items and bytes are a number, as [`crate::decimal`] does for bytes
    /// alone. `change` returns the new number, or `None` to decline. It may be called more than
    /// once, and must be short, because writers of the key's chain wait for it.
    ///
    /// # Errors
    /// Returns [`Unchanged`] with the reason if the number was not changed.
    pub fn update_number(
        &self,
        writer: &mut Writer,
        key: &Key<&[u8]>,
        now: Tick,
        number_of: impl Fn(&Item, &[u8]) -> Option<u64>,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<(u64, Item), Unchanged> {
        for _ in 0..TRIES {
            if let Some(done) = self.update_in_place(key, now, &change) {
                return done;
            }
            // Decimal digits are replaced by a number.
            let mut digits = std::mem::take(&mut writer.scratch);
            digits.clear();
            let item = self.get(key, now, &mut digits);
            let number = item.and_then(|item| number_of(&item, &digits));
            writer.keep_scratch(digits);
            let item = item.ok_or(Unchanged::Absent)?;
            let number = number.ok_or(Unchanged::NoNumber)?;
            let number = change(number).ok_or(Unchanged::Declined)?;
            let payload = Payload::Number {
                number,
                client_flags: item.client_flags,
                marks: item.marks,
            };
            let condition = Condition::Unchanged(item.cas);
            match self.store_until(writer, key, payload, item.deadline, condition, now) {
                Ok(Receipt { cas, deadline }) => {
                    let len = decimal_len(number);
                    let item = Item {
                        len,
                        cas,
                        deadline,
                        ..item
                    };
                    return Ok((number, item));
                }
                Err(Refused::IsChanged | Refused::IsAbsent) => {}
                Err(refused) => return Err(Unchanged::Refused(refused)),
            }
        }
        Err(Unchanged::Refused(Refused::IsChanged))
    }

    /// Changes a number in place. Returns `None` if the value is not stored as a number yet.
    fn update_in_place(
        &self,
        key: &Key<&[u8]>,
        now: Tick,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Option<Result<(u64, Item), Unchanged>> {
        let Some(mut object) = self.storage.lock_live(key, now) else {
            return Some(Err(Unchanged::Absent));
        };
        let heap = self.storage.heap();
        let number = Stored::number_at(heap, object.location)?;
        let Some(number) = change(number) else {
            return Some(Err(Unchanged::Declined));
        };
        Stored::set_number(heap, object.location, number);
        object.changed();
        let view = heap.words(object.location).and_then(Stored::parse);
        let view = view.expect("its number was just written");
        Some(Ok((number, Item::new(&view, object.receipt()))))
    }

    /// Changes the host's marks of a key in place, and returns the previous marks. `change`
    /// receives the marks and the version for [`Condition::Unchanged`], and returns `None` to leave
    /// the marks unchanged. `is_new` says whether the key gets a new version.
    pub fn update_marks(
        &self,
        key: &Key<&[u8]>,
        now: Tick,
        is_new: bool,
        change: impl FnOnce(u8, u32) -> Option<u8>,
    ) -> Option<u8> {
        let mut object = self.storage.lock_live(key, now)?;
        let heap = self.storage.heap();
        let marks = Stored::metadata_at(heap, object.location).marks();
        if let Some(next) = change(marks, object.receipt().cas) {
            Stored::set_marks(heap, object.location, next);
            if is_new {
                object.changed();
            }
        }
        Some(marks)
    }

    /// Changes the TTL of a key, by writing its object again.
    ///
    /// # Errors
    /// Returns [`Refused`] if the object was not written, in which case nothing has changed.
    pub fn touch(
        &self,
        writer: &mut Writer,
        key: &Key<&[u8]>,
        ttl_ms: Option<u64>,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let touched = self.touch_if(writer, key, now, |_| Some(ttl_ms));
        touched.map(|receipt| receipt.expect("it was not declined"))
    }

    /// Changes the TTL of a key depending on its object. `ttl_of` returns the new TTL, or `None` to
    /// leave the key unchanged, in which case the result is also `None`. It may be called more than
    /// once.
    ///
    /// # Errors
    /// Returns [`Refused`] if the object was not written, in which case nothing has changed.
    pub fn touch_if(
        &self,
        writer: &mut Writer,
        key: &Key<&[u8]>,
        now: Tick,
        mut ttl_of: impl FnMut(&Item) -> Option<Option<u64>>,
    ) -> Result<Option<Receipt>, Refused> {
        let mut bytes = std::mem::take(&mut writer.scratch);
        let mut answer = Err(Refused::IsChanged);
        for _ in 0..TRIES {
            bytes.clear();
            let mut number = None;
            let found = self.read(key, now, true, |view, receipt| {
                bytes.clear();
                let view = Stored::parse(view)?;
                number = view.number;
                view.append(&mut bytes).then_some(Item::new(&view, receipt))
            });
            let Some(item) = found else {
                answer = Err(Refused::IsAbsent);
                break;
            };
            let Some(ttl_ms) = ttl_of(&item) else {
                answer = Ok(None);
                break;
            };
            let (client_flags, marks) = (item.client_flags, item.marks);
            let payload = match number {
                Some(number) => Payload::Number {
                    number,
                    client_flags,
                    marks,
                },
                None => Payload::Bytes(Value {
                    bytes: &bytes,
                    client_flags,
                    marks,
                }),
            };
            let condition = Condition::Unchanged(item.cas);
            let stored = self.store(writer, key, payload, ttl_ms, condition, now);
            answer = stored.map(Some);
            if answer != Err(Refused::IsChanged) {
                break;
            }
        }
        writer.keep_scratch(bytes);
        answer
    }

    /// Returns the maximum size in bytes of a value that fits into a segment together with a key of
    /// this length.
    pub fn value_max(&self, key_len: usize) -> usize {
        let room = self
            .storage
            .heap()
            .segment_bytes()
            .saturating_sub(METADATA_BYTES + key_len);
        room.min(VALUE_MAX)
    }

    /// Returns the number of bytes that an object takes in a segment; `None` if it is too large for
    /// any segment.
    pub fn object_bytes(key: &[u8], value: Value<'_>) -> Option<usize> {
        let words = Stored::words(key, Payload::Bytes(value))?;
        Some(words as usize * WORD)
    }
}
