//! Conversion of measured gaps and round trips to the cost model's parameters g(m) and L(m).

use super::processor::per_frame_and_byte;
use super::{self as measure, BulkCost, CastFinding, ProbeResult, TargetResult};
use ethbcast_planning::model::{
    Broadcast, Calibration, CalibrationError, HostCost, Point, Processing,
};
use ethbcast_transport::wire::{HEADER_BYTES, Rank};

/// Loss below this share is an accident, not a property of the network.
const MIN_LOSS: f64 = 1e-5;
const MAX_LOSS: f64 = 0.99;
const MAX_BURST_NS: u64 = 1_000_000_000;
const MAX_SPREAD: f64 = 9.0;

/// Derives the calibration from a measurement.
///
/// # Errors
/// [`CalibrationError`] if fewer than two sizes were measured.
pub fn calibrate(result: &ProbeResult) -> Result<Calibration, CalibrationError> {
    let points: Vec<Point> = result.points.iter().map(point).collect();
    let burst_ns = burst_ns(&points);
    let calibration = Calibration::from_points(points)?.with_burst_ns(burst_ns)?;
    let loss = if result.loss < MIN_LOSS {
        0.0
    } else {
        result.loss.min(MAX_LOSS)
    };
    let calibration = calibration
        .with_loss(loss)?
        .with_broadcast(broadcast(result.cast))?;
    let calibration = calibration.with_spread(result.spread.clamp(0.0, MAX_SPREAD))?;
    match processing(result) {
        Some(processing) => calibration.with_processing(processing),
        None => Ok(calibration),
    }
}

/// Returns the processor costs of both ends, if both report them: from trains of several sizes, and
/// from streams where processors are the limit. An idle host's wake-up time is half the shortest
/// round trip less both ends' work and two cables.
fn processing(result: &ProbeResult) -> Option<Processing> {
    if result.work.len() < 2 {
        return None;
    }
    let (send_frame_ns, send_byte_ps) =
        per_frame_and_byte(&result.work, |point| point.sending_nanos);
    let (receive_frame_ns, receive_byte_ps) =
        per_frame_and_byte(&result.work, |point| point.receiving_nanos);
    let least = result.points.first()?;
    let cable_nanos = result
        .rate_bits_per_second
        .map_or(0, |rate| (least.bytes as u64 * 8_000_000_000) / rate.max(1));
    let wake_up_ns = (least.round_trip_nanos / 2).saturating_sub(
        send_frame_ns
            .saturating_add(receive_frame_ns)
            .saturating_add(2 * cable_nanos),
    );
    let bulk = result.bulk.filter(BulkCost::waits_for_processors);
    let in_streams = |of: fn(&BulkCost) -> Option<u64>| bulk.as_ref().and_then(of).unwrap_or(0);
    let alone = |bulk: &BulkCost| {
        bulk.work_nanos
            .map(|(sending, receiving)| sending.saturating_add(receiving))
    };
    let shared_cores = result.shared_cores;
    let processing = Processing {
        send_frame_ns,
        send_byte_ps,
        receive_frame_ns,
        receive_byte_ps,
        pass_on_frame_ns: in_streams(|bulk| bulk.relaying_nanos)
            .max(bulk.as_ref().and_then(alone).unwrap_or(0)),
        cast_frame_ns: in_streams(|bulk| bulk.casting_nanos),
        stream_frame_bytes: bulk.as_ref().map_or(0, |bulk| bulk.payload_bytes as u32),
        wake_up_ns,
        shared_cores,
    };
    // Clamping keeps one forged number from spoiling the others.
    Some(processing.clamped())
}

pub(crate) fn broadcast(finding: CastFinding) -> Broadcast {
    match finding {
        CastFinding::Policed {
            threshold_frames_per_second,
        } => Broadcast::Policed(threshold_frames_per_second.max(1)),
        CastFinding::Slower {
            frames_per_second, ..
        } => Broadcast::Slower(frames_per_second.max(1)),
        CastFinding::FullRate => Broadcast::FullRate,
        CastFinding::NotMeasured => Broadcast::Untried,
    }
}

/// Returns the cost of each host that replied: the time that a full frame to it occupies the path,
/// at the longest payload that reaches all of them. `name` returns the host name of a rank.
pub fn host_costs(result: &ProbeResult, name: impl Fn(Rank) -> String) -> Vec<HostCost> {
    let frame_bytes = result
        .path_mtu_bytes
        .map(|mtu_bytes| mtu_bytes.saturating_sub(HEADER_BYTES));
    let cost = |target: &TargetResult| {
        let frame = target
            .points
            .iter()
            .find(|point| Some(point.bytes) == frame_bytes)?;
        Some(HostCost {
            name: name(target.peer.rank),
            injection_ns: frame.gap_nanos.max(1),
        })
    };
    result.targets.iter().filter_map(cost).collect()
}

