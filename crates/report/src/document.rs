//! Markdown documents with places for the sections of pages.

/// Puts each part between its marks in the document, `<!-- PLACE: begin -->` and
/// `<!-- PLACE: end -->`. If the document lacks any of the places, returns the parts alone.
pub fn fill(document: &str, parts: &[(String, String)]) -> String {
    let mut all = parts.iter();
    let filled = all.try_fold(document.to_owned(), |document, (place, part)| {
        fill_one(&document, place, part)
    });
    filled.unwrap_or_else(|| parts.iter().map(|(_, part)| part.as_str()).collect())
}

fn fill_one(document: &str, place: &str, part: &str) -> Option<String> {
    let begin = format!("<!-- {place}: begin -->\n");
    let end = format!("<!-- {place}: end -->");
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_replace_the_text_between_their_marks() {
        let document = "# Lab\n<!-- a: begin -->\nold\n<!-- a: end -->\nb\n<!-- c: begin -->\n<!-- c: end -->\n";
        let part = |place: &str, text: &str| (place.to_owned(), text.to_owned());
        let once = fill(document, &[part("a", "new\n")]);
        assert_eq!(
            once,
            "# Lab\n<!-- a: begin -->\n\nnew\n\n<!-- a: end -->\nb\n<!-- c: begin -->\n<!-- c: end -->\n"
        );
        assert_eq!(fill(&once, &[part("a", "new\n")]), once);
        let both = fill(document, &[part("a", "1\n"), part("c", "2\n")]);
        assert!(both.contains("\n1\n") && both.contains("\n2\n") && both.contains("\nb\n"));
        let alone = fill(document, &[part("a", "1\n"), part("d", "2\n")]);
        assert_eq!(alone, "1\n2\n");
    }
}
