//! Commands on strings and keys on the segment engine.
//!
//! The engine rounds deadlines down, so that TTL may return less than was passed to EXPIRE.
//! Non-negative integers are changed in place; negative integers are stored as digits.

use super::{Edit, Found, Handle, Put, Ttl};
use crate::condition::Condition;
use crate::lifetime::{Conditions, DeadlineChange, When, deadline, is_past};
use crate::refusal::{OUT_OF_MEMORY, Refusal};
use crate::{STEP_BYTES, Strings};
use segment::{Refused, Unchanged};
use store::{Key, Kind, Tick};
use wire::number::{Text, parse_i64};
use wire::{Output, Reply};

/// Converts a slab engine key to a segment engine key. Both use the same hash.
#[inline]
pub(super) fn hashed<'k>(key: &Key<'k>) -> segment::Key<&'k [u8]> {
    segment::Key::hashed(key.bytes, key.hash)
}

/// Returns the error reply for a write that the engine refused.
fn refusal(key: &Key<'_>, why: Refused) -> Refusal {
    Refusal::Message(match why {
        Refused::TooLarge if key.bytes.len() > segment::KEY_MAX => {
            "ERR the key is longer than the 255 bytes that the segment engine takes"
        }
        Refused::TooLarge => "ERR the value is larger than a segment (segment-size)",
        Refused::Full => OUT_OF_MEMORY,
        Refused::IsPresent | Refused::IsAbsent | Refused::IsChanged => {
            "ERR other clients kept changing the key; try again"
        }
    })
}

/// Returns the integer in the form that the engine can change in place, or `None` if it is
/// negative.
fn in_place(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

impl Strings for &mut Handle<'_> {
    const REPLY_STEP_BYTES: usize = STEP_BYTES;

    #[inline]
    fn now(&self) -> Tick {
        self.now
    }

    #[inline]
    fn key<'k>(&self, _db: u8, bytes: &'k [u8]) -> Key<'k> {
        let hash = self.cache.key(bytes).hash();
        Key { bytes, hash, db: 0 }
    }

    fn prefetch(&self, key: &Key<'_>) {
        self.cache.prefetch(&hashed(key));
    }

    fn prefetch_value(&self, key: &Key<'_>) {
        self.cache.prefetch_object(&hashed(key));
    }

    /// The value is copied once.
    #[inline]
    fn reply_value(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
        let protocol = reply.protocol();
        let frame = |out: &mut Output, found: &Found| {
            Reply::new(out, protocol).bulk_head(found.len);
        };
        let found = self.get(&hashed(key), reply.buffer(), frame);
        match found {
            Some(_) => reply.raw(b"\r\n"),
            None => reply.null(),
        }
        Ok(found.is_some())
    }

    fn value_len(&mut self, key: &Key<'_>) -> Result<Option<usize>, Refusal> {
        Ok(self.look(&hashed(key)).map(|found| found.len))
    }

    fn check_size(&self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        if key.len() > segment::KEY_MAX || value.len() > self.cache.value_max(key.len()) {
            let key = Strings::key(self, 0, key);
            return Err(refusal(&key, Refused::TooLarge));
        }
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiration: DeadlineChange,
        condition: &Condition<'_>,
        old: Option<&mut Reply<'_>>,
    ) -> Result<bool, Refusal> {
        let put = Put::plain(Ttl::of(expiration, self.now));
        let simple = match condition {
            Condition::Always => Some(segment::Condition::Always),
            Condition::Absent => Some(segment::Condition::Absent),
            Condition::Present => Some(segment::Condition::Present),
            Condition::Compares(_) => None,
        };
        let Some(simple) = simple.filter(|_| old.is_none() && put.ttl != Ttl::Keep) else {
            return self.put_by_value(key, value, &put, condition, old);
        };
        match Handle::put(self, &hashed(key), value, &put, simple) {
            Ok(_) => Ok(true),
            Err(Refused::IsPresent | Refused::IsAbsent) => Ok(false),
            Err(why) => Err(refusal(key, why)),
        }
    }

    fn append(&mut self, key: &Key<'_>, value: &[u8]) -> Result<usize, Refusal> {
        let edited = self.edit(&hashed(key), |found, new| {
            new.extend_from_slice(found.map_or(&[], |(_, old)| old));
            new.extend_from_slice(value);
            (Edit::Put(Put::plain(Ttl::Keep)), new.len())
        });
        Ok(edited.map_err(|why| refusal(key, why))?.0)
    }

    fn take(&mut self, key: &Key<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
        self.reply_and(key, reply, |_, _, _| Edit::Delete)
    }

    fn reply_and_expire(
        &mut self,
        key: &Key<'_>,
        reply: &mut Reply<'_>,
        expiration: impl Fn() -> Result<DeadlineChange, Refusal>,
    ) -> Result<(), Refusal> {
        if self.look(&hashed(key)).is_none() {
            self.count(false);
            reply.null();
            return Ok(());
        }
        let ttl = Ttl::of(expiration()?, self.now);
        self.reply_and(key, reply, |found, old, new| match ttl {
            Ttl::Keep => Edit::Leave,
            Ttl::None if found.deadline.is_none() => Edit::Leave,
            Ttl::Past => Edit::Delete,
            ttl => {
                new.extend_from_slice(old);
                Edit::Put(Put {
                    client_flags: found.client_flags,
                    marks: found.marks,
                    ..Put::plain(ttl)
                })
            }
        })
    }

    fn add(&mut self, key: &Key<'_>, increment: i64) -> Result<i64, Refusal> {
        let name = hashed(key);
        let change = |old: u64| in_place(i64::try_from(old).ok()?.checked_add(increment)?);
        let number_of = |digits: &[u8]| in_place(parse_i64(digits)?);
        loop {
            match self.update_number(&name, number_of, change) {
                Ok((number, _)) => return Ok(number as i64),
                Err(Unchanged::Absent) => {
                    let Some(number) = in_place(increment) else {
                        return self.add_digits(key, increment);
                    };
                    match self.put_number(&name, number, None) {
                        Ok(_) => return Ok(increment),
                        Err(Refused::IsPresent) => {}
                        Err(why) => return Err(refusal(key, why)),
                    }
                }
                Err(Unchanged::NoNumber | Unchanged::Declined) => {
                    return self.add_digits(key, increment);
                }
                Err(Unchanged::Refused(Refused::IsChanged)) => {}
                Err(Unchanged::Refused(why)) => return Err(refusal(key, why)),
            }
        }
    }

    fn remove(&mut self, key: &Key<'_>) -> bool {
        let always = segment::Condition::Always;
        self.cache.delete(&hashed(key), always, self.now) == Ok(true)
    }

    fn contains(&mut self, key: &Key<'_>) -> bool {
        Handle::contains(self, &hashed(key))
    }

    fn kind(&mut self, key: &Key<'_>) -> Option<Kind> {
        self.look(&hashed(key)).map(|_| Kind::String)
    }

    fn deadline(&mut self, key: &Key<'_>) -> Option<Option<Tick>> {
        self.look(&hashed(key)).map(|found| found.deadline)
    }

    /// The old deadline is compared with the new one after rounding, as it would be stored. A new
    /// deadline in the past is not stored, and is compared as requested.
    fn expire(
        &mut self,
        key: &Key<'_>,
        when: When,
        conditions: &Conditions,
    ) -> Result<bool, Refusal> {
        let name = hashed(key);
        if is_past(when, self.now) {
            let edited = self.edit(&name, |found, _| match found {
                Some((found, _)) if conditions.hold(found.deadline, when) => (Edit::Delete, true),
                _ => (Edit::Leave, false),
            });
            return Ok(edited.map_err(|why| refusal(key, why))?.0);
        }
        let ttl_ms = deadline(when).0 - self.now.0;
        let end = self.would_end(ttl_ms).0 as i64;
        let change = |old| conditions.hold(old, end).then_some(Some(ttl_ms));
        let done = self.change_deadline(&name, change);
        Ok(done.map_err(|why| refusal(key, why))?.is_some())
    }

    fn persist(&mut self, key: &Key<'_>) -> Result<bool, Refusal> {
        let done = self.change_deadline(&hashed(key), |old| old.map(|_| None));
        Ok(done.map_err(|why| refusal(key, why))?.is_some())
    }

    fn len(&mut self, _db: u8) -> usize {
        self.cache.census(self.now).live as usize
    }

    fn flush(&mut self, _db: u8) {
        self.cache.clear();
    }
}

