//! State that callers and the progress thread share, and their waiting without the lock.

use crate::drive::flush;
use crate::drive::rounds::{Rest, Rounds};
use crate::link::{Blocked, Interest, Link, Waiter};
use crate::packet::Clock;
use crate::{Instant, Machine};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Threads that may watch the link: one caller at a time, the leader, and the progress thread when
/// no caller does; both for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
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
pub(super) struct LeaderFollowers<L: Link, M> {
    clock: Clock,
    shared: Mutex<Driven<L, M>>,
    followers: Condvar,
    nap: Condvar,
    waiters: [L::Waiter; 2],
}

pub(super) struct Driven<L: Link, M> {
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
    pub(super) fn is_led(&self) -> bool {
        self.watches[Who::Caller as usize].is_some()
    }

    pub(super) fn is_running(&self) -> bool {
        !self.stopped && self.failure.is_none()
    }

    /// Whether a caller will handle the next event: one watches, or one was here within `recently`
    /// and has left nothing undone.
    pub(super) fn is_attended(&self, now: Instant, recently: Duration) -> bool {
        self.is_led() || (now.since(self.driven_at) < recently && !self.left_over)
    }

    pub(super) fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }
}

impl<L: Link, M: Machine> Driven<L, M> {
    fn is_missed_by(&self, watch: Watch, now: Instant) -> bool {
        let next = self.rounds.limit(&self.link, &self.machine, now).map(|limit| now + limit);
        let late = next.is_some_and(|next| watch.wanted.until.is_none_or(|until| next < until));
        late || (self.link.blocked() == Some(Blocked::Room) && !watch.wanted.room)
    }
}

impl<L: Link<Error: Clone>, M: Machine> LeaderFollowers<L, M> {
    pub(super) fn new(link: L, machine: M, clock: Clock, waiters: [L::Waiter; 2]) -> LeaderFollowers<L, M> {
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
        LeaderFollowers { clock, shared: Mutex::new(driven), followers: Condvar::new(), nap: Condvar::new(), waiters }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Driven<L, M>> {
        self.shared.lock()
    }

    pub(super) fn into_machine(self) -> M {
        self.shared.into_inner().machine
    }

    /// Runs a caller's round. Other threads are woken if frames or timers came, or if the caller
    /// has come `newly` and may have changed things.
    ///
    /// Only an earlier failure is an error: the result of `application` stands, even if sending
    /// fails after it.
    pub(super) fn round<R>(
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
        let Driven { link, machine, rounds, .. } = driven;
        let stirred = rounds.receive(link, machine, now);
        let result = application(machine);
        let sent = rounds.send(link, machine, now);
        self.settle(driven, sent, stirred || newly);
        Ok(result)
    }

    pub(super) fn background_round(&self, driven: &mut Driven<L, M>, now: Instant) {
        let Driven { link, machine, rounds, .. } = driven;
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

    pub(super) fn leave(&self, driven: &mut Driven<L, M>, now: Instant) {
        while driven.more_to_send {
            let sent = driven.rounds.send(&mut driven.link, &mut driven.machine, now);
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

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.rouse_progress_thread();
    }

    pub(super) fn nap(&self, driven: &mut MutexGuard<Driven<L, M>>, time: Duration) {
        self.nap.wait_for(driven, time);
    }

    pub(super) fn follow(&self, driven: &mut MutexGuard<Driven<L, M>>, deadline: Option<Instant>) {
        driven.following += 1;
        match deadline {
            Some(deadline) => drop(self.followers.wait_for(driven, deadline.since(self.clock.now()))),
            None => self.followers.wait(driven),
        }
        driven.following -= 1;
    }

    pub(super) fn rest(&self, who: Who, driven: &mut MutexGuard<Driven<L, M>>, deadline: Option<Instant>) {
        let Driven { link, machine, rounds, .. } = &mut **driven;
        match rounds.rest(link, machine, &self.clock, who == Who::Caller) {
            Rest::None => MutexGuard::bump(driven),
            Rest::BusyPoll(end) => self.busy_poll(driven, earliest(end, deadline)),
            Rest::Wait(now, wanted) => {
                let until = wanted.until.map_or(deadline, |until| Some(earliest(until, deadline)));
                self.wait(who, driven, now, Interest { until, ..wanted });
            }
        }
    }

    fn busy_poll(&self, driven: &mut MutexGuard<Driven<L, M>>, end: Instant) {
        let news = driven.news;
        let wanted = Interest { arrivals: true, room: false, until: Some(end) };
        driven.watches[Who::Caller as usize] = Some(Watch { asleep: false, wanted });
        let (mut now, mut longest_pause) = (self.clock.now(), Duration::ZERO);
        while !driven.link.has_arrival() && driven.news == news && now < end {
            MutexGuard::unlocked(driven, std::thread::yield_now);
            let after = self.clock.now();
            longest_pause = longest_pause.max(after.since(now));
            now = after;
        }
        driven.rounds.looked(now, longest_pause);
        driven.watches[Who::Caller as usize] = None;
    }

    fn wait(&self, who: Who, driven: &mut MutexGuard<Driven<L, M>>, now: Instant, wanted: Interest) {
        driven.watches[who as usize] = Some(Watch { asleep: true, wanted });
        let seen = MutexGuard::unlocked(driven, || self.waiters[who as usize].wait(now, wanted));
        driven.watches[who as usize] = None;
        let waited = driven.link.waited(seen).map(|()| false);
        self.settle(driven, waited, false);
    }

    pub(super) fn flush(&self) {
        let Driven { link, machine, failure, .. } = &mut *self.lock();
        if failure.is_none() {
            flush(link, machine, &self.waiters[Who::ProgressThread as usize], &self.clock);
        }
    }
}

fn earliest(end: Instant, deadline: Option<Instant>) -> Instant {
    deadline.map_or(end, |deadline| deadline.min(end))
}
