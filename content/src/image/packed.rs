//! Decompression of gzip, xz and zstd. Only the decoder's window is held in memory.

use ethbcast_collectives::session::Packing;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read};

const READ_BYTES: usize = 1 << 16;
/// Memory limit of the xz decoder in KiB, enough for `xz -9`.
const MAX_XZ_KIB: u32 = 96 << 10;
/// Longest window of a zstd frame in bytes, enough for `zstd --ultra -22` without `--long=27`.
const MAX_ZSTD_WINDOW_BYTES: u64 = 96 << 20;

/// Decompresses a stream; an end within it is an error.
pub fn unpack<'a>(packing: Packing, packed: impl Read + Send + 'a) -> Box<dyn Read + Send + 'a> {
    let packed = BufReader::with_capacity(READ_BYTES, packed);
    match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Xz => Box::new(XzReader::new_mem_limit(packed, true, MAX_XZ_KIB)),
        Packing::Zstd => {
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(MAX_ZSTD_WINDOW_BYTES);
            Box::new(ZstdReader { packed, decoder, is_open: false })
        }
    }
}

struct ZstdReader<R> {
    packed: BufReader<R>,
    decoder: FrameDecoder,
    is_open: bool,
}

impl<R: Read> ZstdReader<R> {
    fn begin(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.packed) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.packed.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_open = false;
        let told = self.decoder.get_checksum_from_data();
        if told.is_some() && told != self.decoder.get_calculated_checksum() {
            return Err(damaged("the checksum of a zstd frame is another"));
        }
        Ok(())
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_open && !self.begin()? {
                break;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.packed, one).map_err(damaged)?;
            }
            match self.decoder.read(buffer)? {
                0 => self.end()?,
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}

fn damaged(what: impl Display) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageFormat;

    /// Outputs of `gzip -9`, `xz -1` and `zstd --check` for [`image`] and for a few words.
    const PACKED: [(Packing, &[u8], &[u8]); 3] = [
        (Packing::Gzip, include_bytes!("packed/image.gz"), include_bytes!("packed/more.gz")),
        (Packing::Xz, include_bytes!("packed/image.xz"), include_bytes!("packed/more.xz")),
        (Packing::Zstd, include_bytes!("packed/image.zst"), include_bytes!("packed/more.zst")),
    ];

    fn image() -> Vec<u8> {
        let byte = |at: u32| match at {
            0..1000 => (at.wrapping_mul(2_654_435_761) >> 24) as u8,
            _ => (at / 50_000 * 97) as u8,
        };
        (0..1_000_000).map(byte).collect()
    }

    #[test]
    fn what_was_packed_comes_out_and_half_of_it_or_a_changed_bit_is_an_error() {
        let bytes = image();
        for (packing, one, more) in PACKED {
            assert_eq!(ImageFormat::of(one), Some(ImageFormat::Packed(packing)));
            let read = |packed: &[u8]| {
                let mut all = Vec::new();
                unpack(packing, packed).read_to_end(&mut all).map(|_| all)
            };
            assert!(read(one).is_ok_and(|all| all == bytes), "{packing:?}");
            // Two compressed streams in a row decompress to both contents.
            let two = [one, more].concat();
            assert!(read(&two).is_ok_and(|all| all[bytes.len()..] == *b"and more"), "{packing:?}");
            assert!(read(&one[..one.len() - 3]).is_err(), "{packing:?}: the end is missing");
            let mut changed = one.to_vec();
            changed[one.len() / 2] ^= 4;
            assert!(!read(&changed).is_ok_and(|all| all == bytes), "{packing:?}: a bit has changed");
            assert!(read(&changed).is_err(), "{packing:?}: a bit has changed");
        }
    }

    #[test]
    fn a_zstd_frame_whose_window_takes_more_memory_than_unpacking_may_is_refused() {
        // Magic, descriptor, window, an empty last block.
        let frame = |window| [0x28, 0xb5, 0x2f, 0xfd, 0, window, 1, 0, 0];
        let read = |window| {
            let (frame, mut all) = (frame(window), Vec::new());
            unpack(Packing::Zstd, &frame[..]).read_to_end(&mut all)
        };
        let exponent = |power: u8| (power - 10) << 3;
        assert_eq!(read(exponent(26)).expect("64 MiB"), 0);
        assert!(read(exponent(27)).is_err(), "128 MiB");
    }
}
