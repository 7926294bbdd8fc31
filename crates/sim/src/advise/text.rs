//! Advice as text for a terminal.

use super::{Advice, statements};
use std::fmt::Write;
use units::show::{count, percent};

/// Maximum columns of a line.
const WIDTH: usize = 96;

impl Advice {
    /// The statements, each with its certainty.
    pub fn to_text(&self) -> String {
        let unit = self.unit();
        let mut text = format!(
            "{}: {} requests, footprint {}\n",
            self.trace,
            count(self.requests as f64),
            statements::size(unit, self.footprint)
        );
        let memory = self
            .memory
            .map(|size| format!("memory {}", statements::size(unit, size)));
        let target = self
            .target_miss
            .map(|ratio| format!("miss ratio of at most {}", percent(ratio)));
        let given: Vec<String> = memory.into_iter().chain(target).collect();
        if !given.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "constraints: {}", given.join(", "));
        }
        for statement in &self.statements {
            text.push('\n');
            wrap(&mut text, &statement.text, "");
            wrap(&mut text, &format!("({})", statement.certainty), "    ");
        }
        if !self.left_out.is_empty() {
            text += "\nNot available:\n";
            for reason in &self.left_out {
                wrap(&mut text, reason, "  ");
            }
        }
        text
    }
}

/// Appends a sentence, wrapped between statements.
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
