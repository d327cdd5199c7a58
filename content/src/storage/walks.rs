//! Walk of receiving a directory: new, over an old or an empty one, and in place.

use super::crashes::{DEST, build_in, dest, manifest, old_world, stream};
use super::in_place::otherwise;
use super::place::{Place, Target};
use super::replacing::{inode, old};
use crate::disk::Directory;
use crate::disk::model::{
    Abilities, Errors, Inode, Listing, Model, ModelDirectory, ROOT, Walked, World, walk,
};
use crate::hidden_names::{is_hidden, remove_stale};
use crate::manifest::{Attributes, Builder, Entry, FileData, Node};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Whole,
    InPlace { delete: bool },
}

struct TreeWalk {
    start: World,
    stream: Vec<u8>,
    /// Whether some file systems refuse a name that comes, or confuse it with another.
    is_odd: bool,
    way: Way,
    held: &'static [&'static str],
    moved: &'static [&'static str],
}

impl TreeWalk {
    fn inodes(&self, paths: &[&str]) -> Vec<u64> {
        paths.iter().map(|path| inode(&self.start, path)).collect()
    }
}

impl Walked for TreeWalk {
    const DEST: &str = DEST;

    fn start(&self) -> World {
        self.start.clone()
    }

    fn held(&self) -> Vec<u64> {
        self.inodes(self.held)
    }

    fn moved(&self) -> Vec<u64> {
        self.inodes(self.moved)
    }

    fn is_refused(&self, abilities: &Abilities) -> bool {
        self.is_odd && (abilities.folds_case || abilities.no_colons)
    }

    fn holders(&self, disk: &Model) -> Vec<ModelDirectory> {
        let dest = disk
            .root()
            .directory(Path::new(DEST))
            .ok()
            .filter(|_| self.way != Way::Whole);
        [disk.root()].into_iter().chain(dest).collect()
    }

    fn receive(&self, disk: &Model) -> Result<bool, String> {
        let root = disk.root();
        let (holder, name, target) = match self.way {
            Way::Whole => (
                Ok(root),
                Some(DEST.into()),
                Target {
                    replace: true,
                    ..Target::default()
                },
            ),
            Way::InPlace { delete } => (
                root.directory(Path::new(DEST)),
                None,
                Target {
                    in_place: true,
                    delete,
                    ..Target::default()
                },
            ),
        };
        let holder = holder.map_err(|error| error.to_string())?;
        let target = Target {
            dest: DEST.into(),
            ..target
        };
        if self.is_odd {
            let holder = holder.try_clone().map_err(|error| error.to_string())?;
            let place = Place::named(holder, PathBuf::from("/"), name.clone(), target.clone());
            place
                .check_names(&manifest(&self.stream).0)
                .map_err(|error| error.to_string())?;
        }
        let (work, _) =
            build_in(holder, name, target, &self.stream).map_err(|error| error.to_string())?;
        let published = work.publish().map_err(|error| error.to_string())?;
        Ok(published.lost.is_empty() && published.remains.is_empty() && published.lacks.is_empty())
    }

    fn found(&self, there: &World, abilities: &Abilities) -> Listing {
        let disk = Model::of(there.clone()).with(abilities);
        for holder in self.holders(&disk) {
            remove_stale(&holder);
        }
        let now = disk.current();
        let shown = dest(&now)
            .into_iter()
            .filter(|(path, _)| !path.iter().any(is_unseen));
        let mut shown: BTreeMap<_, _> = shown
            .map(|(path, inode)| (path, without_attributes(inode)))
            .collect();
        // An old entry under a hidden name, for which nothing has come yet, has its old place.
        let (before, now) = (numbered(&self.start), numbered(&now));
        for (path, number) in before {
            let parent = path.parent().and_then(|parent| shown.get(parent));
            let has_place = path.components().count() == 1 || parent == Some(&World::directory());
            if let Some(inode) = now
                .iter()
                .find(|(_, one)| **one == number)
                .map(|_| disk.current().inode(number).clone())
                && has_place
            {
                shown.entry(path).or_insert(without_attributes(inode));
            }
        }
        shown.into_iter().collect()
    }

    fn is_whole(&self, there: &Listing, old: &Listing, new: &Listing) -> bool {
        let Way::InPlace { delete } = self.way else {
            return there == old || there == new;
        };
        let [there, old, new] =
            [there, old, new].map(|listing| BTreeMap::from_iter(listing.clone()));
        let is_new = |path: &Path| {
            there
                .get(path)
                .is_some_and(|one| new.get(path) == Some(one))
        };
        let are_all_new = new.keys().all(|path| is_new(path));
        let is_replaced = |path: &Path| path.ancestors().any(&is_new);
        let is_kept = |(path, one): (&PathBuf, &Inode)| {
            there.get(path) == Some(one) || is_replaced(path) || delete && are_all_new
        };
        let is_known = |(path, one): (&PathBuf, &Inode)| {
            old.get(path) == Some(one) || new.get(path) == Some(one)
        };
        old.iter().all(is_kept) && there.iter().all(is_known)
    }
}

