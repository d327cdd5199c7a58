//! Results of a network measurement: rates, round trips, MTU and losses.

use super::findings::{CastFinding, Findings, Target, median};
use super::processor::WorkPoint;
use ethbcast_transport::wire::{Peer, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Utilisation above which a processor is the stream's bottleneck.
const BUSY_SHARE: f64 = 0.7;

/// Share below which the gaps of several rounds agree.
const UNSTEADY: f64 = 0.05;

/// Factor over the time of one send from which processors limit a chain.
const LIMITED: u64 = 2;

const SLOW_TIMES: u64 = 4;

/// The model's numbers for messages of m bytes (Patarasuk 2008 §4.1): the gap g(m) between
/// consecutive messages of a train, one way; RTT(m), there and back again; L(m) = RTT(m)/2 − g(m),
/// not below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub bytes: usize,
    pub gap_nanos: u64,
    pub round_trip_nanos: u64,
    pub latency_nanos: u64,
}

/// Costs of a stream of full frames, per frame: the interval between two, one way, and the
/// processor time to send one and to receive it, to receive one and forward it, and to send one to
/// all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkCost {
    pub payload_bytes: usize,
    pub gap_nanos: u64,
    pub work_nanos: Option<(u64, u64)>,
    pub relaying_nanos: Option<u64>,
    pub casting_nanos: Option<u64>,
}

impl BulkCost {
    /// Whether a processor is the bottleneck. On a slower cable each frame arrives alone and wakes
    /// its receiver, so its cost shows nothing about denser arrivals.
    pub(super) fn waits_for_processors(&self) -> bool {
        let busy = self
            .work_nanos
            .map_or(0, |(sending, receiving)| sending.max(receiving));
        busy as f64 >= self.gap_nanos as f64 * BUSY_SHARE
    }
}

/// Findings about one host, in the units of [`ProbeResult`].
#[derive(Clone, Debug, PartialEq)]
pub struct TargetResult {
    pub peer: Peer,
    pub points: Vec<Point>,
    pub rate_bits_per_second: Option<u64>,
    pub path_mtu_bytes: Option<usize>,
    pub loss: f64,
}

/// Findings of a [`Prober`](super::Prober): medians over the hosts, and each host by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// Points by size, with gaps that never fall; sizes that could not be measured are left out.
    pub points: Vec<Point>,
    /// Rate in bits per second, preamble and gap of Ethernet included, by the largest gap; `None`
    /// if none was measured.
    pub rate_bits_per_second: Option<u64>,
    /// Largest MTU whose frames came back from every host that replied, in bytes; `None` if there
    /// is none.
    pub path_mtu_bytes: Option<usize>,
    /// Share by which repeated measurements of the gap differ; 0 if they agree, 1 if there was only
    /// one.
    pub spread: f64,
    /// Share of frames lost on the way to all hosts.
    pub loss: f64,
    pub cast: CastFinding,
    /// Ranks of the hosts that did not reply, or fell silent.
    pub silent: Vec<Rank>,
    pub targets: Vec<TargetResult>,
    /// Processor time of messages at both ends, by size; empty if not reported.
    pub work: Vec<WorkPoint>,
    pub bulk: Option<BulkCost>,
    /// Cores that this host shares with all that replied, as in namespaces of one computer; 0 if
    /// each has its own, or one does not report.
    pub shared_cores: u32,
}

impl ProbeResult {
    /// Returns the hosts whose link is slower by a factor of four than the usual one of three or
    /// more hosts, each with its own rate and the usual one in bits per second. The factor is four
    /// because a link five times slower measures as somewhat less.
    pub fn slow_hosts(&self) -> Vec<(Rank, u64, u64)> {
        let rate = |target: &TargetResult| Some((target.peer.rank, target.rate_bits_per_second?));
        let rates: Vec<(Rank, u64)> = self.targets.iter().filter_map(rate).collect();
        let usual = median(&rates.iter().map(|&(_, rate)| rate).collect::<Vec<u64>>()).unwrap_or(0);
        let slow =
            |&(_, rate): &(Rank, u64)| rates.len() >= 3 && rate.saturating_mul(SLOW_TIMES) <= usual;
        rates
            .iter()
            .copied()
            .filter(slow)
            .map(|(rank, rate)| (rank, rate, usual))
            .collect()
    }

