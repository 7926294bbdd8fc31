//! Knobs of the policy. Some defaults depend on the mode.

use crate::{Boosting, Interval, Maker, Regressor};
use policy::knobs::{Knob, Knobs};
use std::str::FromStr;

/// Preset of the knobs. The paper has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// GL-Cache-E: fewer misses.
    #[default]
    Efficiency,
    /// GL-Cache-T: less work.
    Throughput,
}

/// Strategy that determines which groups are merged and which entries are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Merges groups by age and keeps the half with the most hits per weight, like FIFO-Merge.
    #[default]
    Merge,
    /// Merges groups by age and keeps only requested entries.
    Requested,
    /// Merges groups by the model's predictions. Until the model is trained, it works like `Merge`.
    Model,
}

impl Strategy {
    /// All strategies, in the order in which the trials count them.
    pub const ALL: [Strategy; COUNT] = [Strategy::Merge, Strategy::Requested, Strategy::Model];

    /// Returns the name of the strategy in options.
    pub const fn name(self) -> &'static str {
        ["merge", "asked", "model"][self as usize]
    }
}

/// Number of strategies.
pub(super) const COUNT: usize = 3;
/// The knobs of [`GlCache`](super::GlCache).
#[derive(Clone, Debug, PartialEq)]
pub struct GlConfig {
    /// Preset that determines the defaults of the next three fields.
    pub mode: Mode,
    /// Number of entries in a group.
    pub group: Option<u16>,
    /// Number of groups merged per eviction.
    pub merged: Option<u16>,
    /// Share of the groups evicted before all groups are ranked again.
    pub fraction: Option<f32>,
    /// Strategy of merges; `None` selects the one that misses least in miniature.
    pub way: Option<Strategy>,
    /// Interval between two trainings.
    pub interval: Interval,
    /// Maximum number of sampled groups.
    pub samples: u16,
    /// Number of trees in the model.
    pub trees: u16,
    /// Maximum depth of the trees.
    pub depth: u16,
    /// Function that creates the model.
    pub maker: Maker,
}

impl Default for GlConfig {
    fn default() -> Self {
        GlConfig {
            mode: Mode::default(),
            group: None,
            merged: None,
            fraction: None,
            way: None,
            interval: Interval::default(),
            samples: 8192,
            trees: 16,
            depth: 6,
            maker: Maker::default(),
        }
    }
}

impl GlConfig {
    pub(super) fn group(&self) -> usize {
        let by_mode = [60, 200][self.mode as usize];
        self.group.unwrap_or(by_mode).into()
    }

    pub(super) fn merged(&self) -> usize {
        let by_mode = [2, 5][self.mode as usize];
        self.merged.unwrap_or(by_mode).into()
    }

    pub(super) fn fraction(&self) -> f32 {
        let by_mode = [0.02, 0.1][self.mode as usize];
        self.fraction.unwrap_or(by_mode)
    }

    pub(super) fn regressor(&self) -> Box<dyn Regressor> {
        (self.maker.0)(&Boosting {
            trees: self.trees.into(),
            depth: self.depth.into(),
            ..Boosting::default()
        })
    }
}

const fn knob(name: &'static str, default: &'static str, range: &'static str) -> Knob {
    Knob {
        name,
        default,
        range,
    }
}

/// Text of a knob whose default depends on the mode.
const BY_MODE: &str = "mode";

/// Text of the knob that lets the trials choose the strategy.
const BY_TRIAL: &str = "auto";

/// Parses a number from `low` to `high` and stores it in `place`. Returns false if the text is
/// invalid.
fn put<T: FromStr + PartialOrd>(place: &mut T, value: &str, low: T, high: T) -> bool {
    match value.parse() {
        Ok(value) if value >= low && value <= high => {
            *place = value;
            true
        }
        _ => false,
    }
}

/// Parses a number from `low` to `high`, or [`BY_MODE`]. Returns false if the text is invalid.
fn parse_optional<T>(place: &mut Option<T>, value: &str, low: T, high: T) -> bool
where
    T: FromStr + PartialOrd + Copy,
{
    if value == BY_MODE {
        *place = None;
        return true;
    }
    let mut given = low;
    let is_fine = put(&mut given, value, low, high);
    if is_fine {
        *place = Some(given);
    }
    is_fine
}

fn show<T: ToString>(value: Option<T>) -> String {
    value.map_or(BY_MODE.into(), |value| value.to_string())
}

impl Knobs for GlConfig {
    const KNOBS: &'static [Knob] = &[
        knob("mode", "e", "e or t"),
        knob("group", BY_MODE, "mode, or a number from 1 to 10000"),
        knob("merged", BY_MODE, "mode, or a number from 2 to 100"),
        knob("fraction", BY_MODE, "mode, or a number from 0.001 to 1"),
        knob("way", BY_TRIAL, "auto, merge, asked or model"),
        knob(
            "interval",
            "auto",
            "auto, daily, or requests from 1 to 1000000 for each entry held",
        ),
        knob("samples", "8192", "512 to 65535"),
        knob("trees", "16", "1 to 1000"),
        knob("depth", "6", "1 to 12"),
    ];

    fn set(&mut self, name: &str, value: &str) -> bool {
        match (name, value) {
            ("mode", "e") => self.mode = Mode::Efficiency,
            ("mode", "t") => self.mode = Mode::Throughput,
            ("group", _) => return parse_optional(&mut self.group, value, 1, 10_000),
            ("merged", _) => return parse_optional(&mut self.merged, value, 2, 100),
            ("fraction", _) => return parse_optional(&mut self.fraction, value, 0.001, 1.0),
            ("way", BY_TRIAL) => self.way = None,
            ("way", _) => match Strategy::ALL.into_iter().find(|way| way.name() == value) {
                None => return false,
                way => self.way = way,
            },
            ("interval", "auto") => self.interval = Interval::Auto,
            ("interval", "daily") => self.interval = Interval::Daily,
            ("interval", _) => {
                let mut each = 0;
                if !put(&mut each, value, 1, 1_000_000) {
                    return false;
                }
                self.interval = Interval::Requests(each);
            }
            ("samples", _) => return put(&mut self.samples, value, 512, u16::MAX),
            ("trees", _) => return put(&mut self.trees, value, 1, 1000),
            ("depth", _) => return put(&mut self.depth, value, 1, 12),
            _ => return false,
        }
        true
    }

    fn show(&self, name: &str) -> String {
        match name {
            "mode" => ["e", "t"][self.mode as usize].into(),
            "group" => show(self.group),
            "merged" => show(self.merged),
            "fraction" => show(self.fraction),
            "way" => self.way.map_or(BY_TRIAL, Strategy::name).into(),
            "interval" => match self.interval {
                Interval::Auto => "auto".into(),
                Interval::Daily => "daily".into(),
                Interval::Requests(each) => each.to_string(),
            },
            "samples" => self.samples.to_string(),
            "trees" => self.trees.to_string(),
            "depth" => self.depth.to_string(),
            _ => String::new(),
        }
    }

    fn is_valid(&self) -> bool {
        let mut other = self.clone();
        Self::KNOBS
            .iter()
            .all(|knob| other.set(knob.name, &self.show(knob.name)))
    }
}
