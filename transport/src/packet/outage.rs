//! Recovery from outages of a network interface: switched off, reset by its driver, unplugged and
//! plugged in again.
//!
//! To the machine an outage is silence; nothing is sent. The interface is checked until it is back;
//! then frames flow again.
//!
//! Frames that the kernel refuses (ENOBUFS): the queue is full for a moment, or the frames are too
//! long for the next hop.
//!
//! A full transmit queue soon takes a frame. A frame longer than a token bucket, or than the other
//! end of a veth accepts, is refused forever with an equal error, and would block all frames behind
//! it. So a frame refused for too long is given up: that is a loss, as on a cable, and a later one
//! is tried. If a shorter one leaves then, the length is the reason, unless a test shows otherwise.

use crate::Instant;
use crate::link::Blocked;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_AWAY: Duration = Duration::from_millis(10);
const LOOK_THERE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Carrier {
    lost_since: Option<Instant>,
    flag: Arc<AtomicBool>,
}

impl Carrier {
    pub(super) fn note(&mut self, now: Instant, has_link: bool) -> Option<Duration> {
        self.flag.store(!has_link, Ordering::Relaxed);
        if has_link {
            return self.lost_since.take().map(|since| now.since(since));
        }
        self.lost_since.get_or_insert(now);
        None
    }

    pub(super) fn lasts(&self, now: Instant) -> Option<Duration> {
        self.lost_since.map(|since| now.since(since))
    }

    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

/// Outage of an interface. It is checked every `LOOK_AWAY` during one: far below any timeout of the
/// protocol, and 0.1 % of a core. Otherwise it is checked every `LOOK_THERE`: MTU and address may
/// change without an error.
#[derive(Debug)]
pub(super) struct Outage {
    limit: Duration,
    noticed: bool,
    since: Option<Instant>,
    look_at: Instant,
    flag: Arc<AtomicBool>,
}

impl Outage {
    pub(super) fn new(limit: Duration) -> Outage {
        let flag = Arc::new(AtomicBool::new(false));
        Outage {
            limit,
            noticed: false,
            since: None,
            look_at: Instant::START,
            flag,
        }
    }

    pub(super) fn notice(&mut self) {
        self.noticed = true;
    }

    pub(super) fn wants_look(&self, now: Instant) -> bool {
        self.noticed || now >= self.look_at
    }

    pub(super) fn is_on(&self) -> bool {
        self.noticed || self.since.is_some()
    }

