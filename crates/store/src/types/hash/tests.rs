//! Tests that compare hashes with a plain map.

use super::*;
use crate::types::tests::subject_methods;
use crate::types::tests::{Model, Plain, Subject, Values, model_test, name, ops, setups};
use proptest::prelude::*;

impl Subject for Hash {
    type Value = Vec<u8>;
    const LIMITS: &'static [&'static str] = &["hash_entries"];

    subject_methods!();

    fn value(seed: u8) -> Vec<u8> {
        let len = match seed {
            _ if seed.is_multiple_of(21) => 60 + usize::from(seed),
            _ => usize::from(seed % 30),
        };
        vec![seed; len]
    }

    fn put(&mut self, field: &[u8], value: &Vec<u8>, scene: &Scene<'_>) -> Option<bool> {
        Some(self.set_keeping(field, value, scene))
    }

    fn all(&self, scene: &Scene<'_>) -> Values<Vec<u8>> {
        let mut all = Values::new();
        self.each(scene, |field, value, deadline| {
            assert_eq!(self.deadline(field, scene), Some(deadline));
            all.insert(field.to_vec(), value.to_vec());
        });
        all
    }

    fn scan(&self, from: u64, count: usize, scene: &Scene<'_>, to: &mut Values<Vec<u8>>) -> u64 {
        self.scan(from, count, scene, &mut |field, value| {
            to.insert(field.to_vec(), value.to_vec());
        })
    }

    fn samples(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<[Vec<Vec<u8>>; 2]> {
        let (mut distinct, mut repeated) = (vec![], vec![]);
        self.sample(count, scene, random, &mut |field, value| {
            assert_eq!(self.get(field, scene), Some(value));
            distinct.push(field.to_vec());
        });
        assert_eq!(distinct.len(), count.min(self.len(scene)));
        self.sample_with_repeats(count, scene, random, &mut |field, _| {
            repeated.push(field.to_vec());
        });
        Some([distinct, repeated])
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.form.names()
    }

    /// Sets a field and removes its deadline.
    fn apply_special(model: &mut Model<Hash>, key: u8, seed: u8, _: bool) {
        let (field, value) = (model.name(key), Hash::value(seed));
        let is_new = !model.live().contains_key(&field);
        let reported = model.with(|hash, scene| hash.set(&field, &value, scene));
        assert_eq!(reported, is_new);
        model.plain.insert(field, (value, None));
    }

    fn compare_special(model: &Model<Hash>, live: &Plain<Vec<u8>>, scene: &Scene<'_>) {
        let hash = &model.subject;
        for key in 0..=255 {
            let value = live.get(&name(key)).map(|entry| entry.0.as_slice());
            assert_eq!(hash.get(&name(key), scene), value);
        }
        let (mut timed, mut found) = (vec![], vec![]);
        timed.extend(live.iter().filter_map(|(f, e)| Some((e.1?, f.clone()))));
        timed.sort_unstable();
        let from = timed
            .get(timed.len() / 3)
            .map_or(scene.horizon, |field| field.0);
        let each = &mut |field: &[u8], at| found.push((at, field.to_vec()));
        hash.each_by_deadline((from, Tick::MAX), (0, usize::MAX), scene, each);
        found.sort_unstable();
        timed.retain(|field| field.0 >= from);
        assert_eq!(found, timed);
        let mut page = vec![];
        let each = &mut |_: &[u8], at| page.push(at);
        hash.each_by_deadline((from, Tick::MAX), (1, 5), scene, each);
        let wanted = timed.iter().map(|field| field.0).skip(1).take(5);
        assert_eq!(page, wanted.collect::<Vec<_>>());
    }
}

model_test!(a_hash_holds_what_a_plain_map_holds, Hash);
