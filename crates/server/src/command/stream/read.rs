//! Commands that read new entries of several streams and block while there are none: XREAD,
//! XREADGROUP.

use super::arguments::{count, plain_id};
use super::range::write_entries;
use super::reply;
use crate::command::work;
use crate::context::{Ctx, Probe};
use engine::lifetime::whole_timeout_ms;
use engine::refusal::{Answer, CLASS_FULL, OUT_OF_MEMORY, Refusal};
use store::stream::{ConsumerIndex, Delivery, Entry, StreamId};
use store::{Class, Full, Key, Kind, Scene, Stream, Tick};
use wire::number::Text;
use wire::{Args, Protocol, Reply, Span};

/// Group and consumer of XREADGROUP.
#[derive(Clone, Copy)]
struct Reader<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
}

/// Parsed arguments of XREAD and XREADGROUP.
struct Request<'a> {
    args: Args<'a>,
    reader: Option<Reader<'a>>,
    count: usize,
    block_ms: Option<u64>,
    becomes_pending: bool,
    /// Minimum idle time of pending entries that are claimed.
    idle_ms_min: Option<u64>,
    /// Index of the first key, and number of keys.
    first: usize,
    len: usize,
}

/// Entries requested from a stream.
#[derive(Clone, Copy)]
enum Wanted {
    /// Entries after an ID, or pending entries of a consumer after it.
    Behind(StreamId),
    /// Entries that the group has not read.
    Unread,
}

