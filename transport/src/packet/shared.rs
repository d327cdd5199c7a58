//! Use of one protocol state machine by blocking calls from several threads.
//!
//! A waiting caller drives: it runs rounds in its own thread until it has what it waits for, so
//! that no frame passes from one thread to another. If several wait, one of them, the *leader*,
//! watches the socket. The others, the *followers*, wait on a condition variable. A leader that
//! leaves wakes a follower. While no caller waits, a *progress thread* drives.
//!
//! The lock is held for a round, never during a sleep (EQA: medium-grained locking).
//!
//! The progress thread sleeps while callers drive, and checks now and then whether they still do.
//! If not, it takes the lead and replies within microseconds, until a caller comes. That caller
//! need not wake it: the thread notices at its next frame and sleeps again. A tight loop of calls
//! thus costs one wake-up per sleep and nothing per call.

use super::{Clock, Counters, Port, Waker};
use crate::drive::{Rest, Rounds, flush};
use crate::link::{Blocked, Interest, Link, Waiter};
use crate::lock::{Condvar, Mutex, MutexGuard};
use crate::{Instant, Machine};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

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
    pub fn start_on(
        link: L,
        machine: M,
        clock: Clock,
        waiters: [L::Waiter; 2],
    ) -> io::Result<Shared<M, L>>
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
    /// The function is called once at the beginning, then after each event that may have changed
    /// the machine: frames, timers, other threads' calls. The machine's output is sent after each
    /// call. Meanwhile the calling thread drives the machine, or sleeps while another does; before
    /// it sleeps it polls for frames for [`Link::busy_poll`]. `application` holds the lock: it must
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
                self.core
                    .round(&mut driven, now, newly, |machine| application(machine, now))?
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
    /// The errors of [`wait`](Self::wait); an error of sending what `with` has caused is returned
    /// by the next call.
    pub fn with<T>(&self, with: impl FnOnce(&mut M, Instant) -> T) -> Result<T, L::Error> {
        let mut driven = self.core.lock();
        let now = self.core.now();
        let value = self
            .core
            .round(&mut driven, now, true, |machine| with(machine, now))?;
        self.core.leave(&mut driven, now);
        Ok(value)
    }

    /// Ends the progress thread, sends the last frames and returns the machine.
    pub fn stop(self) -> M {
        let Shared { core, thread } = self;
        drop(thread);
        Arc::into_inner(core)
            .expect("the progress thread, which has ended, had the only other handle")
            .into_machine()
    }
}

impl<M: Machine, L: Link<Error: Clone>> fmt::Debug for Shared<M, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

const NAP: Duration = Duration::from_millis(5);
const RECENTLY: Duration = Duration::from_millis(1);
const THREAD_NAME: &str = "ethb-progress";

/// Thread that drives the machine while no caller does. Naps of `NAP` are 200 wake-ups a second,
/// 0.1 % of a core; a peer's wait for an answer is as long. A caller is expected back within
/// `RECENTLY`, longer than any pause between calls that matters for latency. The thread's name in
/// `ps` has at most 15 characters.
struct ProgressThread<L: Link<Error: Clone>, M: Machine> {
    core: Arc<LeaderFollowers<L, M>>,
    thread: Option<JoinHandle<()>>,
}

impl<L: Link<Error: Clone>, M: Machine> ProgressThread<L, M> {
    fn start(core: Arc<LeaderFollowers<L, M>>) -> io::Result<ProgressThread<L, M>>
    where
        L: Link<Error: Send, Waiter: Send + Sync> + Send + 'static,
        M: Send + 'static,
    {
        let own = Arc::clone(&core);
        let thread = Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || run(&own))?;
        Ok(ProgressThread {
            core,
            thread: Some(thread),
        })
    }
}

impl<L: Link<Error: Clone>, M: Machine> Drop for ProgressThread<L, M> {
    fn drop(&mut self) {
        self.core.stop();
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            log::error!("the thread {THREAD_NAME} has panicked");
        }
        self.core.flush();
    }
}

fn run<L: Link<Error: Clone>, M: Machine>(core: &LeaderFollowers<L, M>) {
    let mut driven = core.lock();
    while driven.is_running() {
        let now = core.now();
        if !driven.is_led() {
            core.background_round(&mut driven, now);
        }
        if driven.is_attended(now, RECENTLY) {
            core.nap(&mut driven, NAP);
        } else if driven.is_running() {
            core.rest(Who::ProgressThread, &mut driven, None);
        }
    }
}

