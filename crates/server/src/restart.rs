//! Restart for an upgrade: the sequence of its steps. The state is [`durability::restart`].

pub mod work;
