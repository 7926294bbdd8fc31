//! Compression, told by the ending of a trace's name.

use crate::Error;
use std::io::Read;

/// The largest zstd window accepted, as a power of two: 2 GiB, the format's practical limit on
/// 64-bit machines. The decoder allocates what the frame asks for, not this much.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// The name without its compression ending, and the expanded stream.
pub(crate) fn expand<'n, 'a>(
    name: &'n str,
    input: impl Read + 'a,
) -> Result<(&'n str, Box<dyn Read + 'a>), Error> {
    if let Some(plain) = name.strip_suffix(".zst") {
        let unreadable = |source| Error::Unreadable {
            file: name.into(),
            line: 0,
            source,
        };
        let mut decoder = zstd::stream::read::Decoder::new(input).map_err(unreadable)?;
        decoder
            .window_log_max(ZSTD_WINDOW_LOG_MAX)
            .map_err(unreadable)?;
        return Ok((plain, Box::new(decoder)));
    }
    if let Some(plain) = name.strip_suffix(".gz") {
        return Ok((plain, Box::new(flate2::read::MultiGzDecoder::new(input))));
    }
    Ok((name, Box::new(input)))
}
