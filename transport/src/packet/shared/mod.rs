//! One machine that blocking calls of several threads share.
//!
//! A waiting caller drives: it runs rounds in its own thread until it has what it waits for, so
//! that no frame passes from one thread to another. If several wait, one of them, the *leader*,
//! watches the socket and the others follow it on a condition variable; a leader that leaves wakes
//! a follower. While no caller waits, a *progress thread* drives.
//!
//! The lock is held for a round, never during a sleep (EQA: medium-grained locking).
//!
//! `leader_followers` holds the shared state and the waiting without the lock, `progress_thread`
//! the thread in the background.

mod leader_followers;
mod progress_thread;

use super::{Clock, Counters, Port, Waker};
use crate::link::Link;
use crate::{Instant, Machine};
use leader_followers::{LeaderFollowers, Who};
use progress_thread::ProgressThread;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A machine and its link, by default a port, for blocking calls of several threads; see the
/// module's description.
///
/// Dropping it ends the progress thread and sends the last frames, as [`drive`](crate::drive())
/// does after a break.
pub struct Shared<M: Machine, L: Link<Error: Clone> = Port> {
    core: Arc<LeaderFollowers<L, M>>,
    thread: ProgressThread<L, M>,
}

impl<M: Machine + Send + 'static> Shared<M> {
    /// Starts running `machine` on `port`: from now on frames are answered.
    ///
    /// # Errors
    ///
    /// The kernel's error if there is no file descriptor or no thread left.
    pub fn start(port: Port, machine: M, clock: Clock) -> io::Result<Shared<M>> {
        let waiter = || port.sleeper(Waker::new()?).map_err(io::Error::from);
        let waiters = [waiter()?, waiter()?];
        Shared::start_on(port, machine, clock, waiters)
    }
}

impl<M: Machine> Shared<M> {
    /// Returns the counters of the port.
    pub fn counters(&self) -> Counters {
        self.core.lock().link_mut().counters()
    }
}

impl<M: Machine, L: Link<Error: Clone>> Shared<M, L> {
    /// Starts running `machine` on any link; `waiters` are two of its waiters.
    ///
    /// # Errors
    ///
    /// The kernel's error if there is no thread left.
    pub fn start_on(link: L, machine: M, clock: Clock, waiters: [L::Waiter; 2]) -> io::Result<Shared<M, L>>
    where
        L: Link<Error: Send, Waiter: Send + Sync> + Send + 'static,
        M: Send + 'static,
    {
        let core = Arc::new(LeaderFollowers::new(link, machine, clock, waiters));
        let thread = ProgressThread::start(Arc::clone(&core))?;
        Ok(Shared { core, thread })
    }

    /// Calls `with` on the link.
    pub fn with_link<T>(&self, with: impl FnOnce(&mut L) -> T) -> T {
        with(self.core.lock().link_mut())
    }

    /// Returns the time on the machine's clock.
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// Calls `application` until it breaks, and returns the value it broke with; `None` if
    /// `deadline` has passed first.
    ///
    /// The function is called once at the beginning, then after each event that may have changed the machine:
    /// frames, timers, other threads' calls. The machine's output is sent after each call.
    /// Meanwhile the calling thread drives the machine, or sleeps while another does; before it
    /// sleeps it polls for frames for [`Link::busy_poll`]. `application` holds the lock: it must
    /// not block, nor call anything of this `Shared`.
    ///
    /// # Errors
    ///
    /// The link's own. After one nothing is driven any more, and every later call fails with it.
    pub fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut application: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
    ) -> Result<Option<T>, L::Error> {
        let mut driven = self.core.lock();
        let mut newly = true;
        loop {
            let now = self.core.now();
            if let ControlFlow::Break(value) =
                self.core.round(&mut driven, now, newly, |machine| application(machine, now))?
            {
                self.core.leave(&mut driven, now);
                return Ok(Some(value));
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                self.core.leave(&mut driven, now);
                return Ok(None);
            }
            newly = false;
            if driven.is_led() {
                self.core.follow(&mut driven, deadline);
            } else {
                self.core.rest(Who::Caller, &mut driven, deadline);
            }
        }
    }

    /// Calls `with` once and sends the machine's output, as far as the kernel takes it; arrived
    /// frames are handled before. All waiting calls are woken. `with` holds the lock, too.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); an error of sending what `with` has caused is returned by the next
    /// call.
    pub fn with<T>(&self, with: impl FnOnce(&mut M, Instant) -> T) -> Result<T, L::Error> {
        let mut driven = self.core.lock();
        let now = self.core.now();
        let value = self.core.round(&mut driven, now, true, |machine| with(machine, now))?;
        self.core.leave(&mut driven, now);
        Ok(value)
    }

    /// Ends the progress thread, sends the last frames and returns the machine.
    pub fn stop(self) -> M {
        let Shared { core, thread } = self;
        drop(thread);
        Arc::into_inner(core).expect("the progress thread, which has ended, had the only other handle").into_machine()
    }
}

impl<M: Machine, L: Link<Error: Clone>> fmt::Debug for Shared<M, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}
