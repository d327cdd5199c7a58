//! The manifest as it comes: no more of it is kept than it says it has, and nothing is believed before its digest fits.

use crate::manifest::{HEAD_BYTES, Head, Manifest, ManifestError};
use parking_lot::RwLock;

/// A manifest of which a part has come.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    head: Option<Head>,
    manifest: Option<Manifest>,
}

impl Incoming {
    /// Takes what is the manifest's off the bytes and keeps it in `encoded`; what is left are the files'.
    pub(super) fn take<'a>(
        &mut self,
        mut bytes: &'a [u8],
        encoded: &RwLock<Vec<u8>>,
    ) -> Result<&'a [u8], ManifestError> {
        let mut encoded = encoded.write();
        if self.head.is_none() {
            bytes = fill(&mut encoded, HEAD_BYTES, bytes);
            if encoded.len() == HEAD_BYTES {
                self.head = Some(Head::read(encoded[..].try_into().expect("so long"))?);
            }
        }
        if let Some(head) = &self.head {
            let whole = HEAD_BYTES + head.manifest_bytes();
            bytes = fill(&mut encoded, whole, bytes);
            if encoded.len() == whole {
                self.manifest = Some(Manifest::decode(head, &encoded[HEAD_BYTES..])?);
            }
        }
        Ok(bytes)
    }

    /// Whether all of it has come.
    pub(super) fn is_whole(&self) -> bool {
        self.manifest.is_some()
    }

    /// The manifest, once all of it has come.
    pub(super) fn take_manifest(&mut self) -> Option<Manifest> {
        self.manifest.take()
    }
}

/// Appends until `kept` is so long; what is left.
fn fill<'a>(kept: &mut Vec<u8>, until: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(until - kept.len()));
    kept.extend_from_slice(now);
    later
}