impl Handle<'_> {
    /// Stores a value where the condition or the reply needs the old value.
    fn put_by_value(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        put: &Put,
        condition: &Condition<'_>,
        mut reply: Option<&mut Reply<'_>>,
    ) -> Result<bool, Refusal> {
        let begin = reply.as_ref().map_or(0, |reply| reply.position());
        let edited = self.edit(&hashed(key), |found, new| {
            let old = found.map(|(_, old)| old);
            if let Some(reply) = &mut reply {
                reply.truncate(begin);
                match old {
                    Some(old) => reply.bulk(old),
                    None => reply.null(),
                }
            }
            let holds = condition.holds(old);
            if holds != Ok(true) {
                return (Edit::Leave, holds);
            }
            new.extend_from_slice(value);
            (Edit::Put(*put), holds)
        });
        edited.map_err(|why| refusal(key, why))?.0
    }

    /// Replies with the value of a key, then applies the change that `change` returns. Counts a hit
    /// or a miss.
    fn reply_and(
        &mut self,
        key: &Key<'_>,
        reply: &mut Reply<'_>,
        change: impl Fn(&Found, &[u8], &mut Vec<u8>) -> Edit,
    ) -> Result<(), Refusal> {
        let begin = reply.position();
        let edited = self.edit(&hashed(key), |found, new| {
            reply.truncate(begin);
            let Some((found, old)) = found else {
                reply.null();
                return (Edit::Leave, false);
            };
            reply.bulk(old);
            (change(found, old, new), true)
        });
        let (is_hit, _) = edited.map_err(|why| refusal(key, why))?;
        self.count(is_hit);
        Ok(())
    }

    /// Adds to an integer that is or becomes negative. A value that is not an integer is an error.
    fn add_digits(&mut self, key: &Key<'_>, increment: i64) -> Result<i64, Refusal> {
        let edited = self.edit(&hashed(key), |found, new| {
            let old = found.map_or(Some(0), |(_, digits)| parse_i64(digits));
            let sum = match old {
                Some(old) => old.checked_add(increment).ok_or(Refusal::Overflow),
                None => Err(Refusal::NotInteger),
            };
            match sum {
                Ok(number) => {
                    new.extend_from_slice(Text::integer(number).as_bytes());
                    (Edit::Put(Put::plain(Ttl::Keep)), sum)
                }
                Err(_) => (Edit::Leave, sum),
            }
        });
        edited.map_err(|why| refusal(key, why))?.0
    }
}
