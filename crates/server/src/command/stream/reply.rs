//! Replies that several commands on streams have.

use crate::context::Ctx;
use engine::refusal::Answer;
use store::stream::{Entry, StreamId};
use wire::Reply;
use wire::number::Text;

/// Writes an ID.
pub(super) fn id(reply: &mut Reply<'_>, id: StreamId) {
    let (ms, seq) = (Text::unsigned(id.ms), Text::unsigned(id.seq));
    let (ms, seq) = (ms.as_bytes(), seq.as_bytes());
    reply.bulk_head(ms.len() + 1 + seq.len());
    for part in [ms, b"-", seq, b"\r\n"] {
        reply.raw(part);
    }
}

/// Writes the fields and values of an entry.
pub(super) fn fields(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    reply.array(entry.field_count() * 2);
    for (name, value) in entry.fields() {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// Writes an entry: its ID, and its fields and values.
pub(super) fn entry(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    reply.array(2);
    id(reply, entry.id);
    fields(reply, entry);
}

/// Writes an array whose length becomes known when `write` has written its elements and returned
/// their number.
pub(super) fn array_of(reply: &mut Reply<'_>, write: impl FnOnce(&mut Reply<'_>) -> usize) {
    let start = reply.position();
    let len = write(reply);
    insert_len(reply, start, b'*', len);
}

/// Writes the head of an array or a map before everything written since `start`.
pub(super) fn insert_len(reply: &mut Reply<'_>, start: usize, sigil: u8, len: usize) {
    let number = Text::unsigned(len as u64);
    let (mut line, digits) = ([sigil; 24], number.as_bytes());
    let end = 1 + digits.len();
    line[1..end].copy_from_slice(digits);
    line[end..end + 2].copy_from_slice(b"\r\n");
    reply.buffer().insert(start, &line[..end + 2]);
}

/// Refuses a command whose key or group does not exist.
pub(super) fn no_key_or_group(ctx: &mut Ctx<'_, '_>, key: &[u8], group: &[u8]) -> Answer {
    let parts: [&[u8]; 5] = [
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        group,
        b"'",
    ];
    ctx.reply.error_bytes(&parts.concat());
    Ok(())
}

/// Refuses a command whose stream exists but whose group does not.
pub(super) fn no_group(ctx: &mut Ctx<'_, '_>, key: &[u8], group: &[u8]) -> Answer {
    let parts: [&[u8]; 5] = [
        b"NOGROUP No such consumer group '",
        group,
        b"' for key name '",
        key,
        b"'",
    ];
    ctx.reply.error_bytes(&parts.concat());
    Ok(())
}
