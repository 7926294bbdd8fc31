//! Which replays each figure takes.

use super::traces::Told;
use super::{Learned, Round};
use crate::simulator::{Order, Unit};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What everybody is compared with.
pub(super) const BASE: &str = "fifo";
/// Who is looked at where it learns as it does.
pub(super) const LEARNER: &str = "gl-cache:e";
/// The same where parameters and features are looked at: it follows its model whether that helps or not, as the
/// source's does.
pub(super) const FOLLOWER: &str = "gl-cache:e:way=model";
/// The days of seven before which nothing counts, in the source's figures 6.17 and 6.8.
const WARM_UPS: [u64; 2] = [1, 3];
const WEEK: u64 = 7;

/// Which features the models of figure 6.12 see, each with those before it.
pub(super) const FEATURE_STEPS: [(&str, &[&str]); 4] = [
    (
        "frequency",
        &["requests", "requested objects", "own requested objects"],
    ),
    ("+ age", &["age", "own age"]),
    ("+ size", &["mean object size"]),
    (
        "+ state of the cache",
        &["request rate", "write rate", "miss ratio"],
    ),
];

/// Which figure a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Study {
    /// 6.6.
    Ceiling,
    /// 6.8 to 6.11, table 6.1.
    Baselines,
    /// Table 6.4.
    Table,
    /// 6.17.
    WarmUp,
    /// 6.12.
    Features,
    /// 6.7.
    Engine,
    /// 6.13.
    Group,
    /// 6.14.
    Fraction,
    /// 6.15.
    Merged,
    /// The others are told in words there.
    Interval,
    /// See above.
    Samples,
    /// See above.
    Trees,
    /// See above.
    Depth,
}

impl Study {
    /// Those that turn a knob.
    pub(super) const KNOBS: [Study; 7] = [
        Study::Group,
        Study::Fraction,
        Study::Merged,
        Study::Interval,
        Study::Samples,
        Study::Trees,
        Study::Depth,
    ];

    /// The knob's name.
    pub(super) fn knob(self) -> Option<&'static str> {
        Some(match self {
            Study::Group => "group",
            Study::Fraction => "fraction",
            Study::Merged => "merged",
            Study::Interval => "interval",
            Study::Samples => "samples",
            Study::Trees => "trees",
            Study::Depth => "depth",
            _ => return None,
        })
    }
}

/// A share of what all objects take, as it was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    text: String,
    share: f64,
}

impl Share {
    /// Of so much, one at least.
    fn of(&self, all: u64) -> u64 {
        ((all as f64 * self.share) as u64).max(1)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let number = text
            .strip_suffix('%')
            .and_then(|text| text.parse::<f64>().ok());
        match number {
            Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(Share {
                text: text.into(),
                share: percent / 100.0,
            }),
            _ => Err(format!(
                "{text:?} is no share above 0% and up to 100%, such as 10%"
            )),
        }
    }
}

/// A replay that a figure takes, and what it is there.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub study: Study,
    /// What its row is called.
    pub name: String,
    /// The knob's value, or what else tells rows of one name apart.
    pub value: Option<String>,
    pub size: String,
    pub order: Order,
}

impl Wanted {
    /// What it is compared with; the engine's figure tells ratios as they are.
    pub(super) fn base(&self) -> Option<Order> {
        (self.study != Study::Engine).then(|| Order {
            cache: BASE.into(),
            hidden: Vec::new(),
            ..self.order.clone()
        })
    }

    #[cfg(test)]
    pub(super) fn of(cache: &str, unit: Unit, capacity: u64) -> Wanted {
        Wanted {
            study: Study::Baselines,
            name: cache.into(),
            value: None,
            size: capacity.to_string(),
            order: Order {
                cache: cache.into(),
                unit,
                capacity,
                warm_up: 0,
                hidden: Vec::new(),
                has_overhead: false,
            },
        }
    }
}

/// A cache with one knob turned.
pub(super) fn with(study: Study, cache: &str, value: &str) -> String {
    let knob = study.knob().expect("the study turns a knob");
    format!("{cache}:{knob}={value}")
}

/// All that the rounds take on this trace.
pub(super) fn plan(options: &Learned, told: &Told, features: &[&str]) -> Vec<Wanted> {
    let has_sizes = told.extent.bytes.is_some();
    let is_asked = |unit: &Unit| options.unit.is_empty() || options.unit.contains(unit);
    let units = [Unit::Objects, Unit::Bytes].into_iter().filter(is_asked);
    let units = units.filter(|unit| *unit == Unit::Objects || has_sizes);
    let mut plan = Vec::new();
    for unit in units {
        for (place, size) in options.size.iter().enumerate() {
            let footprint = match unit {
                Unit::Objects => told.extent.objects,
                Unit::Bytes => told.extent.bytes.unwrap_or(0),
            };
            let at = At {
                options,
                requests: told.extent.requests,
                unit,
                capacity: size.of(footprint),
                size,
            };
            for round in Round::ALL.into_iter().filter(|round| options.has(*round)) {
                // Knobs are looked at where the cache is largest: there are groups enough of any size.
                let is_last = place + 1 == options.size.len();
                match round {
                    Round::Ceiling => at.ceiling(&mut plan),
                    Round::Baselines => at.baselines(&mut plan),
                    Round::Table => at.table(&mut plan),
                    Round::WarmUp => at.warm_up(&mut plan),
                    Round::Features => at.features(features, &mut plan),
                    Round::Engine if unit == Unit::Bytes => at.engine(&mut plan),
                    Round::Knobs if is_last => at.knobs(&mut plan),
                    Round::Engine | Round::Knobs => {}
                }
            }
        }
    }
    plan
}

