//! The event loop that runs one protocol state machine on one network link ([`Link`]).
//!
//! [`Rounds`] are common to it and to `packet::Shared`: each receives arrived frames, runs
//! timers and, after the application, sends; then the loop rests.

use crate::link::{Blocked, Interest, Link, Waiter};
use crate::{Deadline, Instant, Machine, TimeSource};
use std::ops::ControlFlow;
use std::time::Duration;

const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Runs `machine` on `link` until `application` breaks, and returns the value it broke with.
///
/// Each round: a bounded batch of arrived frames, timers, one call of `application`, a bounded
/// batch of frames to send. If nothing arrived and nothing left, the loop waits for one of these: a
/// frame (or several: [`Link::receive_coalescing`]), room to send again, the machine's next
/// deadline, or [`Waiter::wake`]. If the machine is urgent, the loop first polls for frames for a
/// while ([`Link::busy_poll`]). `application` moves its data in and out of the machine; it must not
/// block. One clock reading serves a whole round.
///
/// After a break, frames left over and the machine's remaining output (up to one batch of frames)
/// are sent, for at most 100 ms. Frames that have not left by then are lost, as on a cable.
///
/// # Errors
/// The link's own.
pub fn drive<L: Link, M: Machine, T>(
    link: &mut L,
    machine: &mut M,
    waiter: &L::Waiter,
    clock: &impl TimeSource,
    mut application: impl FnMut(&mut M, Instant) -> ControlFlow<T>,
) -> Result<T, L::Error> {
    let mut rounds = Rounds::new(link);
    loop {
        let now = clock.now();
        rounds.receive(link, machine, now);
        if let ControlFlow::Break(value) = application(machine, now) {
            flush(link, machine, waiter, clock);
            return Ok(value);
        }
        rounds.send(link, machine, now)?;
        match rounds.rest(link, machine, clock, machine.is_urgent()) {
            Rest::None => {}
            Rest::BusyPoll(end) => {
                let ready = || link.has_arrival() || waiter.take_wake();
                let (ended, longest_pause) = poll_until(end, clock, || waiter.yield_now(), ready);
                rounds.looked(ended, longest_pause);
            }
            Rest::Wait(now, wanted) => link.waited(waiter.wait(now, wanted))?,
        }
    }
}

pub(crate) fn flush<L: Link, M: Machine>(
    link: &mut L,
    machine: &mut M,
    waiter: &L::Waiter,
    clock: &impl TimeSource,
) {
    match send_last(link, machine, waiter, clock) {
        Ok(true) => {}
        Ok(false) => log::warn!(
            "{}: the last frames did not leave within {FLUSH_LIMIT:?}",
            link.name()
        ),
        Err(error) => log::warn!("the last frames did not leave: {error}"),
    }
}

fn send_last<L: Link, M: Machine>(
    link: &mut L,
    machine: &mut M,
    waiter: &L::Waiter,
    clock: &impl TimeSource,
) -> Result<bool, L::Error> {
    let end = clock.now() + FLUSH_LIMIT;
    let mut asked = false;
    loop {
        let (now, ask) = (clock.now(), !asked);
        link.send(now, |buffer| {
            asked = true;
            if ask {
                machine.poll_transmit(now, buffer)
            } else {
                None
            }
        })?;
        let Some(blocked) = link.blocked() else {
            return Ok(true);
        };
        if now >= end {
            return Ok(false);
        }
        let until = blocked.until().map_or(end, |moment| moment.min(end));
        let wanted = Interest {
            arrivals: false,
            room: blocked.is_reported(),
            until: Some(until),
        };
        link.waited(waiter.wait(now, wanted))?;
    }
}

/// Wait for a machine whose deadline has passed and stays: it needs room to send, which ends the
/// wait anyway.
const OVERDUE_WAIT: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Rounds {
    coalescing: Coalescing,
    busy_poll: BusyPoll,
    received: usize,
    due: Option<Deadline>,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    BusyPoll(Instant),
    Wait(Instant, Interest),
}

