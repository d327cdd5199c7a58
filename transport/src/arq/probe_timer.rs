//! Retransmission timer of a sender: on a timeout it sends a probe, never data, and waits for the
//! acknowledgement.

use super::echo::Behind;
use crate::time::Instant;
use std::time::Duration;

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

    pub(crate) fn on_timeout(&mut self, now: Instant, timeout: impl FnOnce(u32) -> Duration) -> bool {
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
    pub(crate) fn doubt(&mut self, now: Instant, judged: Behind, timeout: impl FnOnce(u32) -> Duration) {
        if judged == Behind::Doubtful || self.due.is_none() {
            self.pending = true;
            self.arm(now, timeout);
        }
    }

    pub(crate) fn rearm(&mut self, now: Instant, awaited: bool, timeout: impl FnOnce(u32) -> Duration) {
        self.due = (awaited && !planted!("answer-not-awaited")).then(|| now + timeout(self.tries));
    }

    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Handles an acknowledgement, after which another may be `awaited`. Only news restarts the
    /// wait (RFC 6298 §5.3, RFC 9002 §6.2.1): duplicates must not postpone the probe forever. An
    /// application that only takes its time is probed more and more rarely.
    pub(crate) fn on_ack(&mut self, now: Instant, news: News, awaited: bool, timeout: impl FnOnce(u32) -> Duration) {
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
        assert_eq!((question.tries, question.due()), (1, Some(at(4))), "what is repeated puts nothing off");
        question.on_ack(at(4), News::Progress, true, timeout);
        assert_eq!((question.tries, question.due()), (0, Some(at(5))));
        question.on_ack(at(4), News::Nothing, false, timeout);
        assert_eq!(question.due(), None, "nothing is awaited any more");
        question.on_ack(at(4), News::Nothing, true, timeout);
        assert_eq!(question.due(), Some(at(5)));
        question.rearm(at(5), false, timeout);
        assert_eq!(question.due(), None);
        question.doubt(at(5), Behind::Late, timeout);
        assert!(question.take() && question.due() == Some(at(6)), "nothing was awaited");
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
