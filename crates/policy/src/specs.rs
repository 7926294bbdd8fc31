//! Texts that users may give as the name of a policy, a filter or an index with its knobs. Any text
//! is parsed or refused with a message, a parsed one is written so that it parses to the same, and
//! every knob works at both ends of its range.

use crate::Policy;
use crate::admit::any::{AdmitSpec, AnyAdmission, FILTERS};
use crate::any::{AnyPolicy, POLICIES, PolicySpec, Visitor};
use crate::expire::any::{ExpirySpec, INDEXES};
use crate::knobs::{Knob, SpecError};
use crate::names::is_same;
use crate::parts::chance::Chance;
use crate::suite::policy::Step;
use crate::suite::{admission, policy};
use core::fmt::{Debug, Display};
use core::str::FromStr;
use proptest::prelude::*;

/// Returns the names of all lists with their knobs, so that a text may also have the name of
/// another kind.
fn listed() -> Vec<(&'static str, &'static [Knob])> {
    let policies = POLICIES.iter().map(|about| (about.name, about.knobs));
    let filters = FILTERS.iter().map(|about| (about.name, about.knobs));
    let indexes = INDEXES.iter().map(|about| (about.name, about.knobs));
    policies.chain(filters).chain(indexes).collect()
}

/// Returns both ends of a knob's range, as a user would type them.
fn ends(knob: &Knob) -> (String, String) {
    let (low, high) = knob.range.split_once(" to ").expect("a range has two ends");
    (low.replace('_', ""), high.replace('_', ""))
}

/// Generates a value for a knob: in its range, at its ends, just outside, or not a number.
fn value(knob: &'static Knob) -> impl Strategy<Value = String> {
    let (low, high) = ends(knob);
    // A range described in words is tried with small numbers.
    let (first, last) = match (low.parse::<f64>(), high.parse::<f64>()) {
        (Ok(first), Ok(last)) => (first, last),
        _ => (0.0, 100.0),
    };
    prop_oneof![
        Just(low),
        Just(high),
        (first..=last).prop_map(|value| value.to_string()),
        (first..=last).prop_map(|value| value.round().to_string()),
        (first - 2.0..last + 2.0).prop_map(|value| value.to_string()),
        "-?[0-9]{1,25}(\\.[0-9]{0,3})?(e[0-9]{1,3})?",
        "[0-9]{1,3}x[0-9]{1,4}",
        prop_oneof![Just("nan"), Just("inf"), Just("-0"), Just("+1"), Just("")]
            .prop_map(str::to_owned),
    ]
}

/// Generates a name with some of its knobs, in order or by name, valid or nearly so.
fn nearly_right() -> impl Strategy<Value = String> {
    let of_one = |(name, knobs): (&'static str, &'static [Knob])| {
        let parts = proptest::collection::vec(any::<(prop::sample::Index, bool)>(), 0..4);
        let parts = parts.prop_flat_map(move |chosen| {
            chosen
                .into_iter()
                .enumerate()
                .filter(|_| !knobs.is_empty())
                .map(|(position, (index, is_named))| {
                    let knob = if is_named {
                        index.get(knobs)
                    } else {
                        &knobs[position % knobs.len()]
                    };
                    value(knob).prop_map(move |value| match is_named {
                        true => format!(":{}={value}", knob.name),
                        false => format!(":{value}"),
                    })
                })
                .collect::<Vec<_>>()
        });
        parts.prop_map(move |parts| format!("{name}{}", parts.concat()))
    };
    prop::sample::select(listed()).prop_flat_map(of_one)
}

