//! Requests for missing or damaged bytes of a transfer, and replies to them.

use super::message::{Fetch, FetchedPiece, MAX_FETCH_BYTES};
use super::throttle::Share;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, Retry};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Main-stream frames per reply frame while both have some: a fifth of the link is for replies. A
/// member that waits for a repair soon stalls, and so do all members behind it.
const MAIN_FRAMES: u32 = 4;

/// Maximum bytes of a reply; the rest of the request goes to the end of the queue. If many members
/// ask at once, each soon gets some bytes, which show progress.
const SHARE_BYTES: u64 = 16 << 10;
/// Bytes of a round of replies to all members that request. More members get shorter shares: one
/// frame that is damaged everywhere makes a whole group request it.
const ROUND_BYTES: u64 = 128 << 10;
const MIN_SHARE_BYTES: u64 = 2 << 10;

/// Requests and replies. Their size is bounded by the number of members and one share.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Answering {
    questions: VecDeque<Fetch>,
    ready: VecDeque<(Rank, FetchedPiece)>,
    share: Share<MAIN_FRAMES>,
    sent_bytes: u64,
}

impl Answering {
    /// Takes a request, which replaces an older one of the same rank.
    ///
    /// # Panics
    /// If it exceeds the maximum size of a request.
    pub(in crate::session) fn request(&mut self, question: &Fetch) {
        assert!(
            question.is_bounded(),
            "questions are checked before they are taken"
        );
        let Range { start, end } = question.bytes;
        let first = self
            .coming_to(question)
            .map_or(start, |coming| coming.max(start));
        if first >= end {
            return;
        }
        let rest = Fetch {
            bytes: first..end,
            ..question.clone()
        };
        match self
            .questions
            .iter_mut()
            .find(|other| other.rank == rest.rank)
        {
            Some(other) => *other = rest,
            None => self.questions.push_back(rest),
        }
    }

    /// End of the reply that is queued for this request, if the queue covers the request's start.
    fn coming_to(&self, question: &Fetch) -> Option<u64> {
        let mut pieces = self
            .ready
            .iter()
            .filter(|(rank, _)| *rank == question.rank)
            .map(|(_, piece)| piece);
        pieces
            .next()
            .filter(|piece| piece.from <= question.bytes.start)
            .map(|piece| piece.end)
    }

    pub(in crate::session) fn next(&self) -> Option<&Fetch> {
        self.questions.front().filter(|_| self.ready.is_empty())
    }

    pub(in crate::session) fn wanted(&self) -> Option<(Rank, Range<u64>)> {
        let Fetch {
            rank,
            bytes: Range { start, end },
            ..
        } = self.next()?;
        let share = ROUND_BYTES / self.questions.len() as u64;
        Some((
            *rank,
            *start..start + share.clamp(MIN_SHARE_BYTES, SHARE_BYTES).min(end - start),
        ))
    }

    /// Takes the [`wanted`](Answering::wanted) bytes, to be sent in pieces of `piece_bytes`.
    /// Ignores them if the next request has changed meanwhile.
    pub(in crate::session) fn supply(
        &mut self,
        rank: Rank,
        from: u64,
        bytes: &[u8],
        piece_bytes: usize,
    ) {
        debug_assert!(
            bytes.len() as u64 <= MAX_FETCH_BYTES,
            "no more was asked for"
        );
        let Some(question) = self.take(rank, from) else {
            return;
        };
        let end = from + bytes.len() as u64;
        if end < question.bytes.end && !bytes.is_empty() {
            self.questions.push_back(Fetch {
                bytes: end..question.bytes.end,
                ..question
            });
        }
        let pieces = (from..).step_by(piece_bytes).zip(bytes.chunks(piece_bytes));
        self.ready.extend(pieces.map(|(from, bytes)| {
            (
                rank,
                FetchedPiece {
                    from,
                    end,
                    bytes: bytes.to_vec(),
                },
            )
        }));
    }

    pub(in crate::session) fn deny(&mut self, rank: Rank, from: u64) {
        if self.take(rank, from).is_some() {
            self.ready.push_back((rank, FetchedPiece::denial(from)));
        }
    }

    pub(in crate::session) fn skip(&mut self, rank: Rank, from: u64) {
        self.take(rank, from);
    }

    fn take(&mut self, rank: Rank, from: u64) -> Option<Fetch> {
        self.next()
            .filter(|next| next.rank == rank && next.bytes.start == from)?;
        self.questions.pop_front()
    }

