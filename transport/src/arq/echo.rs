//! Newest stamp received, and round trips from timestamp echoes.

use super::disorder::Disorder;
use super::rtt::Rtt;
use super::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use std::time::Duration;

/// Age from which a stamp is not compared any more: its sender has been idle, and half of the
/// stamps' range may have passed.
pub(super) const STALE: Duration = Duration::from_secs(600);

/// Longest plausible round trip; above it the stamp was drawn ahead of the clock in a burst.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    stamp: Stamp,
    at: Instant,
}

impl Default for Newest {
    fn default() -> Self {
        Newest { stamp: Stamp::NONE, at: Instant::START }
    }
}

impl Newest {
    pub(super) fn new(stamp: Stamp, at: Instant) -> Newest {
        Newest { stamp, at }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    pub(super) fn is_stale(&self, now: Instant) -> bool {
        now.since(self.at) > STALE
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn take(&mut self, now: Instant, stamp: Stamp) -> Option<Duration> {
        let since = now.since(self.at);
        let news = stamp.is_after(self.stamp) || (stamp != Stamp::NONE && self.is_stale(now));
        news.then(|| {
            *self = Newest { stamp, at: now };
            since
        })
    }

    pub(crate) fn held_us(&self, now: Instant) -> u32 {
        if self.stamp == Stamp::NONE { 0 } else { now.since(self.at).as_micros() as u32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Late,
    /// Sent after the known one: one of both is not the receiver's own. The receiver has to be
    /// probed.
    Doubtful,
    /// Second one in a row sent after the known one, which therefore was not the receiver's own:
    /// arrived frames do not disappear.
    Contradiction,
}

#[derive(Clone, Debug)]
pub(crate) struct Echo {
    newest: Newest,
    rtt: Rtt,
    disorder: Disorder,
    doubt: Stamp,
    longest_sample: Duration,
}

impl Echo {
    pub(crate) fn new(tuning: &Tuning) -> Echo {
        let longest_sample = tuning.timeout.max;
        let (rtt, disorder) = (Rtt::new(tuning), Disorder::new(longest_sample));
        Echo { newest: Newest::default(), rtt, disorder, doubt: Stamp::NONE, longest_sample }
    }

    pub(crate) fn newest(&self) -> Stamp {
        self.newest.stamp()
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub(crate) fn tolerance(&self) -> Duration {
        self.rtt.reordering().max(self.disorder.tolerance())
    }

    /// Takes the arrival of the frame at the receiver's cursor, reported by `ack`, whose echo has
    /// not been taken yet. Its last transmission was under `last`, the one before under `before`;
    /// both are equal if it was sent once.
    ///
    /// If nothing sent as late as `last` has arrived, an earlier transmission did. The frame was
    /// overtaken by everything sent between the transmission that arrived and the newest echo so
    /// far. Returns whether the last transmission was needless.
    pub(crate) fn on_arrival(&mut self, before: Stamp, last: Stamp, ack: &Ack<'_>) -> bool {
        let echo = Stamp(ack.echo);
        let needless = before != last && echo != Stamp::NONE && last.is_after(echo);
        let sent_at = if needless { before } else { last };
        if sent_at != Stamp::NONE && self.newest().is_after(sent_at) {
            self.disorder.note(self.newest().since(sent_at));
        }
        needless
    }

    pub(crate) fn on_late(&mut self, later: Duration) {
        self.disorder.note(later);
    }

    pub(crate) fn disorder(&self) -> Duration {
        self.disorder.tolerance()
    }

    /// Takes the echo of an acknowledgement. A new one is a round-trip sample, and evidence of
    /// losses; returns the time since the last new one. A repeated echo proves nothing.
    pub(crate) fn take(&mut self, now: Instant, ack: &Ack<'_>) -> Option<Duration> {
        self.doubt = Stamp::NONE;
        let echo = Stamp(ack.echo);
        let first = self.newest() == Stamp::NONE;
        let since_last = self.newest.take(now, echo)?;
        let held = Duration::from_micros(ack.body.held_us.into());
        let round_trip = Stamp::of(now).since(echo).saturating_sub(held);
        // The first echo may be of a stamp that was never drawn, from before the first one drawn.
        let longest = if first { self.longest_sample } else { MAX_ROUND_TRIP };
        if round_trip < longest {
            self.rtt.sample(round_trip.min(self.longest_sample));
        }
        self.disorder.on_echo(now, self.rtt.smoothed().unwrap_or_default());
        Some(since_last)
    }

    /// Judges an acknowledgement behind the known cursor. Another host may have acknowledged in the
    /// receiver's name, then or now: two new acknowledgements that agree are believed, a single one
    /// is not.
    pub(crate) fn judge_behind(&mut self, ack: &Ack<'_>) -> Behind {
        let echo = Stamp(ack.echo);
        if !echo.is_after(self.newest()) || planted!("ack-ignored-for-ever") {
            return Behind::Late;
        }
        if self.doubt == Stamp::NONE || !echo.is_after(self.doubt) {
            self.doubt = echo;
            return Behind::Doubtful;
        }
        self.doubt = Stamp::NONE;
        Behind::Contradiction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    fn ack(echo: u32, held_us: u32) -> Ack<'static> {
        Ack { cursor: 0, echo, body: AckBody { limit: 0, below: 0, consumed: 0, held_us }, bitmap: &[], end: u64::MAX }
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn an_echo_is_news_once_and_any_is_after_a_long_silence() {
        let mut echo = Echo::new(&Tuning::default());
        assert_eq!(echo.take(at(900), &ack(0, 0)), None, "no stamp is no echo");
        assert_eq!(echo.take(at(1000), &ack(700, 100)), Some(Duration::from_micros(1000)));
        assert_eq!(echo.rtt().smoothed(), Some(Duration::from_micros(200)));
        assert_eq!((echo.take(at(1100), &ack(700, 0)), echo.take(at(1200), &ack(600, 0))), (None, None));
        assert_eq!(echo.newest(), Stamp(700));
        let late = 1000 + STALE.as_micros() as u64 + 1;
        assert!(echo.take(at(late), &ack(600, 0)).is_some());
        assert_eq!(echo.rtt().smoothed(), Some(Duration::from_micros(200)), "ten minutes are no round trip");
    }

    #[test]
    fn a_long_round_trip_counts_as_the_longest_but_not_as_the_first() {
        let (longest, long) = (Tuning::default().timeout.max, 700_000);
        let mut echo = Echo::new(&Tuning::default());
        assert!(longest < Duration::from_micros(long));
        assert!(echo.take(at(long + 5), &ack(5, 0)).is_some() && echo.rtt().smoothed().is_none());
        echo.take(at(2 * long + 10), &ack(long as u32 + 10, 0));
        assert_eq!(echo.rtt().smoothed(), Some(longest));
    }

    #[test]
    fn two_newer_words_prove_an_earlier_one_forged_and_one_or_a_late_one_does_not() {
        let mut echo = Echo::new(&Tuning::default());
        echo.take(at(1000), &ack(700, 0));
        assert_eq!([600, 700, 0].map(|late| echo.judge_behind(&ack(late, 0))), [Behind::Late; 3]);
        let newer = [800, 800, 900, 950].map(|newer| echo.judge_behind(&ack(newer, 0)));
        assert_eq!(newer, [Behind::Doubtful, Behind::Doubtful, Behind::Contradiction, Behind::Doubtful]);
        echo.take(at(2000), &ack(700, 0));
        assert_eq!(echo.judge_behind(&ack(960, 0)), Behind::Doubtful, "what is known was confirmed in between");
    }

    #[test]
    fn what_was_held_for_longer_than_a_stamp_lasts_still_gives_the_round_trip() {
        let (sent, arrived) = (5_000_u64, 5_040_u64);
        let mut newest = Newest::default();
        assert_eq!(newest.held_us(at(4_000_000)), 0, "nothing has come that could be held");
        newest.take(at(arrived), Stamp(sent as u32));
        let answered = arrived + (1 << 32) + 300;
        assert_eq!(newest.held_us(at(answered)), 300);
        let mut echo = Echo::new(&Tuning::default());
        echo.take(at(answered + 40), &ack(sent as u32, newest.held_us(at(answered))));
        assert_eq!(echo.rtt().smoothed(), Some(Duration::from_micros(80)));
    }
}
