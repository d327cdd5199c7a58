//! Receiver's record of the newest timestamp to echo, and the sender's round-trip times from
//! echoes.
//!
//! The round trips give the retransmission timeout (RFC 6298, with shorter bounds: a cluster's
//! round trips are below a millisecond) and the reordering tolerance on the path to one receiver.
//! The tolerance grows with observed reordering and falls back without it (RFC 8985 §6.2). RFC
//! 8985's window grows by a quarter of the round trip at a time, and falls back after 16
//! recoveries. Here the reordering itself is measured, as every frame has a timestamp.

use super::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::{TimeoutTuning, Tuning};
use crate::wire::Ack;
use std::time::Duration;

/// Age from which a stamp is no longer compared: its sender has been idle, and half of the stamps'
/// range may have passed.
pub(super) const STALE: Duration = Duration::from_secs(600);

/// Longest plausible round trip; above it the stamp was drawn ahead of the clock in a burst.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub stamp: Stamp,
    at: Instant,
}

impl Default for Newest {
    fn default() -> Self {
        Newest {
            stamp: Stamp::NONE,
            at: Instant::START,
        }
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

    pub(crate) fn take(&mut self, now: Instant, stamp: Stamp) -> Option<Duration> {
        let since = now.since(self.at);
        let news = stamp.is_after(self.stamp) || (stamp != Stamp::NONE && self.is_stale(now));
        news.then(|| {
            *self = Newest { stamp, at: now };
            since
        })
    }

    pub(crate) fn held_us(&self, now: Instant) -> u32 {
        if self.stamp == Stamp::NONE {
            0
        } else {
            now.since(self.at).as_micros() as u32
        }
    }
}

/// Judgement of an acknowledgement behind the known cursor. Another host may have acknowledged in
/// the receiver's name, then or now. If it was sent after the known acknowledgement it is
/// `Doubtful`, and the receiver must be probed. The second such in a row is a `Contradiction`: the
/// known acknowledgement was not the receiver's own, because arrived frames do not disappear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Late,
    Doubtful,
    Contradiction,
}

/// A new echo: the time since the one before, and the round trip without the time for which the
/// receiver delayed the acknowledgement, if it is plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewEcho {
    pub since_last: Duration,
    pub round_trip: Option<Duration>,
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
        Echo {
            newest: Newest::default(),
            rtt,
            disorder,
            doubt: Stamp::NONE,
            longest_sample,
        }
    }

    pub(crate) fn newest(&self) -> Stamp {
        self.newest.stamp
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
    /// An earlier transmission arrived if nothing sent as late as `last` has. The frame was
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
    /// losses. A repeated echo proves nothing.
    pub(crate) fn take(&mut self, now: Instant, ack: &Ack<'_>) -> Option<NewEcho> {
        self.doubt = Stamp::NONE;
        let echo = Stamp(ack.echo);
        let first = self.newest() == Stamp::NONE;
        let since_last = self.newest.take(now, echo)?;
        let held = Duration::from_micros(ack.body.held_us.into());
        let round_trip = Stamp::of(now).since(echo).saturating_sub(held);
        // The first echo may be of a stamp that was never drawn, from before the first one drawn.
        let longest = if first {
            self.longest_sample
        } else {
            MAX_ROUND_TRIP
        };
        let round_trip = Some(round_trip).filter(|&round_trip| round_trip < longest);
        if let Some(sample) = round_trip {
            self.rtt.sample(sample.min(self.longest_sample));
        }
        self.disorder
            .on_echo(now, self.rtt.smoothed().unwrap_or_default());
        Some(NewEcho {
            since_last,
            round_trip,
        })
    }

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

#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    least: Duration,
    initial: Duration,
    prompt: Duration,
    min: Duration,
    max: Duration,
    reorder_max: Duration,
}

const PATIENT_TRIES: u32 = 12;
const GRANULARITY: Duration = Duration::from_micros(200);

