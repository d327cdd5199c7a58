//! The newest of the other side's stamps, and what the echo of an own one says about the round trip.

use super::disorder::Disorder;
use super::rtt::Rtt;
use super::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use std::time::Duration;

/// A stamp that came so long ago is not compared any more: its sender has been idle, and half the range may have gone
/// by.
pub(super) const STALE: Duration = Duration::from_secs(600);

/// A round trip above this is a stamp drawn ahead of the clock in a burst.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(60);

/// The newest stamp that has come, and when.
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
    /// A stamp that has come at `at`.
    pub(super) fn new(stamp: Stamp, at: Instant) -> Newest {
        Newest { stamp, at }
    }

    /// When it came.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Whether it came so long ago that others are not compared with it any more.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        now.since(self.at) > STALE
    }

    /// The stamp; none if none has come.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Takes a stamp; if it is news, the time since the one before came.
    pub(crate) fn take(&mut self, now: Instant, stamp: Stamp) -> Option<Duration> {
        let since = now.since(self.at);
        let news = stamp.is_after(self.stamp) || (stamp != Stamp::NONE && self.is_stale(now));
        news.then(|| {
            *self = Newest { stamp, at: now };
            since
        })
    }

    /// How long ago the stamp came, in µs as wide as a stamp, with which it wraps; zero if none has come.
    pub(crate) fn held_us(&self, now: Instant) -> u32 {
        if self.stamp == Stamp::NONE { 0 } else { now.since(self.at).as_micros() as u32 }
    }
}

/// What an acknowledgement is whose cursor is behind the one known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// An older word that came late, as far as its echo says.
    Late,
    /// A newer word: either this one or the one known is not the receiver's own. To be asked again.
    Doubtful,
    /// The second newer word in a row: the one known was not the receiver's own, for what has arrived does not go away.
    Contradiction,
}

/// The newest own stamp that one receiver has echoed, and the round trip that echoes have shown.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    newest: Newest,
    rtt: Rtt,
    disorder: Disorder,
    /// The echo of a newer word that was behind the one known.
    doubt: Stamp,
    /// No timeout is longer, and no sample.
    longest_sample: Duration,
}

impl Echo {
    /// Nothing echoed yet.
    pub(crate) fn new(tuning: &Tuning) -> Echo {
        let longest_sample = tuning.timeout.max;
        let (rtt, disorder) = (Rtt::new(tuning), Disorder::new(longest_sample));
        Echo { newest: Newest::default(), rtt, disorder, doubt: Stamp::NONE, longest_sample }
    }

    /// The newest stamp echoed.
    pub(crate) fn newest(&self) -> Stamp {
        self.newest.stamp()
    }

    /// What is known of the round trip.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// How much earlier than another that has arrived a frame must have been sent to be lost, and not just overtaken.
    pub(crate) fn tolerance(&self) -> Duration {
        self.rtt.reordering().max(self.disorder.tolerance())
    }

    /// The frame at the receiver's cursor has arrived with `ack`, whose echo has not been taken yet. It was sent for
    /// the last time under `last`, and under `before` the time before that; both are the same if it was sent once.
    ///
    /// If nothing sent as late as `last` has arrived, it came by an earlier transmission. Whichever it was, whatever
    /// was sent between it and the newest echo so far has overtaken it. Returns whether the last one was for nothing.
    pub(crate) fn on_arrival(&mut self, before: Stamp, last: Stamp, ack: &Ack<'_>) -> bool {
        let echo = Stamp(ack.echo);
        let needless = before != last && echo != Stamp::NONE && last.is_after(echo);
        let sent_at = if needless { before } else { last };
        if sent_at != Stamp::NONE && self.newest().is_after(sent_at) {
            self.disorder.note(self.newest().since(sent_at));
        }
        needless
    }

    /// A frame was taken for lost, and had only come `later` than another that took its way.
    pub(crate) fn on_late(&mut self, later: Duration) {
        self.disorder.note(later);
    }

    /// How far frames have been seen to overtake each other, and a little more.
    pub(crate) fn disorder(&self) -> Duration {
        self.disorder.tolerance()
    }

    /// Takes the echo of an acknowledgement. If it is news it is a sample of the round trip, and evidence; then the
    /// time since the last such one. An echo heard before proves nothing new and says nothing about the round trip.
    pub(crate) fn take(&mut self, now: Instant, ack: &Ack<'_>) -> Option<Duration> {
        self.doubt = Stamp::NONE;
        let echo = Stamp(ack.echo);
        let first = self.newest() == Stamp::NONE;
        let since_last = self.newest.take(now, echo)?;
        let held = Duration::from_micros(ack.body.held_us.into());
        let round_trip = Stamp::of(now).since(echo).saturating_sub(held);
        // The first echo may be of a stamp that was never drawn, from before the first that was.
        let longest = if first { self.longest_sample } else { LONGEST_ROUND_TRIP };
        if round_trip < longest {
            self.rtt.sample(round_trip.min(self.longest_sample));
        }
        self.disorder.on_echo(now, self.rtt.smoothed().unwrap_or_default());
        Some(since_last)
    }

    /// Judges an acknowledgement whose cursor is behind the one known. Somebody may have acknowledged in the receiver's
    /// name what it has not got, or may be doing so now: two newer words that agree are believed, and one is not.
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