    pub(in crate::session) fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.questions.retain(|question| keep(question.rank));
        self.ready.retain(|&(rank, _)| keep(rank));
    }

    pub(in crate::session) fn main_sent(&mut self, now: Instant) {
        self.share.main_sent(now);
    }

    pub(in crate::session) fn is_due(&self) -> bool {
        !self.ready.is_empty() && self.share.is_due()
    }

    /// Returns the next piece, if it may go: in its turn, or because the main stream is `over` or
    /// idle.
    pub(in crate::session) fn poll(
        &mut self,
        now: Instant,
        over: bool,
    ) -> Option<(Rank, FetchedPiece)> {
        if !(over || self.share.may_go(now)) {
            return None;
        }
        let (rank, piece) = self.ready.pop_front()?;
        self.share.take();
        self.sent_bytes += piece.bytes.len() as u64;
        Some((rank, piece))
    }

    pub(in crate::session) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    pub(in crate::session) fn free_at(&self, now: Instant) -> Option<Instant> {
        self.share.free_at(now).filter(|_| !self.ready.is_empty())
    }
}

/// First retransmission timeout of a request. It doubles each time, up to [`MAX_TIMEOUT`].
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest retransmission timeout. It allows a dozen requests in two seconds, enough for 50 % loss.
const MAX_TIMEOUT: Duration = Duration::from_millis(160);

#[derive(Clone, Debug)]
pub(in crate::session) struct Asking {
    first: u64,
    bytes: Vec<u8>,
    lacking: Vec<Range<u64>>,
    asked: Range<u64>,
    retry: Retry,
    last_received_at: Instant,
    denials: u32,
}

impl Asking {
    pub(in crate::session) fn new(now: Instant, wanted: &Range<u64>) -> Asking {
        let first = wanted.start;
        let end = wanted
            .end
            .clamp(first, first.saturating_add(MAX_FETCH_BYTES));
        Asking {
            first,
            bytes: vec![0; (end - first) as usize],
            lacking: Vec::from_iter((first < end).then_some(first..end)),
            asked: first..first,
            retry: Retry::new(now, FIRST_TIMEOUT, MAX_TIMEOUT),
            last_received_at: now,
            denials: 0,
        }
    }

    pub(in crate::session) fn first(&self) -> u64 {
        self.first
    }

    pub(in crate::session) fn range(&self) -> Range<u64> {
        self.first..self.first + self.bytes.len() as u64
    }

    pub(in crate::session) fn denials(&self) -> u32 {
        self.denials
    }

    pub(in crate::session) fn silence(&self, now: Instant) -> Duration {
        now.since(self.last_received_at)
    }

    /// Excludes time in which nobody can reply.
    pub(in crate::session) fn pause(&mut self, now: Instant) {
        self.last_received_at = now;
    }

    pub(in crate::session) fn poll(&mut self, now: Instant) -> Option<Range<u64>> {
        let lacking = self.lacking.first()?.clone();
        if !self.retry.take_due(now) {
            return None;
        }
        self.asked = lacking.clone();
        Some(lacking)
    }

    pub(in crate::session) fn again_at(&self) -> Option<Instant> {
        (!self.lacking.is_empty()).then_some(self.retry.at())
    }

    pub(in crate::session) fn take(&mut self, now: Instant, piece: &FetchedPiece) {
        if piece.is_denial() {
            self.denials += u32::from(
                self.lacking
                    .first()
                    .is_some_and(|lacking| lacking.start == piece.from),
            );
            return;
        }
        let Some(came) = piece
            .range()
            .filter(|came| self.asked.start <= came.start && came.end <= self.asked.end)
        else {
            return;
        };
        let mut left = Vec::with_capacity(self.lacking.len() + 1);
        let mut new = false;
        for lacking in std::mem::take(&mut self.lacking) {
            let both = lacking.start.max(came.start)..lacking.end.min(came.end);
            if both.is_empty() {
                left.push(lacking);
                continue;
            }
            new = true;
            let here = (both.start - self.first) as usize..(both.end - self.first) as usize;
            let there = (both.start - came.start) as usize..(both.end - came.start) as usize;
            self.bytes[here].copy_from_slice(&piece.bytes[there]);
            left.extend(
                [lacking.start..both.start, both.end..lacking.end]
                    .into_iter()
                    .filter(|rest| !rest.is_empty()),
            );
        }
        self.lacking = left;
        if new {
            (self.last_received_at, self.denials) = (now, 0);
            // Pieces come in order: after the last one no other is in flight.
            self.retry.restart(now, came.end == self.asked.end);
        }
    }

