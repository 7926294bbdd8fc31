//! Comma-separated traces whose first line names the columns `time`, `key` and `size`.
//!
//! Columns may stand in any order and beside others, which are ignored. All three are whole
//! numbers, time in seconds. Lines may end in `\r\n`; the last one may lack its end; blank lines are refused.

use crate::{Error, Request};
use std::io::{BufRead, BufReader, Read};

/// A longer line is refused, so that a file without line ends cannot take all memory.
const LINE_BYTES_MAX: u64 = 1 << 16;
const BUFFER_BYTES: usize = 1 << 18;
/// How much of a bad line an error quotes.
const QUOTED_CHARS: usize = 60;

const WANTED: [&str; 3] = ["time", "key", "size"];
const EXPECTED_HEADER: &str = "a header naming the columns time, key and size once each";
const EXPECTED_LINE: &str = "a line of at most 65,536 bytes";
const EXPECTED_COLUMNS: &str = "as many columns as the header has";
const EXPECTED_NUMBER: [&str; 3] = [
    "a whole number of seconds as time",
    "a whole number below 2^64 as key",
    "a whole number below 2^32 as size",
];

/// Reads requests from comma-separated text, one line at a time.
pub struct CsvReader<R> {
    file: String,
    input: BufReader<R>,
    line: Vec<u8>,
    line_count: u64,
    /// For each column of the file, which of `WANTED` it is.
    columns: Vec<Option<usize>>,
    is_over: bool,
}

impl<R: Read> CsvReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// A header that lacks or repeats a column, an empty file, an unreadable stream.
    pub fn new(file: &str, input: R) -> Result<Self, Error> {
        let mut reader = CsvReader {
            file: file.into(),
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            line: Vec::new(),
            line_count: 0,
            columns: Vec::new(),
            is_over: false,
        };
        if !reader.next_line()? {
            reader.line_count = 1;
            return Err(reader.bad_line(EXPECTED_HEADER));
        }
        for name in reader.line.split(|&byte| byte == b',') {
            let wanted = WANTED
                .iter()
                .position(|w| w.as_bytes() == name.trim_ascii());
            if wanted.is_some() && reader.columns.contains(&wanted) {
                return Err(reader.bad_line(EXPECTED_HEADER));
            }
            reader.columns.push(wanted);
        }
        if (0..WANTED.len()).any(|wanted| !reader.columns.contains(&Some(wanted))) {
            return Err(reader.bad_line(EXPECTED_HEADER));
        }
        Ok(reader)
    }

    /// Takes the next line without its end; false at the end of the stream.
    fn next_line(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| Error::Unreadable {
            file: self.file.clone(),
            line: self.line_count,
            source,
        })?;
        if read == 0 {
            return Ok(false);
        }
        self.line_count += 1;
        if self.line.ends_with(b"\n") {
            self.line.pop();
            if self.line.ends_with(b"\r") {
                self.line.pop();
            }
        } else if read as u64 == LINE_BYTES_MAX {
            return Err(self.bad_line(EXPECTED_LINE));
        }
        Ok(true)
    }

    fn bad_line(&self, expected: &'static str) -> Error {
        let text = String::from_utf8_lossy(&self.line);
        Error::BadLine {
            file: self.file.clone(),
            line: self.line_count,
            expected,
            found: text.chars().take(QUOTED_CHARS).collect(),
        }
    }

    fn parse(&self) -> Result<Request, Error> {
        let mut numbers = [0u64; 3];
        let mut fields = self.line.split(|&byte| byte == b',');
        for column in &self.columns {
            let field = fields
                .next()
                .ok_or_else(|| self.bad_line(EXPECTED_COLUMNS))?;
            if let &Some(wanted) = column {
                numbers[wanted] =
                    parse_u64(field).ok_or_else(|| self.bad_line(EXPECTED_NUMBER[wanted]))?;
            }
        }
        if fields.next().is_some() {
            return Err(self.bad_line(EXPECTED_COLUMNS));
        }
        let [time, key, size] = numbers;
        let time_ms = time.checked_mul(1000);
        let time_ms = time_ms.ok_or_else(|| self.bad_line(EXPECTED_NUMBER[0]))?;
        let size = u32::try_from(size).map_err(|_| self.bad_line(EXPECTED_NUMBER[2]))?;
        Ok(Request::new(time_ms, key, size))
    }
}

