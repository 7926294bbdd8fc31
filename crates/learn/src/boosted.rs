//! Regression by gradient-boosted trees, trained by a library and evaluated by this file.
//!
//! The library is `forust-ml`. It runs on the caller's thread and adds in a fixed order, so that
//! results are the same on every machine. So does the evaluation. Predictions walk a compact copy
//! of the trees, because the library's own `predict` needs the rows as columns of `f64` and follows
//! pointers. With it, predicting all groups every few thousand requests would cost more than
//! everything else a policy does.

use crate::regressor::{Regressor, Rows, TrainError};
use forust_ml::objective::ObjectiveType;
use forust_ml::{GradientBooster, Matrix};
use std::fmt;

/// Parameters for growing trees. The defaults are those of XGBoost, as in the papers, except for
/// the number of trees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boosting {
    /// Number of trees.
    pub trees: usize,
    /// Maximum depth of a tree.
    pub depth: usize,
    /// Maximum number of leaves of a tree.
    pub leaves: usize,
    /// Share of the remaining error that each tree corrects.
    pub learning_rate: f32,
    /// Minimum number of rows in a leaf.
    pub leaf_rows: usize,
}

impl Default for Boosting {
    fn default() -> Self {
        Boosting {
            trees: 16,
            depth: 6,
            leaves: usize::MAX,
            learning_rate: 0.3,
            leaf_rows: 1,
        }
    }
}

/// Maximum number of distinct values of a feature in training.
const BINS: u16 = 256;

/// Inner node or leaf of a tree.
///
/// A leaf is its own child, because no feature reaches its threshold. Every walk therefore takes as
/// many steps as the tree is deep, without a branch, and several walks can overlap.
/// ```text
/// threshold 4 | feature 4 | below 4      from the threshold on, the walk goes to below + 1
/// ```
#[derive(Clone, Copy, Debug)]
struct Node {
    threshold: f32,
    feature: u32,
    below: u32,
}

const _: () = assert!(size_of::<Node>() == 12);

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: u32,
    depth: u32,
}

/// Model of gradient-boosted trees.
#[derive(Clone, Debug)]
pub struct Boosted {
    boosting: Boosting,
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    /// For each node, the amount it adds to the prediction if it is a leaf.
    leaves: Vec<f64>,
    /// Mean of the targets. The trees predict the deviation from it in units of `scale`.
    mean: f64,
    scale: f64,
    /// Number of features per row; 0 before the first training.
    width: usize,
}

/// Number of rows evaluated together. Their walks overlap, although each step of a walk depends on
/// the previous one.
const AT_ONCE: usize = 8;

impl Boosted {
    /// Creates an untrained model.
    pub fn new(boosting: Boosting) -> Boosted {
        assert!(boosting.trees > 0);
        assert!(boosting.learning_rate > 0.0);
        Boosted {
            boosting,
            trees: Vec::new(),
            nodes: Vec::new(),
            leaves: Vec::new(),
            mean: 0.0,
            scale: 0.0,
            width: 0,
        }
    }

    fn library(&self) -> GradientBooster {
        let mut library = GradientBooster::default();
        library.objective_type = ObjectiveType::SquaredLoss;
        library.iterations = self.boosting.trees;
        library.learning_rate = self.boosting.learning_rate;
        library.max_depth = self.boosting.depth;
        library.max_leaves = self.boosting.leaves;
        library.min_leaf_weight = self.boosting.leaf_rows as f32;
        library.base_score = 0.0;
        library.initialize_base_score = false;
        library.nbins = BINS;
        library.parallel = false;
        library.allow_missing_splits = false;
        library
    }

    /// Copies the library's trees. A tree with a single leaf adds the same amount to all rows.
    fn take(&mut self, grown: &[forust_ml::tree::Tree]) {
        self.trees.clear();
        self.nodes.clear();
        self.leaves.clear();
        for tree in grown {
            let root = self.room(1);
            // Each element is an index in the library's tree, the index in this one, and the depth.
            let mut ahead = vec![(0, root, 0)];
            let mut deepest = 0;
            while let Some((theirs, ours, depth)) = ahead.pop() {
                let node = &tree.nodes[theirs];
                deepest = deepest.max(depth);
                if node.is_leaf {
                    self.nodes[ours as usize].below = ours;
                    self.leaves[ours as usize] = f64::from(node.weight_value);
                    continue;
                }
                let below = self.room(2);
                self.nodes[ours as usize] = Node {
                    // Thresholds are feature values, and therefore fit `f32`.
                    threshold: node.split_value as f32,
                    feature: node.split_feature as u32,
                    below,
                };
                ahead.push((node.right_child, below + 1, depth + 1));
                ahead.push((node.left_child, below, depth + 1));
            }
            self.trees.push(Tree {
                root,
                depth: deepest,
            });
        }
    }

