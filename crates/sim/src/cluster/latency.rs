//! How long a request takes: a model of few constants, to compare schemes under, not to predict.
//!
//! ```text
//! memory   fixed + size / bus
//! disk     exponential around a mean, now and then a pause of garbage collection, + size / disk
//! peer     a round trip inside the cluster before it, + size / link
//! origin   a round trip over the wide area, half fixed, half exponential, + size / wide area
//! coded    K reads at once; what is missing 20 % after the first has come, and after what 95 of 100 peers
//!          take, is made up for by parity
//! ```
//! As many parity chunks are asked for as data chunks are late, and no more than are there. There are no queues:
//! load does not lengthen anything. The first byte of a coded object goes out when K first sub-chunks are there; what
//! follows streams. Of its stripes the first alone is drawn: the others ask for as much parity, and hold nothing up. A
//! partial hit waits for the origin, and for no more bytes of it than were missing. All that chance decides hangs from the
//! seed and the number of the request, so the same request meets the same origin under every scheme.

use super::found::{Latencies, ratio};
use hdrhistogram::Histogram;
use trace::Random;

/// Milliseconds of a look into memory, and what every answer takes besides.
const MEMORY_MS: f64 = 0.05;
/// The mean of a disk's read before its first byte.
const DISK_MS: f64 = 0.2;
/// How often a read meets a pause of the disk, and the pause's mean.
const PAUSE_SHARE: f64 = 0.01;
const PAUSE_MS: f64 = 20.0;
/// A round trip between two servers of the cluster, and over the wide area to the origin.
const PEER_MS: f64 = 0.3;
const ORIGIN_MS: f64 = 80.0;
/// Bytes a millisecond: from memory to a client, from a disk, between servers, from the origin, and
/// through the decoder.
const CLIENT_SPEED: f64 = 1.25e6;
const DISK_SPEED: f64 = 2e6;
const PEER_SPEED: f64 = 1.25e6;
const ORIGIN_SPEED: f64 = 25e3;
const DECODE_SPEED: f64 = 10e6;
/// Bytes of a sub-chunk: what must be there before the first byte of a coded object goes out.
const SUB_CHUNK_BYTES: f64 = 65_536.0;
/// Parity is asked for when so much of the time until the first chunk has passed, but not before nearly all disks have
/// answered: of an exponential distribution, 95 % lie within so many means.
const PATIENCE: f64 = 1.2;
const MOST_MEANS: f64 = 2.995_732;

/// Every n-th request is timed.
pub(super) const TIMED_EVERY: u64 = 8;
/// Histograms count microseconds, up to an hour, within 1 %.
const MICROS_MAX: u64 = 3_600_000_000;

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Memory,
    /// The first server's own disk.
    Local,
    /// Another server's disk.
    Peer,
    /// Chunks, of which so many parity chunks can be asked for in the place of late ones, and which
    /// have to be decoded at once or not.
    Chunks {
        spare: usize,
        is_decoded: bool,
    },
    Origin,
}

/// Milliseconds until the first byte and until the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    pub(super) first_ms: f64,
    pub(super) full_ms: f64,
    /// Bytes of parity that were asked for in the place of late chunks, over all stripes.
    pub(super) hedged_bytes: f64,
    /// Whether the first stripe had to be decoded, for whatever reason.
    pub(super) is_decoded: bool,
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -(1.0 - random.fraction()).ln() * mean
}

fn disk_ms(random: &mut Random) -> f64 {
    let read = exponential(random, DISK_MS);
    match random.fraction() < PAUSE_SHARE {
        true => read + exponential(random, PAUSE_MS),
        false => read,
    }
}

