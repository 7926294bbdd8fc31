//! memcached's items on the segment engine: objects with the client's flags, and marks in their metadata.
//!
//! A cas number is that of the object's bucket in the table, which about ten objects share. So a `cas` may
//! return `EXISTS` because of a neighbour, but it never overwrites a change. A cas number that a client
//! has chosen is stored behind the value.

use super::strings::hashed;
use super::{Edit, Found, Hand, Life, Marks, Put};
use crate::command::lifetime::Fate;
use crate::engine::Strings;
use crate::engine::items::{
    Asks, Counting, Items, NoCount, Removed, Removing, Seen, Stored, Storing, Touched, Verdict,
    counted, judge, number_of,
};
use segment::{Condition, Refused, Segcache, Unchanged, Value};
use store::{ItemHead, Key, WrongType};
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

fn seen_of(found: &Found) -> Seen {
    Seen {
        head: head_of(found),
        len: found.len,
        deadline: found.deadline,
        idle_ms: None,
    }
}

fn marks_of(head: &ItemHead) -> Marks {
    Marks::new(head.is_stale, head.has_winner, head.is_fetched)
}

impl Items for &mut Hand<'_> {
    #[inline]
    fn read(
        &mut self,
        key: &Key<'_>,
        asks: Asks,
        out: &mut Vec<u8>,
        mut tell: impl FnMut(&mut Vec<u8>, &Seen) -> ItemHead,
    ) -> Result<bool, WrongType> {
        let (key, begin) = (hashed(key), out.len());
        loop {
            let mut marked = ItemHead::default();
            let frame = |out: &mut Vec<u8>, found: &Found| marked = tell(out, &seen_of(found));
            let found = match asks.value {
                true => self.get(&key, out, frame),
                false => self.get_head(&key, out, frame),
            };
            let Some(found) = found else {
                return Ok(false);
            };
            if marked == head_of(&found) || self.mark(&key, &found, &marked) {
                return Ok(true);
            }
            out.truncate(begin);
        }
    }

    #[inline]
    fn store(&mut self, key: &Key<'_>, what: &Storing<'_>) -> Stored {
        let key = hashed(key);
        let put = Put {
            life: Life::of(what.fate, self.now),
            client_flags: what.client_flags,
            marks: Marks::new(false, what.has_winner, what.has_winner),
            cas: what.new_cas,
        };
        let condition = match what.mode {
            Mode::Add => Condition::Absent,
            Mode::Replace if what.cas.is_none() => Condition::Present,
            _ if what.is_plain() => Condition::Always,
            _ => return self.store_by_what_is_there(&key, what, &put),
        };
        match Hand::put(self, &key, what.value, &put, condition) {
            Ok(kept) => Stored::Yes(kept.cas, kept.deadline),
            Err(Refused::IsPresent) => {
                // It counts as used, as in memcached.
                let _used = self.cache.contains(&key, self.now);
                Stored::No
            }
            Err(Refused::IsAbsent | Refused::IsChanged) => Stored::No,
            Err(why) => self.store_in_vain(&key, what, why),
        }
    }

    fn count(&mut self, key: &Key<'_>, how: &Counting) -> Result<(u64, Seen), NoCount> {
        let key = hashed(key);
        if how.cas.is_some() || how.new_cas.is_some() {
            return self.count_by_what_is_there(&key, how);
        }
        loop {
            let change = |number| Some(how.after(number));
            match self.update_number(&key, number_of, change) {
                Ok((number, found)) => return Ok((number, seen_of(&found))),
                Err(Unchanged::Absent) => return Err(NoCount::NotFound),
                // It may have a chosen cas number behind it.
                Err(Unchanged::NoNumber | Unchanged::Declined) => {
                    return self.count_by_what_is_there(&key, how);
                }
                // Others were faster again and again.
                Err(Unchanged::Refused(Refused::IsChanged)) => {}
                Err(Unchanged::Refused(_)) => return Err(NoCount::Full),
            }
        }
    }

    fn remove_if(&mut self, key: &Key<'_>, how: &Removing) -> Removed {
        let key = hashed(key);
        let is_mark = how.makes_stale
            && !how.drops_value
            && how.cas.is_none()
            && how.new_cas.is_none()
            && how.fate.is_none();
        if is_mark && let Some(removed) = self.make_stale(&key) {
            return removed;
        }
        let now = self.now;
        let edited = self.edit(&key, |found, new| {
            let old = found.map(|(found, _)| head_of(found));
            if let Some(why) = how.judge(old) {
                return (Edit::Leave, why);
            }
            let Some((head, value)) = old.zip(found.map(|(_, value)| value)) else {
                return (Edit::Leave, Removed::NotFound);
            };
            if !how.keeps() {
                return (Edit::Delete, Removed::Yes);
            }
            if !how.drops_value {
                new.extend_from_slice(value);
            }
            let head = how.left(head);
            let put = Put {
                life: how.fate.map_or(Life::Keep, |fate| Life::of(fate, now)),
                client_flags: head.client_flags,
                marks: marks_of(&head),
                cas: how.new_cas,
            };
            (Edit::Put(put), Removed::Yes)
        });
        edited.map_or(Removed::Full, |(removed, _)| removed)
    }

    fn touch(&mut self, key: &Key<'_>, fate: Fate) -> Touched {
        let ttl_ms = match Life::of(fate, self.now) {
            Life::Over => {
                return match self.remove(key) {
                    true => Touched::Yes(Some(self.now)),
                    false => Touched::NotFound,
                };
            }
            Life::For(ttl_ms) => Some(ttl_ms),
            Life::Keep | Life::Endless | Life::Until(_) => None,
        };
        match self.change_deadline(&hashed(key), |_| Some(ttl_ms)) {
            Ok(Some(receipt)) => Touched::Yes(receipt.deadline),
            Ok(None) => Touched::NotFound,
            Err(_) => Touched::Full,
        }
    }

    fn mark_fetched(&mut self, key: &Key<'_>) {
        let fetched = |old: Marks| Marks::new(old.is_stale, old.has_winner, true);
        self.change_marks(&hashed(key), false, |old| {
            (!old.is_fetched).then(|| fetched(old))
        });
    }

    fn describe(&mut self, key: &Key<'_>) -> Option<(Seen, usize)> {
        let mut bytes = Vec::new();
        let found = self.peek(&hashed(key), &mut bytes)?;
        let value = Value {
            bytes: &bytes,
            client_flags: found.client_flags,
            marks: 0,
        };
        let size = Segcache::object_bytes(key.bytes, value)?;
        Some((seen_of(&found), size))
    }
}

