//! A simulated disk for tests, which loses what was not synced and can fail at any call.

mod files;
mod walk;
mod world;

pub use files::ModelDirectory;
pub use walk::{Errors, Listing, Walked, walk};
pub use world::{Abilities, Inode, ROOT, World};

use ethbcast_collectives::lock::Mutex;
use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, Result};
use std::sync::Arc;
use world::Change;

#[derive(Clone, Debug, Default)]
pub struct Model(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    durable: World,
    pending: Vec<Change>,
    current: World,
    calls: u32,
    refusal: Option<Refusal>,
    moments: Vec<Moment>,
    remembers: bool,
    moved: bool,
    age_seconds: u64,
    abilities: Abilities,
    loses_after: Option<usize>,
    has_lost: bool,
    reserved: u64,
}

/// A failure of the disk with this error: at one call, or from then on.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    Once(u32, i32),
    From(u32, i32),
}

/// Need of a call that a failing disk may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Reading,
    Writing,
    Room,
}

impl Refusal {
    fn error_of(self, call: u32, need: Need) -> Option<i32> {
        let least = match self {
            Refusal::Once(at, errno) => return (at == call).then_some(errno),
            Refusal::From(_, libc::ENOSPC | libc::EDQUOT) => Need::Room,
            Refusal::From(_, libc::EROFS) => Need::Writing,
            Refusal::From(..) => Need::Reading,
        };
        let Refusal::From(at, errno) = self else {
            return None;
        };
        (at <= call && need >= least).then_some(errno)
    }
}

impl Model {
    pub fn of(world: World) -> Model {
        Model(Arc::new(Mutex::new(State {
            durable: world.clone(),
            current: world,
            ..State::default()
        })))
    }

    pub fn remembering(self) -> Model {
        self.0.lock().remembers = true;
        self
    }

    pub fn failing_at(self, call: u32, errno: i32) -> Model {
        self.refusing(Refusal::Once(call, errno))
    }

    pub fn refusing(self, refusal: Refusal) -> Model {
        self.0.lock().refusal = Some(refusal);
        self
    }

    /// Returns the disk without its failure.
    pub fn recovered(self) -> Model {
        self.0.lock().refusal = None;
        self
    }

    /// Loses the unsynced data after `bytes` written bytes. Only the next sync reports it.
    pub fn losing_after(self, bytes: usize) -> Model {
        self.0.lock().loses_after = Some(bytes);
        self
    }

    pub fn with(self, abilities: &Abilities) -> Model {
        self.0.lock().abilities = abilities.clone();
        self
    }

    pub fn moves(&self) {
        self.0.lock().moved = true;
    }

    pub fn ages(&self, seconds: u64) {
        self.0.lock().age_seconds = seconds;
    }

    pub fn root(&self) -> ModelDirectory {
        ModelDirectory::new(self.clone(), ROOT)
    }

    pub fn durable(&self) -> World {
        self.0.lock().durable.clone().swept()
    }

    pub fn current(&self) -> World {
        self.0.lock().current.clone().swept()
    }

    /// The largest number of bytes reserved for a file.
    pub fn reserved(&self) -> u64 {
        self.0.lock().reserved
    }

    pub fn calls(&self) -> u32 {
        self.0.lock().calls
    }

    /// A hash of everything on which the next run depends.
    fn digest(&self) -> u64 {
        let (state, mut hasher) = (self.0.lock(), DefaultHasher::new());
        for world in [&state.durable, &state.current] {
            world.hash_reached(&state.pending, &mut hasher);
        }
        (&state.pending, state.has_lost).hash(&mut hasher);
        hasher.finish()
    }

    pub fn moments(&self) -> Vec<Moment> {
        self.0.lock().moments.clone()
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock();
        state.call(Need::Reading)?;
        look(&state)
    }

    fn change<T>(
        &self,
        what: impl Display,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        self.change_with(Need::Writing, what, change)
    }

    /// Makes a change that takes up room.
    fn grow<T>(
        &self,
        what: impl Display,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        self.change_with(Need::Room, what, change)
    }

    fn change_with<T>(
        &self,
        need: Need,
        what: impl Display,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.0.lock();
        state.call(need)?;
        let done = change(&mut state)?;
        state.remember(what);
        Ok(done)
    }