const ONLY_GROUP: [(&str, Refusal); 3] = [
    (
        "CLAIM",
        Refusal::Message(
            "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
        ),
    ),
    (
        "GROUP",
        Refusal::Message(
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        ),
    ),
    (
        "NOACK",
        Refusal::Message(
            "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
        ),
    ),
];

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, is_group: bool) -> Result<Request<'a>, Refusal> {
        let mut request = Request {
            args,
            reader: None,
            count: usize::MAX,
            block_ms: None,
            becomes_pending: true,
            idle_ms_min: None,
            first: 0,
            len: 0,
        };
        let mut index = 1;
        while index < args.len() && request.first == 0 {
            index += request.take(index, is_group)?;
        }
        if request.first == 0 {
            return Err(Refusal::Syntax);
        }
        if is_group && request.reader.is_none() {
            return Err(Refusal::Message("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(request)
    }

    /// Parses an option. Returns the number of its arguments.
    fn take(&mut self, index: usize, is_group: bool) -> Result<usize, Refusal> {
        let args = self.args;
        let is = |name: &str| args.is(index, name);
        let more = args.len() - index - 1;
        let needs = |name: &str| match name {
            "GROUP" => 2,
            "CLAIM" => 1,
            _ => 0,
        };
        let only = ONLY_GROUP
            .iter()
            .find(|(name, _)| is(name) && more >= needs(name));
        if let Some((_, refusal)) = only.filter(|_| !is_group) {
            return Err(*refusal);
        }
        let next = args.get(index + 1);
        match next {
            Some(text) if is("CLAIM") => {
                let idle = wire::number::parse_i64(text).ok_or(Refusal::Message(
                    "ERR min-idle-time is not an integer or out of range",
                ))?;
                let idle = u64::try_from(idle).map_err(|_| {
                    Refusal::Message("ERR min-idle-time must be a positive integer")
                })?;
                self.idle_ms_min = Some(idle);
                Ok(2)
            }
            Some(text) if is("BLOCK") => {
                self.block_ms = Some(whole_timeout_ms(text)?);
                Ok(2)
            }
            Some(text) if is("COUNT") => {
                let count = count(text)?;
                self.count = if count == 0 { usize::MAX } else { count };
                Ok(2)
            }
            Some(_) if is("STREAMS") => {
                if more % 2 == 1 {
                    return Err(Refusal::Message(match is_group {
                        true => {
                            "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
                        }
                        false => {
                            "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
                        }
                    }));
                }
                (self.first, self.len) = (index + 1, more / 2);
                Ok(1)
            }
            Some(group) if is("GROUP") && more >= 2 => {
                let consumer = args.get(index + 2).unwrap_or_default();
                self.reader = Some(Reader { group, consumer });
                Ok(3)
            }
            _ if is("NOACK") => {
                self.becomes_pending = false;
                Ok(1)
            }
            _ => Err(Refusal::Syntax),
        }
    }

    fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.args.iter().skip(self.first).take(self.len)
    }

    fn id_text(&self, index: usize) -> &'a [u8] {
        self.args
            .get(self.first + self.len + index)
            .unwrap_or_default()
    }

    /// Resolves the ID of a stream.
    fn wanted(
        &self,
        index: usize,
        stream: Option<&Stream>,
        last: Option<StreamId>,
    ) -> Result<Wanted, Refusal> {
        let is_group = self.reader.is_some();
        match self.id_text(index) {
            b"$" | b"+" if is_group => Err(Refusal::Message(match self.id_text(index) {
                b"$" => {
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."
                }
                _ => {
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set."
                }
            })),
            b"$" => Ok(Wanted::Behind(
                stream.map_or(StreamId::MIN, |s| s.facts().last_id),
            )),
            b"+" => Ok(Wanted::Behind(
                last.and_then(StreamId::previous).unwrap_or_default(),
            )),
            b">" if is_group => Ok(Wanted::Unread),
            b">" => Err(Refusal::Message(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            )),
            text => Ok(match plain_id(text)? {
                // As in Redis, the largest ID means the same as `>`.
                StreamId::MAX if is_group => Wanted::Unread,
                id => Wanted::Behind(id),
            }),
        }
    }
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key … id …`
pub fn xread(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let request = Request::parse(args, false)?;
    let mut wanted = Vec::with_capacity(request.len);
    for (index, name) in request.keys().enumerate() {
        let key = ctx.key(name);
        let read = ctx.view.read_stream(&key, |stream, scene| {
            let last = stream.last_entry_id(scene);
            let wanted = request.wanted(index, Some(stream), last);
            wanted.map(|wanted| (wanted, last))
        })?;
        wanted.push(match read {
            Some(found) => found?,
            None => {
                ctx.missed(&key);
                (request.wanted(index, None, None)?, None)
            }
        });
    }
    let start = ctx.reply.position();
    let mut served = 0;
    for (name, (wanted, last)) in request.keys().zip(&wanted) {
        let Wanted::Behind(id) = *wanted else {
            continue;
        };
        let (Some(from), true) = (id.next(), last.is_some_and(|last| last > id)) else {
            continue;
        };
        let key = ctx.key(name);
        served += 1;
        begin_stream(&mut ctx.reply, name);
        let out = &mut ctx.reply;
        ctx.view.read_stream(&key, |stream, scene| {
            let entries = stream.range(from, StreamId::MAX, scene).take(request.count);
            write_entries(out, entries);
        })?;
    }
    finish(ctx, &request, start, served, &wanted, None)
}

/// Estimates the work of XREAD and XREADGROUP: the entries after the IDs.
pub fn work(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let is_group = probe.name == "xreadgroup";
    let Ok(request) = Request::parse(args, is_group) else {
        return 0;
    };
    let enough = usize::try_from(probe.threshold).unwrap_or(usize::MAX);
    // Pending entries that are claimed are counted, too.
    let mut sum = 0usize;
    if request.count.saturating_mul(request.len) <= enough {
        if is_group {
            let overdue = |key| work::overdue(probe, key);
            return request.keys().map(overdue).sum();
        }
        return 0;
    }
    for (index, name) in request.keys().enumerate() {
        let key = probe.key(name);
        let entries = probe.view.peek_large_stream(&key, |stream, scene| {
            let group = request.reader.map(|reader| stream.group(reader.group));
            let last = stream.last_entry_id(scene);
            match (request.wanted(index, Some(stream), last).ok()?, group) {
                (Wanted::Behind(id), None) => Some(stream.count_behind(id, enough)),
                (Wanted::Behind(_), Some(group)) => Some(group?.pending_len()),
                (Wanted::Unread, None) => None,
                (Wanted::Unread, Some(group)) => {
                    let claims = request.idle_ms_min.is_some();
                    let pending = if claims { group?.pending_len() } else { 0 };
                    Some(stream.count_behind(group?.last_delivered, enough) + pending)
                }
            }
        });
        sum = sum.saturating_add(entries.flatten().unwrap_or(0).min(request.count));
    }
    sum as u64
}

/// Writes the name of a stream before its entries.
fn begin_stream(reply: &mut Reply<'_>, name: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(name);
}

/// Completes the reply, or blocks the client if there is nothing to reply.
fn finish(
    ctx: &mut Ctx<'_, '_>,
    request: &Request<'_>,
    start: usize,
    served: usize,
    wanted: &[(Wanted, Option<StreamId>)],
    retry_at: Option<Tick>,
) -> Answer {
    if served > 0 {
        let sigil = match ctx.reply.protocol() {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => b'%',
        };
        reply::insert_len(&mut ctx.reply, start, sigil, served);
        return Ok(());
    }
    if let Some(timeout_ms) = request.block_ms {
        // The ID `$` is replaced, because the command runs again when an entry was added.
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for (index, arg) in request.args.iter().enumerate() {
            let from = bytes.len();
            let of = index.checked_sub(request.first + request.len);
            match of.map(|of| wanted.get(of)) {
                Some(Some((Wanted::Behind(id), _))) if arg == b"$" => {
                    bytes.extend_from_slice(Text::unsigned(id.ms).as_bytes());
                    bytes.push(b'-');
                    bytes.extend_from_slice(Text::unsigned(id.seq).as_bytes());
                }
                _ => bytes.extend_from_slice(arg),
            }
            spans.push(Span {
                start: from as u32,
                len: (bytes.len() - from) as u32,
            });
        }
        let args = Args::new(&bytes, &spans);
        let keys = args.iter().skip(request.first).take(request.len);
        if ctx.wait_until(args, keys, Kind::Stream, timeout_ms, retry_at) {
            return Ok(());
        }
    }
    ctx.reply.null_array();
    Ok(())
}

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] [CLAIM milliseconds]
/// STREAMS key … id …`
pub fn xreadgroup(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut request = Request::parse(args, true)?;
    let reader = request.reader.expect("it was parsed");
    let mut wanted = Vec::with_capacity(request.len);
    for (index, name) in request.keys().enumerate() {
        let key = ctx.key(name);
        let has_group = ctx
            .view
            .read_stream(&key, |stream, _| stream.group(reader.group).is_some())?;
        if has_group != Some(true) {
            let parts: [&[u8]; 5] = [
                b"NOGROUP No such key '",
                name,
                b"' or consumer group '",
                reader.group,
                b"' in XREADGROUP with GROUP option",
            ];
            ctx.reply.error_bytes(&parts.concat());
            return Ok(());
        }
        wanted.push((request.wanted(index, None, None)?, None));
    }
    let start = ctx.reply.position();
    let (mut served, mut claimable_at) = (0, None);
    for (name, (wanted, _)) in request.keys().zip(&wanted) {
        let key = ctx.key(name);
        let found = serve_reader(ctx, &request, reader, &key, *wanted)?;
        served += usize::from(found);
        if !found && served == 0 {
            let next = next_claim(ctx, &request, reader, &key)?;
            claimable_at = claimable_at.into_iter().chain(next).min();
        }
        if let Wanted::Behind(_) = wanted {
            // As in Redis, CLAIM does not apply to streams after one whose history is read.
            request.idle_ms_min = None;
        }
    }
    finish(ctx, &request, start, served, &wanted, claimable_at)
}

