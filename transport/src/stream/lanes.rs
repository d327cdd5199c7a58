//! List of all receivers that a host serves by unicast, each in its turn.

use super::boundaries::Boundaries;
use super::lane::Lane;
use super::readers::{
    AckContext, AckFrom, Departure, Frontier, ReaderState, Readers, Sending, Trouble,
};
use super::terms::Memory;
use crate::arq::stamp::Stamps;
use crate::feed::Feed;
use crate::machine::Deadline;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Peer, Rank};

/// Lanes of all children. `turns` has them in the order of service: first the child in the middle
/// of a segment, because sharing the link would only delay both; then the one furthest behind, in
/// sending order. The turns are in order for `sorted` boundaries.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    turns: Vec<usize>,
    sorted: Option<u64>,
}

impl Lanes {
    pub(super) fn new(children: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Lanes {
        let lanes: Vec<Lane> = children
            .iter()
            .map(|&child| Lane::new(child, feed, tuning))
            .collect();
        Lanes {
            turns: (0..lanes.len()).collect(),
            lanes,
            sorted: None,
        }
    }

    pub(super) fn alone(child: Peer, feed: &mut Feed, tuning: &Tuning) -> Lanes {
        Lanes {
            lanes: vec![Lane::alone(child, feed, tuning)],
            turns: vec![0],
            sorted: None,
        }
    }

    fn key(&self, at: usize, boundaries: &Boundaries) -> (bool, u64, usize) {
        let next = self.lanes[at].next;
        (boundaries.ends_at(next), next, at)
    }

    fn sort(&mut self, boundaries: &Boundaries) {
        if self.sorted.replace(boundaries.added) != Some(boundaries.added) && self.lanes.len() > 1 {
            let mut turns = std::mem::take(&mut self.turns);
            turns.sort_by_key(|&at| self.key(at, boundaries));
            self.turns = turns;
        }
    }

    fn move_on(&mut self, place: usize, boundaries: &Boundaries) {
        if self.turns.len() > 1 {
            let at = self.turns.remove(place);
            let key = self.key(at, boundaries);
            let place = self
                .turns
                .partition_point(|&other| self.key(other, boundaries) < key);
            self.turns.insert(place, at);
        }
    }

    fn held_up_by(&self, feed: &Feed) -> Option<Rank> {
        let full = feed.head() == feed.limit();
        let holds_up = |lane: &&Lane| !full || feed.position(lane.reader) == feed.tail();
        let waiting = |lane: &Lane| Some((lane.waiting_since(feed)?, lane.peer.rank));
        self.lanes
            .iter()
            .filter(holds_up)
            .filter_map(waiting)
            .min()
            .map(|(_, rank)| rank)
    }

    /// Returns the last child if it is well behind the others. If all are alike, the link from here
    /// is the limit.
    fn blocking_child(&self, feed: &Feed) -> Option<Rank> {
        let position = |lane: &&Lane| feed.position(lane.reader);
        let (last, first) = (
            self.lanes.iter().min_by_key(position)?,
            self.lanes.iter().map(|lane| position(&lane)).max()?,
        );
        let behind = self.lanes.len() == 1 || position(&last) + feed.slots() / 4 <= first;
        behind.then_some(last.peer.rank)
    }
}

impl Readers for Lanes {
    fn boxed(&self) -> Box<dyn Readers> {
        Box::new(self.clone())
    }

    fn on_ack(&mut self, context: AckContext<'_>) -> AckFrom {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.peer == context.from) else {
            return AckFrom::NonMember;
        };
        let next = lane.next;
        let heard = lane.on_ack(context);
        self.sorted.take_if(|_| lane.next != next);
        heard
    }

    fn on_data(
        &mut self,
        _now: Instant,
        sequence: u64,
        late: bool,
        feed: &mut Feed,
        _boundaries: &Boundaries,
    ) {
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.on_data(sequence, late, feed));
    }

    fn on_timeout(&mut self, now: Instant, _feed: &Feed) {
        self.lanes.iter_mut().for_each(|lane| lane.on_timeout(now));
    }

    fn poll_timeout(
        &self,
        _now: Instant,
        _feed: &Feed,
        _boundaries: &Boundaries,
    ) -> Option<Deadline> {
        self.lanes.iter().filter_map(Lane::due).min()
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        self.sort(boundaries);
        let mut turn = true;
        for place in 0..self.turns.len() {
            let lane = &mut self.lanes[self.turns[place]];
            if let Some(departure) = lane.poll_transmit(now, turn, feed, boundaries, stamps) {
                self.move_on(place, boundaries);
                return Some(departure);
            }
            turn = turn && !lane.is_pausing(feed, boundaries);
        }
        None
    }

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.lanes.iter().all(|lane| lane.peer.rank != peer.rank) {
            self.turns.push(self.lanes.len());
            self.lanes.push(Lane::graft(now, peer, feed, tuning));
            self.sorted = None;
        }
    }

    fn remove(&mut self, _now: Instant, rank: Rank, feed: &mut Feed) {
        if let Some(at) = self.lanes.iter().position(|lane| lane.peer.rank == rank) {
            let reader = self.lanes.remove(at).reader;
            if !planted!("dead-childs-cursor-kept") {
                feed.remove_reader(reader);
            }
            self.turns = (0..self.lanes.len()).collect();
            self.sorted = None;
        }
    }

    fn states(&self, feed: &Feed) -> Vec<ReaderState> {
        self.lanes.iter().map(|lane| lane.state(feed)).collect()
    }

    fn frontier(&self) -> Frontier {
        let least = |of: fn(&Lane) -> u64| self.lanes.iter().map(of).min().unwrap_or(u64::MAX);
        // A lane speaks for its child alone: this host can adopt the child's children as long as
        // it keeps what they need.
        Frontier {
            below: least(|lane| lane.cursor),
            consumed: least(|lane| lane.consumed),
            limit: u64::MAX,
        }
    }

    fn blamed(&self, now: Instant, feed: &Feed, trouble: Trouble) -> Option<Rank> {
        match trouble {
            Trouble::HeldUp => self.held_up_by(feed),
            Trouble::Crowded => self.blocking_child(feed),
            Trouble::Mute => self
                .lanes
                .iter()
                .find(|lane| lane.is_mute(now, feed))
                .map(|lane| lane.peer.rank),
        }
    }

    fn sending(&self, feed: &Feed, boundaries: &Boundaries) -> Sending {
        Sending {
            halfway: self.lanes.iter().any(|lane| !boundaries.ends_at(lane.next)),
            next: self
                .lanes
                .iter()
                .map(|lane| lane.next)
                .min()
                .unwrap_or(u64::MAX),
            pausing: self
                .lanes
                .iter()
                .any(|lane| lane.is_pausing(feed, boundaries)),
        }
    }

    fn memory(&self) -> Memory {
        let places =
            self.lanes.capacity() * size_of::<Lane>() + self.turns.capacity() * size_of::<usize>();
        let own = Memory {
            readers_bytes: places,
            ..Memory::default()
        };
        self.lanes
            .iter()
            .map(Lane::memory)
            .fold(own, |sum, one| sum + one)
    }
}
