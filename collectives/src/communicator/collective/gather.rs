//! Gather: a block from each rank to one, the reverse of a scatter. Long blocks come to the root a
//! few at a time, or up a tree where too many would meet in front of it. Several short blocks share
//! a message.

use super::relay::{Own, Relay};
use super::{Call, CallProgress, CallWork, begin_blocks, block_range};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// A gather in progress.
pub type Gather = Call<GatheredBlocks>;

/// The blocks that one rank gives, forwards or awaits.
#[derive(Clone, Debug)]
pub struct GatheredBlocks(Relay);

impl Gather {
    /// Begins to gather blocks of `block_bytes` at `root`, `blocks_bytes` in total.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress on this rank, the ranks cannot
    /// go on together, or at the root `blocks_bytes` is not one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: Rank,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Gather, CommunicatorError> {
        let group = member.group()?;
        let signature = begin_blocks(group, now, (Operation::Gather, root), (blocks_bytes, block_bytes))?;
        Ok(Call::new(signature, GatheredBlocks(Relay::of(group, signature))))
    }

    /// Advances the call: from `block` everywhere, into `blocks` at the root (ignored elsewhere).
    ///
    /// # Errors
    /// If the ranks cannot go on together.
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

impl CallWork for GatheredBlocks {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (block, blocks): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        let rank = group.rank();
        if rank != call.root {
            return self.0.advance(group, call, &mut Contributor { rank, block });
        }
        blocks[block_range(rank, block.len())].copy_from_slice(block);
        self.0.advance(group, call, &mut Collector { blocks })
    }

    fn give_up(&mut self, group: &mut Group) {
        self.0.give_up(group);
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.0.waits_for()
    }
}

struct Collector<'a> {
    blocks: &'a mut [u8],
}

impl Own for Collector<'_> {
    fn given(&self, _: Rank) -> Option<&[u8]> {
        None
    }

    fn keep(&mut self, rank: Rank, block: &[u8]) -> bool {
        self.blocks[block_range(rank, block.len())].copy_from_slice(block);
        true
    }
}

struct Contributor<'a> {
    rank: Rank,
    block: &'a [u8],
}

impl Own for Contributor<'_> {
    fn given(&self, rank: Rank) -> Option<&[u8]> {
        (rank == self.rank).then_some(self.block)
    }

    fn keep(&mut self, _: Rank, _: &[u8]) -> bool {
        false
    }
}