impl Rounds {
    pub(crate) fn new(link: &impl Link) -> Self {
        let (coalescing, busy_poll) = (
            Coalescing::new(link.receive_coalescing()),
            BusyPoll::new(link.busy_poll()),
        );
        Rounds {
            coalescing,
            busy_poll,
            received: 0,
            due: None,
            sent: 0,
        }
    }

    pub(crate) fn receive<L: Link, M: Machine>(
        &mut self,
        link: &mut L,
        machine: &mut M,
        now: Instant,
    ) -> bool {
        self.received = link.receive(|frame| machine.handle_frame(now, frame));
        self.due = machine
            .poll_timeout(now)
            .filter(|deadline| deadline.at <= now);
        if self.due.is_some() {
            machine.handle_timeout(now);
        }
        self.received > 0 || self.due.is_some()
    }

    pub(crate) fn send<L: Link, M: Machine>(
        &mut self,
        link: &mut L,
        machine: &mut M,
        now: Instant,
    ) -> Result<bool, L::Error> {
        let transmitted = link.transmit(now, machine)?;
        self.sent = transmitted.frames;
        self.coalescing.round(now, self.received, self.sent);
        if self.have_moved() {
            self.busy_poll.moved(now);
        }
        Ok(!transmitted.exhausted && link.blocked().is_none())
    }

    fn have_moved(&self) -> bool {
        self.received > 0 || self.sent > 0
    }

    pub(crate) fn rest<L: Link, M: Machine>(
        &mut self,
        link: &L,
        machine: &M,
        clock: &impl TimeSource,
        in_a_hurry: bool,
    ) -> Rest {
        let room = link.blocked().is_some_and(Blocked::is_reported);
        if self.have_moved() {
            // Only a wait reveals that there is room to send again, so a loop that never waits must
            // check here.
            let look = Interest {
                arrivals: false,
                room,
                until: Some(Instant::START),
            };
            return if room {
                Rest::Wait(Instant::START, look)
            } else {
                Rest::None
            };
        }
        let now = clock.now();
        let limit = self.limit(link, machine, now);
        let nap = if machine.is_urgent() {
            None
        } else {
            self.coalescing.nap(now, limit)
        };
        let poll_until = if in_a_hurry && !room {
            self.busy_poll.until(now, limit)
        } else {
            None
        };
        match (nap, poll_until) {
            (Some(nap), _) => Rest::Wait(
                now,
                Interest {
                    arrivals: false,
                    room,
                    until: Some(now + nap),
                },
            ),
            (None, Some(end)) => Rest::BusyPoll(end),
            (None, None) => Rest::Wait(
                now,
                Interest {
                    arrivals: true,
                    room,
                    until: limit.map(|limit| now + limit),
                },
            ),
        }
    }

    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        self.busy_poll.looked(now, longest_pause);
    }

    pub(crate) fn limit<L: Link, M: Machine>(
        &self,
        link: &L,
        machine: &M,
        now: Instant,
    ) -> Option<Duration> {
        let handled = |deadline| self.due == Some(deadline);
        let machine = machine.poll_timeout(now).map(|next| {
            if handled(next) {
                OVERDUE_WAIT
            } else {
                next.at.since(now)
            }
        });
        let retry_at = link.blocked().and_then(Blocked::until);
        let link = retry_at.map(|at| at.since(now));
        machine.into_iter().chain(link).min()
    }
}

const LATE_WAKE: Duration = Duration::from_millis(1);
const BARRED: Duration = Duration::from_millis(10);
const MAX_DOUBLINGS: u32 = 7;

/// Polls of an urgent loop. A pause of `LATE_WAKE` between two of them shows a computing process;
/// the loop then sleeps at once for `BARRED`, which doubles with each such pause, at most
/// `MAX_DOUBLINGS` times (1.3 s).
#[derive(Debug)]
pub(crate) struct BusyPoll {
    longest: Duration,
    moved_at: Instant,
    barred: Barred,
}

/// Time for which something that did not pay is not tried again: it doubles with each failure, and
/// halves with each success.
#[derive(Clone, Copy, Debug, Default)]
struct Barred {
    until: Instant,
    doublings: u32,
}

