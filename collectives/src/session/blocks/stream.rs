//! Setup of one stream at a host from the member list: its peers and its transport parameters.

use crate::membership::ack_tree::AckTree;
use crate::session::view::{Tree, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Identity, Peer, Rank};
use ethbcast_transport::{MacAddr, Policy, Tuning};
use std::time::Duration;

/// Longest delay of an acknowledgement under a rate limit.
const MAX_ACK_DELAY: Duration = Duration::from_millis(50);

pub(super) fn open(
    identity: Identity,
    group_mac: MacAddr,
    view: &View,
    tree: &Tree<'_>,
    tuning: &Tuning,
) -> Stream {
    let (rank, number) = (identity.rank, identity.stream);
    let outlet = outlet(rank, group_mac, view, tree);
    let payload_bytes = usize::from(view.payload_bytes);
    if rank == Rank::ROOT {
        return Stream::origin(identity, payload_bytes, &outlet, tuning.clone());
    }
    // A demoted member has only the root.
    let parent = view.peer(tree.parent(rank).unwrap_or(Rank::ROOT));
    let mut stream = Stream::receiver(identity, payload_bytes, parent, &outlet, tuning.clone());
    stream.set_origin(view.peer(Rank::ROOT));
    if let Some(frames) = frames(view) {
        stream.expect_last(
            Dealing::new(view).of_stream(usize::from(number.0 - FIRST_STREAM), frames),
        );
    }
    stream
}

pub(super) fn outlet(rank: Rank, group_mac: MacAddr, view: &View, tree: &Tree<'_>) -> Outlet {
    let children: Vec<Peer> = tree
        .children(rank)
        .into_iter()
        .map(|child| view.peer(child))
        .collect();
    match view.via {
        Via::Cast if rank == Rank::ROOT => Outlet::Cast {
            group: group_mac,
            listeners: children,
        },
        Via::Cast => Outlet::RepairChildren(children),
        _ => Outlet::Lanes(children),
    }
}

/// Number of frames before the trailer, if the size is known; all but the last one are full.
fn frames(view: &View) -> Option<u64> {
    Some(
        view.size
            .filter(|_| !view.selective)?
            .div_ceil(u64::from(view.payload_bytes.max(1))),
    )
}

/// Slots of the feed of a catch-up stream: enough for the link's rate over a round trip.
const ALONE_FRAMES: u64 = 512;

pub(in crate::session) fn alone(
    identity: Identity,
    view: &View,
    rank: Rank,
    first: u64,
    tuning: &Tuning,
) -> Stream {
    let mut tuning = with_policy(tuning, view);
    tuning.feed.frames = tuning.feed.frames.min(ALONE_FRAMES);
    let mut stream = Stream::origin_at(
        identity,
        usize::from(view.payload_bytes),
        first,
        view.peer(rank),
        tuning,
    );
    if let Some(last) = frames(view) {
        stream.expect_last(last);
    }
    stream
}

pub(super) fn received_alone(
    identity: Identity,
    view: &View,
    first: u64,
    tuning: &Tuning,
) -> Stream {
    let (payload_bytes, root) = (usize::from(view.payload_bytes), view.peer(Rank::ROOT));
    let nobody = Outlet::Lanes(Vec::new());
    let mut stream = Stream::receiver(
        identity,
        payload_bytes,
        root,
        &nobody,
        with_policy(tuning, view),
    );
    stream.begin_at(first);
    stream.set_origin(root);
    if let Some(last) = frames(view) {
        stream.expect_last(last);
    }
    stream
}

/// Slots of each feed if `streams` feeds together may take the memory of one.
pub(super) fn share_frames(tuning: &Tuning, streams: usize) -> u64 {
    let share = (tuning.feed.frames / streams as u64).max(64);
    1 << share.ilog2()
}

/// Longest block of the root in frames: a relay must hold it whole, in a feed like the root's own.
pub(in crate::session) fn most_block_frames(tuning: &Tuning, streams: usize) -> u64 {
    share_frames(tuning, streams) / 4
}

/// The host's own parameters, with those that the view decides for all: the policy, the paper's
/// window and acknowledgements if the policy is the paper's, and in a broadcast the ack intervals
/// for its number of members.
pub(super) fn tuned(own: &Tuning, view: &View, rank: Rank) -> Tuning {
    let tuning = with_policy(own, view);
    if view.via != Via::Cast {
        return tuning;
    }
    let receivers = view.members.len().saturating_sub(1);
    AckTree::new(receivers, view.policy).tuned(&tuning, rank.index().checked_sub(1))
}

pub(super) fn in_segments(own: &Tuning, view: &View, identity: &Identity) -> Tuning {
    let mut tuning = tuned(own, view, identity.rank);
    if let (Some(rate), true) = (view.rate, view.via != Via::Cast) {
        // A relay pays for its acknowledgements too: at a low rate one for each two frames would be
        // 2 % of it.
        let frame_bytes = u64::from(view.payload_bytes) + identity.guard.overhead_bytes() as u64;
        let often = rate.time_of(frame_bytes * tuning.ack.every_frames);
        tuning.ack.delay = often.clamp(tuning.ack.delay, MAX_ACK_DELAY.max(tuning.ack.delay));
    }
    tuning.feed.segment_frames = u64::from(view.segment_frames.max(1));
    tuning
}

fn with_policy(own: &Tuning, view: &View) -> Tuning {
    let push_frames = view.push_frames.map(u64::from);
    match view.policy {
        Policy::HolesAllowed => Tuning {
            policy: view.policy,
            ..own.clone()
        }
        .with_push_frames(push_frames),
        Policy::InOrderOnly => {
            let paper = if push_frames.is_some() {
                Tuning::push_pull()
            } else {
                Tuning::paper()
            };
            let mut tuning = own.clone();
            let tolerated = tuning.window.loss_tolerated_percent;
            (tuning.policy, tuning.window) = (paper.policy, paper.window);
            tuning.window.loss_tolerated_percent = tolerated;
            tuning.ack.every_frames = paper.ack.every_frames;
            tuning.designated.every_frames = paper.designated.every_frames;
            tuning.with_push_frames(push_frames)
        }
    }
}

