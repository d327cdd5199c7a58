//! Allgather: from each rank a block, to all. Short blocks are cast by their ranks, where casts are allowed; others go
//! round a ring along the switches, because as many casts at once would meet in front of every host.

use super::mail::{AwaitedBlocks, BlockToSend};
use super::transfer::{Reading, Writing};
use super::{Call, Progress, Work, begin_blocks, block_range};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::planted;
use ethbcast_transport::wire::Rank;

/// Frames that may meet in front of a host at once: half of what a small switch keeps for a port.
const MEETING_FRAMES: usize = 256;
/// Blocks awaited from the left at once: while one is handed on, the next may come.
const BLOCKS_AHEAD: u16 = 2;

/// An allgather in progress.
pub type Allgather = Call<Exchange>;

/// How one rank gives its block and gets the others'.
#[derive(Clone, Debug)]
pub struct Exchange {
    pattern: Pattern,
    /// The own block is among all.
    placed: bool,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Every rank casts its block.
    Casts(Casts),
    /// Every rank hands on to the right what it has from the left: first its own block.
    Ring(AroundTheRing),
}

#[derive(Clone, Debug)]
struct Casts {
    own: Writing,
    /// The others, by origin, that have not come whole.
    others: Vec<(Rank, Reading)>,
}

#[derive(Clone, Debug)]
struct AroundTheRing {
    /// All ranks along the switches, so that no cable is used twice, and the place of this one.
    line: Vec<Rank>,
    place: usize,
    /// Blocks that have been handed to the right, blocks that have come from the left, blocks awaited or come.
    handed: u16,
    come: u16,
    asked: u16,
    outbound: BlockToSend,
    awaited: AwaitedBlocks,
}

impl Allgather {
    /// Begins to gather blocks of `block_bytes`, `blocks_bytes` all together.
    ///
    /// # Errors
    /// If another collective is in progress on this rank, the ranks cannot go on together, or `blocks_bytes` is not
    /// that of one block for each rank.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        blocks_bytes: usize,
        block_bytes: usize,
    ) -> Result<Allgather, CommunicatorError> {
        let group = member.group()?;
        let (rank, size) = (group.rank(), group.size());
        let signature = begin_blocks(group, now, (Operation::Allgather, Rank(0)), (blocks_bytes, block_bytes))?;
        let frames = (Signature::BYTES + block_bytes).div_ceil(group.streams().payload_bytes());
        let few = frames.saturating_mul(usize::from(size) - 1) <= MEETING_FRAMES;
        let pattern = if few && group.streams().plans().casts() {
            let others =
                (1..size).map(|step| rank.ahead(step, size)).map(|origin| (origin, Reading::cast(origin))).collect();
            Pattern::Casts(Casts { own: Writing::cast(rank), others })
        } else {
            let line = group.streams().plans().line();
            let place = line.iter().position(|&other| other == rank).unwrap_or(0);
            let outbound = BlockToSend::new(line[(place + 1) % line.len()]);
            let awaited = AwaitedBlocks::default();
            Pattern::Ring(AroundTheRing { line, place, handed: 0, come: 0, asked: 0, outbound, awaited })
        };
        Ok(Call::new(signature, Exchange { pattern, placed: false }))
    }

    /// Moves on, from `block` into `blocks`.
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

impl Work for Exchange {
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
            Pattern::Casts(casts) => casts.advance(group, now, call, blocks),
            Pattern::Ring(ring) => ring.advance(group, call, blocks),
        }
    }

    fn give_up(&mut self, group: &mut Group) {
        if let Pattern::Ring(ring) = &mut self.pattern {
            ring.awaited.clear(group);
        }
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        match &self.pattern {
            Pattern::Casts(Casts { own, others }) => {
                let awaited = others.first().and_then(|(_, reading)| reading.waits_for(group));
                own.waits_for(group).or(awaited)
            }
            Pattern::Ring(ring) => ring.outbound.waits_for().or_else(|| ring.awaited.waits_for()),
        }
    }
}

impl Casts {
    /// Casts the own block, and reads those of the others in whatever order they come.
    fn advance(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        blocks: &mut [u8],
    ) -> Result<bool, Failure> {
        let block_bytes = call.bytes as usize;
        let given = self.own.advance(group, now, call, &blocks[block_range(group.rank(), block_bytes)]);
        let mut at = 0;
        while let Some((origin, reading)) = self.others.get_mut(at) {
            if reading.advance(group, now, call, &mut blocks[block_range(*origin, block_bytes)])? {
                self.others.swap_remove(at);
            } else {
                at += 1;
            }
        }
        Ok(given && self.others.is_empty())
    }
}

impl AroundTheRing {
    fn advance(&mut self, group: &mut Group, signature: Signature, blocks: &mut [u8]) -> Result<bool, Failure> {
        let (size, block_bytes) = (group.size(), signature.bytes as usize);
        let steps = size - 1;
        let at = |ahead: u16| self.line[(self.place + usize::from(ahead)) % self.line.len()];
        // The block that passes in a step: the own one, then those of the ranks to the left, one after the other.
        let from = |step: u16| if planted!("block-from-the-wrong-side") { step } else { size - step };
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
                && self.outbound.advance(group, signature, &blocks[passing(self.handed)])
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
