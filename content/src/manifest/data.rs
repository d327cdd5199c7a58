//! The data of a file: all of it, or only what is no hole.

use super::Fault;

/// A part of a file that is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file it begins.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
}

/// An extent, and where it begins in the file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    at: u64,
    extent: Extent,
}

/// How long a file is, and where it has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileData {
    bytes: u64,
    /// None where all of it is data.
    extents: Option<Box<[Placed]>>,
}

impl FileData {
    /// A file without holes.
    pub fn dense(bytes: u64) -> FileData {
        FileData { bytes, extents: None }
    }

    /// A file of so many bytes, which are zero beside these extents.
    ///
    /// # Errors
    /// If an extent is empty, begins before the end of the one before it, or ends behind the end of the file.
    pub fn sparse(bytes: u64, extents: impl IntoIterator<Item = Extent>) -> Result<FileData, Fault> {
        let (mut placed, mut at, mut end) = (Vec::new(), 0, 0);
        for extent in extents {
            let after = extent.offset.checked_add(extent.bytes).ok_or(Fault::Extents)?;
            if extent.bytes == 0 || extent.offset < end || after > bytes {
                return Err(Fault::Extents);
            }
            placed.push(Placed { at, extent });
            (at, end) = (at + extent.bytes, after);
        }
        Ok(FileData { bytes, extents: Some(placed.into()) })
    }

    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How much of it is data.
    pub fn data_bytes(&self) -> u64 {
        match &self.extents {
            None => self.bytes,
            Some(extents) => extents.last().map_or(0, |last| last.at + last.extent.bytes),
        }
    }

    /// The extents, if there are holes.
    pub fn extents(&self) -> Option<impl ExactSizeIterator<Item = Extent> + '_> {
        Some(self.extents.as_ref()?.iter().map(|placed| placed.extent))
    }

    /// Where in the file its data from `position` on is, as far as that lies together; none behind the end.
    pub fn at(&self, position: u64) -> Option<Extent> {
        let placed = match &self.extents {
            None => Placed { at: 0, extent: Extent { offset: 0, bytes: self.bytes } },
            Some(extents) => extents[extents.partition_point(|placed| placed.at <= position).checked_sub(1)?],
        };
        let into = position - placed.at;
        let bytes = placed.extent.bytes.checked_sub(into).filter(|&bytes| bytes > 0)?;
        Some(Extent { offset: placed.extent.offset + into, bytes })
    }
}
