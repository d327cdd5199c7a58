//! The extents of a file's data.

use super::Fault;

/// A contiguous part of a file that is not a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Length, in bytes.
    pub bytes: u64,
}

/// An extent and its position in the file's data without holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    at: u64,
    extent: Extent,
}

/// The length of a file and the extents of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileData {
    bytes: u64,
    extents: Option<Box<[Placed]>>,
}

impl FileData {
    /// Creates the data of a file without holes.
    pub fn dense(bytes: u64) -> FileData {
        FileData { bytes, extents: None }
    }

    /// Creates the data of a file of `bytes` bytes that is zero outside `extents`.
    ///
    /// # Errors
    /// If an extent is empty, begins before the end of the one before it, or ends behind the end of
    /// the file.
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

    /// The length of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length of the data without holes, in bytes.
    pub fn data_bytes(&self) -> u64 {
        match &self.extents {
            None => self.bytes,
            Some(extents) => extents.last().map_or(0, |last| last.at + last.extent.bytes),
        }
    }

    /// Returns the extents if the file has holes.
    pub fn extents(&self) -> Option<impl ExactSizeIterator<Item = Extent> + '_> {
        Some(self.extents.as_ref()?.iter().map(|placed| placed.extent))
    }

    /// Returns the extent in the file that begins at `position` of the data without holes, or none
    /// behind the end.
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
