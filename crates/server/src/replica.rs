//! The server as a replica: [`link`] follows the primary, [`removal`] removes what has expired. The
//! state is [`durability::replication`].

pub mod link;
pub mod removal;
pub mod stream;
