//! Arguments of SORT.

use engine::refusal::Refusal;
use std::ops::Range;
use wire::Args;
use wire::number::parse_i64;

/// Options of SORT and SORT_RO.
#[derive(Default)]
pub(super) struct Request<'a> {
    /// Pattern of the keys or fields to sort by; `None` sorts by the elements.
    pub by: Option<&'a [u8]>,
    /// Whether to sort at all. A BY pattern without `*` disables it.
    pub sorts: bool,
    /// Patterns of the values to return for each element; none returns the element.
    pub gets: Vec<&'a [u8]>,
    /// Offset and count of the returned elements. A negative count means all.
    limit: Option<(i64, i64)>,
    /// Whether the order is descending.
    pub is_descending: bool,
    /// Whether elements compare as bytes instead of numbers.
    pub is_alpha: bool,
    /// Key under which the result is stored.
    pub destination: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Parses the options after the key.
    pub fn parse(args: Args<'a>, may_store: bool) -> Result<Request<'a>, Refusal> {
        let mut request = Request {
            sorts: true,
            ..Request::default()
        };
        let mut rest = args;
        while !rest.is_empty() {
            let taken = request.take(rest, may_store)?;
            rest = rest.from(taken);
        }
        Ok(request)
    }

    /// Parses one option and returns its number of arguments.
    fn take(&mut self, args: Args<'a>, may_store: bool) -> Result<usize, Refusal> {
        let number = |text: &[u8]| parse_i64(text).ok_or(Refusal::NotInteger);
        match (args.get(1), args.get(2)) {
            _ if args.is(0, "asc") => self.is_descending = false,
            _ if args.is(0, "desc") => self.is_descending = true,
            _ if args.is(0, "alpha") => self.is_alpha = true,
            (Some(start), Some(count)) if args.is(0, "limit") => {
                self.limit = Some((number(start)?, number(count)?));
                return Ok(3);
            }
            (Some(name), _) if may_store && args.is(0, "store") => {
                self.destination = Some(name);
                return Ok(2);
            }
            (Some(pattern), _) if args.is(0, "by") => {
                self.by = Some(pattern);
                self.sorts &= pattern.contains(&b'*');
                return Ok(2);
            }
            (Some(pattern), _) if args.is(0, "get") => {
                self.gets.push(pattern);
                return Ok(2);
            }
            _ => return Err(Refusal::Syntax),
        }
        Ok(1)
    }

    /// Returns the range of sorted elements to return, out of `len`.
    pub fn range(&self, len: usize) -> Range<usize> {
        let Some((start, count)) = self.limit else {
            return 0..len;
        };
        let start = usize::try_from(start.max(0)).map_or(len, |start| start.min(len));
        let end = usize::try_from(count).map_or(len, |count| start.saturating_add(count).min(len));
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_beyond_the_end_is_reduced_to_the_end() {
        let range = |start, count, len| {
            let limit = Some((start, count));
            Request {
                limit,
                ..Request::default()
            }
            .range(len)
        };
        assert_eq!(range(2, 3, 10), 2..5);
        assert_eq!(range(-2, 3, 10), 0..3);
        assert_eq!(range(2, -1, 10), 2..10);
        assert_eq!(range(20, 3, 10), 10..10);
        assert_eq!(range(2, 0, 10), 2..2);
        assert_eq!(range(i64::MAX, i64::MAX, 3), 3..3);
        assert_eq!(Request::default().range(3), 0..3);
    }
}
