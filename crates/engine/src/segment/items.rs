//! memcached's items on the segment engine: objects with client flags, and with marks in their
//! metadata.
//!
//! An object's CAS number belongs to its bucket in the table, which about ten objects share. A
//! `cas` may therefore return `EXISTS` because a neighbour has changed, but it never overwrites a
//! change. A CAS number that a client has chosen is stored after the value.

use super::strings::hashed;
use super::{Edit, Found, Handle, Marks, Put, PutReceipt, Ttl};
use crate::Strings;
use crate::items::{
    CountError, CountRequest, ItemFacts, Items, ReadFields, RemoveOutcome, RemoveRequest,
    StoreAction, StoreOutcome, StoreRequest, Stored, TouchOutcome, counted, number_of,
    store_action,
};
use crate::lifetime::DeadlineChange;
use segment::{Condition, Refused, Segcache, Unchanged, Value};
use store::{ItemHead, Key, WrongType};
use wire::Output;
use wire::memcached::Mode;
use wire::number::Text;

fn head_of(found: &Found) -> ItemHead {
    ItemHead {
        client_flags: found.client_flags,
        cas: found.cas,
        is_stale: found.marks.is_stale,
        has_winner: found.marks.has_winner,
        is_fetched: found.marks.is_fetched,
    }
}

fn facts_of(found: &Found) -> ItemFacts {
    ItemFacts {
        head: head_of(found),
        len: found.len,
        deadline: found.deadline,
        idle_ms: None,
    }
}

fn stored(kept: &PutReceipt, len: usize) -> Stored {
    Stored {
        cas: kept.cas,
        deadline: kept.deadline,
        len,
    }
}

fn marks_of(head: &ItemHead) -> Marks {
    Marks::new(head.is_stale, head.has_winner, head.is_fetched)
}

