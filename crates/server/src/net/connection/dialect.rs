//! Protocol of a connection, with its parser.

use wire::{Parser, memcached};

/// Protocol of a connection, with its parser.
pub(super) enum Dialect {
    /// Redis's protocol.
    Resp(Parser),
    /// Memcached's protocol.
    Memcached {
        parser: memcached::Parser,
        /// Position from which the first request of the input continues, because part of its reply
        /// was already written; otherwise 0.
        resumed_at: u64,
    },
}

impl Dialect {
    /// Returns the parser of a connection that uses Redis's protocol.
    #[inline]
    pub(super) fn resp(&mut self) -> &mut Parser {
        match self {
            Dialect::Resp(parser) => parser,
            Dialect::Memcached { .. } => unreachable!("the connection uses RESP"),
        }
    }

    /// Returns the parser of a connection that uses memcached's protocol, and the position from
    /// which its first request continues.
    #[inline]
    pub(super) fn memcached(&mut self) -> (&mut memcached::Parser, &mut u64) {
        match self {
            Dialect::Memcached { parser, resumed_at } => (parser, resumed_at),
            Dialect::Resp(_) => unreachable!("the connection uses memcached"),
        }
    }

    /// Returns the number of bytes that the parser holds beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Dialect::Resp(parser) => parser.heap_bytes(),
            Dialect::Memcached { .. } => 0,
        }
    }
}
