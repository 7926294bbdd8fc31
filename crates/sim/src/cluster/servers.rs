//! The servers of a cluster at work: where a request looks, what is read, written and given up.
//!
//! ```text
//! lead's memory ── lead's disk ── other servers of the map ── those of older maps ── origin
//!                    └ a copy, or K chunks: the data chunks first, parity for what is missing
//! ```
//! - Who found too little at a server that should have had it writes there what was missing. A server that
//!   was not asked is not mended: parity is looked at only where data is missing.
//! - Of an object of which too few chunks are left, only those missing come from the origin.
//! - What memory answers, disks do not hear of. A server that goes loses its memory and keeps its disk.
//! - Parity is placed by the bytes that were written, not by those that were asked for. Each change of the map
//!   halves what was recorded until then: of two changes in a row, the second would know nothing if it
//!   counted from the first, as the thesis has it.
//! - An object has the size of its first request, an empty one weighs a byte. A large object is not kept
//!   while fewer than K servers are up.

use super::coordination::Coordination;
use super::history::{History, Reach};
use super::latency::Source;
use super::places::{NONE, Row};
use super::presence::Presence;
use super::scheme::{PARTS_MAX, POPULAR_AT, Scheme};
use super::tier::Tier;
use crate::dense::hash_of;
use edge::BucketWrites;
use policy::{Slot, Tick};
use std::collections::HashSet;

/// A request, interned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) object: u32,
    pub(super) bucket: u32,
    pub(super) now: Tick,
    /// Whether it is asked how long it takes.
    pub(super) is_timed: bool,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) source: Source,
    /// Whether some chunks were there, but too few.
    pub(super) is_partial: bool,
    pub(super) origin_bytes: u64,
    pub(super) is_unserved: bool,
}

impl Answer {
    fn of(source: Source) -> Answer {
        Answer {
            source,
            is_partial: false,
            origin_bytes: 0,
            is_unserved: false,
        }
    }

    pub(super) fn is_miss(&self) -> bool {
        self.source == Source::Origin
    }

    fn origin(bytes: u64) -> Answer {
        Answer {
            origin_bytes: bytes,
            ..Answer::of(Source::Origin)
        }
    }
}

/// What servers did since the beginning.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) read_bytes: Vec<u64>,
    pub(super) written_bytes: Vec<u64>,
    pub(super) between_bytes: u64,
    /// Of the bytes written, those that the origin did not have to send: parts missing from what was a hit.
    pub(super) mended_bytes: u64,
    pub(super) messages: u64,
    pub(super) refused: u64,
}

/// Objects, as all servers see them.
#[derive(Clone, Copy)]
pub(super) struct Objects<'t> {
    /// What an object weighs on a disk: itself, or one of its chunks.
    pub(super) weights: &'t [u32],
    /// What it weighs in memory, which is what a client gets.
    pub(super) sizes: &'t [u32],
    /// From this size on, objects are coded; above all sizes where nothing is.
    pub(super) coded_from: u64,
}

impl Objects<'_> {
    pub(super) fn is_coded(&self, object: u32) -> bool {
        u64::from(self.sizes[object as usize]) >= self.coded_from
    }
}

/// Chunks of one object that were found, each number once.
#[derive(Clone, Default)]
struct Chunks {
    mask: u32,
    count: usize,
    servers: [u16; PARTS_MAX],
}

impl Chunks {
    fn add(&mut self, number: u8, server: u16) {
        let bit = 1 << number;
        if self.mask & bit == 0 {
            self.mask |= bit;
            self.servers[self.count] = server;
            self.count += 1;
        }
    }

    fn servers(&self) -> &[u16] {
        &self.servers[..self.count]
    }
}

