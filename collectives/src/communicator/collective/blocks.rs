//! The collectives scatter, gather and allgather, in which each rank has one block.
//!
//! **Scatter** gives each rank a block, from one. Blocks go straight to their ranks, or several
//! together down a tree where they are short and many. Those with the longest way go first.
//! **Gather** is the reverse. Long blocks come to the root a few at a time, or up a tree where too
//! many would meet in front of it. Several short blocks share a message.
//!
//! **Allgather** gives all blocks to all. Each rank casts its own block once. Where casts are not
//! allowed or are predicted to be slower, blocks go round a ring along the switches. Concurrent
//! casts meet in front of every host, so they take turns frame by frame. A rank casts its frame f
//! only when it has read frame f - [`AHEAD_FRAMES`] of every other rank. This keeps every port
//! busy, and no port queues more than twice that many frames, whatever the rate. It needs no
//! message and no clock. A slow rank holds up all.

use super::mail::{AwaitedBlocks, BlockToSend, Own, Relay, block_range};
use super::transfer::{Reading, Writing};
use super::{Call, CallProgress, CallWork};
use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::member::{Group, MEETING_FRAMES, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, planted};

/// Begins a call on blocks of `block_bytes`; ranks with a buffer for all blocks give its length as
/// `blocks_bytes`.
fn begin_blocks(
    group: &mut Group,
    now: Instant,
    (operation, root): (Operation, Rank),
    (blocks_bytes, block_bytes): (usize, usize),
) -> Result<Signature, CommunicatorError> {
    if operation == Operation::Allgather || group.rank() == root {
        check_blocks(blocks_bytes, block_bytes, group.size())?;
    }
    group.calls().begin(now, operation, root, block_bytes)
}

fn check_blocks(
    blocks_bytes: usize,
    block_bytes: usize,
    size: u16,
) -> Result<(), CommunicatorError> {
    let all = block_bytes.checked_mul(usize::from(size));
    if all == Some(blocks_bytes) {
        Ok(())
    } else {
        Err(CommunicatorError::Length {
            blocks_bytes,
            block_bytes,
            size,
        })
    }
}

/// A scatter in progress.
pub type Scatter = Call<Rooted<false>>;

/// A gather in progress.
pub type Gather = Call<Rooted<true>>;

/// The blocks that one rank gives, forwards or awaits, on their way from the root or to it.
#[derive(Clone, Debug)]
pub struct Rooted<const GATHERS: bool>(Relay);

impl<const GATHERS: bool> Call<Rooted<GATHERS>> {
    /// Begins to scatter or gather blocks of `block_bytes` at `root`, `blocks_bytes` in total.
    ///
    /// # Errors
    /// If `root` is no rank, another collective is in progress on this rank, the group has failed,
    /// or at the root `blocks_bytes` is not one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: Rank,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Call<Rooted<GATHERS>>, CommunicatorError> {
        let operation = if GATHERS {
            Operation::Gather
        } else {
            Operation::Scatter
        };
        let group = member.group()?;
        let signature = begin_blocks(group, now, (operation, root), (blocks_bytes, block_bytes))?;
        Ok(Call::new(signature, Rooted(Relay::of(group, signature))))
    }

    /// Advances the call. A scatter goes from all blocks at the root (ignored elsewhere) into a
    /// block everywhere, a gather from a block everywhere into all blocks at the root.
    ///
    /// # Errors
    /// If the group has failed.
    ///
    /// # Panics
    /// If a slice's length differs from that given to `begin`.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
        from: &[u8],
        into: &mut [u8],
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(if GATHERS { from } else { into });
        self.step(member, now, (from, into))
    }
}

impl<const GATHERS: bool> CallWork for Rooted<GATHERS> {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (from, into): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        let (rank, block_bytes, is_root) =
            (group.rank(), call.bytes as usize, group.rank() == call.root);
        if is_root {
            let own = block_range(rank, block_bytes);
            if GATHERS {
                into[own].copy_from_slice(from)
            } else {
                into.copy_from_slice(&from[own])
            }
        }
        let gives = GATHERS != is_root;
        let (given, kept) = (gives.then_some(from), (!gives).then_some(into));
        self.0.advance(
            group,
            call,
            &mut Own {
                rank,
                block_bytes,
                has_all: is_root,
                given,
                kept,
            },
        )
    }

    fn give_up(&mut self, group: &mut Group) {
        self.0.give_up(group);
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.0.waits_for()
    }
}

/// Frames that a cast may be ahead of those read. Two ranks may be this far apart, so at most twice
/// as many frames meet in a switch.
const AHEAD_FRAMES: u64 = MEETING_FRAMES / 2;
/// Blocks awaited from the left at once: the next may arrive while one is forwarded.
const BLOCKS_AHEAD: u16 = 2;

/// An allgather in progress.
pub type Allgather = Call<Exchange>;

#[derive(Clone, Debug)]
pub struct Exchange {
    pattern: AllgatherPattern,
    placed: bool,
}

#[derive(Clone, Debug)]
enum AllgatherPattern {
    Casts(Casts),
    Ring(AroundTheRing),
}

#[derive(Clone, Debug)]
struct Casts {
    own: Writing,
    others: Vec<(Rank, Reading)>,
}

#[derive(Clone, Debug)]
struct AroundTheRing {
    /// Ranks in ring order along the switches, so that no cable is used twice, and this rank's
    /// place.
    line: Vec<Rank>,
    place: usize,
    handed: u16,
    come: u16,
    asked: u16,
    outbound: BlockToSend,
    awaited: AwaitedBlocks,
}