    /// Syncs the selected changes. If that fails they are lost, and later syncs succeed.
    fn sync(&self, what: impl Display, mine: impl Fn(&Change) -> bool) -> Result<()> {
        let mut state = self.0.lock();
        let lost = std::mem::take(&mut state.has_lost);
        let failed = state.call(Need::Reading).and(if lost {
            Err(Error::from_raw_os_error(libc::EIO))
        } else {
            Ok(())
        });
        let (synced, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending)
            .into_iter()
            .partition(mine);
        state.pending = pending;
        if failed.is_ok() {
            synced.iter().for_each(|change| state.durable.apply(change));
        } else {
            // The file system retries names; data is marked clean.
            let names: Vec<_> = synced
                .into_iter()
                .filter(|change| change.of_content().is_none())
                .collect();
            state.pending.splice(..0, names);
        }
        state.remember(what);
        failed
    }
}

impl State {
    fn call(&mut self, need: Need) -> Result<()> {
        self.calls += 1;
        let errno = self
            .refusal
            .and_then(|refusal| refusal.error_of(self.calls, need));
        errno.map_or(Ok(()), |errno| Err(Error::from_raw_os_error(errno)))
    }

    fn write_back(&mut self, bytes: usize) {
        self.loses_after = self.loses_after.map(|left| left.saturating_sub(bytes));
        if self.loses_after.take_if(|left| *left == 0).is_some() {
            self.pending.retain(|change| change.of_content().is_none());
            self.has_lost = true;
        }
    }

    fn remember(&mut self, what: impl Display) {
        if self.remembers {
            let after = format!("call {}: {what}", self.calls);
            self.moments.push(Moment {
                durable: self.durable.clone(),
                pending: self.pending.clone(),
                after,
            });
        }
    }

    fn make(&mut self, change: Change) {
        self.current.apply(&change);
        self.pending.push(change);
    }

    fn add(&mut self, inode: Inode) -> u64 {
        let number = self.current.free_number().max(self.durable.free_number());
        self.current.add(number, inode.clone());
        // A nameless inode is not visible.
        self.durable.add(number, inode);
        number
    }
}

#[derive(Clone, Debug)]
pub struct Moment {
    pub durable: World,
    pub pending: Vec<Change>,
    pub after: String,
}

impl Moment {
    /// Returns each different world that a crash at this moment can leave.
    pub fn crashes(&self) -> Vec<World> {
        let (names, data): (Vec<_>, Vec<_>) = self
            .pending
            .iter()
            .partition(|change| change.of_content().is_none());
        let mut worlds = Vec::new();
        for kept in 0..=names.len() {
            for pattern in patterns(&data) {
                let mut world = self.durable.clone();
                pattern.iter().for_each(|change| world.apply(change));
                names[..kept].iter().for_each(|change| world.apply(change));
                worlds.push(world.swept());
            }
        }
        distinct(worlds)
    }

    pub fn kill(&self) -> World {
        let mut world = self.durable.clone();
        self.pending.iter().for_each(|change| world.apply(change));
        world.swept()
    }
}

fn distinct(mut worlds: Vec<World>) -> Vec<World> {
    let mut seen = HashSet::new();
    worlds.retain(|world| seen.insert(world.digest()));
    worlds
}

/// Limit on exhaustively tried combinations of kept writes. Beyond it, only those with one write
/// unlike the others are tried.
const MAX_WAYS: usize = 800;

fn patterns(data: &[&Change]) -> Vec<Vec<Change>> {
    let ways = |change: &Change| {
        let mut ways = vec![None, Some(change.clone())];
        ways.extend(change.torn().map(Some));
        ways
    };
    if data
        .iter()
        .map(|change| ways(change).len())
        .product::<usize>()
        > MAX_WAYS
    {
        return one_unlike_the_others(data);
    }
    data.iter().fold(vec![Vec::new()], |patterns, change| {
        let with = |pattern: &Vec<Change>| {
            let pattern = pattern.clone();
            ways(change)
                .into_iter()
                .map(move |kept| pattern.iter().cloned().chain(kept).collect())
        };
        patterns.iter().flat_map(with).collect()
    })
}

/// Returns all writes, none, all but one, only one, each prefix, and each of these with a torn
/// write.
fn one_unlike_the_others(data: &[&Change]) -> Vec<Vec<Change>> {
    let all = || data.iter().map(|change| (*change).clone());
    let mut patterns = vec![all().collect(), Vec::new()];
    for (at, change) in data.iter().enumerate() {
        for kept in [None, Some((*change).clone()), change.torn()] {
            let (before, behind): (Vec<_>, Vec<_>) =
                (all().take(at).collect(), all().skip(at + 1).collect());
            patterns.push([&before[..], kept.as_slice(), &behind[..]].concat());
            patterns.push([&before[..], kept.as_slice()].concat());
            patterns.push(kept.into_iter().collect());
        }
    }
    patterns
}
