//! Progress bars on stderr; silent where it is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over so many steps.
pub(crate) fn steps(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed} < {eta}] {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar
}