    /// Adds `count` adjacent nodes, and returns the index of the first.
    fn room(&mut self, count: usize) -> u32 {
        let first = self.nodes.len();
        let leaf = Node {
            threshold: f32::INFINITY,
            feature: 0,
            below: 0,
        };
        self.nodes.resize(first + count, leaf);
        self.leaves.resize(first + count, 0.0);
        u32::try_from(first).expect("trees have fewer than 2^32 nodes")
    }

    /// Returns the sums of the trees' leaves for up to [`AT_ONCE`] rows.
    #[inline]
    fn walk(&self, rows: [&[f32]; AT_ONCE]) -> [f64; AT_ONCE] {
        let mut sums = [0.0; AT_ONCE];
        for tree in &self.trees {
            let mut at = [tree.root as usize; AT_ONCE];
            for _ in 0..tree.depth {
                for (at, row) in at.iter_mut().zip(rows) {
                    let node = self.nodes[*at];
                    let is_above = row[node.feature as usize] >= node.threshold;
                    *at = node.below as usize + usize::from(is_above);
                }
            }
            for (sum, at) in sums.iter_mut().zip(at) {
                *sum += self.leaves[at];
            }
        }
        sums
    }
}

/// Returns the mean and the standard deviation of the targets. The library receives targets divided
/// by their standard deviation: it squares them in `f32`, and a target may be as small as one over
/// a day times a megabyte.
fn mean_and_spread(targets: &[f32]) -> (f64, f64) {
    let count = targets.len() as f64;
    let mean = targets.iter().map(|&target| f64::from(target)).sum::<f64>() / count;
    let squares = targets
        .iter()
        .map(|&target| (f64::from(target) - mean).powi(2));
    (mean, (squares.sum::<f64>() / count).sqrt())
}

impl Regressor for Boosted {
    fn train(&mut self, rows: &Rows, targets: &[f32]) -> Result<(), TrainError> {
        assert_eq!(rows.len(), targets.len());
        if rows.len() < 2 {
            return Err(TrainError::TooFew);
        }
        if !targets.iter().all(|target| target.is_finite()) {
            return Err(TrainError::NotANumber);
        }
        let (mean, spread) = mean_and_spread(targets);
        if spread <= 0.0 || targets.iter().all(|&target| target == targets[0]) {
            return Err(TrainError::AllAlike);
        }
        let wanted: Vec<f64> = targets
            .iter()
            .map(|&target| (f64::from(target) - mean) / spread)
            .collect();
        let columns: Vec<f64> = (0..rows.width())
            .flat_map(|column| rows.iter().map(move |row| f64::from(row[column])))
            .collect();
        let matrix = Matrix::new(&columns, rows.len(), rows.width());
        let mut library = self.library();
        library
            .fit_unweighted(&matrix, &wanted, None)
            .map_err(|_| TrainError::Refused)?;
        if library.trees.iter().all(|tree| tree.nodes.len() < 2) {
            return Err(TrainError::AllAlike);
        }
        self.take(&library.trees);
        (self.mean, self.scale, self.width) = (mean, spread, rows.width());
        Ok(())
    }

    fn is_trained(&self) -> bool {
        self.width > 0
    }

    fn predict(&self, rows: &Rows, predictions: &mut Vec<f32>) {
        if !self.is_trained() {
            predictions.resize(predictions.len() + rows.len(), 0.0);
            return;
        }
        assert_eq!(rows.width(), self.width, "it was trained on such rows");
        for first in (0..rows.len()).step_by(AT_ONCE) {
            let count = AT_ONCE.min(rows.len() - first);
            // If fewer rows are left, the last row is repeated.
            let sums = self.walk(std::array::from_fn(|n| rows.row(first + n.min(count - 1))));
            let compared = sums[..count].iter();
            predictions.extend(compared.map(|sum| (self.mean + sum * self.scale) as f32));
        }
    }

    fn importances(&self) -> Vec<f32> {
        let mut shares = vec![0.0; self.width];
        let is_decision = |(_, node): &(usize, &Node)| node.threshold < f32::INFINITY;
        let decisions = self.nodes.iter().enumerate().filter(is_decision);
        let mut count = 0.0;
        for (_, node) in decisions {
            shares[node.feature as usize] += 1.0;
            count += 1.0;
        }
        shares.iter_mut().for_each(|share| *share /= count);
        shares
    }

    fn heap_bytes(&self) -> usize {
        self.trees.capacity() * size_of::<Tree>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.leaves.capacity() * size_of::<f64>()
    }
}

/// Function that creates a regressor for a policy. A host with a clock passes one that measures how
/// long it takes.
#[derive(Clone, Copy)]
pub struct Maker(pub fn(&Boosting) -> Box<dyn Regressor>);

impl Default for Maker {
    fn default() -> Self {
        Maker(|boosting| Box::new(Boosted::new(*boosting)))
    }
}