impl Rtt {
    pub fn new(tuning: &Tuning) -> Rtt {
        let TimeoutTuning {
            initial,
            prompt,
            min,
            max,
            reorder_max,
        } = tuning.timeout;
        Rtt {
            smoothed: None,
            variation: Duration::ZERO,
            least: Duration::MAX,
            initial,
            prompt,
            min,
            max,
            reorder_max,
        }
    }

    pub fn sample(&mut self, sample: Duration) {
        self.least = self.least.min(sample);
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub fn least(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.least)
    }

    pub fn reordering_max(&self) -> Duration {
        self.reorder_max
    }

    /// Returns the wait for an acknowledgement after `tries` fruitless waits. It doubles up to
    /// eightfold, which gets through heavy loss; it grows further only after `PATIENT_TRIES`. With
    /// half of all heartbeats or their replies lost, one in 4000 waits takes more tries.
    pub fn timeout(&self, tries: u32) -> Duration {
        let base = self.smoothed.map_or(self.initial, |smoothed| {
            smoothed + (self.variation * 4).max(GRANULARITY)
        });
        self.doubled(base.max(self.min), tries)
    }

    pub fn prompt_timeout(&self, tries: u32) -> Duration {
        let base = self
            .smoothed
            .map_or(Duration::ZERO, |smoothed| smoothed + self.variation * 4);
        self.doubled(base.max(self.prompt), tries)
    }

    /// Returns the wait of a sender whose round trips are long because of its own queue: after a
    /// fruitless wait the queue has emptied, and the path is short again.
    pub fn emptied_timeout(&self, tries: u32) -> Duration {
        let again = tries
            .checked_sub(1)
            .map(|tries| self.empty_timeout(self.min, tries));
        self.timeout(tries).min(again.unwrap_or(self.max))
    }

    /// Returns the wait, `prompt` or delayed, of one of several receivers of the same frames. Once
    /// everything sent is known to have `left`, or after a fruitless wait, the path is short again.
    pub fn shared_timeout(&self, prompt: bool, left: bool, tries: u32) -> Duration {
        let (usual, least) = if prompt {
            (self.prompt_timeout(tries), self.prompt)
        } else {
            (self.timeout(tries), self.min)
        };
        let again = if left {
            Some(tries)
        } else {
            tries.checked_sub(1)
        };
        usual.min(again.map_or(self.max, |tries| self.empty_timeout(least, tries)))
    }

    fn empty_timeout(&self, least: Duration, tries: u32) -> Duration {
        if self.smoothed.is_none() {
            return self.max;
        }
        self.doubled(self.least.saturating_mul(2).max(least), tries)
    }

    fn doubled(&self, base: Duration, tries: u32) -> Duration {
        let doublings = if planted!("no-backoff") {
            0
        } else if tries < PATIENT_TRIES {
            tries.min(3)
        } else {
            tries - PATIENT_TRIES + 4
        };
        (base * (1 << doublings.min(8))).min(self.max)
    }

    /// Returns the reordering tolerance: how much later another frame must have been sent for its
    /// arrival to prove a loss.
    pub fn reordering(&self) -> Duration {
        self.smoothed
            .map_or(Duration::ZERO, |smoothed| smoothed / 4)
            .min(self.reorder_max)
    }
}

/// Rounds for which the largest value counts at least; it counts for at most twice as many.
const ROUNDS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Disorder {
    present: Duration,
    before: Duration,
    rounds: u32,
    round_ends: Instant,
    most: Duration,
}

impl Disorder {
    pub(crate) fn new(most: Duration) -> Disorder {
        Disorder {
            present: Duration::ZERO,
            before: Duration::ZERO,
            rounds: 0,
            round_ends: Instant::START,
            most,
        }
    }

    pub(crate) fn note(&mut self, later: Duration) {
        self.present = self.present.max(later).min(self.most);
    }