/// How long this request takes, of which the origin sends so many bytes; `data` is the number of chunks that give the
/// object.
fn timing(
    source: Source,
    size: u32,
    origin_bytes: u64,
    data: usize,
    random: &mut Random,
) -> Timing {
    let size = f64::from(size);
    let origin_ms = ORIGIN_MS / 2.0 + exponential(random, ORIGIN_MS / 2.0);
    let (mut hedged_bytes, mut is_to_decode) = (0.0, false);
    let (first_ms, rest_ms) = match source {
        Source::Memory => (0.0, size / CLIENT_SPEED),
        Source::Local => (disk_ms(random), size / DISK_SPEED.min(CLIENT_SPEED)),
        Source::Peer => (PEER_MS + disk_ms(random), size / PEER_SPEED.min(DISK_SPEED)),
        Source::Chunks { spare, is_decoded } => {
            let sub_chunk = SUB_CHUNK_BYTES.min(size / data as f64);
            let (ready_ms, hedged, has_late) = chunks_ms(data, spare, sub_chunk, random);
            // A chunk's share of each stripe.
            hedged_bytes = hedged as f64 * size / data as f64;
            is_to_decode = is_decoded || has_late;
            let decoding_ms = match is_to_decode {
                true => sub_chunk * data as f64 / DECODE_SPEED,
                false => 0.0,
            };
            // Chunks come from several disks at once; the link to the client is what remains.
            (ready_ms + decoding_ms, size / CLIENT_SPEED)
        }
        Source::Origin => {
            let wide_ms = origin_bytes as f64 / ORIGIN_SPEED;
            (origin_ms, wide_ms.max(size / CLIENT_SPEED))
        }
    };
    let first_ms = MEMORY_MS + first_ms;
    Timing {
        first_ms,
        full_ms: first_ms + rest_ms,
        hedged_bytes,
        is_decoded: is_to_decode,
    }
}

/// When the first sub-chunks of any `data` chunks are there, how many were asked for in the place of late ones, and
/// whether one of these was sooner.
fn chunks_ms(data: usize, spare: usize, sub_chunk: f64, random: &mut Random) -> (f64, usize, bool) {
    let peer_ms = PEER_MS + sub_chunk / PEER_SPEED;
    let mut arrival = |index: usize| {
        let network = if index == 0 { 0.0 } else { peer_ms };
        network + disk_ms(random) + sub_chunk / DISK_SPEED
    };
    let mut arrivals: Vec<f64> = (0..data).map(&mut arrival).collect();
    arrivals.sort_by(f64::total_cmp);
    let (first, last) = (arrivals[0], arrivals[data - 1]);
    // The first is mostly the lead's own: alone, it would make each of its peers late.
    let most_ms = peer_ms + sub_chunk / DISK_SPEED + MOST_MEANS * DISK_MS;
    let asked = (first * PATIENCE).max(most_ms);
    if last <= asked || spare == 0 {
        return (last, 0, false);
    }
    let late = arrivals.iter().filter(|at| **at > asked).count();
    let hedged = late.min(spare);
    arrivals.extend((0..hedged).map(|_| asked + arrival(1)));
    arrivals.sort_by(f64::total_cmp);
    let ready = arrivals[data - 1];
    (ready, hedged, ready < last)
}

/// Distributions of first and last bytes, of objects below and from the size of coding on.
pub(super) struct Stopwatch {
    /// Small first, small full, large first, large full.
    histograms: [Histogram<u32>; 4],
    /// Bytes of parity asked for in the place of late chunks, and bytes that clients asked for.
    hedged: (f64, f64),
    /// Requests answered by chunks; of these, those that asked for parity in the place of late ones, and those decoded.
    coded: (u64, u64, u64),
    seed: u64,
}

/// A request as its time hangs from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) source: Source,
    pub(super) size: u32,
    /// Of these, what the origin sent.
    pub(super) origin_bytes: u64,
    pub(super) is_large: bool,
    /// Chunks that give the object.
    pub(super) data: usize,
}

impl Stopwatch {
    pub(super) fn new(seed: u64) -> Stopwatch {
        let histogram = || Histogram::new_with_bounds(1, MICROS_MAX, 2);
        let made = || histogram().expect("the bounds are well-formed");
        Stopwatch {
            histograms: [made(), made(), made(), made()],
            hedged: (0.0, 0.0),
            coded: (0, 0, 0),
            seed,
        }
    }

    /// Whether the request of this number is timed.
    pub(super) fn wants(&self, number: u64) -> bool {
        number.is_multiple_of(TIMED_EVERY)
    }

