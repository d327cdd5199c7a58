//! The children of one host, each served by unicast, in turns.

use super::boundaries::Boundaries;
use super::lane::Lane;
use super::memory::Memory;
use super::outgoing::{AckFrom, Departure};
use super::readers::Readers;
use super::terms::Flight;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer, Rank};

#[derive(Clone, Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Lanes in the order of service: first the child in the middle of a segment, as sharing the
    /// link would only delay both; then the one furthest behind, in sending order.
    turns: Vec<usize>,
    sorted: bool,
}

impl Lanes {
    pub(super) fn new(children: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Lanes {
        let lanes: Vec<Lane> = children.iter().map(|&child| Lane::new(child, feed, tuning)).collect();
        Lanes { turns: (0..lanes.len()).collect(), lanes, sorted: false }
    }

    pub(super) fn alone(child: Peer, feed: &mut Feed, tuning: &Tuning) -> Lanes {
        Lanes { lanes: vec![Lane::alone(child, feed, tuning)], turns: vec![0], sorted: true }
    }

    fn key(&self, at: usize, boundaries: &Boundaries) -> (bool, u64, usize) {
        let next = self.lanes[at].next();
        (boundaries.ends_at(next), next, at)
    }

    fn sort(&mut self, boundaries: &Boundaries) {
        if !std::mem::replace(&mut self.sorted, true) && self.lanes.len() > 1 {
            let mut turns = std::mem::take(&mut self.turns);
            turns.sort_by_key(|&at| self.key(at, boundaries));
            self.turns = turns;
        }
    }

    fn move_on(&mut self, place: usize, boundaries: &Boundaries) {
        if self.turns.len() > 1 {
            let at = self.turns.remove(place);
            let key = self.key(at, boundaries);
            let place = self.turns.partition_point(|&other| self.key(other, boundaries) < key);
            self.turns.insert(place, at);
        }
    }
}

impl Readers for Lanes {
    fn boxed(&self) -> Box<dyn Readers> {
        Box::new(self.clone())
    }

    fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        _boundaries: &Boundaries,
    ) -> AckFrom {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.peer() == from) else { return AckFrom::Stranger };
        let next = lane.next();
        let heard = lane.on_ack(now, ack, feed, newest);
        self.sorted &= lane.next() == next;
        heard
    }

    fn on_data(&mut self, _now: Instant, sequence: u64, late: bool, feed: &mut Feed, _boundaries: &Boundaries) {
        self.lanes.iter_mut().for_each(|lane| lane.on_data(sequence, late, feed));
    }

    fn on_boundary(&mut self) {
        self.sorted = false;
    }

    fn on_timeout(&mut self, now: Instant, _feed: &Feed) {
        self.lanes.iter_mut().for_each(|lane| lane.on_timeout(now));
    }

    fn due(&self, _now: Instant) -> Option<Instant> {
        self.lanes.iter().filter_map(Lane::due).min()
    }

    fn poll(&mut self, now: Instant, feed: &Feed, boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure> {
        self.sort(boundaries);
        let mut turn = true;
        for place in 0..self.turns.len() {
            let lane = &mut self.lanes[self.turns[place]];
            if let Some(departure) = lane.poll(now, turn, feed, boundaries, stamps) {
                self.move_on(place, boundaries);
                return Some(departure);
            }
            turn = turn && !lane.is_pausing(feed, boundaries);
        }
        None
    }

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.lanes.iter().all(|lane| lane.peer().rank != peer.rank) {
            self.turns.push(self.lanes.len());
            self.lanes.push(Lane::graft(now, peer, feed, tuning));
            self.sorted = false;
        }
    }

    fn remove(&mut self, _now: Instant, rank: Rank, feed: &mut Feed) {
        if let Some(at) = self.lanes.iter().position(|lane| lane.peer().rank == rank) {
            let reader = self.lanes.remove(at).reader();
            if !planted!("dead-childs-cursor-kept") {
                feed.remove_reader(reader);
            }
            self.turns = (0..self.lanes.len()).collect();
            self.sorted = false;
        }
    }

    fn cursors(&self) -> Vec<(Rank, u64)> {
        self.lanes.iter().map(|lane| (lane.peer().rank, lane.cursor())).collect()
    }

    fn flights(&self) -> Vec<Flight> {
        self.lanes.iter().map(Lane::flight).collect()
    }

    /// A lane answers for its child alone: this host can adopt the child's children as long as it
    /// keeps what they need.
    fn below(&self) -> u64 {
        self.lanes.iter().map(Lane::cursor).min().unwrap_or(u64::MAX)
    }

    fn held_up_by(&self, feed: &Feed) -> Option<Rank> {
        let full = feed.head() == feed.limit();
        let holds_up = |lane: &&Lane| !full || feed.position(lane.reader()) == feed.tail();
        let waiting = |lane: &Lane| Some((lane.waiting_since(feed)?, lane.peer().rank));
        self.lanes.iter().filter(holds_up).filter_map(waiting).min().map(|(_, rank)| rank)
    }

    fn mute(&self, now: Instant, feed: &Feed) -> Option<Rank> {
        self.lanes.iter().find(|lane| lane.is_mute(now, feed)).map(|lane| lane.peer().rank)
    }

    fn turn_of(&self, rank: Rank, feed: &Feed) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.peer().rank == rank)?;
        lane.waiting_since(feed).is_none().then(|| lane.next())
    }

    /// Returns the last child if it is well behind the others. If all are alike, the link from here
    /// is the limit.
    fn crowded_by(&self, feed: &Feed) -> Option<Rank> {
        let position = |lane: &&Lane| feed.position(lane.reader());
        let (last, first) =
            (self.lanes.iter().min_by_key(position)?, self.lanes.iter().map(|lane| position(&lane)).max()?);
        let behind = self.lanes.len() == 1 || position(&last) + feed.slots() / 4 <= first;
        behind.then_some(last.peer().rank)
    }

    fn consumed(&self) -> u64 {
        self.lanes.iter().map(Lane::consumed).min().unwrap_or(u64::MAX)
    }

    fn have_been_sent(&self, head: u64) -> bool {
        self.lanes.iter().all(|lane| lane.next() >= head)
    }

    fn sending(&self, boundaries: &Boundaries) -> (bool, u64) {
        let halfway = self.lanes.iter().any(|lane| !boundaries.ends_at(lane.next()));
        (halfway, self.lanes.iter().map(Lane::next).min().unwrap_or(u64::MAX))
    }

    fn is_pausing(&self, feed: &Feed, boundaries: &Boundaries) -> bool {
        self.lanes.iter().any(|lane| lane.is_pausing(feed, boundaries))
    }

    fn memory(&self) -> Memory {
        let places = self.lanes.capacity() * size_of::<Lane>() + self.turns.capacity() * size_of::<usize>();
        let own = Memory { readers_bytes: places, ..Memory::default() };
        self.lanes.iter().map(Lane::memory).fold(own, |sum, one| sum + one)
    }
}
