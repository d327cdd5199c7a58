//! Requests to members for bytes that the source cannot re-read, one member after the other.

use super::rereading::Needy;
use crate::session::fetch::Asking;
use crate::session::message::FetchedPiece;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Silence after which a member is skipped; it may be asked again later.
const SILENT_AFTER: Duration = Duration::from_millis(500);

/// Pause before all members are asked again, if some may have the bytes and none has sent them.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecoveryStep {
    Ask(Rank, Needy, Range<u64>),
    Found(Needy, u64, Vec<u8>),
    Nobody(Needy, u64, String),
    /// No member sent the bytes for now; a destination that can repeat its request may do so.
    NotNow(Needy, u64),
}

#[derive(Clone, Debug)]
struct RecoveryQuery {
    need: Needy,
    bytes: Range<u64>,
    text: String,
    asked: Option<(Rank, Asking)>,
    left: VecDeque<Rank>,
    open: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryQueries {
    question: Option<RecoveryQuery>,
    since: Option<(Needy, u64, Instant)>,
    pause: Option<Instant>,
}

impl RecoveryQueries {
    pub(super) fn is_open(&self) -> bool {
        self.question.is_some() || self.pause.is_some()
    }

    pub(super) fn open(&mut self, now: Instant, need: Needy, bytes: Range<u64>, keepers: VecDeque<Rank>, text: &str) {
        if self.since.is_none_or(|(known, first, _)| (known, first) != (need, bytes.start)) {
            self.since = Some((need, bytes.start, now));
        }
        let text = text.to_owned();
        self.question = Some(RecoveryQuery { need, bytes, text, asked: None, left: keepers, open: false });
    }

    pub(super) fn on_piece(&mut self, now: Instant, from: Rank, piece: &FetchedPiece) {
        let asked = self.question.as_mut().and_then(|question| question.asked.as_mut());
        asked.into_iter().filter(|(rank, _)| *rank == from).for_each(|(_, asking)| asking.take(now, piece));
    }

    pub(super) fn forget(&mut self, rank: Rank) {
        self.question.take_if(|question| question.need.rank() == rank);
    }

    /// Returns the next step, if any. All members are asked repeatedly until `limit` has passed.
    pub(super) fn poll(&mut self, now: Instant, limit: Duration) -> Option<RecoveryStep> {
        self.pause.take_if(|at| *at <= now);
        let tried = self.since.map_or(Duration::ZERO, |(_, _, since)| now.since(since));
        let question = self.question.as_mut()?;
        loop {
            if let Some((rank, asking)) = &mut question.asked {
                if let Some(bytes) = asking.take_bytes() {
                    let step = RecoveryStep::Found(question.need, question.bytes.start, bytes);
                    (self.question, self.since) = (None, None);
                    return Some(step);
                }
                let silent = asking.silence(now) >= SILENT_AFTER;
                if asking.denials() == 0 && !silent {
                    let (rank, need) = (*rank, question.need);
                    return asking.poll(now).map(|bytes| RecoveryStep::Ask(rank, need, bytes));
                }
                question.open |= silent;
            }
            let Some(next) = question.left.pop_front().filter(|_| tried < limit) else { break };
            question.asked = Some((next, Asking::new(now, &question.bytes)));
        }
        let RecoveryQuery { need, bytes, text, open, .. } = self.question.take()?;
        if open && tried < limit {
            self.pause = Some(now + QUERY_INTERVAL);
            return Some(RecoveryStep::NotNow(need, bytes.start));
        }
        self.since = None;
        Some(RecoveryStep::Nobody(need, bytes.start, text))
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let question = self.question.as_ref().and_then(|question| question.asked.as_ref());
        self.pause.or_else(|| question.and_then(|(_, asking)| asking.again_at()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Needy = Needy::Fetch(Rank(3));
    const LIMIT: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn asked(questions: &mut RecoveryQueries, millis: u64) -> Option<Rank> {
        match questions.poll(at(millis), LIMIT) {
            Some(RecoveryStep::Ask(rank, NEED, Range { start: 100, end: 110 })) => Some(rank),
            step => {
                assert_eq!(step, None);
                None
            }
        }
    }

    #[test]
    fn whoever_says_no_is_passed_over_and_whoever_is_silent_is_asked_some_times_first() {
        let mut questions = RecoveryQueries::default();
        questions.open(at(0), NEED, 100..110, [1, 2, 4].map(Rank).into(), "a pipe");
        assert_eq!(asked(&mut questions, 0), Some(Rank(1)));
        questions.on_piece(at(1), Rank(2), &FetchedPiece { from: 100, end: 110, bytes: vec![9; 10] });
        questions.on_piece(at(1), Rank(1), &FetchedPiece::denial(100));
        assert_eq!(asked(&mut questions, 1), Some(Rank(2)), "what nobody asked for was nothing");
        let again: Vec<u64> = (2..501).filter(|&millis| asked(&mut questions, millis).is_some()).collect();
        assert_eq!(again, [21, 61, 141, 301, 461], "milliseconds");
        assert_eq!(asked(&mut questions, 501), Some(Rank(4)));
        questions.on_piece(at(502), Rank(4), &FetchedPiece { from: 100, end: 110, bytes: vec![7; 10] });
        assert_eq!(questions.poll(at(502), LIMIT), Some(RecoveryStep::Found(NEED, 100, vec![7; 10])));
        assert!(!questions.is_open());
    }

    #[test]
    fn when_all_say_no_nobody_has_them_and_when_some_are_silent_they_are_asked_again_for_a_while() {
        let mut questions = RecoveryQueries::default();
        questions.open(at(0), NEED, 100..110, VecDeque::new(), "a pipe");
        assert_eq!(questions.poll(at(0), LIMIT), Some(RecoveryStep::Nobody(NEED, 100, "a pipe".to_owned())));
        let (mut rounds, mut end) = (0, 0);
        for millis in 0..20_000 {
            if end == 0 && !questions.is_open() {
                questions.open(at(millis), NEED, 100..110, [1].map(Rank).into(), "a pipe");
            }
            match questions.poll(at(millis), LIMIT) {
                Some(RecoveryStep::NotNow(..)) => rounds += 1,
                Some(RecoveryStep::Nobody(..)) => end = millis,
                _ => {}
            }
        }
        assert!(rounds == 8 && (5000..5500).contains(&end), "{rounds} rounds, {end} ms");
        questions.open(at(0), NEED, 100..110, [1, 2].map(Rank).into(), "a pipe");
        assert_eq!(asked(&mut questions, 0), Some(Rank(1)));
        questions.forget(Rank(1));
        assert!(questions.is_open());
        questions.forget(Rank(3));
        assert!(!questions.is_open(), "nobody needs them any more");
    }
}