    pub(super) fn lasts(&self, now: Instant) -> Option<Duration> {
        self.is_on()
            .then(|| self.since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    pub(super) fn begins(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn blocked(&self) -> Option<Blocked> {
        if self.noticed {
            return Some(Blocked::Until(Instant::START));
        }
        self.since.map(|_| Blocked::Until(self.look_at))
    }

    pub(super) fn is_there(&mut self, now: Instant) -> Option<Duration> {
        (self.noticed, self.look_at) = (false, now + LOOK_THERE);
        self.flag.store(false, Ordering::Relaxed);
        self.since.take().map(|since| now.since(since))
    }

    pub(super) fn is_away(&mut self, now: Instant) -> Option<Duration> {
        (self.noticed, self.look_at) = (false, now + LOOK_AWAY);
        self.flag.store(true, Ordering::Relaxed);
        let away = now.since(*self.since.get_or_insert(now));
        (away >= self.limit).then_some(away)
    }
}

const BACK_OFF_MIN: Duration = Duration::from_micros(200);
const BACK_OFF_FULL: Duration = Duration::from_millis(1);
const FULL: Duration = Duration::from_millis(30);
const BACK_OFF_MAX: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(300);
const GAP: Duration = Duration::from_secs(5);

/// Refusals of frames by the kernel. The first wait, `BACK_OFF_MIN`, is 17 frames of 1500 bytes at
/// 1 Gbit/s. Waits grow to `BACK_OFF_FULL` while the queue may be full: a retry costs some 2 µs, so
/// this is 0.2 % of a core. As the maximum depends on how long the refusals have lasted, this is no
/// [`Retry`](crate::Retry).
///
/// A refused frame is given up after `PATIENCE`: a queue of one frame of 1500 bytes takes one each
/// 48 ms at 250 kbit/s. Without a try of a long frame for `GAP`, earlier refusals say nothing about
/// the next.
#[derive(Debug)]
pub(super) struct Refusals {
    back_off: Duration,
    since: Option<Instant>,
    given_up_at: Option<Instant>,
    suspect: Option<Suspect>,
}

#[derive(Debug)]
struct Suspect {
    bytes: usize,
    since: Instant,
    tried_at: Instant,
    /// Whether a shorter frame has left after one of this length was given up.
    proved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Retry(Instant),
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong {
    pub bytes: usize,
    pub lasts: Duration,
}

impl Refusals {
    pub(super) fn new() -> Refusals {
        Refusals {
            back_off: BACK_OFF_MIN,
            since: None,
            given_up_at: None,
            suspect: None,
        }
    }

    pub(super) fn left(&mut self, longest_bytes: usize) {
        (self.back_off, self.since) = (BACK_OFF_MIN, None);
        let Some(suspect) = &mut self.suspect else {
            return;
        };
        if longest_bytes >= suspect.bytes {
            self.suspect = None;
        } else {
            suspect.proved = true;
        }
    }

    pub(super) fn narrow(&mut self, passes_bytes: usize) {
        self.suspect
            .iter_mut()
            .for_each(|suspect| suspect.bytes = suspect.bytes.min(passes_bytes + 1));
    }

    pub(super) fn forgive(&mut self) {
        self.suspect = None;
    }

    pub(super) fn spares(&self, now: Instant, bytes: usize) -> bool {
        let proved = self.proved().filter(|suspect| bytes >= suspect.bytes);
        proved.is_some_and(|suspect| now < suspect.tried_at + BACK_OFF_MAX)
    }

    pub(super) fn refused(&mut self, now: Instant, bytes: usize) -> Fate {
        let since = *self.since.get_or_insert(now);
        let suspected = self
            .suspect
            .as_mut()
            .filter(|suspect| bytes >= suspect.bytes);
        let (suspected, proved) = match suspected {
            Some(suspect) => {
                if now.since(suspect.tried_at) > GAP {
                    suspect.since = now;
                }
                suspect.tried_at = now;
                (true, suspect.proved)
            }
            None => (false, false),
        };
        // The next frame is tried instead; if the queue takes nothing, not all waiting frames are
        // dropped at once.
        let rested = self
            .given_up_at
            .is_none_or(|at| now.since(at) >= BACK_OFF_MAX);
        if proved || (now.since(since) >= PATIENCE && rested) {
            self.give_up(now, bytes);
            return Fate::GiveUp;
        }
        let wait = if suspected {
            BACK_OFF_MAX
        } else {
            self.back_off
        };
        let most = if now.since(since) < FULL {
            BACK_OFF_FULL
        } else {
            BACK_OFF_MAX
        };
        self.back_off = (self.back_off * 2).min(most);
        Fate::Retry(now + wait)
    }

    fn give_up(&mut self, now: Instant, bytes: usize) {
        self.given_up_at = Some(now);
        match &mut self.suspect {
            Some(suspect) => suspect.bytes = suspect.bytes.min(bytes),
            none => {
                *none = Some(Suspect {
                    bytes,
                    since: now,
                    tried_at: now,
                    proved: false,
                })
            }
        }
    }

    fn proved(&self) -> Option<&Suspect> {
        self.suspect.as_ref().filter(|suspect| suspect.proved)
    }

    pub(super) fn too_long(&self) -> Option<TooLong> {
        self.proved().map(|suspect| TooLong {
            bytes: suspect.bytes,
            lasts: suspect.tried_at.since(suspect.since),
        })
    }

    pub(super) fn lasts(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_link_that_is_lost_is_known_until_it_is_back() {
        let mut carrier = Carrier::default();
        assert_eq!(
            (carrier.note(millis(0), true), carrier.lasts(millis(1))),
            (None, None)
        );
        assert_eq!(
            (
                carrier.note(millis(1000), false),
                carrier.note(millis(2000), false)
            ),
            (None, None)
        );
        assert_eq!(
            carrier.lasts(millis(2500)),
            Some(Duration::from_millis(1500))
        );
        assert!(carrier.flag().load(Ordering::Relaxed));
        assert_eq!(
            carrier.note(millis(3000), true),
            Some(Duration::from_secs(2))
        );
        assert!(carrier.lasts(millis(3000)).is_none() && !carrier.flag().load(Ordering::Relaxed));
    }

    #[test]
    fn an_outage_lasts_from_the_first_look_to_the_return_or_the_limit() {
        let mut outage = Outage::new(Duration::from_millis(100));
        assert!(outage.wants_look(millis(0)) && !outage.is_on());
        assert_eq!(outage.is_there(millis(0)), None);
        assert!(!outage.wants_look(millis(999)) && outage.wants_look(millis(1000)));
        outage.notice();
        assert!(outage.is_on() && outage.wants_look(millis(500)) && outage.blocked().is_some());
        assert_eq!(outage.is_away(millis(500)), None);
        assert_eq!(outage.blocked(), Some(Blocked::Until(millis(510))));
        assert!(!outage.wants_look(millis(509)) && outage.is_on());
        assert_eq!(outage.is_away(millis(599)), None);
        assert!(outage.flag().load(Ordering::Relaxed));
        assert_eq!(
            outage.is_there(millis(600)),
            Some(Duration::from_millis(100))
        );
        assert!(
            !outage.is_on() && outage.blocked().is_none() && !outage.flag().load(Ordering::Relaxed)
        );
        outage.notice();
        assert_eq!(outage.is_away(millis(700)), None);
        assert_eq!(
            outage.is_away(millis(800)),
            Some(Duration::from_millis(100))
        );
        assert_eq!(
            Outage::new(Duration::ZERO).is_away(millis(0)),
            Some(Duration::ZERO)
        );
    }

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Tries frames of the lengths `frames` in turn for `seconds`, as often as allowed; the kernel
    /// takes those that `passes` accepts. Returns the tries with their results, and the final
    /// state.
    fn play(
        seconds: u64,
        frames: &[usize],
        passes: impl Fn(Instant, usize) -> bool,
    ) -> (Vec<(Instant, usize, bool)>, Refusals) {
        let (mut refusals, mut tried, mut next) = (Refusals::new(), Vec::new(), 0);
        let mut retry_at = Instant::START;
        for now in (0..seconds * 1000).map(ms) {
            let bytes = frames[next % frames.len()];
            if now < retry_at {
                continue;
            }
            if refusals.spares(now, bytes) {
                next += 1;
                continue;
            }
            let left = passes(now, bytes);
            tried.push((now, bytes, left));
            if left {
                refusals.left(bytes);
                next += 1;
                continue;
            }
            match refusals.refused(now, bytes) {
                Fate::Retry(at) => retry_at = at,
                Fate::GiveUp => next += 1,
            }
        }
        (tried, refusals)
    }

    #[test]
    fn frames_that_are_too_long_are_found_out_tried_ten_times_a_second_and_hold_up_no_others() {
        let (tried, refusals) = play(10, &[9014, 60], |_, bytes| bytes <= 1514);
        let too_long = refusals.too_long().expect("it is known by now");
        assert!(
            too_long.bytes == 9014 && too_long.lasts >= Duration::from_secs(9),
            "{too_long:?}"
        );
        let late = |&&(at, bytes, _): &&(Instant, usize, bool)| bytes == 9014 && at >= ms(1000);
        let tries = tried.iter().filter(late).count();
        assert!((80..=91).contains(&tries), "{tries} tries in 9 s");
        assert!(
            tried
                .iter()
                .filter(|(at, ..)| *at < ms(1000))
                .filter(|(_, bytes, _)| *bytes == 9014)
                .count()
                <= 60
        );
        assert!(
            tried
                .iter()
                .filter(|(_, bytes, left)| *bytes == 60 && *left)
                .count()
                > 4000,
            "one each turn"
        );
    }

    #[test]
    fn frames_that_leave_again_are_forgiven() {
        let (_, refusals) = play(10, &[9014, 60], |now, bytes| {
            bytes <= 1514 || now >= ms(5000)
        });
        assert_eq!(refusals.too_long(), None);
        assert!(!refusals.spares(ms(10_000), 9014));
    }

    #[test]
    fn a_full_queue_is_asked_again_soon_and_blames_no_length() {
        // It takes a frame each 20 ms.
        let (tried, refusals) = play(5, &[1514, 60], |now, _| now.as_micros() % 20_000 == 0);
        let (left, lost) = (
            tried.iter().filter(|(_, _, left)| *left).count(),
            tried.len(),
        );
        assert!(left >= 245 && lost < 5001, "{left} of 250");
        assert!(refusals.suspect.is_none());
        // It takes nothing for 2 s, and few frames are given up meanwhile.
        let (tried, refusals) = play(5, &[1514, 60], |now, _| now >= ms(2000));
        let refused = tried.iter().filter(|(_, _, left)| !left).count();
        assert!(refused <= 100, "{refused} tries in 2 s");
        assert!(refusals.suspect.is_none() && refusals.lasts(ms(5000)) == Duration::ZERO);
    }

    #[test]
    fn a_length_not_tried_for_long_counts_anew() {
        let (_, mut refusals) = play(3, &[9014, 60], |_, bytes| bytes <= 1514);
        assert_eq!(refusals.refused(ms(60_000), 9014), Fate::GiveUp);
        assert_eq!(
            refusals.too_long().map(|too_long| too_long.lasts),
            Some(Duration::ZERO)
        );
    }
}