pub(in crate::session) const FIRST_STREAM: u16 = 1;

/// Flag in the stream number of a catch-up stream.
pub(in crate::session) const CATCH_UP: u16 = 0x4000;

/// Round-robin distribution of frames: a block of consecutive frames to each stream in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Dealing {
    streams: u64,
    block_frames: u64,
}

impl Dealing {
    pub(in crate::session) fn new(view: &View) -> Dealing {
        if !view.via.is_in_blocks() {
            return Dealing::single();
        }
        let streams = view.via.trees(view.members.len()) as u64;
        Dealing {
            streams,
            block_frames: u64::from(view.segment_frames.max(1)),
        }
    }

    pub(in crate::session) fn single() -> Dealing {
        Dealing {
            streams: 1,
            block_frames: u64::MAX,
        }
    }

    pub(in crate::session) fn block_frames(self) -> u64 {
        self.block_frames
    }

    pub(in crate::session) fn in_whole(self, at: usize, sequence: u64) -> u64 {
        if self.streams == 1 {
            return sequence;
        }
        let (round, within) = (sequence / self.block_frames, sequence % self.block_frames);
        (round.saturating_mul(self.streams) + at as u64)
            .saturating_mul(self.block_frames)
            .saturating_add(within)
    }

    pub(in crate::session) fn place_of(self, whole: u64) -> (usize, u64) {
        let place = if self.streams == 1 {
            0
        } else {
            (whole / self.block_frames % self.streams) as usize
        };
        (place, self.of_stream(place, whole))
    }

    pub(in crate::session) fn of_stream(self, at: usize, whole: u64) -> u64 {
        if self.streams == 1 {
            return whole;
        }
        let round = self.streams * self.block_frames;
        let rest = (whole % round).saturating_sub(at as u64 * self.block_frames);
        whole / round * self.block_frames + rest.min(self.block_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::view::tests::chain;

    fn cast(receivers: u16) -> View {
        let mut view = chain(receivers + 1);
        view.via = Via::Cast;
        view
    }

    #[test]
    fn the_report_interval_depends_on_the_number_of_members_and_the_rank() {
        let own = Tuning::default();
        assert_eq!(tuned(&own, &cast(7), Rank(3)), own.for_cast(7, 2));
        assert_eq!(
            tuned(&own, &cast(100), Rank(1)),
            own.for_ack_tree(100, 10, 0)
        );
        let many = cast(1000);
        assert_eq!(tuned(&own, &many, Rank(13)), own.for_ack_tree(1000, 10, 2));
        assert_eq!(
            tuned(&own, &many, Rank::ROOT),
            own.for_ack_tree(1000, 10, 0)
        );
    }

    #[test]
    fn the_streams_of_any_view_can_be_created() {
        // A stream panics on invalid parameters, and a view comes off the wire.
        const POLICIES: [Policy; 2] = [Policy::HolesAllowed, Policy::InOrderOnly];
        let views = [0, 1, 16, 17, 32, 33, 128, 129, 1000, 20_000].map(cast);
        for (mut view, policy) in views
            .into_iter()
            .flat_map(|view| POLICIES.map(|policy| (view.clone(), policy)))
        {
            view.policy = policy;
            for push_frames in [None, Some(1), Some(u8::MAX)] {
                view.push_frames = push_frames;
                for rank in [0, 1, view.members.len() - 1].map(|rank| Rank(rank as u16)) {
                    let numbers = tuned(&Tuning::default(), &view, rank).check();
                    assert_eq!(
                        numbers,
                        Ok(()),
                        "{} members, {policy:?}, {push_frames:?}, {rank:?}",
                        view.members.len()
                    );
                }
            }
        }
    }

    #[test]
    fn a_view_of_the_papers_protocol_brings_its_numbers_and_leaves_the_feed_alone() {
        let own = Tuning::default().with_feed_frames(256);
        let mut view = chain(3);
        view.policy = Policy::InOrderOnly;
        assert_eq!(
            tuned(&own, &view, Rank(1)),
            Tuning::paper().with_feed_frames(256)
        );
        view.push_frames = Some(9);
        let mut pushing = Tuning::push_pull()
            .with_push_frames(Some(9))
            .with_feed_frames(256);
        // In a session all frames are as long as those that are pushed.
        pushing.cast.push_bytes = None;
        assert_eq!(tuned(&own, &view, Rank(1)), pushing);
    }
}

#[cfg(test)]
mod dealing_tests {
    use super::*;

    #[test]
    fn every_frame_of_the_whole_is_one_of_one_stream() {
        for (streams, block_frames) in [(1, u64::MAX), (3, 1), (4, 5), (7, 64)] {
            let dealing = Dealing {
                streams,
                block_frames,
            };
            let mut counts = vec![0; streams as usize];
            for whole in 0..1000 {
                let place = |at: usize| dealing.in_whole(at, counts[at]) == whole;
                let at = (0..counts.len())
                    .find(|&at| place(at))
                    .expect("it has been dealt to somebody");
                assert_eq!(dealing.place_of(whole), (at, counts[at]), "{dealing:?}");
                counts[at] += 1;
                let expected: Vec<u64> = (0..counts.len())
                    .map(|at| dealing.of_stream(at, whole + 1))
                    .collect();
                assert_eq!(counts, expected, "{dealing:?} after {whole}");
            }
        }
    }
}
