//! Walk along the whole way of a kind of destination, on every combination of file-system
//! abilities, with a crash or a refusal at each step.

use super::world::{Abilities, Inode, ROOT, World};
use super::{Model, ModelDirectory, Moment, Refusal, distinct};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::{is_hidden, remove_stale};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
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

    /// Whether such a file system cannot hold the new content.
    fn is_refused(&self, _abilities: &Abilities) -> bool {
        false
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

/// Errors of a call, the first of which a file system also returns from then on.
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

/// Choice of the errors that a call is refused with, and of the file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// All, on every file system.
    All,
    /// One after the other, and all where nothing is lacking. What cannot differ is left out.
    InTurn,
}

/// Numbers of what was walked.
#[derive(Debug, Default)]
pub struct Walk {
    pub systems: usize,
    /// Systems on which every call has the result that it has on another one.
    pub alike: usize,
    pub crashes: usize,
    pub refusals: usize,
    pub blocked: usize,
}

struct Step<'a, K: Walked> {
    kind: &'a K,
    system: String,
    abilities: Abilities,
    /// Abilities of the file system by the next run.
    later: Abilities,
    start: World,
    old: Listing,
    new: Listing,
    /// States that were judged after a refusal, and those from which the next run delivered.
    judged: RefCell<HashSet<(bool, bool, u64)>>,
    completed: RefCell<HashSet<u64>>,
}

pub fn walk<K: Walked>(kind: &K, errors: Errors) -> Walk {
    let (start, mut walk, mut asked) = (
        with_neighbours(kind.start()),
        Walk::default(),
        BTreeMap::new(),
    );
    let turn = |number| (errors == Errors::InTurn && number > 0).then_some(number);
    for (number, (system, abilities)) in kind.systems().into_iter().enumerate() {
        walk.systems += 1;
        let lacks = abilities.lacks;
        if let Some(asked_there) = alike(&asked, lacks).filter(|_| errors == Errors::InTurn) {
            asked.insert(lacks, asked_there);
            walk.alike += 1;
            continue;
        }
        let is_refused = kind.is_refused(&abilities);
        let later = if is_refused {
            Abilities::default()
        } else {
            abilities.clone()
        };
        let step = Step::new(kind, &start, system, abilities, later);
        assert_eq!(
            step.walk(&mut walk, turn(number)),
            is_refused,
            "{}",
            step.system
        );
        asked.insert(lacks, step.abilities.asked());
    }
    for (number, (system, abilities)) in Abilities::fixed(&kind.moved()).into_iter().enumerate() {
        Step::new(kind, &start, system, abilities, Abilities::default())
            .walk(&mut walk, turn(number + 1));
    }
    walk
}

/// Finds a file system that lacks less, on which nobody asked for the rest: every call has the same
/// result there. Returns what was asked for on it.
fn alike(walked: &BTreeMap<u8, u8>, lacks: u8) -> Option<u8> {
    let is_alike = |(less, asked): &(&u8, &u8)| {
        **less != lacks && *less & !lacks == 0 && lacks & !*less & *asked == 0
    };
    walked.iter().find(is_alike).map(|(_, asked)| *asked)
}

impl<'a, K: Walked> Step<'a, K> {
    fn new(
        kind: &'a K,
        start: &World,
        system: String,
        abilities: Abilities,
        later: Abilities,
    ) -> Self {
        let disk = Model::of(start.clone()).with(&later);
        let is_all = kind
            .receive(&disk)
            .unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(
            is_all || !later.held.is_empty() || later.no_symlinks,
            "{system}"
        );
        let [old, new] = [start, &disk.durable()].map(|world| kind.found(world, &later));
        assert!(old != new, "{system}");
        let (judged, completed) = Default::default();
        Step {
            kind,
            system,
            abilities,
            later,
            start: start.clone(),
            old,
            new,
            judged,
            completed,
        }
    }

    /// Returns whether the old content has to stay.
    fn walk(&self, walk: &mut Walk, turn: Option<usize>) -> bool {
        let disk = Model::of(self.start.clone())
            .with(&self.abilities)
            .remembering();
        let is_blocked = self.kind.receive(&disk).is_err();
        walk.blocked += usize::from(is_blocked);
        walk.crashes += self.crash_at_each(&disk.moments(), is_blocked);
        self.completes(&disk, &self.system);
        walk.refusals += self.refuse_each(disk.calls(), turn);
        is_blocked
    }

    fn crash_at_each(&self, moments: &[Moment], is_blocked: bool) -> usize {
        let (mut seen, mut crashes) = (HashSet::new(), 0);
        for moment in moments {
            for crashed in moment.main_crashes().into_iter().chain([moment.kill()]) {
                let when = || format!("{}, after {}", self.system, moment.after);
                crashes += 1;
                let left = Model::of(crashed);
                if !seen.insert(left.digest()) {
                    continue;
                }
                let crashed = left.current();
                self.assert_whole(&crashed, &when());
                let is_new = self.kind.found(&crashed, &self.abilities) == self.new;
                assert!(!is_blocked || !is_new, "{}: refused, and there", when());
                let aged = Model::of(crashed).with(&self.abilities);
                self.remove_stale(&aged, MONTH_SECONDS);
                self.assert_whole(&aged.current(), &format!("{}, a month later", when()));
                self.completes(&left, &when());
            }
        }
        crashes
    }

