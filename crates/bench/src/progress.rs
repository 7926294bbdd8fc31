//! Progress on standard error: a bar on a terminal, otherwise one line per step.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Instant;

/// Progress of an experiment.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    has_lines: bool,
}

/// Creates the progress of an experiment with `count` steps.
pub(crate) fn steps(count: u64) -> Progress {
    let bar = ProgressBar::new(count);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed} < {eta}] {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    Progress {
        bar,
        start: Instant::now(),
        has_lines: !std::io::stderr().is_terminal(),
    }
}

impl Progress {
    /// Shows the name of the step that is beginning.
    pub(crate) fn set_message(&self, text: impl Into<String>) {
        let text = text.into();
        if self.has_lines {
            let (done, count) = (self.bar.position(), self.bar.length().unwrap_or(0));
            eprintln!(
                "{}",
                line(done, count, self.start.elapsed().as_secs(), &text)
            );
        }
        self.bar.set_message(text);
    }

    /// Advances by `count` steps.
    pub(crate) fn inc(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Ends and clears the bar.
    pub(crate) fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(done: u64, count: u64, seconds: u64, text: &str) -> String {
    format!(
        "[{done} of {count}, {}:{:02}] {text}",
        seconds / 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_steps_time_and_the_next_step() {
        assert_eq!(line(3, 20, 185, "a wheel"), "[3 of 20, 3:05] a wheel");
    }
}
