//! memcached's items on the slab engine: values of database 0, under their shards' locks.

use super::Slab;
use crate::command::lifetime::Fate;
use crate::engine::Strings;
use crate::engine::items::{
    Asks, Counting, Items, NoCount, Removed, Removing, Seen, Stored, Storing, Touched, Verdict,
    counted, judge,
};
use store::{Class, ItemHead, Key, NewDeadline, Tick, WrongType};
use wire::memcached::Mode;
use wire::number::Text;

impl Items for Slab<'_, '_> {
    #[inline]
    fn read(
        &mut self,
        key: &Key<'_>,
        asks: Asks,
        out: &mut Vec<u8>,
        mut tell: impl FnMut(&mut Vec<u8>, &Seen) -> ItemHead,
    ) -> Result<bool, WrongType> {
        let deadline = match asks.deadline {
            true => self.view.deadline(key).flatten(),
            false => None,
        };
        let idle_ms = match asks.idle {
            true => self.view.facts(key).and_then(|facts| facts.idle_ms),
            false => None,
        };
        let Some((head, value)) = self.view.item(key)? else {
            return Ok(false);
        };
        let seen = Seen {
            head,
            len: value.len(),
            deadline,
            idle_ms,
        };
        let marked = tell(out, &seen);
        if asks.value {
            out.extend_from_slice(value);
        }
        if marked != head {
            self.view.mark_item(key, &marked);
        }
        Ok(true)
    }

    #[inline]
    fn store(&mut self, key: &Key<'_>, what: &Storing<'_>) -> Stored {
        if self.is_full() {
            // What could not be replaced is out of date.
            if what.mode == Mode::Plain {
                self.remove(key);
            }
            return Stored::Full;
        }
        if what.is_plain() {
            return self.write(key, what, what.value, None);
        }
        let Ok(found) = self.view.peek_item(key) else {
            return match what.mode {
                Mode::Add => Stored::No,
                _ => Stored::WrongType,
            };
        };
        match judge(what, found.map(|(head, _)| head)) {
            Verdict::Refuse(why) => {
                if what.mode == Mode::Add {
                    // It counts as used, as in memcached.
                    let _used = self.view.item(key);
                }
                why
            }
            Verdict::Write => self.write(key, what, what.value, None),
            Verdict::WriteStale(old) => self.write(key, what, what.value, Some(old)),
            Verdict::Join(old) => {
                let there = found.map_or(&[][..], |(_, there)| there);
                let joined = match what.mode {
                    Mode::Prepend => [what.value, there].concat(),
                    _ => [there, what.value].concat(),
                };
                let what = Storing {
                    client_flags: old.client_flags,
                    fate: Fate::Lives(NewDeadline::Keep),
                    ..*what
                };
                self.write(key, &what, &joined, None)
            }
        }
    }

    fn count(&mut self, key: &Key<'_>, how: &Counting) -> Result<(u64, Seen), NoCount> {
        let (number, head) = counted(how, self.view.peek_item(key)?)?;
        if self.is_full() {
            return Err(NoCount::Full);
        }
        let cas = self.cas_of(key, how.new_cas);
        let head = ItemHead { cas, ..head };
        let text = Text::unsigned(number);
        let text = text.as_bytes();
        self.view.put_item(key, &head, text, NewDeadline::Keep);
        let event = if how.is_down { "decrby" } else { "incrby" };
        self.view.notify(Class::String, event, key);
        let deadline = match how.asks_deadline {
            true => self.view.deadline(key).flatten(),
            false => None,
        };
        let seen = Seen {
            head,
            len: text.len(),
            deadline,
            idle_ms: None,
        };
        Ok((number, seen))
    }

