//! Partial directories of earlier runs, found by the identity of the offered content.

use super::current::BuiltFiles;
use super::hidden::HiddenTree;
use crate::disk::{Directory, DiskFile};
use crate::hidden_names::{Found, HiddenNames, take_up, take_up_tree};
use crate::journal::{Identity, Journal, JournalError};
use crate::layout::Layout;
use crate::manifest::{HEAD_BYTES, Head, Manifest};
use crate::replay::{Replay, Troubles};
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Leftover<D: Directory> {
    pub hidden: HiddenTree<D>,
    pub journal: Journal<D::File>,
    pub encoded: Arc<Vec<u8>>,
    layout: Arc<Layout>,
}

pub(super) fn names(identity: &Identity) -> HiddenNames {
    HiddenNames::of(&identity.content)
}

impl<D: Directory> Leftover<D> {
    /// Opens the leftover of this content in `holder`. Fails if a newer build left it, or it cannot
    /// be read.
    pub(super) fn find(holder: &D, identity: &Identity) -> io::Result<Found<Leftover<D>>> {
        let names = names(identity);
        let file = match take_up(holder, &names.journal)? {
            Found::Own(file) => file,
            Found::Foreign(name) => return Ok(Found::Foreign(name)),
            Found::Nothing | Found::Busy => {
                let found = take_up_tree(holder, &names.tree)?;
                return Ok(if let Found::Foreign(name) = found { Found::Foreign(name) } else { Found::Nothing });
            }
        };
        let hidden = match HiddenTree::open(holder, names)? {
            Found::Own(hidden) => hidden,
            Found::Nothing => return Ok(Found::Nothing),
            Found::Busy => return Ok(Found::Busy),
            Found::Foreign(name) => return Ok(Found::Foreign(name)),
        };
        file.try_lock();
        let taken_up = Journal::take_up(file);
        // Nothing else can use it, unless a newer build can read it.
        let (journal, recovered) = match taken_up {
            Ok(taken_up) => taken_up,
            Err(JournalError::None) => return Ok(Found::Nothing),
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
        let Some(manifest) = manifest else { return Ok(Found::Nothing) };
        hidden.keep();
        // The page cache may hold bytes that the disk does not.
        hidden.root().sync_file_system()?;
        let layout = Arc::new(Layout::new(manifest, recovered.prologue.len() as u64));
        log::info!("an earlier run left {} bytes of it here: they are checked", recovered.durable.bytes());
        let encoded = Arc::new(recovered.prologue);
        Ok(Found::Own(Leftover { hidden, journal, encoded, layout }))
    }

    fn manifest(encoded: &[u8]) -> Option<Manifest> {
        let head = Head::read(encoded.first_chunk::<HEAD_BYTES>()?).ok()?;
        Manifest::decode(&head, encoded.get(HEAD_BYTES..)?).ok()
    }

    pub(super) fn replay(&self) -> Replay<BuiltFiles<D>> {
        let files = BuiltFiles::new(&self.layout, self.hidden.root(), None);
        Replay::new(Arc::clone(&self.layout), Arc::clone(&self.encoded), Troubles::default(), files)
    }

    pub(super) fn is_in(&self, holder: &D) -> bool {
        holder.is_own(self.hidden.root(), Path::new(self.hidden.name()))
    }
}
