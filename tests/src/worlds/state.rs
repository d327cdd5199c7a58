//! The state of a whole world: the state of each host, the frames in flight, the time.

use super::locals::{FrameId, LocalId};
use ethbcast_transport::Instant;
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) const MAX_HOSTS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) hosts: [LocalId; MAX_HOSTS],
    gone: u8,
    pub(super) deaths: u8,
    /// Frames in flight: sender, receiver, frame; grouped by these two, in order of arrival.
    flight: Vec<(u8, u8, FrameId)>,
}

impl State {
    pub(super) fn new(now: Instant, hosts: [LocalId; MAX_HOSTS]) -> State {
        State { now, hosts, gone: 0, deaths: 0, flight: Vec::new() }
    }

    pub(super) fn is_gone(&self, host: usize) -> bool {
        self.gone & 1 << host != 0
    }

    pub(super) fn ways(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let way = |at: usize| (self.flight[at].0, self.flight[at].1);
        (0..self.flight.len()).filter(move |&at| at == 0 || way(at) != way(at - 1)).map(way)
    }

    pub(super) fn first(&self, from: u8, to: u8) -> Option<FrameId> {
        self.flight.get(self.place(from, to)).filter(|one| (one.0, one.1) == (from, to)).map(|one| one.2)
    }

    pub(super) fn take(&mut self, from: u8, to: u8) -> Option<FrameId> {
        self.first(from, to)?;
        Some(self.flight.remove(self.place(from, to)).2)
    }

    pub(super) fn send(&mut self, from: u8, to: u8, frame: FrameId) {
        if !self.is_gone(usize::from(to)) {
            let end = self.flight.partition_point(|one| (one.0, one.1) <= (from, to));
            self.flight.insert(end, (from, to, frame));
        }
    }

    pub(super) fn remove(&mut self, host: u8, left: LocalId) {
        self.gone |= 1 << host;
        self.hosts[usize::from(host)] = left;
        self.flight.retain(|one| one.1 != host);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flight.is_empty()
    }

    fn place(&self, from: u8, to: u8) -> usize {
        self.flight.partition_point(|one| (one.0, one.1) < (from, to))
    }

    /// Hashes the state with `also`. Different states collide with a probability of one in 2⁶⁴.
    pub(super) fn print(&self, also: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self, also).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn pack(&self, words: &mut Vec<u32>) {
        let now = self.now.as_nanos();
        words.extend([(now >> 32) as u32, now as u32]);
        words.extend(self.hosts);
        words.push(u32::from(self.gone) << 24 | u32::from(self.deaths) << 16 | self.flight.len() as u32);
        words.extend(self.flight.iter().flat_map(|&(from, to, frame)| [u32::from(from) << 8 | u32::from(to), frame]));
    }

    pub(super) fn unpack(words: &mut impl Iterator<Item = u32>) -> Option<State> {
        let mut next = || words.next();
        let now = Instant::from_nanos(u64::from(next()?) << 32 | u64::from(next()?));
        let hosts = [next()?, next()?, next()?, next()?];
        let head = next()?;
        let frame = |_| {
            let (way, frame) = (next()?, next()?);
            Some(((way >> 8) as u8, way as u8, frame))
        };
        let flight = (0..head & 0xFFFF).map(frame).collect::<Option<_>>()?;
        Some(State { now, hosts, gone: (head >> 24) as u8, deaths: (head >> 16) as u8, flight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_order_on_a_way_and_a_packed_state_is_the_same() {
        let mut state = State::new(Instant::from_nanos(5 << 40), [7, 8, 9, 0]);
        for (from, to, frame) in [(1, 2, 10), (0, 1, 11), (1, 2, 12), (2, 1, 13)] {
            state.send(from, to, frame);
        }
        assert_eq!(state.ways().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 1)]);
        let mut words = Vec::new();
        state.pack(&mut words);
        assert_eq!(State::unpack(&mut words.into_iter()).as_ref(), Some(&state));
        assert_eq!((state.take(1, 2), state.first(1, 2), state.take(0, 2)), (Some(10), Some(12), None));
        state.remove(1, 5);
        state.send(0, 1, 14);
        assert_eq!(
            (state.ways().collect::<Vec<_>>(), state.is_gone(1), state.hosts),
            (vec![(1, 2)], true, [7, 5, 9, 0])
        );
    }
}
