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

/// So many ways in which data is kept are all tried; of more, those in which one change is unlike the others.
const MOST_WAYS: usize = 800;

/// Which data is kept: each change whole, in part or not at all.
fn patterns(data: &[&Change]) -> Vec<Vec<Change>> {
    let ways = |change: &Change| {
        let mut ways = vec![None, Some(change.clone())];
        ways.extend(change.torn().map(Some));
        ways
    };
    if data.iter().map(|change| ways(change).len()).product::<usize>() > MOST_WAYS {
        return one_unlike_the_others(data);
    }
    data.iter().fold(vec![Vec::new()], |patterns, change| {
        let with = |pattern: &Vec<Change>| {
            let pattern = pattern.clone();
            ways(change).into_iter().map(move |kept| pattern.iter().cloned().chain(kept).collect())
        };
        patterns.iter().flat_map(with).collect()
    })
}

/// All, none, all but one, only one, the first ones, and each of these with a write that is torn.
fn one_unlike_the_others(data: &[&Change]) -> Vec<Vec<Change>> {
    let all = || data.iter().map(|change| (*change).clone());
    let mut patterns = vec![all().collect(), Vec::new()];
    for (at, change) in data.iter().enumerate() {
        for kept in [None, Some((*change).clone()), change.torn()] {
            let (before, behind): (Vec<_>, Vec<_>) = (all().take(at).collect(), all().skip(at + 1).collect());
            patterns.push([&before[..], kept.as_slice(), &behind[..]].concat());
            patterns.push([&before[..], kept.as_slice()].concat());
            patterns.push(kept.into_iter().collect());
        }
    }
    patterns
}
