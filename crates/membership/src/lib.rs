//! Records on which the nodes of a cluster agree.
//!
//! [`kv`] is the interface to the store of records: reads at a revision, changes, conditional
//! writes and leases. [`etcd`] implements it with etcd. [`access`] has the settings of that client.
//! The HTTP cache stores registrations and maps of its own.
//!
//! [`records`] is the encoding of the records of a cluster of servers, and [`directory`] is what a
//! node has read of them. [`copy`] is their copy in a file.
//!
//! The crate has no clock of its own beyond time limits, and no threads: its futures run on the
//! runtime of the caller.
#![forbid(unsafe_code)]

pub mod access;
pub mod copy;
pub mod directory;
pub mod etcd;
pub mod kv;
pub mod moves;
pub mod pem;
pub mod plan;
pub mod records;

use std::fmt;

/// Description of a setting that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}
