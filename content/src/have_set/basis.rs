//! A basis: data on this host that resembles the incoming content, usually an older version.

use crate::source::{Selection, Tree, extents_of};
use crate::sparse::{Map, SparseStream};
use ethbcast_collectives::session::live::ReadAt;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reason why a path cannot be a basis.
#[derive(Debug, thiserror::Error)]
pub enum BasisError {
    /// The path cannot be opened.
    #[error("cannot read the basis {}: {error}; give --basis what is there, or leave it out", .path.display())]
    Unreadable {
        /// Path of the basis.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The path is not a file, block device or directory.
    #[error("the basis {path} is no file, block device or directory: give --basis one", path = .path.display())]
    NoPositions {
        /// Path of the basis.
        path: PathBuf,
    },
}

/// Readable bytes that may change at any time, as all that is found in them is verified.
pub(super) struct Basis {
    content: Box<dyn ReadAt>,
    bytes: u64,
    /// The underlying file while its holes may still be left out.
    file: Option<File>,
}

impl Debug for Basis {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Basis").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Basis {
    pub(super) fn open(path: &Path) -> Result<Basis, BasisError> {
        let unreadable = |error| BasisError::Unreadable { path: path.to_owned(), error };
        let kind = path.metadata().map_err(unreadable)?.file_type();
        if kind.is_dir() {
            // Listed as a sender would list it, so that equal data is at equal or nearby offsets.
            let selection = Selection { one_file_system: true, ..Selection::default() };
            let tree = Tree::list(&[path.join("")], &selection)
                .map_err(|error| unreadable(io::Error::other(error.to_string())))?;
            return Ok(Basis { bytes: tree.bytes(), content: Box::new(tree.again()), file: None });
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BasisError::NoPositions { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let again = file.try_clone().ok().filter(|_| kind.is_file());
        Ok(Basis { bytes, content: Box::new(file), file: again })
    }

    /// Presents a file with holes as a sender would send it, for an incoming file with holes.
    pub(super) fn leave_out_holes(&mut self) {
        let Some(file) = self.file.take() else { return };
        let map = extents_of(&file, self.bytes).and_then(|extents| Map::new(self.bytes, extents).ok());
        if let Some(map) = map {
            self.bytes = map.stream_bytes();
            self.content = Box::new(SparseStream::new(Arc::new(map), file));
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `to` from `offset` on; false at the end of the basis or after an error.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        read_exactly(&*self.content, offset, to)
    }

    pub(super) fn read_through(&self, part_bytes: usize, mut take: impl FnMut(&[u8])) {
        let mut buffer = vec![0; part_bytes];
        let mut at = 0;
        while at < self.bytes {
            match self.content.read_at(&mut buffer, at) {
                Ok(0) => break,
                Ok(count) => {
                    take(&buffer[..count]);
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    log::warn!("a basis cannot be read from byte {at} on ({error}): what is behind is not used");
                    break;
                }
            }
        }
    }
}

pub(super) fn read_exactly(from: &dyn ReadAt, offset: u64, to: &mut [u8]) -> bool {
    let mut read = 0;
    while read < to.len() {
        match from.read_at(&mut to[read..], offset + read as u64) {
            Ok(0) => return false,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
