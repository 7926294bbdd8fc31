//! Rules that the operator sets for hosts and paths. The first rule that matches a request applies.
//!
//! A rule removes arguments and cookies that do not select a response. What it removes reaches
//! neither the key nor the origin, so that a stored response cannot depend on it.

use super::coding::Coding;
use super::freshness::Grace;
use hyper::StatusCode;
use hyper::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE, VARY};
use std::borrow::Cow;
use std::sync::Arc;

/// Text with `*` for any number of characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern.
    pub fn new(text: impl Into<String>) -> Self {
        Pattern(text.into())
    }

    /// Returns true if the pattern matches all of a text. The time is bounded by the product of the
    /// lengths.
    pub fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

fn any(patterns: &[Pattern], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

/// Rule for some hosts and paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Hosts, in lower case; empty for all.
    pub hosts: Vec<Pattern>,
    /// Paths; empty for all.
    pub paths: Vec<Pattern>,
    /// Whether requests go to the origin without a look-up.
    pub is_bypassed: bool,
    /// Cookies with which a request goes to the origin without a look-up.
    pub bypass_cookies: Vec<Pattern>,
    /// Arguments that remain; `None` for all.
    pub arguments: Option<Vec<Pattern>>,
    /// Arguments that are removed.
    pub ignored_arguments: Vec<Pattern>,
    /// Cookies that remain, and select a response; `None` for all, which do not.
    pub cookies: Option<Vec<Pattern>>,
    /// Lifetime in milliseconds of successful responses and permanent redirects for which the
    /// origin gives none.
    pub lifetime_ms: Option<u64>,
    /// Lifetimes in milliseconds by status.
    pub lifetimes_ms: Vec<(u16, u64)>,
    /// Replacement of [`Grace::error_ms`].
    pub error_ms: Option<u64>,
    /// Codings with which content is compressed, the preferred one first.
    pub codings: Vec<Coding>,
    /// Replacement of [`Grace::keep_ms`].
    pub keep_ms: Option<u64>,
}

/// Returns the rule for a host, and a path with or without its query.
pub fn find<'a>(rules: &'a [Arc<Rule>], host: &str, target: &str) -> Option<&'a Arc<Rule>> {
    let path = target.split('?').next().unwrap_or_default();
    rules.iter().find(|rule| {
        (rule.hosts.is_empty() || any(&rule.hosts, host))
            && (rule.paths.is_empty() || any(&rule.paths, path))
    })
}

impl Rule {
    /// Returns path and query without the arguments that are removed.
    pub fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        let Some((path, query)) = target.split_once('?') else {
            return target.into();
        };
        if self.arguments.is_none() && self.ignored_arguments.is_empty() {
            return target.into();
        }
        let is_kept = |argument: &&str| {
            let name = name(argument);
            let is_listed = |names: &Vec<Pattern>| any(names, name);
            self.arguments.as_ref().is_none_or(is_listed) && !any(&self.ignored_arguments, name)
        };
        if query.split('&').all(|argument| is_kept(&argument)) {
            return target.into();
        }
        let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
        match kept.is_empty() {
            true => path.into(),
            false => format!("{path}?{}", kept.join("&")).into(),
        }
    }

    /// Returns true if a request must go to the origin without a look-up.
    pub fn bypasses(&self, headers: &HeaderMap) -> bool {
        let is_listed = |line: &HeaderValue| match std::str::from_utf8(line.as_bytes()) {
            Ok(line) => pairs(line).any(|cookie| any(&self.bypass_cookies, name(cookie))),
            // A line that is no text may contain any cookie.
            Err(_) => true,
        };
        self.is_bypassed
            || (!self.bypass_cookies.is_empty() && headers.get_all(COOKIE).iter().any(is_listed))
    }

    /// Returns true if the rule concerns cookies of requests.
    pub fn has_cookies(&self) -> bool {
        self.cookies.is_some() || !self.bypass_cookies.is_empty()
    }

    /// Removes cookies that are not listed. The others are in the order of their names, so that
    /// equal ones select the same response; those of one name keep the client's order.
    pub fn take_cookies(&self, headers: &mut HeaderMap) {
        let Some(listed) = &self.cookies else {
            return;
        };
        let is_kept = |cookie: &&str| any(listed, name(cookie));
        let mut kept: Vec<&str> = cookies(headers).filter(is_kept).collect();
        kept.sort_by_key(|cookie| name(cookie));
        let value = HeaderValue::from_str(&kept.join("; ")).ok();
        match value.filter(|value| !value.is_empty()) {
            Some(value) => _ = headers.insert(COOKIE, value),
            None => _ = headers.remove(COOKIE),
        }
    }

    /// Adds Cookie to the fields that select a response if listed cookies do.
    pub fn add_vary(&self, response: &mut HeaderMap) {
        if self
            .cookies
            .as_ref()
            .is_some_and(|cookies| !cookies.is_empty())
        {
            response.append(VARY, HeaderValue::from_static("cookie"));
        }
    }

    /// Returns the times that apply to a response. A response that sets cookies gets no lifetime,
    /// because they may be personal.
    pub fn grace(&self, status: StatusCode, headers: &HeaderMap, grace: Grace) -> Grace {
        let code = status.as_u16();
        let mut listed = self.lifetimes_ms.iter();
        let listed = listed.find(|(status, _)| *status == code);
        let is_usual = matches!(code, 200 | 203 | 206 | 300 | 301 | 308);
        let lifetime_ms = listed.map(|(_, ms)| *ms);
        let lifetime_ms = lifetime_ms.or(self.lifetime_ms.filter(|_| is_usual));
        Grace {
            error_ms: self.error_ms.unwrap_or(grace.error_ms),
            keep_ms: self.keep_ms.unwrap_or(grace.keep_ms),
            fresh_ms: lifetime_ms.filter(|_| !headers.contains_key(SET_COOKIE)),
        }
    }
}

