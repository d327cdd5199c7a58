//! Enumeration of crash states: any subset of the unsynced data, and any prefix of the unsynced
//! name changes.
//!
//! Journaling file systems (ext4, XFS, btrfs) persist name changes in order, and data at any time:
//! each write whole, in part or not at all.

use super::world::{Change, World};
use std::collections::BTreeSet;

/// A point at which the machine may stop.
#[derive(Clone, Debug)]
pub struct Moment {
    pub durable: World,
    pub pending: Vec<Change>,
    pub after: String,
}

impl Moment {
    /// Returns all states that a reboot may find.
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

    /// Returns the state after the program alone is killed.
    pub fn kill(&self) -> World {
        let mut world = self.durable.clone();
        self.pending.iter().for_each(|change| world.apply(change));
        world.swept()
    }
}

/// Limit on exhaustively tried combinations of kept writes. Beyond it, only those with one write
/// unlike the others are tried.
const MAX_WAYS: usize = 800;

fn patterns(data: &[&Change]) -> Vec<Vec<Change>> {
    let ways = |change: &Change| {
        let mut ways = vec![None, Some(change.clone())];
        ways.extend(change.torn().map(Some));
        ways
    };
    if data.iter().map(|change| ways(change).len()).product::<usize>() > MAX_WAYS {
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

/// Returns all writes, none, all but one, only one, each prefix, and each of these with a torn
/// write.
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