/// Returns the consumer with a name and creates it if needed.
pub(super) fn consumer_of(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    group: &[u8],
    name: &[u8],
) -> Result<Option<ConsumerIndex>, Refusal> {
    let mut found = None;
    // Only the time of the last attempt changes, so that the key does not count as written.
    ctx.view.edit_stream(key, false, |stream, scene| {
        found = stream.group(group)?.find(name);
        stream.consumer_seen(group, found?, scene);
        None::<()>
    })?;
    if found.is_some() {
        return Ok(found);
    }
    match ctx.view.lacks_room(key.db) {
        Some(Full::Memory) => return Err(Refusal::Message(OUT_OF_MEMORY)),
        Some(Full::Database) => {
            ctx.server.data.keyspace.refuse_full(key.db);
            return Err(Refusal::Message(CLASS_FULL));
        }
        None => {}
    }
    let edited = ctx.view.edit_stream(key, false, |stream, scene| {
        stream.add_consumer(group, name, scene).flatten()
    })?;
    let created = edited.map(|edited| edited.result);
    if created.is_some() {
        ctx.view.notify(Class::Stream, "xgroup-createconsumer", key);
    }
    Ok(created)
}

/// Delivers entries of one stream. Returns whether it wrote a reply.
fn serve_reader(
    ctx: &mut Ctx<'_, '_>,
    request: &Request<'_>,
    reader: Reader<'_>,
    key: &Key<'_>,
    wanted: Wanted,
) -> Result<bool, Refusal> {
    let Some(consumer) = consumer_of(ctx, key, reader.group, reader.consumer)? else {
        return Ok(false);
    };
    let delivery = Delivery {
        consumer,
        count: request.count,
        becomes_pending: request.becomes_pending,
    };
    let (group, out) = (reader.group, &mut ctx.reply);
    let (mut has_reply, mut is_redelivered) = (false, false);
    ctx.view.edit_stream(key, false, |stream, scene| {
        if let Wanted::Behind(id) = wanted {
            has_reply = true;
            begin_stream(out, key.bytes);
            is_redelivered = write_again(out, stream, group, &delivery, id, scene);
            return None;
        }
        let idle = request.idle_ms_min;
        has_reply = has_work(stream, group, idle, scene)?;
        has_reply.then(|| {
            begin_stream(out, key.bytes);
            write_unread(out, stream, group, &delivery, idle, scene);
        })
    })?;
    if is_redelivered {
        ctx.view.count_redelivery();
    }
    Ok(has_reply)
}

