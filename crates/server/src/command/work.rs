//! Estimates of the work of commands whose work depends on the size of values.
//!
//! An estimate is an upper bound, except where a value is smaller than assumed. It first checks the
//! arguments alone, because it is called for every command. The unit is an element, or 512 bytes of
//! a string.

use super::cluster::slots::Walk;
use crate::context::{Probe, Spec, Work};
use crate::state::Server;
use settings::{Config, Id};
use store::{Key, Keyspace, View};
use wire::Args;
use wire::number::parse_i64;

/// Number of bytes in a unit of work.
const UNIT_BYTES: usize = 512;
/// Work per byte of a reply, compared with a byte that is only read: it is copied to new memory,
/// and the first access to a page takes longer than the copy.
const REPLY_COST: usize = 4;
/// Number of pairs of bytes that LCS compares in a unit of work.
const PAIRS_PER_UNIT: u64 = 100;
/// Number of bytes of a dump in a unit of work: about one element.
const DUMP_UNIT_BYTES: usize = 16;
/// Maximum length of a string in bytes, regardless of the settings.
const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Most negative number of elements that may be requested.
const REPEATED_MIN: i64 = i64::MIN / 2;
/// Work of reading one HyperLogLog.
const HYPERLOGLOG_UNITS: u64 = 100;

impl Probe<'_, '_> {
    /// Returns the key with this name in the client's database.
    pub fn key<'k>(&self, name: &'k [u8]) -> Key<'k> {
        self.space.key(self.db, name)
    }

    /// Returns the size of a key's value in units of work; 0 for a missing key.
    pub fn size(&mut self, name: &[u8]) -> u64 {
        let key = self.key(name);
        let extent = self.view.extent(&key);
        extent.map_or(0, |extent| (extent.len + extent.bytes / UNIT_BYTES) as u64)
    }
}

/// Returns the estimated work of a client's command with this database selected. `threshold` is the
/// work below which the exact amount does not matter.
pub fn units<'v>(
    server: &'v Server,
    view: &mut View<'v>,
    (db, threshold): (u8, u64),
    spec: &Spec,
    args: Args<'_>,
) -> u64 {
    let estimate = match spec.run.work {
        Work::Short | Work::InSteps | Work::Resets => return 0,
        // With many names it runs in steps.
        Work::Confirmed | Work::Unsubscribes(_) => return 0,
        Work::Names => return view.len(db) as u64,
        Work::Slots => match Walk::is_one(server, args) {
            true => return view.len(db) as u64,
            false => return 0,
        },
        Work::ByArguments => return arguments(args),
        Work::Strings | Work::RepliedStrings => strings,
        Work::Value => set,
        Work::Estimated(estimate) => estimate,
    };
    let mut probe = Probe {
        view,
        space: &server.data.keyspace,
        name: spec.name,
        keys: spec.keys,
        db,
        threshold,
    };
    estimate(&mut probe, args)
}

/// The number of arguments, and the units of their bytes.
#[inline]
pub fn arguments(args: Args<'_>) -> u64 {
    (args.len() + args.extent() / UNIT_BYTES) as u64
}

/// Returns the number of bytes that are this much work.
#[inline]
pub fn bytes(units: u64) -> usize {
    usize::try_from(units.saturating_mul(UNIT_BYTES as u64)).unwrap_or(usize::MAX)
}

/// Returns the number of bytes of a reply that are this much work.
#[inline]
pub fn reply_bytes(units: u64) -> usize {
    bytes(units) / REPLY_COST
}

/// Returns the work of a reply with this many bytes.
#[inline]
pub fn reply_units(bytes: usize) -> u64 {
    (bytes.saturating_mul(REPLY_COST) / UNIT_BYTES) as u64
}

/// Returns the number of bytes of the values that a command in this database replies with, if it
/// replies with the values of its keys; `None` for other commands.
pub fn values_len(
    keyspace: &Keyspace,
    view: &mut View<'_>,
    db: u8,
    spec: &Spec,
    args: Args<'_>,
) -> Option<usize> {
    if !matches!(spec.run.work, Work::RepliedStrings) {
        return None;
    }
    let mut sum = 0;
    spec.keys.each(args, |at| {
        if let Ok(Some(value)) = view.peek(&keyspace.key(db, &args[at])) {
            sum += value.len();
        }
    });
    Some(sum)
}

/// Returns the maximum work of one step; `None` if it is not limited.
pub fn limit(config: &Config) -> Option<u64> {
    let limit = u64::try_from(config.number(Id::AtomicWorkLimit)).ok()?;
    (limit > 0).then_some(limit)
}

/// Whether this much work is too much for one step.
pub fn is_beyond_limit(config: &Config, units: u64) -> bool {
    limit(config).is_some_and(|limit| units > limit)
}

/// The sizes of the values of all keys.
pub fn whole(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let mut sum = 0;
    let keys = probe.keys;
    keys.each(args, |index| sum += probe.size(&args[index]));
    sum
}

/// `SORT key [GET pattern …] …`: each pattern is looked up for each element.
pub fn sorted(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    whole(probe, args).saturating_mul(1 + args.len() as u64 / 2)
}

