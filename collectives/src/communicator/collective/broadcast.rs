//! The collective broadcast: one rank's bytes go to all, along the route predicted to be fastest.

use super::transfer::{Reading, Writing};
use super::{Call, CallProgress, CallWork};
use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::member::{Group, Member, MessagePath, StreamName};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// A broadcast in progress.
pub type Broadcast = Call<BroadcastRole>;

#[derive(Clone, Debug)]
pub enum BroadcastRole {
    Root(Outgoing),
    Other(Incoming),
}

impl Broadcast {
    /// Begins to broadcast `bytes` bytes from `root`.
    ///
    /// # Errors
    /// If `root` is no rank, another collective is in progress on this rank, or the group has
    /// failed.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: Rank,
        bytes: usize,
    ) -> Result<Broadcast, CommunicatorError> {
        let signature = member
            .group()?
            .calls()
            .begin(now, Operation::Broadcast, root, bytes)?;
        let role = BroadcastRole::of(member.group()?, root, bytes);
        Ok(Call::new(signature, role))
    }

    /// Advances the call: from `buffer` at the root, which is done when everything is handed over
    /// for sending; into `buffer` elsewhere.
    ///
    /// # Errors
    /// If the group has failed.
    ///
    /// # Panics
    /// If the buffer's length differs from that given to `begin`.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(buffer);
        self.step(member, now, buffer)
    }
}

impl BroadcastRole {
    pub(super) fn of(group: &mut Group, root: Rank, bytes: usize) -> BroadcastRole {
        let (decision, size) = (group.streams().plans().decide(root, bytes), group.size());
        let name = StreamName::new(root, decision.way);
        if group.rank() == root {
            BroadcastRole::Root(Outgoing::new(name, bytes, size, decision.frame_bytes))
        } else {
            BroadcastRole::Other(Incoming::new(name, size))
        }
    }
}

impl CallWork for BroadcastRole {
    type Slices<'a> = &'a mut [u8];

    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        buffer: &mut [u8],
    ) -> Result<bool, Failure> {
        match self {
            // A group of one has no receivers.
            BroadcastRole::Root(_) if group.size() == 1 => Ok(true),
            BroadcastRole::Root(outgoing) => Ok(outgoing.advance(group, now, call, buffer)),
            BroadcastRole::Other(incoming) => incoming.advance(group, now, call, buffer),
        }
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        match self {
            BroadcastRole::Root(outgoing) => outgoing.waits_for(group),
            BroadcastRole::Other(incoming) => incoming.waits_for(group),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Outgoing {
    shares: Vec<(Range<usize>, Writing)>,
}

impl Outgoing {
    pub(super) fn new(name: StreamName, bytes: usize, size: u16, frame_bytes: usize) -> Outgoing {
        let shares = shares(name, bytes, size);
        Outgoing {
            shares: shares
                .map(|(range, name)| (range, Writing::new(name, frame_bytes)))
                .collect(),
        }
    }

    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &[u8],
    ) -> bool {
        self.shares.retain_mut(|(range, writing)| {
            !writing.advance(group, now, signature, &data[range.clone()])
        });
        self.shares.is_empty()
    }

    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        self.shares
            .iter()
            .find_map(|(_, writing)| writing.waits_for(group))
    }
}

#[derive(Clone, Debug)]
pub struct Incoming {
    whole: Reading,
    size: u16,
    shares: Option<Vec<(Range<usize>, Reading)>>,
}

impl Incoming {
    pub(super) fn new(name: StreamName, size: u16) -> Incoming {
        Incoming {
            whole: Reading::new(name),
            size,
            shares: None,
        }
    }

    pub(super) fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        signature: Signature,
        data: &mut [u8],
    ) -> Result<bool, Failure> {
        if self.shares.is_none()
            && let Some(name) = self.whole.find(group, signature)?
            && let MessagePath::Blocks(_) = name.way
        {
            let shares =
                shares(name, data.len(), self.size).map(|(range, name)| (range, Reading::on(name)));
            self.shares = Some(shares.collect());
        }
        let Some(shares) = &mut self.shares else {
            return self.whole.advance(group, now, signature, data);
        };
        let mut at = 0;
        while let Some((range, reading)) = shares.get_mut(at) {
            if reading.advance(group, now, signature, &mut data[range.clone()])? {
                shares.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(shares.is_empty())
    }

    pub(super) fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        let share = self.shares.as_ref().and_then(|shares| shares.first());
        share
            .map_or(&self.whole, |(_, reading)| reading)
            .waits_for(group)
    }
}

/// Returns the streams of a message of `bytes` bytes with their ranges. The first stream always
/// carries something, at least the signature.
pub(super) fn shares(
    name: StreamName,
    bytes: usize,
    size: u16,
) -> impl Iterator<Item = (Range<usize>, StreamName)> {
    let count = match name.way {
        MessagePath::Blocks(via) => via.trees(size.into()) as u16,
        _ => 1,
    };
    let share_bytes = bytes.div_ceil(usize::from(count));
    let range = move |share: u16| {
        let start = (usize::from(share) * share_bytes).min(bytes);
        start..(start + share_bytes).min(bytes)
    };
    let shares = (0..count).map(move |share| (range(share), StreamName { share, ..name }));
    shares.filter(|(range, name)| name.share == 0 || !range.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_planning::plan::Via;

    #[test]
    fn shares_are_the_whole_message_and_none_is_empty_but_the_first() {
        let ranges = |way, bytes| {
            let name = StreamName::new(Rank(2), way);
            shares(name, bytes, 4)
                .map(|(range, name)| (name.share, range))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(MessagePath::Tree(Via::Binary), 10), [(0, 0..10)]);
        assert_eq!(
            ranges(MessagePath::Blocks(Via::TwoTree), 9),
            [(0, 0..5), (1, 5..9)]
        );
        let blocks = MessagePath::Blocks(Via::ScatterAllgather);
        assert_eq!(
            ranges(blocks, 10),
            [(0, 0..3), (1, 3..6), (2, 6..9), (3, 9..10)]
        );
        assert_eq!(
            (ranges(blocks, 2), ranges(blocks, 0)),
            (vec![(0, 0..1), (1, 1..2)], vec![(0, 0..0)])
        );
    }
}