impl Items for &mut Handle<'_> {
    #[inline]
    fn read(
        &mut self,
        key: &Key<'_>,
        fields: ReadFields,
        out: &mut Output,
        mut write_head: impl FnMut(&mut Output, &ItemFacts) -> ItemHead,
    ) -> Result<bool, WrongType> {
        let (key, begin) = (hashed(key), out.len());
        loop {
            let mut marked = ItemHead::default();
            let frame =
                |out: &mut Output, found: &Found| marked = write_head(out, &facts_of(found));
            let found = match (fields.is_peek, fields.value) {
                (true, _) => self.peek_framed(&key, fields.value, out, frame),
                (false, true) => self.get(&key, out, frame),
                (false, false) => self.get_head(&key, out, frame),
            };
            let Some(found) = found else {
                return Ok(false);
            };
            let is_marked = marked == head_of(&found)
                || self.mark_if_unchanged(&key, &found, marks_of(&marked));
            if is_marked {
                return Ok(true);
            }
            out.truncate(begin);
        }
    }

    #[inline]
    fn store(&mut self, key: &Key<'_>, request: &StoreRequest<'_>) -> StoreOutcome {
        let key = hashed(key);
        let put = Put {
            ttl: Ttl::of(request.expiration, self.now),
            client_flags: request.client_flags,
            marks: Marks::new(false, request.has_winner, request.is_fetched),
            cas: request.new_cas,
        };
        let condition = match request.mode {
            Mode::Add => Condition::Absent,
            Mode::Replace if request.cas.is_none() => Condition::Present,
            _ if request.is_plain() => Condition::Always,
            _ => return self.store_by_what_is_there(&key, request, &put),
        };
        match Handle::put(self, &key, request.value, &put, condition) {
            Ok(kept) => StoreOutcome::Yes(stored(&kept, request.value.len())),
            Err(Refused::IsPresent) => {
                // The look-up counts as an access, as in memcached.
                let _used = self.cache.contains(&key, self.now);
                StoreOutcome::No
            }
            Err(Refused::IsAbsent | Refused::IsChanged) => StoreOutcome::No,
            Err(why) => self.give_up_store(&key, request, why),
        }
    }

    fn count(
        &mut self,
        key: &Key<'_>,
        request: &CountRequest,
    ) -> Result<(u64, ItemFacts), CountError> {
        let key = hashed(key);
        if request.cas.is_some() || request.new_cas.is_some() {
            return self.count_by_what_is_there(&key, request);
        }
        loop {
            let change = |number| Some(request.after(number));
            match self.update_number(&key, number_of, change) {
                Ok((number, found)) => return Ok((number, facts_of(&found))),
                Err(Unchanged::Absent) => return Err(CountError::NotFound),
                // A chosen cas number may follow the digits.
                Err(Unchanged::NoNumber | Unchanged::Declined) => {
                    return self.count_by_what_is_there(&key, request);
                }
                // Other clients have changed the object during each attempt.
                Err(Unchanged::Refused(Refused::IsChanged)) => {}
                Err(Unchanged::Refused(_)) => return Err(CountError::Full),
            }
        }
    }

    fn remove_if(&mut self, key: &Key<'_>, request: &RemoveRequest) -> RemoveOutcome {
        let key = hashed(key);
        let is_mark = request.makes_stale
            && !request.drops_value
            && request.cas.is_none()
            && request.new_cas.is_none()
            && request.expiration.is_none();
        if is_mark && let Some(removed) = self.make_stale(&key) {
            return removed;
        }
        let now = self.now;
        let edited = self.edit(&key, |found, new| {
            let old = found.map(|(found, _)| head_of(found));
            if let Some(why) = request.refusal(old) {
                return (Edit::Leave, why);
            }
            let Some((head, value)) = old.zip(found.map(|(_, value)| value)) else {
                return (Edit::Leave, RemoveOutcome::NotFound);
            };
            if !request.keeps() {
                return (Edit::Delete, RemoveOutcome::Yes);
            }
            if !request.drops_value {
                new.extend_from_slice(value);
            }
            let head = request.left(head);
            let put = Put {
                ttl: request
                    .expiration
                    .map_or(Ttl::Keep, |expiration| Ttl::of(expiration, now)),
                client_flags: head.client_flags,
                marks: marks_of(&head),
                cas: request.new_cas,
            };
            (Edit::Put(put), RemoveOutcome::Yes)
        });
        edited.map_or(RemoveOutcome::Full, |(removed, _)| removed)
    }

    fn touch(&mut self, key: &Key<'_>, expiration: DeadlineChange) -> TouchOutcome {
        let ttl_ms = match Ttl::of(expiration, self.now) {
            Ttl::Past => {
                return match self.remove(key) {
                    true => TouchOutcome::Yes(Some(self.now)),
                    false => TouchOutcome::NotFound,
                };
            }
            Ttl::Millis(ttl_ms) => Some(ttl_ms),
            Ttl::Keep | Ttl::None | Ttl::Until(_) => None,
        };
        match self.change_deadline(&hashed(key), |_| Some(ttl_ms)) {
            Ok(Some(receipt)) => TouchOutcome::Yes(receipt.deadline),
            Ok(None) => TouchOutcome::NotFound,
            Err(_) => TouchOutcome::Full,
        }
    }

    fn mark_fetched(&mut self, key: &Key<'_>) {
        let fetched = |old: Marks| Marks::new(old.is_stale, old.has_winner, true);
        self.change_marks(&hashed(key), false, |old| {
            (!old.is_fetched).then(|| fetched(old))
        });
    }

    fn describe(&mut self, key: &Key<'_>) -> Option<(ItemFacts, usize)> {
        let mut bytes = Vec::new();
        let found = self.peek(&hashed(key), &mut bytes)?;
        let value = Value {
            bytes: &bytes,
            client_flags: found.client_flags,
            marks: 0,
        };
        let size = Segcache::object_bytes(key.bytes, value)?;
        Some((facts_of(&found), size))
    }
}

