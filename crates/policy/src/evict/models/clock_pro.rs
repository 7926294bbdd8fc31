//! CLOCK-Pro as drawn in its source: one clock of pages with their states, searched by each hand.

use super::steps;
use crate::evict::clock_pro::ClockPro;
use crate::suite::policy::{NaivePolicy, Step, agrees_with_model};
use proptest::prelude::*;

#[derive(Clone)]
struct Page {
    key: u64,
    weight: u64,
    is_hot: bool,
    is_held: bool,
    is_tested: bool,
    is_marked: bool,
    /// Whether the page was hot and has not been requested since.
    is_demoted: bool,
}

struct PlainClockPro {
    /// Whether it is CLOCK-Pro+.
    is_plus: bool,
    /// Pages from the tail to the head.
    clock: Vec<Page>,
    capacity: u64,
    cold_aim: u64,
    is_back: bool,
    has_evicted: bool,
}

impl PlainClockPro {
    fn weight(&self, which: impl Fn(&Page) -> bool) -> u64 {
        let pages = self.clock.iter().filter(|page| which(page));
        pages.map(|page| page.weight).sum()
    }
    fn find(&self, which: impl Fn(&Page) -> bool) -> Option<usize> {
        self.clock.iter().position(which)
    }
    fn widen(&mut self, weight: u64) {
        let most = self.capacity / if self.is_plus { 2 } else { 1 };
        self.cold_aim = (self.cold_aim + weight).min(most);
    }
    fn narrow(&mut self, weight: u64) {
        self.cold_aim = self.cold_aim.saturating_sub(weight).max(1);
    }
    /// An evicted page was requested again in its test period.
    fn widen_for_evicted(&mut self, weight: u64) {
        let evicted = self.weight(|page| !page.is_held);
        let demoted = self.weight(|page| page.is_demoted);
        let times = if self.is_plus { demoted / evicted } else { 1 };
        self.widen(weight * times.max(1));
    }
    /// A page that was hot before was requested.
    fn narrow_for_demoted(&mut self, weight: u64) {
        let evicted = self.weight(|page| !page.is_held);
        let demoted = self.weight(|page| page.is_demoted);
        self.narrow(weight * (evicted / demoted).max(1));
    }
    fn end_test(&mut self, at: usize) {
        let page = &mut self.clock[at];
        let (weight, is_held, is_marked) = (page.weight, page.is_held, page.is_marked);
        page.is_tested = false;
        if !is_held {
            self.clock.remove(at);
        }
        if !is_marked && !self.is_plus {
            self.narrow(weight);
        }
    }
    /// Ends the tests of all pages that HAND_hot passes until it is at a hot page.
    fn end_passed_tests(&mut self) {
        while let Some(hand) = self.find(|page| page.is_hot)
            && let Some(at) = self.find(|page| page.is_tested).filter(|&at| at < hand)
        {
            self.end_test(at);
        }
    }
    fn bound_evicted(&mut self) {
        for _ in 0..4 {
            if self.weight(|page| !page.is_held) > self.capacity {
                let at = self.find(|page| page.is_tested).expect("one is evicted");
                self.end_test(at);
            }
        }
    }
}

impl NaivePolicy for PlainClockPro {
    fn hit(&mut self, key: u64) {
        let at = self.find(|page| page.key == key).expect("it is held");
        self.clock[at].is_marked = true;
    }
    fn miss(&mut self, key: u64) {
        self.is_back = false;
        if let Some(at) = self.find(|page| page.key == key) {
            let is_passed = self.find(|page| page.is_hot).is_some_and(|hand| at < hand);
            let weight = self.clock[at].weight;
            if !is_passed {
                self.widen_for_evicted(weight);
                self.is_back = true;
            } else if !self.is_plus {
                self.narrow(weight);
            }
            self.clock.remove(at);
        }
    }
    fn insert(&mut self, key: u64, weight: u32) {
        let hot_weight = self.weight(|page| page.is_hot) + u64::from(weight);
        let is_filling = !self.has_evicted && hot_weight + self.cold_aim <= self.capacity;
        let is_hot = self.is_back || is_filling;
        self.clock.push(Page {
            key,
            weight: u64::from(weight),
            is_hot,
            is_held: true,
            is_tested: !is_hot,
            is_marked: false,
            is_demoted: false,
        });
        self.bound_evicted();
    }
    fn remove(&mut self, key: u64) {
        self.clock.retain(|page| page.key != key);
        self.bound_evicted();
    }
    fn evict(&mut self) -> Option<u64> {
        self.has_evicted = true;
        while self.clock.iter().any(|page| page.is_held) {
            self.end_passed_tests();
            let cold = self.find(|page| page.is_held && !page.is_hot);
            let hot_weight = self.weight(|page| page.is_hot);
            let Some(at) = cold.filter(|_| hot_weight <= self.capacity - self.cold_aim) else {
                let at = self.find(|page| page.is_hot).expect("some page is held");
                let mut page = self.clock.remove(at);
                page.is_hot = page.is_marked;
                page.is_demoted = self.is_plus && !page.is_hot;
                page.is_marked = false;
                self.clock.push(page);
                continue;
            };
            if self.clock[at].is_marked {
                let weight = self.clock[at].weight;
                if self.clock[at].is_demoted {
                    self.narrow_for_demoted(weight);
                }
                let mut page = self.clock.remove(at);
                page.is_marked = false;
                page.is_demoted = false;
                if page.is_tested && !self.is_plus {
                    self.widen(page.weight);
                }
                page.is_hot = page.is_tested;
                page.is_tested = !page.is_tested;
                self.clock.push(page);
                continue;
            }
            let key = self.clock[at].key;
            self.clock[at].is_held = false;
            self.clock[at].is_demoted = false;
            if !self.clock[at].is_tested {
                self.clock.remove(at);
            }
            self.bound_evicted();
            return Some(key);
        }
        None
    }
}

fn agrees(is_plus: bool, steps: &[Step]) {
    let model = PlainClockPro {
        is_plus,
        clock: Vec::new(),
        capacity: 60,
        cold_aim: 1,
        is_back: false,
        has_evicted: false,
    };
    match is_plus {
        false => agrees_with_model::<ClockPro>(&(), model, 60, steps, true),
        true => agrees_with_model::<ClockPro<true>>(&(), model, 60, steps, true),
    }
}

proptest! {
    #[test]
    fn clock_pro_evicts_as_its_model_with_removals_and_relocations(steps in steps()) {
        for is_plus in [false, true] {
            agrees(is_plus, &steps);
        }
    }
}
