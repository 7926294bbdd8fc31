//! Lua scripts as Redis runs them: a sandboxed Lua 5.1 state, the libraries `redis`, `cjson`,
//! `cmsgpack`, `struct` and `bit`, conversion of replies in both directions, the script cache, and
//! function libraries.
//!
//! The crate deliberately lacks sockets, keys, locks and a clock: a script runs commands, reads the
//! time and writes to the log through the trait [`Host`]. Start reading at [`Engine`].

#![deny(unsafe_code)]

mod cache;
mod direct;
mod engine;
mod failure;
mod header;
mod host;
mod lend;
mod lib_bit;
mod lib_cmsgpack;
mod lib_json;
mod lib_redis;
mod lib_struct;
mod library;
mod number;
mod pattern;
mod reply;
mod sha1;
mod state;

pub use cache::{CacheFacts, Digest, Script, Scripts};
pub use engine::{Engine, Finished, Options, Refusal};
pub use header::{Flags, Header, HeaderError, Unreadable};
pub use host::Host;
pub use library::{Libraries, Library, LibraryMap, Registered};
pub use sha1::{hex, sha1};
pub use state::STACK_BYTES;
