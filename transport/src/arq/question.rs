//! When to ask a receiver where it stands, and how often. A timeout asks, and never repeats data: the answer is the
//! evidence.

use super::echo::Behind;
use crate::time::Instant;
use std::time::Duration;

/// What an acknowledgement brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that was not known: it has come again, or answers what had been answered.
    Nothing,
    /// An answer by which nothing has moved, of an application that takes its time.
    Answer,
    /// Something has moved.
    Progress,
}

impl News {
    /// Those of an acknowledgement whose echo is `fresh` or not, which says more than was known or not; `patient` is
    /// whether it is in order that nothing moves.
    pub(crate) fn new(fresh: bool, more: bool, patient: bool) -> News {
        match (fresh || more, patient) {
            (false, _) => News::Nothing,
            (true, true) => News::Answer,
            (true, false) => News::Progress,
        }
    }
}

/// A question to a receiver that owes an answer: asked when nothing is heard in time, and ever less often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    due: Option<Instant>,
    /// Fruitless waits.
    tries: u32,
    pending: bool,
}

impl Question {
    /// When to ask.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How often it has been asked in vain.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Asks as soon as something can be sent.
    pub(crate) fn ask(&mut self) {
        self.pending = true;
    }

    /// Whether to ask now; asked once.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.pending)
    }

    /// Whether the answer is overdue: then it is asked for, and again after `timeout` of so many tries.
    pub(crate) fn on_timeout(&mut self, now: Instant, timeout: impl FnOnce(u32) -> Duration) -> bool {
        let overdue = self.due.is_some_and(|due| due <= now);
        if overdue {
            self.pending = true;
            self.tries += 1;
            self.due = Some(now + timeout(self.tries)).filter(|_| !planted!("timer-not-rearmed"));
        }
        overdue
    }

    /// Something was sent that is to be answered within `timeout`, unless an answer is awaited already; whether none
    /// was.
    pub(crate) fn arm(&mut self, now: Instant, timeout: impl FnOnce(u32) -> Duration) -> bool {
        let unarmed = self.due.is_none();
        if unarmed {
            self.due = Some(now + timeout(self.tries));
        }
        unarmed
    }

    /// An answer behind what is known: one in doubt is asked for again. So is a late one if nothing is awaited, for it
    /// may be more than that.
    pub(crate) fn doubt(&mut self, now: Instant, judged: Behind, timeout: impl FnOnce(u32) -> Duration) {
        if judged == Behind::Doubtful || self.due.is_none() {
            self.pending = true;
            self.arm(now, timeout);
        }
    }

    /// Begins the wait anew if anything is `awaited`.
    pub(crate) fn rearm(&mut self, now: Instant, awaited: bool, timeout: impl FnOnce(u32) -> Duration) {
        self.due = (awaited && !planted!("answer-not-awaited")).then(|| now + timeout(self.tries));
    }

    /// Asks at `at` if not before.
    pub(crate) fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// An acknowledgement has come, after which more is `awaited` or not. Only news begins the wait anew (RFC 6298
    /// §5.3, RFC 9002 §6.2.1): what is repeated must not put the question off for ever. Who is only taking his time is
    /// asked less and less often.
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
    fn it_is_asked_less_and_less_often_until_something_moves() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let timeout = |tries: u32| Duration::from_millis(1 << tries);
        let mut question = Question::default();
        assert!(question.arm(at(0), timeout) && !question.arm(at(0), timeout));
        assert!(!question.on_timeout(at(0), timeout) && question.on_timeout(at(1), timeout));
        assert!(question.take() && !question.take(), "asked once");
        assert_eq!(question.due(), Some(at(3)));
        question.on_ack(at(2), News::Answer, true, timeout);
        assert_eq!((question.tries(), question.due()), (1, Some(at(4))));
        question.on_ack(at(3), News::Nothing, true, timeout);
        assert_eq!((question.tries(), question.due()), (1, Some(at(4))), "what is repeated puts nothing off");
        question.on_ack(at(4), News::Progress, true, timeout);
        assert_eq!((question.tries(), question.due()), (0, Some(at(5))));
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
