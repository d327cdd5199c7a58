//! Mutexes that stay usable in a forked process: those of `std`, without poisoning.
//!
//! A library is used by programs that fork. `parking_lot` keeps all waiting threads of a process in
//! one table, and a child inherits the entries of threads that it does not have: the first wait of
//! the child then ends in a null pointer. A lock of `std` is a word of its own (a futex on Linux).

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// The lock, which is absent only within a method of this module.
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            held: Some(self.hold()),
        }
    }

    /// Returns nothing if somebody holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            mutex: self,
            held: Some(held),
        })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Runs `work` while the lock is free for other threads.
    pub fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.held = None;
        let result = work();
        self.held = Some(self.mutex.hold());
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard holds the lock")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard holds the lock")
    }
}

#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("a guard holds the lock");
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        let held = guard.held.take().expect("a guard holds the lock");
        guard.held = Some(
            self.0
                .wait_timeout(held, time)
                .unwrap_or_else(PoisonError::into_inner)
                .0,
        );
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lock with a time limit, for calls that take turns.
#[derive(Debug, Default)]
pub struct Turns {
    is_taken: Mutex<bool>,
    given_back: Condvar,
}

#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes the turn, or returns `None` if no other call ends its turn within about `time`.
    pub fn take_within(&self, time: Duration) -> Option<Turn<'_>> {
        let mut is_taken = self.is_taken.lock();
        if *is_taken {
            self.given_back.wait_for(&mut is_taken, time);
        }
        (!std::mem::replace(&mut *is_taken, true)).then_some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock() = false;
        self.0.given_back.notify_one();
    }
}