    pub(in crate::session) fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.lacking
            .is_empty()
            .then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn question(rank: u16, bytes: Range<u64>) -> Fetch {
        Fetch {
            rank: Rank(rank),
            bytes,
            attempt: 1,
            blamed: Rank::ROOT,
        }
    }

    fn sent(answering: &mut Answering, now: Instant) -> Vec<(u16, u64, usize)> {
        let pieces = std::iter::from_fn(|| answering.poll(now, false));
        pieces
            .map(|(rank, piece)| (rank.0, piece.from, piece.bytes.len()))
            .collect()
    }

    #[test]
    fn each_requester_has_its_newest_request_queued_and_gets_a_turn() {
        let idle = Instant::START + Duration::from_secs(1);
        let mut answering = Answering::default();
        (0..1000).for_each(|at| answering.request(&question(1, at..at + 100)));
        answering.request(&question(2, 50..60));
        assert_eq!(answering.next(), Some(&question(1, 999..1099)));
        answering.supply(Rank(2), 50, &[0; 10], 40);
        answering.supply(Rank(1), 998, &[0; 100], 40);
        assert_eq!(
            answering.poll(idle, true),
            None,
            "it was not what is to be answered next"
        );
        answering.supply(Rank(1), 999, &[7; 100], 40);
        answering.request(&question(1, 1039..1099));
        assert_eq!(answering.next(), None, "one answer at a time");
        assert_eq!(
            sent(&mut answering, idle),
            [(1, 999, 40), (1, 1039, 40), (1, 1079, 20)]
        );
        answering.request(&question(1, 0..9));
        assert_eq!(
            answering.next(),
            Some(&question(2, 50..60)),
            "whoever was answered stands at the end again"
        );
        assert_eq!(answering.wanted(), Some((Rank(2), 50..60)));
        answering.deny(Rank(2), 50);
        assert_eq!(
            answering.poll(idle, false),
            Some((Rank(2), FetchedPiece::denial(50)))
        );
        answering.retain(|rank| rank == Rank(2));
        assert_eq!(answering.next(), None);
    }

    #[test]
    fn large_replies_are_split_so_that_all_requesters_get_something() {
        let idle = Instant::START + Duration::from_secs(1);
        let mut answering = Answering::default();
        let most = 2 * SHARE_BYTES + 10;
        (1..4).for_each(|rank| answering.request(&question(rank, 0..most)));
        let mut served = Vec::new();
        while let Some((rank, bytes)) = answering.wanted() {
            answering.supply(
                rank,
                bytes.start,
                &vec![0; (bytes.end - bytes.start) as usize],
                1 << 16,
            );
            // A repeated request gets no second reply.
            answering.request(&question(rank.0, bytes.start..most));
            served.extend(sent(&mut answering, idle));
        }
        let turns = |from: u64, bytes: u64| (1..4).map(move |rank| (rank, from, bytes as usize));
        let all = turns(0, SHARE_BYTES)
            .chain(turns(SHARE_BYTES, SHARE_BYTES))
            .chain(turns(2 * SHARE_BYTES, 10));
        assert_eq!(served, all.collect::<Vec<_>>());
    }

    #[test]
    fn a_round_through_a_crowd_is_no_longer_than_one_through_few() {
        let mut answering = Answering::default();
        for crowd in [8, 16, 200] {
            (1..=crowd).for_each(|rank| answering.request(&question(rank, 0..1 << 16)));
            let round_bytes: u64 = (1..=crowd)
                .map(|rank| {
                    let (asking, bytes) = answering.wanted().expect("it asks");
                    assert_eq!((asking, bytes.start), (Rank(rank), 0));
                    let length = bytes.end - bytes.start;
                    answering.supply(asking, 0, &vec![0; length as usize], 1 << 16);
                    sent(&mut answering, Instant::START + Duration::from_secs(1));
                    length
                })
                .sum();
            assert_eq!(
                round_bytes,
                ROUND_BYTES.max(u64::from(crowd) * MIN_SHARE_BYTES)
            );
            answering.retain(|_| false);
        }
    }

    #[test]
    fn the_last_bytes_that_a_number_can_name_are_a_portion_like_others() {
        let mut answering = Answering::default();
        let most = u64::MAX - 2 * SHARE_BYTES;
        answering.request(&question(1, most..u64::MAX));
        assert_eq!(
            answering.wanted(),
            Some((Rank(1), most..most + SHARE_BYTES))
        );
        answering.request(&question(1, u64::MAX - 7..u64::MAX));
        assert_eq!(answering.wanted(), Some((Rank(1), u64::MAX - 7..u64::MAX)));
    }

