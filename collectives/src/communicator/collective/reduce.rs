//! The collectives reduce and allreduce, which combine the elements of all ranks, in place.
//!
//! **Reduce** goes up a tree: that of a broadcast from the root, in reverse, or two trees with half
//! of the elements each. The elements go in pieces, so that all cables are busy. A rank combines a
//! piece with those of its children, in their order, and sends it to its parent.
//!
//! **Allreduce** goes up a tree to rank 0 and down again by a broadcast, or, where that is predicted
//! to be faster, round a ring along the switches. Each rank then combines one block: in N - 1 steps
//! every block passes all ranks, and in N - 1 further steps its result does. In each direction every
//! cable carries `2(N - 1)/N` copies.
//!
//! Ranks, length and network alone decide the order of the operations, so that results can be
//! repeated; and each result is computed once, so that all ranks have the same bits.

use super::broadcast::{BroadcastRole, shares};
use super::mail::{AwaitedBlocks, BlockToSend, LEAVING_AT_ONCE, Leaving};
use super::{Call, CallProgress, CallWork};
use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::member::{
    Group, Member, StreamName, TreePlace, UNASKED_FRAMES, message_bytes,
};
use crate::communicator::signature::{Operation, Reduction, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// A function that combines the elements of its second argument with those of its first, in place.
/// Both have the same number of elements, one or more.
pub type Combine<'a> = &'a mut dyn FnMut(&mut [u8], &[u8]);

/// A reduce in progress.
pub type Reduce = Call<Ascent>;

/// An allreduce in progress.
pub type Allreduce = Call<AllreducePattern>;

/// Pieces of a message up a tree, if they are a frame or more: the root waits for one of them on
/// each hop, up a chain of 31 ranks for 6 % of the message.
const PIECES_UP_A_TREE: usize = 512;
/// Longest piece that is pushed whole: it waits for no grant.
const MAX_PUSHED_FRAMES: usize = UNASKED_FRAMES as usize - 1;
/// Pieces that are handed over for the parent before their frames have left. A rank without
/// children hands over more only when it is notified of these.
const LEAVING_UP_A_TREE: usize = 64;
/// Pieces of a block round a ring, each of which is combined while the next one arrives.
const PIECES_OF_A_BLOCK: usize = 8;
/// Longest piece round a ring. Longer ones would save less than one frame in a hundred.
const MAX_RING_FRAMES: usize = 160;
/// Pieces awaited from a rank at once: the next ones may arrive while one is combined.
const PIECES_AHEAD: usize = 4;

impl Reduce {
    /// Begins to combine `bytes` bytes of elements at `root`.
    ///
    /// # Errors
    /// If `root` is no rank, the bytes are no whole number of elements, another collective is in
    /// progress on this rank, or the group has failed.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        root: Rank,
        reduction: Reduction,
        bytes: usize,
    ) -> Result<Reduce, CommunicatorError> {
        let group = member.group()?;
        check_elements(reduction, bytes)?;
        let operation = Operation::Reduce(reduction);
        let signature = group.calls().begin(now, operation, root, bytes)?;
        let ascent = Ascent::of(group, (Some(root), reduction), bytes);
        Ok(Call::new(signature, ascent.unwrap_or_default()))
    }

    /// Advances the call. The root's `buffer` has the result in the end, that of others is only
    /// read. `combine` is [`Reduction::combine`] or the caller's own function.
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
        combine: Combine<'_>,
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(buffer);
        self.step(member, now, (buffer, combine))
    }
}

impl Allreduce {
    /// Begins to combine `bytes` bytes of elements at all ranks.
    ///
    /// # Errors
    /// If the bytes are no whole number of elements, another collective is in progress on this
    /// rank, or the group has failed.
    pub fn begin(
        member: &mut Member,
        now: Instant,
        reduction: Reduction,
        bytes: usize,
    ) -> Result<Allreduce, CommunicatorError> {
        let group = member.group()?;
        check_elements(reduction, bytes)?;
        let operation = Operation::Allreduce(reduction);
        let signature = group.calls().begin(now, operation, Rank::ROOT, bytes)?;
        let pattern = match Ascent::of(group, (None, reduction), bytes) {
            Some(up) => AllreducePattern::Tree {
                down: BroadcastRole::of(group, Rank::ROOT, bytes),
                up,
            },
            None => AllreducePattern::Ring(Ring::of(group, reduction.element_bytes(), bytes)),
        };
        Ok(Call::new(signature, pattern))
    }