/// Threads that may watch the link: one caller at a time, the leader, and the progress thread when
/// no caller does; both for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Caller,
    ProgressThread,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    asleep: bool,
    wanted: Interest,
}

/// A machine, its link and the lock around both: the pattern Leader/Followers (Schmidt et al.,
/// Pattern-Oriented Software Architecture 2).
struct LeaderFollowers<L: Link, M> {
    clock: Clock,
    shared: Mutex<Driven<L, M>>,
    followers: Condvar,
    nap: Condvar,
    waiters: [L::Waiter; 2],
}

struct Driven<L: Link, M> {
    link: L,
    machine: M,
    rounds: Rounds,
    failure: Option<L::Error>,
    watches: [Option<Watch>; 2],
    following: usize,
    news: u64,
    driven_at: Instant,
    more_to_send: bool,
    left_over: bool,
    stopped: bool,
}

impl<L: Link, M> Driven<L, M> {
    fn is_led(&self) -> bool {
        self.watches[Who::Caller as usize].is_some()
    }

    fn is_running(&self) -> bool {
        !self.stopped && self.failure.is_none()
    }

    /// Whether a caller will handle the next event: one watches, or one was here within `recently`
    /// and has left nothing undone.
    fn is_attended(&self, now: Instant, recently: Duration) -> bool {
        self.is_led() || (now.since(self.driven_at) < recently && !self.left_over)
    }

    fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }
}

impl<L: Link, M: Machine> Driven<L, M> {
    fn is_missed_by(&self, watch: Watch, now: Instant) -> bool {
        let next = self
            .rounds
            .limit(&self.link, &self.machine, now)
            .map(|limit| now + limit);
        let late = next.is_some_and(|next| watch.wanted.until.is_none_or(|until| next < until));
        late || (self.link.blocked().is_some_and(Blocked::is_reported) && !watch.wanted.room)
    }
}

