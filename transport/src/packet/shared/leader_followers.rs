//! What callers and the progress thread share, and how they rest without the lock.

use crate::packet::drive::finish;
use crate::packet::rounds::{Rest, Rounds};
use crate::packet::sleep::Sleeper;
use crate::packet::{Clock, Counters, DriveError, Port, Waker};
use crate::{Instant, Machine};
use nix::poll::PollFlags;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Who watches the socket: one caller at a time, and the progress thread when no caller does. For a moment it may be both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Caller,
    ProgressThread,
}

/// Somebody watches the socket, without the lock.
#[derive(Clone, Copy, Debug)]
struct Watch {
    asleep: bool,
    /// When it comes back by itself.
    until: Option<Instant>,
    wanted: PollFlags,
}

/// See the module's description.
pub(super) struct LeaderFollowers<M> {
    pub(super) clock: Clock,
    socket: Arc<OwnedFd>,
    state: Mutex<State<M>>,
    followers: Condvar,
    /// Where the progress thread naps.
    pub(super) nap: Condvar,
    /// By [`Who`].
    sleepers: [Sleeper; 2],
}

/// What the lock guards.
pub(super) struct State<M> {
    port: Port,
    machine: M,
    rounds: Rounds,
    /// Why nothing is driven any more.
    failure: Option<DriveError>,
    /// By [`Who`].
    watches: [Option<Watch>; 2],
    following: usize,
    /// Counts what may concern others than who caused it.
    news: u64,
    /// When a caller last made a round.
    driven_at: Instant,
    /// The last caller has left frames for which the kernel had no room.
    left_over: bool,
    pub(super) stopped: bool,
}

impl<M> State<M> {
    /// Whether a caller watches the socket.
    pub(super) fn is_led(&self) -> bool {
        self.watches[Who::Caller as usize].is_some()
    }

    /// Whether the progress thread is to go on.
    pub(super) fn is_kept(&self) -> bool {
        !self.stopped && self.failure.is_none()
    }

    /// Whether a caller will see to what comes next: one watches, or one has been here within `recently` and has left nothing undone.
    pub(super) fn is_tended(&self, now: Instant, recently: Duration) -> bool {
        self.is_led() || (now.since(self.driven_at) < recently && !self.left_over)
    }

    pub(super) fn counters(&mut self) -> Counters {
        self.port.counters()
    }
}

impl<M: Machine> State<M> {
    /// Whether a sleeper would not see in time to what is left to do.
    fn is_missed_by(&self, watch: Watch, now: Instant) -> bool {
        let next = self.rounds.limit(&self.port, &self.machine, now).map(|limit| now + limit);
        let late = next.is_some_and(|next| watch.until.is_none_or(|until| next < until));
        late || !watch.wanted.contains(self.port.wanted())
    }
}

impl<M: Machine> LeaderFollowers<M> {
    pub(super) fn new(port: Port, machine: M, clock: Clock) -> io::Result<LeaderFollowers<M>> {
        let (socket, rounds, driven_at) = (port.socket(), Rounds::new(&port), clock.now());
        let (failure, watches, following, news) = (None, [None; 2], 0, 0);
        let (left_over, stopped) = (false, false);
        let state = State { port, machine, rounds, failure, watches, following, news, driven_at, left_over, stopped };
        let sleepers = [Sleeper::new(Waker::new()?)?, Sleeper::new(Waker::new()?)?];
        Ok(LeaderFollowers { clock, socket, state: Mutex::new(state), followers: Condvar::new(), nap: Condvar::new(), sleepers })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock()
    }

    pub(super) fn into_machine(self) -> M {
        self.state.into_inner().machine
    }

    /// A caller's round. Others are told if frames or timers came, or if the caller has come `newly` and may have changed things.
    ///
    /// Only a failure from before is an error: what `turn` found stands, even if sending fails after it.
    pub(super) fn round<R>(
        &self,
        state: &mut State<M>,
        now: Instant,
        newly: bool,
        turn: impl FnOnce(&mut M) -> R,
    ) -> Result<R, DriveError> {
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        (state.driven_at, state.left_over) = (now, false);
        let State { port, machine, rounds, .. } = state;
        let stirred = rounds.take_in(port, machine, now);
        let result = turn(machine);
        let sent = rounds.send(port, machine, now);
        self.settle(state, sent, stirred || newly);
        Ok(result)
    }

    /// A round of the progress thread.
    pub(super) fn keep(&self, state: &mut State<M>, now: Instant) {
        let State { port, machine, rounds, .. } = state;
        let stirred = rounds.take_in(port, machine, now);
        let sent = rounds.send(port, machine, now);
        self.settle(state, sent, stirred);
    }

    /// Ends a round: tells the others if there is `news`, and of a failure in any case.
    fn settle(&self, state: &mut State<M>, result: Result<(), DriveError>, news: bool) {
        let failed = result.is_err();
        state.failure = state.failure.take().or(result.err());
        if news || failed {
            state.news += 1;
            if state.following > 0 {
                self.followers.notify_all();
            }
        }
        if let Some(watch) = state.watches[Who::Caller as usize]
            && watch.asleep
            && (news || failed || state.is_missed_by(watch, self.clock.now()))
        {
            self.sleepers[Who::Caller as usize].waker().wake();
        }
        if failed {
            self.rouse_thread();
        }
    }

