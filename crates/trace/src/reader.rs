//! Reads a trace of any format as one stream of requests.

use crate::compression;
use crate::entry::{Columns, Input, OpenError, Source, TextLayout};
use crate::error::{Error, Fault};
use crate::format::{Compression, Format};
use crate::prepared::Prepared;
use crate::request::{NextAccess, Request};
use std::io::{Read, Seek};

/// Options of a reader, for facts that the trace's name does not imply.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Format of the trace [default: by the ending of its name].
    pub format: Option<Format>,
    /// Names of the columns, separated by commas, for a text in columns without a header. Columns
    /// with unknown names are ignored. Pairs such as `key=object` instead give the names that the
    /// header has for columns.
    pub columns: Option<String>,
    /// Character that separates columns of text [default: a comma].
    pub delimiter: Option<u8>,
    /// Number of lines to skip at the beginning of a text in columns.
    pub skip_lines: u64,
    /// Whether malformed lines and records are skipped and counted instead of ending the stream.
    pub skip_bad: bool,
    /// Maximum bytes of memory of a prepared trace, which is read as a whole [default: no limit].
    pub memory_limit: Option<u64>,
}

/// Stream of requests. It ends after the first error, unless malformed input is skipped.
pub struct Reader<'a> {
    source: Box<dyn Source + 'a>,
    file: String,
    skips: bool,
    skipped: u64,
    first_skipped: Option<Error>,
    is_over: bool,
}

/// Reads the trace called `name` from `input`. The endings of the name determine format and
/// compression.
///
/// ```
/// let input = "time,key,size\n0,7,100\n".as_bytes();
/// let requests: Result<Vec<_>, _> = trace::read("tiny.csv", input).unwrap().collect();
/// assert_eq!(requests.unwrap()[0].key, 7);
/// ```
///
/// # Errors
/// The ending belongs to no known format, or the stream cannot be read.
pub fn read<'a>(name: &str, input: impl Read + 'a) -> Result<Reader<'a>, Error> {
    open(name, input, &Options::default())
}

/// Reads the trace called `name` from `input` with options.
///
/// ```
/// use trace::{Format, Options};
/// let format: Format = "txt".parse().unwrap();
/// let options = Options { format: Some(format), ..Options::default() };
/// let keys: Vec<u64> = trace::open("-", "5\n6\n".as_bytes(), &options)
///     .unwrap()
///     .map(|request| request.unwrap().key)
///     .collect();
/// assert_eq!(keys, [5, 6]);
/// ```
///
/// # Errors
/// The format is unknown, the options do not fit it, or the beginning of the stream is malformed or
/// unreadable.
pub fn open<'a>(name: &str, input: impl Read + 'a, options: &Options) -> Result<Reader<'a>, Error> {
    let (compression, _) = Compression::of_name(name);
    let input = compression::expand(compression, input).map_err(|fault| fault.named(name))?;
    open_input(name, Input::Stream(input), options)
}

/// Reads the trace called `name` from a file that supports seeking. It takes every format that
/// [`open`] takes, and Parquet.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_file(
    name: &str,
    file: impl Read + Seek + Send + 'static,
    options: &Options,
) -> Result<Reader<'static>, Error> {
    match Compression::of_name(name) {
        (Compression::Plain, _) => open_input(name, Input::File(Box::new(file)), options),
        _ => open(name, file, options),
    }
}

/// Reads the file of a prepared trace, compressed as the ending of its name says. `memory_limit`
/// bounds the bytes of the columns.
///
/// ```
/// let mut file = Vec::new();
/// let mut preparer = trace::prepared::Preparer::new(true);
/// preparer.push(&trace::Request::new(0, 5, 100)).unwrap();
/// preparer.finish().write(&mut file).unwrap();
/// let prepared = trace::read_prepared("t.prepared", &file[..], None).unwrap();
/// assert_eq!(prepared.keys, [5]);
/// ```
///
/// # Errors
/// The stream cannot be read, is not a prepared trace of this version, is damaged or truncated, or
/// takes more memory than allowed.
pub fn read_prepared(
    name: &str,
    input: impl Read,
    memory_limit: Option<u64>,
) -> Result<Prepared, Error> {
    let (compression, _) = Compression::of_name(name);
    let input = compression::expand(compression, input);
    let mut input = input.map_err(|fault| fault.named(name))?;
    let read = Prepared::read(&mut input, memory_limit);
    read.map_err(|error| OpenError::from(error).named(name))
}

fn open_input<'a>(name: &str, input: Input<'a>, options: &Options) -> Result<Reader<'a>, Error> {
    let format = options.format.map_or_else(|| Format::of_name(name), Ok)?;
    check_fit(name, format, options)?;
    let layout = TextLayout {
        columns: options.columns.as_deref(),
        delimiter: options.delimiter,
        skip_lines: options.skip_lines,
        memory_limit: options.memory_limit,
    };
    let source = (format.entry().open)(input, &layout);
    let source = source.map_err(|error| error.named(name))?;
    Ok(Reader::new(name, source, options))
}

