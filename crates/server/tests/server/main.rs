//! Whole servers over loopback sockets on ports that the system chooses. Nothing here sleeps: a check
//! waits for a reply, which comes or fails the check at its deadline.

mod blocking;
mod client;
mod learning;
mod limits;
mod messages;
mod sessions;
mod workers;