impl<R: Read> Iterator for CsvReader<R> {
    type Item = Result<Request, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let request = match self.next_line() {
            Ok(false) => {
                self.is_over = true;
                return None;
            }
            Ok(true) => self.parse(),
            Err(error) => Err(error),
        };
        self.is_over = request.is_err();
        Some(request)
    }
}

/// A number of decimal digits only; `None` for anything else.
fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(text: &str) -> Result<Vec<Request>, Error> {
        crate::read("test.csv", text.as_bytes())?.collect()
    }

    fn message(text: &str) -> String {
        read_all(text)
            .expect_err("the text is malformed")
            .to_string()
    }

    #[test]
    fn columns_may_stand_in_any_order_beside_others() {
        let requests = read_all("size,op,key,time\r\n5,get,7,1\r\n6,set,8,2").expect("well-formed");
        let wanted =
            [(1, 7, 5), (2, 8, 6)].map(|(time, key, size)| Request::new(time * 1000, key, size));
        assert_eq!(requests, wanted);
    }

    #[test]
    fn a_malformed_line_is_told_with_file_line_and_what_was_expected() {
        let cases = [
            ("", "test.csv:1: expected a header naming"),
            ("time,key\n", "test.csv:1: expected a header naming"),
            (
                "time,key,size,key\n",
                "test.csv:1: expected a header naming",
            ),
            (
                "time,key,size\n1,2,3\n1,x,3\n",
                "test.csv:3: expected a whole number below 2^64 as key, found \"1,x,3\"",
            ),
            (
                "time,key,size\n1,2\n",
                "test.csv:2: expected as many columns",
            ),
            (
                "time,key,size\n1,2,3,4\n",
                "test.csv:2: expected as many columns",
            ),
            (
                "time,key,size\n\n",
                "test.csv:2: expected a whole number of seconds as time",
            ),
            ("time,key,size\n1,2,4294967296\n", "below 2^32 as size"),
            ("time,key,size\n-1,2,3\n", "seconds as time"),
            (
                "time,key,size\n1,18446744073709551616,3\n",
                "below 2^64 as key",
            ),
        ];
        for (text, wanted) in cases {
            assert!(
                message(text).contains(wanted),
                "{text:?} gave {}",
                message(text)
            );
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let text = format!("time,key,size\n{}", "1".repeat(1 << 17));
        assert!(message(&text).contains("a line of at most"));
    }

    #[test]
    fn nothing_follows_an_error() {
        let mut requests = crate::read("t.csv", "time,key,size\nx\n1,2,3\n".as_bytes())
            .expect("the header is right");
        assert!(requests.next().is_some_and(|request| request.is_err()));
        assert!(requests.next().is_none());
    }

    #[test]
    fn a_truncated_archive_is_an_error_not_an_end() {
        let text = "time,key,size\n".to_string() + &"1,2,3\n".repeat(10_000);
        let packed = zstd::encode_all(text.as_bytes(), 1).expect("memory is there");
        let cut = &packed[..packed.len() / 2];
        let result: Result<Vec<_>, _> = crate::read("t.csv.zst", cut).and_then(Iterator::collect);
        assert!(matches!(result, Err(Error::Unreadable { .. })));
    }

    #[test]
    fn an_unknown_ending_is_refused() {
        let error = crate::read("t.parquet.gz", &b""[..])
            .err()
            .expect("not csv");
        assert!(error.to_string().contains("must end in .csv"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_whatever_the_compression(
            rows in proptest::collection::vec((0..1u64 << 50, any::<u64>(), any::<u32>()), 0..200)
        ) {
            use std::io::Write;
            let mut text = String::from("time,key,size\n");
            for (time, key, size) in &rows {
                text += &format!("{time},{key},{size}\n");
            }
            let zst = zstd::encode_all(text.as_bytes(), 1).expect("memory is there");
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(text.as_bytes()).expect("memory is there");
            let gz = gz.finish().expect("memory is there");
            for (name, bytes) in [("a.csv", text.as_bytes()), ("a.csv.zst", &zst), ("a.csv.gz", &gz)] {
                let read: Result<Vec<_>, _> = crate::read(name, bytes).expect("a header").collect();
                let read: Vec<_> = read.expect("well-formed").iter().map(|r| (r.time_ms / 1000, r.key, r.size)).collect();
                prop_assert_eq!(&read, &rows);
            }
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for name in ["a.csv", "a.csv.zst", "a.csv.gz"] {
                if let Ok(requests) = crate::read(name, &bytes[..]) {
                    let _ = requests.count();
                }
            }
        }
    }
}
