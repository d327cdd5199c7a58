//! Acknowledgement tree of a broadcast to many receivers: which receiver acknowledges to which.
//!
//! Up to [`DIRECT_RECEIVERS`] of a session, or [`DIRECT_RANKS`] of a communicator, acknowledge to
//! the origin. With more, a complete tree over the receivers limits the number that acknowledge to
//! one host: parents merge their children's acknowledgements, and the origin serves its own
//! children only. Data does not follow this tree: one frame carries it to all.

use ethbcast_transport::{Policy, Tuning};
use std::ops::{Range, RangeInclusive};

/// Limit of receivers that all acknowledge to the origin, and beyond which they would no longer all
/// acknowledge ([`Tuning::for_cast`]).
const DIRECT_RECEIVERS: usize = 16;
/// The same in a communicator. With a tree an allgather of 32 ranks by casts took 0.86 s, and by a
/// ring 0.73 s.
const DIRECT_RANKS: usize = 128;
/// Children of a host in the tree: with fewer it is deep and slow, with more acknowledgements
/// collide at one port.
const FAN_OUT: RangeInclusive<usize> = 8..=16;

/// Receivers of a cast, by position counted from 0 without the origin. `None` stands for the
/// origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckTree {
    receivers: usize,
    fan_out: Option<usize>,
}

impl AckTree {
    /// Creates the tree over `receivers`, with the least fan-out that makes it no deeper than the
    /// largest would. Under strict go-back-n there is none: no receiver keeps frames out of order,
    /// so none can repair for others.
    pub(crate) fn new(receivers: usize, policy: Policy) -> AckTree {
        AckTree::above(DIRECT_RECEIVERS, receivers, policy)
    }

    pub(crate) fn of_ranks(receivers: usize, policy: Policy) -> AckTree {
        AckTree::above(DIRECT_RANKS, receivers, policy)
    }

    fn above(direct: usize, receivers: usize, policy: Policy) -> AckTree {
        let deepest = levels(receivers, *FAN_OUT.end());
        let is_tree = receivers > direct && policy == Policy::HolesAllowed;
        let fan_out = is_tree
            .then(|| {
                FAN_OUT
                    .into_iter()
                    .find(|&fan_out| levels(receivers, fan_out) == deepest)
            })
            .flatten();
        AckTree { receivers, fan_out }
    }

    pub(crate) fn parent(self, position: usize) -> Option<usize> {
        (position / self.fan_out?).checked_sub(1)
    }

    pub(crate) fn children(self, position: Option<usize>) -> Range<usize> {
        match (self.fan_out, position) {
            (None, None) => 0..self.receivers,
            (None, Some(_)) => 0..0,
            (Some(fan_out), position) => {
                let first = position.map_or(0, |position| (position + 1) * fan_out);
                first.min(self.receivers)..(first + fan_out).min(self.receivers)
            }
        }
    }

    fn siblings(self, position: usize) -> Range<usize> {
        self.children(self.parent(position))
    }

    pub(crate) fn order(self, position: usize) -> usize {
        position - self.siblings(position).start
    }

    /// Returns the tuning of the receiver at `position`, which depends on its number of siblings.
    /// The origin is tuned as the first of its children.
    pub(crate) fn tuned(self, own: &Tuning, position: Option<usize>) -> Tuning {
        let order = position.map_or(0, |position| self.order(position));
        match self.fan_out {
            None => own.for_cast(self.receivers, order),
            Some(_) => own.for_ack_tree(
                self.receivers,
                self.siblings(position.unwrap_or(0)).len(),
                order,
            ),
        }
    }
}

fn levels(receivers: usize, fan_out: usize) -> usize {
    let (mut levels, mut level, mut there) = (0, 1, 0);
    while there < receivers {
        level *= fan_out;
        there += level;
        levels += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(receivers: usize) -> AckTree {
        AckTree::new(receivers, Policy::HolesAllowed)
    }

    #[test]
    fn few_receivers_acknowledge_to_the_origin() {
        let few = tree(DIRECT_RECEIVERS);
        assert_eq!(
            (few.fan_out, few.children(None)),
            (None, 0..DIRECT_RECEIVERS)
        );
        assert!(
            (0..DIRECT_RECEIVERS)
                .all(|position| few.parent(position).is_none() && few.order(position) == position)
        );
        assert_eq!(
            AckTree::new(300, Policy::InOrderOnly).children(None),
            0..300,
            "strict: all to the origin"
        );
    }

    #[test]
    fn ranks_of_a_communicator_have_a_tree_from_129_on() {
        let of_ranks = |receivers| AckTree::of_ranks(receivers, Policy::HolesAllowed);
        assert_eq!(
            (of_ranks(128).children(None), of_ranks(129).fan_out),
            (0..128, Some(11))
        );
    }

    #[test]
    fn a_tree_is_as_deep_as_one_of_sixteen_with_the_least_fan_out() {
        assert_eq!(tree(17).fan_out, Some(8), "two levels, as with sixteen");
        assert_eq!(tree(129).fan_out, Some(11));
        assert_eq!(tree(1000).fan_out, Some(10));
        assert_eq!(
            tree(10_000).fan_out,
            Some(10),
            "four levels: 16 + 256 + 4096 are not enough"
        );
    }

    #[test]
    fn every_receiver_acknowledges_to_its_parent_and_no_parent_has_more_than_the_fan_out() {
        for receivers in [
            1, 16, 17, 72, 73, 129, 200, 272, 273, 999, 1000, 4095, 10_000,
        ] {
            let tree = tree(receivers);
            let mut heard = vec![0; receivers];
            for parent in std::iter::once(None).chain((0..receivers).map(Some)) {
                let children = tree.children(parent);
                assert!(
                    tree.fan_out.is_none_or(
                        |fan_out| FAN_OUT.contains(&fan_out) && children.len() <= fan_out
                    )
                );
                for (order, child) in children.enumerate() {
                    assert_eq!(
                        (tree.parent(child), tree.order(child)),
                        (parent, order),
                        "{receivers} receivers, {child}"
                    );
                    assert!(
                        parent.is_none_or(|parent| parent < child),
                        "lines of parents go up"
                    );
                    heard[child] += 1;
                }
            }
            assert!(
                heard.iter().all(|&count| count == 1),
                "{receivers} receivers"
            );
        }
    }

    #[test]
    fn numbers_follow_from_the_siblings_and_the_place_among_them() {
        let own = Tuning::default();
        assert_eq!(tree(7).tuned(&own, Some(2)), own.for_cast(7, 2));
        assert_eq!(tree(16).tuned(&own, None), own.for_cast(16, 0));
        assert_eq!(tree(17).tuned(&own, Some(9)), own.for_ack_tree(17, 8, 1));
        assert_eq!(
            tree(1000).tuned(&own, Some(12)),
            own.for_ack_tree(1000, 10, 2)
        );
        assert_eq!(tree(1000).tuned(&own, None), own.for_ack_tree(1000, 10, 0));
    }
}