/// Returns the instant at which the first pending entry of a stream may be claimed; `None` without
/// CLAIM or pending entries.
fn next_claim(
    ctx: &mut Ctx<'_, '_>,
    request: &Request<'_>,
    reader: Reader<'_>,
    key: &Key<'_>,
) -> Result<Option<Tick>, Refusal> {
    let Some(idle) = request.idle_ms_min.filter(|_| request.block_ms.is_some()) else {
        return Ok(None);
    };
    let mut oldest = None;
    // This changes nothing.
    ctx.view.edit_stream(key, false, |stream, scene| {
        oldest = stream.oldest_delivery(reader.group, scene);
        None::<()>
    })?;
    Ok(oldest.map(|at: u64| Tick(at.saturating_add(idle))))
}

/// Returns whether a group has unread entries, or pending ones that may be claimed.
fn has_work(
    stream: &mut Stream,
    group: &[u8],
    idle_ms_min: Option<u64>,
    scene: &Scene<'_>,
) -> Option<bool> {
    if stream.has_unread(stream.group(group)?, scene) {
        return Some(true);
    }
    let Some(idle) = idle_ms_min else {
        return Some(false);
    };
    let oldest = stream.oldest_delivery(group, scene);
    Some(oldest.is_some_and(|at| scene.now.0.saturating_sub(at) >= idle))
}

/// Writes pending entries of a consumer after an ID. Returns whether a delivery was counted.
fn write_again(
    out: &mut Reply<'_>,
    stream: &mut Stream,
    group: &[u8],
    delivery: &Delivery,
    id: StreamId,
    scene: &Scene<'_>,
) -> bool {
    let mut is_counted = false;
    reply::array_of(out, |out| {
        let mut len = 0;
        let Some(from) = id.next() else { return 0 };
        stream.deliver_again(group, delivery, from, scene, &mut |id, entry| {
            len += 1;
            is_counted |= entry.is_some();
            match entry {
                Some(entry) => reply::entry(out, entry),
                None => {
                    out.array(2);
                    reply::id(out, id);
                    out.null_array();
                }
            }
        });
        len
    });
    is_counted
}

/// Writes pending entries that are claimed, then unread ones. With CLAIM each has two further
/// numbers: the time since the last delivery, and the number of deliveries.
fn write_unread(
    out: &mut Reply<'_>,
    stream: &mut Stream,
    group: &[u8],
    delivery: &Delivery,
    idle_ms_min: Option<u64>,
    scene: &Scene<'_>,
) {
    let claimed = |out: &mut Reply<'_>, entry: &Entry<'_>, idle: u64, deliveries: u32| {
        out.array(4);
        reply::id(out, entry.id);
        reply::fields(out, entry);
        out.integer(idle as i64);
        out.integer(deliveries.into());
    };
    reply::array_of(out, |out| {
        let mut len = 0;
        if let Some(idle) = idle_ms_min {
            len = stream.claim_idle(group, delivery, idle, scene, &mut |entry, ms, n| {
                claimed(out, entry, ms, n);
            });
        }
        let rest = Delivery {
            count: delivery.count - len,
            ..*delivery
        };
        stream.deliver(group, &rest, scene, &mut |entry| {
            len += 1;
            match idle_ms_min {
                None => reply::entry(out, entry),
                Some(_) => claimed(out, entry, 0, 0),
            }
        });
        len
    });
}