fn is_unseen(name: &OsStr) -> bool {
    is_hidden(name) || name.as_bytes().starts_with(b".nfs")
}

/// Paths in DEST with the numbers of their inodes, parents first.
fn numbered(world: &World) -> BTreeMap<PathBuf, u64> {
    let at = |path: &Path| {
        world
            .find(ROOT, &Path::new(DEST).join(path))
            .expect("it is listed")
    };
    dest(world)
        .into_iter()
        .map(|(path, _)| (path.clone(), at(&path)))
        .collect()
}

/// Attributes of directories are set last, and those of files are tried elsewhere.
fn without_attributes(inode: Inode) -> Inode {
    match inode {
        Inode::File { bytes, .. } => Inode::File {
            bytes,
            attributes: String::new(),
        },
        Inode::Directory { .. } => World::directory(),
        other => other,
    }
}

/// A directory in which one name has a colon, and two differ in case alone.
fn odd_stream() -> Vec<u8> {
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: &[u8], node| {
        let attributes = Attributes {
            mode: 0o755,
            ..Attributes::default()
        };
        builder
            .add(Entry {
                parent,
                name: name.into(),
                attributes,
                node,
            })
            .expect("it can be");
    };
    add(None, b"", Node::Directory);
    for name in [&b"README"[..], b"Readme", b"at 9:30"] {
        add(Some(0), name, Node::File(FileData::dense(1)));
    }
    [
        &builder.finish().expect("a directory").encode()[..],
        b"a\0b\0c\0",
    ]
    .concat()
}

fn replaced() -> TreeWalk {
    let held = &["dest/a", "dest/mnt/precious"];
    TreeWalk {
        start: old(),
        stream: stream(71),
        is_odd: false,
        way: Way::Whole,
        held,
        moved: &["dest"],
    }
}

fn new() -> [TreeWalk; 2] {
    let empty = Model::default();
    empty
        .root()
        .make_directory(Path::new(DEST))
        .and_then(|()| empty.root().sync_file_system())
        .expect("room");
    let none = TreeWalk {
        start: World::default(),
        held: &[],
        moved: &[],
        ..replaced()
    };
    [
        none,
        TreeWalk {
            start: empty.current(),
            held: &[],
            ..replaced()
        },
    ]
}

fn in_place() -> [TreeWalk; 2] {
    let (held, moved) = (&["dest/a", "dest/only the old one has it"], &["dest/a"]);
    let added = TreeWalk {
        start: old_world(),
        way: Way::InPlace { delete: false },
        held,
        moved,
        ..replaced()
    };
    let (held, moved) = (&["dest/a/below", "dest/d"], &["dest/a", "dest/d"]);
    [
        added,
        TreeWalk {
            start: otherwise(),
            way: Way::InPlace { delete: true },
            held,
            moved,
            ..replaced()
        },
    ]
}

fn odd() -> [TreeWalk; 2] {
    let odd = || TreeWalk {
        stream: odd_stream(),
        is_odd: true,
        held: &[],
        moved: &[],
        ..replaced()
    };
    [
        odd(),
        TreeWalk {
            way: Way::InPlace { delete: true },
            ..odd()
        },
    ]
}

fn walk_all(walks: impl IntoIterator<Item = TreeWalk>, errors: Errors) {
    for kind in walks {
        let walked = walk(&kind, errors);
        println!("{:?}: {walked:?}", kind.way);
        assert!(
            walked.systems == 64 && walked.crashes > 400 && walked.refusals > 1000,
            "{walked:?}"
        );
        assert!(walked.blocked > 0 || kind.moved.is_empty(), "{walked:?}");
    }
}

#[test]
fn a_replaced_directory_is_old_or_new_on_every_file_system_after_a_crash_or_a_refusal_at_any_step()
{
    walk_all([replaced()], Errors::InTurn);
}

#[test]
fn a_new_directory_is_there_whole_or_not_at_all_after_a_crash_or_a_refusal_at_any_step() {
    walk_all(new(), Errors::InTurn);
}

#[test]
fn each_file_of_a_directory_in_place_is_old_or_new_after_a_crash_or_a_refusal_at_any_step() {
    walk_all(in_place(), Errors::InTurn);
}

#[test]
fn a_directory_with_names_that_a_file_system_refuses_or_confuses_changes_nothing_there_and_arrives_elsewhere()
 {
    walk_all(odd(), Errors::InTurn);
}

mod full {
    use super::*;

    #[test]
    fn every_error_of_every_call_on_every_file_system_leaves_the_old_or_the_new() {
        walk_all(
            [replaced()]
                .into_iter()
                .chain(new())
                .chain(in_place())
                .chain(odd()),
            Errors::All,
        );
    }
}
