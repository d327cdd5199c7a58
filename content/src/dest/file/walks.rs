//! Walk of receiving a file: new, over an old one, not resumed, and in place.

use super::Resume;
use super::crashes::{CHUNK_BYTES, DEST, content, receive_by, world};
use crate::disk::model::{Abilities, Errors, Inode, Listing, Walked, World, walk};
use crate::journal::Identity;
use std::path::{Path, PathBuf};

struct FileWalk {
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    how: fn(Identity) -> Resume,
    is_in_place: bool,
}

impl FileWalk {
    fn inode(&self) -> Option<u64> {
        self.start().find(0, Path::new(DEST)).ok()
    }

    /// Stands for a file that is neither old nor new and that the next run completes.
    fn broken() -> (PathBuf, Inode) {
        (PathBuf::from("broken"), Inode::Special)
    }
}

impl Walked for FileWalk {
    const DEST: &str = DEST;

    fn start(&self) -> World {
        world(self.old.as_deref())
    }

    fn held(&self) -> Vec<u64> {
        self.inode().into_iter().collect()
    }

    fn moved(&self) -> Vec<u64> {
        self.held()
    }

    fn receive(&self, disk: &crate::disk::model::Model) -> Result<bool, String> {
        receive_by(disk, &self.new, self.how)
            .map(|_| true)
            .map_err(|error| format!("{error:?}"))
    }

    fn found(&self, there: &World, _abilities: &Abilities) -> Listing {
        let aside = self.inode().map(|inode| format!(".nfs{inode}"));
        let file = there.file(DEST).or_else(|| there.file(&aside?));
        let names = there.names(0).expect("a directory");
        let has = |suffix: &str| {
            names
                .keys()
                .any(|name| name.to_string_lossy().ends_with(suffix))
        };
        match file {
            Some(bytes) => vec![(
                DEST.into(),
                Inode::File {
                    bytes: bytes.to_vec(),
                    attributes: String::new(),
                },
            )],
            None if self.is_in_place && has(".part") && has(".journal") => vec![FileWalk::broken()],
            None => Vec::new(),
        }
    }

    fn is_whole(&self, there: &Listing, old: &Listing, new: &Listing) -> bool {
        there == old || there == new || self.is_in_place && *there == [FileWalk::broken()]
    }
}

/// Whether there is an old file, how far the new one is resumed, and whether it is written in
/// place.
type Way = (bool, fn(Identity) -> Resume, bool);

#[test]
fn a_file_is_old_or_new_on_every_file_system_after_a_crash_or_a_refusal_at_any_step() {
    let (old, new) = (content(200, 5), content(100, 6));
    let in_place: fn(Identity) -> Resume = Resume::InPlace;
    let ways: [Way; 4] = [
        (true, Resume::From, false),
        (false, Resume::From, false),
        (true, |_| Resume::Not, false),
        (true, in_place, true),
    ];
    for (is_old_there, how, is_in_place) in ways {
        let old = is_old_there.then(|| old.clone());
        let walked = walk(
            &FileWalk {
                old,
                new: new.clone(),
                how,
                is_in_place,
            },
            Errors::All,
        );
        println!("{walked:?}");
        assert!(
            walked.systems == 64 && walked.crashes > 200 && walked.refusals > 1000,
            "{walked:?}"
        );
        assert!(walked.blocked > 0 || !is_old_there, "{walked:?}");
    }
    assert!(new.len() > 5 * CHUNK_BYTES, "several syncs");
}
