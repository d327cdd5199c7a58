//! Predicted time of the collectives scatter, gather and allgather, in which each rank has its own
//! block.
//!
//! - Allgather by casts: each rank sends its block once. The busiest port or cable carries the
//!   blocks of all ranks behind it; a host's port carries those of all others. Policing and repairs
//!   are as in [`predict`](super::predict).
//! - Allgather round a ring along the switches: a rank forwards complete blocks, so that P − 1
//!   steps of L(m) + g(m) follow each other, on the slowest cable of all.
//! - Scatter, and gather as its reverse: every port carries one group of blocks, of m bytes, after
//!   the other, g(m) each. A group reaches the next rank L(m) later, and goes on as soon as it is
//!   complete and the port is free.

use super::choose::Situation;
use crate::plan::{Plan, Speeds, USUAL, farthest_first, grouped_blocks};
use crate::topology::Walk;
use std::collections::VecDeque;

/// Predicted time of an allgather of [`Situation::size_bytes`] from each member, in seconds, with
/// one cast per block and by a ring along the switches; the situation's root is ignored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allgather {
    pub casts_seconds: f64,
    pub ring_seconds: f64,
}

/// Prices an allgather.
///
/// # Panics
/// If a member is no host of the topology.
pub fn allgather(situation: &Situation) -> Allgather {
    let block = Block::of(situation);
    let speeds = situation.speeds();
    let others = situation.members.len().saturating_sub(1) as f64;
    let slowest = situation
        .members
        .iter()
        .map(|&host| host_slowness(speeds.as_ref(), host))
        .max()
        .unwrap_or(USUAL);
    let ring = others
        * (block.gap_ns * in_sends(slowest.max(slowest_cable(situation, speeds.as_ref())))
            + block.latency_ns);
    let casts = block.casts(in_sends(busiest(situation, speeds.as_ref())), others);
    Allgather {
        casts_seconds: casts / 1e9,
        ring_seconds: block.repeated(ring, others) / 1e9,
    }
}

/// Returns the predicted time of a scatter down `plan`, in seconds, with a block of
/// [`Situation::size_bytes`] for each rank. Up to `most` blocks travel together, the farthest
/// first, as in [`grouped_blocks`]. A gather takes as long.
///
/// # Panics
/// Unless the plan has as many ranks as there are members.
pub fn scatter(plan: &Plan, most: usize, situation: &Situation) -> f64 {
    let bytes = situation.size_bytes.unwrap_or_default();
    let block = |blocks: usize| {
        Block::of(&Situation {
            size_bytes: Some(bytes.saturating_mul(blocks as u64)),
            ..*situation
        })
    };
    let order = farthest_first(plan, situation.topology, situation.members);
    // Arrival time of each block at the rank that holds it now.
    let mut there = vec![0.0_f64; plan.ranks()];
    let mut downward = VecDeque::from([plan.root()]);
    while let Some(rank) = downward.pop_front() {
        let mut free = 0.0_f64;
        let sent = if plan.children(rank).is_empty() {
            Vec::new()
        } else {
            grouped_blocks(plan, &order, rank, most)
        };
        for block_group in sent {
            let Block {
                gap_ns, latency_ns, ..
            } = block(block_group.ranks.len());
            free = block_group
                .ranks
                .iter()
                .map(|&rank| there[rank])
                .fold(free, f64::max)
                + gap_ns;
            block_group
                .ranks
                .iter()
                .for_each(|&rank| there[rank] = free + latency_ns);
        }
        downward.extend(plan.children(rank));
    }
    let last = there.into_iter().fold(0.0, f64::max);
    block(1).repeated(last, order.len() as f64) / 1e9
}

struct Block {
    gap_ns: f64,
    latency_ns: f64,
    frames: f64,
    received: f64,
    cast_max: Option<u64>,
    hop_ns: f64,
}

impl Block {
    fn of(situation: &Situation) -> Self {
        let Situation {
            frame_payload_bytes,
            calibration,
            ..
        } = situation;
        let bytes = situation.size_bytes.unwrap_or_default();
        let frame_bytes = bytes.min(*frame_payload_bytes);
        let (gap_ns, latency_ns) = (
            calibration.gap_ns(frame_bytes),
            calibration.latency_ns(frame_bytes),
        );
        Self {
            gap_ns: gap_ns * (bytes as f64 / frame_bytes.max(1) as f64).max(1.0),
            latency_ns,
            frames: bytes.div_ceil(*frame_payload_bytes).max(1) as f64,
            received: 1.0 - calibration.loss(),
            cast_max: calibration.cast_max_frames_per_second(),
            hop_ns: gap_ns + latency_ns,
        }
    }

    fn casts(&self, busiest: f64, others: f64) -> f64 {
        let policed = self
            .cast_max
            .map_or(0.0, |rate| self.frames * others * 1e9 / rate as f64);
        let missed_by_some = 1.0 - self.received.powf(others);
        let time = (busiest * self.gap_ns).max(policed) * (1.0 + missed_by_some) + self.latency_ns;
        time + 2.0 * self.hop_ns * (1.0 - (1.0 - missed_by_some).powf(self.frames * others))
    }

    fn repeated(&self, nanoseconds: f64, blocks: f64) -> f64 {
        nanoseconds / self.received
            + 2.0 * self.hop_ns * blocks * (1.0 - self.received.powf(self.frames))
    }
}

fn host_slowness(speeds: Option<&Speeds>, host: usize) -> u64 {
    speeds.map_or(USUAL, |speeds| {
        speeds.sending(host).max(speeds.receiving(host))
    })
}

