//! Scatter: to each rank a block of its own, from one, as messages; those with the longest way go first.

use super::mail::{AwaitedBlocks, BlockToSend};
use super::{Call, Progress, Work, begin_blocks, block_range};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// A scatter in progress.
pub type Scatter = Call<Shares>;

/// The blocks that one rank gives or awaits.
#[derive(Clone, Debug)]
pub struct Shares {
    /// At the root: the blocks that have not been handed over, the next one last.
    outbound: Vec<(Rank, BlockToSend)>,
    /// Elsewhere: the own block.
    awaited: AwaitedBlocks,
}

impl Scatter {
    /// Begins to scatter blocks of `block_bytes` from `root`, where all blocks together have `blocks_bytes`.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress on this rank, the ranks cannot go on together, or at
    /// the root `blocks_bytes` is not that of one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: Rank,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Scatter, CommunicatorError> {
        let group = member.group()?;
        let signature = begin_blocks(group, now, (Operation::Scatter, root), (blocks_bytes, block_bytes))?;
        let (mut outbound, mut awaited) = (Vec::new(), AwaitedBlocks::default());
        if group.rank() == root {
            let order = group.streams().plans().farthest_first(root);
            outbound = order.into_iter().rev().map(|to| (to, BlockToSend::new(to))).collect();
        } else {
            awaited.add(group, root, block_bytes);
        }
        Ok(Call::new(signature, Shares { outbound, awaited }))
    }

    /// Moves on: from `blocks` at the root (ignored elsewhere), into `block` everywhere.
    ///
    /// # Errors
    /// If the ranks cannot go on together.
    ///
    /// # Panics
    /// If a slice has another length than was said.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
        blocks: &[u8],
        block: &mut [u8],
    ) -> Result<Progress, CommunicatorError> {
        self.check_length(block);
        self.step(member, now, (blocks, block))
    }
}

impl Work for Shares {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (blocks, block): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        if group.rank() != call.root {
            return self.awaited.advance(group, call, |_, bytes| block.copy_from_slice(bytes));
        }
        while let Some((to, outbound)) = self.outbound.last_mut() {
            if !outbound.advance(group, call, &blocks[block_range(*to, block.len())]) {
                return Ok(false);
            }
            self.outbound.pop();
        }
        block.copy_from_slice(&blocks[block_range(call.root, block.len())]);
        Ok(true)
    }

    fn give_up(&mut self, group: &mut Group) {
        self.awaited.clear(group);
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.outbound.last().map(|&(to, _)| to).or_else(|| self.awaited.waits_for())
    }
}
