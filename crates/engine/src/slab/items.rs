//! memcached's items on the slab engine: values of database 0 in locked shards.

use super::Slab;
use crate::Strings;
use crate::items::{
    CountError, CountRequest, ItemFacts, Items, ReadFields, RemoveOutcome, RemoveRequest,
    StoreAction, StoreOutcome, StoreRequest, Stored, TouchOutcome, counted, store_action,
};
use crate::lifetime::DeadlineChange;
use store::{Class, ItemHead, Key, NewDeadline, Tick, WrongType};
use wire::Output;
use wire::memcached::Mode;
use wire::number::Text;

impl Items for Slab<'_, '_> {
    #[inline]
    fn read(
        &mut self,
        key: &Key<'_>,
        fields: ReadFields,
        out: &mut Output,
        mut write_head: impl FnMut(&mut Output, &ItemFacts) -> ItemHead,
    ) -> Result<bool, WrongType> {
        let deadline = match fields.deadline {
            true => self.view.deadline(key).flatten(),
            false => None,
        };
        let idle_ms = match fields.idle {
            true => self.view.facts(key).and_then(|facts| facts.idle_ms),
            false => None,
        };
        let found = match fields.is_peek {
            true => self.view.peek_item(key),
            false => self.view.item(key),
        };
        let Some((head, value)) = found? else {
            return Ok(false);
        };
        if fields.value && value.len() > fields.value_bytes_max {
            return Err(WrongType);
        }
        let facts = ItemFacts {
            head,
            len: value.len(),
            deadline,
            idle_ms,
        };
        let marked = write_head(out, &facts);
        if fields.value {
            out.extend_from_slice(value);
        }
        if marked != head {
            self.view.mark_item(key, &marked);
        }
        Ok(true)
    }

    #[inline]
    fn store(&mut self, key: &Key<'_>, request: &StoreRequest<'_>) -> StoreOutcome {
        if !self
            .space
            .can_hold(key.db, request.value.len(), request.value.len())
            || self.is_full(key.db)
        {
            // The value could not be stored. The old item is deleted, because it is out of date.
            if request.mode == Mode::Plain {
                self.remove(key);
            }
            return StoreOutcome::Full;
        }
        if request.is_plain() {
            return self.write(key, request, request.value, None);
        }
        let Ok(found) = self.view.peek_item(key) else {
            return match request.mode {
                Mode::Add => StoreOutcome::No,
                _ => StoreOutcome::WrongType,
            };
        };
        match store_action(request, found.map(|(head, _)| head)) {
            StoreAction::Refuse(why) => {
                if request.mode == Mode::Add {
                    // The look-up counts as an access, as in memcached.
                    let _used = self.view.item(key);
                }
                why
            }
            StoreAction::Write => self.write(key, request, request.value, None),
            StoreAction::WriteStale(old) => self.write(key, request, request.value, Some(old)),
            StoreAction::Join(old) => {
                let there = found.map_or(&[][..], |(_, there)| there);
                let len = there.len() + request.value.len();
                if len > request.value_bytes_max {
                    return StoreOutcome::TooLarge;
                }
                if !self.space.can_hold(key.db, len, request.value.len()) {
                    return StoreOutcome::Full;
                }
                let joined = match request.mode {
                    Mode::Prepend => [request.value, there].concat(),
                    _ => [there, request.value].concat(),
                };
                let request = StoreRequest {
                    client_flags: old.client_flags,
                    expiration: DeadlineChange::To(NewDeadline::Keep),
                    ..*request
                };
                self.write(key, &request, &joined, None)
            }
        }
    }

    fn count(
        &mut self,
        key: &Key<'_>,
        request: &CountRequest,
    ) -> Result<(u64, ItemFacts), CountError> {
        let (number, head) = counted(request, self.view.peek_item(key)?)?;
        if self.is_full(key.db) {
            return Err(CountError::Full);
        }
        let cas = self.cas_of(key, request.new_cas);
        let head = ItemHead { cas, ..head };
        let text = Text::unsigned(number);
        let text = text.as_bytes();
        self.view.put_item(key, &head, text, NewDeadline::Keep);
        let event = if request.is_down { "decrby" } else { "incrby" };
        self.view.notify(Class::String, event, key);
        let deadline = match request.asks_deadline {
            true => self.view.deadline(key).flatten(),
            false => None,
        };
        let facts = ItemFacts {
            head,
            len: text.len(),
            deadline,
            idle_ms: None,
        };
        Ok((number, facts))
    }