fn unfit(name: &str, reason: impl Into<String>) -> Error {
    Error::Unfit {
        file: name.into(),
        reason: reason.into(),
    }
}

fn check_fit(name: &str, format: Format, options: &Options) -> Result<(), Error> {
    let needs_columns =
        options.columns.is_some() || options.delimiter.is_some() || options.skip_lines > 0;
    match format.entry().columns {
        Columns::None if needs_columns => {
            let reason = format!(
                "the format {format} has no columns to name, no delimiter and no lines to skip"
            );
            return Err(unfit(name, reason));
        }
        Columns::Fixed if options.columns.is_some() => {
            let reason = format!("the columns of {format} are fixed; name others with csv");
            return Err(unfit(name, reason));
        }
        _ => {}
    }
    if let Some(byte @ (b'"' | b'\n' | b'\r' | b'0'..=b'9')) = options.delimiter {
        let reason = format!("{:?} cannot separate columns", char::from(byte));
        return Err(unfit(name, reason));
    }
    Ok(())
}

impl<'a> Reader<'a> {
    fn new(name: &str, source: Box<dyn Source + 'a>, options: &Options) -> Self {
        Reader {
            source,
            file: name.into(),
            skips: options.skip_bad,
            skipped: 0,
            first_skipped: None,
            is_over: false,
        }
    }

    /// Takes the whole trace if it is a prepared one from which no request was taken. The reader
    /// then has no more requests.
    pub fn take_prepared(&mut self) -> Option<Prepared> {
        self.source.take_prepared()
    }

    /// Number of malformed lines or records that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Error of the first line or record that was skipped.
    pub fn first_skipped(&self) -> Option<&Error> {
        self.first_skipped.as_ref()
    }

    #[cold]
    fn skip(&mut self, fault: Fault) {
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(fault.named(&self.file));
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Request, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<Request, Error>> {
        while !self.is_over {
            match self.source.next() {
                Ok(Some(mut request)) => {
                    if self.skips {
                        request.next_access = NextAccess::Unknown;
                    }
                    return Some(Ok(request));
                }
                Ok(None) => self.is_over = true,
                Err(fault @ Fault::Malformed { .. }) if self.skips => self.skip(fault),
                Err(fault) => {
                    self.is_over = true;
                    return Some(Err(fault.named(&self.file)));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKIPPING: Options = Options {
        format: None,
        columns: None,
        delimiter: None,
        skip_lines: 0,
        skip_bad: true,
        memory_limit: None,
    };

    #[test]
    fn nothing_follows_an_error() {
        let mut requests = read("t.csv", "time,key,size\nx\n1,2,3\n".as_bytes()).expect("a header");
        assert!(requests.next().is_some_and(|request| request.is_err()));
        assert!(requests.next().is_none());
    }

    #[test]
    fn skipped_lines_are_counted_and_the_first_error_is_kept() {
        let text = "time,key,size,next\n1,1,1,5\nx\n2,2,2,\n,,,\n";
        let mut requests = open("t.csv", text.as_bytes(), &SKIPPING).expect("a header");
        let keys: Vec<u64> = requests.by_ref().map(|r| r.expect("skipped").key).collect();
        assert_eq!(keys, [1, 2]);
        assert_eq!(requests.skipped(), 2);
        let first = requests.first_skipped().map(ToString::to_string);
        assert!(first.is_some_and(|text| text.starts_with("t.csv:3: expected")));
    }

    #[test]
    fn a_reader_that_skips_returns_no_next_access() {
        let text = "time,key,size,next\n1,1,1,5\n";
        let mut requests = open("t.csv", text.as_bytes(), &SKIPPING).expect("a header");
        let request = requests.next().expect("one is there").expect("well-formed");
        assert_eq!(request.next_access, NextAccess::Unknown);
    }

    #[test]
    fn options_that_do_not_fit_are_refused_before_reading() {
        let columns = Options {
            columns: Some("key".into()),
            ..Options::default()
        };
        let quote = Options {
            delimiter: Some(b'"'),
            ..Options::default()
        };
        let cases = [
            ("t.polar", Options::default(), "the name must end in"),
            ("t.csv.bz2", Options::default(), "the name must end in"),
            ("t.lis", columns.clone(), "no columns to name"),
            ("t.twitter.csv", columns, "are fixed"),
            ("t.csv", quote, "cannot separate columns"),
        ];
        for (name, options, wanted) in cases {
            let error = open(name, std::io::empty(), &options)
                .err()
                .map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(wanted)),
                "{name}: {error:?}"
            );
        }
    }
}
