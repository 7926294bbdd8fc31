//! Compression and decompression of streams.

use crate::error::{Fault, Position};
use crate::format::Compression;
use std::io::{self, Read, Write};

/// Maximum zstd window accepted, as a power of two: 2 GiB, the format's practical limit on 64-bit
/// machines. The decoder allocates what the frame requires, not this maximum.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// Maximum memory of an xz decoder in bytes. The strongest preset needs 65 MiB, the largest
/// dictionary 1.5 GiB.
const XZ_MEMORY_MAX: u64 = 2 << 30;

/// Returns the decompressed stream.
pub(crate) fn expand<'a>(
    compression: Compression,
    input: impl Read + 'a,
) -> Result<Box<dyn Read + 'a>, Fault> {
    let unreadable = |source| Fault::Unreadable {
        position: Position::START,
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

/// Compression levels: the defaults of the tools.
const GZIP_LEVEL: u32 = 6;
const XZ_LEVEL: u32 = 6;

/// Stream that is compressed as it is written.
pub(crate) enum Packer<W: Write> {
    Plain(W),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Gzip(flate2::write::GzEncoder<W>),
    Xz(liblzma::write::XzEncoder<W>),
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(compression: Compression, output: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::Plain => Packer::Plain(output),
            Compression::Zstd => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                let mut encoder = zstd::stream::write::Encoder::new(output, level)?;
                encoder.include_checksum(true)?;
                Packer::Zstd(encoder)
            }
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Packer::Gzip(flate2::write::GzEncoder::new(output, level))
            }
            Compression::Xz => Packer::Xz(liblzma::write::XzEncoder::new(output, XZ_LEVEL)),
        })
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packer::Plain(output) => output.write_all(bytes),
            Packer::Zstd(encoder) => encoder.write_all(bytes),
            Packer::Gzip(encoder) => encoder.write_all(bytes),
            Packer::Xz(encoder) => encoder.write_all(bytes),
        }
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        let mut output = match self {
            Packer::Plain(output) => output,
            Packer::Zstd(encoder) => encoder.finish()?,
            Packer::Gzip(encoder) => encoder.finish()?,
            Packer::Xz(encoder) => encoder.finish()?,
        };
        output.flush()?;
        Ok(output)
    }
}