    /// Refuses each call once, and each call and those after it, with every error or one in turn.
    fn refuse_each(&self, calls: u32, turn: Option<usize>) -> usize {
        let mut refusals = 0;
        for call in 1..=calls {
            let once = ERRORS.map(|errno| Refusal::Once(call, errno)).to_vec();
            let lasting = ERRORS[..LASTING]
                .iter()
                .map(|errno| Refusal::From(call, *errno))
                .collect();
            for (way, refused) in [once, lasting].into_iter().enumerate() {
                let one = turn.map(|turn| (turn + call as usize + way) % refused.len());
                let chosen = one.map_or(&refused[..], |one| &refused[one..=one]);
                chosen.iter().for_each(|refusal| self.refuse(*refusal));
                refusals += chosen.len();
            }
        }
        refusals
    }

    fn refuse(&self, refusal: Refusal) {
        let disk = Model::of(self.start.clone())
            .with(&self.abilities)
            .refusing(refusal);
        let received = self.kind.receive(&disk);
        if !self
            .judged
            .borrow_mut()
            .insert((received.is_ok(), received == Ok(true), disk.digest()))
        {
            return;
        }
        let when = format!("{}, {refusal:?}", self.system);
        let found = self.kind.found(&disk.current(), &self.abilities);
        // What was left out was named.
        let is_told = received == Ok(false) && found.iter().all(|entry| self.new.contains(entry));
        if !is_told {
            self.assert_whole(&disk.current(), &when);
        }
        if received == Ok(true) {
            let found = self.kind.found(&disk.durable(), &self.abilities);
            assert!(
                found == self.new,
                "{when}: delivered, and not on the disk: {:?}",
                paths(&found)
            );
        }
        self.completes(&disk.recovered(), &when);
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
        assert!(
            self.kind.is_whole(&found, &self.old, &self.new),
            "{when}: {:?}",
            paths(&found)
        );
        assert!(
            outside::<K>(there) == outside::<K>(&self.start),
            "{when}: {:?}",
            paths(&outside::<K>(there))
        );
    }

    /// The next run of a receiver delivers, and leaves nothing hidden.
    #[track_caller]
    fn completes(&self, left: &Model, when: &str) {
        let (disk, abilities) = (left.clone().with(&self.later), &self.later);
        if !self.completed.borrow_mut().insert(disk.digest()) {
            return;
        }
        self.remove_stale(&disk, 0);
        self.kind
            .receive(&disk)
            .unwrap_or_else(|error| panic!("{when}, then: {error}"));
        let found = self.kind.found(&disk.durable(), abilities);
        assert!(found == self.new, "{when}, then: {:?}", paths(&found));
        assert!(
            outside::<K>(&disk.durable()) == outside::<K>(&self.start),
            "{when}, then"
        );
        self.remove_stale(&disk, MONTH_SECONDS);
        let names = disk.root().names().expect("readable");
        assert!(
            !abilities.held.is_empty() || !names.iter().any(|name| is_hidden(name)),
            "{when}, then: {names:?}"
        );
    }
}

/// Adds a file and a directory beside DEST, whose names resemble it.
fn with_neighbours(start: World) -> World {
    let disk = Model::of(start);
    let root = disk.root();
    root.make_directory(Path::new("destination")).expect("room");
    let directory = root.directory(Path::new("destination")).expect("there");
    for (directory, name) in [(&root, "dest2"), (&directory, "dest")] {
        let file = directory
            .create(Path::new(name), COMMON_FILE)
            .expect("a free name");
        file.write_all_at(b"a neighbour's", 0).expect("room");
    }
    root.sync_file_system().expect("room");
    disk.current()
}

fn paths(listing: &Listing) -> Vec<&Path> {
    listing.iter().map(|(path, _)| path.as_path()).collect()
}

fn outside<K: Walked>(world: &World) -> Listing {
    let is_outside = |first: &OsStr| {
        first != K::DEST && !is_hidden(first) && !first.as_bytes().starts_with(b".nfs")
    };
    world
        .listing(ROOT)
        .into_iter()
        .filter(|(path, _)| path.iter().next().is_some_and(is_outside))
        .collect()
}

impl Moment {
    /// Returns the states after each prefix of the changes of names, with all data and with none.
    fn main_crashes(&self) -> Vec<World> {
        let (names, data): (Vec<_>, Vec<_>) = self
            .pending
            .iter()
            .partition(|change| change.of_content().is_none());
        let mut worlds = Vec::new();
        for kept in 0..=names.len() {
            for data in [&data[..], &[]] {
                let mut world = self.durable.clone();
                data.iter()
                    .chain(&names[..kept])
                    .for_each(|change| world.apply(change));
                worlds.push(world.swept());
            }
        }
        distinct(worlds)
    }
}
