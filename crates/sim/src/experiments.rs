//! Experiments of many replays whose results are compared with published figures.

pub mod learned;
pub mod segment_knobs;