    fn remove_if(&mut self, key: &Key<'_>, how: &Removing) -> Removed {
        let Ok(found) = self.view.peek_item(key) else {
            return Removed::WrongType;
        };
        if let Some(why) = how.judge(found.map(|(head, _)| head)) {
            return why;
        }
        let Some((head, value)) = found.filter(|_| how.keeps()) else {
            self.remove(key);
            return Removed::Yes;
        };
        let value = if how.drops_value {
            vec![]
        } else {
            value.to_vec()
        };
        let cas = self.cas_of(key, how.new_cas);
        let head = ItemHead {
            cas,
            ..how.left(head)
        };
        let fate = how.fate.unwrap_or(Fate::Lives(NewDeadline::Keep));
        self.put(key, &head, &value, fate);
        Removed::Yes
    }

    fn touch(&mut self, key: &Key<'_>, fate: Fate) -> Touched {
        let is_there = match fate {
            Fate::Lives(NewDeadline::At(at)) => self.view.set_deadline(key, Some(at)),
            Fate::Lives(_) => self.view.set_deadline(key, None),
            Fate::IsDead => self.view.expire_now(key),
        };
        if is_there && fate != Fate::IsDead {
            self.view.notify(Class::Generic, "expire", key);
        }
        match is_there {
            true => Touched::Yes(ends(fate, self.view.now())),
            false => Touched::NotFound,
        }
    }

    fn mark_fetched(&mut self, key: &Key<'_>) {
        if let Ok(Some((head, _))) = self.view.peek_item(key)
            && !head.is_fetched
        {
            let head = ItemHead {
                is_fetched: true,
                ..head
            };
            self.view.mark_item(key, &head);
        }
    }

    fn describe(&mut self, key: &Key<'_>) -> Option<(Seen, usize)> {
        let (head, len) = match self.view.peek_item(key) {
            Ok(found) => found.map(|(head, value)| (head, value.len()))?,
            Err(_) => return None,
        };
        let facts = self.view.facts(key)?;
        let seen = Seen {
            head,
            len,
            deadline: facts.deadline,
            idle_ms: facts.idle_ms,
        };
        Some((seen, facts.bytes))
    }
}

/// When a fate's life ends. One that is kept is not looked up: nobody asks for it.
fn ends(fate: Fate, now: Tick) -> Option<Tick> {
    match fate {
        Fate::Lives(NewDeadline::At(at)) => Some(at),
        Fate::Lives(NewDeadline::Clear | NewDeadline::Keep) => None,
        Fate::IsDead => Some(now),
    }
}

impl Slab<'_, '_> {
    fn cas_of(&mut self, key: &Key<'_>, chosen: Option<u64>) -> u64 {
        match chosen {
            Some(cas) => cas,
            None => self.view.next_cas(key),
        }
    }

    /// Stores; `stale` is what was there if the new value is out of date already.
    #[inline]
    fn write(
        &mut self,
        key: &Key<'_>,
        what: &Storing<'_>,
        value: &[u8],
        stale: Option<ItemHead>,
    ) -> Stored {
        let cas = self.cas_of(key, what.new_cas);
        let head = ItemHead {
            client_flags: what.client_flags,
            cas,
            is_stale: stale.is_some(),
            has_winner: what.has_winner || stale.is_some_and(|old| old.has_winner),
            is_fetched: what.has_winner,
        };
        let fate = if stale.is_some() {
            Fate::Lives(NewDeadline::Keep)
        } else {
            what.fate
        };
        self.put(key, &head, value, fate);
        Stored::Yes(cas, ends(fate, self.view.now()))
    }

    /// Writes an item and tells listeners; one whose time is past expires at once.
    #[inline]
    fn put(&mut self, key: &Key<'_>, head: &ItemHead, value: &[u8], fate: Fate) {
        match fate {
            Fate::Lives(deadline) => {
                self.view.put_item(key, head, value, deadline);
                self.view.notify(Class::String, "set", key);
                if matches!(deadline, NewDeadline::At(_)) {
                    self.view.notify(Class::Generic, "expire", key);
                }
            }
            Fate::IsDead => {
                self.view.put_item(key, head, value, NewDeadline::Clear);
                self.view.notify(Class::String, "set", key);
                self.view.notify(Class::Generic, "expire", key);
                self.view.expire_now(key);
            }
        }
    }
}
