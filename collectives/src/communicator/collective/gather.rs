//! Gather: from each rank a block, to one, as messages; those with the longest way are asked for first.

use super::mail::{AwaitedBlocks, BlockToSend};
use super::{Call, Progress, Work, begin_blocks, block_range};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// A gather in progress.
pub type Gather = Call<GatheredBlocks>;

/// The blocks that one rank awaits or gives.
#[derive(Clone, Debug)]
pub struct GatheredBlocks {
    /// At the root: the others' blocks.
    awaited: AwaitedBlocks,
    /// Elsewhere: the own block.
    outbound: Option<BlockToSend>,
}

impl Gather {
    /// Begins to gather blocks of `block_bytes` at `root`, where all blocks together have `blocks_bytes`.
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
    ) -> Result<Gather, CommunicatorError> {
        let group = member.group()?;
        let signature = begin_blocks(group, now, (Operation::Gather, root), (blocks_bytes, block_bytes))?;
        let mut awaited = AwaitedBlocks::default();
        if group.rank() == root {
            group
                .streams()
                .plans()
                .farthest_first(root)
                .into_iter()
                .for_each(|from| awaited.add(group, from, block_bytes));
        }
        let outbound = (group.rank() != root).then(|| BlockToSend::new(root));
        Ok(Call::new(signature, GatheredBlocks { awaited, outbound }))
    }

    /// Moves on: from `block` everywhere, into `blocks` at the root (ignored elsewhere).
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
        block: &[u8],
        blocks: &mut [u8],
    ) -> Result<Progress, CommunicatorError> {
        self.check_length(block);
        self.step(member, now, (block, blocks))
    }
}

impl Work for GatheredBlocks {
    type Slices<'a> = (&'a [u8], &'a mut [u8]);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (block, blocks): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        if let Some(outbound) = &mut self.outbound {
            return Ok(outbound.advance(group, call, block));
        }
        let all = self.awaited.advance(group, call, |from, bytes| {
            blocks[block_range(from, bytes.len())].copy_from_slice(bytes);
        })?;
        if all {
            blocks[block_range(call.root, block.len())].copy_from_slice(block);
        }
        Ok(all)
    }

    fn give_up(&mut self, group: &mut Group) {
        self.awaited.clear(group);
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.outbound.as_ref().and_then(BlockToSend::waits_for).or_else(|| self.awaited.waits_for())
    }
}