/// See the module text.
pub(super) struct Servers<'t> {
    pub(super) objects: Objects<'t>,
    scheme: Scheme,
    coordination: Coordination,
    pub(super) disks: Vec<Box<dyn Tier + 't>>,
    /// None where there is no memory tier.
    memories: Vec<Box<dyn Tier + 't>>,
    /// By server and object, which chunk it holds; empty where nothing is coded.
    numbers: Vec<Vec<u8>>,
    pub(super) is_up: Vec<bool>,
    pub(super) presence: Presence,
    /// Requests by object since it came, for [`Scheme::Popular`].
    asked: Vec<u8>,
    /// By bucket, bytes written to all disks together: of whole objects, and of chunks.
    written: Vec<[u64; 2]>,
    pub(super) work: Work,
    /// Reads of coded objects, for who is left out in turn.
    reads: u32,
    gone: Vec<Slot>,
}

impl<'t> Servers<'t> {
    pub(super) fn new(
        objects: Objects<'t>,
        (scheme, coordination): (Scheme, Coordination),
        disks: Vec<Box<dyn Tier + 't>>,
        memories: Vec<Box<dyn Tier + 't>>,
        buckets: usize,
    ) -> Self {
        let (count, object_count) = (disks.len(), objects.sizes.len());
        let by_object = |is_kept: bool| if is_kept { object_count } else { 0 };
        let numbers = match scheme.code() {
            Some(_) => (0..count).map(|_| vec![0; object_count]).collect(),
            None => Vec::new(),
        };
        Servers {
            objects,
            scheme,
            coordination,
            disks,
            memories,
            numbers,
            is_up: vec![true; count],
            presence: Presence::new(object_count),
            asked: vec![0; by_object(scheme == Scheme::Popular)],
            written: vec![[0; 2]; buckets],
            work: Work {
                read_bytes: vec![0; count],
                written_bytes: vec![0; count],
                between_bytes: 0,
                mended_bytes: 0,
                messages: 0,
                refused: 0,
            },
            reads: 0,
            gone: Vec::new(),
        }
    }

    /// A server goes or comes back, with what its disk held.
    pub(super) fn set_up(&mut self, server: u16, is_up: bool, history: &History) {
        let at = usize::from(server);
        if std::mem::replace(&mut self.is_up[at], is_up) == is_up {
            return;
        }
        for slot in self.disks[at].slots() {
            match is_up {
                true => self.came(slot.0, server, history),
                false => self.went(slot.0, server, history),
            }
        }
        if let Some(memory) = self.memories.get_mut(at) {
            memory
                .slots()
                .into_iter()
                .for_each(|slot| memory.remove(slot));
        }
    }

    /// The map has changed, and these servers count otherwise than before.
    pub(super) fn reach(&mut self, changes: &[Reach], history: &History) {
        for own in changes.chunk_by(|one, other| one.server == other.server) {
            let server = own[0].server;
            if !self.is_up[usize::from(server)] {
                continue;
            }
            for slot in self.disks[usize::from(server)].slots() {
                let is_coded = self.objects.is_coded(slot.0);
                let key = (is_coded, history.now().bucket_of(slot.0));
                let at = own.binary_search_by_key(&key, |one| (one.is_coded, one.bucket));
                match at.map(|at| own[at].is_reached) {
                    Ok(true) => self.came(slot.0, server, history),
                    Ok(false) => self.forget(slot.0, server, history),
                    Err(_) => {}
                }
            }
        }
    }

    /// What was written of each bucket lately; none where that is nothing.
    pub(super) fn loads(&self) -> Vec<BucketWrites> {
        if self.written.iter().all(|written| *written == [0; 2]) {
            return Vec::new();
        }
        let chunks = self.scheme.code().map_or(1, |(_, all)| all) as u64;
        let copies = self.scheme.copies() as u64;
        let load = |written: &[u64; 2]| BucketWrites {
            whole_bytes: written[0] / copies,
            chunk_bytes: written[1] / chunks,
        };
        self.written.iter().map(load).collect()
    }

    /// What was written until now counts half from now on.
    pub(super) fn halve_loads(&mut self) {
        self.written
            .iter_mut()
            .flatten()
            .for_each(|bytes| *bytes /= 2);
    }