    pub(super) fn new(findings: &Findings) -> ProbeResult {
        let bulk = bulk(findings);
        let streaming = streaming(findings, bulk.as_ref());
        let targets: Vec<_> = findings
            .targets
            .iter()
            .filter(|it| it.present)
            .map(|it| target_result(it, findings, streaming))
            .collect();
        let points = over_targets(&targets, findings);
        let (sent, lost) = findings
            .targets
            .iter()
            .fold((0, 0), |sum, it| (sum.0 + it.sent, sum.1 + it.lost));
        ProbeResult {
            rate_bits_per_second: rate(&points, findings),
            path_mtu_bytes: targets.iter().filter_map(|it| it.path_mtu_bytes).min(),
            loss: if sent == 0 {
                0.0
            } else {
                lost as f64 / sent as f64
            },
            cast: findings.cast,
            spread: spread(findings),
            silent: findings
                .targets
                .iter()
                .filter(|it| !it.present)
                .map(|it| it.peer.rank)
                .collect(),
            work: work(findings),
            bulk,
            shared_cores: findings.shared_cores(),
            targets,
            points,
        }
    }
}

/// Returns the spread of the measurements, as the median over the hosts. A host's spread is the
/// larger of two shares: by which parts of its longest trains differ from the whole, and by which
/// the gaps of its rounds differ.
fn spread(findings: &Findings) -> f64 {
    let of_target = |target: &Target| {
        let (bytes, gaps) = target.gaps.last_key_value()?;
        let parts: Vec<u64> = target
            .spreads
            .get(bytes)?
            .iter()
            .map(|share| (share * 1e6) as u64)
            .collect();
        let rounds = gaps
            .iter()
            .max()
            .zip(gaps.iter().min())
            .map_or(1.0, |(most, least)| *most as f64 / *least as f64);
        // Twice the square root: the median of the rounds is in the middle of the two.
        let rounds = Some(rounds.sqrt() - 1.0)
            .filter(|&share| share > UNSTEADY)
            .unwrap_or(0.0);
        Some(
            median(&parts)
                .unwrap_or(1_000_000)
                .max((rounds * 1e6) as u64),
        )
    };
    let spreads: Vec<u64> = findings
        .targets
        .iter()
        .filter(|it| it.present)
        .filter_map(of_target)
        .collect();
    median(&spreads).unwrap_or(1_000_000) as f64 / 1e6
}

fn bulk(findings: &Findings) -> Option<BulkCost> {
    let found = || findings.targets.iter().filter_map(|target| target.bulk);
    let middle = |nanos: Vec<u64>| median(&nanos);
    let work = || found().filter_map(|bulk| bulk.work_nanos);
    let gap_nanos = middle(found().map(|bulk| bulk.gap_nanos).collect())?;
    Some(BulkCost {
        payload_bytes: findings.payload_bytes,
        gap_nanos,
        work_nanos: middle(work().map(|(sending, _)| sending).collect())
            .zip(middle(work().map(|(_, receiving)| receiving).collect())),
        relaying_nanos: relaying(findings, gap_nanos),
        casting_nanos: median(&findings.casting_nanos),
    })
}

