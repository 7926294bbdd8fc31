//! Names as people type them: comparison that ignores spelling, and suggestions for a wrong name.
//!
//! Every list of names in the program can use [`is_same`] and [`did_you_mean`].

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of names that are suggested for a wrong one.
const SUGGESTIONS_MAX: usize = 4;

/// Returns the letters by which names are compared: case, `-` and `_` are ignored.
fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
    let kept = name.chars().filter(|letter| !matches!(letter, '-' | '_'));
    kept.flat_map(char::to_lowercase)
}

/// Whether two names are the same apart from case, `-` and `_`.
///
/// ```
/// assert!(policy::names::is_same("S3-FIFO", "s3fifo"));
/// assert!(!policy::names::is_same("lru", "lfu"));
/// ```
pub fn is_same(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// Returns the names nearest to a wrong one by edit distance, or, if none is near, the names that
/// begin with it. At most four; none if nothing resembles it.
pub fn near<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let given: Vec<char> = letters(given).take(64).collect();
    let distance_max = given.len().div_ceil(3);
    let (mut nearest, mut best) = (Vec::new(), distance_max);
    let mut completions = Vec::new();
    for name in names {
        let letters: Vec<char> = letters(name).collect();
        let edits = edit_distance(&given, &letters);
        if edits < best {
            nearest.clear();
            best = edits;
        }
        if edits == best && edits < letters.len() {
            nearest.push(name);
        }
        if given.len() > 1 && letters.starts_with(&given) {
            completions.push(name);
        }
    }
    let mut found = if nearest.is_empty() {
        completions
    } else {
        nearest
    };
    found.truncate(SUGGESTIONS_MAX);
    found
}

/// Returns `did you mean 'x' or 'y'?` with the names nearest to a wrong one; empty if none is near.
///
/// ```
/// let names = ["lru", "lfu", "s3fifo"];
/// assert_eq!(policy::names::did_you_mean("lur", names), "did you mean 'lru'?");
/// assert_eq!(policy::names::did_you_mean("quantum", names), "");
/// ```
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    suggestion(&near(given, names))
}

/// Returns the question that suggests these names; empty if there are none.
pub(crate) fn suggestion(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => format!("did you mean '{name}'?"),
        [first @ .., last] => format!("did you mean '{}' or '{last}'?", first.join("', '")),
    }
}

/// Optimal string alignment distance: insertions, deletions, substitutions, and swaps of
/// neighbours.
fn edit_distance(one: &[char], other: &[char]) -> usize {
    let mut two_above = vec![0; other.len() + 1];
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, its) in other.iter().enumerate() {
            let substituted = above[column] + usize::from(letter != its);
            let mut least = substituted
                .min(above[column + 1] + 1)
                .min(current[column] + 1);
            if row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *its {
                least = least.min(two_above[column - 1] + 1);
            }
            current.push(least);
        }
        two_above = core::mem::replace(&mut above, current);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(one: &str, other: &str) -> usize {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        edit_distance(&letters(one), &letters(other))
    }

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        assert_eq!(distance("lur", "lru"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("sieve", "sieve"), 0);
    }

    #[test]
    fn the_nearest_names_are_suggested_and_completions_otherwise() {
        let names = [
            "clock",
            "clock-pro",
            "lru",
            "lfu",
            "s3fifo",
            "s3-sieve",
            "w-tinylfu",
        ];
        assert_eq!(near("clok", names), ["clock"]);
        assert_eq!(near("LRU-", names), ["lru"]);
        assert_eq!(near("l?u", names), ["lru", "lfu"]);
        assert_eq!(near("s3", names), ["s3fifo", "s3-sieve"]);
        assert_eq!(near("", names), [""; 0]);
        assert_eq!(near("nothing like it", names), [""; 0]);
        assert_eq!(did_you_mean("l?u", names), "did you mean 'lru' or 'lfu'?");
    }
}