    /// Advances the call. `buffer` has the result in the end; meanwhile its content is undefined.
    /// `combine` is as for [`Reduce`].
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
        combine: Combine<'_>,
    ) -> Result<CallProgress, CommunicatorError> {
        self.check_length(buffer);
        self.step(member, now, (buffer, combine))
    }
}

fn check_elements(reduction: Reduction, bytes: usize) -> Result<(), CommunicatorError> {
    let element_bytes = reduction.element_bytes();
    if bytes.checked_rem(element_bytes) == Some(0) {
        Ok(())
    } else {
        Err(CommunicatorError::Elements {
            bytes,
            element_bytes,
        })
    }
}

/// Returns the length of a piece: that of `frames` frames, in whole elements, of which it has one at
/// least.
fn piece_bytes(group: &mut Group, frames: usize, element_bytes: usize) -> usize {
    let bytes = message_bytes(group.streams().payload_bytes(), frames);
    (bytes / element_bytes).max(1) * element_bytes
}

/// The elements that one rank combines and sends up one tree or two.
#[derive(Clone, Debug, Default)]
pub struct Ascent {
    branches: Vec<Branch>,
}

impl Ascent {
    /// Returns this rank's part; none if the elements go round a ring.
    fn of(
        group: &mut Group,
        (root, reduction): (Option<Rank>, Reduction),
        bytes: usize,
    ) -> Option<Ascent> {
        let way = group.streams().plans().ascent(root, bytes)?;
        let (name, size) = (
            StreamName::new(root.unwrap_or(Rank::ROOT), way),
            group.size(),
        );
        let element_bytes = reduction.element_bytes();
        let branches = shares(name, bytes / element_bytes, size).map(|(elements, name)| {
            let range = elements.start * element_bytes..elements.end * element_bytes;
            let frames = range.len().div_ceil(group.streams().payload_bytes());
            let frames = frames
                .div_ceil(PIECES_UP_A_TREE)
                .clamp(1, MAX_PUSHED_FRAMES);
            Branch::new(
                name.share,
                group.streams().place(name),
                range,
                piece_bytes(group, frames, element_bytes),
            )
        });
        Some(Ascent {
            branches: branches.collect(),
        })
    }
}

impl CallWork for Ascent {
    type Slices<'a> = (&'a mut [u8], Combine<'a>);

    fn step(
        &mut self,
        group: &mut Group,
        _: Instant,
        call: Signature,
        (buffer, combine): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        let mut is_done = true;
        for branch in &mut self.branches {
            is_done &= branch.advance(group, call, buffer, combine)?;
        }
        Ok(is_done)
    }

    fn waits_for(&self, _: &mut Group) -> Option<Rank> {
        self.branches.iter().find_map(Branch::waits_for)
    }

    fn give_up(&mut self, group: &mut Group) {
        let children = self
            .branches
            .iter_mut()
            .flat_map(|branch| &mut branch.children);
        children.for_each(|child| child.awaited.clear(group));
    }
}

#[derive(Clone, Debug)]
struct Branch {
    range: Range<usize>,
    piece_bytes: usize,
    /// Pieces that are combined, and sent on.
    done: usize,
    /// The next piece with those of the first children, behind a signature.
    partial: Option<Vec<u8>>,
    combined: usize,
    children: Vec<Child>,
    above: Option<Above>,
}

#[derive(Clone, Debug)]
struct Child {
    rank: Rank,
    asked: usize,
    awaited: AwaitedBlocks,
}

#[derive(Clone, Debug)]
struct Above {
    tree: u16,
    rank: Rank,
    outbound: BlockToSend,
    leaving: Leaving,
    most_leaving: usize,
}

