//! Tests of whole servers over loopback sockets on ports that the system chooses. No test sleeps: a
//! check waits for a reply and fails at its timeout.

mod blocking;
mod client;
mod hotkeys;
mod learning;
mod limits;
mod messages;
mod replication;
mod sessions;
mod workers;
