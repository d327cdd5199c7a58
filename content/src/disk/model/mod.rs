//! A disk in memory, which forgets what was not synced, and fails at any call.

mod abilities;
mod crash;
mod files;
mod world;

pub use abilities::Abilities;
pub use crash::Moment;
pub use files::ModelDirectory;
pub use world::{Inode, ROOT, World};

use nix::libc;
use parking_lot::Mutex;
use std::io::{Error, Result};
use std::sync::Arc;
use world::Change;

/// The disk.
#[derive(Clone, Debug, Default)]
pub struct Model(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    durable: World,
    pending: Vec<Change>,
    /// What programs see.
    current: World,
    /// Calls so far, which one fails, and with what.
    calls: u32,
    fails_at: Option<(u32, i32)>,
    moments: Vec<Moment>,
    /// Whether moments are remembered.
    remembers: bool,
    /// Whether the path of a directory leads to another by now.
    moved: bool,
    age_seconds: u64,
    abilities: Abilities,
    /// When so many bytes more are written, the kernel writes them back by itself, and fails.
    loses_after: Option<usize>,
    /// That has not been told yet.
    has_lost: bool,
}

impl Model {
    /// A disk with this on it.
    pub fn of(world: World) -> Model {
        Model(Arc::new(Mutex::new(State { durable: world.clone(), current: world, ..State::default() })))
    }

    /// One that remembers each moment.
    pub fn remembering(self) -> Model {
        self.0.lock().remembers = true;
        self
    }

    /// One of which that call fails so.
    pub fn failing_at(self, call: u32, errno: i32) -> Model {
        self.0.lock().fails_at = Some((call, errno));
        self
    }

    /// One that loses what was written when so many bytes have been; the next sync is told, and none after it.
    pub fn losing_after(self, bytes: usize) -> Model {
        self.0.lock().loses_after = Some(bytes);
        self
    }

    /// One that can this, and no more.
    pub fn with(self, abilities: &Abilities) -> Model {
        self.0.lock().abilities = abilities.clone();
        self
    }

    /// From now on the directory is another.
    pub fn moves(&self) {
        self.0.lock().moved = true;
    }

    /// From now on all is so old.
    pub fn ages(&self, seconds: u64) {
        self.0.lock().age_seconds = seconds;
    }

    /// Its first directory.
    pub fn root(&self) -> ModelDirectory {
        ModelDirectory::new(self.clone(), ROOT)
    }

    /// What is on it for certain.
    pub fn durable(&self) -> World {
        self.0.lock().durable.clone().swept()
    }

    /// What programs see.
    pub fn current(&self) -> World {
        self.0.lock().current.clone().swept()
    }

    /// Calls so far.
    pub fn calls(&self) -> u32 {
        self.0.lock().calls
    }

    /// The moments so far.
    pub fn moments(&self) -> Vec<Moment> {
        self.0.lock().moments.clone()
    }

    /// A call that only looks.
    fn look<T>(&self, look: impl FnOnce(&State) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock();
        state.call()?;
        look(&state)
    }

    /// A call that changes something.
    fn change<T>(&self, what: &str, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock();
        state.call()?;
        let done = change(&mut state)?;
        state.remember(what);
        Ok(done)
    }

    /// Puts on the disk what was changed of these; if that fails it is lost, and nobody hears of it again.
    fn sync(&self, what: &str, mine: impl Fn(&Change) -> bool) -> Result<()> {
        let mut state = self.0.lock();
        let lost = std::mem::take(&mut state.has_lost);
        let failed = state.call().and(if lost { Err(Error::from_raw_os_error(libc::EIO)) } else { Ok(()) });
        let (synced, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending).into_iter().partition(mine);
        state.pending = pending;
        if failed.is_ok() {
            synced.iter().for_each(|change| state.durable.apply(change));
        } else {
            // Names are tried again by the file system; data is called clean.
            let names: Vec<_> = synced.into_iter().filter(|change| change.of_content().is_none()).collect();
            state.pending.splice(..0, names);
        }
        state.remember(what);
        failed
    }
}

impl State {
    fn call(&mut self) -> Result<()> {
        self.calls += 1;
        match self.fails_at {
            Some((call, errno)) if call == self.calls => Err(Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }

    /// So many bytes more were written.
    fn write_back(&mut self, bytes: usize) {
        self.loses_after = self.loses_after.map(|left| left.saturating_sub(bytes));
        if self.loses_after.take_if(|left| *left == 0).is_some() {
            self.pending.retain(|change| change.of_content().is_none());
            self.has_lost = true;
        }
    }

    fn remember(&mut self, what: &str) {
        if self.remembers {
            let after = format!("call {}: {what}", self.calls);
            self.moments.push(Moment { durable: self.durable.clone(), pending: self.pending.clone(), after });
        }
    }

    /// Makes a change, of which the disk does not know yet.
    fn make(&mut self, change: Change) {
        self.current.apply(&change);
        self.pending.push(change);
    }

    fn add(&mut self, inode: Inode) -> u64 {
        let number = self.current.free_number().max(self.durable.free_number());
        self.current.add(number, inode.clone());
        // Without a name nobody sees it.
        self.durable.add(number, inode);
        number
    }
}
