//! Scatter: a block for each rank, from one. Blocks go straight to their ranks, or several together
//! down a tree where they are short and many. Those with the longest way go first.

use super::relay::{Own, Relay};
use super::{Call, CallProgress, CallWork, begin_blocks, block_range};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// A scatter in progress.
pub type Scatter = Call<Shares>;

/// The blocks that one rank gives, forwards or awaits.
#[derive(Clone, Debug)]
pub struct Shares(Relay);

impl Scatter {
    /// Begins to scatter blocks of `block_bytes` from `root`, `blocks_bytes` in total.
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
    ) -> Result<Scatter, CommunicatorError> {
        let group = member.group()?;
        let signature = begin_blocks(group, now, (Operation::Scatter, root), (blocks_bytes, block_bytes))?;
        Ok(Call::new(signature, Shares(Relay::of(group, signature))))
    }

    /// Advances the call: from `blocks` at the root (ignored elsewhere), into `block` everywhere.
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
        blocks: &[u8],
        block: &mut [u8],
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(block);
        self.step(member, now, (blocks, block))
    }
}

impl CallWork for Shares {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (blocks, block): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        let (rank, block_bytes) = (group.rank(), block.len());
        if rank != call.root {
            return self.0.advance(group, call, &mut Recipient { rank, block });
        }
        block.copy_from_slice(&blocks[block_range(rank, block_bytes)]);
        self.0.advance(group, call, &mut ScatterRoot { blocks, block_bytes })
    }

    fn give_up(&mut self, group: &mut Group) {
        self.0.give_up(group);
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.0.waits_for()
    }
}

struct ScatterRoot<'a> {
    blocks: &'a [u8],
    block_bytes: usize,
}

impl Own for ScatterRoot<'_> {
    fn given(&self, rank: Rank) -> Option<&[u8]> {
        Some(&self.blocks[block_range(rank, self.block_bytes)])
    }

    fn keep(&mut self, _: Rank, _: &[u8]) -> bool {
        false
    }
}

struct Recipient<'a> {
    rank: Rank,
    block: &'a mut [u8],
}

impl Own for Recipient<'_> {
    fn given(&self, _: Rank) -> Option<&[u8]> {
        None
    }

    fn keep(&mut self, rank: Rank, block: &[u8]) -> bool {
        let is_own = rank == self.rank;
        if is_own {
            self.block.copy_from_slice(block);
        }
        is_own
    }
}
