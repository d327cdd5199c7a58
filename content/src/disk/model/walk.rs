//! Walk along the whole way of a kind of destination, on every combination of file-system abilities,
//! with a crash or a refusal at each step.

use super::world::{Abilities, Inode, ROOT, World};
use super::{Model, ModelDirectory, Moment, Refusal};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::{is_hidden, remove_stale};
use nix::libc;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub type Listing = Vec<(PathBuf, Inode)>;

/// A kind of destination with old and new content.
pub trait Walked {
    const DEST: &str;

    fn start(&self) -> World;

    /// Returns the file systems to walk on, the one with all abilities first.
    fn systems(&self) -> Vec<(String, Abilities)> {
        Abilities::combinations(self.held())
    }

    /// Returns old files that another process may have open.
    fn held(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Returns old entries that have to move or go.
    fn moved(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Returns the directories in which unfinished content may be.
    fn holders(&self, disk: &Model) -> Vec<ModelDirectory> {
        vec![disk.root()]
    }

    /// Receives the new content. Returns whether nothing of it was left out or left over.
    fn receive(&self, disk: &Model) -> Result<bool, String>;

    /// Returns what a user finds at DEST at last.
    fn found(&self, there: &World, abilities: &Abilities) -> Listing;

    fn is_whole(&self, there: &Listing, old: &Listing, new: &Listing) -> bool {
        there == old || there == new
    }
}

/// Errors of a call, the first half of which a file system also returns from then on.
const ERRORS: [i32; 12] = [
    libc::EIO,
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EROFS,
    libc::EXDEV,
    libc::EBUSY,
    libc::EACCES,
    libc::EPERM,
    libc::EINVAL,
    libc::EOPNOTSUPP,
    libc::ENOTEMPTY,
    libc::ESTALE,
];
const LASTING: usize = 4;
const MONTH_SECONDS: u64 = 30 * 86_400;

/// Numbers of what was walked.
#[derive(Debug, Default)]
pub struct Walk {
    pub systems: usize,
    pub crashes: usize,
    pub refusals: usize,
    pub blocked: usize,
}

struct Step<'a, K: Walked> {
    kind: &'a K,
    system: String,
    abilities: Abilities,
    start: World,
    old: Listing,
    new: Listing,
}

pub fn walk<K: Walked>(kind: &K) -> Walk {
    let (start, mut walk) = (with_neighbours(kind.start()), Walk::default());
    for (number, (system, abilities)) in kind.systems().into_iter().enumerate() {
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        let is_all = kind.receive(&disk).unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(is_all || !abilities.held.is_empty() || abilities.no_symlinks, "{system}");
        let [old, new] = [&start, &disk.durable()].map(|world| kind.found(world, &abilities));
        assert!(old != new, "{system}");
        let step = Step { kind, system, abilities, start: start.clone(), old, new };
        walk.systems += 1;
        walk.crashes += step.crash_at_each(&disk.moments());
        walk.refusals += step.refuse_each(disk.calls(), number);
    }
    for (system, abilities) in Abilities::fixed(&kind.moved()) {
        let disk = Model::of(start.clone());
        kind.receive(&disk).expect("nothing is fixed there");
        let [old, new] = [&start, &disk.durable()].map(|world| kind.found(world, &Abilities::default()));
        let step = Step { kind, system, abilities, start: start.clone(), old, new };
        walk.blocked += step.is_blocked();
    }
    walk
}

impl<K: Walked> Step<'_, K> {
    fn crash_at_each(&self, moments: &[Moment]) -> usize {
        let (mut seen, mut crashes) = (HashSet::new(), 0);
        for moment in moments {
            for crashed in moment.main_crashes() {
                let when = format!("{}, after {}", self.system, moment.after);
                crashes += 1;
                self.assert_whole(&crashed, &when);
                let mut hasher = DefaultHasher::new();
                crashed.hash(&mut hasher);
                if seen.insert(hasher.finish()) {
                    let aged = Model::of(crashed.clone()).with(&self.abilities);
                    self.remove_stale(&aged, MONTH_SECONDS);
                    self.assert_whole(&aged.current(), &format!("{when}, a month later"));
                    self.completes(&Model::of(crashed), &when);
                }
            }
        }
        crashes
    }

    /// Refuses each call once, and each call and those after it. Without a lack of abilities, with
    /// every error; else with one error each.
    fn refuse_each(&self, calls: u32, number: usize) -> usize {
        let mut refusals = 0;
        for call in 1..=calls {
            let once = ERRORS.map(|errno| Refusal::Once(call, errno)).to_vec();
            let lasting = ERRORS[..LASTING].iter().map(|errno| Refusal::From(call, *errno)).collect();
            for (turn, ways) in [once, lasting].into_iter().enumerate() {
                let one = (number + call as usize + turn) % ways.len();
                let chosen = if number == 0 { &ways[..] } else { &ways[one..=one] };
                for refusal in chosen {
                    refusals += 1;
                    self.refuse(*refusal);
                }
            }
        }
        refusals
    }