impl Handle<'_> {
    /// Reads an object without counting an access.
    fn peek_framed(
        &mut self,
        key: &segment::Key<&[u8]>,
        with_value: bool,
        out: &mut Output,
        mut frame: impl FnMut(&mut Output, &Found),
    ) -> Option<Found> {
        let mut value = Vec::new();
        let found = self.peek(key, &mut value)?;
        frame(out, &found);
        if with_value {
            out.extend_from_slice(&value);
        }
        Some(found)
    }

    /// Marks an item as stale in place. Returns `None` if that is impossible and the item must be
    /// rewritten.
    fn make_stale(&mut self, key: &segment::Key<&[u8]>) -> Option<RemoveOutcome> {
        let stale = |old: Marks| Marks::new(true, false, old.is_fetched);
        match self.change_marks(key, true, |old| (!old.has_cas()).then(|| stale(old))) {
            None => Some(RemoveOutcome::NotFound),
            Some(old) if old.has_cas() => None,
            Some(_) => Some(RemoveOutcome::Yes),
        }
    }

    fn store_by_what_is_there(
        &mut self,
        key: &segment::Key<&[u8]>,
        request: &StoreRequest<'_>,
        put: &Put,
    ) -> StoreOutcome {
        let edited = self.edit(key, |found, new| {
            let value = request.value;
            let there = found.map_or(&[][..], |(_, there)| there);
            let put = match store_action(request, found.map(|(found, _)| head_of(found))) {
                StoreAction::Refuse(why) => return (Edit::Leave, Err(why)),
                StoreAction::Write => {
                    new.extend_from_slice(value);
                    *put
                }
                StoreAction::WriteStale(old) => {
                    new.extend_from_slice(value);
                    Put {
                        ttl: Ttl::Keep,
                        marks: Marks::new(true, old.has_winner, false),
                        ..*put
                    }
                }
                StoreAction::Join(old) => {
                    let (front, back) = match request.mode {
                        Mode::Prepend => (value, there),
                        _ => (there, value),
                    };
                    new.extend_from_slice(front);
                    new.extend_from_slice(back);
                    Put {
                        ttl: Ttl::Keep,
                        client_flags: old.client_flags,
                        ..*put
                    }
                }
            };
            (Edit::Put(put), Ok(new.len()))
        });
        match edited {
            Ok((Ok(len), kept)) => StoreOutcome::Yes(stored(&kept, len)),
            Ok((Err(why), _)) => why,
            Err(why) => self.give_up_store(key, request, why),
        }
    }

    /// Handles a value that could not be stored, by deleting the old item, which is now out of
    /// date.
    fn give_up_store(
        &mut self,
        key: &segment::Key<&[u8]>,
        request: &StoreRequest<'_>,
        why: Refused,
    ) -> StoreOutcome {
        if request.mode == Mode::Plain {
            let _was_there = self.cache.delete(key, Condition::Always, self.now);
        }
        match why {
            Refused::TooLarge => StoreOutcome::TooLarge,
            _ => StoreOutcome::Full,
        }
    }

    fn count_by_what_is_there(
        &mut self,
        key: &segment::Key<&[u8]>,
        request: &CountRequest,
    ) -> Result<(u64, ItemFacts), CountError> {
        let edited = self.edit(key, |found, new| {
            let there = found.map(|(found, value)| (head_of(found), value));
            let (number, head) = match counted(request, there) {
                Ok(counted) => counted,
                Err(why) => return (Edit::Leave, Err(why)),
            };
            new.extend_from_slice(Text::unsigned(number).as_bytes());
            let put = Put {
                ttl: Ttl::Keep,
                client_flags: head.client_flags,
                marks: marks_of(&head),
                cas: request.new_cas,
            };
            let facts = ItemFacts {
                head,
                len: new.len(),
                deadline: None,
                idle_ms: None,
            };
            (Edit::Put(put), Ok((number, facts)))
        });
        let (counted, kept) = edited.map_err(|_| CountError::Full)?;
        let (number, mut facts) = counted?;
        facts.head.cas = kept.cas;
        facts.deadline = kept.deadline;
        Ok((number, facts))
    }
}
