//! Outages of an interface: switched off, reset by its driver, pulled out and plugged in again.
//!
//! To the machine an outage is silence; nothing is sent. The interface is checked until it is back;
//! then frames flow again.

use crate::Instant;
use crate::link::Blocked;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval of checks during an outage: far below any timeout of the protocol, and 0.1 % of a core.
const LOOK_AWAY: Duration = Duration::from_millis(10);
/// Interval of checks otherwise: MTU and address may change without an error.
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
        Outage { limit, noticed: false, since: None, look_at: Instant::START, flag }
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
        self.is_on().then(|| self.since.map_or(Duration::ZERO, |since| now.since(since)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_link_that_is_lost_is_known_until_it_is_back() {
        let mut carrier = Carrier::default();
        assert_eq!((carrier.note(millis(0), true), carrier.lasts(millis(1))), (None, None));
        assert_eq!((carrier.note(millis(1000), false), carrier.note(millis(2000), false)), (None, None));
        assert_eq!(carrier.lasts(millis(2500)), Some(Duration::from_millis(1500)));
        assert!(carrier.flag().load(Ordering::Relaxed));
        assert_eq!(carrier.note(millis(3000), true), Some(Duration::from_secs(2)));
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
        assert_eq!(outage.is_there(millis(600)), Some(Duration::from_millis(100)));
        assert!(!outage.is_on() && outage.blocked().is_none() && !outage.flag().load(Ordering::Relaxed));
        outage.notice();
        assert_eq!(outage.is_away(millis(700)), None);
        assert_eq!(outage.is_away(millis(800)), Some(Duration::from_millis(100)));
        assert_eq!(Outage::new(Duration::ZERO).is_away(millis(0)), Some(Duration::ZERO));
    }
}
