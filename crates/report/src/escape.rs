//! Escapes text for HTML, SVG and the data of the page's script.

/// Whether XML allows the character. Others are replaced by a replacement character.
pub(crate) fn is_showable(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    !is_control && !matches!(c, '\u{FFFE}' | '\u{FFFF}')
}

/// Returns a label for one line of a plot. Line ends become blanks, and characters that XML does
/// not allow become a replacement character.
pub(crate) fn label(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if is_showable(c) => c,
            _ => '\u{FFFD}',
        })
        .collect()
}

/// Escapes text that stands between tags or inside an attribute's quotes.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_showable(c) => out.push(c),
            _ => out.push('\u{FFFD}'),
        }
    }
    out
}

/// Returns a text as the name of a file or an anchor: letters, digits and hyphens.
pub(crate) fn stem(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(60);
    out.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_interpreted() {
        assert_eq!(
            html("<b a='1'>\"&\u{1b}\0"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;\u{FFFD}\u{FFFD}"
        );
        assert_eq!(label("two\nlines\t\u{0}"), "two lines \u{FFFD}");
    }

    #[test]
    fn stems_are_plain() {
        assert_eq!(stem("Memory: 120×1000 / a"), "memory-120-1000-a");
        assert_eq!(stem("…"), "");
        assert!(stem(&"long ".repeat(40)).len() <= 60);
    }
}
