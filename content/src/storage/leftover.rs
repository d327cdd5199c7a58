//! What an earlier run built of a directory, found by what is offered again.

use super::current::BuiltFiles;
use super::hidden::Hidden;
use crate::disk::Directory;
use crate::hidden_names::HiddenNames;
use crate::journal::{Identity, Journal, JournalError};
use crate::layout::Layout;
use crate::manifest::{HEAD_BYTES, Head, Manifest};
use crate::replay::{Replay, Troubles};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A directory that was built in part, and its journal.
#[derive(Debug)]
pub(super) struct Leftover<D: Directory> {
    /// Where it is.
    pub hidden: Hidden<D>,
    /// What is said of it.
    pub journal: Journal<D::File>,
    /// Its encoded manifest.
    pub encoded: Arc<Vec<u8>>,
    layout: Arc<Layout>,
}

/// The hidden names of a directory that is received.
pub(super) fn names(identity: &Identity) -> HiddenNames {
    HiddenNames::of(&identity.content)
}

impl<D: Directory> Leftover<D> {
    /// What is left in `holder` of this content, if another process does not have it.
    ///
    /// # Errors
    /// If another build left it, or it cannot be read.
    pub(super) fn find(holder: &D, identity: &Identity) -> io::Result<Option<Leftover<D>>> {
        let names = names(identity);
        let file = match holder.take_up(&names.journal) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            there => there?,
        };
        let Some(hidden) = Hidden::open(holder, names)? else { return Ok(None) };
        let taken_up = Journal::take_up(file);
        // Whatever it is, it is no use to anybody else; unless a newer build can read it.
        let (journal, recovered) = match taken_up {
            Ok(taken_up) => taken_up,
            Err(JournalError::None) => return Ok(None),
            Err(JournalError::Newer(version)) => {
                hidden.keep();
                return Err(crate::journal::newer(version));
            }
            Err(JournalError::System(error)) => {
                hidden.keep();
                return Err(error);
            }
        };
        let manifest = Leftover::<D>::manifest(&recovered.prologue).filter(|_| recovered.identity.is_of_same(identity));
        let Some(manifest) = manifest else { return Ok(None) };
        hidden.keep();
        // What memory has of it may be what the disk does not.
        hidden.root().sync_file_system()?;
        let layout = Arc::new(Layout::new(manifest, recovered.prologue.len() as u64));
        log::info!("an earlier run left {} bytes of it here: they are checked", recovered.durable.bytes());
        let encoded = Arc::new(recovered.prologue);
        Ok(Some(Leftover { hidden, journal, encoded, layout }))
    }

    fn manifest(encoded: &[u8]) -> Option<Manifest> {
        let head = Head::read(encoded.first_chunk::<HEAD_BYTES>()?).ok()?;
        Manifest::decode(&head, encoded.get(HEAD_BYTES..)?).ok()
    }

    /// The stream as far as it was built.
    pub(super) fn replay(&self) -> Replay<BuiltFiles<D>> {
        let files = BuiltFiles::new(&self.layout, self.hidden.root(), None);
        Replay::new(Arc::clone(&self.layout), Arc::clone(&self.encoded), Troubles::default(), files)
    }

    /// Whether it is in this directory, under its own name.
    pub(super) fn is_in(&self, holder: &D) -> bool {
        holder.is_own(self.hidden.root(), Path::new(self.hidden.name()))
    }
}
