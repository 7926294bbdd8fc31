//! The rules of HTTP caching as pure functions: no I/O, no clock, no state.
//!
//! Inputs are header fields and instants; results are small values. Every rule names the section of
//! the specification that it implements. Start reading with `freshness.rs`.

pub mod coding;
pub mod conditional;
pub mod dates;
pub mod directives;
pub mod fields;
pub mod forwarded;
pub mod freshness;
pub mod key;
pub mod operator;
pub mod plain;
pub mod present;
pub mod proxy_protocol;
pub mod ranges;
pub mod status;
pub mod targeted;
#[cfg(test)]
mod tests;
pub mod vary;

/// Returns header fields, for tests.
#[cfg(test)]
fn headers(fields: &[(&'static str, &str)]) -> hyper::HeaderMap {
    let mut headers = hyper::HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().expect("a valid value"));
    }
    headers
}
