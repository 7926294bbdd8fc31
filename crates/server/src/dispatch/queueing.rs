//! Commands between MULTI and EXEC.

use super::execution::Engine;
use super::{Executor, Step};
use crate::command;
use crate::context::Chosen;
use engine::refusal::refuse_full;
use session::locks::{Locks, Room, lock, make_room};
use session::session::Session;
use session::spec::flag;
use store::Full;
use wire::{Args, Reply};

impl Executor<'_> {
    /// Queues a command after MULTI, or refuses it.
    pub(super) fn queue(
        &mut self,
        session: &mut Session,
        chosen: Chosen,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Step {
        let full = match chosen.flags() & flag::DENYOOM != 0 {
            _ if self.server.data.keyspace.is_outside_full() => Some(Full::Memory),
            // EXEC checks the databases that the transaction selects.
            true => self.lacks_room(session.db).filter(|full| {
                let queued = session.transaction.as_ref();
                let mut calls = queued.into_iter().flat_map(|queued| queued.iter());
                let selects = |(index, _)| command::table()[index as usize].name == "select";
                *full == Full::Memory || !calls.any(selects)
            }),
            false => None,
        };
        if let Some(full) = full {
            session.break_transaction();
            reply.error(&refuse_full(&self.server.data.keyspace, session.db, full));
            return Step::Refused;
        }
        let command = (chosen.index, chosen.spec);
        if command::transaction::queue(&self.server.config, session, command, args, reply) {
            Step::Queued
        } else {
            Step::Refused
        }
    }

    /// Returns why writes to a database are refused, if they are: nothing can be evicted.
    fn lacks_room(&mut self, db: u8) -> Option<Full> {
        let (space, now) = (&self.server.data.keyspace, self.now);
        let room = match &mut self.engine {
            Engine::Slab(held) => match held.whole.as_mut() {
                Some(view) => make_room(space, view, &Locks::All, db),
                None => {
                    let locks = Locks::Some(Vec::new());
                    make_room(space, &mut lock(space, &locks, now), &locks, db)
                }
            },
            Engine::Segment(_) => Room::Free,
        };
        match room {
            Room::None(full) => Some(full),
            Room::Free | Room::Made => None,
        }
    }
}