/// All makers are equal, because a policy's text does not mention its maker.
impl PartialEq for Maker {
    fn eq(&self, _other: &Maker) -> bool {
        true
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random rows computed from a seed.
    fn rows_of(count: usize, width: usize, mut seed: u64) -> Rows {
        let mut rows = Rows::new(width);
        for _ in 0..count {
            let row: Vec<f32> = (0..width)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 40) as f32 / 1e4
                })
                .collect();
            rows.push(&row);
        }
        rows
    }

    fn targets_of(rows: &Rows) -> Vec<f32> {
        rows.iter()
            .map(|row| if row[0] > 800.0 { row[1] } else { row[2] / 7.0 } * 1e-9)
            .collect()
    }

    #[test]
    fn a_dependence_is_learned_and_predicted_for_new_rows() {
        let rows = rows_of(2_000, 4, 1);
        let mut model = Boosted::new(Boosting::default());
        assert!(!model.is_trained());
        assert_eq!(model.train(&rows, &targets_of(&rows)), Ok(()));
        assert!(model.is_trained());

        let others = rows_of(1_003, 4, 2);
        let (mut compared, expected) = (vec![], targets_of(&others));
        model.predict(&others, &mut compared);
        assert_eq!(compared.len(), others.len());
        let left: f32 = compared
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .sum();
        let all: f32 = expected.iter().map(|target| target.abs()).sum();
        assert!(left < all / 10.0, "{left} of {all}");

        let importances = model.importances();
        assert!((importances.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(importances[3] < 0.2, "it decides nothing: {importances:?}");
    }

    #[test]
    fn predictions_are_those_of_the_library() {
        let rows = rows_of(700, 3, 3);
        let targets = targets_of(&rows);
        let mut model = Boosted::new(Boosting::default());
        model.train(&rows, &targets).expect("they differ");

        let (mean, spread) = mean_and_spread(&targets);
        let wanted: Vec<f64> = targets
            .iter()
            .map(|&target| (f64::from(target) - mean) / spread)
            .collect();
        let columns = |rows: &Rows| -> Vec<f64> {
            (0..3)
                .flat_map(|column| rows.iter().map(move |row| f64::from(row[column])))
                .collect()
        };
        let mut library = model.library();
        let data = columns(&rows);
        library
            .fit_unweighted(&Matrix::new(&data, 700, 3), &wanted, None)
            .expect("they differ");
        for seed in [3, 4] {
            let asked = rows_of(701, 3, seed);
            let data = columns(&asked);
            let theirs = library.predict(&Matrix::new(&data, 701, 3), false);
            let mut ours = vec![];
            model.predict(&asked, &mut ours);
            let theirs = theirs.iter().map(|sum| (mean + sum * spread) as f32);
            assert!(ours.iter().copied().eq(theirs));
        }
    }

    #[test]
    fn equal_rows_give_an_equal_model() {
        let rows = rows_of(500, 5, 5);
        let compared = [(), ()].map(|()| {
            let mut model = Boosted::new(Boosting::default());
            model.train(&rows, &targets_of(&rows)).expect("they differ");
            let mut compared = vec![];
            model.predict(&rows, &mut compared);
            compared
        });
        assert_eq!(compared[0], compared[1]);
    }

    #[test]
    fn a_failed_training_leaves_the_model_as_it_was() {
        let rows = rows_of(100, 2, 6);
        let targets: Vec<f32> = rows.iter().map(|row| row[0]).collect();
        let mut model = Boosted::new(Boosting::default());
        let mut compared = vec![];
        model.predict(&rows, &mut compared);
        assert_eq!(compared, vec![0.0; 100]);
        assert!(model.importances().is_empty());

        model.train(&rows, &targets).expect("they differ");
        let mut before = vec![];
        model.predict(&rows, &mut before);
        let mut constant = Rows::new(2);
        (0..100).for_each(|_| constant.push(&[f32::NAN, 3.0]));
        assert_eq!(model.train(&constant, &targets), Err(TrainError::AllAlike));
        assert_eq!(model.train(&rows, &[0.5; 100]), Err(TrainError::AllAlike));
        assert_eq!(
            model.train(&rows, &[f32::NAN; 100]),
            Err(TrainError::NotANumber)
        );
        assert_eq!(model.train(&Rows::new(2), &[]), Err(TrainError::TooFew));
        let mut after = vec![];
        model.predict(&rows, &mut after);
        assert_eq!(before, after);
    }

    #[test]
    fn constant_and_enormous_features_do_no_harm() {
        let mut rows = Rows::new(4);
        for n in 0..200u16 {
            let wild = if n % 2 == 0 { f32::INFINITY } else { f32::NAN };
            rows.push(&[1.0, wild, f32::from(n), f32::NEG_INFINITY]);
        }
        let targets: Vec<f32> = (0..200u16).map(|n| f32::from(n / 100)).collect();
        let mut model = Boosted::new(Boosting::default());
        assert_eq!(model.train(&rows, &targets), Ok(()));
        let mut compared = vec![];
        model.predict(&rows, &mut compared);
        for (compared, target) in compared.iter().zip(&targets) {
            assert!((compared - target).abs() < 0.1, "{compared} for {target}");
        }
        assert_eq!(model.importances()[0], 0.0);
    }
}
