//! Broadcast algorithm that a sender is configured to use.

use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::SavedPlan;

/// Broadcast algorithm or saved plan that a sender is configured to use.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Route {
    /// The route of least predicted time.
    #[default]
    Auto,
    /// A fixed route, in the segments of least predicted time.
    Via(Via),
    /// A saved plan.
    Saved(Box<SavedPlan>),
}

/// Encodes a route as two bytes: its number, and the children of a k-ary tree.
pub(crate) fn via_to_wire(via: Via) -> (u8, u8) {
    match via {
        Via::Chain => (1, 0),
        Via::Cast => (2, 0),
        Via::Binary => (3, 0),
        Via::Kary(children) => (4, children),
        Via::Flat => (5, 0),
        Via::Binomial => (6, 0),
        Via::ScatterAllgather => (7, 0),
        Via::RecursiveDoubling => (8, 0),
        Via::ChainUnaware => (9, 0),
        Via::BinaryUnaware => (10, 0),
        Via::Latency => (11, 0),
        Via::BinaryBest => (12, 0),
        Via::TwoTree => (13, 0),
    }
}

pub(crate) fn via_from_wire(number: u8, children: u8) -> Option<Via> {
    let via = Via::every().find(|&via| via_to_wire(via).0 == number)?;
    match via {
        Via::Kary(_) => Via::KARY_CHILDREN
            .contains(&children)
            .then_some(Via::Kary(children)),
        via => (children == 0).then_some(via),
    }
}
