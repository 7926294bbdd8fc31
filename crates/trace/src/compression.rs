//! Compressed streams.

use crate::Place;
use crate::error::Fault;
use crate::format::Compression;
use std::io::Read;

/// The largest zstd window accepted, as a power of two: 2 GiB, the format's practical limit on
/// 64-bit machines. The decoder allocates what the frame asks for, not this much.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// What an xz decoder may take; the strongest preset needs 65 MiB, the largest dictionary 1.5 GiB.
const XZ_MEMORY_MAX: u64 = 2 << 30;

/// The expanded stream.
pub(crate) fn expand<'a>(
    compression: Compression,
    input: impl Read + 'a,
) -> Result<Box<dyn Read + 'a>, Fault> {
    let unreadable = |source| Fault::Unreadable {
        place: Place::START,
        source,
    };
    Ok(match compression {
        Compression::Plain => Box::new(input),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(input).map_err(unreadable)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(unreadable)?;
            Box::new(decoder)
        }
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
        Compression::Xz => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_MAX, flags);
            let stream = stream.map_err(|error| unreadable(error.into()))?;
            Box::new(liblzma::read::XzDecoder::new_stream(input, stream))
        }
    })
}