/// Like [`whole`], but for commands on strings, which are called often: no look-up while no string
/// is huge.
pub fn strings(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    if probe.view.has_huge_strings() || probe.threshold == 0 {
        whole(probe, args)
    } else {
        0
    }
}

/// A number of elements, at most all, that the argument at `at` contains.
fn count(probe: &mut Probe<'_, '_>, args: Args<'_>, at: usize) -> u64 {
    let count = args.get(at).and_then(parse_i64);
    match count.and_then(|count| u64::try_from(count).ok()) {
        Some(count) if count > probe.threshold => probe.size(&args[1]).min(count),
        _ => 0,
    }
}

/// `… key [count]`
pub fn counted(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    count(probe, args, 2)
}

/// `… key count`: a negative count means that elements may repeat.
pub fn sampled(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    match args.get(2).and_then(parse_i64) {
        // The commands refuse a greater number.
        Some(many @ REPEATED_MIN..0)
            if many.unsigned_abs() > probe.threshold && probe.size(&args[1]) > 0 =>
        {
            many.unsigned_abs()
        }
        _ => count(probe, args, 2),
    }
}

/// `… key cursor [MATCH pattern] [COUNT count]`
pub fn scanned(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let at = (3..args.len()).find(|&at| args.is(at, "count"));
    at.map_or(0, |at| count(probe, args, at + 1))
}

/// `… key start end [COUNT count]`: all entries of a stream without a count.
pub fn entries(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    match (4..args.len()).find(|&at| args.is(at, "count")) {
        Some(at) => count(probe, args, at + 1),
        None => whole(probe, args),
    }
}

/// `XINFO CONSUMERS | XGROUP DELCONSUMER key group …`: the consumers and pending entries of the
/// group. `XINFO GROUPS key`: the groups. `XINFO STREAM key FULL`: the whole stream. In each case
/// the entries of the stream while some have expired. A destroyed group is freed in steps.
pub fn group(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let has_word = |at: usize, words: &[&str]| words.iter().any(|word| args.is(at, word));
    let of_words = if has_word(1, &["consumers", "delconsumer"]) {
        group_len(probe, args, 2)
    } else if has_word(1, &["stream", "groups"]) && args.len() > 2 {
        let key = probe.key(&args[2]);
        let groups = probe.view.group_count(&key) as u64;
        match has_word(3, &["full"]) {
            true => whole(probe, args).saturating_add(groups),
            false if args.is(1, "groups") => groups,
            false => 0,
        }
    } else {
        0
    };
    of_words.max(args.get(2).map_or(0, |name| overdue(probe, name)))
}

/// Number of entries of a stream while some of them have expired and are not removed yet.
pub fn overdue(probe: &mut Probe<'_, '_>, name: &[u8]) -> u64 {
    let key = probe.key(name);
    probe.view.overdue_len(&key) as u64
}

/// `XLEN key`: the entries of the stream while some of them have expired.
pub fn stream_len(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    overdue(probe, &args[1])
}

/// `DEBUG OBJECT key`: the whole value.
pub fn debugged(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    match args.is(1, "object") {
        true => whole(probe, args),
        false => 0,
    }
}

/// `XTRIM key …`: all entries if groups must be searched for each of them. Other trims remove whole
/// blocks.
pub fn trimmed(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    references_at(args, 4).map_or(0, |_| whole(probe, args))
}

/// `XADD key [options] id field value …`: as XTRIM, or the number of arguments.
pub fn added(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let own = arguments(args);
    // The shortest call with such an option has this number of arguments.
    let has_options = args.len() > 7 && !args.is(2, "*");
    let at = if has_options {
        references_at(args, 2)
    } else {
        None
    };
    at.map_or(own, |_| whole(probe, args).max(own))
}

/// Maximum number of arguments of XADD and XTRIM in which options are searched.
const TRIM_OPTIONS_MAX: usize = 20;

