//! Compression of content while it passes.
//!
//! A compressor needs one or two megabytes, which count as content outside the store. If there is
//! no room for it, content passes without compression.

use crate::budget::{Budget, Held};
use crate::metrics::Metrics;
use crate::rules::coding::Coding;
use bytes::Bytes;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

/// Level of gzip, of 1 to 9. Level 6 takes twice the time for one per cent.
const GZIP_LEVEL: u32 = 5;
/// Quality of Brotli, of 0 to 11. Quality 5 takes twice the time and memory, and texts were not
/// smaller on average.
const BROTLI_QUALITY: u32 = 4;
/// Logarithm of the distance in bytes over which Brotli finds repetitions.
const BROTLI_WINDOW_LOG: u32 = 16;
/// Level of Zstandard, of 1 to 22.
const ZSTD_LEVEL: i32 = 3;
/// Logarithm of the distance in bytes over which Zstandard finds repetitions. It bounds the memory
/// here and at the client.
const ZSTD_WINDOW_LOG: u32 = 18;
/// Size of Brotli's buffer for output in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Returns the number of bytes that a compressor counts for: a little more than it has been seen to
/// allocate.
fn working_bytes(coding: Coding) -> u64 {
    match coding {
        Coding::Gzip => 512 << 10,
        Coding::Brotli => 2 << 20,
        Coding::Zstd => 1_536 << 10,
    }
}

/// Compressor of one coding.
enum Compressor {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// Compressor with its room in the account of memory.
pub struct Encoder {
    compressor: Option<Compressor>,
    /// Whether each part is passed on at once, because the origin may pause after it.
    is_flushed: bool,
    metrics: Arc<Metrics>,
    _held: Held,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates a compressor for content of a length, if it is known. Returns `None` if memory is
    /// short.
    pub fn new(
        coding: Coding,
        length: Option<u64>,
        budget: &Arc<Budget>,
        metrics: &Arc<Metrics>,
    ) -> Option<Self> {
        let held = Budget::hold(budget, working_bytes(coding));
        let compressor = held.is_some().then(|| Compressor::new(coding).ok());
        let Some((held, compressor)) = held.zip(compressor.flatten()) else {
            metrics.uncompressed.fetch_add(1, Relaxed);
            return None;
        };
        metrics.compressed(coding);
        Some(Encoder {
            compressor: Some(compressor),
            is_flushed: length.is_none(),
            metrics: metrics.clone(),
            _held: held,
        })
    }

    /// Compresses a part of the content. The result may be empty.
    fn write(&mut self, chunk: &[u8]) -> io::Result<Bytes> {
        let Some(compressor) = &mut self.compressor else {
            return Ok(Bytes::new());
        };
        compressor.write(chunk, self.is_flushed)?;
        let out = std::mem::take(compressor.out());
        self.metrics.count_compression(chunk.len(), out.len());
        Ok(out.into())
    }

    /// Returns the end of the compressed content.
    fn finish(&mut self) -> io::Result<Bytes> {
        let Some(compressor) = self.compressor.take() else {
            return Ok(Bytes::new());
        };
        let out = compressor.finish()?;
        self.metrics.count_compression(0, out.len());
        Ok(out.into())
    }
}

impl Compressor {
    fn new(coding: Coding) -> io::Result<Self> {
        let out = Vec::new();
        Ok(match coding {
            Coding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Compressor::Gzip(GzEncoder::new(out, level))
            }
            Coding::Brotli => {
                let (quality, window) = (BROTLI_QUALITY, BROTLI_WINDOW_LOG);
                let writer = brotli::CompressorWriter::new(out, BUFFER_BYTES, quality, window);
                Compressor::Brotli(Box::new(writer))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
                encoder.window_log(ZSTD_WINDOW_LOG)?;
                Compressor::Zstd(encoder)
            }
        })
    }

    fn write(&mut self, chunk: &[u8], is_flushed: bool) -> io::Result<()> {
        let writer: &mut dyn Write = match self {
            Compressor::Gzip(writer) => writer,
            Compressor::Brotli(writer) => writer,
            Compressor::Zstd(writer) => writer,
        };
        writer.write_all(chunk)?;
        match is_flushed {
            true => writer.flush(),
            false => Ok(()),
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Compressor::Gzip(writer) => writer.get_mut(),
            Compressor::Brotli(writer) => writer.get_mut(),
            Compressor::Zstd(writer) => writer.get_mut(),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Compressor::Gzip(writer) => writer.finish(),
            Compressor::Brotli(writer) => Ok(writer.into_inner()),
            Compressor::Zstd(writer) => writer.finish(),
        }
    }
}