    fn refuse(&self, refusal: Refusal) {
        let when = format!("{}, {refusal:?}", self.system);
        let disk = Model::of(self.start.clone()).with(&self.abilities).refusing(refusal);
        let received = self.kind.receive(&disk);
        let found = self.kind.found(&disk.current(), &self.abilities);
        // What was left out was named.
        let is_told = received == Ok(false) && found.iter().all(|entry| self.new.contains(entry));
        if !is_told {
            self.assert_whole(&disk.current(), &when);
        }
        if received == Ok(true) {
            let found = self.kind.found(&disk.durable(), &self.abilities);
            assert!(found == self.new, "{when}: delivered, and not on the disk: {:?}", paths(&found));
        }
        self.completes(&disk.recovered(), &when);
    }

    /// Receives where the entry that has to move is a mount, on another layer, or another user's: the old one stays.
    fn is_blocked(&self) -> usize {
        let disk = Model::of(self.start.clone()).with(&self.abilities).remembering();
        let is_refused = self.kind.receive(&disk).is_err();
        for moment in disk.moments() {
            let when = format!("{}, after {}", self.system, moment.after);
            for crashed in moment.main_crashes().into_iter().chain([moment.kill()]) {
                self.assert_whole(&crashed, &when);
                let there = self.kind.found(&crashed, &self.abilities);
                assert!(!is_refused || there != self.new, "{when}: refused, and there");
            }
        }
        self.completes_with(&disk, &Abilities::default(), &self.system);
        usize::from(is_refused)
    }

    fn remove_stale(&self, disk: &Model, age_seconds: u64) {
        disk.ages(age_seconds);
        for holder in self.kind.holders(disk) {
            remove_stale(&holder);
        }
    }

    #[track_caller]
    fn assert_whole(&self, there: &World, when: &str) {
        let found = self.kind.found(there, &self.abilities);
        assert!(self.kind.is_whole(&found, &self.old, &self.new), "{when}: {:?}", paths(&found));
        assert!(outside::<K>(there) == outside::<K>(&self.start), "{when}: {:?}", paths(&outside::<K>(there)));
    }

    #[track_caller]
    fn completes(&self, left: &Model, when: &str) {
        self.completes_with(left, &self.abilities, when);
    }

    /// The next run of a receiver delivers, and leaves nothing hidden.
    #[track_caller]
    fn completes_with(&self, left: &Model, abilities: &Abilities, when: &str) {
        let disk = left.clone().with(abilities);
        self.remove_stale(&disk, 0);
        self.kind.receive(&disk).unwrap_or_else(|error| panic!("{when}, then: {error}"));
        let found = self.kind.found(&disk.durable(), abilities);
        assert!(found == self.new, "{when}, then: {:?}", paths(&found));
        assert!(outside::<K>(&disk.durable()) == outside::<K>(&self.start), "{when}, then");
        self.remove_stale(&disk, MONTH_SECONDS);
        let names = disk.root().names().expect("readable");
        assert!(!abilities.held.is_empty() || !names.iter().any(|name| is_hidden(name)), "{when}, then: {names:?}");
    }
}

/// Adds a file and a directory beside DEST, whose names resemble it.
fn with_neighbours(start: World) -> World {
    let disk = Model::of(start);
    let root = disk.root();
    root.make_directory(Path::new("destination")).expect("room");
    let directory = root.directory(Path::new("destination")).expect("there");
    for (directory, name) in [(&root, "dest2"), (&directory, "dest")] {
        let file = directory.create(Path::new(name), COMMON_FILE).expect("a free name");
        file.write_all_at(b"a neighbour's", 0).expect("room");
    }
    root.sync_file_system().expect("room");
    disk.current()
}

fn paths(listing: &Listing) -> Vec<&Path> {
    listing.iter().map(|(path, _)| path.as_path()).collect()
}

fn outside<K: Walked>(world: &World) -> Listing {
    let is_outside = |first: &OsStr| first != K::DEST && !is_hidden(first) && !first.as_bytes().starts_with(b".nfs");
    world.listing(ROOT).into_iter().filter(|(path, _)| path.iter().next().is_some_and(is_outside)).collect()
}

impl Moment {
    /// Returns the states after each prefix of the changes of names, with all data and with none.
    fn main_crashes(&self) -> BTreeSet<World> {
        let (names, data): (Vec<_>, Vec<_>) = self.pending.iter().partition(|change| change.of_content().is_none());
        let mut worlds = BTreeSet::new();
        for kept in 0..=names.len() {
            for data in [&data[..], &[]] {
                let mut world = self.durable.clone();
                data.iter().chain(&names[..kept]).for_each(|change| world.apply(change));
                worlds.insert(world.swept());
            }
        }
        worlds
    }
}
