//! A parsed request.

use crate::args::Span;

/// Maximum length of a key in bytes, also after decoding.
pub const KEY_BYTES_MAX: usize = 250;

/// Command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `get key…`
    Get,
    /// `gets key…`: with CAS numbers.
    Gets,
    /// `gat exptime key…`: get and touch.
    Gat,
    /// `gats exptime key…`: get and touch, with CAS numbers.
    Gats,
    /// `set key flags exptime bytes`
    Set,
    /// `add …`: only if absent.
    Add,
    /// `replace …`: only if present.
    Replace,
    /// `append …`: after the existing value.
    Append,
    /// `prepend …`: before the existing value.
    Prepend,
    /// `cas key flags exptime bytes cas`: only if the CAS number matches.
    Cas,
    /// `delete key`
    Delete,
    /// `incr key delta`
    Incr,
    /// `decr key delta`
    Decr,
    /// `touch key exptime`
    Touch,
    /// `flush_all [delay]`
    FlushAll,
    /// `version`
    Version,
    /// `verbosity level`
    Verbosity,
    /// `stats [what]`: the words are the keys.
    Stats,
    /// Administration, such as `lru_crawler`. The words, including the command, are stored as the
    /// keys.
    Admin,
    /// `quit`
    Quit,
    /// `mg key flag…`
    MetaGet,
    /// `ms key bytes flag…`
    MetaSet,
    /// `md key flag…`
    MetaDelete,
    /// `ma key flag…`: increment or decrement.
    MetaArithmetic,
    /// `mn`
    MetaNoop,
    /// `me key`
    MetaDebug,
    /// Binary `noop`: answered after all requests before it.
    Noop,
    /// Binary `sasl list mechs`
    SaslList,
    /// Binary `sasl auth`: the key is the mechanism, the value its data.
    SaslAuth,
}

/// Way in which `ms` stores, and direction in which `ma` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `ms`: set. `ma`: increment.
    #[default]
    Plain,
    /// `ms`: only if absent.
    Add,
    /// `ms`: only if present.
    Replace,
    /// `ms`: after the existing value.
    Append,
    /// `ms`: before the existing value.
    Prepend,
    /// `ma`: decrement.
    Decrement,
}

/// Fields of a binary request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Operation code.
    pub opcode: u8,
    /// Number that the client chooses.
    pub opaque: u32,
}

impl Header {
    /// Whether a reply to a read contains the key.
    pub fn repeats_key(&self) -> bool {
        matches!(self.opcode, 0x0c | 0x0d | 0x23 | 0x24)
    }
}

/// Flags of a meta request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Flags that are present: bit 0 for `A`, bit 32 for `a`.
    pub(super) present: u64,
    /// All flags as sent, for replies that repeat them in order.
    pub words: Span,
    /// `C`: CAS number that the item must have; for `mg`, the CAS number for which the value is not
    /// sent. In a binary request, 0 means none.
    pub cas: u64,
    /// `E`: CAS number for the item.
    pub new_cas: u64,
    /// `N`: TTL in seconds of an item created on a miss.
    pub vivify: i64,
    /// `R`: remaining TTL in seconds below which one client must recache the value.
    pub recache: i64,
    /// `D`: difference to count by; 1 by default.
    pub delta: u64,
    /// `J`: initial value of a counter.
    pub initial: u64,
    /// `M`: mode.
    pub mode: Mode,
}

impl Meta {
    /// Whether a flag is present.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.present >> bit_of(flag) & 1 == 1
    }
}

/// Returns the bit of a flag; `flag` is a letter.
#[inline]
pub(super) const fn bit_of(flag: u8) -> u32 {
    flag.wrapping_sub(b'A') as u32 & 63
}

/// A request. Spans count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command.
    pub verb: Verb,
    /// Index of the request's first key in the spans that the parser appended to.
    pub first_key: u32,
    /// Number of keys.
    pub key_count: u32,
    /// Value to store, without its line end.
    pub value: Span,
    /// 32 bits that the client stores with the value (`F` of a meta request).
    pub client_flags: u32,
    /// Expiration in seconds: see [`super::Expiration`]; for `flush_all` the delay; `T` of a meta
    /// request.
    pub exptime: i64,
    /// CAS number of `cas`, difference of `incr` and `decr`, or level of `verbosity`. Position from
    /// which a read or a dump continues after a part of its reply; 0 at its start.
    pub number: u64,
    /// Whether the client requested no reply.
    pub is_noreply: bool,
    /// Whether the request's keys continue the line of the previous request.
    pub is_continued: bool,
    /// Whether further keys of the request's line follow in the next request.
    pub has_more: bool,
    /// Header of a binary request, which its reply repeats. `meta.cas` and `meta.initial` are then
    /// fields of the request, and an exptime of -1 says that `incr` does not create the key.
    pub binary: Option<Header>,
    /// Flags of a meta request.
    pub meta: Meta,
}

impl Request {
    pub(super) fn of(verb: Verb, spans: &[Span]) -> Request {
        Request {
            verb,
            first_key: spans.len() as u32,
            key_count: 0,
            value: Span::new(0, 0),
            client_flags: 0,
            exptime: 0,
            number: 0,
            is_noreply: false,
            is_continued: false,
            has_more: false,
            binary: None,
            meta: Meta {
                delta: 1,
                ..Meta::default()
            },
        }
    }

    /// Returns the request that continues this one after a part of its reply: from the key at this
    /// index, or from this position of a dump.
    pub fn resumed(&self, position: u64) -> Request {
        let mut request = *self;
        request.number = position;
        if !matches!(self.verb, Verb::Stats | Verb::Admin) {
            let answered = u32::try_from(position).unwrap_or(u32::MAX);
            let answered = answered.min(self.key_count);
            request.first_key += answered;
            request.key_count -= answered;
        }
        request
    }

    /// Returns the request's keys from the spans that the parser appended to.
    pub fn keys<'s>(&self, spans: &'s [Span]) -> &'s [Span] {
        let first = self.first_key as usize;
        &spans[first..first + self.key_count as usize]
    }
}
