//! Validation of acknowledgements, and loss detection by timestamp echoes (as RACK, RFC 8985). Only
//! evidence repeats a frame (RFC 8985).

use super::echo::{Behind, STALE};
use super::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Ack, AckBody};
use std::ops::Range;
use std::time::Duration;

/// Bounds of an acknowledgement. All frames that the receiver can have are `below` a number, which
/// depends on the sender (docs/protocol/streams.md §7.10). `credit` is the most that is useful
/// beyond the cursor, in frames: unacknowledged frames lie in the sender's own feed, so that more
/// than its slots is never used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub below: u64,
    pub newest: Stamp,
    pub credit: u64,
}

impl Sent {
    /// Returns the possible part of an acknowledgement, and whether anything in it is impossible. A
    /// receiver that has taken one frame with a wrong number, or a stamp of the future, sends
    /// partly impossible acknowledgements for a long time; the rest of them is still valid.
    pub(crate) fn believe<'a>(&self, ack: &Ack<'a>) -> (Ack<'a>, bool) {
        let invented = Stamp(ack.echo).is_after(self.newest);
        let forged = invented || ack.cursor > self.below || ack.covered() > self.below;
        let cursor = if planted!("cursor-believed") {
            ack.cursor
        } else {
            ack.cursor.min(self.below)
        };
        let AckBody {
            limit,
            below,
            consumed,
            held_us,
        } = ack.body;
        let body = AckBody {
            limit: limit.min(cursor.saturating_add(self.credit)).max(cursor),
            below: below.min(cursor),
            consumed: consumed.min(cursor),
            held_us,
        };
        // A receiver that was not probed for that long cannot give a round trip; and after an older
        // echo the next would not be new.
        let outdated = self.newest.since(Stamp(ack.echo)) > STALE;
        let untrue = (invented || outdated) && !planted!("echo-believed");
        let echo = if untrue { Stamp::NONE.0 } else { ack.echo };
        let bitmap = if ack.cursor > self.below {
            &[]
        } else {
            ack.bitmap
        };
        let end = if forged { self.below } else { ack.end };
        (
            Ack {
                cursor,
                echo,
                body,
                bitmap,
                end,
            },
            forged,
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LossDetection {
    pub echo: Stamp,
    pub tolerance: Duration,
    pub covered: u64,
}

impl LossDetection {
    pub(crate) fn overtook(&self, stamp: Stamp) -> bool {
        (self.echo.is_after(stamp) ^ planted!("stamps-compared-the-wrong-way"))
            && self.echo.since(stamp) > self.tolerance
    }

    /// Returns the frames to be judged, each with whether it was overtaken. First transmissions
    /// carry rising stamps except those that came late to a relay, so the search ends at the first
    /// recent one beyond `covered`: the next echo finds what is lost behind a late one.
    pub(crate) fn search(
        &self,
        frames: impl Iterator<Item = u64>,
        overtaken: impl Fn(&LossDetection, u64) -> bool,
    ) -> impl Iterator<Item = (u64, bool)> {
        let evidence = *self;
        let judged = frames.map(move |sequence| (sequence, overtaken(&evidence, sequence)));
        judged.take_while(move |&(sequence, overtaken)| overtaken || sequence < evidence.covered)
    }

    pub(crate) fn missing(
        &self,
        ack: &Ack<'_>,
        frames: Range<u64>,
        sent_at: impl Fn(u64) -> Stamp,
    ) -> impl Iterator<Item = u64> {
        let judged = self.search(frames, move |evidence, sequence| {
            evidence.overtook(sent_at(sequence))
        });
        judged
            .filter(|&(sequence, overtaken)| overtaken && !ack.has(sequence))
            .map(|(sequence, _)| sequence)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Nothing,
    Answer,
    Progress,
}

impl News {
    /// Classifies an acknowledgement: `fresh` if its echo is new, `more` if it reports more than
    /// was known, `patient` if the lack of progress is expected.
    pub(crate) fn new(fresh: bool, more: bool, patient: bool) -> News {
        match (fresh || more, patient) {
            (false, _) => News::Nothing,
            (true, true) => News::Answer,
            (true, false) => News::Progress,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeTimer {
    due: Option<Instant>,
    pub tries: u32,
    pending: bool,
}

impl ProbeTimer {
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn on_probe(&mut self) {
        self.pending = true;
    }

    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.pending)
    }

    pub(crate) fn on_timeout(
        &mut self,
        now: Instant,
        timeout: impl FnOnce(u32) -> Duration,
    ) -> bool {
        let overdue = self.due.is_some_and(|due| due <= now);
        if overdue {
            self.pending = true;
            self.tries += 1;
            self.due = Some(now + timeout(self.tries)).filter(|_| !planted!("timer-not-rearmed"));
        }
        overdue
    }

    pub(crate) fn arm(&mut self, now: Instant, timeout: impl FnOnce(u32) -> Duration) -> bool {
        let unarmed = self.due.is_none();
        if unarmed {
            self.due = Some(now + timeout(self.tries));
        }
        unarmed
    }

    /// Handles an acknowledgement behind the known cursor: a doubtful one is probed. So is a late
    /// one if no reply is awaited, because it may be more than late.
    pub(crate) fn doubt(
        &mut self,
        now: Instant,
        judged: Behind,
        timeout: impl FnOnce(u32) -> Duration,
    ) {
        if judged == Behind::Doubtful || self.due.is_none() {
            self.pending = true;
            self.arm(now, timeout);
        }
    }

    pub(crate) fn rearm(
        &mut self,
        now: Instant,
        awaited: bool,
        timeout: impl FnOnce(u32) -> Duration,
    ) {
        self.due = (awaited && !planted!("answer-not-awaited")).then(|| now + timeout(self.tries));
    }

    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Handles an acknowledgement, after which another may be `awaited`. Only news restarts the
    /// wait (RFC 6298 §5.3, RFC 9002 §6.2.1): duplicates must not postpone the probe forever. An
    /// application that only takes its time is probed more and more rarely.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        news: News,
        awaited: bool,
        timeout: impl FnOnce(u32) -> Duration,
    ) {
        if news == News::Progress {
            self.tries = 0;
        }
        if news != News::Nothing || !awaited || self.due.is_none() {
            self.rearm(now, awaited, timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    fn ack(cursor: u64, bitmap: &[u8], echo: u32) -> Ack<'_> {
        Ack {
            cursor,
            echo,
            body: AckBody {
                limit: cursor,
                below: cursor,
                consumed: cursor,
                held_us: 0,
            },
            bitmap,
            end: u64::MAX,
        }
    }

    #[test]
    fn only_possible_values_of_an_acknowledgement_count() {
        let sent = Sent {
            below: 8,
            newest: Stamp(100),
            credit: 64,
        };
        let believed = |ack: Ack<'_>| {
            let (ack, forged) = sent.believe(&ack);
            (
                ack.cursor,
                ack.covered(),
                ack.arrived_beyond(),
                ack.echo,
                forged,
            )
        };
        assert_eq!(believed(ack(8, &[], 100)), (8, 8, 0, 100, false));
        assert_eq!(believed(ack(0, &[0b0100_0000], 0)), (0, 8, 1, 0, false));
        assert_eq!(
            believed(ack(9, &[0b1], 100)),
            (8, 8, 0, 100, true),
            "the cursor lies beyond"
        );
        assert_eq!(
            believed(ack(0, &[0b1100_0001], 90)),
            (0, 8, 2, 90, true),
            "the holes lie beyond"
        );
        assert_eq!(
            believed(ack(5, &[], 101)),
            (5, 5, 0, 0, true),
            "no such stamp was drawn"
        );
        assert_eq!(believed(ack(u64::MAX, &[0xFF], 100)), (8, 8, 0, 100, true));
        assert_eq!(
            believed(ack(5, &[], 100 + (1 << 31))),
            (5, 5, 0, 0, false),
            "nor is one of 35 minutes ago of use"
        );
    }

    #[test]
    fn credit_beyond_what_can_be_kept_is_worth_no_more_than_that() {
        let sent = Sent {
            below: 8,
            newest: Stamp(100),
            credit: 64,
        };
        let with_limit = |limit| {
            let mut ack = ack(5, &[], 0);
            ack.body.limit = limit;
            sent.believe(&ack).0.body.limit
        };
        assert_eq!(
            [5, 40, 69, 70, u64::MAX].map(with_limit),
            [5, 40, 69, 69, 69]
        );
    }

    #[test]
    fn lost_is_what_has_not_arrived_and_was_overtaken_by_more_than_the_tolerance() {
        let sent_at = |sequence: u64| Stamp(10 * (sequence as u32 + 1));
        // 2 and 4 have arrived of 0 to 9; the echo is 4's.
        let ack = ack(1, &[0b101], 50);
        let evidence = |tolerance| LossDetection {
            echo: Stamp(50),
            tolerance: Duration::from_micros(tolerance),
            covered: ack.covered(),
        };
        assert_eq!(
            evidence(0)
                .missing(&ack, 1..10, sent_at)
                .collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!(
            evidence(10)
                .missing(&ack, 1..10, sent_at)
                .collect::<Vec<_>>(),
            [1],
            "3 was sent 10 µs before 4"
        );
        let again = |sequence: u64| {
            if sequence == 1 {
                Stamp(60)
            } else {
                sent_at(sequence)
            }
        };
        assert_eq!(
            evidence(0).missing(&ack, 1..10, again).collect::<Vec<_>>(),
            [3],
            "1 has been sent again since"
        );
        let repaired = |sequence: u64| {
            if sequence >= 7 {
                Stamp(20)
            } else {
                sent_at(sequence)
            }
        };
        assert_eq!(
            evidence(0)
                .missing(&ack, 1..10, repaired)
                .collect::<Vec<_>>(),
            [1, 3],
            "the search ended at 5"
        );
    }

    #[test]
    fn probes_become_rarer_until_there_is_progress() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let timeout = |tries: u32| Duration::from_millis(1 << tries);
        let mut question = ProbeTimer::default();
        assert!(question.arm(at(0), timeout) && !question.arm(at(0), timeout));
        assert!(!question.on_timeout(at(0), timeout) && question.on_timeout(at(1), timeout));
        assert!(question.take() && !question.take(), "asked once");
        assert_eq!(question.due(), Some(at(3)));
        question.on_ack(at(2), News::Answer, true, timeout);
        assert_eq!((question.tries, question.due()), (1, Some(at(4))));
        question.on_ack(at(3), News::Nothing, true, timeout);
        assert_eq!(
            (question.tries, question.due()),
            (1, Some(at(4))),
            "what is repeated puts nothing off"
        );
        question.on_ack(at(4), News::Progress, true, timeout);
        assert_eq!((question.tries, question.due()), (0, Some(at(5))));
        question.on_ack(at(4), News::Nothing, false, timeout);
        assert_eq!(question.due(), None, "nothing is awaited any more");
        question.on_ack(at(4), News::Nothing, true, timeout);
        assert_eq!(question.due(), Some(at(5)));
        question.rearm(at(5), false, timeout);
        assert_eq!(question.due(), None);
        question.doubt(at(5), Behind::Late, timeout);
        assert!(
            question.take() && question.due() == Some(at(6)),
            "nothing was awaited"
        );
        question.doubt(at(5), Behind::Late, timeout);
        assert!(!question.take());
        question.doubt(at(5), Behind::Doubtful, timeout);
        assert!(question.take() && question.due() == Some(at(6)));
        question.rearm(at(5), false, timeout);
        question.hasten(at(9));
        question.hasten(at(10));
        assert_eq!(question.due(), Some(at(9)));
    }
}
