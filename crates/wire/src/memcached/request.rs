//! One request, parsed.

use crate::args::Span;

/// The longest key, also of an encoded one once it is decoded.
pub const KEY_BYTES_MAX: usize = 250;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `get key…`
    Get,
    /// `gets key…`: with the cas numbers.
    Gets,
    /// `gat exptime key…`: and touch.
    Gat,
    /// `gats exptime key…`
    Gats,
    /// `set key flags exptime bytes`
    Set,
    /// `add …`: only if absent.
    Add,
    /// `replace …`: only if present.
    Replace,
    /// `append …`: behind what is there.
    Append,
    /// `prepend …`: before what is there.
    Prepend,
    /// `cas key flags exptime bytes cas`: only if unchanged.
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
    /// `quit`
    Quit,
    /// `mg key flag…`
    MetaGet,
    /// `ms key bytes flag…`
    MetaSet,
    /// `md key flag…`
    MetaDelete,
    /// `ma key flag…`
    MetaArithmetic,
    /// `mn`
    MetaNoop,
    /// `me key`
    MetaDebug,
}

/// How `ms` stores and which way `ma` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `ms`: set. `ma`: increment.
    #[default]
    Plain,
    /// `ms`: only if absent.
    Add,
    /// `ms`: only if present.
    Replace,
    /// `ms`: behind what is there.
    Append,
    /// `ms`: before what is there.
    Prepend,
    /// `ma`: decrement.
    Decrement,
}

/// The flags of a meta request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Which flags are there: bit 0 for `A`, bit 32 for `a`.
    pub(super) present: u64,
    /// All of them as they were written, for replies that repeat them in their order.
    pub words: Option<Span>,
    /// `C`: the cas number that has to be there.
    pub cas: u64,
    /// `E`: the cas number that shall be there.
    pub new_cas: u64,
    /// `N`: seconds that an item made for a miss lives.
    pub vivify: i64,
    /// `R`: remaining seconds below which one client shall recache.
    pub recache: i64,
    /// `D`: how far to count; 1 unless given.
    pub delta: u64,
    /// `J`: where counting begins.
    pub initial: u64,
    /// `M`.
    pub mode: Mode,
}

impl Meta {
    /// Whether a flag is there.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.present >> bit_of(flag) & 1 == 1
    }
}

/// A flag's bit; `flag` is a letter.
#[inline]
pub(super) fn bit_of(flag: u8) -> u32 {
    u32::from(flag.wrapping_sub(b'A')) & 63
}

/// One request. Spans count from where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub verb: Verb,
    /// Its first key among the spans that the parser was given.
    pub first_key: u32,
    /// How many keys follow one another there.
    pub key_count: u32,
    /// What to store, without its line end.
    pub value: Span,
    /// The client's own 32 bits (`F` of a meta request).
    pub client_flags: u32,
    /// Seconds: see [`super::Expiration`]. `flush_all`: the delay. `T` of a meta request.
    pub exptime: i64,
    /// `cas`: the number; `incr`, `decr`: how far; `verbosity`: the level.
    pub number: u64,
    /// Nothing is to be answered.
    pub is_noreply: bool,
    /// The flags of a meta request.
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
            meta: Meta {
                delta: 1,
                ..Meta::default()
            },
        }
    }

    /// The spans of its keys among those that the parser was given.
    pub fn keys<'s>(&self, spans: &'s [Span]) -> &'s [Span] {
        let first = self.first_key as usize;
        &spans[first..first + self.key_count as usize]
    }
}