impl Hand<'_> {
    /// Marks what was found; false when it has changed since.
    fn mark(&mut self, key: &segment::Key<&[u8]>, found: &Found, marked: &ItemHead) -> bool {
        let marks = marks_of(marked);
        if marked.cas == found.cas {
            return self.mark_if_unchanged(key, found, marks);
        }
        // A number of the client's choice takes the place of the one that was there.
        let edited = self.edit(key, |there, new| match there {
            Some((there, value)) if there == found => {
                new.extend_from_slice(value);
                let put = Put {
                    life: Life::Keep,
                    client_flags: found.client_flags,
                    marks,
                    cas: Some(marked.cas),
                };
                (Edit::Put(put), true)
            }
            _ => (Edit::Leave, false),
        });
        // Without room for the number, what was told stands all the same.
        edited.is_ok_and(|(is_done, _)| is_done) || edited.is_err()
    }

    /// Out of date from now on; `None` where that takes more than a mark.
    fn make_stale(&mut self, key: &segment::Key<&[u8]>) -> Option<Removed> {
        let stale = |old: Marks| Marks::new(true, false, old.is_fetched);
        match self.change_marks(key, true, |old| (!old.has_cas()).then(|| stale(old))) {
            None => Some(Removed::NotFound),
            Some(old) if old.has_cas() => None,
            Some(_) => Some(Removed::Yes),
        }
    }

    fn store_by_what_is_there(
        &mut self,
        key: &segment::Key<&[u8]>,
        what: &Storing<'_>,
        put: &Put,
    ) -> Stored {
        let edited = self.edit(key, |found, new| {
            let value = what.value;
            let there = found.map_or(&[][..], |(_, there)| there);
            let put = match judge(what, found.map(|(found, _)| head_of(found))) {
                Verdict::Refuse(why) => return (Edit::Leave, why),
                Verdict::Write => {
                    new.extend_from_slice(value);
                    *put
                }
                Verdict::WriteStale(old) => {
                    new.extend_from_slice(value);
                    Put {
                        life: Life::Keep,
                        marks: Marks::new(true, old.has_winner, false),
                        ..*put
                    }
                }
                Verdict::Join(old) => {
                    let (front, back) = match what.mode {
                        Mode::Prepend => (value, there),
                        _ => (there, value),
                    };
                    new.extend_from_slice(front);
                    new.extend_from_slice(back);
                    Put {
                        life: Life::Keep,
                        client_flags: old.client_flags,
                        ..*put
                    }
                }
            };
            (Edit::Put(put), Stored::Yes(0, None))
        });
        match edited {
            Ok((Stored::Yes(..), kept)) => Stored::Yes(kept.cas, kept.deadline),
            Ok((stored, _)) => stored,
            Err(why) => self.store_in_vain(key, what, why),
        }
    }

    /// What could not be replaced is out of date.
    fn store_in_vain(
        &mut self,
        key: &segment::Key<&[u8]>,
        what: &Storing<'_>,
        why: Refused,
    ) -> Stored {
        if what.mode == Mode::Plain {
            let _was_there = self.cache.delete(key, Condition::Always, self.now);
        }
        match why {
            Refused::TooLarge => Stored::TooLarge,
            _ => Stored::Full,
        }
    }

    fn count_by_what_is_there(
        &mut self,
        key: &segment::Key<&[u8]>,
        how: &Counting,
    ) -> Result<(u64, Seen), NoCount> {
        let edited = self.edit(key, |found, new| {
            let there = found.map(|(found, value)| (head_of(found), value));
            let (number, head) = match counted(how, there) {
                Ok(counted) => counted,
                Err(why) => return (Edit::Leave, Err(why)),
            };
            new.extend_from_slice(Text::unsigned(number).as_bytes());
            let put = Put {
                life: Life::Keep,
                client_flags: head.client_flags,
                marks: marks_of(&head),
                cas: how.new_cas,
            };
            let seen = Seen {
                head,
                len: new.len(),
                deadline: None,
                idle_ms: None,
            };
            (Edit::Put(put), Ok((number, seen)))
        });
        let (counted, kept) = edited.map_err(|_| NoCount::Full)?;
        let (number, mut seen) = counted?;
        seen.head.cas = kept.cas;
        seen.deadline = kept.deadline;
        Ok((number, seen))
    }
}
