//! Parallel cables between two switches: an aggregate, which counts as one cable of the summed
//! rate, or cables of which spanning tree uses one.

use crate::format_rate;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub interface: String,
    pub name: String,
    /// Whether it may be a switch: it forwards frames or packets, or does not announce its
    /// capabilities.
    pub may_switch: bool,
    pub address: Option<u64>,
    pub rate: Option<u64>,
    pub aggregation: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    /// Fastest single cable, in bits per second.
    single: Option<u64>,
    /// Fastest aggregation of several, in bits per second.
    aggregate: Option<u64>,
}

impl Bundle {
    pub fn of<'a>(cables: impl Iterator<Item = &'a Neighbour>) -> Self {
        let mut bundle = Self::default();
        let mut aggregates: BTreeMap<&str, u64> = BTreeMap::new();
        for cable in cables {
            bundle.single = bundle.single.max(cable.rate);
            if let (Some(id), Some(rate)) = (&cable.aggregation, cable.rate) {
                *aggregates.entry(id).or_default() += rate;
            }
        }
        bundle.aggregate = aggregates.into_values().max();
        bundle
    }

    /// Combines the reports of both ends. An aggregation at one end is one at the other, too,
    /// whether that end reports it or not.
    ///
    /// # Errors
    /// The two rates if the ends report different ones for their fastest cable.
    pub fn seen_from_both_ends(self, other: Self) -> Result<Self, (String, String)> {
        match (self.single, other.single) {
            (Some(one), Some(two)) if one != two => Err((format_rate(one), format_rate(two))),
            (one, two) => Ok(Self { single: one.or(two), aggregate: self.aggregate.max(other.aggregate) }),
        }
    }

    pub fn rate(self) -> Option<u64> {
        self.aggregate.max(self.single)
    }
}
