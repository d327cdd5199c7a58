//! Periodic frames by which the sender distributes the list of members and shows that it is alive.

use crate::session::message::{Challenge, Digest, Message, ViewPart};
use crate::session::root::config::RootEndpoint;
use crate::session::view::View;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{MacAddr, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Number of repetitions after which the view also goes to unconfirmed members by unicast, as group
/// frames may not reach them.
const TIMES_TO_ALL: u32 = 3;

const MAX_PUT_OFF: u32 = 20;

const MAX_ALONE: usize = 4;

/// The view as it was published. Later changes go into the next view, never under this epoch.
#[derive(Clone, Debug, Default)]
pub struct ViewAnnouncement {
    parts: Vec<ViewPart>,
    times: u32,
    put_off: u32,
    deaf: BTreeSet<MacAddr>,
}

impl ViewAnnouncement {
    pub fn begin(&mut self, view: &View, payload_bytes: usize) {
        (self.parts, self.times, self.put_off) = (view.parts(payload_bytes).collect(), 0, 0);
    }

    pub fn does_not_reach(&mut self, mac: MacAddr) {
        self.deaf.insert(mac);
    }

    pub fn deaf(&self) -> impl Iterator<Item = MacAddr> + use<> {
        self.deaf.clone().into_iter()
    }

    pub fn digest(&self) -> Digest {
        self.parts.first().map_or([0; 32], |part| part.digest)
    }

    /// Whether to postpone a repetition because parts of the view may still be in the send queue;
    /// repeating would only lengthen the queue of a slow link. Limited to [`MAX_PUT_OFF`] times, as
    /// other messages may keep the queue as long.
    pub fn put_off(&mut self, endpoint: &RootEndpoint) -> bool {
        let waits = endpoint.waiting_frames() > self.parts.len() && self.put_off < MAX_PUT_OFF;
        self.put_off = if waits { self.put_off + 1 } else { 0 };
        waits
    }

    /// Sends the view's parts, starting with another part each time in case the last of a burst are
    /// always lost. `lacking` are the members that have not confirmed it.
    pub fn send(&mut self, lacking: impl Iterator<Item = MacAddr>, endpoint: &mut RootEndpoint) {
        let (before, from) = self
            .parts
            .split_at(self.times as usize % self.parts.len().max(1));
        let most = if planted!("quadratic-views") {
            usize::MAX
        } else if self.times < TIMES_TO_ALL {
            0
        } else {
            MAX_ALONE
        };
        let alone: Vec<MacAddr> = lacking.take(most).collect();
        for part in from.iter().chain(before) {
            let message = Message::View(part.clone());
            endpoint.send_to_group(&message);
            alone.iter().for_each(|&mac| endpoint.send(mac, &message));
        }
        self.times += 1;
    }
}

/// Minimum time between batches of replies. Control messages precede data, so this bounds the link
/// share that forged challenges can take.
pub const REPLY_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of unicast replies in a batch: a thousand simultaneous challenges get replies
/// within their period.
const MAX_REPLIES_ALONE: usize = 32;

#[derive(Clone, Debug, Default)]
pub struct LivenessReplies {
    questions: BTreeMap<Rank, Challenge>,
    order: VecDeque<Rank>,
}

impl LivenessReplies {
    pub fn on_challenge(&mut self, rank: Rank, question: Challenge) {
        if self.questions.insert(rank, question).is_none() {
            self.order.push_back(rank);
        }
    }

    pub fn send_replies(&mut self, view: &View, endpoint: &mut RootEndpoint) -> bool {
        let fitting = endpoint.control_bytes() / size_of::<u64>();
        let (mut to_all, mut alone) = (Vec::new(), 0);
        while to_all.len() < fitting
            && alone < MAX_REPLIES_ALONE
            && let Some(rank) = self.order.pop_front()
        {
            let Some(question) = self.questions.remove(&rank) else {
                continue;
            };
            if question.is_for_all() {
                to_all.push(question.word);
            } else {
                alone += 1;
                endpoint.send(
                    view.members[rank.index()].mac,
                    &Message::Response(vec![question.word]),
                );
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
    use super::*;
    use crate::membership::Station;
    use crate::session::root::config::RootConfig;
    use crate::session::view::tests::chain;
    use ethbcast_transport::wire::{OVERHEAD_BYTES, parse};
    use ethbcast_transport::{Instant, MacAddr};

    const MTU_BYTES: u16 = 1500;

    fn said(replies: &mut LivenessReplies, members: u16) -> (Vec<(bool, Vec<u64>)>, bool) {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), MTU_BYTES);
        let mut endpoint = RootEndpoint::new(
            RootConfig::new(station.clone(), 1, "file"),
            station,
            1,
            Rank::ROOT,
            None,
        );
        let waits = replies.send_replies(&chain(members), &mut endpoint);
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
    fn all_challenges_are_answered_and_a_flood_of_them_gets_few_replies() {
        let mut replies = LivenessReplies::default();
        let of = |word, unanswered| Challenge { word, unanswered };
        for time in 0..10_000 {
            replies.on_challenge(Rank(1), of(time, 255));
        }
        replies.on_challenge(Rank(2), of(7, 2));
        replies.on_challenge(Rank(3), of(8, 0));
        assert_eq!(
            said(&mut replies, 4),
            (vec![(false, vec![8]), (true, vec![9999, 7])], false)
        );
        assert_eq!(said(&mut replies, 4), (vec![], false));
    }

    #[test]
    fn all_of_a_thousand_members_get_a_turn() {
        for unanswered in [0, 2] {
            let mut replies = LivenessReplies::default();
            let (mut left, mut rounds) = (900, 0);
            (1..=1000).for_each(|rank| {
                replies.on_challenge(
                    Rank(rank),
                    Challenge {
                        word: rank.into(),
                        unanswered,
                    },
                )
            });
            while left > 0 {
                // Members that got the first replies send further challenges.
                (1..=100).for_each(|rank| {
                    replies.on_challenge(
                        Rank(rank),
                        Challenge {
                            word: rank.into(),
                            unanswered,
                        },
                    )
                });
                let words = said(&mut replies, 1001)
                    .0
                    .into_iter()
                    .flat_map(|(_, words)| words);
                left -= words.filter(|&word| word > 100).count().min(left);
                rounds += 1;
            }
            assert!(rounds < 100, "{rounds}");
        }
    }
}
