//! The servers of a cluster at work: where a request looks, what is read, written and given up.
//!
//! ```text
//! lead's memory ── lead's disk ── other servers of the map ── those of the map before ── origin
//!                    └ a copy, or K chunks: the data chunks first, parity for what is missing
//! ```
//! - Who found too little at a server that should have had it writes there what was missing. A server that
//!   was not asked is not mended: parity is looked at only where data is missing.
//! - Of an object of which too few chunks are left, only those missing come from the origin.
//! - What memory answers, disks do not hear of.
//! - An object has the size of its first request, an empty one weighs a byte. A large object is not kept
//!   while fewer than K servers are up.

use super::latency::Source;
use super::places::{NONE, Places, Row};
use super::presence::Presence;
use super::scheme::{PARTS_MAX, POPULAR_AT, Scheme};
use super::tier::Tier;
use edge::Load;
use policy::{Slot, Tick};

/// What servers tell each other beyond the data, so that chunks of an object leave together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordination {
    /// Servers that keep a part which a hit did not need are told of the hit, if it changed anything
    /// for the policy of one that was read: SIEVE hears of the first hit, S3-FIFO of the first three.
    pub tells_hits: bool,
    /// A server that gives up a chunk or a copy tells the others, which give up theirs.
    pub tells_evictions: bool,
}