impl Branch {
    fn new(tree: u16, place: TreePlace, range: Range<usize>, piece_bytes: usize) -> Branch {
        let children = place.children.into_iter().map(|rank| Child {
            rank,
            asked: 0,
            awaited: AwaitedBlocks::up(tree),
        });
        Branch {
            range,
            piece_bytes,
            done: 0,
            partial: None,
            combined: 0,
            children: children.collect(),
            above: place
                .parent
                .map(|parent| Above::new(tree, parent, LEAVING_UP_A_TREE)),
        }
    }

    /// Returns the number of pieces: a call on nothing still waits for all ranks.
    fn pieces(&self) -> usize {
        self.range.len().div_ceil(self.piece_bytes).max(1)
    }

    fn piece(&self, at: usize) -> Range<usize> {
        let start = self.range.start + at * self.piece_bytes;
        start..(start + self.piece_bytes).min(self.range.end)
    }

    fn advance(
        &mut self,
        group: &mut Group,
        call: Signature,
        buffer: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<bool, Failure> {
        let pieces = self.pieces();
        while self.done < pieces {
            for at in 0..self.children.len() {
                while self.children[at].asked < pieces.min(self.done + PIECES_AHEAD) {
                    let bytes = self.piece(self.children[at].asked).len();
                    let child = &mut self.children[at];
                    child.awaited.add(group, child.rank, bytes);
                    child.asked += 1;
                }
            }
            let own = &mut buffer[self.piece(self.done)];
            while let Some(child) = self.children.get_mut(self.combined) {
                let Some(mut message) = child.awaited.take_first(group, call)? else {
                    return Ok(false);
                };
                let (_, theirs) = message.split_at_mut(Signature::BYTES);
                match &mut self.partial {
                    _ if own.is_empty() => {}
                    Some(partial) => combine(&mut partial[Signature::BYTES..], theirs),
                    None => {
                        combine(theirs, own);
                        self.partial = Some(message);
                    }
                }
                self.combined += 1;
            }
            let whole = self
                .partial
                .as_ref()
                .map(|partial| &partial[Signature::BYTES..]);
            match (&mut self.above, whole) {
                (Some(above), whole) => {
                    if !above.send(group, call, whole.unwrap_or(own)) {
                        return Ok(false);
                    }
                }
                (None, Some(whole)) => own.copy_from_slice(whole),
                (None, None) => {}
            }
            (self.partial, self.combined) = (None, 0);
            self.done += 1;
        }
        Ok(true)
    }

    fn waits_for(&self) -> Option<Rank> {
        if self.done == self.pieces() {
            return None;
        }
        let child = self.children.get(self.combined);
        let child = child.and_then(|child| child.awaited.waits_for());
        child.or_else(|| self.above.as_ref()?.waits_for())
    }
}

impl Above {
    fn new(tree: u16, rank: Rank, most_leaving: usize) -> Above {
        Above {
            tree,
            rank,
            outbound: BlockToSend::up(tree, rank),
            leaving: Leaving::default(),
            most_leaving,
        }
    }

    fn send(&mut self, group: &mut Group, call: Signature, piece: &[u8]) -> bool {
        let is_sent = self.leaving.has_room(group, self.most_leaving)
            && self.outbound.advance(group, call, &[piece]);
        if is_sent {
            self.leaving.add(&self.outbound);
            self.outbound = BlockToSend::up(self.tree, self.rank);
        }
        is_sent
    }

    fn waits_for(&self) -> Option<Rank> {
        let is_waiting = self.outbound.waits_for().is_some() || !self.leaving.is_empty();
        is_waiting.then_some(self.rank)
    }
}

#[derive(Clone, Debug)]
pub enum AllreducePattern {
    Tree { up: Ascent, down: BroadcastRole },
    Ring(Ring),
}

impl CallWork for AllreducePattern {
    type Slices<'a> = (&'a mut [u8], Combine<'a>);

    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        (buffer, combine): Self::Slices<'_>,
    ) -> Result<bool, Failure> {
        match self {
            AllreducePattern::Tree { up, down } => {
                Ok(up.step(group, now, call, (&mut *buffer, combine))?
                    && down.step(group, now, call, buffer)?)
            }
            AllreducePattern::Ring(ring) => ring.advance(group, call, buffer, combine),
        }
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        match self {
            AllreducePattern::Tree { up, down } => {
                up.waits_for(group).or_else(|| down.waits_for(group))
            }
            AllreducePattern::Ring(ring) => {
                ring.awaited.waits_for().or_else(|| ring.right.waits_for())
            }
        }
    }