/// Checks that a text is either parsed or refused, and that a parsed value is written as a text
/// that gives the same value. Returns whether it was parsed.
fn parses_to_the_same<S>(text: &str) -> bool
where
    S: FromStr + Display + PartialEq + Debug,
    S::Err: Display,
{
    match text.parse::<S>() {
        Ok(spec) => {
            let written = spec.to_string();
            let again = written.parse::<S>();
            let again = again.unwrap_or_else(|error| panic!("{text}, {written}: {error}"));
            assert_eq!(again, spec, "{text}");
            assert_eq!(again.to_string(), written, "{text}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn all_parse_to_the_same(text: &str) -> bool {
    let understood = [
        parses_to_the_same::<PolicySpec>(text),
        parses_to_the_same::<AdmitSpec>(text),
        parses_to_the_same::<ExpirySpec>(text),
    ];
    understood.contains(&true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nearly_right_texts_are_parsed_or_refused(text in nearly_right()) {
        all_parse_to_the_same(&text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>(), cut in any::<prop::sample::Index>()) {
        all_parse_to_the_same(&text);
        let (name, _) = *cut.get(&listed());
        all_parse_to_the_same(&format!("{name}:{text}"));
        all_parse_to_the_same(&format!("{name}:{text}=1"));
        all_parse_to_the_same(&format!("{text}:{name}"));
        all_parse_to_the_same(&format!("{name}{text}"));
    }
}

/// Returns texts with these names and one knob at an end of its range.
fn at_the_ends(names: impl Iterator<Item = (&'static str, &'static [Knob])>) -> Vec<String> {
    let mut texts = Vec::new();
    for (name, knobs) in names {
        for knob in knobs {
            let (low, high) = ends(knob);
            texts.extend([low, high].map(|end| format!("{name}:{}={end}", knob.name)));
        }
    }
    texts
}

fn steps(count: usize) -> Vec<Step> {
    let mut chance = Chance::new(11);
    let mut draw = || chance.bits();
    let step = |_| (draw() as u8, draw() as u16, draw() as u16);
    (0..count).map(step).collect()
}

struct KeepsContract;

impl Visitor for KeepsContract {
    type Output = ();
    fn visit<P: Policy>(self, config: &P::Config) {
        policy::keeps_contract::<P>(config, 5, &steps(300));
    }
}

#[test]
fn every_policy_keeps_the_contract_at_the_ends_of_its_knobs() {
    for text in at_the_ends(POLICIES.iter().map(|about| (about.name, about.knobs))) {
        assert!(
            parses_to_the_same::<PolicySpec>(&text),
            "{text} was refused"
        );
        let spec: PolicySpec = text.parse().expect("it was just understood");
        for capacity in [0, 1, u64::MAX] {
            AnyPolicy::build(&spec, capacity, 1);
        }
        spec.visit(KeepsContract);
    }
}

#[test]
fn every_filter_keeps_the_contract_at_the_ends_of_its_knobs() {
    for text in at_the_ends(FILTERS.iter().map(|about| (about.name, about.knobs))) {
        assert!(parses_to_the_same::<AdmitSpec>(&text), "{text} was refused");
        let spec: AdmitSpec = text.parse().expect("it was just understood");
        admission::keeps_contract::<AnyAdmission>(&spec, 5, &steps(300));
    }
}

/// Returns the error message for a text that is refused.
fn message<S: FromStr<Err = SpecError> + Debug>(text: &str) -> String {
    let refused = text.parse::<S>();
    refused.expect_err("the text is wrong").to_string()
}

#[test]
fn a_knob_given_twice_is_refused_in_every_list() {
    assert_eq!(
        message::<AdmitSpec>("size:1:max=2"),
        "size: the knob 'max' is given twice"
    );
    assert_eq!(
        message::<ExpirySpec>("buckets:size=1x1:size=2x2"),
        "buckets: the knob 'size' is given twice"
    );
}

#[test]
fn no_two_names_of_a_list_are_the_same() {
    let lists: [Vec<&str>; 3] = [
        crate::any::names().collect(),
        crate::admit::any::names().collect(),
        crate::expire::any::names().collect(),
    ];
    for names in lists {
        for (index, name) in names.iter().enumerate() {
            let mut others = names[..index].iter();
            assert!(!others.any(|other| is_same(other, name)), "{name}");
        }
    }
}

#[test]
fn defaults_and_bounds_are_shown_as_they_may_be_given() {
    fn check<S: FromStr<Err = SpecError> + Display>(name: &str, knobs: &[Knob]) {
        for knob in knobs {
            let given = |value: &str| format!("{name}:{}={value}", knob.name).parse::<S>();
            let spec = given(knob.default).expect("a knob takes its default");
            assert_eq!(spec.to_string(), name, "{}", knob.name);
            // A range that is not of numbers is described in words.
            let bounds: Vec<&str> = knob.range.split(" to ").collect();
            let is_numbers = bounds.iter().all(|bound| !bound.contains(' '));
            for bound in bounds.into_iter().filter(|_| is_numbers) {
                assert!(given(bound).is_ok(), "{name}: {} = {bound}", knob.name);
            }
        }
    }
    for about in POLICIES {
        check::<PolicySpec>(about.name, about.knobs);
    }
    for about in INDEXES {
        check::<ExpirySpec>(about.name, about.knobs);
    }
    for about in FILTERS {
        check::<AdmitSpec>(about.name, about.knobs);
    }
}