/// Returns the median of the relays' processor time per frame. `gap_nanos` is the interval of a
/// stream to one. If all hosts share the processors that limit the chain, it is their time between
/// two frames, idle time included, per copy.
fn relaying(findings: &Findings, gap_nanos: u64) -> Option<u64> {
    let chain = &findings.chain;
    let own = median(&chain.relaying_nanos)?;
    let limited = chain
        .gap_nanos
        .filter(|&chain_nanos| chain_nanos > gap_nanos * LIMITED);
    let shared = limited.map_or(0, |nanos| {
        nanos.saturating_mul(findings.shared_cores().into()) / chain.copies.max(1)
    });
    Some(own.max(shared))
}

/// Returns the factor from a train's full-frame gap to a stream's, where processors are the
/// bottleneck. Elsewhere a train is more exact: its frames are timed one by one and none is
/// repeated.
fn streaming(findings: &Findings, bulk: Option<&BulkCost>) -> f64 {
    let bulk = bulk.filter(|bulk| bulk.waits_for_processors());
    let gaps = findings
        .targets
        .iter()
        .filter_map(|target| median(target.gaps.get(&findings.payload_bytes)?));
    let train = median(&gaps.collect::<Vec<_>>());
    bulk.zip(train).map_or(1.0, |(bulk, train)| {
        bulk.gap_nanos as f64 / train.max(1) as f64
    })
}

fn work(findings: &Findings) -> Vec<WorkPoint> {
    let of = |bytes: usize, samples: fn(&Target) -> &BTreeMap<usize, Vec<u64>>| {
        let all = findings
            .targets
            .iter()
            .filter_map(|target| samples(target).get(&bytes))
            .flatten();
        median(&all.copied().collect::<Vec<_>>())
    };
    let sizes: BTreeSet<usize> = findings
        .targets
        .iter()
        .flat_map(|target| target.sending.keys().copied())
        .collect();
    let point = |bytes| {
        Some(WorkPoint {
            bytes,
            frames: findings.framed(bytes).frames(),
            sending_nanos: of(bytes, |target| &target.sending)?,
            receiving_nanos: of(bytes, |target| &target.receiving)?,
        })
    };
    sizes.into_iter().filter_map(point).collect()
}

fn target_result(target: &Target, findings: &Findings, streaming: f64) -> TargetResult {
    let measured = target.gaps.iter().filter_map(|(&bytes, gaps)| {
        let round_trip_nanos = median(target.round_trips.get(&bytes)?)?;
        Some(Point {
            bytes,
            gap_nanos: median(gaps)?,
            round_trip_nanos,
            latency_nanos: 0,
        })
    });
    let mut points = smoothed(measured.collect(), |bytes| {
        findings.framed(bytes).message_wire_bytes()
    });
    let mut least = 1;
    for point in &mut points {
        let times = if point.bytes >= findings.payload_bytes {
            streaming
        } else {
            1.0
        };
        point.gap_nanos = ((point.gap_nanos as f64 * times) as u64).max(least);
        least = point.gap_nanos;
        point.latency_nanos = (point.round_trip_nanos / 2).saturating_sub(point.gap_nanos);
    }
    TargetResult {
        peer: target.peer,
        rate_bits_per_second: rate(&points, findings),
        points,
        path_mtu_bytes: target.mtu_bytes,
        loss: target.loss(),
    }
}