/// Returns the position of the option ACKED or DELREF among the first arguments from `from` on. The
/// text of a field may be taken for it, which only makes the estimate too large.
fn references_at(args: Args<'_>, from: usize) -> Option<usize> {
    let mut positions = from..args.len().min(TRIM_OPTIONS_MAX);
    positions.find(|&at| args.is(at, "acked") || args.is(at, "delref"))
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] …`: the pending entries of the
/// group, if the count is large.
pub fn claimed(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let at = (6..args.len()).find(|&at| args.is(at, "count"));
    let count = at.and_then(|at| parse_i64(args.get(at + 1)?)).unwrap_or(0);
    // The command looks at ten entries per requested one.
    let count = u64::try_from(count).unwrap_or(0).saturating_mul(10);
    match count > probe.threshold {
        true => group_len(probe, args, 1).min(count),
        false => 0,
    }
}

/// `XPENDING key group [[IDLE milliseconds] start end count [consumer]]`: the consumers and pending
/// entries of the group, unless the reply has few entries that are found in order.
pub fn pending(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let count = args.get(5).and_then(parse_i64).unwrap_or(0);
    let is_short = count.unsigned_abs() <= probe.threshold;
    match args.len() > 3 && !args.is(3, "idle") && is_short {
        true => overdue(probe, &args[1]),
        false => group_len(probe, args, 1).max(overdue(probe, &args[1])),
    }
}

/// Number of consumers and pending entries of a group. Its name follows the key at `at`.
fn group_len(probe: &mut Probe<'_, '_>, args: Args<'_>, at: usize) -> u64 {
    match (args.get(at), args.get(at + 1)) {
        (Some(name), Some(group)) => {
            let key = probe.key(name);
            probe.view.group_len(&key, group) as u64
        }
        _ => 0,
    }
}

/// `… numkeys key [key …] where [COUNT count]`
pub fn popped(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let Some(at) = (3..args.len()).find(|&at| args.is(at, "count")) else {
        return 0;
    };
    let count = args.get(at + 1).and_then(parse_i64).unwrap_or(0);
    match u64::try_from(count) {
        Ok(count) if count > probe.threshold => whole(probe, args).min(count),
        _ => 0,
    }
}

/// `LRANGE key start stop`
pub fn list_range(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let (Some(start), Some(stop)) = (parse_i64(&args[2]), parse_i64(&args[3])) else {
        return 0;
    };
    if (start < 0) == (stop < 0) {
        let count = stop.saturating_add(1).saturating_sub(start).max(0) as u64;
        if count <= probe.threshold {
            return count;
        }
    }
    let size = probe.size(&args[1]);
    let len = size as i64;
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(len)
        } else {
            index
        }
    };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    stop.saturating_add(1).saturating_sub(start).max(0) as u64
}

/// `GETRANGE key start end`
pub fn byte_range(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let (Some(start), Some(end)) = (parse_i64(&args[2]), parse_i64(&args[3])) else {
        return 0;
    };
    let bytes_max = probe.threshold.saturating_mul(UNIT_BYTES as u64) as i64;
    if (start < 0) == (end < 0) && end.saturating_sub(start) < bytes_max {
        return 0;
    }
    strings(probe, args)
}

/// `SETRANGE key offset value`, and SETBIT and BITFIELD with a bit as the offset: the length that
/// the value gets, if it must grow.
fn grown(probe: &mut Probe<'_, '_>, name: &[u8], end: u64) -> u64 {
    let units = end / UNIT_BYTES as u64;
    // The command refuses a longer value.
    if units <= probe.threshold || end > VALUE_BYTES_MAX {
        return 0;
    }
    let key = probe.key(name);
    let capacity = probe.view.extent(&key).map_or(0, |extent| extent.capacity);
    if end <= capacity as u64 { 0 } else { units }
}

/// `SETRANGE key offset value`
pub fn set_range(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let offset = parse_i64(&args[2]).and_then(|offset| u64::try_from(offset).ok());
    let end = offset.map_or(0, |offset| offset.saturating_add(args[3].len() as u64));
    let own = (args[3].len() / UNIT_BYTES) as u64;
    grown(probe, &args[1], end).max(own)
}

/// `SETBIT key offset value`
pub fn set_bit(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let offset = parse_i64(&args[2]).and_then(|offset| u64::try_from(offset).ok());
    grown(probe, &args[1], offset.unwrap_or(0) / 8)
}

/// `BITFIELD key …`: the largest number among the arguments counts as the offset.
pub fn bit_field(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let numbers = args.from(2).iter().filter_map(|text| {
        let (text, width) = match text {
            [b'#', rest @ ..] => (rest, 64),
            text => (text, 1),
        };
        let number = u64::try_from(parse_i64(text)?).ok()?;
        Some(number.saturating_mul(width) / 8)
    });
    let end = numbers.max().unwrap_or(0);
    grown(probe, &args[1], end).max(arguments(args))
}

/// `APPEND key value`: the length of the value if it must be moved.
pub fn append(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let own = (args[2].len() / UNIT_BYTES) as u64;
    if !probe.view.has_huge_strings() {
        return own;
    }
    let key = probe.key(&args[1]);
    let Some(extent) = probe.view.extent(&key) else {
        return own;
    };
    let len = extent.bytes + args[2].len();
    if len <= extent.capacity {
        own
    } else {
        (len / UNIT_BYTES) as u64
    }
}

/// `SET key value …`
pub fn set(_: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    (args[2].len() / UNIT_BYTES) as u64
}

/// `LCS key key …`
pub fn lcs(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let mut len = |name: &[u8]| {
        let key = probe.key(name);
        probe
            .view
            .extent(&key)
            .map_or(0, |extent| extent.bytes as u64)
    };
    let pairs = len(&args[1]).saturating_mul(len(&args[2]));
    pairs.div_ceil(PAIRS_PER_UNIT)
}

/// `RESTORE key ttl dump …`
pub fn restore(_: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    (args[3].len() / DUMP_UNIT_BYTES) as u64
}

/// `PFCOUNT key [key …]`, `PFMERGE key [key …]`
pub fn hyperloglogs(_: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    args.len() as u64 * HYPERLOGLOG_UNITS
}
