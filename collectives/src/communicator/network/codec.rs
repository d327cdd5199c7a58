//! Wire format of a communicator's description of its network. Received bytes are checked like a
//! file.

use super::{Chosen, MAX_NETWORK_BYTES, MAX_SWITCHES, Network, SavedTree, most_ranks, rank_name};
use crate::membership::codec::{BodyReader, BodyWriter};
use crate::preset::{via_from_wire, via_to_wire};
use ethbcast_planning::model::{Broadcast, Calibration, HostCost, Point, Processing};
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::{Place, Topology, Uplink};
use ethbcast_transport::wire::Rank;

const CASTS: u8 = 1;
const PROBE: u8 = 2;
const TOPOLOGY: u8 = 4;
const CALIBRATION: u8 = 8;

/// Flag byte before the processor costs: absent, present, present with costs of long streams.
const NO_PROCESSING: u8 = 0;
const PROCESSING: u8 = 1;
const PROCESSING_IN_STREAMS: u8 = 2;

/// Route byte: the one predicted to be fastest, a fixed one, or the tree that follows.
const AUTO: u8 = 0;
const VIA: u8 = 1;
const SAVED: u8 = 2;

impl Network {
    pub(in crate::communicator) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let known =
            flag(self.topology.is_some(), TOPOLOGY) | flag(self.calibration.is_some(), CALIBRATION);
        out.u8(flag(self.casts, CASTS) | flag(self.probe, PROBE) | known);
        match &self.chosen {
            Chosen::Auto => _ = out.u8(AUTO),
            Chosen::Via(via) => write_via(*via, out.u8(VIA)),
            Chosen::Saved(saved) => saved.write(out.u8(SAVED)),
        }
        if let Some(topology) = &self.topology {
            write_topology(topology, &mut out);
        }
        if let Some(calibration) = &self.calibration {
            write_calibration(calibration, &mut out);
        }
        out.into_bytes()
    }

    pub(in crate::communicator) fn decode(bytes: &[u8], size: u16) -> Option<Network> {
        if bytes.len() > MAX_NETWORK_BYTES {
            return None;
        }
        let mut from = BodyReader::new(bytes);
        let flags = from.u8()?;
        let chosen = match from.u8()? {
            AUTO => Chosen::Auto,
            VIA => Chosen::Via(read_via(&mut from).filter(|&via| size <= most_ranks(via))?),
            SAVED => Chosen::Saved(SavedTree::read(&mut from, size)?),
            _ => return None,
        };
        let topology = if flags & TOPOLOGY == 0 {
            None
        } else {
            Some(read_topology(&mut from, size)?)
        };
        let calibration = if flags & CALIBRATION == 0 {
            None
        } else {
            Some(read_calibration(&mut from, size)?)
        };
        let (casts, probe) = (flags & CASTS != 0, flags & PROBE != 0);
        from.rest().is_empty().then_some(Network {
            topology,
            calibration,
            chosen,
            casts,
            probe,
        })
    }
}

fn write_via(via: Via, out: &mut BodyWriter) {
    let (number, children) = via_to_wire(via);
    out.u8(number).u8(children);
}

fn read_via(from: &mut BodyReader<'_>) -> Option<Via> {
    via_from_wire(from.u8()?, from.u8()?)
}

impl SavedTree {
    fn write(&self, out: &mut BodyWriter) {
        write_via(self.plan.via(), out);
        out.u64(self.segment_bytes);
        for rank in 0..self.plan.ranks() {
            let parent = self.plan.parent(rank);
            let order = parent.and_then(|parent| {
                self.plan
                    .children(parent)
                    .iter()
                    .position(|&child| child == rank)
            });
            out.u16(parent.map_or(Rank::NONE.0, |parent| parent as u16))
                .u16(order.unwrap_or(0) as u16);
        }
    }

