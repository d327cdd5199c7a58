//! The manifest as it arrives. Its buffer is bounded by the announced length, and nothing is
//! decoded before the digest matches.

use crate::manifest::{HEAD_BYTES, Head, Manifest, ManifestError};
use parking_lot::RwLock;

#[derive(Debug, Default)]
pub(super) struct Incoming {
    head: Option<Head>,
    manifest: Option<Manifest>,
}

impl Incoming {
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

    pub(super) fn is_whole(&self) -> bool {
        self.manifest.is_some()
    }

    pub(super) fn take_manifest(&mut self) -> Option<Manifest> {
        self.manifest.take()
    }
}

fn fill<'a>(kept: &mut Vec<u8>, until: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(until - kept.len()));
    kept.extend_from_slice(now);
    later
}