impl Allgather {
    /// Begins to gather blocks of `block_bytes`, `blocks_bytes` in total.
    ///
    /// # Errors
    /// If another collective is in progress on this rank, the group has failed, or `blocks_bytes`
    /// is not one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Allgather, CommunicatorError> {
        let group = member.group()?;
        let (rank, size) = (group.rank(), group.size());
        let signature = begin_blocks(
            group,
            now,
            (Operation::Allgather, Rank(0)),
            (blocks_bytes, block_bytes),
        )?;
        let pattern = if group.streams().plans().blocks_are_cast(block_bytes) {
            let others = (1..size)
                .map(|step| rank.ahead(step, size))
                .map(|origin| (origin, Reading::cast(origin)))
                .collect();
            AllgatherPattern::Casts(Casts {
                own: Writing::cast(rank),
                others,
            })
        } else {
            let line = group.streams().plans().line();
            let place = line.iter().position(|&other| other == rank).unwrap_or(0);
            let outbound = BlockToSend::new(line[(place + 1) % line.len()]);
            let awaited = AwaitedBlocks::default();
            AllgatherPattern::Ring(AroundTheRing {
                line,
                place,
                handed: 0,
                come: 0,
                asked: 0,
                outbound,
                awaited,
            })
        };
        Ok(Call::new(
            signature,
            Exchange {
                pattern,
                placed: false,
            },
        ))
    }

    /// Advances the call, from `block` into `blocks`.
    ///
    /// # Errors
    /// If the group has failed.
    ///
    /// # Panics
    /// If a slice's length differs from that given to `begin`.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
        block: &[u8],
        blocks: &mut [u8],
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(block);
        self.step(member, now, (block, blocks))
    }
}

impl CallWork for Exchange {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        (block, blocks): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        if !std::mem::replace(&mut self.placed, true) {
            blocks[block_range(group.rank(), block.len())].copy_from_slice(block);
        }
        match &mut self.pattern {
            _ if group.size() == 1 => Ok(true),
            AllgatherPattern::Casts(casts) => casts.advance(group, now, call, blocks),
            AllgatherPattern::Ring(ring) => ring.advance(group, call, blocks),
        }
    }

    fn give_up(&mut self, group: &mut Group) {
        if let AllgatherPattern::Ring(ring) = &mut self.pattern {
            ring.awaited.clear(group);
        }
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        match &self.pattern {
            AllgatherPattern::Casts(Casts { own, others }) => {
                let awaited = others
                    .first()
                    .and_then(|(_, reading)| reading.waits_for(group));
                own.waits_for(group).or(awaited)
            }
            AllgatherPattern::Ring(ring) => ring
                .outbound
                .waits_for()
                .or_else(|| ring.awaited.waits_for()),
        }
    }
}

impl Casts {
    fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        blocks: &mut [u8],
    ) -> Result<bool, Failure> {
        let block_bytes = call.bytes as usize;
        let mut at = 0;
        while let Some((origin, reading)) = self.others.get_mut(at) {
            if reading.advance(
                group,
                now,
                call,
                &mut blocks[block_range(*origin, block_bytes)],
            )? {
                self.others.swap_remove(at);
            } else {
                at += 1;
            }
        }
        let own = &blocks[block_range(group.rank(), block_bytes)];
        let given = self.own.advance_to(
            self.turns(group.rank(), group.size()),
            group,
            now,
            call,
            own,
        );
        Ok(given && self.others.is_empty())
    }

    /// Returns the number of frames of the own block that may be cast now: one from each rank in a
    /// round, in rank order.
    fn turns(&self, rank: Rank, size: u16) -> u64 {
        let (rank, size) = (u64::from(rank.0), u64::from(size));
        let turn =
            |(other, reading): &(Rank, Reading)| reading.frames() * size + u64::from(other.0);
        let Some(next) = self.others.iter().map(turn).min() else {
            return u64::MAX;
        };
        (next + AHEAD_FRAMES)
            .checked_sub(rank)
            .map_or(0, |turns| turns / size + 1)
    }
}

impl AroundTheRing {
    fn advance(
        &mut self,
        group: &mut Group,
        signature: Signature,
        blocks: &mut [u8],
    ) -> Result<bool, Failure> {
        let (size, block_bytes) = (group.size(), signature.bytes as usize);
        let steps = size - 1;
        let at = |ahead: u16| self.line[(self.place + usize::from(ahead)) % self.line.len()];
        // The block forwarded in a step: the own one, then those of the ranks to the left in order.
        let from = |step: u16| {
            if planted!("block-from-the-wrong-side") {
                step
            } else {
                size - step
            }
        };
        let passing = |step: u16| block_range(at(from(step)), block_bytes);
        loop {
            while self.asked < steps.min(self.come + BLOCKS_AHEAD) {
                self.awaited.add(group, at(size - 1), block_bytes);
                self.asked += 1;
            }
            let before = (self.handed, self.come);
            if let Some(message) = self.awaited.take_first(group, signature)? {
                self.come += 1;
                blocks[passing(self.come)].copy_from_slice(&message[Signature::BYTES..]);
            }
            while self.handed < steps.min(self.come + 1)
                && self
                    .outbound
                    .advance(group, signature, &[&blocks[passing(self.handed)]])
            {
                self.handed += 1;
                self.outbound = BlockToSend::new(at(1));
            }
            if (self.handed, self.come) == before {
                return Ok(self.handed == steps && self.come == steps);
            }
        }
    }
}
