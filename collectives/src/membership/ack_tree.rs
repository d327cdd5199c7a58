//! Who acknowledges to whom in a cast with many receivers (DESIGN §5, §8).
//!
//! Up to [`DIRECT_RECEIVERS`] receivers acknowledge to the root. Above, a complete tree over the receivers keeps the number of
//! those who do small: parents merge what their children say, and the root serves its own children only. Data does not follow
//! this tree: it comes to all by one frame.

/// The most receivers of a cast that all acknowledge to the root.
pub const DIRECT_RECEIVERS: usize = 128;
/// How many children a host of the ack tree may have: DESIGN's 8 to 16.
const FAN_OUT: std::ops::RangeInclusive<usize> = 8..=16;

/// The children of each host in the ack tree over so many receivers: the fewest that make no tree deeper than the most would;
/// `None` if there is no tree, because all acknowledge to the root.
pub fn ack_fan_out(receivers: usize) -> Option<usize> {
    let levels = levels(receivers, *FAN_OUT.end());
    (receivers > DIRECT_RECEIVERS).then(|| FAN_OUT.into_iter().find(|&fan_out| levels == self::levels(receivers, fan_out)))?
}

/// To whom the receiver at `position` (counted from 0, the root left out) acknowledges: the position of another receiver, or `None`
/// for the root.
pub fn ack_parent(receivers: usize, position: usize) -> Option<usize> {
    (position / ack_fan_out(receivers)?).checked_sub(1)
}

/// The levels of a complete tree over so many receivers, below the root.
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

    #[test]
    fn few_receivers_acknowledge_to_the_root() {
        assert_eq!(ack_fan_out(DIRECT_RECEIVERS), None);
        assert!((0..DIRECT_RECEIVERS).all(|position| ack_parent(DIRECT_RECEIVERS, position).is_none()));
    }

    #[test]
    fn a_thousand_stand_on_three_levels_of_ten() {
        assert_eq!(ack_fan_out(129), Some(11), "two levels, as with sixteen");
        assert_eq!(ack_fan_out(1000), Some(10));
        assert_eq!(ack_fan_out(10_000), Some(10), "four levels: 16 + 256 + 4096 are not enough");
    }

    #[test]
    fn nobody_has_more_children_than_the_fan_out_and_every_line_ends_at_the_root() {
        for receivers in [129, 200, 272, 273, 999, 1000, 4095, 10_000] {
            let fan_out = ack_fan_out(receivers).expect("there is a tree");
            let mut children = vec![0; receivers + 1];
            for position in 0..receivers {
                let parent = ack_parent(receivers, position);
                assert!(parent.is_none_or(|parent| parent < position), "lines of parents go up");
                children[parent.map_or(receivers, |parent| parent)] += 1;
            }
            assert!(FAN_OUT.contains(&fan_out) && children.iter().all(|&count| count <= fan_out), "{receivers}");
        }
    }
}