    /// A caller leaves: what the machine still has to say goes, and somebody else takes over if nobody watches.
    pub(super) fn leave(&self, state: &mut State<M>, now: Instant) {
        while state.failure.is_none() && state.rounds.have_filled(&state.port) {
            let sent = state.rounds.send(&mut state.port, &mut state.machine, now);
            self.settle(state, sent, false);
        }
        if state.is_led() {
            return;
        }
        state.left_over = state.port.has_staged();
        if state.following > 0 {
            self.followers.notify_one();
        } else if self.thread_misses(state, now) {
            self.rouse_thread();
        }
    }

    /// Whether the progress thread would not see in time to what is left to do. While it naps, that is only what the kernel had no room for.
    fn thread_misses(&self, state: &State<M>, now: Instant) -> bool {
        match state.watches[Who::ProgressThread as usize] {
            Some(watch) => state.is_missed_by(watch, now),
            None => state.left_over,
        }
    }

    /// Wakes the progress thread, whether it naps or watches.
    pub(super) fn rouse_thread(&self) {
        self.sleepers[Who::ProgressThread as usize].waker().wake();
        self.nap.notify_one();
    }

    /// Waits for news, or to become the leader.
    pub(super) fn follow(&self, state: &mut MutexGuard<State<M>>, deadline: Option<Instant>) {
        state.following += 1;
        match deadline {
            Some(deadline) => drop(self.followers.wait_for(state, deadline.since(self.clock.now()))),
            None => self.followers.wait(state),
        }
        state.following -= 1;
    }

    /// Rests after a round, without the lock, until the next is worth while or `deadline` has come.
    pub(super) fn rest(&self, who: Who, state: &mut MutexGuard<State<M>>, deadline: Option<Instant>) {
        let State { port, machine, rounds, .. } = &mut **state;
        match rounds.rest(port, machine, &self.clock, who == Who::Caller) {
            Rest::None => MutexGuard::bump(state),
            Rest::Glance => {
                let seen = port.wait_to_send(Duration::ZERO);
                self.settle(state, seen, false);
            }
            Rest::Look(end) => self.look(state, earliest(Some(end), deadline)),
            Rest::Nap(nap) => {
                let limit = deadline.map(|deadline| deadline.since(self.clock.now()));
                self.nap(who, state, limit.map_or(nap, |limit| limit.min(nap)));
            }
            Rest::Sleep(end) => self.sleep(who, state, earliest(end, deadline)),
        }
    }

    /// Looks at the ring until `end` or for news, and lets others run, and have the lock, between two looks.
    fn look(&self, state: &mut MutexGuard<State<M>>, end: Option<Instant>) {
        let news = state.news;
        state.watches[Who::Caller as usize] = Some(Watch { asleep: false, until: end, wanted: PollFlags::empty() });
        while !state.port.has_arrival() && state.news == news && end.is_some_and(|end| self.clock.now() < end) {
            MutexGuard::unlocked(state, std::thread::yield_now);
        }
        state.watches[Who::Caller as usize] = None;
    }

    /// Sleeps until a frame is in the ring, there is room to send again (if the port waits for that), it is woken, or `end`.
    fn sleep(&self, who: Who, state: &mut MutexGuard<State<M>>, end: Option<Instant>) {
        let wanted = state.port.wanted() | PollFlags::POLLIN;
        let sleep = |sleeper: &Sleeper| sleeper.sleep(self.socket.as_fd(), wanted, end, &self.clock);
        self.unlocked(who, state, Watch { asleep: true, until: end, wanted }, sleep);
    }

    /// Sleeps for `time`, whatever arrives, unless it is woken or there is room to send again.
    fn nap(&self, who: Who, state: &mut MutexGuard<State<M>>, time: Duration) {
        let (wanted, until) = (state.port.wanted(), Some(self.clock.now() + time));
        let nap = |sleeper: &Sleeper| sleeper.nap(self.socket.as_fd(), wanted, time);
        self.unlocked(who, state, Watch { asleep: true, until, wanted }, nap);
    }

    fn unlocked(
        &self,
        who: Who,
        state: &mut MutexGuard<State<M>>,
        watch: Watch,
        sleep: impl FnOnce(&Sleeper) -> nix::Result<PollFlags>,
    ) {
        state.watches[who as usize] = Some(watch);
        let seen = MutexGuard::unlocked(state, || sleep(&self.sleepers[who as usize]));
        state.watches[who as usize] = None;
        let woken = state.port.woken(seen);
        self.settle(state, woken, false);
    }

    /// Sends the last frames.
    pub(super) fn finish(&self) {
        let State { port, machine, failure, .. } = &mut *self.lock();
        if failure.is_none() {
            finish(port, machine, &self.clock);
        }
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
