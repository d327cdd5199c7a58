//! Reader of qcow2 images as the raw disk that they describe.
//!
//! The format is that of QEMU's docs/interop/qcow2.txt, versions 2 and 3. The existing crate brings
//! its own file access and a second deflate, and cannot read zstd clusters; only two levels of
//! tables are needed here. Images with a backing or external data file, encryption or unknown
//! features are refused by name.

use crate::manifest::Extent;
use ethbcast_collectives::session::Packing;
use ethbcast_collectives::session::live::ReadAt;
use parking_lot::Mutex;
use std::io::{self, ErrorKind, Read};

const HEAD_BYTES: usize = 105;
const OFFSET_BITS: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const READS_AS_ZERO: u64 = 1;
/// Limit on the first-level table in bytes: that of 2 PiB in clusters of 64 KiB.
const MAX_TABLE_BYTES: u64 = 32 << 20;
const SECTOR_BYTES: u64 = 512;

/// Reason why a qcow2 image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Qcow2Error {
    /// The image is damaged, or not a qcow2 image.
    #[error("it is no sound qcow2 image: {0}; check it with `qemu-img check`")]
    Unsound(&'static str),
    /// The image needs another file or an unsupported feature.
    #[error("{0}; make it one raw file before, `qemu-img convert -O raw`")]
    Beyond(&'static str),
    /// A read error.
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
            (u64_at(8) != 0, "it stands on another image (a backing file)"),
            (u32_at(32) != 0, "it is encrypted"),
            (features & 1 << 1 != 0, "it is marked as corrupt"),
            (features & 1 << 2 != 0, "its data stands in another file"),
            (features & 1 << 4 != 0, "it has subclusters"),
            (features & !0b11111 != 0, "it has a feature that is not known"),
        ];
        if let Some((_, text)) = refusals.into_iter().find(|(is_so, _)| *is_so) {
            return Err(Qcow2Error::Beyond(text));
        }
        let packing = match if features & 1 << 3 != 0 && u32_at(100) > 104 { head[104] } else { 0 } {
            0 => ClusterPacking::Deflate,
            1 => ClusterPacking::Zstd,
            _ => return Err(Qcow2Error::Beyond("its clusters are packed in a way that is not known")),
        };
        if !(9..=21).contains(&cluster_bits) || bytes > i64::MAX as u64 {
            return Err(Qcow2Error::Unsound("its sizes"));
        }
        let entries = bytes.div_ceil(1 << (2 * cluster_bits - 3));
        if u64::from(u32_at(36)) < entries || entries * 8 > MAX_TABLE_BYTES {
            return Err(Qcow2Error::Unsound("its first table"));
        }
        let first = read_table(&file, u64_at(40), entries as usize)?;
        Ok(Qcow2 { file, bytes, cluster_bits, packing, first, last: Mutex::default() })
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
            for offset in (begin..self.bytes.min(begin + per_table * cluster_bytes)).step_by(cluster_bytes as usize) {
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
            return Ok(Cluster::Packed { at, bytes: bytes as usize });
        }
        Ok(match entry & OFFSET_BITS {
            _ if entry & READS_AS_ZERO != 0 => Cluster::Zero,
            0 => Cluster::Zero,
            at => Cluster::At(at),
        })
    }

    fn read_packed(&self, at: u64, bytes: usize, within: usize, buffer: &mut [u8]) -> io::Result<()> {
        let mut last = self.last.lock();
        if last.unpacked.as_ref().is_none_or(|(of, _)| *of != at) {
            let mut packed = vec![0; bytes];
            let count = read_full(&self.file, &mut packed, at)?;
            packed.truncate(count);
            let mut cluster = vec![0; 1 << self.cluster_bits];
            match self.packing {
                ClusterPacking::Deflate => flate2::read::DeflateDecoder::new(&packed[..]).read_exact(&mut cluster)?,
                ClusterPacking::Zstd => super::unpack(Packing::Zstd, &packed[..]).read_exact(&mut cluster)?,
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
        let count = (cluster_bytes - within).min(self.bytes.saturating_sub(offset)).min(buffer.len() as u64) as usize;
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
            Cluster::Packed { at, bytes } => self.read_packed(at, bytes, within as usize, buffer)?,
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
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "a table of the qcow2 image is not all there"));
    }
    Ok(bytes.chunks_exact(8).map(|entry| u64::from_be_bytes(entry.try_into().expect("eight"))).collect())
}