    pub(crate) fn on_echo(&mut self, now: Instant, round_trip: Duration) {
        if now < self.round_ends {
            return;
        }
        self.round_ends = now + round_trip.max(self.largest());
        self.rounds += 1;
        if self.rounds > ROUNDS {
            (self.before, self.present, self.rounds) = (self.present, Duration::ZERO, 0);
        }
    }

    pub(crate) fn tolerance(&self) -> Duration {
        (self.largest() * 5 / 4).min(self.most)
    }

    fn largest(&self) -> Duration {
        self.present.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    fn ack(echo: u32, held_us: u32) -> Ack<'static> {
        Ack {
            cursor: 0,
            echo,
            body: AckBody {
                limit: 0,
                below: 0,
                consumed: 0,
                held_us,
            },
            bitmap: &[],
            end: u64::MAX,
        }
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn an_echo_is_news_once_and_any_is_after_a_long_silence() {
        let mut echo = Echo::new(&Tuning::default());
        assert_eq!(echo.take(at(900), &ack(0, 0)), None, "no stamp is no echo");
        assert_eq!(
            echo.take(at(1000), &ack(700, 100)),
            Some(NewEcho {
                since_last: Duration::from_micros(1000),
                round_trip: Some(Duration::from_micros(200)),
            })
        );
        assert_eq!(echo.rtt().smoothed(), Some(Duration::from_micros(200)));
        assert_eq!(
            (
                echo.take(at(1100), &ack(700, 0)),
                echo.take(at(1200), &ack(600, 0))
            ),
            (None, None)
        );
        assert_eq!(echo.newest(), Stamp(700));
        let late = 1000 + STALE.as_micros() as u64 + 1;
        assert_eq!(
            echo.take(at(late), &ack(600, 0))
                .map(|news| news.round_trip),
            Some(None)
        );
        assert_eq!(
            echo.rtt().smoothed(),
            Some(Duration::from_micros(200)),
            "ten minutes are no round trip"
        );
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
    fn two_newer_acknowledgements_prove_an_earlier_one_forged_and_one_or_a_late_one_does_not() {
        let mut echo = Echo::new(&Tuning::default());
        echo.take(at(1000), &ack(700, 0));
        assert_eq!(
            [600, 700, 0].map(|late| echo.judge_behind(&ack(late, 0))),
            [Behind::Late; 3]
        );
        let newer = [800, 800, 900, 950].map(|newer| echo.judge_behind(&ack(newer, 0)));
        assert_eq!(
            newer,
            [
                Behind::Doubtful,
                Behind::Doubtful,
                Behind::Contradiction,
                Behind::Doubtful
            ]
        );
        echo.take(at(2000), &ack(700, 0));
        assert_eq!(
            echo.judge_behind(&ack(960, 0)),
            Behind::Doubtful,
            "what is known was confirmed in between"
        );
    }

    #[test]
    fn an_echo_held_for_longer_than_a_stamp_lasts_still_gives_the_round_trip() {
        let (sent, arrived) = (5_000_u64, 5_040_u64);
        let mut newest = Newest::default();
        assert_eq!(
            newest.held_us(at(4_000_000)),
            0,
            "nothing has come that could be held"
        );
        newest.take(at(arrived), Stamp(sent as u32));
        let answered = arrived + (1 << 32) + 300;
        assert_eq!(newest.held_us(at(answered)), 300);
        let mut echo = Echo::new(&Tuning::default());
        echo.take(
            at(answered + 40),
            &ack(sent as u32, newest.held_us(at(answered))),
        );
        assert_eq!(echo.rtt().smoothed(), Some(Duration::from_micros(80)));
    }

    #[test]
    fn the_timeout_follows_the_samples_within_its_bounds_and_doubles() {
        let tuning = Tuning::default();
        let mut rtt = Rtt::new(&tuning);
        assert_eq!(rtt.timeout(0), tuning.timeout.initial);
        (0..100).for_each(|_| rtt.sample(Duration::from_micros(50)));
        assert_eq!(rtt.timeout(0), tuning.timeout.min);
        (0..100).for_each(|_| rtt.sample(Duration::from_millis(20)));
        assert!(
            rtt.timeout(0) >= Duration::from_millis(20)
                && rtt.timeout(0) < Duration::from_millis(22)
        );
        assert!(rtt.timeout(1) >= Duration::from_millis(40));
        assert_eq!(rtt.timeout(30), tuning.timeout.max);
    }

    #[test]
    fn after_a_vain_wait_for_a_long_queue_the_next_probe_comes_soon() {
        let tuning = Tuning::default();
        let mut rtt = Rtt::new(&tuning);
        assert_eq!(
            [0, 1].map(|tries| rtt.emptied_timeout(tries)),
            [0, 1].map(|tries| rtt.timeout(tries))
        );
        rtt.sample(Duration::from_millis(3));
        (0..100).for_each(|_| rtt.sample(Duration::from_millis(50)));
        assert_eq!(rtt.emptied_timeout(0), rtt.timeout(0));
        assert_eq!(
            [1, 2, 3, 4].map(|tries| rtt.emptied_timeout(tries).as_millis()),
            [6, 12, 24, 48]
        );
        assert_eq!(rtt.emptied_timeout(30), tuning.timeout.max);
        // Several receive the same frames: one of them reports that the last has left.
        assert_eq!(rtt.shared_timeout(false, false, 0), rtt.timeout(0));
        assert_eq!(
            [0, 1, 2].map(|tries| rtt.shared_timeout(false, true, tries).as_millis()),
            [6, 12, 24]
        );
        assert_eq!(rtt.shared_timeout(true, false, 1).as_millis(), 6);
    }

    #[test]
    fn a_sample_counts_an_eighth_and_its_deviation_a_quarter() {
        // RFC 6298 §2: 40 ms, then 80 ms: 45 ms, with a deviation of 20 * 3/4 + 40 / 4 = 25 ms.
        let mut rtt = Rtt::new(&Tuning::default());
        [40, 80]
            .into_iter()
            .for_each(|ms| rtt.sample(Duration::from_millis(ms)));
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(45)));
        assert_eq!(rtt.prompt_timeout(0), Duration::from_millis(45 + 4 * 25));
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_largest_of_late_counts_and_is_forgotten_after_some_rounds_without() {
        let mut disorder = Disorder::new(ms(250));
        let mut now = Instant::START;
        let mut rounds = |disorder: &mut Disorder, count: u32, seen: Option<u64>| {
            for _ in 0..count {
                now += ms(20);
                seen.into_iter().for_each(|seen| disorder.note(ms(seen)));
                disorder.on_echo(now, ms(1));
            }
        };
        rounds(&mut disorder, 40, None);
        assert_eq!(disorder.tolerance(), Duration::ZERO);
        rounds(&mut disorder, 1, Some(8));
        rounds(&mut disorder, 1, Some(16));
        rounds(&mut disorder, 1, Some(4));
        assert_eq!(disorder.tolerance(), ms(20));
        rounds(&mut disorder, 200, Some(12));
        assert_eq!(
            disorder.tolerance(),
            ms(15),
            "what is seen again and again stays"
        );
        rounds(&mut disorder, ROUNDS - 1, None);
        assert_eq!(disorder.tolerance(), ms(15));
        rounds(&mut disorder, ROUNDS + 2, None);
        assert_eq!(disorder.tolerance(), Duration::ZERO);
        rounds(&mut disorder, 1, Some(10_000));
        assert_eq!(disorder.tolerance(), ms(250));
    }

    #[test]
    fn a_round_takes_a_round_trip_however_many_echoes_it_has() {
        let mut disorder = Disorder::new(ms(250));
        disorder.note(ms(8));
        for step in 0..u64::from(ROUNDS) * 20 {
            disorder.on_echo(Instant::START + ms(step), ms(20));
            assert_eq!(disorder.tolerance(), ms(10), "after {step} ms");
        }
    }
}
