//! Servers of a cluster: where a request looks, and what is read, written and evicted.
//!
//! ```text
//! lead's memory ── lead's disk ── other servers of the map ── servers of older maps ── origin
//!                    └ a copy, or K chunks: the data chunks first, parity for missing ones
//! ```
//!
//! - A part that a server should have but lacks is written there when a request looks for it
//!   (repair). A server that is not probed is not repaired: parity is probed only if data is
//!   missing.
//! - If too few chunks are left, only the missing ones are fetched from the origin.
//! - Disks are not notified of hits in memory. A server that fails loses its memory and keeps its
//!   disk.
//! - Parity is placed by bytes written, not by bytes requested. Each change of the map halves the
//!   recorded loads. The thesis restarts the count at each change; the second of two changes in a
//!   row would then have no loads to place by.
//! - An object has the size of its first request, and at least one byte. A large object is not kept
//!   while fewer than K servers are up.

use super::coordination::Coordination;
use super::history::{History, ReachChange};
use super::latency::Source;
use super::places::{NONE, ServerList};
use super::presence::Presence;
use super::scheme::{PARTS_MAX, POPULAR_AT, Scheme};
use super::tier::Tier;
use crate::dense::hash_of;
use edge::BucketWrites;
use policy::{Slot, Tick};

/// A request with its interned object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterRequest {
    pub(super) object: u32,
    pub(super) bucket: u32,
    pub(super) now: Tick,
    /// Whether the latency of the request is drawn.
    pub(super) is_timed: bool,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) source: Source,
    /// Whether some chunks were found, but too few to restore the object.
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

/// Counters since the start of the run.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) read_bytes: Vec<u64>,
    pub(super) written_bytes: Vec<u64>,
    pub(super) between_bytes: u64,
    /// Bytes of `written_bytes` that the origin did not send, because they repair parts of a hit.
    pub(super) repaired_bytes: u64,
    pub(super) messages: u64,
    pub(super) refused: u64,
}

/// Sizes of the objects, the same for all servers.
#[derive(Clone, Copy)]
pub(super) struct Objects<'t> {
    /// Weight of each object on a disk: its size, or the size of one of its chunks.
    pub(super) weights: &'t [u32],
    /// Size of each object, which is its weight in memory.
    pub(super) sizes: &'t [u32],
    /// Objects of at least this size are coded; `u64::MAX` if the scheme does not code.
    pub(super) coded_from: u64,
}

impl Objects<'_> {
    pub(super) fn is_coded(&self, object: u32) -> bool {
        u64::from(self.sizes[object as usize]) >= self.coded_from
    }
}

/// Chunks of one object that were found, each chunk number once.
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