/// Returns the cookies of a request as `name=value`.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter();
    let lines = lines.filter_map(|line| std::str::from_utf8(line.as_bytes()).ok());
    lines.flat_map(pairs)
}

/// Returns the cookies in a line.
fn pairs(line: &str) -> impl Iterator<Item = &str> {
    let cookies = line.split(';').map(str::trim);
    cookies.filter(|cookie| !cookie.is_empty())
}

/// Returns the name of an argument or a cookie.
fn name(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(*text)).collect()
    }

    /// Matches by trying all lengths for each asterisk.
    fn matches_by_trial(pattern: &str, text: &str) -> bool {
        match pattern.split_at_checked(1) {
            None => text.is_empty(),
            Some(("*", rest)) => (0..=text.len()).any(|at| matches_by_trial(rest, &text[at..])),
            Some((first, rest)) => {
                let text = text.strip_prefix(first);
                text.is_some_and(|text| matches_by_trial(rest, text))
            }
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_by_trial(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            let expected = matches_by_trial(&pattern, &text);
            prop_assert_eq!(Pattern::new(pattern).matches(&text), expected);
        }
    }

    #[test]
    fn the_first_rule_that_matches_host_and_path_applies() {
        let rule = |hosts: &[&str], paths: &[&str]| {
            Arc::new(Rule {
                hosts: patterns(hosts),
                paths: patterns(paths),
                ..Rule::default()
            })
        };
        let rules = [
            rule(&["*.example.org"], &["/static/*", "*.css"]),
            rule(&["www.example.org"], &[]),
            rule(&[], &["/"]),
        ];
        let at = |host, target| {
            let found = find(&rules, host, target)?;
            rules.iter().position(|rule| rule == found)
        };
        assert_eq!(at("www.example.org", "/static/x?y"), Some(0));
        assert_eq!(at("www.example.org", "/a.css?v=1"), Some(0));
        assert_eq!(at("www.example.org", "/x?a.css"), Some(1));
        assert_eq!(at("other", "/?x"), Some(2));
        assert_eq!(at("other", "/x"), None);
        assert_eq!(at("example.org", "/static/x"), None);
    }

    #[test]
    fn arguments_are_removed_by_name() {
        let mut rule = Rule {
            ignored_arguments: patterns(&["utm_*", "fbclid"]),
            ..Rule::default()
        };
        assert_eq!(rule.target("/x"), "/x");
        assert_eq!(rule.target("/x?utm_a=1&b=2&fbclid&b=3"), "/x?b=2&b=3");
        assert_eq!(rule.target("/x?utm_a=1"), "/x");
        rule.arguments = Some(patterns(&["id", "utm_a"]));
        assert_eq!(rule.target("/x?b=1&id=2&utm_a=3"), "/x?id=2");
        assert_eq!(Rule::default().target("/x?b=1&"), "/x?b=1&");
    }

    #[test]
    fn listed_cookies_remain_and_select_a_response() {
        let rule = Rule {
            cookies: Some(patterns(&["lang", "a*"])),
            bypass_cookies: patterns(&["session*"]),
            ..Rule::default()
        };
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("lang=en; x=1"));
        headers.append(COOKIE, HeaderValue::from_static("ab=2"));
        assert!(!rule.bypasses(&headers));
        rule.take_cookies(&mut headers);
        assert_eq!(headers[COOKIE], "ab=2; lang=en");
        headers.insert(COOKIE, HeaderValue::from_static("x=1; session_1=y"));
        assert!(rule.bypasses(&headers));
        rule.take_cookies(&mut headers);
        assert!(!headers.contains_key(COOKIE));
        let mut response = HeaderMap::new();
        rule.add_vary(&mut response);
        assert_eq!(response[VARY], "cookie");
    }

    #[test]
    fn lifetimes_depend_on_the_status_and_not_on_responses_that_set_cookies() {
        let rule = Rule {
            lifetime_ms: Some(60),
            lifetimes_ms: vec![(404, 5), (301, 9)],
            keep_ms: Some(1),
            ..Rule::default()
        };
        let mut headers = HeaderMap::new();
        let grace = Grace::default();
        let of = |code, headers: &HeaderMap| {
            let status = StatusCode::from_u16(code).expect("it has three digits");
            rule.grace(status, headers, grace).fresh_ms
        };
        assert_eq!(of(200, &headers), Some(60));
        assert_eq!(of(301, &headers), Some(9));
        assert_eq!(of(404, &headers), Some(5));
        assert_eq!(of(500, &headers), None);
        let kept = rule.grace(StatusCode::OK, &headers, grace);
        assert_eq!((kept.keep_ms, kept.error_ms), (1, grace.error_ms));
        headers.insert(SET_COOKIE, HeaderValue::from_static("a=b"));
        assert_eq!(of(200, &headers), None);
    }
}
