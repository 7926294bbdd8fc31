//! A node between clients and an origin, all in one process and on loopback. Clients and origin
//! write raw bytes, so that they can misbehave.

mod cluster;
mod compressing;
mod direct;
mod disk;
mod failing;
mod framing;
mod hostile;
mod membership;
mod operating;
mod serving;
mod sites;
mod support;
