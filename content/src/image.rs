//! Compressed images and virtual-machine images: detection of the format, and decompression.

use crate::manifest::Extent;
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::Packing;
use ethbcast_collectives::session::live::ReadAt;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read};

pub const MAGIC_BYTES: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    Packed(Packing),
    /// A virtual machine's disk with its used clusters in any order.
    Qcow2,
}

impl ImageFormat {
    pub fn of(magic: &[u8]) -> Option<ImageFormat> {
        Some(match magic {
            [0x1f, 0x8b, 8, ..] => ImageFormat::Packed(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ImageFormat::Packed(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => ImageFormat::Packed(Packing::Zstd),
            [b'Q', b'F', b'I', 0xfb, ..] => ImageFormat::Qcow2,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Packed(packing) => packing.name(),
            ImageFormat::Qcow2 => "qcow2",
        }
    }

    pub fn unpacked_name(self, name: &str) -> &str {
        let ending = match self {
            ImageFormat::Packed(Packing::Gzip) => ".gz",
            ImageFormat::Packed(Packing::Xz) => ".xz",
            ImageFormat::Packed(Packing::Zstd) => ".zst",
            ImageFormat::Qcow2 => ".qcow2",
        };
        name.strip_suffix(ending)
            .filter(|name| !name.is_empty())
            .unwrap_or(name)
    }
}

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
            Box::new(ZstdReader {
                packed,
                decoder,
                is_open: false,
            })
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
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(
                        &mut self.packed.by_ref().take(length.into()),
                        &mut io::sink(),
                    )?;
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
                self.decoder
                    .decode_blocks(&mut self.packed, one)
                    .map_err(damaged)?;
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

const HEAD_BYTES: usize = 105;
const OFFSET_BITS: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const READS_AS_ZERO: u64 = 1;
/// Limit on the first-level table in bytes: that of 2 PiB in clusters of 64 KiB.
const MAX_TABLE_BYTES: u64 = 32 << 20;
const SECTOR_BYTES: u64 = 512;

#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
pub enum Qcow2Error {
    #[error("it is no sound qcow2 image: {0}; check it with `qemu-img check`")]
    Unsound(&'static str),
    #[error("{0}; make it one raw file before, `qemu-img convert -O raw`")]
    Beyond(&'static str),
    #[error("{0}")]
    Read(#[from] io::Error),
}

/// A qcow2 image, read as the raw disk.
#[derive(Debug)]
pub struct Qcow2<F> {
    file: F,
    bytes: u64,
    cluster_bits: u32,
    packing: ClusterPacking,
    first: Vec<u64>,
    last: Mutex<Last>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterPacking {
    Deflate,
    Zstd,
}

#[derive(Debug, Default)]
struct Last {
    table: Option<(u64, Vec<u64>)>,
    unpacked: Option<(u64, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cluster {
    Zero,
    At(u64),
    Packed { at: u64, bytes: usize },
}

impl<F: ReadAt> Qcow2<F> {
    /// Reads the header and the first-level table.
    ///
    /// # Errors
    /// If the image cannot be read, or needs an unsupported feature.
    pub fn open(file: F) -> Result<Qcow2<F>, Qcow2Error> {
        let mut head = [0; HEAD_BYTES];
        let count = read_full(&file, &mut head, 0)?;
        let u32_at = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("so long"));
        let u64_at = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("so long"));
        let version = u32_at(4);
        if count < 72 || head[..4] != *b"QFI\xfb" || !(2..=3).contains(&version) {
            return Err(Qcow2Error::Unsound("its header"));
        }
        let (cluster_bits, bytes) = (u32_at(20), u64_at(24));
        let features = if version == 3 { u64_at(72) } else { 0 };
        let refusals = [
            (u64_at(8) != 0, "it needs another image (its backing file)"),
            (u32_at(32) != 0, "it is encrypted"),
            (features & 1 << 1 != 0, "it is marked as corrupt"),
            (features & 1 << 2 != 0, "its data is in another file"),
            (features & 1 << 4 != 0, "it has subclusters"),
            (
                features & !0b11111 != 0,
                "it has a feature that is not known",
            ),
        ];
        if let Some((_, text)) = refusals.into_iter().find(|(is_so, _)| *is_so) {
            return Err(Qcow2Error::Beyond(text));
        }
        let packing = match if features & 1 << 3 != 0 && u32_at(100) > 104 {
            head[104]
        } else {
            0
        } {
            0 => ClusterPacking::Deflate,
            1 => ClusterPacking::Zstd,
            _ => {
                return Err(Qcow2Error::Beyond(
                    "its clusters are packed in a way that is not known",
                ));
            }
        };
        if !(9..=21).contains(&cluster_bits) || bytes > i64::MAX as u64 {
            return Err(Qcow2Error::Unsound("its sizes"));
        }
        let entries = bytes.div_ceil(1 << (2 * cluster_bits - 3));
        if u64::from(u32_at(36)) < entries || entries * 8 > MAX_TABLE_BYTES {
            return Err(Qcow2Error::Unsound("its first table"));
        }
        let first = read_table(&file, u64_at(40), entries as usize)?;
        Ok(Qcow2 {
            file,
            bytes,
            cluster_bits,
            packing,
            first,
            last: Mutex::default(),
        })
    }

    /// Returns the size of the disk, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the extents of the disk that have data.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn extents(&self) -> io::Result<Vec<Extent>> {
        let mut extents: Vec<Extent> = Vec::new();
        let cluster_bytes = 1 << self.cluster_bits;
        let per_table = cluster_bytes / 8;
        for (number, &table) in self.first.iter().enumerate() {
            if table & OFFSET_BITS == 0 {
                continue;
            }
            let begin = number as u64 * per_table * cluster_bytes;
            for offset in (begin..self.bytes.min(begin + per_table * cluster_bytes))
                .step_by(cluster_bytes as usize)
            {
                if self.cluster(offset)? == Cluster::Zero {
                    continue;
                }
                let bytes = cluster_bytes.min(self.bytes - offset);
                match extents.last_mut() {
                    Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
                    _ => extents.push(Extent { offset, bytes }),
                }
            }
        }
        Ok(extents)
    }

    fn cluster(&self, offset: u64) -> io::Result<Cluster> {
        let table_bits = self.cluster_bits - 3;
        let number = offset >> self.cluster_bits;
        let table = self.first[(number >> table_bits) as usize] & OFFSET_BITS;
        if table == 0 {
            return Ok(Cluster::Zero);
        }
        let mut last = self.last.lock();
        if last.table.as_ref().is_none_or(|(at, _)| *at != table) {
            last.table = Some((table, read_table(&self.file, table, 1 << table_bits)?));
        }
        let (_, entries) = last.table.as_ref().expect("it was just read");
        let entry = entries[(number & ((1 << table_bits) - 1)) as usize];
        if entry & COMPRESSED != 0 {
            let offset_bits = 62 - (self.cluster_bits - 8);
            let at = entry & ((1 << offset_bits) - 1);
            let sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
            let bytes = (sectors + 1) * SECTOR_BYTES - at % SECTOR_BYTES;
            return Ok(Cluster::Packed {
                at,
                bytes: bytes as usize,
            });
        }
        Ok(match entry & OFFSET_BITS {
            _ if entry & READS_AS_ZERO != 0 => Cluster::Zero,
            0 => Cluster::Zero,
            at => Cluster::At(at),
        })
    }

    fn read_packed(
        &self,
        at: u64,
        bytes: usize,
        within: usize,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut last = self.last.lock();
        if last.unpacked.as_ref().is_none_or(|(of, _)| *of != at) {
            let mut packed = vec![0; bytes];
            let count = read_full(&self.file, &mut packed, at)?;
            packed.truncate(count);
            let mut cluster = vec![0; 1 << self.cluster_bits];
            match self.packing {
                ClusterPacking::Deflate => {
                    flate2::read::DeflateDecoder::new(&packed[..]).read_exact(&mut cluster)?
                }
                ClusterPacking::Zstd => {
                    unpack(Packing::Zstd, &packed[..]).read_exact(&mut cluster)?
                }
            }
            last.unpacked = Some((at, cluster));
        }
        let (_, cluster) = last.unpacked.as_ref().expect("it was just unpacked");
        buffer.copy_from_slice(&cluster[within..within + buffer.len()]);
        Ok(())
    }
}

impl<F: ReadAt> ReadAt for Qcow2<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let cluster_bytes = 1 << self.cluster_bits;
        let within = offset % cluster_bytes;
        let count = (cluster_bytes - within)
            .min(self.bytes.saturating_sub(offset))
            .min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..count];
        if count == 0 {
            return Ok(0);
        }
        match self.cluster(offset)? {
            Cluster::Zero => buffer.fill(0),
            // The file may end within its last cluster.
            Cluster::At(at) => {
                let read = read_full(&self.file, buffer, at + within)?;
                buffer[read..].fill(0);
            }
            Cluster::Packed { at, bytes } => {
                self.read_packed(at, bytes, within as usize, buffer)?
            }
        }
        Ok(count)
    }
}

fn read_full(file: &impl ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn read_table(file: &impl ReadAt, offset: u64, entries: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; entries * 8];
    if read_full(file, &mut bytes, offset)? < bytes.len() {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "a table of the qcow2 image is not all there",
        ));
    }
    Ok(bytes
        .chunks_exact(8)
        .map(|entry| u64::from_be_bytes(entry.try_into().expect("eight")))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE_GZIP: &[u8] =
        b"\x1f\x8b\x08\0\0\0\0\0\x02\x03K\xccKQ\xc8\xcd/J\x05\0\xdc\x07XZ\x08\0\0\0";
    const MORE_XZ: &[u8] =
        b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01\x1c\0\0\0\x10\xcfX\xcc\x01\0\x07and more\0\xef\
        \xeal\xae\xdc\x03\x8f\x0a\0\x01 \x08\xbb\x19\xd9\xbb\x1f\xb6\xf3}\x01\0\0\0\0\x04YZ";
    const MORE_ZSTD: &[u8] = b"(\xb5/\xfd$\x08A\0\0and more\x07\xb3&\xef";
    /// Outputs of `gzip -9`, `xz -1` and `zstd --check` for [`image`] and for a few words.
    const PACKED: [(Packing, &[u8], &[u8]); 3] = [
        (
            Packing::Gzip,
            include_bytes!("image/packed/image.gz"),
            MORE_GZIP,
        ),
        (
            Packing::Xz,
            include_bytes!("image/packed/image.xz"),
            MORE_XZ,
        ),
        (
            Packing::Zstd,
            include_bytes!("image/packed/image.zst"),
            MORE_ZSTD,
        ),
    ];

    fn image() -> Vec<u8> {
        let byte = |at: u32| match at {
            0..1000 => (at.wrapping_mul(2_654_435_761) >> 24) as u8,
            _ => (at / 50_000 * 97) as u8,
        };
        (0..1_000_000).map(byte).collect()
    }

    #[test]
    fn a_packed_file_unpacks_equal_and_half_of_it_or_a_changed_bit_is_an_error() {
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
            assert!(
                read(&two).is_ok_and(|all| all[bytes.len()..] == *b"and more"),
                "{packing:?}"
            );
            assert!(
                read(&one[..one.len() - 3]).is_err(),
                "{packing:?}: the end is missing"
            );
            let mut changed = one.to_vec();
            changed[one.len() / 2] ^= 4;
            assert!(
                !read(&changed).is_ok_and(|all| all == bytes),
                "{packing:?}: a bit has changed"
            );
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