    fn number(&self, server: u16, object: u32) -> u8 {
        let numbers = self.numbers.get(usize::from(server));
        numbers.map_or(0, |numbers| numbers[object as usize])
    }

    fn is_counted(&self, object: u32, server: u16, history: &History) -> bool {
        let bucket = history.now().bucket_of(object);
        let mut servers = history.lasting(self.objects.is_coded(object), bucket);
        servers.any(|one| one == server)
    }

    /// A server holds it from now on.
    fn came(&mut self, object: u32, server: u16, history: &History) {
        if self.is_counted(object, server, history) {
            let number = self.number(server, object);
            let is_coded = self.objects.is_coded(object);
            self.presence.came(object, is_coded, number);
        }
    }

    /// A server holds it no more.
    pub(super) fn went(&mut self, object: u32, server: u16, history: &History) {
        if self.is_counted(object, server, history) {
            self.forget(object, server, history);
        }
    }

    /// A server's part, which was counted, is not any more.
    fn forget(&mut self, object: u32, server: u16, history: &History) {
        let is_coded = self.objects.is_coded(object);
        let number = self.number(server, object);
        let bucket = history.now().bucket_of(object);
        let is_twin = |other: u16| {
            other != server && self.holds(other, object) && self.number(other, object) == number
        };
        let has_twin =
            self.presence.has_twins(object) && history.lasting(is_coded, bucket).any(is_twin);
        self.presence.went(object, is_coded, number, has_twin);
    }