/// Body that is compressed as it passes, or unchanged.
pub struct Encoded<B> {
    body: B,
    encoder: Option<Encoder>,
    is_finished: bool,
}

impl<B> Encoded<B> {
    /// Compresses a body, if there is a compressor.
    pub fn new(body: B, encoder: Option<Encoder>) -> Self {
        Encoded {
            body,
            encoder,
            is_finished: false,
        }
    }
}

impl<B> Body for Encoded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        while !this.is_finished {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
            let chunk = match frame.transpose().map_err(io::Error::other)? {
                Some(frame) => match frame.into_data() {
                    Ok(chunk) => Some(chunk),
                    // Trailers are not forwarded.
                    Err(_) => continue,
                },
                None => None,
            };
            let out = match (&mut this.encoder, chunk) {
                (None, Some(chunk)) => chunk,
                (Some(encoder), Some(chunk)) => encoder.write(&chunk)?,
                (encoder, None) => {
                    this.is_finished = true;
                    let end = encoder.as_mut().map(Encoder::finish);
                    end.transpose()?.unwrap_or_default()
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
        }
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        match self.encoder {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Content;
    use crate::body::tests::Fed;
    use proptest::prelude::*;
    use std::io::Read;
    use std::task::Waker;
    use tokio::sync::mpsc::unbounded_channel;

    fn encoder(coding: Coding, length: Option<u64>) -> Encoder {
        let budget = Budget::new(1 << 30);
        Encoder::new(coding, length, &budget, &Arc::default()).expect("there is room")
    }

    /// Decodes with the decoder of the same package.
    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut text = vec![];
        let read = match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut text),
            Coding::Brotli => brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut text),
            Coding::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(bytes);
                decoder.and_then(|mut decoder| decoder.read_to_end(&mut text))
            }
        };
        read.expect("the content is complete");
        text
    }

    fn collect<B>(mut body: Encoded<B>) -> Vec<u8>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut context = Context::from_waker(Waker::noop());
        let mut all = vec![];
        while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
            let frame = frame.expect("the content is complete");
            all.extend_from_slice(&frame.into_data().expect("it has no trailers"));
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn content_is_the_same_after_decoding(
            parts in prop::collection::vec("[ab]{0,3000}", 0..6),
            has_length: bool,
        ) {
            let chunks = parts.iter().map(|part| Bytes::from(part.clone()));
            let chunks: Vec<Bytes> = chunks.collect();
            let content = parts.concat();
            let length = has_length.then_some(content.len() as u64);
            for coding in Coding::ALL {
                let body = Content::chunks(chunks.clone());
                let body = Encoded::new(body, Some(encoder(coding, length)));
                let bytes = collect(body);
                prop_assert_eq!(decoded(coding, &bytes), content.as_bytes());
            }
        }
    }

    #[test]
    fn a_part_of_content_of_unknown_length_is_passed_on_at_once() {
        for coding in Coding::ALL {
            let (sender, receiver) = unbounded_channel();
            let mut body = Encoded::new(Fed(receiver), Some(encoder(coding, None)));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..3 {
                sender
                    .send(Bytes::from_static(b"part"))
                    .expect("it is received");
                let next = Pin::new(&mut body).poll_frame(&mut context);
                assert!(matches!(next, Poll::Ready(Some(Ok(_)))), "{coding:?}");
                assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
            }
        }
    }

    #[test]
    fn compressors_are_bounded_by_a_part_of_memory() {
        let budget = Budget::new(64 << 20);
        let metrics = Arc::<Metrics>::default();
        let new = || Encoder::new(Coding::Brotli, None, &budget, &metrics);
        let mut all: Vec<Encoder> = std::iter::from_fn(new).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(budget.bytes(), 8 << 20);
        assert_eq!(metrics.uncompressed.load(Relaxed), 1);
        all.pop();
        assert!(new().is_some());
        all.clear();
        assert_eq!(budget.bytes(), 0);
    }
}