fn over_targets(targets: &[TargetResult], findings: &Findings) -> Vec<Point> {
    let mut sizes: Vec<usize> = targets
        .iter()
        .flat_map(|target| target.points.iter().map(|point| point.bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let middle = |bytes: usize, of: fn(&Point) -> u64| {
        let points = targets
            .iter()
            .filter_map(|target| target.points.iter().find(|point| point.bytes == bytes));
        median(&points.map(of).collect::<Vec<_>>()).unwrap_or(0)
    };
    let points = sizes.into_iter().map(|bytes| Point {
        bytes,
        gap_nanos: middle(bytes, |point| point.gap_nanos),
        round_trip_nanos: middle(bytes, |point| point.round_trip_nanos),
        latency_nanos: 0,
    });
    smoothed(points.collect(), |bytes| {
        findings.framed(bytes).message_wire_bytes()
    })
}

/// Returns the rate from the largest size, where fixed costs and the clocks' resolution matter
/// least.
fn rate(points: &[Point], findings: &Findings) -> Option<u64> {
    let point = points.last()?;
    let bits = findings.framed(point.bytes).message_wire_bytes() * 8;
    Some((bits as f64 * 1e9 / point.gap_nanos as f64) as u64)
}

/// Makes the gaps grow with the sizes, and derives the latencies: L(m) = RTT(m)/2 − g(m).
///
/// Neighbours that fall are replaced by their mean until none do (pool adjacent violators), which
/// changes as little as possible. No byte on the wire takes less time than in the longest message:
/// a few short messages pass a rate limiter at once, or are handled together by a busy processor.
/// `wire_bytes` returns a size's bytes on the wire.
fn smoothed(mut points: Vec<Point>, wire_bytes: impl Fn(usize) -> u64) -> Vec<Point> {
    // Runs of equal gaps: sum and count.
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for point in &points {
        runs.push((point.gap_nanos.max(1), 1));
        while let [.., (first, a), (second, b)] = runs[..]
            && first * b > second * a
        {
            runs.truncate(runs.len() - 2);
            runs.push((first + second, a + b));
        }
    }
    let gaps = runs
        .into_iter()
        .flat_map(|(sum, count)| std::iter::repeat_n(sum / count, count as usize));
    let gaps: Vec<u64> = gaps.collect();
    let pace = |bytes: usize, gap: u64| gap as f64 / wire_bytes(bytes) as f64;
    let longest = points
        .last()
        .zip(gaps.last())
        .map_or(0.0, |(point, &gap)| pace(point.bytes, gap));
    for (point, gap) in points.iter_mut().zip(gaps) {
        point.gap_nanos = gap.max((longest * wire_bytes(point.bytes) as f64) as u64);
        point.latency_nanos = (point.round_trip_nanos / 2).saturating_sub(point.gap_nanos);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(gaps: &[u64]) -> Vec<Point> {
        let point = |(at, &gap_nanos)| Point {
            bytes: at,
            gap_nanos,
            round_trip_nanos: 100,
            latency_nanos: 0,
        };
        gaps.iter().enumerate().map(point).collect()
    }

    fn gaps(points: &[Point]) -> Vec<u64> {
        points.iter().map(|point| point.gap_nanos).collect()
    }

    fn tenfold(size: usize) -> u64 {
        10_u64.pow(size as u32)
    }

    #[test]
    fn a_short_message_is_no_faster_on_the_wire_than_the_longest() {
        let wire = |bytes: usize| 100 * (bytes as u64 + 1);
        assert_eq!(
            gaps(&smoothed(points(&[10, 30, 80, 120]), wire)),
            [30, 60, 90, 120]
        );
        assert_eq!(
            gaps(&smoothed(points(&[35, 60, 95, 120]), wire)),
            [35, 60, 95, 120]
        );
    }

    #[test]
    fn gaps_that_fall_are_averaged_and_latencies_follow() {
        let smooth = smoothed(points(&[10, 30, 20, 40, 70]), tenfold);
        assert_eq!(gaps(&smooth), [10, 25, 25, 40, 70]);
        let latencies: Vec<u64> = smooth.iter().map(|point| point.latency_nanos).collect();
        assert_eq!(
            latencies,
            [40, 25, 25, 10, 0],
            "half the round trip less the gap, not below 0"
        );
    }

    proptest! {
        #[test]
        fn smoothed_gaps_never_fall_and_those_that_never_fell_are_left_alone(
            mut given in prop::collection::vec(1..10_u64, 0..12),
        ) {
            let smooth = gaps(&smoothed(points(&given), tenfold));
            prop_assert!(smooth.is_sorted() && smooth.len() == given.len());
            given.sort_unstable();
            prop_assert_eq!(gaps(&smoothed(points(&given), tenfold)), given);
        }
    }
}