    /// Answers a request.
    pub(super) fn serve(&mut self, asked: Asked, history: &History) -> Answer {
        let slot = Slot(asked.object);
        let size = u64::from(self.objects.sizes[asked.object as usize]);
        let Some(lead) = history.now().lead(asked.bucket) else {
            return Answer {
                is_unserved: true,
                ..Answer::origin(size)
            };
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead))
            && memory.holds(slot)
        {
            memory.hit(slot, asked.now);
            self.spread_popular(asked, lead, history);
            return Answer::of(Source::Memory);
        }
        let answer = match self.scheme.code() {
            Some(code) if self.objects.is_coded(asked.object) => {
                self.serve_chunks(asked, code, lead, history)
            }
            _ => self.serve_copy(asked, lead, history),
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead)) {
            memory.insert(slot, asked.now, &mut self.gone);
            self.gone.clear();
        }
        answer
    }

    pub(super) fn holds(&self, server: u16, object: u32) -> bool {
        server != NONE
            && self.is_up[usize::from(server)]
            && self.disks[usize::from(server)].holds(Slot(object))
    }

    /// An object that is kept whole.
    fn serve_copy(&mut self, asked: Asked, lead: u16, history: &History) -> Answer {
        let object = asked.object as usize;
        let size = u64::from(self.objects.sizes[object]);
        let row = history.row(false, asked.bucket);
        let older = history.elsewhere(false, asked.bucket);
        let asked_first = match self.coordination.lead_alone {
            true => 1,
            false => usize::MAX,
        };
        let mut places = row.iter().chain(older).copied().take(asked_first);
        let found = places.find(|&server| self.holds(server, asked.object));
        let Some(server) = found else {
            let is_popular = self.scheme == Scheme::Popular;
            if is_popular {
                self.asked[object] = 0;
            }
            let copies = if is_popular { 1 } else { row.len() };
            for &server in &row[..copies] {
                self.write(asked, server, 0, lead, history);
            }
            return Answer::origin(size);
        };
        if self.read(asked, server, lead) && self.coordination.telling.has_hits() {
            self.tell_hit(asked, row, &[server]);
        }
        if server != lead {
            self.work.mended_bytes += self.write(asked, lead, 0, lead, history);
        }
        self.spread_popular(asked, lead, history);
        Answer::of(match server == lead {
            true => Source::Local,
            false => Source::Peer,
        })
    }

    /// Counts a hit, and writes the second copy of what has become popular by it.
    fn spread_popular(&mut self, asked: Asked, lead: u16, history: &History) {
        let Some(times) = self.asked.get_mut(asked.object as usize) else {
            return;
        };
        *times = times.saturating_add(1);
        if *times == POPULAR_AT
            && let Some(&second) = history.row(false, asked.bucket).get(1)
        {
            self.write(asked, second, 0, lead, history);
        }
    }

    /// An object that is coded.
    fn serve_chunks(
        &mut self,
        asked: Asked,
        (data, all): (usize, usize),
        lead: u16,
        history: &History,
    ) -> Answer {
        let size = u64::from(self.objects.sizes[asked.object as usize]);
        let row = history.row(true, asked.bucket);
        if row.iter().filter(|&&server| server != NONE).count() < data {
            return Answer::origin(size);
        }
        let mut found = Chunks::default();
        let mut lacking = 0;
        if !self.coordination.lead_alone || self.holds(lead, asked.object) {
            let (first, mendable) = self.turn(data, all);
            for seat in (0..all).map(|at| (first + at) % all) {
                if found.count == data {
                    break;
                }
                let server = row[seat];
                match self.holds(server, asked.object) {
                    true => found.add(self.number(server, asked.object), server),
                    false => lacking |= 1 << seat & mendable,
                }
            }
            let older = history.elsewhere(true, asked.bucket);
            self.look(asked.object, older, data, &mut found);
        }
        let mut is_changed = false;
        for &server in found.servers() {
            is_changed |= self.read(asked, server, lead);
        }
        if found.count == data {
            if is_changed && self.coordination.telling.has_hits() {
                self.tell_hit(asked, row, found.servers());
            }
            let spare = self.spare(asked, row, &found);
            if lacking != 0 {
                self.work.mended_bytes += self.mend(asked, lacking, row, lead, history);
            }
            let is_decoded = found.mask != (1 << data) - 1;
            return Answer::of(Source::Chunks { spare, is_decoded });
        }
        let weight = u64::from(self.objects.weights[asked.object as usize]);
        self.mend(asked, u32::MAX, row, lead, history);
        let missing = (data - found.count) as u64 * weight;
        Answer {
            is_partial: found.count > 0,
            ..Answer::origin(missing.min(size))
        }
    }

    /// The seat that is asked first, and those that are mended if they are asked for nothing.
    fn turn(&mut self, data: usize, all: usize) -> (usize, u32) {
        if !self.coordination.reads_in_turn {
            return (0, (1 << data) - 1);
        }
        self.reads = self.reads.wrapping_add(1);
        let first = hash_of(Slot(self.reads)) % all as u64;
        (first as usize, u32::MAX)
    }

    /// Chunks on the servers of the row that a late one of those found can be made up for with. Looked for
    /// only where somebody asks for the time.
    fn spare(&self, asked: Asked, row: Row<'_>, found: &Chunks) -> usize {
        if !asked.is_timed {
            return 0;
        }
        let mut all = found.clone();
        self.look(asked.object, row, usize::MAX, &mut all);
        all.count - found.count
    }

    /// Collects chunks on these servers until there are enough.
    fn look(&self, object: u32, servers: &[u16], enough: usize, found: &mut Chunks) {
        for &server in servers {
            if found.count == enough {
                return;
            }
            if self.holds(server, object) {
                found.add(self.numbers[usize::from(server)][object as usize], server);
            }
        }
    }

    /// Writes the chunks that these seats of a row lack, a bit each, and tells how many bytes that were. A seat
    /// gets the chunk of its number unless that is elsewhere in the row; then one that is nowhere.
    fn mend(
        &mut self,
        asked: Asked,
        seats: u32,
        row: Row<'_>,
        lead: u16,
        history: &History,
    ) -> u64 {
        let mut kept = Chunks::default();
        self.look(asked.object, row, usize::MAX, &mut kept);
        let mut written = 0;
        for (number, &server) in row.iter().enumerate() {
            let is_meant = seats >> number & 1 != 0;
            if !is_meant || server == NONE || self.holds(server, asked.object) {
                continue;
            }
            let mut number = number as u8;
            if kept.mask >> number & 1 != 0 {
                let free = (!kept.mask).trailing_zeros();
                if (free as usize) < row.len() {
                    number = free as u8;
                }
            }
            kept.mask |= 1 << number;
            written += self.write(asked, server, number, lead, history);
        }
        written
    }

    /// True if the server's policy keeps something of it.
    fn read(&mut self, asked: Asked, server: u16, lead: u16) -> bool {
        let weight = u64::from(self.objects.weights[asked.object as usize]);
        let is_changed = self.disks[usize::from(server)].hit(Slot(asked.object), asked.now);
        self.work.read_bytes[usize::from(server)] += weight;
        if server != lead {
            self.work.between_bytes += weight;
            self.tell_hand(lead, server);
            self.tell_hand(server, lead);
        }
        is_changed
    }

    /// The bytes that the server took.
    fn write(
        &mut self,
        asked: Asked,
        server: u16,
        number: u8,
        lead: u16,
        history: &History,
    ) -> u64 {
        let at = usize::from(server);
        let object = asked.object;
        if self.holds(server, object) {
            return 0;
        }
        let mut written = 0;
        self.tell_hand(lead, server);
        let mut gone = std::mem::take(&mut self.gone);
        let is_kept = self.disks[at].insert(Slot(object), asked.now, &mut gone);
        if is_kept {
            let weight = u64::from(self.objects.weights[object as usize]);
            written = weight;
            let is_coded = self.objects.is_coded(object);
            if is_coded {
                self.numbers[at][object as usize] = number;
            }
            self.came(object, server, history);
            self.written[asked.bucket as usize][usize::from(is_coded)] += weight;
            self.work.written_bytes[at] += weight;
            if server != lead {
                self.work.between_bytes += weight;
            }
        } else {
            self.work.refused += 1;
        }
        self.tell_hand(server, lead);
        for victim in gone.drain(..) {
            self.went(victim.0, server, history);
            if self.coordination.telling.has_evictions() {
                self.tell_eviction(victim, history);
            }
        }
        self.gone = gone;
        written
    }

    /// What goes from one server to another carries how far the sender knows a hand to be.
    fn tell_hand(&mut self, from: u16, to: u16) {
        if let Some(hand) = self.disks[usize::from(from)].furthest_hand() {
            self.disks[usize::from(to)].told_of_hand(hand);
        }
    }

    /// Servers of the row that keep a part and were not read hear of the hit.
    fn tell_hit(&mut self, asked: Asked, row: Row<'_>, known: &[u16]) {
        for &server in row {
            if !known.contains(&server) && self.holds(server, asked.object) {
                self.disks[usize::from(server)].hit(Slot(asked.object), asked.now);
                self.work.messages += 1;
            }
        }
    }

    /// The other servers of an object that one has given up give it up, too.
    fn tell_eviction(&mut self, victim: Slot, history: &History) {
        let is_coded = self.objects.is_coded(victim.0);
        let bucket = history.now().bucket_of(victim.0);
        let older = history.elsewhere(is_coded, bucket);
        for &server in history.row(is_coded, bucket).iter().chain(older) {
            if self.holds(server, victim.0) {
                self.disks[usize::from(server)].remove(victim);
                self.went(victim.0, server, history);
                self.work.messages += 1;
            }
        }
    }

    /// Panics where the parts counted are not those that would be found. Walks everything.
    pub(super) fn check(&mut self, history: &History) {
        self.disks.iter_mut().for_each(|disk| disk.check());
        for object in 0..self.objects.sizes.len() as u32 {
            let is_coded = self.objects.is_coded(object);
            let servers = history.lasting(is_coded, history.now().bucket_of(object));
            let servers: Vec<u16> = servers.filter(|&one| self.holds(one, object)).collect();
            let numbers: HashSet<u8> = servers
                .iter()
                .map(|&one| self.number(one, object))
                .collect();
            let found = if is_coded {
                numbers.len()
            } else {
                servers.len()
            };
            assert_eq!(found, self.presence.parts(object, is_coded));
        }
    }
}