impl Barred {
    fn note(&mut self, now: Instant, paid: bool, (shortest, max_doublings): (Duration, u32)) {
        if paid {
            self.doublings = self.doublings.saturating_sub(1);
        } else {
            self.until = now + shortest * (1 << self.doublings);
            self.doublings = (self.doublings + 1).min(max_doublings);
        }
    }
}

impl BusyPoll {
    pub(crate) fn new(longest: Duration) -> Self {
        BusyPoll {
            longest,
            moved_at: Instant::START,
            barred: Barred::default(),
        }
    }

    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    pub(crate) fn until(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        let end = self.moved_at + self.longest;
        let end = limit.map_or(end, |limit| end.min(now + limit));
        (end > now && now >= self.barred.until).then_some(end)
    }

    pub(crate) fn looked(&mut self, now: Instant, longest_pause: Duration) {
        self.barred.note(
            now,
            longest_pause <= LATE_WAKE.max(self.longest),
            (BARRED, MAX_DOUBLINGS),
        );
    }
}

fn poll_until(
    end: Instant,
    clock: &impl TimeSource,
    pause: impl Fn(),
    mut ready: impl FnMut() -> bool,
) -> (Instant, Duration) {
    let (mut now, mut longest) = (clock.now(), Duration::ZERO);
    while !ready() && now < end {
        pause();
        let after = clock.now();
        longest = longest.max(after.since(now));
        now = after;
    }
    (now, longest)
}

const INTERVAL: Duration = Duration::from_millis(5);
const WORTHWHILE_FRAMES: u32 = 2;
const BULK_FRAMES_PER_SECOND: u32 = 20_000;
const BULK_FRAMES: u32 = 64;
const ONE_SIDED_FRAMES: u32 = 8;
const SHORT_PART: u32 = 4;
const MAX_NAP_DOUBLINGS: u32 = 10;

/// Naps through dense arrivals. A nap is worth its timer, which costs two frames' wake-ups, from
/// `WORTHWHILE_FRAMES` on.
///
/// Traffic counts as one-sided from `ONE_SIDED_FRAMES` received frames per sent one: no sender
/// waits for replies. (A barrier's leaf sends one for two, a stream's receiver one for dozens.) At
/// lower rates the longest nap is divided by `SHORT_PART`: few wake-ups are saved, and round trips
/// matter. The interval between two naps that find nothing doubles at most `MAX_NAP_DOUBLINGS`
/// times (5 s).
#[derive(Debug, Default)]
pub(crate) struct Coalescing {
    longest: Duration,
    nap: Duration,
    received: u32,
    rounds: u32,
    sent: u32,
    since: Instant,
    dense: bool,
    napped: bool,
    barred: Barred,
}

impl Coalescing {
    pub(crate) fn new(longest: Duration) -> Self {
        Coalescing {
            longest,
            nap: longest / SHORT_PART,
            ..Coalescing::default()
        }
    }

    pub(crate) fn round(&mut self, now: Instant, received: usize, sent: usize) {
        let [received, sent] =
            [received, sent].map(|frames| u32::try_from(frames).unwrap_or(u32::MAX));
        self.received = self.received.saturating_add(received);
        self.sent = self.sent.saturating_add(sent);
        self.rounds += u32::from(received > 0);
        if std::mem::take(&mut self.napped) {
            self.barred.note(
                now,
                received >= WORTHWHILE_FRAMES,
                (INTERVAL, MAX_NAP_DOUBLINGS),
            );
        }
        let interval = now.since(self.since);
        if interval >= INTERVAL {
            self.nap = self.fitting_nap(interval);
            self.dense = self.nap * self.received >= interval * WORTHWHILE_FRAMES;
            let several_at_a_time = self.received >= self.rounds.saturating_mul(WORTHWHILE_FRAMES);
            let one_sided = self.received >= self.sent.saturating_mul(ONE_SIDED_FRAMES);
            if self.is_bulk(interval) && (several_at_a_time || one_sided) {
                self.barred = Barred {
                    until: now,
                    doublings: 0,
                };
            }
            (self.received, self.rounds, self.sent, self.since) = (0, 0, 0, now);
        }
    }

