//! The effect of commands on streams.

use super::super::replies::Value;
use super::Rewrite;
use session::spec::Form;
use std::collections::BTreeMap;
use store::Stream;
use store::stream::{Pending, StreamId};
use wire::Args;
use wire::number::Text;

/// Returns the ID before which a trim removes all entries and references, if it has one.
fn exact_id<'a>(options: Args<'a>) -> Option<&'a [u8]> {
    let at = (0..options.len()).find(|at| options.is(*at, "minid"))? + 1;
    match options.get(at)? {
        b"~" => None,
        b"=" => options.get(at + 1),
        id => Some(id),
    }
}

impl Rewrite<'_, '_, '_> {
    /// Adds an entry of a stream.
    pub(super) fn added(&mut self) -> Option<()> {
        let args = self.args;
        let name = &args[1];
        let reply = self.reply();
        let reply = Value::parse(&reply)?;
        let id = reply.text();
        let (mut at, mut has_trim, mut has_deadline, mut age) = (2, false, false, None);
        let mut message = None;
        loop {
            let word = args.get(at)?.to_ascii_lowercase();
            at += match &word[..] {
                b"nomkstream" | b"keepref" | b"delref" => 1,
                // The entries that are removed are no prefix, or the message has no name here.
                b"acked" | b"idmpauto" => return None,
                b"idmp" => {
                    message = Some((args.get(at + 1)?, args.get(at + 2)?));
                    3
                }
                b"maxlen" | b"minid" => {
                    has_trim = true;
                    let has_sign = matches!(args.get(at + 1)?, b"~" | b"=");
                    2 + usize::from(has_sign)
                }
                b"limit" => 2,
                b"maxage" => {
                    age = args.get(at + 1);
                    2
                }
                b"ex" | b"px" | b"exat" | b"pxat" => {
                    has_deadline = true;
                    2
                }
                _ => break,
            };
        }
        let mut add: Vec<&[u8]> = vec![b"XADD", name, id];
        add.extend(args.from(at + 1).iter());
        self.add(&add);
        if let Some((producer, message)) = message {
            self.add(&[b"XIDMPRECORD", name, producer, message, id]);
        }
        if let Some(age) = age {
            self.add(&[b"XRETENTION", name, age]);
        }
        if has_deadline {
            let key = self.ctx.key(name);
            let read = |stream: &Stream, scene: &store::Scene<'_>| stream.deadline(id, scene);
            match self.ctx.view.read_stream(&key, read) {
                Ok(Some(Some(Some(deadline)))) => {
                    let text = Text::unsigned(deadline.0);
                    self.add(&[b"XPEXPIREAT", name, text.as_bytes(), b"IDS", b"1", id]);
                }
                _ => self.add(&[b"XDEL", name, id]),
            }
        }
        if has_trim {
            self.trim(args.from(2).first(at - 2))?;
        }
        Some(())
    }

    /// Adds the removal of the entries before the first one. `options` are the command's.
    pub(super) fn trim(&mut self, options: Args<'_>) -> Option<()> {
        let has = |word: &str| (0..options.len()).any(|at| options.is(at, word));
        if has("acked") {
            return None;
        }
        let name = self.arg(1);
        let key = self.ctx.key(name);
        let read = |stream: &Stream, scene: &store::Scene<'_>| {
            (!stream.is_empty(scene)).then(|| stream.first_id(scene).to_string())
        };
        let first = self.ctx.view.read_stream(&key, read).ok()??;
        let id = exact_id(options).or(first.as_ref().map(String::as_bytes));
        let mut args: Vec<&[u8]> = match id {
            Some(id) => vec![b"XTRIM", name, b"MINID", b"=", id],
            None => vec![b"XTRIM", name, b"MAXLEN", b"=", b"0"],
        };
        if has("delref") {
            args.push(b"DELREF");
        }
        self.add(&args);
        Some(())
    }

    /// Adds the removal of the entries that XDELEX has deleted.
    pub(super) fn entries_deleted(&mut self) -> Option<()> {
        if Form::EntriesDeleted.is_same(self.args) {
            self.same();
            return Some(());
        }
        let ids = self.counted(2)?;
        let reply = self.reply();
        let reply = Value::parse(&reply)?;
        let results = ids.iter().zip(reply.elements());
        let deleted = results.filter(|(_, result)| result.text() == b"1");
        let deleted: Vec<&[u8]> = deleted.map(|(id, _)| id).collect();
        self.in_parts(&[b"XDEL", self.arg(1)], &deleted, &[]);
        Some(())
    }

    /// Adds XGROUP CREATE or XGROUP SETID without the number of entries read, which servers before
    /// Redis 7 refuse, and then this number.
    pub(super) fn group_numbered(&mut self) -> Option<()> {
        let args = self.args;
        let Some(at) = (5..args.len()).find(|at| args.is(*at, "entriesread")) else {
            self.same();
            return Some(());
        };
        let (name, group, id, read) = (&args[2], &args[3], &args[4], args.get(at + 1)?);
        let set = [&b"XGROUP"[..], b"SETID", name, group, id];
        if args.is(1, "create") {
            let has_option = (5..args.len()).any(|at| args.is(at, "mkstream"));
            let create = [&b"XGROUP"[..], b"CREATE", name, group, id, b"MKSTREAM"];
            self.add(&create[..create.len() - usize::from(!has_option)]);
        } else {
            self.add(&set);
        }
        self.add(&[&set[..], &[b"ENTRIESREAD", read]].concat());
        Some(())
    }

    /// Adds the state of the entries that XREADGROUP, XCLAIM or XAUTOCLAIM has delivered.
    pub(super) fn delivered(&mut self) -> Option<()> {
        let args = self.args;
        let reply = self.reply();
        let reply = Value::parse(&reply)?;
        let mut ids: Vec<(Vec<u8>, Vec<StreamId>)> = Vec::new();
        let id_of = |value: &Value<'_>| match value {
            Value::Text(text) => StreamId::parse(text),
            entry => StreamId::parse(entry.elements().first()?.text()),
        };
        let (group, consumer) = match self.command() {
            "xreadgroup" => {
                let first = (4..args.len()).find(|at| args.is(*at, "streams"))? + 1;
                let keys = (args.len() - first) / 2;
                let nested = reply
                    .elements()
                    .iter()
                    .any(|one| !one.elements().is_empty());
                let flat: Vec<Value<'_>> = match reply.elements().first() {
                    Some(Value::Array(_)) if nested => {
                        let pairs = reply.elements().iter();
                        pairs.flat_map(|pair| pair.elements().to_vec()).collect()
                    }
                    _ => reply.elements().to_vec(),
                };
                for key in args.from(first).first(keys).iter() {
                    let pair = flat.chunks(2).find(|pair| pair[0].text() == key);
                    let entries = pair.and_then(|pair| pair.get(1));
                    let entries = entries.map_or(&[][..], |entries| entries.elements());
                    ids.push((key.to_vec(), entries.iter().filter_map(id_of).collect()));
                }
                (&args[2], &args[3])
            }
            "xclaim" => {
                let named = args.from(5).iter().map_while(StreamId::parse).collect();
                ids.push((args[1].to_vec(), named));
                (&args[2], &args[3])
            }
            _ => {
                let (claimed, gone) = (reply.elements().get(1)?, reply.elements().get(2));
                let gone = gone.map_or(&[][..], |gone| gone.elements());
                let all = claimed.elements().iter().chain(gone);
                ids.push((args[1].to_vec(), all.filter_map(id_of).collect()));
                (&args[2], &args[3])
            }
        };
        for (key, ids) in ids {
            self.pending(&key, group, consumer, &ids)?;
        }
        Some(())
    }

    fn pending(
        &mut self,
        name: &[u8],
        group: &[u8],
        consumer: &[u8],
        ids: &[StreamId],
    ) -> Option<()> {
        let key = self.ctx.key(name);
        let read = |stream: &Stream, _: &store::Scene<'_>| {
            let group = stream.group(group)?;
            let owner = group.find(consumer);
            let pending = ids.iter().map(|id| (*id, group.get(*id)));
            // XCLAIM leaves entries that are not idle long enough to their owners.
            let is_other = |entry: &Pending| Some(entry.consumer) != owner;
            let pending: Vec<_> = pending
                .filter(|(_, entry)| !entry.as_ref().is_some_and(is_other))
                .collect();
            let has_consumer = owner.is_some();
            Some((
                pending,
                group.last_delivered,
                group.entries_read,
                has_consumer,
            ))
        };
        let found = self.ctx.view.read_stream(&key, read).ok()??;
        let (pending, last, entries_read, has_consumer) = found?;
        let last = last.to_string();
        if has_consumer {
            self.add(&[b"XGROUP", b"CREATECONSUMER", name, group, consumer]);
        }
        let mut groups: BTreeMap<(u64, u32), Vec<String>> = BTreeMap::new();
        let mut gone = Vec::new();
        for (id, pending) in pending {
            match pending {
                Some(pending) => {
                    let times = (pending.delivered_ms, pending.deliveries);
                    groups.entry(times).or_default().push(id.to_string());
                }
                None => gone.push(id.to_string()),
            }
        }
        let has_claims = !groups.is_empty();
        for ((time, count), ids) in groups {
            let (time, count) = (Text::unsigned(time), Text::unsigned(u64::from(count)));
            let ids: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
            let options: [&[u8]; 8] = [
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"FORCE",
                b"JUSTID",
                b"LASTID",
                last.as_bytes(),
            ];
            self.in_parts(&[b"XCLAIM", name, group, consumer, b"0"], &ids, &options);
        }
        let gone: Vec<&[u8]> = gone.iter().map(String::as_bytes).collect();
        self.in_parts(&[b"XACK", name, group], &gone, &[]);
        let set = [&b"XGROUP"[..], b"SETID", name, group, last.as_bytes()];
        self.group_id(&set, has_claims, entries_read);
        Some(())
    }

    /// Adds the last ID that a group has delivered, and the number of entries up to it. Servers
    /// before Redis 7 refuse the second, and read the first from LASTID of XCLAIM, too.
    fn group_id(&mut self, set: &[&[u8]], has_claims: bool, entries_read: Option<u64>) {
        if !has_claims || entries_read.is_none() {
            self.add(set);
        }
        if let Some(read) = entries_read {
            let read = Text::unsigned(read);
            self.add(&[set, &[&b"ENTRIESREAD"[..], read.as_bytes()]].concat());
        }
    }
}
