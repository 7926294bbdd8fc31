//! CART as its source states it: lists of keys, with every rule applied to weights.

use super::steps;
use crate::evict::cart::Cart;
use crate::suite::policy::{NaivePolicy, agrees_with_model};
use proptest::prelude::*;

#[derive(Clone)]
struct Page {
    key: u64,
    weight: u64,
    is_marked: bool,
    is_long: bool,
}

/// Ghost that the missed key had: whether it belonged to T2, and its weight.
type Found = Option<(bool, u64)>;

#[derive(Default)]
struct PlainCart {
    t1: Vec<Page>,
    t2: Vec<Page>,
    b1: Vec<(u64, u64)>,
    b2: Vec<(u64, u64)>,
    p: f64,
    q: u64,
    capacity: u64,
    found: Found,
}

fn weight(pages: &[Page]) -> u64 {
    pages.iter().map(|page| page.weight).sum()
}

impl PlainCart {
    fn short(&self) -> u64 {
        let short = self.t1.iter().filter(|page| !page.is_long);
        short.map(|page| page.weight).sum()
    }
    fn long(&self) -> u64 {
        weight(&self.t1) + weight(&self.t2) - self.short()
    }
    fn ghosts(&self, of_t2: bool) -> u64 {
        let list = if of_t2 { &self.b2 } else { &self.b1 };
        let own = self.found.filter(|&(is_of_t2, _)| is_of_t2 == of_t2);
        list.iter().map(|ghost| ghost.1).sum::<u64>() + own.map_or(0, |(_, weight)| weight)
    }
    fn raise_q(&mut self, by: u64) {
        let t1 = weight(&self.t1);
        if weight(&self.t2) + self.ghosts(true) + t1 - self.short() >= self.capacity {
            self.q = (self.q + by).min((2 * self.capacity).saturating_sub(t1));
        }
    }
    fn bound(&mut self) {
        let total = |of: &[(u64, u64)]| of.iter().map(|ghost| ghost.1).sum::<u64>();
        while total(&self.b1) + total(&self.b2) > self.capacity {
            if self.b2.is_empty() || total(&self.b1) > self.q && !self.b1.is_empty() {
                self.b1.remove(0);
            } else {
                self.b2.remove(0);
            }
        }
    }
}

impl NaivePolicy for PlainCart {
    fn hit(&mut self, key: u64) {
        let pages = self.t1.iter_mut().chain(&mut self.t2);
        let mut pages = pages.filter(|page| page.key == key);
        pages.next().expect("the key is held").is_marked = true;
    }
    fn miss(&mut self, key: u64) {
        self.found = None;
        for (of_t2, list) in [(false, &mut self.b1), (true, &mut self.b2)] {
            if let Some(at) = list.iter().position(|ghost| ghost.0 == key) {
                self.found = Some((of_t2, list.remove(at).1));
            }
        }
    }
    fn insert(&mut self, key: u64, weight: u32) {
        let weight = u64::from(weight);
        let (by, found) = (weight as f64, self.found);
        let most = self.capacity as f64;
        match found {
            Some((false, _)) => {
                let ratio = self.short() as f64 / self.ghosts(false) as f64;
                self.p = (self.p + by * ratio.max(1.0)).min(most);
            }
            Some((true, _)) => {
                let ratio = self.long() as f64 / self.ghosts(true) as f64;
                self.p = (self.p - by * ratio.max(1.0)).max(0.0);
            }
            None => {}
        }
        self.found = None;
        self.t1.push(Page {
            key,
            weight,
            is_marked: false,
            is_long: found.is_some(),
        });
        if matches!(found, Some((true, _))) {
            self.raise_q(weight);
        }
        self.bound();
    }
    fn remove(&mut self, key: u64) {
        self.t1.retain(|page| page.key != key);
        self.t2.retain(|page| page.key != key);
    }
    fn evict(&mut self) -> Option<u64> {
        while self.t2.first().is_some_and(|page| page.is_marked) {
            let mut page = self.t2.remove(0);
            page.is_marked = false;
            let by = page.weight;
            self.t1.push(page);
            self.raise_q(by);
        }
        while let Some(page) = self.t1.first()
            && (page.is_marked || page.is_long)
        {
            let t1 = weight(&self.t1);
            let mut page = self.t1.remove(0);
            if page.is_marked {
                page.is_marked = false;
                let enough = (self.p + page.weight as f64).min(self.ghosts(false) as f64);
                page.is_long |= t1 as f64 >= enough;
                self.t1.push(page);
            } else {
                let by = page.weight;
                self.t2.push(page);
                let least = self.capacity.saturating_sub(weight(&self.t1));
                self.q = self.q.saturating_sub(by).max(least);
            }
        }
        let is_over = weight(&self.t1) as f64 >= self.p.max(1.0);
        let (list, ghosts) = match (is_over && !self.t1.is_empty()) || self.t2.is_empty() {
            true => (&mut self.t1, &mut self.b1),
            false => (&mut self.t2, &mut self.b2),
        };
        if list.is_empty() {
            return None;
        }
        let victim = list.remove(0);
        ghosts.push((victim.key, victim.weight));
        self.bound();
        Some(victim.key)
    }
}

proptest! {
    #[test]
    fn cart_evicts_as_its_model(steps in steps()) {
        let capacity = 40;
        let model = PlainCart { capacity, ..PlainCart::default() };
        agrees_with_model::<Cart>(&(), model, capacity, &steps, false);
    }
}
