//! Scatter: to each rank a block of its own, from one, as messages.

use super::mail::{Inbox, Outbound};
use super::{Progress, block_range, check_blocks};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;

/// A scatter in progress.
#[derive(Debug)]
pub struct Scatter {
    signature: Signature,
    /// At the root: the blocks that have not been handed over, the next one last.
    outbound: Vec<(u16, Outbound)>,
    /// Elsewhere: the own block.
    inbox: Inbox,
    done: bool,
}

impl Scatter {
    /// Begins to scatter blocks of `block_bytes` from `root`, where all blocks together have `blocks_bytes`.
    ///
    /// # Errors
    /// If there is no such root, another collective is in progress on this rank, the ranks cannot go on together, or at the root
    /// `blocks_bytes` is not that of one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: u16,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Scatter, CommunicatorError> {
        let group = member.group()?;
        let (rank, size) = (group.rank(), group.size());
        if rank == root {
            check_blocks(blocks_bytes, block_bytes, size)?;
        }
        let signature = group.begin(now, Operation::Scatter, root, block_bytes)?;
        let (mut outbound, mut inbox) = (Vec::new(), Inbox::default());
        if rank == root {
            outbound = (1..size).rev().map(|step| (rank + step) % size).map(|to| (to, Outbound::new(to))).collect();
        } else {
            inbox.add(group, root, block_bytes);
        }
        Ok(Scatter { signature, outbound, inbox, done: false })
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
        assert_eq!(block.len() as u64, self.signature.bytes, "the block has another length than was said");
        if self.done {
            return Ok(Progress::Done);
        }
        let group = member.group()?;
        let step = if group.rank() == self.signature.root {
            let all = self.hand_out(group, blocks);
            if all {
                block.copy_from_slice(&blocks[block_range(self.signature.root, block.len())]);
            }
            Ok(all)
        } else {
            self.take(group, block)
        };
        let progress = group.conclude(now, self.signature, step.map(Progress::from));
        self.done = progress == Ok(Progress::Done);
        if progress.is_err() {
            self.inbox.clear(group);
        }
        progress
    }

    fn hand_out(&mut self, group: &mut Group, blocks: &[u8]) -> bool {
        let block_bytes = self.signature.bytes as usize;
        while let Some((to, outbound)) = self.outbound.last_mut() {
            if !outbound.advance(group, self.signature, &blocks[block_range(*to, block_bytes)]) {
                return false;
            }
            self.outbound.pop();
        }
        true
    }

    fn take(&mut self, group: &mut Group, block: &mut [u8]) -> Result<bool, Failure> {
        self.inbox.advance(group, self.signature, |_, bytes| block.copy_from_slice(bytes))
    }

    /// Gives up: this and all later collectives fail on all ranks. Returns the error to report.
    pub fn abandon(mut self, member: &mut Member, now: Instant) -> CommunicatorError {
        match member.group() {
            Ok(group) => {
                self.inbox.clear(group);
                group.abandon(now, self.signature)
            }
            Err(error) => error,
        }
    }
}
