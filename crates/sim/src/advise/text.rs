//! Advice as text for a terminal.

use super::{Advice, words};
use crate::analyze::findings::{count, percent};
use std::fmt::Write;

/// Columns of a line.
const WIDTH: usize = 96;

impl Advice {
    /// The sentences, each with how sure it is.
    pub fn to_text(&self) -> String {
        let unit = self.unit();
        let mut text = format!(
            "{}: {} requests, {} in all\n",
            self.trace,
            count(self.requests as f64),
            words::size(unit, self.footprint)
        );
        let memory = self
            .memory
            .map(|size| format!("memory {}", words::size(unit, size)));
        let target = self
            .target_miss
            .map(|ratio| format!("at most {} misses", percent(ratio)));
        let asked: Vec<String> = memory.into_iter().chain(target).collect();
        if !asked.is_empty() {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "asked: {}", asked.join(", "));
        }
        for statement in &self.statements {
            text.push('\n');
            wrap(&mut text, &statement.text, "");
            wrap(&mut text, &format!("({})", statement.certainty), "    ");
        }
        if !self.left_out.is_empty() {
            text += "\nNot said:\n";
            for reason in &self.left_out {
                wrap(&mut text, reason, "  ");
            }
        }
        text
    }
}

/// Breaks a sentence between words.
fn wrap(text: &mut String, sentence: &str, indent: &str) {
    let mut line = indent.to_owned();
    for word in sentence.split(' ') {
        if line.chars().count() + word.chars().count() >= WIDTH && line.len() > indent.len() {
            text.push_str(line.trim_end());
            text.push('\n');
            line = indent.to_owned();
        }
        line.push_str(word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_break_between_words() {
        let mut text = String::new();
        wrap(&mut text, &"word ".repeat(40), "  ");
        assert!(text.lines().all(|line| line.starts_with("  word")));
        assert!(text.lines().all(|line| line.chars().count() < WIDTH));
        assert_eq!(text.matches("word").count(), 40);
    }
}
