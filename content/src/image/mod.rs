//! Compressed and virtual-machine images: detection by their first bytes, and decompression.

mod packed;
mod qcow2;

pub use packed::unpack;
pub use qcow2::{Qcow2, Qcow2Error};

use ethbcast_collectives::session::Packing;

/// Bytes needed to detect the format.
pub const MAGIC_BYTES: usize = 6;

/// Format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// A compressed stream.
    Packed(Packing),
    /// A virtual machine's disk with its used clusters in any order.
    Qcow2,
}

impl ImageFormat {
    /// Detects the format by the first bytes of a file; none for a plain file.
    pub fn of(magic: &[u8]) -> Option<ImageFormat> {
        Some(match magic {
            [0x1f, 0x8b, 8, ..] => ImageFormat::Packed(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ImageFormat::Packed(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => ImageFormat::Packed(Packing::Zstd),
            [b'Q', b'F', b'I', 0xfb, ..] => ImageFormat::Qcow2,
            _ => return None,
        })
    }

    /// Returns the format's name for display.
    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Packed(packing) => packing.name(),
            ImageFormat::Qcow2 => "qcow2",
        }
    }

    /// Returns the file name without the suffix of the format.
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
