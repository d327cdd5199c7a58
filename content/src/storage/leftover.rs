//! Partial directories of earlier runs, found by the identity of the offered content.

use super::current::BuiltFiles;
use super::hidden::HiddenTree;
use crate::disk::{Directory, DiskFile};
use crate::hidden_names::{HiddenNames, TakenUp, take_up, take_up_tree};
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

impl<D: Directory> Leftover<D> {
    /// Opens the leftover of this content in `holder`. Fails if a newer build left it, or it cannot
    /// be read.
    pub(super) fn find(holder: &D, identity: &Identity) -> io::Result<TakenUp<Leftover<D>>> {
        let names = HiddenNames::of_content(identity);
        let file = match take_up(holder, &names.journal)? {
            TakenUp::Own(file) => file,
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
            TakenUp::Nothing | TakenUp::Busy => {
                let found = take_up_tree(holder, &names.tree)?;
                return Ok(if let TakenUp::Foreign(name) = found { TakenUp::Foreign(name) } else { TakenUp::Nothing });
            }
        };
        let hidden = match HiddenTree::open(holder, names)? {
            TakenUp::Own(hidden) => hidden,
            TakenUp::Nothing => return Ok(TakenUp::Nothing),
            TakenUp::Busy => return Ok(TakenUp::Busy),
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
        };
        file.try_lock();
        let taken_up = Journal::take_up(file);
        // Nothing else can use it, unless a newer build can read it.
        let (journal, recovered) = match taken_up {
            Ok(taken_up) => taken_up,
            Err(JournalError::None) => return Ok(TakenUp::Nothing),
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
        let Some(manifest) = manifest else { return Ok(TakenUp::Nothing) };
        hidden.keep();
        // The page cache may hold bytes that the disk does not.
        hidden.root().sync_file_system()?;
        let layout = Arc::new(Layout::new(manifest, recovered.prologue.len() as u64));
        log::info!("an earlier run left {} bytes of it here: they are checked", recovered.durable.bytes());
        let encoded = Arc::new(recovered.prologue);
        Ok(TakenUp::Own(Leftover { hidden, journal, encoded, layout }))
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
