//! One machine that blocking calls of several threads share.
//!
//! Whoever waits drives: a caller makes rounds in its own thread until it has what it waits for, so that no frame passes from one thread
//! to another on its way. If several wait, one of them, the *leader*, watches the socket and the others follow it on a condition
//! variable; a leader that leaves wakes a follower. While nobody waits, a *progress thread* answers.
//!
//! The lock is held for a round, never while anybody sleeps (EQA: medium-grained locking).
//!
//! `leader_followers` holds what is shared and how one rests without the lock, `progress_thread` the thread in the background.

mod leader_followers;
mod progress_thread;

use super::{Clock, Counters, DriveError, Port};
use crate::{Instant, Machine};
use leader_followers::{LeaderFollowers, Who};
use progress_thread::ProgressThread;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A port and the machine on it, for blocking calls of several threads; see the module's description.
///
/// Dropping it ends the progress thread and sends the last frames, as [`drive`](super::drive()) does after a break.
pub struct Shared<M: Machine + Send + 'static> {
    core: Arc<LeaderFollowers<M>>,
    thread: ProgressThread<M>,
}

impl<M: Machine + Send + 'static> Shared<M> {
    /// Begins to run `machine` on `port`: from now on frames are answered.
    ///
    /// # Errors
    ///
    /// The kernel's error if there is no file descriptor or no thread left.
    pub fn start(port: Port, machine: M, clock: Clock) -> io::Result<Shared<M>> {
        let core = Arc::new(LeaderFollowers::new(port, machine, clock)?);
        let thread = ProgressThread::start(Arc::clone(&core))?;
        Ok(Shared { core, thread })
    }

    /// The time, as the machine sees it.
    pub fn now(&self) -> Instant {
        self.core.clock.now()
    }

    /// Calls `turn` until it breaks, and returns what it broke with; `None` if it has not when `deadline` has passed.
    ///
    /// It is called once at the beginning, then after whatever may have changed the machine: frames, timers, other threads' calls.
    /// What the machine has to say after each turn is sent. Meanwhile the calling thread drives the machine, or sleeps while another does;
    /// before it sleeps it looks for the next frame for [`PortConfig::spin`](super::PortConfig::spin). A turn holds the lock: it must
    /// not block, nor call anything of this `Shared`.
    ///
    /// # Errors
    ///
    /// See [`DriveError`]. After one nothing is driven any more, and every later call fails with it.
    pub fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut turn: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
    ) -> Result<Option<T>, DriveError> {
        let mut state = self.core.lock();
        let mut newly = true;
        loop {
            let now = self.core.clock.now();
            if let ControlFlow::Break(value) = self.core.round(&mut state, now, newly, |machine| turn(machine, now))? {
                self.core.leave(&mut state, now);
                return Ok(Some(value));
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                self.core.leave(&mut state, now);
                return Ok(None);
            }
            newly = false;
            if state.is_led() {
                self.core.follow(&mut state, deadline);
            } else {
                self.core.rest(Who::Caller, &mut state, deadline);
            }
        }
    }

    /// Calls `with` once and sends what the machine then has to say, as far as the kernel takes it; frames that have arrived are
    /// handed over before. Everybody who waits gets a turn. It holds the lock, as a turn does.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); the error of sending what `with` has caused is the next call's.
    pub fn with<T>(&self, with: impl FnOnce(&mut M, Instant) -> T) -> Result<T, DriveError> {
        let mut state = self.core.lock();
        let now = self.core.clock.now();
        let value = self.core.round(&mut state, now, true, |machine| with(machine, now))?;
        self.core.leave(&mut state, now);
        Ok(value)
    }

    /// What the port has done so far.
    pub fn counters(&self) -> Counters {
        self.core.lock().counters()
    }

    /// Ends the progress thread, sends the last frames and returns the machine.
    pub fn stop(self) -> M {
        let Shared { core, thread } = self;
        drop(thread);
        Arc::into_inner(core).expect("the progress thread, which has ended, had the only other handle").into_machine()
    }
}
