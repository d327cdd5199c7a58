//! The collective barrier: no rank goes on before all have arrived. Arrivals go up a tree. The
//! release is one broadcast frame (EQA §1), or one frame per rank where switches police broadcast.

use super::mail::{AwaitedBlocks, BlockToSend};
use super::transfer::{Reading, Writing};
use super::{Call, CallProgress, CallWork};
use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::member::{Group, Member, StreamName};
use crate::communicator::roster::Nodes;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// Hosts whose arrivals one rank collects: up to 17 hosts report straight to rank 0.
const FAN_OUT: u16 = 16;

/// A barrier in progress.
pub type Barrier = Call<Meeting>;

#[derive(Clone, Debug)]
pub struct Meeting {
    arrivals: AwaitedBlocks,
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
    /// If another collective is in progress on this rank, or the group has failed.
    pub fn begin(member: &mut Member, now: Instant) -> Result<Barrier, CommunicatorError> {
        let group = member.group()?;
        let signature = group.calls().begin(now, Operation::Barrier, Rank(0), 0)?;
        let rank = group.rank();
        let mut arrivals = AwaitedBlocks::default();
        let (parent, children) = (parent(group.nodes(), rank), children(group.nodes(), rank));
        children
            .into_iter()
            .for_each(|child| arrivals.add(group, child, 0));
        let release = StreamName::new(Rank(0), group.streams().plans().release());
        let (own, release) = match parent {
            None => (None, Release::Given(Writing::on(release))),
            Some(parent) => (
                Some(BlockToSend::new(parent)),
                Release::Awaited(Reading::on(release)),
            ),
        };
        Ok(Call::new(
            signature,
            Meeting {
                arrivals,
                own,
                release,
            },
        ))
    }

    /// Advances the call.
    ///
    /// # Errors
    /// If the group has failed.
    pub fn advance(
        &mut self,
        member: &mut Member,
        now: Instant,
    ) -> Result<CallProgress, CommunicatorError> {
        self.step(member, now, ())
    }
}

impl CallWork for Meeting {
    type Slices<'a> = ();

    fn step(
        &mut self,
        group: &mut Group,
        now: Instant,
        call: Signature,
        (): (),
    ) -> Result<bool, Failure> {
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
        self.arrivals
            .waits_for()
            .or_else(told)
            .or_else(|| match &self.release {
                Release::Given(writing) => writing.waits_for(group),
                Release::Awaited(reading) => reading.waits_for(group),
            })
    }
}

/// Returns the ranks whose arrivals `rank` collects: the others of its host, and the first ranks of
/// child hosts.
fn children(nodes: &Nodes, rank: Rank) -> Vec<Rank> {
    nodes.below(rank, |node| {
        let first = node
            .saturating_mul(FAN_OUT)
            .saturating_add(1)
            .min(nodes.count());
        first..first.saturating_add(FAN_OUT).min(nodes.count())
    })
}

fn parent(nodes: &Nodes, rank: Rank) -> Option<Rank> {
    nodes.above(rank, |node| node.checked_sub(1).map(|node| node / FAN_OUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_0_is_waited_for_by_its_parent_and_nobody_else() {
        for size in [1, 2, 17, 18, 64, 273, 274, 4096] {
            let nodes = Nodes::apart(size);
            let mut waited_for = vec![0; usize::from(size)];
            for rank in (0..size).map(Rank) {
                for child in children(&nodes, rank) {
                    assert_eq!(parent(&nodes, child), Some(rank));
                    waited_for[child.index()] += 1;
                }
            }
            assert!(
                waited_for[1..].iter().all(|&count| count == 1) && waited_for[0] == 0,
                "{size} ranks"
            );
        }
        assert_eq!(
            children(&Nodes::apart(17), Rank(0)).len(),
            16,
            "up to 17 hosts all tell rank 0"
        );
    }
}
