//! What a crash may leave: of the changes that were not synced any of the data, and of the names as many as came first.
//!
//! File systems of today write names down in the order in which they were changed (ext4, XFS and btrfs by their
//! journals), and data whenever they like: each write whole, in part or not at all.

use super::world::{Change, World};
use std::collections::BTreeSet;

/// A moment at which the machine may stop.
#[derive(Clone, Debug)]
pub struct Moment {
    /// What is on the disk for certain.
    pub durable: World,
    /// What was changed since, in order.
    pub pending: Vec<Change>,
    /// The call that was over.
    pub after: String,
}

impl Moment {
    /// The worlds that a machine may find when it starts again.
    pub fn crashes(&self) -> BTreeSet<World> {
        let (names, data): (Vec<_>, Vec<_>) = self.pending.iter().partition(|change| change.of_content().is_none());
        let mut worlds = BTreeSet::new();
        for kept in 0..=names.len() {
            for pattern in patterns(&data) {
                let mut world = self.durable.clone();
                pattern.iter().for_each(|change| world.apply(change));
                names[..kept].iter().for_each(|change| world.apply(change));
                worlds.insert(world.swept());
            }
        }
        worlds
    }

    /// What is there if the program alone is killed.
    pub fn kill(&self) -> World {
        let mut world = self.durable.clone();
        self.pending.iter().for_each(|change| world.apply(change));
        world.swept()
    }
}

/// Which data is kept: all, none, all but one, only one, the first ones, and each of these with a write that is torn.
fn patterns(data: &[&Change]) -> Vec<Vec<Change>> {
    let all = || data.iter().map(|change| (*change).clone());
    let mut patterns = vec![all().collect(), Vec::new()];
    for (at, change) in data.iter().enumerate() {
        let others: Vec<Change> =
            all().enumerate().filter(|(number, _)| *number != at).map(|(_, other)| other).collect();
        let first: Vec<Change> = all().take(at).collect();
        for kept in [None, Some((*change).clone()), change.torn()] {
            let with = |known: &[Change]| {
                let (before, behind) = known.split_at(known.len().min(at));
                [before, kept.as_slice(), behind].concat()
            };
            patterns.extend([with(&others), with(&first), kept.iter().cloned().collect()]);
        }
    }
    patterns
}