/// L(m) is derived from the round trip. The probe's own L(m) is clamped at zero.
fn point(point: &measure::Point) -> Point {
    let signed = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
    Point {
        bytes: point.bytes as u64,
        gap_ns: point.gap_nanos,
        latency_ns: signed(point.round_trip_nanos / 2) - signed(point.gap_nanos),
    }
}

/// Returns the time by which a message arrives sooner than its gap. On a wire it arrives later; a
/// token bucket lets that much of it pass at once.
fn burst_ns(points: &[Point]) -> u64 {
    let sooner = points.iter().map(|point| -point.latency_ns.min(0));
    sooner.max().unwrap_or(0).unsigned_abs().min(MAX_BURST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_planning::model::{Situation, choose_among};
    use ethbcast_planning::plan::Via;
    use ethbcast_planning::topology::Topology;

    fn result(sizes: usize, cast: CastFinding) -> ProbeResult {
        let point = |size: usize| measure::Point {
            bytes: 256 << size,
            gap_nanos: 20_000 << size,
            round_trip_nanos: 30_000 << size,
            latency_nanos: 0,
        };
        ProbeResult {
            points: (0..sizes).map(point).collect(),
            rate_bits_per_second: None,
            path_mtu_bytes: None,
            spread: 0.0,
            loss: 0.001,
            cast,
            silent: Vec::new(),
            targets: Vec::new(),
            work: Vec::new(),
            bulk: None,
            shared_cores: 0,
        }
    }

    #[test]
    fn the_file_says_what_was_measured() {
        let measured = calibrate(&result(
            3,
            CastFinding::Policed {
                threshold_frames_per_second: 2000,
            },
        ))
        .expect("enough");
        let written = measured.to_toml();
        let read = Calibration::parse(&written, "calibration.toml").expect("it parses");
        assert_eq!(
            read.points()[2],
            Point {
                bytes: 1024,
                gap_ns: 80_000,
                latency_ns: -20_000
            }
        );
        assert!(
            written.contains("loss = 0.001")
                && written.contains("cast_max_frames_per_second = 2000"),
            "{written}"
        );
    }

    #[test]
    fn processor_times_of_both_ends_are_in_the_file() {
        let work = |bytes: usize, frames| measure::WorkPoint {
            bytes,
            frames,
            sending_nanos: 2_000 * frames + bytes as u64,
            receiving_nanos: 1_000 * frames,
        };
        let told = ProbeResult {
            work: vec![work(256, 1), work(8192, 6)],
            ..result(3, CastFinding::FullRate)
        };
        let processing = *calibrate(&told)
            .expect("enough")
            .processing()
            .expect("told");
        assert_eq!(
            (processing.send_frame_ns, processing.send_byte_ps),
            (2_000, 1_000)
        );
        assert_eq!(
            (processing.receive_frame_ns, processing.receive_byte_ps),
            (1_000, 0)
        );
        assert_eq!(processing.wake_up_ns, 15_000 - 3_000);
        assert_eq!(
            calibrate(&result(3, CastFinding::FullRate))
                .expect("enough")
                .processing(),
            None
        );
    }

    #[test]
    fn where_buckets_let_a_message_pass_sooner_two_trees_are_taken_before_the_chain() {
        // 100 Mbit/s through two buckets of a frame: 20 µs to the next host.
        let point = |bytes, gap_nanos: u64, round_trip_nanos| measure::Point {
            bytes,
            gap_nanos,
            round_trip_nanos,
            latency_nanos: 0,
        };
        let shaped = ProbeResult {
            points: vec![
                point(64, 9_000, 30_000),
                point(1468, 121_000, 40_000),
                point(8 * 1468, 968_000, 1_492_000),
            ],
            loss: 0.0,
            ..result(0, CastFinding::FullRate)
        };
        let calibration = calibrate(&shaped).expect("enough");
        assert_eq!(calibration.burst_ns(), 222_000);
        let topology = Topology::builtin("fig9-4").expect("a test bed");
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        let taken = |kibibytes: u64| {
            let situation = Situation {
                topology: &topology,
                root_host: 0,
                members: &members,
                size_bytes: Some(kibibytes << 10),
                frame_payload_bytes: 1468,
                calibration: &calibration,
            };
            let choice = choose_among(&situation, |via| via != Via::Cast);
            choice.expect("a plan").plan.via()
        };
        // At 512 KiB both are about equal.
        assert_eq!(
            [32, 64, 128, 256, 1 << 20].map(taken),
            [
                Via::TwoTree,
                Via::TwoTree,
                Via::TwoTree,
                Via::TwoTree,
                Via::Chain
            ]
        );
        let wire = calibrate(&ProbeResult {
            points: vec![point(64, 9_000, 30_000), point(1468, 121_000, 300_000)],
            ..result(0, CastFinding::FullRate)
        });
        assert_eq!(wire.expect("enough").burst_ns(), 0);
    }

    #[test]
    fn a_single_size_is_too_little() {
        assert!(calibrate(&result(1, CastFinding::FullRate)).is_err());
    }
}