    pub(super) fn time(&mut self, number: u64, of: Timed) {
        let mut random = Random::of_key(self.seed, number);
        let timing = timing(of.source, of.size, of.origin_bytes, of.data, &mut random);
        self.hedged.0 += timing.hedged_bytes;
        self.hedged.1 += f64::from(of.size);
        if matches!(of.source, Source::Chunks { .. }) {
            self.coded.0 += 1;
            self.coded.1 += u64::from(timing.hedged_bytes > 0.0);
            self.coded.2 += u64::from(timing.is_decoded);
        }
        let at = if of.is_large { 2 } else { 0 };
        for (histogram, ms) in self.histograms[at..]
            .iter_mut()
            .zip([timing.first_ms, timing.full_ms])
        {
            histogram.saturating_record(((ms * 1000.0) as u64).max(1));
        }
    }

    pub(super) fn found(&self) -> Latencies {
        let curve = |histogram: &Histogram<u32>| {
            let shares = super::found::LATENCY_SHARES.iter();
            let at = |share: &f64| histogram.value_at_quantile(*share) as f64 / 1000.0;
            match histogram.is_empty() {
                true => Vec::new(),
                false => shares.map(at).collect(),
            }
        };
        let [small_first, small_full, large_first, large_full] = &self.histograms;
        Latencies {
            small_first_ms: curve(small_first),
            small_full_ms: curve(small_full),
            large_first_ms: curve(large_first),
            large_full_ms: curve(large_full),
            hedged: self.hedged.0 / self.hedged.1.max(1.0),
            hedged_reads: ratio(self.coded.1, self.coded.0),
            decoded_reads: ratio(self.coded.2, self.coded.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_first_ms(source: Source) -> f64 {
        let mut random = Random::new(1);
        let times = (0..20_000).map(|_| timing(source, 1_000_000, 0, 3, &mut random).first_ms);
        times.sum::<f64>() / 20_000.0
    }

    fn whole(spare: usize) -> Source {
        Source::Chunks {
            spare,
            is_decoded: false,
        }
    }

    /// The lead's own disk was the measure of its peers' time: 97 % of reads asked for parity, 33 % decoded.
    #[test]
    fn few_reads_ask_for_parity_and_fewer_decode_it() {
        let mut stopwatch = Stopwatch::new(1);
        for number in 0..20_000 {
            let of = Timed {
                source: whole(1),
                size: 1_000_000,
                origin_bytes: 0,
                is_large: true,
                data: 3,
            };
            stopwatch.time(number, of);
        }
        let found = stopwatch.found();
        let (hedged, decoded) = (found.hedged_reads, found.decoded_reads);
        assert!(0.02 < hedged && hedged < 0.2, "{hedged}");
        assert!(0.01 < decoded && decoded < 0.07, "{decoded}");
    }

    /// One sub-chunk was counted, however many stripes there were.
    #[test]
    fn each_stripe_asks_for_parity_by_itself() {
        let most = |size: u32| {
            let mut random = Random::new(1);
            let timings = (0..2_000).map(|_| timing(whole(1), size, 0, 3, &mut random));
            timings.map(|one| one.hedged_bytes).fold(0.0, f64::max)
        };
        assert_eq!((most(300_000), most(30_000_000)), (1e5, 1e7));
    }

    #[test]
    fn a_partial_hit_waits_for_the_bytes_that_were_missing() {
        let full_ms = |origin_bytes| {
            let mut random = Random::new(1);
            timing(Source::Origin, 30_000_000, origin_bytes, 3, &mut random).full_ms
        };
        let saved = full_ms(30_000_000) - full_ms(10_000_000);
        assert!((saved - 2e7 / ORIGIN_SPEED).abs() < 1e-6, "{saved}");
    }

    #[test]
    fn nearer_is_faster_and_parity_shortens_the_wait_for_stragglers() {
        let memory = mean_first_ms(Source::Memory);
        let local = mean_first_ms(Source::Local);
        let (alone, spared) = (mean_first_ms(whole(0)), mean_first_ms(whole(1)));
        let origin = mean_first_ms(Source::Origin);
        assert!(memory < local && local < spared && spared < alone && alone < origin);
    }

    #[test]
    fn no_more_parity_is_asked_for_than_chunks_are_late() {
        let mut random = Random::new(1);
        let hedged = (0..20_000).map(|_| timing(whole(9), 300_000, 0, 3, &mut random).hedged_bytes);
        let (most, sum) = hedged.fold((0.0f64, 0.0), |(most, sum), bytes| {
            (most.max(bytes), sum + bytes)
        });
        // One of three is the first, and is not late.
        assert_eq!(most, 2e5);
        assert!(sum > 0.0);
    }
}
