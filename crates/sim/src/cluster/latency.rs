//! Latency of a request, from a model with few constants that compares schemes and predicts
//! nothing.
//!
//! ```text
//! memory   fixed + size / bus
//! disk     exponential around a mean, sometimes a garbage collection pause, + size / disk
//! peer     a round trip inside the cluster before it, + size / link
//! origin   a round trip over the wide area, half fixed, half exponential, + size / wide area
//! coded    K reads in parallel, and parity in place of late ones (hedging)
//! ```
//!
//! Hedging: a chunk is late if it has not arrived after 1.2 × the time to the first chunk, but
//! never before a peer's p95 latency. One parity chunk is requested for each late chunk, while any
//! are left. Only the first stripe of an object is drawn; the other stripes request the same amount
//! of parity and add no delay.
//!
//! There are no queues, so load adds no latency. The first byte of a coded object is sent when K
//! first sub-chunks have arrived; the rest is streamed. A partial hit waits for the origin, which
//! sends only the missing bytes. All random draws depend on the seed and the request number, so
//! that a request meets the same origin latency under every scheme.

use super::found::{Latencies, ratio};
use hdrhistogram::Histogram;
use trace::Random;

/// Milliseconds of a memory access, and of overhead in every answer.
const MEMORY_MS: f64 = 0.05;
/// Mean milliseconds of a disk read until its first byte.
const DISK_MS: f64 = 0.2;
/// Probability that a disk read is delayed by a pause of the disk. The next constant is the mean
/// pause in milliseconds.
const PAUSE_SHARE: f64 = 0.01;
const PAUSE_MS: f64 = 20.0;
/// Milliseconds of a round trip between two servers of the cluster. The next constant is that to
/// the origin.
const PEER_MS: f64 = 0.3;
const ORIGIN_MS: f64 = 80.0;
/// Speeds in bytes per millisecond. This one is from memory to a client; the next ones are from a
/// disk, between servers, from the origin, and through the decoder.
const CLIENT_SPEED: f64 = 1.25e6;
const DISK_SPEED: f64 = 2e6;
const PEER_SPEED: f64 = 1.25e6;
const ORIGIN_SPEED: f64 = 25e3;
const DECODE_SPEED: f64 = 10e6;
/// Bytes of a sub-chunk, the unit that must arrive before the first byte of a coded object is sent.
const SUB_CHUNK_BYTES: f64 = 65_536.0;
/// Parity is requested after `HEDGE_FACTOR` × the time to the first chunk, but not before the p95
/// latency of a read from a peer's disk. `P95_MEANS` is the p95 of an exponential distribution in
/// multiples of its mean.
const HEDGE_FACTOR: f64 = 1.2;
const P95_MEANS: f64 = 2.995_732;

/// One in this many requests is timed.
pub(super) const TIMED_EVERY: u64 = 8;
/// Upper bound of the histograms in microseconds: one hour. Values are accurate within 1 %.
const MICROS_MAX: u64 = 3_600_000_000;

/// Source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Memory,
    /// Disk of the server that received the request.
    Local,
    /// Disk of another server.
    Peer,
    /// Chunks. `spare` is the number of parity chunks that can replace late ones, `is_decoded`
    /// whether data chunks were missing.
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
    /// Bytes of parity requested in place of late chunks, over all stripes.
    pub(super) hedged_bytes: f64,
    /// Whether the first stripe was decoded, because data chunks were missing or late.
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

/// Draws the latency of a request for which the origin sends `origin_bytes`. `data` is the number
/// of chunks that restore the object.
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
            // One chunk's part of every stripe.
            hedged_bytes = hedged as f64 * size / data as f64;
            is_to_decode = is_decoded || has_late;
            let decoding_ms = match is_to_decode {
                true => sub_chunk * data as f64 / DECODE_SPEED,
                false => 0.0,
            };
            // Chunks arrive from several disks in parallel, so the client's link is the bottleneck.
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