/// State of all servers.
pub(super) struct Servers<'t> {
    pub(super) objects: Objects<'t>,
    scheme: Scheme,
    coordination: Coordination,
    pub(super) disks: Vec<Box<dyn Tier + 't>>,
    /// Memory caches; empty if there is no memory tier.
    memories: Vec<Box<dyn Tier + 't>>,
    /// For each server, the chunk number of each object; empty if the scheme does not code.
    numbers: Vec<Vec<u8>>,
    pub(super) is_up: Vec<bool>,
    pub(super) presence: Presence,
    /// Requests of each object since its insertion, for [`Scheme::Popular`].
    request_counts: Vec<u8>,
    /// Bytes written to all disks by bucket: those of whole objects, and those of chunks.
    written: Vec<[u64; 2]>,
    pub(super) counters: Counters,
    /// Number of coded reads, which determines the first chunk of rotated reads.
    reads: u32,
    evicted: Vec<Slot>,
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
            request_counts: vec![0; by_object(scheme == Scheme::Popular)],
            written: vec![[0; 2]; buckets],
            counters: Counters {
                read_bytes: vec![0; count],
                written_bytes: vec![0; count],
                between_bytes: 0,
                repaired_bytes: 0,
                messages: 0,
                refused: 0,
            },
            reads: 0,
            evicted: Vec::new(),
        }
    }

    /// Marks a server as up or down. Its disk keeps its content, its memory does not.
    pub(super) fn set_up(&mut self, server: u16, is_up: bool, history: &History) {
        let at = usize::from(server);
        if std::mem::replace(&mut self.is_up[at], is_up) == is_up {
            return;
        }
        for slot in self.disks[at].slots() {
            match is_up {
                true => self.added(slot.0, server, history),
                false => self.removed(slot.0, server, history),
            }
        }
        if let Some(memory) = self.memories.get_mut(at) {
            let slots = memory.slots().into_iter();
            slots.for_each(|slot| memory.remove(slot));
        }
    }

    /// Updates the counted parts after a change of the map.
    pub(super) fn update_reach(&mut self, changes: &[ReachChange], history: &History) {
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
                    Ok(true) => self.added(slot.0, server, history),
                    Ok(false) => self.uncount(slot.0, server, history),
                    Err(_) => {}
                }
            }
        }
    }

    /// Recent write loads by bucket; empty if nothing was written.
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

    /// Halves the recorded write loads.
    pub(super) fn halve_loads(&mut self) {
        let all = self.written.iter_mut().flatten();
        all.for_each(|bytes| *bytes /= 2);
    }

    fn number(&self, server: u16, object: u32) -> u8 {
        let numbers = self.numbers.get(usize::from(server));
        numbers.map_or(0, |numbers| numbers[object as usize])
    }

    fn is_counted(&self, object: u32, server: u16, history: &History) -> bool {
        let bucket = history.now().bucket_of(object);
        let mut servers = history.remaining(self.objects.is_coded(object), bucket);
        servers.any(|one| one == server)
    }

    /// Counts the part of an object that a server has begun to hold.
    fn added(&mut self, object: u32, server: u16, history: &History) {
        if self.is_counted(object, server, history) {
            let number = self.number(server, object);
            let is_coded = self.objects.is_coded(object);
            self.presence.add(object, is_coded, number);
        }
    }

    /// Removes the part of an object that a server no longer holds from the counts.
    pub(super) fn removed(&mut self, object: u32, server: u16, history: &History) {
        if self.is_counted(object, server, history) {
            self.uncount(object, server, history);
        }
    }

    /// Removes a counted part from the counts.
    fn uncount(&mut self, object: u32, server: u16, history: &History) {
        let is_coded = self.objects.is_coded(object);
        let number = self.number(server, object);
        let bucket = history.now().bucket_of(object);
        let is_twin = |other: u16| {
            other != server && self.holds(other, object) && self.number(other, object) == number
        };
        let has_twin =
            self.presence.has_twins(object) && history.remaining(is_coded, bucket).any(is_twin);
        self.presence.remove(object, is_coded, number, has_twin);
    }

    /// Serves a request.
    pub(super) fn serve(&mut self, request: ClusterRequest, history: &History) -> Answer {
        let slot = Slot(request.object);
        let size = u64::from(self.objects.sizes[request.object as usize]);
        let Some(lead) = history.now().lead(request.bucket) else {
            return Answer {
                is_unserved: true,
                ..Answer::origin(size)
            };
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead))
            && memory.holds(slot)
        {
            memory.hit(slot, request.now);
            self.count_popular(request, lead, history);
            return Answer::of(Source::Memory);
        }
        let answer = match self.scheme.code() {
            Some(code) if self.objects.is_coded(request.object) => {
                self.serve_chunks(request, code, lead, history)
            }
            _ => self.serve_copy(request, lead, history),
        };
        if let Some(memory) = self.memories.get_mut(usize::from(lead)) {
            memory.insert(slot, request.now, &mut self.evicted);
            self.evicted.clear();
        }
        answer
    }

    pub(super) fn holds(&self, server: u16, object: u32) -> bool {
        server != NONE
            && self.is_up[usize::from(server)]
            && self.disks[usize::from(server)].holds(Slot(object))
    }

    /// Serves an object that is kept as whole copies.
    fn serve_copy(&mut self, request: ClusterRequest, lead: u16, history: &History) -> Answer {
        let object = request.object as usize;
        let size = u64::from(self.objects.sizes[object]);
        let row = history.row(false, request.bucket);
        let older = history.older_servers(false, request.bucket);
        let probed = match self.coordination.no_peer_probe {
            true => 1,
            false => usize::MAX,
        };
        let mut places = row.iter().chain(older).copied().take(probed);
        let found = places.find(|&server| self.holds(server, request.object));
        let Some(server) = found else {
            let is_popular = self.scheme == Scheme::Popular;
            if is_popular {
                self.request_counts[object] = 0;
            }
            let copies = if is_popular { 1 } else { row.len() };
            for &server in &row[..copies] {
                self.write(request, server, 0, lead, history);
            }
            return Answer::origin(size);
        };
        if self.read(request, server, lead) && self.coordination.notifications.include_hits() {
            self.notify_hit(request, row, &[server]);
        }
        if server != lead {
            self.counters.repaired_bytes += self.write(request, lead, 0, lead, history);
        }
        self.count_popular(request, lead, history);
        Answer::of(match server == lead {
            true => Source::Local,
            false => Source::Peer,
        })
    }

    /// Counts a hit, and writes the second copy if the object has become popular by it.
    fn count_popular(&mut self, request: ClusterRequest, lead: u16, history: &History) {
        let Some(times) = self.request_counts.get_mut(request.object as usize) else {
            return;
        };
        *times = times.saturating_add(1);
        if *times == POPULAR_AT
            && let Some(&second) = history.row(false, request.bucket).get(1)
        {
            self.write(request, second, 0, lead, history);
        }
    }

    /// Serves a coded object.
    fn serve_chunks(
        &mut self,
        request: ClusterRequest,
        (data, all): (usize, usize),
        lead: u16,
        history: &History,
    ) -> Answer {
        let size = u64::from(self.objects.sizes[request.object as usize]);
        let row = history.row(true, request.bucket);
        if row.iter().filter(|&&server| server != NONE).count() < data {
            return Answer::origin(size);
        }
        let mut found = Chunks::default();
        let mut lacking = 0;
        if !self.coordination.no_peer_probe || self.holds(lead, request.object) {
            let (first, repairable) = self.turn(data, all);
            for seat in (0..all).map(|at| (first + at) % all) {
                if found.count == data {
                    break;
                }
                let server = row[seat];
                match self.holds(server, request.object) {
                    true => found.add(self.number(server, request.object), server),
                    false => lacking |= 1 << seat & repairable,
                }
            }
            let older = history.older_servers(true, request.bucket);
            self.look(request.object, older, data, &mut found);
        }
        let mut is_changed = false;
        for &server in found.servers() {
            is_changed |= self.read(request, server, lead);
        }
        if found.count == data {
            if is_changed && self.coordination.notifications.include_hits() {
                self.notify_hit(request, row, found.servers());
            }
            let spare = self.spare(request, row, &found);
            if lacking != 0 {
                self.counters.repaired_bytes += self.repair(request, lacking, row, lead, history);
            }
            let is_decoded = found.mask != (1 << data) - 1;
            return Answer::of(Source::Chunks { spare, is_decoded });
        }
        let weight = u64::from(self.objects.weights[request.object as usize]);
        self.repair(request, u32::MAX, row, lead, history);
        let missing = (data - found.count) as u64 * weight;
        Answer {
            is_partial: found.count > 0,
            ..Answer::origin(missing.min(size))
        }
    }

    /// Returns the position that is probed first, and a mask of the positions that are repaired if
    /// they lack their chunk.
    fn turn(&mut self, data: usize, all: usize) -> (usize, u32) {
        if !self.coordination.rotates_reads {
            return (0, (1 << data) - 1);
        }
        self.reads = self.reads.wrapping_add(1);
        let first = hash_of(Slot(self.reads)) % all as u64;
        (first as usize, u32::MAX)
    }

    /// Number of chunks on the servers of the row, beyond those found, that could replace a late
    /// one. Computed only for timed requests.
    fn spare(&self, request: ClusterRequest, row: ServerList<'_>, found: &Chunks) -> usize {
        if !request.is_timed {
            return 0;
        }
        let mut all = found.clone();
        self.look(request.object, row, usize::MAX, &mut all);
        all.count - found.count
    }

    /// Collects chunks on these servers until `enough` are found.
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

    /// Writes the chunks that the masked positions of a row lack and returns the bytes written. A
    /// position gets the chunk of its own number, unless another server of the row holds that one;
    /// then it gets a chunk that none of them holds.
    fn repair(
        &mut self,
        request: ClusterRequest,
        seats: u32,
        row: ServerList<'_>,
        lead: u16,
        history: &History,
    ) -> u64 {
        let mut kept = Chunks::default();
        self.look(request.object, row, usize::MAX, &mut kept);
        let mut written = 0;
        for (number, &server) in row.iter().enumerate() {
            let is_meant = seats >> number & 1 != 0;
            if !is_meant || server == NONE || self.holds(server, request.object) {
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
            written += self.write(request, server, number, lead, history);
        }
        written
    }

    /// Reads a part from a server's disk. Returns whether the hit changed the state of its policy.
    fn read(&mut self, request: ClusterRequest, server: u16, lead: u16) -> bool {
        let weight = u64::from(self.objects.weights[request.object as usize]);
        let is_changed = self.disks[usize::from(server)].hit(Slot(request.object), request.now);
        self.counters.read_bytes[usize::from(server)] += weight;
        if server != lead {
            self.counters.between_bytes += weight;
            self.send_hand(lead, server);
            self.send_hand(server, lead);
        }
        is_changed
    }

    /// Writes a part to a server's disk. Returns the bytes written, 0 if the disk holds or refuses
    /// it.
    fn write(
        &mut self,
        request: ClusterRequest,
        server: u16,
        number: u8,
        lead: u16,
        history: &History,
    ) -> u64 {
        let at = usize::from(server);
        let object = request.object;
        if self.holds(server, object) {
            return 0;
        }
        let mut written = 0;
        self.send_hand(lead, server);
        let mut evicted = std::mem::take(&mut self.evicted);
        let is_kept = self.disks[at].insert(Slot(object), request.now, &mut evicted);
        if is_kept {
            let weight = u64::from(self.objects.weights[object as usize]);
            written = weight;
            let is_coded = self.objects.is_coded(object);
            if is_coded {
                self.numbers[at][object as usize] = number;
            }
            self.added(object, server, history);
            self.written[request.bucket as usize][usize::from(is_coded)] += weight;
            self.counters.written_bytes[at] += weight;
            if server != lead {
                self.counters.between_bytes += weight;
            }
        } else {
            self.counters.refused += 1;
        }
        self.send_hand(server, lead);
        for victim in evicted.drain(..) {
            self.removed(victim.0, server, history);
            if self.coordination.notifications.include_evictions() {
                self.notify_eviction(victim, history);
            }
        }
        self.evicted = evicted;
        written
    }

    /// Sends the furthest hand that one server knows of, together with the data that it sends to
    /// another.
    fn send_hand(&mut self, from: u16, to: u16) {
        if let Some(hand) = self.disks[usize::from(from)].furthest_hand() {
            self.disks[usize::from(to)].receive_hand(hand);
        }
    }

    /// Notifies the servers of the row that hold a part and were not read of the hit.
    fn notify_hit(&mut self, request: ClusterRequest, row: ServerList<'_>, known: &[u16]) {
        for &server in row {
            if !known.contains(&server) && self.holds(server, request.object) {
                self.disks[usize::from(server)].hit(Slot(request.object), request.now);
                self.counters.messages += 1;
            }
        }
    }

    /// Removes an evicted object from the other servers that hold a part of it.
    fn notify_eviction(&mut self, victim: Slot, history: &History) {
        let is_coded = self.objects.is_coded(victim.0);
        let bucket = history.now().bucket_of(victim.0);
        let older = history.older_servers(is_coded, bucket);
        for &server in history.row(is_coded, bucket).iter().chain(older) {
            if self.holds(server, victim.0) {
                self.disks[usize::from(server)].remove(victim);
                self.removed(victim.0, server, history);
                self.counters.messages += 1;
            }
        }
    }

    /// Panics if the counted parts differ from those that requests would find. Checks every object.
    #[cfg(debug_assertions)]
    pub(super) fn check(&mut self, history: &History) {
        self.disks.iter_mut().for_each(|disk| disk.check());
        for object in 0..self.objects.sizes.len() as u32 {
            let is_coded = self.objects.is_coded(object);
            let servers = history.remaining(is_coded, history.now().bucket_of(object));
            let servers: Vec<u16> = servers.filter(|&one| self.holds(one, object)).collect();
            let numbers: std::collections::HashSet<u8> = servers
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