/// One size of cache on one trace.
struct At<'a> {
    options: &'a Learned,
    requests: u64,
    unit: Unit,
    size: &'a Share,
    capacity: u64,
}

impl At<'_> {
    fn wanted(&self, study: Study, name: &str, cache: &str) -> Wanted {
        Wanted {
            study,
            name: name.into(),
            value: None,
            size: self.size.to_string(),
            order: Order {
                cache: cache.into(),
                unit: self.unit,
                capacity: self.capacity,
                warm_up: 0,
                hidden: Vec::new(),
                has_overhead: false,
            },
        }
    }

    fn ceiling(&self, plan: &mut Vec<Wanted>) {
        let all = [
            BASE,
            "fifo-merge",
            "s3fifo",
            "gl-cache:t",
            LEARNER,
            "gl-oracle:t",
            "gl-oracle",
        ];
        plan.extend(all.map(|cache| self.wanted(Study::Ceiling, cache, cache)));
        let belady = match self.unit {
            Unit::Objects => "belady",
            Unit::Bytes => "belady-size",
        };
        plan.push(self.wanted(Study::Ceiling, "belady", belady));
    }

    fn baselines(&self, plan: &mut Vec<Wanted>) {
        let all = std::iter::once(BASE).chain(self.others());
        plan.extend(all.map(|cache| self.wanted(Study::Baselines, cache, cache)));
    }

    /// Those that learn by objects and by groups.
    fn table(&self, plan: &mut Vec<Wanted>) {
        let name = |cache: &&str| {
            let name = cache.split(':').next();
            name.is_some_and(|name| ["lrb", "gl-cache"].contains(&name))
        };
        let all = std::iter::once(BASE).chain(self.others().filter(name));
        plan.extend(all.map(|cache| self.wanted(Study::Table, cache, cache)));
    }

    /// Those that were named, FIFO apart.
    fn others(&self) -> impl Iterator<Item = &str> {
        let all = self.options.cache.iter().map(String::as_str);
        all.filter(|cache| *cache != BASE)
    }

    fn warm_up(&self, plan: &mut Vec<Wanted>) {
        for days in WARM_UPS {
            // LRB's replays take longer than all others together.
            for cache in
                std::iter::once(BASE).chain(self.others().filter(|cache| !cache.starts_with("lrb")))
            {
                let mut wanted = self.wanted(Study::WarmUp, cache, cache);
                wanted.value = Some(format!("{days}/{WEEK}"));
                wanted.order.warm_up = self.requests * days / WEEK;
                plan.push(wanted);
            }
        }
    }

    fn features(&self, features: &[&str], plan: &mut Vec<Wanted>) {
        let merge = "fifo-merge";
        plan.push(self.wanted(Study::Features, merge, merge));
        let mut seen: Vec<&str> = Vec::new();
        for (name, more) in FEATURE_STEPS {
            seen.extend(more);
            let mut wanted = self.wanted(Study::Features, name, FOLLOWER);
            let hidden = features.iter().enumerate();
            let hidden = hidden.filter(|(_, feature)| !seen.contains(feature));
            wanted.order.hidden = hidden.map(|(place, _)| place).collect();
            plan.push(wanted);
        }
    }

    fn engine(&self, plan: &mut Vec<Wanted>) {
        for cache in &self.options.engine {
            let mut wanted = self.wanted(Study::Engine, cache, cache);
            wanted.order.has_overhead = true;
            plan.push(wanted);
        }
    }

    fn knobs(&self, plan: &mut Vec<Wanted>) {
        for study in Study::KNOBS {
            let caches: &[&str] = match study {
                // What groups of a size could do, and what they do.
                Study::Group => &[FOLLOWER, "gl-oracle"],
                _ => &[FOLLOWER],
            };
            for cache in caches {
                for value in self.options.values(study) {
                    let mut wanted = self.wanted(study, cache, &with(study, cache, &value));
                    wanted.value = Some(value);
                    plan.push(wanted);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_above_nothing_and_up_to_all() {
        let share = |text: &str| text.parse::<Share>().map(|share| share.of(1000));
        assert_eq!(share("10%"), Ok(100));
        assert_eq!(share("0.001%"), Ok(1));
        assert_eq!(share("100%"), Ok(1000));
        for wrong in ["", "10", "0%", "-1%", "101%", "nan%", "x%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