/// Draws the time when the first sub-chunks of any `data` chunks have arrived. Returns that time,
/// the number of parity chunks requested in place of late ones, and whether a parity chunk arrived
/// before a late one.
fn chunks_ms(data: usize, spare: usize, sub_chunk: f64, random: &mut Random) -> (f64, usize, bool) {
    let peer_ms = PEER_MS + sub_chunk / PEER_SPEED;
    let mut arrival = |index: usize| {
        let network = if index == 0 { 0.0 } else { peer_ms };
        network + disk_ms(random) + sub_chunk / DISK_SPEED
    };
    let mut arrivals: Vec<f64> = (0..data).map(&mut arrival).collect();
    arrivals.sort_by(f64::total_cmp);
    let (first, last) = (arrivals[0], arrivals[data - 1]);
    // The first chunk usually comes from the lead's own disk. Without this bound every peer would
    // be late in comparison.
    let most_ms = peer_ms + sub_chunk / DISK_SPEED + P95_MEANS * DISK_MS;
    let hedge_at = (first * HEDGE_FACTOR).max(most_ms);
    if last <= hedge_at || spare == 0 {
        return (last, 0, false);
    }
    let late = arrivals.iter().filter(|at| **at > hedge_at).count();
    let hedged = late.min(spare);
    arrivals.extend((0..hedged).map(|_| hedge_at + arrival(1)));
    arrivals.sort_by(f64::total_cmp);
    let ready = arrivals[data - 1];
    (ready, hedged, ready < last)
}

/// Latency histograms of first and last bytes, for small objects and for objects large enough to be
/// coded.
pub(super) struct LatencyRecorder {
    /// Small first byte, small last byte, large first byte, large last byte.
    histograms: [Histogram<u32>; 4],
    /// Bytes of parity requested in place of late chunks, and bytes requested by clients.
    hedged: (f64, f64),
    /// Requests answered by chunks; how many of them requested parity in place of late chunks; and
    /// how many were decoded.
    coded: (u64, u64, u64),
    seed: u64,
}

/// Properties of a request that its latency depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedRequest {
    pub(super) source: Source,
    pub(super) size: u32,
    /// Bytes that the origin sent.
    pub(super) origin_bytes: u64,
    pub(super) is_large: bool,
    /// Number of chunks that restore the object.
    pub(super) data: usize,
}

impl LatencyRecorder {
    pub(super) fn new(seed: u64) -> LatencyRecorder {
        let histogram = || Histogram::new_with_bounds(1, MICROS_MAX, 2);
        let made = || histogram().expect("the bounds are well-formed");
        LatencyRecorder {
            histograms: [made(), made(), made(), made()],
            hedged: (0.0, 0.0),
            coded: (0, 0, 0),
            seed,
        }
    }

    /// Whether the request of this number is timed.
    pub(super) fn is_timed(&self, number: u64) -> bool {
        number.is_multiple_of(TIMED_EVERY)
    }

    pub(super) fn time(&mut self, number: u64, of: TimedRequest) {
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

    /// Regression test: the lead's own disk was the reference for the time of its peers, so that 97
    /// % of reads requested parity and 33 % were decoded.
    #[test]
    fn few_reads_request_parity_and_fewer_decode_it() {
        let mut recorder = LatencyRecorder::new(1);
        for number in 0..20_000 {
            let of = TimedRequest {
                source: whole(1),
                size: 1_000_000,
                origin_bytes: 0,
                is_large: true,
                data: 3,
            };
            recorder.time(number, of);
        }
        let found = recorder.found();
        let (hedged, decoded) = (found.hedged_reads, found.decoded_reads);
        assert!(0.02 < hedged && hedged < 0.2, "{hedged}");
        assert!(0.01 < decoded && decoded < 0.07, "{decoded}");
    }

    /// Regression test: parity of one sub-chunk was counted, regardless of the number of stripes.
    #[test]
    fn each_stripe_requests_parity_by_itself() {
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
    fn nearer_sources_are_faster_and_parity_shortens_the_wait_for_late_chunks() {
        let memory = mean_first_ms(Source::Memory);
        let local = mean_first_ms(Source::Local);
        let (alone, spared) = (mean_first_ms(whole(0)), mean_first_ms(whole(1)));
        let origin = mean_first_ms(Source::Origin);
        assert!(memory < local && local < spared && spared < alone && alone < origin);
    }

    #[test]
    fn no_more_parity_is_requested_than_chunks_are_late() {
        let mut random = Random::new(1);
        let hedged = (0..20_000).map(|_| timing(whole(9), 300_000, 0, 3, &mut random).hedged_bytes);
        let (most, sum) = hedged.fold((0.0f64, 0.0), |(most, sum), bytes| {
            (most.max(bytes), sum + bytes)
        });
        // One of three chunks is the first and therefore not late.
        assert_eq!(most, 2e5);
        assert!(sum > 0.0);
    }
}
