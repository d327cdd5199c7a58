//! Pending replies to members' liveness challenges.

use super::RootEndpoint;
use crate::session::message::{Challenge, Message};
use crate::session::view::View;
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Minimum time between batches of replies. Control messages precede data, so this bounds the link
/// share that forged challenges can take.
pub(super) const REPLY_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of unicast replies in a batch: a thousand simultaneous challenges are answered
/// within their period.
const ALONE_AT_ONCE: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct LivenessReplies {
    questions: BTreeMap<Rank, Challenge>,
    order: VecDeque<Rank>,
}

impl LivenessReplies {
    pub(super) fn on_challenge(&mut self, rank: Rank, question: Challenge) {
        if self.questions.insert(rank, question).is_none() {
            self.order.push_back(rank);
        }
    }

    /// Sends replies: some by unicast, and as many as fit into one frame to the group. Returns
    /// whether challenges remain.
    pub(super) fn send_replies(&mut self, view: &View, endpoint: &mut RootEndpoint) -> bool {
        let fitting = usize::from(endpoint.config().station.payload_bytes()) / size_of::<u64>();
        let (mut to_all, mut alone) = (Vec::new(), 0);
        while to_all.len() < fitting
            && alone < ALONE_AT_ONCE
            && let Some(rank) = self.order.pop_front()
        {
            let Some(question) = self.questions.remove(&rank) else { continue };
            if question.is_for_all() {
                to_all.push(question.word);
            } else {
                alone += 1;
                endpoint.send(view.members[rank.index()].mac, &Message::Response(vec![question.word]));
            }
        }
        if !to_all.is_empty() {
            endpoint.send_to_group(&Message::Response(to_all));
        }
        !self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::RootConfig;
    use super::*;
    use crate::membership::Station;
    use crate::session::view::tests::chain;
    use ethbcast_transport::wire::{OVERHEAD_BYTES, parse};
    use ethbcast_transport::{Instant, MacAddr};

    const MTU_BYTES: u16 = 1500;

    fn said(proofs: &mut LivenessReplies, members: u16) -> (Vec<(bool, Vec<u64>)>, bool) {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), MTU_BYTES);
        let mut endpoint = RootEndpoint::new(RootConfig::new(station.clone(), 1, "file"), station, 1, Rank::ROOT);
        let waits = proofs.send_replies(&chain(members), &mut endpoint);
        let mut buffer = [0; MTU_BYTES as usize + OVERHEAD_BYTES];
        let frames = std::iter::from_fn(|| {
            let length = endpoint.poll_transmit(Instant::START, &mut buffer)?;
            let frame = parse(&buffer[..length]).expect("an own frame");
            match Message::decode(frame.header.kind, frame.payload) {
                Some(Message::Response(words)) => Some((buffer[0] & 1 == 1, words)),
                other => panic!("{other:?}"),
            }
        });
        (frames.collect(), waits)
    }

    #[test]
    fn all_who_have_asked_are_answered_and_whoever_asks_by_the_thousand_gets_few_answers() {
        let mut proofs = LivenessReplies::default();
        let of = |word, unanswered| Challenge { word, unanswered };
        for time in 0..10_000 {
            proofs.on_challenge(Rank(1), of(time, 255));
        }
        proofs.on_challenge(Rank(2), of(7, 2));
        proofs.on_challenge(Rank(3), of(8, 0));
        assert_eq!(said(&mut proofs, 4), (vec![(false, vec![8]), (true, vec![9999, 7])], false));
        assert_eq!(said(&mut proofs, 4), (vec![], false));
    }

    #[test]
    fn of_a_thousand_all_have_their_turn() {
        for unanswered in [0, 2] {
            let mut proofs = LivenessReplies::default();
            let (mut left, mut rounds) = (900, 0);
            (1..=1000).for_each(|rank| proofs.on_challenge(Rank(rank), Challenge { word: rank.into(), unanswered }));
            while left > 0 {
                // The members that were answered first go on asking.
                (1..=100).for_each(|rank| proofs.on_challenge(Rank(rank), Challenge { word: rank.into(), unanswered }));
                let words = said(&mut proofs, 1001).0.into_iter().flat_map(|(_, words)| words);
                left -= words.filter(|&word| word > 100).count().min(left);
                rounds += 1;
            }
            assert!(rounds < 100, "{rounds}");
        }
    }
}