fn slowest_cable(situation: &Situation, speeds: Option<&Speeds>) -> u64 {
    cables(situation, speeds)
        .into_iter()
        .map(|(slowness, _)| slowness)
        .max()
        .unwrap_or(USUAL)
}

/// Returns the largest number of sends (over a usual cable) that one port or cable carries if every
/// member casts a block.
fn busiest(situation: &Situation, speeds: Option<&Speeds>) -> u64 {
    let others = situation.members.len().saturating_sub(1) as u64;
    let receiving = |&host: &usize| speeds.map_or(USUAL, |speeds| speeds.receiving(host)) * others;
    let hosts = situation.members.iter().map(receiving);
    let between = cables(situation, speeds)
        .into_iter()
        .map(|(slowness, blocks)| slowness * blocks);
    hosts.chain(between).max().unwrap_or(0)
}

/// Returns for each cable between switches with members at both ends its slowness, and the blocks
/// in its busier direction.
fn cables(situation: &Situation, speeds: Option<&Speeds>) -> Vec<(u64, u64)> {
    let &Situation {
        topology, members, ..
    } = situation;
    let walk = Walk::from(topology, 0);
    let mut below = vec![0; topology.switches().len()];
    members
        .iter()
        .for_each(|&host| below[topology.switch_of(host)] += 1);
    let mut cables = Vec::new();
    for &switch in walk.order().iter().rev() {
        let Some(above) = walk.above()[switch] else {
            continue;
        };
        let (down, up) = (below[switch], members.len() as u64 - below[switch]);
        below[above] += down;
        if down > 0 && up > 0 {
            let slowness = speeds.map_or(USUAL, |speeds| speeds.cable(topology, switch, above));
            cables.push((slowness, down.max(up)));
        }
    }
    cables
}

fn in_sends(slowness: u64) -> f64 {
    slowness as f64 / USUAL as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Calibration, Point};
    use crate::plan::{Costs, Via, make};
    use crate::topology::Topology;

    fn price(topology: &Topology, bytes: u64, calibration: &Calibration) -> Allgather {
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        allgather(&situation(topology, &members, bytes, calibration))
    }

    fn situation<'a>(
        topology: &'a Topology,
        members: &'a [usize],
        bytes: u64,
        calibration: &'a Calibration,
    ) -> Situation<'a> {
        Situation {
            topology,
            root_host: 0,
            members,
            size_bytes: Some(bytes),
            frame_payload_bytes: 1000,
            calibration,
        }
    }

    fn even() -> Calibration {
        let point = |bytes| Point {
            bytes,
            gap_ns: bytes,
            latency_ns: 5_000,
        };
        Calibration::from_points(vec![point(100), point(10_000)]).expect("a calibration")
    }

    fn star(hosts: usize) -> Topology {
        Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("hosts")
    }

    #[test]
    fn casts_save_the_steps_of_the_ring_until_they_are_policed() {
        let Allgather {
            casts_seconds,
            ring_seconds,
        } = price(&star(8), 100_000, &even());
        assert!(
            (casts_seconds - 705e-6).abs() < 1e-9,
            "seven blocks at once: {casts_seconds}"
        );
        assert!(
            (ring_seconds - 735e-6).abs() < 1e-9,
            "seven steps: {ring_seconds}"
        );
        let policed = even().with_cast_max(10_000).expect("a rate");
        let policed = price(&star(8), 100_000, &policed);
        assert!(
            policed.casts_seconds > 0.07 && policed.ring_seconds == ring_seconds,
            "{policed:?}"
        );
    }

    #[test]
    fn a_slow_cable_carries_the_blocks_of_one_side_by_casts_and_those_of_all_others_round_a_ring() {
        let text = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=[{to='b', rate='100mbit'}]}, {name='b', \
                    hosts='n[4-7]'}]";
        let topology = Topology::parse(text, "slow").expect("a topology");
        let point = |bytes| Point {
            bytes,
            gap_ns: bytes * 8,
            latency_ns: 5_000,
        };
        let gigabit =
            Calibration::from_points(vec![point(100), point(10_000)]).expect("a calibration");
        let Allgather {
            casts_seconds,
            ring_seconds,
        } = price(&topology, 100_000, &gigabit);
        let times = ring_seconds / casts_seconds;
        assert!(
            (1.7..1.8).contains(&times),
            "7 blocks over the cable, and 4: {times}"
        );
    }

    #[test]
    fn few_blocks_go_from_the_root_to_each_and_many_short_ones_in_parcels_down_a_tree() {
        let scatter = |via, ranks: usize, parcel_blocks, bytes, calibration: &Calibration| {
            let (topology, members) = (star(ranks), Vec::from_iter(0..ranks));
            let plan = make(via, &topology, 0, &members, &Costs::default()).expect("a plan");
            super::scatter(
                &plan,
                parcel_blocks,
                &situation(&topology, &members, bytes, calibration),
            )
        };
        let flat = scatter(Via::Flat, 8, 1, 5_000, &even());
        assert!(
            (flat - 40e-6).abs() < 1e-9,
            "seven blocks on the root's cable: {flat}"
        );
        assert!(scatter(Via::Binary, 8, 1, 5_000, &even()) >= flat);
        let frame = |bytes: u64| Point {
            bytes,
            gap_ns: bytes + 600,
            latency_ns: 5_000,
        };
        let short = Calibration::from_points(vec![frame(8), frame(1_000)]).expect("a calibration");
        let times =
            scatter(Via::Flat, 1000, 1, 8, &short) / scatter(Via::Binary, 1000, 120, 8, &short);
        assert!(times > 5.0, "{times}");
    }
}