/// A request, interned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) object: u32,
    pub(super) bucket: u32,
    pub(super) now: Tick,
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
#[derive(Default)]
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
    /// By bucket, since the last change of the map.
    pub(super) loads: Vec<Load>,
    pub(super) work: Work,
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
            loads: vec![Load::default(); buckets],
            work: Work {
                read_bytes: vec![0; count],
                written_bytes: vec![0; count],
                between_bytes: 0,
                messages: 0,
                refused: 0,
            },
            gone: Vec::new(),
        }
    }

    /// A server goes or comes back, with what it held.
    pub(super) fn set_up(&mut self, server: usize, is_up: bool) {
        if std::mem::replace(&mut self.is_up[server], is_up) == is_up {
            return;
        }
        for slot in self.disks[server].slots() {
            let is_coded = self.objects.is_coded(slot.0);
            match is_up {
                true => self.presence.came(slot.0, is_coded),
                false => self.presence.went(slot.0, is_coded),
            }
        }
    }

    /// Answers a request under this map; `before` is the one before.
    pub(super) fn serve(&mut self, asked: Asked, map: &Places, before: &Places) -> Answer {
        let slot = Slot(asked.object);
        let size = u64::from(self.objects.sizes[asked.object as usize]);
        let Some(lead) = map.lead(asked.bucket) else {
            return Answer {
                is_unserved: true,
                ..Answer::origin(size)
            };
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead))
            && memory.holds(slot)
        {
            memory.hit(slot, asked.now);
            return Answer::of(Source::Memory);
        }
        let answer = match self.scheme.code() {
            Some(code) if self.objects.is_coded(asked.object) => {
                let rows = (map.chunks(asked.bucket), before.chunks(asked.bucket));
                self.serve_chunks(asked, code, lead, rows, (map, before))
            }
            _ => {
                let rows = (map.copies(asked.bucket), before.copies(asked.bucket));
                self.serve_copy(asked, lead, rows, (map, before))
            }
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead)) {
            memory.insert(slot, asked.now, &mut self.gone);
            self.gone.clear();
        }
        answer
    }

    fn holds(&self, server: u16, object: u32) -> bool {
        server != NONE
            && self.is_up[usize::from(server)]
            && self.disks[usize::from(server)].holds(Slot(object))
    }

    /// An object that is kept whole.
    fn serve_copy(
        &mut self,
        asked: Asked,
        lead: u16,
        (row, old): (Row<'_>, Row<'_>),
        maps: (&Places, &Places),
    ) -> Answer {
        let object = asked.object as usize;
        let size = u64::from(self.objects.sizes[object]);
        let mut places = row.iter().chain(old).copied();
        let found = places.find(|&server| self.holds(server, asked.object));
        let Some(server) = found else {
            let is_popular = self.scheme == Scheme::Popular;
            if is_popular {
                self.asked[object] = 0;
            }
            let copies = if is_popular { 1 } else { row.len() };
            self.loads[asked.bucket as usize].whole_bytes += size;
            for &server in &row[..copies] {
                self.write(asked, server, 0, lead, maps);
            }
            return Answer::origin(size);
        };
        if self.read(asked, server, lead) && self.coordination.tells_hits {
            self.tell_hit(asked, row, &[server]);
        }
        if server != lead {
            self.write(asked, lead, 0, lead, maps);
        }
        if let Some(times) = self.asked.get_mut(object) {
            *times = times.saturating_add(1);
            if *times == POPULAR_AT
                && let Some(&second) = row.get(1)
                && !self.holds(second, asked.object)
            {
                self.write(asked, second, 0, lead, maps);
            }
        }
        Answer::of(match server == lead {
            true => Source::Local,
            false => Source::Peer,
        })
    }

    /// An object that is coded.
    fn serve_chunks(
        &mut self,
        asked: Asked,
        (data, all): (usize, usize),
        lead: u16,
        (row, old): (Row<'_>, Row<'_>),
        maps: (&Places, &Places),
    ) -> Answer {
        let size = u64::from(self.objects.sizes[asked.object as usize]);
        if row.iter().filter(|&&server| server != NONE).count() < data {
            return Answer::origin(size);
        }
        let mut found = Chunks::default();
        self.look(asked.object, &row[..data], data, &mut found);
        let is_direct = found.count == data;
        self.look(asked.object, &row[data..], data, &mut found);
        self.look(asked.object, old, data, &mut found);
        let mut is_changed = false;
        for &server in found.servers() {
            is_changed |= self.read(asked, server, lead);
        }
        let is_hit = found.count == data;
        if is_hit && is_changed && self.coordination.tells_hits {
            self.tell_hit(asked, row, found.servers());
        }
        if is_direct {
            let is_decoded = found.mask != (1 << data) - 1;
            let spare = all - data;
            return Answer::of(Source::Chunks { spare, is_decoded });
        }
        let weight = self.objects.weights[asked.object as usize];
        if !is_hit {
            self.loads[asked.bucket as usize].chunk_bytes += u64::from(weight);
        }
        let reach = if is_hit { data } else { all };
        self.mend(asked, &row[..reach], row, lead, maps);
        if is_hit {
            return Answer::of(Source::Chunks {
                spare: 0,
                is_decoded: true,
            });
        }
        let missing = (data - found.count) as u64 * u64::from(weight);
        Answer {
            is_partial: found.count > 0,
            ..Answer::origin(missing.min(size))
        }
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

    /// Writes the chunks that these seats of a row lack. A seat gets the chunk of its number unless
    /// that is elsewhere in the row; then one that is nowhere.
    fn mend(
        &mut self,
        asked: Asked,
        seats: &[u16],
        row: Row<'_>,
        lead: u16,
        maps: (&Places, &Places),
    ) {
        let mut kept = Chunks::default();
        self.look(asked.object, row, usize::MAX, &mut kept);
        for (number, &server) in seats.iter().enumerate() {
            if server == NONE || self.holds(server, asked.object) {
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
            self.write(asked, server, number, lead, maps);
        }
    }

    /// True if the server's policy keeps something of it.
    fn read(&mut self, asked: Asked, server: u16, lead: u16) -> bool {
        let weight = u64::from(self.objects.weights[asked.object as usize]);
        let is_changed = self.disks[usize::from(server)].hit(Slot(asked.object), asked.now);
        self.work.read_bytes[usize::from(server)] += weight;
        if server != lead {
            self.work.between_bytes += weight;
        }
        is_changed
    }

    fn tell_hit(&mut self, asked: Asked, row: Row<'_>, known: &[u16]) {
        for &server in row {
            if !known.contains(&server) && self.holds(server, asked.object) {
                self.disks[usize::from(server)].hit(Slot(asked.object), asked.now);
                self.work.messages += 1;
            }
        }
    }

    fn write(
        &mut self,
        asked: Asked,
        server: u16,
        number: u8,
        lead: u16,
        (map, before): (&Places, &Places),
    ) {
        let at = usize::from(server);
        let object = asked.object;
        if self.holds(server, object) {
            return;
        }
        let mut gone = std::mem::take(&mut self.gone);
        let is_kept = self.disks[at].insert(Slot(object), asked.now, &mut gone);
        if is_kept {
            let weight = u64::from(self.objects.weights[object as usize]);
            let is_coded = self.objects.is_coded(object);
            self.presence.came(object, is_coded);
            self.work.written_bytes[at] += weight;
            if is_coded {
                self.numbers[at][object as usize] = number;
            }
            if server != lead {
                self.work.between_bytes += weight;
            }
        } else {
            self.work.refused += 1;
        }
        for victim in gone.drain(..) {
            let is_coded = self.objects.is_coded(victim.0);
            self.presence.went(victim.0, is_coded);
            if self.coordination.tells_evictions {
                self.tell_eviction(victim, is_coded, map);
                self.tell_eviction(victim, is_coded, before);
            }
        }
        self.gone = gone;
    }

    /// The other servers of an object that one has given up give it up, too.
    fn tell_eviction(&mut self, victim: Slot, is_coded: bool, map: &Places) {
        if self.presence.parts(victim.0) == 0 {
            return;
        }
        let bucket = map.bucket_of(victim.0);
        let row = if is_coded {
            map.chunks(bucket)
        } else {
            map.copies(bucket)
        };
        for &server in row {
            if self.holds(server, victim.0) {
                self.disks[usize::from(server)].remove(victim);
                self.presence.went(victim.0, is_coded);
                self.work.messages += 1;
            }
        }
    }

    /// Panics where the parts counted are not those that available disks hold. Walks everything.
    pub(super) fn check(&mut self) {
        let mut parts = vec![0u16; self.objects.sizes.len()];
        for (disk, is_up) in self.disks.iter_mut().zip(&self.is_up) {
            disk.check();
            if *is_up {
                disk.slots()
                    .iter()
                    .for_each(|slot| parts[slot.0 as usize] += 1);
            }
        }
        for (object, &counted) in parts.iter().enumerate() {
            assert_eq!(counted, self.presence.parts(object as u32));
        }
    }
}