    fn read(from: &mut BodyReader<'_>, size: u16) -> Option<SavedTree> {
        let (via, segment_bytes) = (read_via(from)?, from.u64()?);
        let (mut root, mut children) = (None, vec![Vec::new(); usize::from(size)]);
        for rank in 0..usize::from(size) {
            let (parent, order) = (from.u16()?, from.u16()?);
            if parent == Rank::NONE.0 {
                root = Some(rank);
            } else {
                children.get_mut(usize::from(parent))?.push((order, rank));
            }
        }
        children
            .iter_mut()
            .for_each(|list: &mut Vec<(u16, usize)>| list.sort_unstable());
        let children: Vec<Vec<usize>> = children
            .into_iter()
            .map(|list| list.into_iter().map(|(_, rank)| rank).collect())
            .collect();
        let plan = Plan::from_children(via, root?, &children).ok()?;
        (segment_bytes > 0).then_some(SavedTree {
            plan,
            segment_bytes,
        })
    }
}

fn write_topology(topology: &Topology, out: &mut BodyWriter) {
    let ranks: Vec<usize> = (0..topology.hosts().len()).collect();
    let (uplinks, places) = topology.places_of(&ranks);
    out.u16(uplinks.len() as u16);
    uplinks
        .iter()
        .for_each(|&Uplink { to, rate }| _ = out.u16(to as u16).u64(rate.unwrap_or(0)));
    for Place {
        switch,
        rate,
        injection_ns,
    } in places
    {
        out.u16(switch as u16)
            .u64(rate.unwrap_or(0))
            .u64(injection_ns.unwrap_or(0));
    }
}

fn read_topology(from: &mut BodyReader<'_>, size: u16) -> Option<Topology> {
    let count = usize::from(from.u16()?);
    if count >= MAX_SWITCHES {
        return None;
    }
    let known = |value: u64| Some(value).filter(|&value| value > 0);
    let uplinks = (0..count).map(|_| {
        Some(Uplink {
            to: usize::from(from.u16()?),
            rate: known(from.u64()?),
        })
    });
    let uplinks: Vec<Uplink> = uplinks.collect::<Option<_>>()?;
    let place = |_| {
        let (switch, rate, injection_ns) = (
            usize::from(from.u16()?),
            known(from.u64()?),
            known(from.u64()?),
        );
        Some(Place {
            switch,
            rate,
            injection_ns,
        })
    };
    let places: Vec<Place> = (0..size).map(place).collect::<Option<_>>()?;
    Topology::of_places(&uplinks, &places)
}

const FULL_RATE: u64 = u64::MAX;
/// Mark of a rate at which casts arrive whole.
const ARRIVES: u64 = 1 << 63;

/// Writes loss, the rate above which broadcast is policed, the points, each rank's cost of a frame,
/// processor costs, and the links' burst; zero stands for unknown.
fn write_calibration(calibration: &Calibration, out: &mut BodyWriter) {
    let broadcast = match calibration.broadcast() {
        Broadcast::Untried => 0,
        Broadcast::FullRate => FULL_RATE,
        Broadcast::Policed(frames_per_second) => frames_per_second.min(ARRIVES - 1),
        Broadcast::Slower(frames_per_second) => frames_per_second.min(ARRIVES - 1) | ARRIVES,
    };
    out.u64(calibration.loss().to_bits()).u64(broadcast);
    out.u8(calibration.points().len() as u8);
    for &Point {
        bytes,
        gap_ns,
        latency_ns,
    } in calibration.points()
    {
        out.u64(bytes).u64(gap_ns).u64(latency_ns as u64);
    }
    out.u16(calibration.hosts().len() as u16);
    for HostCost { name, injection_ns } in calibration.hosts() {
        let rank = name
            .strip_prefix("rank")
            .and_then(|rank| rank.parse().ok())
            .unwrap_or(Rank::NONE.0);
        out.u16(rank).u64(*injection_ns);
    }
    match calibration.processing() {
        None => out.u8(NO_PROCESSING),
        Some(processing) => write_processing(processing, out),
    };
    out.u64(calibration.burst_ns());
}