impl<L: Link<Error: Clone>, M: Machine> LeaderFollowers<L, M> {
    fn new(link: L, machine: M, clock: Clock, waiters: [L::Waiter; 2]) -> LeaderFollowers<L, M> {
        let driven = Driven {
            rounds: Rounds::new(&link),
            link,
            machine,
            failure: None,
            watches: [None; 2],
            following: 0,
            news: 0,
            driven_at: clock.now(),
            more_to_send: false,
            left_over: false,
            stopped: false,
        };
        LeaderFollowers {
            clock,
            shared: Mutex::new(driven),
            followers: Condvar::new(),
            nap: Condvar::new(),
            waiters,
        }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Driven<L, M>> {
        self.shared.lock()
    }

    fn into_machine(self) -> M {
        self.shared.into_inner().machine
    }

    /// Runs a caller's round. Other threads are woken if frames or timers came, or if the caller
    /// has come `newly` and may have changed things.
    ///
    /// Only an earlier failure is an error: the result of `application` stands, even if sending
    /// fails after it.
    fn round<R>(
        &self,
        driven: &mut Driven<L, M>,
        now: Instant,
        newly: bool,
        application: impl FnOnce(&mut M) -> R,
    ) -> Result<R, L::Error> {
        if let Some(failure) = &driven.failure {
            return Err(failure.clone());
        }
        (driven.driven_at, driven.left_over) = (now, false);
        let Driven {
            link,
            machine,
            rounds,
            ..
        } = driven;
        let stirred = rounds.receive(link, machine, now);
        let result = application(machine);
        let sent = rounds.send(link, machine, now);
        self.settle(driven, sent, stirred || newly);
        Ok(result)
    }

    fn background_round(&self, driven: &mut Driven<L, M>, now: Instant) {
        let Driven {
            link,
            machine,
            rounds,
            ..
        } = driven;
        let stirred = rounds.receive(link, machine, now);
        let sent = rounds.send(link, machine, now);
        self.settle(driven, sent, stirred);
    }

    fn settle(&self, driven: &mut Driven<L, M>, result: Result<bool, L::Error>, news: bool) {
        driven.more_to_send = result.as_ref().is_ok_and(|&more| more);
        let failed = result.is_err();
        driven.failure = driven.failure.take().or(result.err());
        if news || failed {
            driven.news += 1;
            if driven.following > 0 {
                self.followers.notify_all();
            }
        }
        if let Some(watch) = driven.watches[Who::Caller as usize]
            && watch.asleep
            && (news || failed || driven.is_missed_by(watch, self.clock.now()))
        {
            self.waiters[Who::Caller as usize].wake();
        }
        if failed {
            self.rouse_progress_thread();
        }
    }

    fn leave(&self, driven: &mut Driven<L, M>, now: Instant) {
        while driven.more_to_send {
            let sent = driven
                .rounds
                .send(&mut driven.link, &mut driven.machine, now);
            self.settle(driven, sent, false);
        }
        if driven.is_led() {
            return;
        }
        driven.left_over = driven.link.blocked().is_some();
        if driven.following > 0 {
            self.followers.notify_one();
        } else if self.progress_thread_misses(driven, now) {
            self.rouse_progress_thread();
        }
    }

    /// Whether the progress thread would wake too late for the remaining work. While it naps, that
    /// is only what the link had no room for.
    fn progress_thread_misses(&self, driven: &Driven<L, M>, now: Instant) -> bool {
        match driven.watches[Who::ProgressThread as usize] {
            Some(watch) => driven.is_missed_by(watch, now),
            None => driven.left_over,
        }
    }

    fn rouse_progress_thread(&self) {
        self.waiters[Who::ProgressThread as usize].wake();
        self.nap.notify_one();
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.rouse_progress_thread();
    }

    fn nap(&self, driven: &mut MutexGuard<Driven<L, M>>, time: Duration) {
        self.nap.wait_for(driven, time);
    }

    fn follow(&self, driven: &mut MutexGuard<Driven<L, M>>, deadline: Option<Instant>) {
        driven.following += 1;
        match deadline {
            Some(deadline) => self
                .followers
                .wait_for(driven, deadline.since(self.clock.now())),
            None => self.followers.wait(driven),
        }
        driven.following -= 1;
    }

    fn rest(&self, who: Who, driven: &mut MutexGuard<Driven<L, M>>, deadline: Option<Instant>) {
        let Driven {
            link,
            machine,
            rounds,
            ..
        } = &mut **driven;
        match rounds.rest(link, machine, &self.clock, who == Who::Caller) {
            Rest::None => driven.unlocked(std::thread::yield_now),
            Rest::BusyPoll(end) => self.busy_poll(driven, earliest(end, deadline)),
            Rest::Wait(now, wanted) => {
                let until = wanted
                    .until
                    .map_or(deadline, |until| Some(earliest(until, deadline)));
                self.wait(who, driven, now, Interest { until, ..wanted });
            }
        }
    }

    fn busy_poll(&self, driven: &mut MutexGuard<Driven<L, M>>, end: Instant) {
        let news = driven.news;
        let wanted = Interest {
            arrivals: true,
            room: false,
            until: Some(end),
        };
        driven.watches[Who::Caller as usize] = Some(Watch {
            asleep: false,
            wanted,
        });
        let (mut now, mut longest_pause) = (self.clock.now(), Duration::ZERO);
        while !driven.link.has_arrival() && driven.news == news && now < end {
            driven.unlocked(std::thread::yield_now);
            let after = self.clock.now();
            longest_pause = longest_pause.max(after.since(now));
            now = after;
        }
        driven.rounds.looked(now, longest_pause);
        driven.watches[Who::Caller as usize] = None;
    }

    fn wait(
        &self,
        who: Who,
        driven: &mut MutexGuard<Driven<L, M>>,
        now: Instant,
        wanted: Interest,
    ) {
        driven.watches[who as usize] = Some(Watch {
            asleep: true,
            wanted,
        });
        let seen = driven.unlocked(|| self.waiters[who as usize].wait(now, wanted));
        driven.watches[who as usize] = None;
        let waited = driven.link.waited(seen).map(|()| false);
        self.settle(driven, waited, false);
    }

    fn flush(&self) {
        let Driven {
            link,
            machine,
            failure,
            ..
        } = &mut *self.lock();
        if failure.is_none() {
            flush(
                link,
                machine,
                &self.waiters[Who::ProgressThread as usize],
                &self.clock,
            );
        }
    }
}

fn earliest(end: Instant, deadline: Option<Instant>) -> Instant {
    deadline.map_or(end, |deadline| deadline.min(end))
}