    fn remove_if(&mut self, key: &Key<'_>, request: &RemoveRequest) -> RemoveOutcome {
        let Ok(found) = self.view.peek_item(key) else {
            return RemoveOutcome::WrongType;
        };
        if let Some(why) = request.refusal(found.map(|(head, _)| head)) {
            return why;
        }
        let Some((head, value)) = found.filter(|_| request.keeps()) else {
            self.remove(key);
            return RemoveOutcome::Yes;
        };
        let value = if request.drops_value {
            vec![]
        } else {
            value.to_vec()
        };
        let cas = self.cas_of(key, request.new_cas);
        let head = ItemHead {
            cas,
            ..request.left(head)
        };
        let expiration = request
            .expiration
            .unwrap_or(DeadlineChange::To(NewDeadline::Keep));
        self.put(key, &head, &value, expiration);
        RemoveOutcome::Yes
    }

    fn touch(&mut self, key: &Key<'_>, expiration: DeadlineChange) -> TouchOutcome {
        let is_there = match expiration {
            DeadlineChange::To(NewDeadline::At(at)) => self.view.set_deadline(key, Some(at)),
            DeadlineChange::To(_) => self.view.set_deadline(key, None),
            DeadlineChange::Past => self.view.expire_now(key),
        };
        if is_there && expiration != DeadlineChange::Past {
            self.view.notify(Class::Generic, "expire", key);
        }
        match is_there {
            true => TouchOutcome::Yes(ends(expiration, self.view.now())),
            false => TouchOutcome::NotFound,
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

    fn describe(&mut self, key: &Key<'_>) -> Option<(ItemFacts, usize)> {
        let (head, len) = match self.view.peek_item(key) {
            Ok(found) => found.map(|(head, value)| (head, value.len()))?,
            Err(_) => return None,
        };
        let entry = self.view.facts(key)?;
        let facts = ItemFacts {
            head,
            len,
            deadline: entry.deadline,
            idle_ms: entry.idle_ms,
        };
        Some((facts, entry.bytes))
    }
}

/// Returns the new deadline after a change. Returns `None` if the deadline is kept, because no
/// caller needs it.
fn ends(expiration: DeadlineChange, now: Tick) -> Option<Tick> {
    match expiration {
        DeadlineChange::To(NewDeadline::At(at)) => Some(at),
        DeadlineChange::To(NewDeadline::Clear | NewDeadline::Keep) => None,
        DeadlineChange::Past => Some(now),
    }
}

impl Slab<'_, '_> {
    fn cas_of(&mut self, key: &Key<'_>, chosen: Option<u64>) -> u64 {
        match chosen {
            Some(cas) => cas,
            None => self.view.next_cas(key),
        }
    }

    /// Stores a value. `stale` is the head of the replaced item if the new value must be marked as
    /// stale.
    #[inline]
    fn write(
        &mut self,
        key: &Key<'_>,
        request: &StoreRequest<'_>,
        value: &[u8],
        stale: Option<ItemHead>,
    ) -> StoreOutcome {
        let cas = self.cas_of(key, request.new_cas);
        let head = ItemHead {
            client_flags: request.client_flags,
            cas,
            is_stale: stale.is_some(),
            has_winner: request.has_winner || stale.is_some_and(|old| old.has_winner),
            is_fetched: request.is_fetched,
        };
        let expiration = if stale.is_some() {
            DeadlineChange::To(NewDeadline::Keep)
        } else {
            request.expiration
        };
        self.put(key, &head, value, expiration);
        StoreOutcome::Yes(Stored {
            cas,
            deadline: ends(expiration, self.view.now()),
            len: value.len(),
        })
    }

    /// Stores an item and publishes events. An item with a deadline in the past expires at once.
    #[inline]
    fn put(&mut self, key: &Key<'_>, head: &ItemHead, value: &[u8], expiration: DeadlineChange) {
        match expiration {
            DeadlineChange::To(deadline) => {
                self.view.put_item(key, head, value, deadline);
                self.view.notify(Class::String, "set", key);
                if matches!(deadline, NewDeadline::At(_)) {
                    self.view.notify(Class::Generic, "expire", key);
                }
            }
            DeadlineChange::Past => {
                self.view.put_item(key, head, value, NewDeadline::Clear);
                self.view.notify(Class::String, "set", key);
                self.view.notify(Class::Generic, "expire", key);
                self.view.expire_now(key);
            }
        }
    }
}