fn write_processing<'a>(processing: &Processing, out: &'a mut BodyWriter) -> &'a mut BodyWriter {
    let &Processing {
        send_frame_ns,
        send_byte_ps,
        receive_frame_ns,
        receive_byte_ps,
        ..
    } = processing;
    let in_streams = processing.pass_on_frame_ns > 0 || processing.cast_frame_ns > 0;
    out.u8(if in_streams {
        PROCESSING_IN_STREAMS
    } else {
        PROCESSING
    });
    out.u64(send_frame_ns)
        .u64(send_byte_ps)
        .u64(receive_frame_ns)
        .u64(receive_byte_ps);
    if in_streams {
        out.u64(processing.pass_on_frame_ns)
            .u64(processing.cast_frame_ns)
            .u32(processing.stream_frame_bytes);
    }
    out.u64(processing.wake_up_ns).u32(processing.shared_cores)
}

fn read_calibration(from: &mut BodyReader<'_>, size: u16) -> Option<Calibration> {
    let loss = f64::from_bits(from.u64()?);
    let broadcast = match from.u64()? {
        0 => Broadcast::Untried,
        FULL_RATE => Broadcast::FullRate,
        marked if marked & ARRIVES != 0 => Broadcast::Slower((marked & !ARRIVES).max(1)),
        frames_per_second => Broadcast::Policed(frames_per_second),
    };
    let points = (0..from.u8()?)
        .map(|_| {
            Some(Point {
                bytes: from.u64()?,
                gap_ns: from.u64()?,
                latency_ns: from.u64()? as i64,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let hosts = (0..from.u16()?)
        .map(|_| {
            let (rank, injection_ns) = (from.u16()?, from.u64()?);
            (rank < size).then(|| HostCost {
                name: rank_name(rank.into()),
                injection_ns,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let calibration = calibration_of(points, loss, broadcast, hosts)?;
    let calibration = match from.u8()? {
        NO_PROCESSING => calibration,
        known => calibration
            .with_processing(read_processing(known, from)?)
            .ok()?,
    };
    calibration.with_burst_ns(from.u64()?).ok()
}

fn read_processing(known: u8, from: &mut BodyReader<'_>) -> Option<Processing> {
    matches!(known, PROCESSING | PROCESSING_IN_STREAMS).then_some(())?;
    let in_streams = |from: &mut BodyReader<'_>| {
        if known == PROCESSING_IN_STREAMS {
            from.u64()
        } else {
            Some(0)
        }
    };
    Some(Processing {
        send_frame_ns: from.u64()?,
        send_byte_ps: from.u64()?,
        receive_frame_ns: from.u64()?,
        receive_byte_ps: from.u64()?,
        pass_on_frame_ns: in_streams(from)?,
        cast_frame_ns: in_streams(from)?,
        stream_frame_bytes: if known == PROCESSING_IN_STREAMS {
            from.u32()?
        } else {
            0
        },
        wake_up_ns: from.u64()?,
        shared_cores: from.u32()?,
    })
}

pub(in crate::communicator) fn write_costs(calibration: &Calibration) -> Vec<u8> {
    let mut out = BodyWriter::default();
    write_calibration(calibration, &mut out);
    out.into_bytes()
}

pub(in crate::communicator) fn read_costs(bytes: &[u8]) -> Option<Calibration> {
    read_calibration(&mut BodyReader::new(bytes), 0)
}

pub(super) fn calibration_of(
    points: Vec<Point>,
    loss: f64,
    broadcast: Broadcast,
    hosts: Vec<HostCost>,
) -> Option<Calibration> {
    let calibration = Calibration::from_points(points)
        .ok()?
        .with_loss(loss)
        .ok()?
        .with_broadcast(broadcast)
        .ok()?;
    if hosts.is_empty() {
        Some(calibration)
    } else {
        calibration.with_hosts(&rank_name(0), hosts).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(size: u16) -> SavedTree {
        let children: Vec<Vec<usize>> = (0..usize::from(size))
            .map(|rank| if rank == 1 { vec![2, 0] } else { Vec::new() })
            .collect();
        SavedTree {
            plan: Plan::from_children(Via::Latency, 1, &children).expect("a plan"),
            segment_bytes: 4096,
        }
    }

    fn networks() -> Vec<Network> {
        let place = |switch| Place {
            switch,
            rate: None,
            injection_ns: Some(40_000),
        };
        let link = Uplink {
            to: 0,
            rate: Some(1_000_000_000),
        };
        let topology = Topology::of_places(&[link], &[place(0), place(1), place(0)]);
        let cost = HostCost {
            name: rank_name(2),
            injection_ns: 9,
        };
        let points = Calibration::assumed(1_000_000_000, 1468).points().to_vec();
        let calibration = calibration_of(points, 0.01, Broadcast::Policed(500), vec![cost]);
        assert!(calibration.is_some() && topology.is_some());
        let processing = Processing {
            send_frame_ns: 1,
            receive_byte_ps: 4,
            shared_cores: 2,
            ..Processing::default()
        };
        let calibration = calibration.map(|it| {
            it.with_processing(processing)
                .and_then(|it| it.with_burst_ns(7))
                .expect("little")
        });
        let of_streams = calibration.clone().map(|it| {
            it.with_processing(Processing {
                pass_on_frame_ns: 3,
                cast_frame_ns: 5,
                stream_frame_bytes: 9,
                ..processing
            })
            .expect("little")
        });
        let full = Network {
            topology,
            calibration,
            chosen: Chosen::Via(Via::Kary(4)),
            casts: false,
            probe: true,
        };
        let saved = Network {
            chosen: Chosen::Saved(tree(3)),
            calibration: of_streams,
            ..full.clone()
        };
        vec![Network::unknown(), full, saved]
    }

    #[test]
    fn a_whole_description_is_read_and_no_part_of_one_is() {
        for network in networks() {
            let wire = network.encode();
            assert_eq!(Network::decode(&wire, 3), Some(network));
            assert!((0..wire.len()).all(|end| Network::decode(&wire[..end], 3).is_none()));
            assert_eq!(
                Network::decode(&[&wire[..], &[0]].concat(), 3),
                None,
                "more than there is"
            );
        }
        let [_, full, saved] = &networks()[..] else {
            unreachable!("there are three")
        };
        assert_eq!(
            [full, saved].map(|network| Network::decode(&network.encode(), 2)),
            [None, None],
            "other ranks"
        );
    }

    #[test]
    fn measured_costs_are_encoded_exactly() {
        let calibration = Calibration::assumed(25_000_000, 1468)
            .with_loss(0.01)
            .expect("a share");
        for broadcast in [
            Broadcast::Untried,
            Broadcast::FullRate,
            Broadcast::Policed(77),
            Broadcast::Slower(77),
        ] {
            let calibration = calibration
                .clone()
                .with_broadcast(broadcast)
                .expect("above 0");
            assert_eq!(read_costs(&write_costs(&calibration)), Some(calibration));
        }
        assert_eq!(read_costs(&[]), None);
    }

    #[test]
    fn impossible_values_are_refused() {
        let blocks = Network {
            chosen: Chosen::Via(Via::ScatterAllgather),
            ..Network::unknown()
        };
        assert_eq!(
            (
                Network::decode(&blocks.encode(), 64),
                Network::decode(&blocks.encode(), 65)
            ),
            (Some(blocks), None)
        );
        let mut circle = networks()[2].encode();
        // Rank 0's parent becomes rank 2, and rank 2's parent is no longer the root.
        circle[12..16].copy_from_slice(&[0, 2, 0, 0]);
        circle[20..24].copy_from_slice(&[0, 0, 0, 0]);
        assert_eq!(Network::decode(&circle, 3), None);
    }

    proptest! {
        #[test]
        fn arbitrary_changes_never_panic_and_what_is_read_stays_what_it_is(
            which in 0..3usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut wire = networks()[which].encode();
            for (at, byte) in changes {
                let at = at.index(wire.len());
                wire[at] = byte;
            }
            if let Some(read) = Network::decode(&wire, 3) {
                // The encoder numbers switches from rank 0's on; the input may differ.
                let written = read.encode();
                prop_assert_eq!(Network::decode(&written, 3).map(|read| read.encode()), Some(written));
            }
        }
    }
}