    fn give_up(&mut self, group: &mut Group) {
        match self {
            AllreducePattern::Tree { up, .. } => up.give_up(group),
            AllreducePattern::Ring(ring) => ring.awaited.clear(group),
        }
    }
}

/// The elements, as one block for each rank in ring order. In each of 2(N - 1) steps a rank sends
/// the block that it has received in the step before, in pieces.
#[derive(Clone, Debug)]
pub struct Ring {
    ranks: usize,
    place: usize,
    bytes: usize,
    block_bytes: usize,
    piece_bytes: usize,
    /// Pieces sent, received and awaited, in all steps.
    handed: usize,
    come: usize,
    asked: usize,
    left: Rank,
    right: Above,
    awaited: AwaitedBlocks,
}

impl Ring {
    fn of(group: &mut Group, element_bytes: usize, bytes: usize) -> Ring {
        let line = group.streams().plans().line();
        let ranks = line.len();
        let own = group.rank();
        let place = line.iter().position(|&rank| rank == own).unwrap_or(0);
        let block_bytes = (bytes / element_bytes).div_ceil(ranks).max(1) * element_bytes;
        let frames = block_bytes.div_ceil(group.streams().payload_bytes());
        let frames = frames
            .div_ceil(PIECES_OF_A_BLOCK)
            .clamp(MAX_PUSHED_FRAMES, MAX_RING_FRAMES);
        Ring {
            ranks,
            place,
            bytes,
            block_bytes,
            piece_bytes: piece_bytes(group, frames, element_bytes),
            handed: 0,
            come: 0,
            asked: 0,
            left: line[(place + ranks - 1) % ranks],
            right: Above::new(0, line[(place + 1) % ranks], LEAVING_AT_ONCE),
            awaited: AwaitedBlocks::default(),
        }
    }

    fn pieces(&self) -> usize {
        self.block_bytes.div_ceil(self.piece_bytes)
    }

    /// Returns a piece of the block that the rank `back` places to the left sends, of all pieces
    /// that it sends. Those of the last blocks may be empty.
    fn piece(&self, back: usize, at: usize) -> Range<usize> {
        let (step, piece) = (at / self.pieces(), at % self.pieces());
        let block = (self.place + 2 * self.ranks - back - step) % self.ranks;
        let end = ((block + 1) * self.block_bytes).min(self.bytes);
        let within = |at: usize| (block * self.block_bytes + at).min(end);
        within(piece * self.piece_bytes)..within((piece + 1) * self.piece_bytes)
    }

    fn advance(
        &mut self,
        group: &mut Group,
        call: Signature,
        buffer: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<bool, Failure> {
        let (block, all) = (self.pieces(), 2 * (self.ranks - 1) * self.pieces());
        loop {
            while self.asked < all.min(self.come + PIECES_AHEAD) {
                let bytes = self.piece(1, self.asked).len();
                self.awaited.add(group, self.left, bytes);
                self.asked += 1;
            }
            let before = (self.handed, self.come);
            if let Some(message) = self.awaited.take_first(group, call)? {
                let own = &mut buffer[self.piece(1, self.come)];
                let theirs = &message[Signature::BYTES..];
                if self.come >= all / 2 {
                    own.copy_from_slice(theirs);
                } else if !own.is_empty() {
                    combine(own, theirs);
                }
                self.come += 1;
            }
            while self.handed < all.min(self.come + block)
                && self
                    .right
                    .send(group, call, &buffer[self.piece(0, self.handed)])
            {
                self.handed += 1;
            }
            if (self.handed, self.come) == before {
                return Ok(self.handed == all && self.come == all);
            }
        }
    }
}
