//! The scanner on special cases of Rust's tokens.
use super::*;

fn source(text: &str) -> Source {
    Source::new(text.to_string(), false)
}

#[test]
fn comments_and_literals_are_blanked_in_place() {
    let text =
        "let a = \"fn x() {\"; // fn y() {\nlet b = '{'; /* { /* nested { */ } */ let c = b'\\'';";
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    assert!(!code.contains('{') && !code.contains("fn"));
    assert!(code.contains("let a") && code.contains("let b") && code.contains("let c"));
}

#[test]
fn raw_strings_end_at_their_own_hashes() {
    let code = blank("let a = r#\"a \" b { \\\"#; let b = br\"\\\"; let c = r##\"x\"# {\"##; end");
    assert!(!code.contains('{'));
    assert!(code.contains("let b") && code.contains("let c") && code.contains("end"));
}

#[test]
fn an_escaped_quote_does_not_end_a_string() {
    let code = blank(r#"let a = "x\"{\\"; fin()"#);
    assert!(!code.contains('{') && code.contains("fin()"));
}

#[test]
fn lifetimes_are_not_characters() {
    let code =
        blank("fn f<'a>(x: &'a str, c: char) { if c == 'a' || c == '\\u{1F600}' || c == 'é' {} }");
    assert!(code.contains("<'a>") && code.contains("&'a str"));
    assert_eq!(code.matches('{').count(), 2);
    assert_eq!(code.matches('}').count(), 2);
}

#[test]
fn functions_span_signature_to_brace() {
    let s = source(
        "trait T { fn no_body(&self); }\nfn one()\nwhere\n    [(); 3]: Sized,\n{\n    if true {}\n}\nfn two() { fn three() {} }\nlet p: fn(u8) = q;",
    );
    let spans: Vec<_> = s
        .functions()
        .into_iter()
        .map(|f| (f.name, f.first, f.last))
        .collect();
    assert_eq!(
        spans,
        [
            ("one".to_string(), 1, 6),
            ("two".to_string(), 7, 7),
            ("three".to_string(), 7, 7)
        ]
    );
}

#[test]
fn test_items_are_marked() {
    let s = source(
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n#[cfg(any(test, feature = \"suite\"))]\npub mod suite;\nfn e() {}\n#[cfg(all(test, not(miri)))]\nmod more {}",
    );
    let own: Vec<_> = s.own_lines().map(|(n, _)| n).collect();
    assert_eq!(own, [0, 5, 6, 7, 10]);
    assert_eq!(s.test_modules(), ["suite"]);
}

#[test]
fn uses_are_flattened() {
    let s = source(
        "use std::{fs, io::{self, Read as R}, time::Duration};\nuse ::a::b;\nfn f() { let reuse = 1; }",
    );
    let paths: Vec<_> = s.uses().into_iter().map(|(_, p)| p).collect();
    assert_eq!(
        paths,
        [
            "std::fs",
            "std::io",
            "std::io::Read",
            "std::time::Duration",
            "a::b"
        ]
    );
}

#[test]
fn unbalanced_source_is_survived() {
    for text in [
        "fn f( {",
        "}}}",
        "#[cfg(test)",
        "'",
        "r#\"",
        "/* ",
        "use a::{b",
        "\\",
    ] {
        let s = source(text);
        let _ = (s.functions(), s.uses(), s.test_modules());
    }
}