    #[test]
    fn answers_take_a_fifth_of_the_link_while_there_is_data_and_all_of_it_when_there_is_none() {
        let mut answering = Answering::default();
        answering.request(&question(1, 0..4000));
        answering.supply(Rank(1), 0, &[1; 4000], 100);
        let at = |micros: u64| Instant::START + Duration::from_micros(1000 + micros);
        let mut pieces = 0;
        for frame in 0..100 {
            answering.main_sent(at(frame));
            pieces += u32::from(answering.poll(at(frame), false).is_some());
        }
        assert_eq!(pieces, 25, "for each four frames one");
        assert_eq!(answering.poll(at(100), false), None);
        assert_eq!(answering.free_at(at(100)), Some(at(99 + 5000)));
        assert_eq!(sent(&mut answering, at(99 + 5000)).len(), 15);
    }
}

#[cfg(test)]
mod asking_tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(bytes: Range<u64>, end: u64) -> FetchedPiece {
        FetchedPiece {
            from: bytes.start,
            end,
            bytes: bytes.map(|at| at as u8).collect(),
        }
    }

    #[test]
    fn a_detected_loss_is_requested_again_at_once_and_an_undetected_one_with_growing_pauses() {
        let at = |millis: u64| Instant::START + Duration::from_millis(millis);
        let mut asking = Asking::new(at(0), &(1000..1_000_000));
        assert_eq!(
            asking.poll(at(0)),
            Some(1000..1000 + MAX_FETCH_BYTES),
            "so many at a time"
        );
        let mut asking = Asking::new(at(0), &(1000..2000));
        let asked: Vec<u64> = (0..4000)
            .filter(|&millis| asking.poll(at(millis)).is_some())
            .collect();
        let evenly = (0..24)
            .map(|time| 300 + 160 * time)
            .filter(|&millis| millis < 4000);
        assert_eq!(
            asked,
            [0, 20, 60, 140]
                .into_iter()
                .chain(evenly)
                .collect::<Vec<u64>>(),
            "milliseconds"
        );
        asking.take(at(4000), &piece(1000..1200, 2000));
        asking.take(at(4000), &piece(1500..2000, 2000));
        assert_eq!(
            asking.poll(at(4000)),
            Some(1200..1500),
            "the last has come: nothing else is on its way"
        );
        assert_eq!(
            (asking.poll(at(4019)), asking.silence(at(4019))),
            (None, Duration::from_millis(19))
        );
        asking.take(at(4020), &piece(1600..1700, 2000));
        asking.take(
            at(4020),
            &FetchedPiece {
                bytes: vec![9; 500],
                ..piece(1200..1201, 2000)
            },
        );
        assert_eq!(
            asking.take_bytes(),
            None,
            "the one was there, the other is not what it says"
        );
        asking.take(at(4020), &piece(1200..1500, 1500));
        assert_eq!((asking.poll(at(9000)), asking.again_at()), (None, None));
        assert_eq!(
            asking.take_bytes(),
            Some((1000..2000).map(|at| at as u8).collect())
        );
    }

    #[test]
    fn a_refusal_counts_only_if_it_replies_to_a_request() {
        let mut asking = Asking::new(Instant::START, &(10..20));
        asking.poll(Instant::START);
        [9, 10, 20]
            .into_iter()
            .for_each(|from| asking.take(Instant::START, &FetchedPiece::denial(from)));
        assert_eq!(asking.denials(), 1);
    }

    proptest! {
        #[test]
        fn fetched_bytes_are_right_in_any_order_of_arrival(
            pieces in prop::collection::vec((90..220u64, 0..60u64, 90..230u64), 0..60),
        ) {
            let mut asking = Asking::new(Instant::START, &(100..200));
            let mut now = Instant::START;
            for (from, length, end) in pieces {
                now += Duration::from_secs(2);
                let asked = asking.poll(now);
                asking.take(now, &piece(from..from + length, end));
                prop_assert!(asked.is_none_or(|asked| 100 <= asked.start && asked.end <= 200));
            }
            for _ in 0..200 {
                now += Duration::from_secs(2);
                let Some(asked) = asking.poll(now) else { break };
                let end = asked.end;
                asking.take(now, &piece(asked, end));
            }
            prop_assert_eq!(asking.take_bytes(), Some((100..200).map(|at| at as u8).collect()));
        }
    }
}