    fn is_bulk(&self, interval: Duration) -> bool {
        interval * BULK_FRAMES_PER_SECOND <= Duration::from_secs(1) * self.received
    }

    fn fitting_nap(&self, interval: Duration) -> Duration {
        let shortest = self.longest / SHORT_PART;
        if self.is_bulk(interval) {
            (interval * BULK_FRAMES / self.received.max(1)).clamp(shortest, self.longest)
        } else {
            shortest
        }
    }

    pub(crate) fn nap(&mut self, now: Instant, limit: Option<Duration>) -> Option<Duration> {
        let nap = limit.map_or(self.nap, |limit| limit.min(self.nap));
        let allowed = self.dense && now >= self.barred.until && !nap.is_zero();
        // A nap cut short by a deadline proves nothing about arrivals.
        self.napped = allowed && nap == self.nap;
        allowed.then_some(nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[derive(Default)]
    struct Ticking(Cell<u64>);

    impl TimeSource for Ticking {
        fn now(&self) -> Instant {
            self.0.set(self.0.get() + 1);
            micros(self.0.get())
        }
    }

    const MAX_POLL: Duration = Duration::from_micros(100);

    fn micros(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn busy_polling_lasts_from_the_last_frame_and_not_beyond_a_deadline() {
        let mut busy_poll = BusyPoll::new(MAX_POLL);
        busy_poll.moved(micros(1000));
        assert_eq!(busy_poll.until(micros(1000), None), Some(micros(1100)));
        assert_eq!(busy_poll.until(micros(1099), None), Some(micros(1100)));
        assert_eq!(busy_poll.until(micros(1100), None), None);
        assert_eq!(
            busy_poll.until(micros(1050), Some(Duration::from_micros(10))),
            Some(micros(1060))
        );
        assert_eq!(
            busy_poll.until(micros(1050), Some(Duration::from_millis(10))),
            Some(micros(1100))
        );
        assert_eq!(busy_poll.until(micros(1050), Some(Duration::ZERO)), None);
        busy_poll.moved(micros(5000));
        assert_eq!(busy_poll.until(micros(5001), None), Some(micros(5100)));
    }

    #[test]
    fn busy_polling_can_be_turned_off() {
        let mut busy_poll = BusyPoll::new(Duration::ZERO);
        busy_poll.moved(micros(1000));
        assert_eq!(busy_poll.until(micros(1000), None), None);
    }

    #[test]
    fn where_others_compute_busy_polling_stops_for_a_while_and_longer_each_time() {
        let mut busy_poll = BusyPoll::new(MAX_POLL);
        let polls_at = |busy_poll: &mut BusyPoll, at: u64| {
            busy_poll.moved(micros(at));
            busy_poll.until(micros(at), None).is_some()
        };
        busy_poll.looked(micros(1000), LATE_WAKE);
        assert!(polls_at(&mut busy_poll, 1000), "it came back in time");
        busy_poll.looked(micros(2000), LATE_WAKE * 2);
        assert!(
            !polls_at(&mut busy_poll, 11_999) && polls_at(&mut busy_poll, 12_000),
            "10 ms"
        );
        busy_poll.looked(micros(20_000), LATE_WAKE * 2);
        assert!(
            !polls_at(&mut busy_poll, 39_999) && polls_at(&mut busy_poll, 40_000),
            "20 ms"
        );
        (0..2).for_each(|_| busy_poll.looked(micros(50_000), LATE_WAKE));
        busy_poll.looked(micros(60_000), LATE_WAKE * 2);
        assert!(
            polls_at(&mut busy_poll, 70_000),
            "looks in time are remembered, too"
        );
        (0..100).for_each(|_| busy_poll.looked(micros(100_000), LATE_WAKE * 2));
        assert!(
            polls_at(&mut busy_poll, 100_000 + 1_280_000),
            "at most 1.28 s"
        );
    }

    #[test]
    fn looking_ends_with_what_was_looked_for_or_with_the_time() {
        let clock = Ticking::default();
        let mut looks = 0;
        poll_until(
            clock.now() + Duration::from_secs(60),
            &clock,
            || (),
            || {
                looks += 1;
                looks == 5
            },
        );
        assert_eq!(looks, 5);
        let end = clock.now() + Duration::from_millis(2);
        let (ended, longest) = poll_until(
            end,
            &clock,
            || {
                let _now = clock.now();
            },
            || false,
        );
        assert!(
            ended >= end && longest == Duration::from_micros(2),
            "{longest:?}"
        );
        poll_until(
            end,
            &clock,
            || (),
            || {
                looks += 1;
                false
            },
        );
        assert_eq!(looks, 6, "it looks once even when it is late");
    }

    const MAX_NAP: Duration = Duration::from_millis(1);

    fn after(received: usize, sent: usize, gap: Duration) -> (Coalescing, Instant) {
        let mut coalescing = Coalescing::new(MAX_NAP);
        let mut now = Instant::START;
        while now.since(Instant::START) < Duration::from_millis(20) {
            now += gap;
            coalescing.round(now, received, sent);
        }
        (coalescing, now)
    }

    #[test]
    fn the_denser_the_arrivals_the_more_a_nap_takes_in_up_to_a_bound() {
        let nap = |frames, gap_micros| {
            let (mut coalescing, now) = after(frames, 0, Duration::from_micros(gap_micros));
            coalescing.nap(now, None)
        };
        assert_eq!(nap(1, 400), None, "2 500 frames/s: each is waited for");
        assert_eq!(nap(1, 120), Some(MAX_NAP / 4), "100 Mbit/s");
        assert_eq!(nap(1, 25), Some(MAX_NAP), "40 000 frames/s");
        assert_eq!(nap(10, 10), Some(MAX_NAP / 4), "a million frames/s");
    }

    #[test]
    fn naps_that_find_little_become_ever_rarer() {
        let (mut coalescing, mut now) = after(1, 1, Duration::from_micros(12));
        let mut naps = 0;
        // A ping-pong of 12 µs a round for a second: no nap finds more than one frame.
        while now.since(Instant::START) < Duration::from_secs(1) {
            let nap = coalescing.nap(now, None);
            naps += u32::from(nap.is_some());
            now += nap.unwrap_or(Duration::from_micros(12));
            coalescing.round(now, 1, 1);
        }
        assert!((1..=8).contains(&naps), "{naps} naps in a second");
    }

    fn barred(round_micros: u64, received: usize, sent: usize) -> Duration {
        let round = Duration::from_micros(round_micros);
        let (mut coalescing, begin) = after(received, sent, round);
        // The sender repeatedly had no CPU for a moment: the next nap is seconds away.
        coalescing.barred.doublings = MAX_NAP_DOUBLINGS;
        coalescing
            .barred
            .note(begin, false, (INTERVAL, MAX_NAP_DOUBLINGS));
        let mut now = begin;
        while coalescing.nap(now, None).is_none() && now.since(begin) < Duration::from_secs(1) {
            now += round;
            coalescing.round(now, received, sent);
        }
        now.since(begin)
    }

    #[test]
    fn where_nobody_waits_for_replies_an_empty_nap_is_soon_forgotten() {
        let soon = INTERVAL * 2;
        assert!(
            barred(100, 8, 8) <= soon,
            "a relay, whose frames come several at a time"
        );
        assert!(
            barred(4, 1, 0) <= soon,
            "a receiver that is quick enough to take each by itself"
        );
        assert!(barred(12, 1, 1) > soon, "a ping-pong");
        assert!(barred(500, 8, 0) > soon, "no bulk");
    }

    #[test]
    fn a_nap_never_overruns_a_deadline_and_can_be_turned_off() {
        let (mut coalescing, now) = after(10, 0, Duration::from_micros(100));
        let short = Duration::from_micros(10);
        assert_eq!(coalescing.nap(now, Some(short)), Some(short));
        assert_eq!(coalescing.nap(now, Some(Duration::ZERO)), None);
        let mut never = Coalescing::new(Duration::ZERO);
        (1..100).for_each(|round| never.round(Instant::from_nanos(round * 1_000_000), 100, 0));
        assert_eq!(never.nap(Instant::from_nanos(100_000_000), None), None);
    }
}
