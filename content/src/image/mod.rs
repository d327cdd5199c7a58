//! Images that stand packed in a file: what they are, told by their first bytes, and how they are unpacked.

mod packed;
mod qcow2;

pub use packed::unpack;
pub use qcow2::{Qcow2, Qcow2Error};

use ethbcast_collectives::session::Packing;

/// Bytes that tell what a file is.
pub const MAGIC_BYTES: usize = 6;

/// What the first bytes of a file say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// A stream that is unpacked from its beginning to its end.
    Packed(Packing),
    /// A virtual machine's disk, of which only what is in use stands in the file, in any order.
    Qcow2,
}

impl ImageFormat {
    /// What a file is that begins so; none if it is what it is.
    pub fn of(magic: &[u8]) -> Option<ImageFormat> {
        Some(match magic {
            [0x1f, 0x8b, 8, ..] => ImageFormat::Packed(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ImageFormat::Packed(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => ImageFormat::Packed(Packing::Zstd),
            [b'Q', b'F', b'I', 0xfb, ..] => ImageFormat::Qcow2,
            _ => return None,
        })
    }

    /// Its name for people.
    pub fn word(self) -> &'static str {
        match self {
            ImageFormat::Packed(packing) => packing.word(),
            ImageFormat::Qcow2 => "qcow2",
        }
    }

    /// What is unpacked from a file of this name is called.
    pub fn unpacked_name(self, name: &str) -> &str {
        let ending = match self {
            ImageFormat::Packed(Packing::Gzip) => ".gz",
            ImageFormat::Packed(Packing::Xz) => ".xz",
            ImageFormat::Packed(Packing::Zstd) => ".zst",
            ImageFormat::Qcow2 => ".qcow2",
        };
        name.strip_suffix(ending).filter(|name| !name.is_empty()).unwrap_or(name)
    }
}
