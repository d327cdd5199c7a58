//! Gather: from each rank a block, to one, as messages.

use super::mail::{Inbox, Outbound};
use super::{Progress, block_range, check_blocks};
use crate::communicator::error::CommunicatorError;
use crate::communicator::member::Member;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;

/// A gather in progress.
#[derive(Debug)]
pub struct Gather {
    signature: Signature,
    /// At the root: the others' blocks.
    inbox: Inbox,
    /// Elsewhere: the own block.
    outbound: Option<Outbound>,
    done: bool,
}

impl Gather {
    /// Begins to gather blocks of `block_bytes` at `root`, where all blocks together have `blocks_bytes`.
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
    ) -> Result<Gather, CommunicatorError> {
        let group = member.group()?;
        let (rank, size) = (group.rank(), group.size());
        if rank == root {
            check_blocks(blocks_bytes, block_bytes, size)?;
        }
        let signature = group.begin(now, Operation::Gather, root, block_bytes)?;
        let mut inbox = Inbox::default();
        if rank == root {
            (0..size).filter(|&from| from != root).for_each(|from| inbox.add(group, from, block_bytes));
        }
        let outbound = (rank != root).then(|| Outbound::new(root));
        Ok(Gather { signature, inbox, outbound, done: false })
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
        assert_eq!(block.len() as u64, self.signature.bytes, "the block has another length than was said");
        if self.done {
            return Ok(Progress::Done);
        }
        let (group, signature) = (member.group()?, self.signature);
        let step = match &mut self.outbound {
            Some(outbound) => Ok(outbound.advance(group, signature, block)),
            None => {
                let all = self.inbox.advance(group, signature, |from, bytes| {
                    blocks[block_range(from, bytes.len())].copy_from_slice(bytes);
                });
                if all == Ok(true) {
                    blocks[block_range(signature.root, block.len())].copy_from_slice(block);
                }
                all
            }
        };
        let progress = group.conclude(now, signature, step.map(Progress::from));
        self.done = progress == Ok(Progress::Done);
        if progress.is_err() {
            self.inbox.clear(group);
        }
        progress
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
