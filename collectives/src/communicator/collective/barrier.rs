//! Barrier: nobody goes on before all are there. Arrivals go up a tree, the release comes by one frame (EQA §1).

use super::mail::{AwaitedBlocks, BlockToSend};
use super::transfer::{Reading, Writing};
use super::{Call, Progress, Work};
use crate::communicator::error::CommunicatorError;
use crate::communicator::failure::Failure;
use crate::communicator::member::{Group, Member};
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// How many arrivals a rank waits for: up to 17 ranks come straight to rank 0.
const FAN_OUT: u16 = 16;

/// A barrier in progress.
pub type Barrier = Call<Meeting>;

/// What one rank waits for and tells.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Arrivals that are awaited.
    arrivals: AwaitedBlocks,
    /// This rank's own; rank 0 tells nobody.
    own: Option<BlockToSend>,
    release: Release,
}

#[derive(Clone, Debug)]
enum Release {
    Given(Writing),
    Awaited(Reading),
}

impl Barrier {
    /// Begins a barrier.
    ///
    /// # Errors
    /// If another collective is in progress on this rank, or the ranks cannot go on together.
    pub fn begin(member: &mut Member, now: Instant) -> Result<Barrier, CommunicatorError> {
        let group = member.group()?;
        let signature = group.calls().begin(now, Operation::Barrier, Rank(0), 0)?;
        let rank = group.rank();
        let mut arrivals = AwaitedBlocks::default();
        children(rank, group.size()).for_each(|child| arrivals.add(group, child, 0));
        let (own, release) = match rank {
            Rank(0) => (None, Release::Given(Writing::cast(rank))),
            _ => (Some(BlockToSend::new(parent(rank))), Release::Awaited(Reading::cast(Rank(0)))),
        };
        Ok(Call::new(signature, Meeting { arrivals, own, release }))
    }

    /// Moves on.
    ///
    /// # Errors
    /// If the ranks cannot go on together.
    pub fn advance(&mut self, member: &mut Member, now: Instant) -> Result<Progress, CommunicatorError> {
        self.step(member, now, ())
    }
}

impl Work for Meeting {
    type Slices<'a> = ();

    fn step(&mut self, group: &mut Group, now: Instant, call: Signature, (): ()) -> Result<bool, Failure> {
        if !self.arrivals.have_come(group, call)? {
            return Ok(false);
        }
        if let Some(own) = &mut self.own
            && !own.advance(group, call, &[])
        {
            return Ok(false);
        }
        match &mut self.release {
            Release::Given(_) if group.size() == 1 => Ok(true),
            Release::Given(writing) => Ok(writing.advance(group, now, call, &[])),
            Release::Awaited(reading) => reading.advance(group, now, call, &mut []),
        }
    }

    fn give_up(&mut self, group: &mut Group) {
        self.arrivals.clear(group);
    }

    fn waits_for(&self, group: &mut Group) -> Option<Rank> {
        let told = || self.own.as_ref().and_then(BlockToSend::waits_for);
        self.arrivals.waits_for().or_else(told).or_else(|| match &self.release {
            Release::Given(writing) => writing.waits_for(group),
            Release::Awaited(reading) => reading.waits_for(group),
        })
    }
}

/// Whom a rank waits for.
fn children(rank: Rank, size: u16) -> impl Iterator<Item = Rank> {
    let first = u32::from(rank.0) * u32::from(FAN_OUT) + 1;
    (first..first + u32::from(FAN_OUT))
        .take_while(move |child| *child < u32::from(size))
        .map(|child| Rank(child as u16))
}

/// Whom a rank tells that it and all behind it are there.
fn parent(rank: Rank) -> Rank {
    Rank((rank.0 - 1) / FAN_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_but_rank_0_is_waited_for_by_its_parent_and_nobody_else() {
        for size in [1, 2, 17, 18, 64, 273, 274, 4096] {
            let mut waited_for = vec![0; usize::from(size)];
            for rank in 0..size {
                for child in children(Rank(rank), size) {
                    assert_eq!(parent(child), Rank(rank));
                    waited_for[child.index()] += 1;
                }
            }
            assert!(waited_for[1..].iter().all(|&count| count == 1) && waited_for[0] == 0, "{size} ranks");
        }
        assert_eq!(children(Rank(0), 17).count(), 16, "up to 17 ranks all tell rank 0");
    }
}
