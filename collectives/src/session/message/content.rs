//! Kind of a session's content.

use crate::membership::codec::{BodyReader, BodyWriter};
use crate::session::verified::ChunkSize;

/// Bits of a mode: permissions, set-user-id, set-group-id and sticky.
const MODE_BITS: u16 = 0o7777;
const STREAM: u8 = 0;
const FILE: u8 = 1;
const TREE: u8 = 2;
const SPARSE: u8 = 3;
const PACKED: u8 = 4;

/// Kind of a session's content, by which a receiver handles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentKind {
    /// Bytes of a pipe or a program.
    #[default]
    Stream,
    /// One file.
    File(FileAttributes),
    /// A directory, encoded by the crate `ethbcast-content`.
    Tree,
    /// One file with holes, encoded by the crate `ethbcast-content`: a map of the data, then the
    /// data.
    Sparse(FileAttributes),
    /// One file that receivers unpack.
    Packed(Packing, FileAttributes),
}

/// Compression format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Gzip, RFC 1952.
    Gzip,
    /// The .xz file format.
    Xz,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Packing {
    const ALL: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// Permissions, set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    /// Modification time in seconds since 1970; negative before.
    pub modified_seconds: i64,
    /// Nanoseconds of the modification time.
    pub modified_nanoseconds: u32,
}

impl ContentKind {
    pub(in crate::session) fn write(self, chunk: ChunkSize, out: &mut BodyWriter) -> &mut BodyWriter {
        let (number, attributes) = match self {
            ContentKind::Stream => (STREAM, None),
            ContentKind::File(attributes) => (FILE, Some(attributes)),
            ContentKind::Tree => (TREE, None),
            ContentKind::Sparse(attributes) => (SPARSE, Some(attributes)),
            ContentKind::Packed(packing, attributes) => (PACKED + packing as u8, Some(attributes)),
        };
        let nothing = FileAttributes { mode: 0, modified_seconds: 0, modified_nanoseconds: 0 };
        let FileAttributes { mode, modified_seconds, modified_nanoseconds } = attributes.unwrap_or(nothing);
        out.u8(number | (chunk.doublings() << 4) as u8).u16(mode).u64(modified_seconds as u64).u32(modified_nanoseconds)
    }

    /// Reads kind and chunk size; `None` if the number is unknown or a value is out of range.
    pub(in crate::session) fn read(from: &mut BodyReader<'_>) -> Option<(ContentKind, ChunkSize)> {
        let (first, mode, modified_seconds) = (from.u8()?, from.u16()?, from.u64()? as i64);
        let modified_nanoseconds = from.u32()?;
        if mode & !MODE_BITS != 0 || modified_nanoseconds >= 1_000_000_000 {
            return None;
        }
        let attributes = FileAttributes { mode, modified_seconds, modified_nanoseconds };
        let kind = match first & 0x0f {
            STREAM => ContentKind::Stream,
            FILE => ContentKind::File(attributes),
            TREE => ContentKind::Tree,
            SPARSE => ContentKind::Sparse(attributes),
            number => ContentKind::Packed(*Packing::ALL.get(usize::from(number - PACKED))?, attributes),
        };
        Some((kind, ChunkSize::of_doublings(first as i8 >> 4)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_is_read_as_it_was_written_and_what_cannot_be_is_refused() {
        let file = FileAttributes { mode: 0o4600, modified_seconds: -7, modified_nanoseconds: 999_999_999 };
        let kinds = [ContentKind::Stream, ContentKind::File(file), ContentKind::Tree, ContentKind::Sparse(file)];
        let packed = Packing::ALL.map(|packing| ContentKind::Packed(packing, file));
        let sizes = [(14, 0xe0), (15, 0xf0), (16, 0), (17, 0x10)];
        for (kind, (log2, first)) in kinds.into_iter().chain(packed).zip(sizes.into_iter().cycle()) {
            let (mut out, chunk) = (BodyWriter::default(), ChunkSize::of_bytes(1 << log2).expect("one of them"));
            kind.write(chunk, &mut out);
            let bytes = out.into_bytes();
            assert_eq!((bytes.len(), bytes[0] & 0xf0), (15, first));
            assert_eq!(ContentKind::read(&mut BodyReader::new(&bytes)), Some((kind, chunk)));
            for (at, wrong) in [(0, 7), (0, 255), (0, 0x21), (0, 0xd1), (0, 0x81), (1, 0x10), (11, 0x3c)] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                assert_eq!(ContentKind::read(&mut BodyReader::new(&bytes)), None, "byte {at} is {wrong}");
            }
        }
    }
}
