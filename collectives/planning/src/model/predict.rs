//! Predicted time of a broadcast along a tree: equations (1) and (2) of Patarasuk 2008 §4.2,
//! extended.
//!
//! - A tree of any degree: the slowest first segment, max (A·L(m) + B·g(m)), then the rest of the
//!   message one segment each time the busiest port or cable has carried one, (X − 1)·max(D,
//!   flows)·g(m). With D = 1 that is equation (1), with D = 2 equation (2). In atomic trees the
//!   whole message is one segment, or as few as the engine can keep.
//! - Two trees: X/2 segments down each. Both are as above, the second one send later; what follows
//!   the first segments takes (X − 2)·halves/2·g(m), at most two halves being on any cable.
//! - Processors: a host does one thing at a time, and a relay receives each segment and sends it to
//!   each of its D children, r(m) + D·s(m). If that takes longer than the ports do, (X −
//!   1)·max(D·g(m), r(m) + D·s(m)) follows the first segment: the remark of §5.3 on 1000 Mbit/s,
//!   where processors could not send and receive at the link's rate. In a round of blocks a host
//!   sends and receives, s + r. If all hosts share one machine, the time is at least the work of
//!   all of them on its cores. Receivers are woken for each frame at both ends of a message. Those
//!   in between come as in a long stream, which costs less, and receivers nap through them. The
//!   work of the first segment's hosts is in L and g, which were measured on them.
//! - Token buckets let a burst of C nanoseconds pass at once after a pause, and L(m) + g(m) was
//!   measured with it. Of the burst, g(m) is used by the first segment. The rest, C − g(m),
//!   shortens the time of the following segments at the ports, and of the earlier sends at each
//!   host on the path. Processor time does not change.
//! - Blocks: each round costs L + flows·g of the bytes it moves (Thakur, Rabenseifner and Gropp
//!   2005 §4.3). A message longer than the engine keeps needs several such passes. The next begins
//!   when the ports are free, so its rounds have no L.
//! - Slow cables and hosts: a send over one counts as a multiple, by its time relative to a usual
//!   one. Where every cable carries the message (cast, blocks) the slowest decides.
//! - Cables and pairs of hosts with a latency of their own add it to each send's L(m) (Mateescu and
//!   Taylor §3: the weight of an edge); a cast and a round of blocks wait for the longest.
//! - Cast: X·g(m) + L(m), paced if switches police broadcast.
//! - Loss p: a hop repeats a share of p of its frames, and p of those again: 1/(1 − p). A cast to N
//!   receivers sends as much parity of a whole block as the receiver with the most losses needs.
//!   Frames outside whole blocks are repeated once if any receiver missed them, 1 − (1 − p)^N (by
//!   unicast to one, by cast to several). In all cases the last repair, if there is one, takes a
//!   round trip, 2 (L + g).

use super::calibration::Calibration;
use super::shape::{BlockRound, Shape};
use crate::plan::{MIN_SEGMENT_BYTES, Via};

/// Frames at both ends of a message for which a receiver is woken one by one, without naps.
const WOKEN_FRAMES: f64 = 128.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub size_bytes: u64,
    /// Bytes of a segment: whole frames or the whole message; in block-wise routes those of one
    /// block.
    pub segment_bytes: u64,
    pub frame_payload_bytes: u64,
}

/// Returns the time from the first frame sent to the last frame received, in seconds.
///
/// A segment of zero bytes counts as one byte, and so does the payload of a frame.
pub fn predict(shape: &Shape, job: &Job, calibration: &Calibration) -> f64 {
    if shape.ranks < 2 {
        return 0.0;
    }
    let frame = job.frame_payload_bytes.max(1);
    let pricing = Pricing {
        shape,
        size: job.size_bytes,
        segment: job.segment_bytes.max(1),
        frame,
        calibration,
    };
    let frames = job
        .size_bytes
        .div_ceil(job.frame_payload_bytes.max(1))
        .max(1) as f64;
    let nanoseconds = match shape.via {
        Via::Cast => pricing.cast(frames),
        via if via.is_scattered() => pricing.repeated(pricing.blocks(), frames),
        _ => pricing.repeated(pricing.tree(), frames),
    };
    nanoseconds / 1e9
}

struct Pricing<'a> {
    shape: &'a Shape,
    size: u64,
    segment: u64,
    frame: u64,
    calibration: &'a Calibration,
}

impl Pricing<'_> {
    fn tree(&self) -> f64 {
        let first_bytes = self.segment.min(self.size);
        let (gap, latency) = (
            self.calibration.gap_ns(first_bytes),
            self.calibration.latency_ns(first_bytes),
        );
        // Earlier sends of a host delay the present one only beyond its bucket's burst.
        let waiting = |hops: usize, sends: f64| {
            let before = (sends - hops as f64).max(0.0) * gap;
            (before - hops as f64 * self.at_once(gap)).max(0.0)
        };
        let arrival = |hops: usize, sends: f64| {
            hops as f64 * latency + sends.min(hops as f64) * gap + waiting(hops, sends)
        };
        let (first, busiest) = match &self.shape.slow {
            None => {
                let arrivals = self
                    .shape
                    .paths
                    .iter()
                    .map(|&(hops, sends)| arrival(hops, sends as f64));
                (arrivals.fold(0.0, f64::max), self.copies())
            }
            Some(slow) => {
                let arrivals = slow.paths.iter().map(|&(hops, sends)| arrival(hops, sends));
                (arrivals.fold(0.0, f64::max), slow.busiest)
            }
        };
        let far = self.shape.far.iter();
        let first = far
            .map(|path| arrival(path.hops, path.sends) + path.added_ns as f64)
            .fold(first, f64::max);
        // Of two trees, each has its own first segment.
        let first_of_both = if self.shape.worst_halves > 0 {
            1.0
        } else {
            0.0
        };
        let further = (self.further(first_bytes) - first_of_both).max(0.0);
        let following =
            (further * busiest * gap - self.at_once(gap)).max(further * self.relaying(first_bytes));
        let pipelined = first + following.max(0.0);
        if self.shared() > 0.0 {
            pipelined.max(self.shared() + latency + self.naps())
        } else {
            pipelined
        }
    }

    /// Returns the copies of a segment on the busiest port or cable.
    fn copies(&self) -> f64 {
        match self.shape.worst_halves {
            0 => self.shape.worst_flows.max(self.shape.degree) as f64,
            halves => halves as f64 / 2.0,
        }
    }

    /// Returns the part of a token bucket's burst beyond the first segment of this gap, in
    /// nanoseconds of its rate.
    fn at_once(&self, gap: f64) -> f64 {
        (self.calibration.burst_ns() as f64 - gap).max(0.0)
    }

    fn relaying(&self, bytes: u64) -> f64 {
        let (sending, receiving) = self.processing(bytes);
        let Shape {
            root_degree,
            relay_degree,
            ..
        } = *self.shape;
        let alone = (receiving + relay_degree as f64 * sending).max(root_degree as f64 * sending);
        let frames = self.size as f64 / self.frame.min(self.segment) as f64;
        let woken = if frames > WOKEN_FRAMES {
            WOKEN_FRAMES / frames
        } else {
            1.0
        };
        alone * (woken + (1.0 - woken) * self.streaming())
    }

    /// Returns the processor time to send and to receive a message. At its beginning and end a host
    /// is woken for each frame; the frames in between cost as much as in a long stream.
    fn working(&self, bytes: u64) -> (f64, f64) {
        let (sending, receiving) = self.processing(bytes);
        let (woken_sending, woken_receiving) =
            self.processing(bytes.min(WOKEN_FRAMES as u64 * self.frame.min(self.segment)));
        let streamed = |woken: f64, all: f64| woken + (all - woken) * self.streaming();
        (
            streamed(woken_sending, sending),
            streamed(woken_receiving, receiving),
        )
    }

    fn streaming(&self) -> f64 {
        self.calibration
            .processing()
            .map_or(1.0, |processing| processing.streaming())
    }

    fn processing(&self, bytes: u64) -> (f64, f64) {
        let Some(processing) = self.calibration.processing() else {
            return (0.0, 0.0);
        };
        let frames = self.frames(bytes);
        (
            processing.sending_ns(frames, bytes),
            processing.receiving_ns(frames, bytes),
        )
    }

    fn frames(&self, bytes: u64) -> f64 {
        bytes.div_ceil(self.frame.min(self.segment)).max(1) as f64
    }

    fn shared(&self) -> f64 {
        self.on_shared_cores(self.working(self.size), self.casting())
    }

    /// Returns the time on processors shared by all hosts, where each but the root receives once; 0
    /// if each host has its own. The switches are then programs, too, and copy a cast's frames. If
    /// `casting` was not measured, the copies are assumed to cost as much as they save at the root.
    fn on_shared_cores(&self, (sending, receiving): (f64, f64), casting: f64) -> f64 {
        let cores = self
            .calibration
            .processing()
            .map_or(0, |processing| processing.shared_cores);
        let copies = (self.shape.ranks - 1) as f64;
        let sent = if self.shape.via == Via::Cast && casting > 0.0 {
            casting
        } else {
            copies * sending
        };
        if cores == 0 {
            0.0
        } else {
            (sent + copies * receiving) / f64::from(cores)
        }
    }

    /// Returns the idle time of shared processors while a long message's last frames travel: each
    /// host on the path naps, half a nap on average.
    fn naps(&self) -> f64 {
        let (sending, receiving) = self.processing(self.frame.min(self.segment));
        let times = self.streaming();
        let frame_ns = self.on_shared_cores(
            (sending * times, receiving * times),
            self.cast_times() * sending,
        );
        let hops = self
            .shape
            .paths
            .iter()
            .map(|&(hops, _)| hops)
            .max()
            .unwrap_or(1);
        let is_long = frame_ns > 0.0 && self.frames(self.size) > WOKEN_FRAMES;
        if is_long {
            hops as f64 * nap_ns(frame_ns) / 2.0
        } else {
            0.0
        }
    }

    fn slowest(&self) -> f64 {
        self.shape.slow.as_ref().map_or(1.0, |slow| slow.slowest)
    }

    fn blocks(&self) -> f64 {
        let pass_bytes = self
            .segment
            .saturating_mul(self.shape.ranks as u64)
            .min(self.size);
        let moved = |round: &BlockRound| {
            self.segment
                .saturating_mul(round.blocks as u64)
                .min(pass_bytes)
        };
        let busy = |round: &BlockRound| {
            let (sending, receiving) =
                self.working(if round.is_exchange { moved(round) } else { 0 });
            let ports = round.flows as f64 * self.calibration.gap_ns(moved(round)) * self.slowest();
            round.times as f64 * ports.max(sending + receiving)
        };
        // A host's turn in the next round comes when it has sent its part of this one, even if it
        // receives earlier. Half a round trip is less than a gap where buckets let a frame pass at
        // once.
        let latency = |bytes| self.calibration.latency_ns(bytes).max(0.0) + self.longest();
        let waiting = |round: &BlockRound| round.times as f64 * latency(moved(round));
        let busy: f64 = self.shape.rounds.iter().map(busy).sum();
        let waiting: f64 = self.shape.rounds.iter().map(waiting).sum();
        (busy + waiting + self.further(pass_bytes) * busy).max(self.shared())
    }

    fn cast(&self, frames: f64) -> f64 {
        let bytes = self.segment.min(self.size);
        let gap = self.calibration.gap_ns(bytes) * self.slowest();
        let at_link_rate = gap + (self.further(bytes) * gap - self.at_once(gap)).max(0.0);
        let policed = self
            .calibration
            .cast_rate()
            .map_or(0.0, |rate| frames * 1e9 / rate as f64);
        let missed_by_some = 1.0 - self.received().powi(self.shape.ranks as i32 - 1);
        let repeated = 1.0 + self.repaired(frames, missed_by_some);
        let last_repair = 2.0 * self.hop(bytes) * (1.0 - (1.0 - missed_by_some).powf(frames));
        at_link_rate
            .max(policed)
            .max(self.casting())
            .max(self.shared() + self.naps())
            * repeated
            + self.calibration.latency_ns(bytes)
            + self.longest()
            + last_repair
    }

    fn longest(&self) -> f64 {
        self.shape.longest_ns as f64
    }

    fn casting(&self) -> f64 {
        self.cast_times() / self.streaming() * self.working(self.size).0
    }

    fn cast_times(&self) -> f64 {
        self.calibration
            .processing()
            .and_then(|processing| processing.casting())
            .unwrap_or(0.0)
    }

    /// Returns the repair frames per frame of a cast, if a share `missed_by_some` is missed by at
    /// least one receiver.
    fn repaired(&self, frames: f64, missed_by_some: f64) -> f64 {
        let Some(block) = block_frames(self.frame) else {
            return missed_by_some;
        };
        let in_blocks = frames - frames % block as f64;
        let of_a_block =
            expected_frames(block, self.shape.ranks - 1, self.calibration.loss()) / block as f64;
        // Parity costs no less for a frame that all receivers lack.
        let of_a_block = of_a_block.min(missed_by_some);
        let block = block as f64;
        let repaired =
            |in_blocks: f64, others: f64| in_blocks * of_a_block + others * missed_by_some;
        // One more frame would complete the last block and lower the cost; the estimate does not
        // rely on it.
        let with_less = if in_blocks > 0.0 {
            repaired(in_blocks - block, block - 1.0)
        } else {
            0.0
        };
        repaired(in_blocks, frames - in_blocks).max(with_less) / frames
    }

    fn repeated(&self, nanoseconds: f64, frames: f64) -> f64 {
        let last_repair =
            2.0 * self.hop(self.segment.min(self.size)) * (1.0 - self.received().powf(frames));
        nanoseconds / self.received() + last_repair
    }

    /// Returns the segments after the first; a shorter last one counts by its share.
    fn further(&self, first_bytes: u64) -> f64 {
        (self.size - first_bytes) as f64 / first_bytes.max(1) as f64
    }

    fn hop(&self, bytes: u64) -> f64 {
        self.calibration.gap_ns(bytes) + self.calibration.latency_ns(bytes) + self.longest()
    }

    fn received(&self) -> f64 {
        1.0 - self.calibration.loss()
    }
}

/// Shortest nap (pause of a receiver that lets frames collect), and longest nap during bulk
/// arrivals, in nanoseconds.
const NAP_NS: (f64, f64) = (250e3, 1e6);
const MIN_NAP_FRAMES: f64 = 2.0;
/// Interval below which frames count as bulk, and bulk frames per nap.
const BULK_FRAME_NS: f64 = 50e3;
const BULK_FRAMES: f64 = 64.0;

/// Returns the length of a nap, in nanoseconds, of a host that receives a frame every `frame_ns`; 0
/// if it waits for each.
pub fn nap_ns(frame_ns: f64) -> f64 {
    let (shortest, longest) = NAP_NS;
    if frame_ns * MIN_NAP_FRAMES > shortest {
        0.0
    } else if frame_ns <= BULK_FRAME_NS {
        (frame_ns * BULK_FRAMES).clamp(shortest, longest)
    } else {
        shortest
    }
}

/// Frames of a block, if a feed holds many such blocks, and shortest block for which parity is
/// sent.
const BLOCK_FRAMES: u64 = 128;
const MIN_BLOCK_FRAMES: u64 = 8;
const BLOCKS_IN_A_FEED: u64 = 16;
const FEED_BYTES: u64 = 16 << 20;
const UNLIKELY: f64 = 1e-6;

pub(super) fn block_frames(frame_payload_bytes: u64) -> Option<u64> {
    let slots = 1 << (FEED_BYTES / frame_payload_bytes.max(1)).max(1).ilog2();
    Some(BLOCK_FRAMES.min(slots / BLOCKS_IN_A_FEED)).filter(|&block| block >= MIN_BLOCK_FRAMES)
}

/// Returns the expected number of parity frames of a block until each of `receivers` has as many
/// frames as the block has, if each loses a share of `loss` of all frames.
///
/// A single receiver gives a negative binomial distribution; the maximum over all counts.
pub(super) fn expected_frames(block: u64, receivers: usize, loss: f64) -> f64 {
    let mut exactly = (1.0 - loss).powi(block as i32);
    let (mut at_most, mut expected) = (exactly, 0.0);
    for parity in 0..block {
        let somebody_needs_more = 1.0 - at_most.min(1.0).powi(receivers as i32);
        if somebody_needs_more < UNLIKELY {
            break;
        }
        expected += somebody_needs_more;
        exactly *= loss * (block + parity) as f64 / (parity + 1) as f64;
        at_most += exactly;
    }
    expected
}

/// Limit of frames in a segment: the engine keeps a segment whole at every relay. The limit is 1.5
/// MB of usual frames.
///
/// Atomic plans and blocks have no choice of segment: it is the whole message, or all blocks
/// together, up to this limit.
pub const MAX_ATOMIC_SEGMENT_FRAMES: u64 = 1024;

/// Ratio by which partly filled frames must shorten a message's time: each frame has costs that the
/// model omits, and headers on the cable.
const WORTHWHILE_RATIO: f64 = 0.98;

/// Returns the segment, in bytes, with which a message of `size_bytes` takes least time, and that
/// time in seconds.
///
/// Candidates are whole frames, 1, 2, 3, 4, 6, 8, 12, 16, …, and the whole message. In trees that
/// forward frames as they come, frames may also be partly filled: 64, 96, 128, 192, … bytes, as for
/// the chain of 8 KiB among 32 hosts of Patarasuk 2008, Table 3. Of equal ones it is the shortest.
/// The segment of an empty message is one frame, that of a block-wise message a block.
///
/// # Panics
/// If `frame_payload_bytes` is zero.
pub fn best_segment(
    shape: &Shape,
    size_bytes: u64,
    frame_payload_bytes: u64,
    calibration: &Calibration,
) -> (u64, f64) {
    assert!(frame_payload_bytes > 0, "a frame has room");
    let price = |segment_bytes| {
        let job = Job {
            size_bytes,
            segment_bytes,
            frame_payload_bytes,
        };
        (segment_bytes, predict(shape, &job, calibration))
    };
    let cheapest = |best: (u64, f64), next: (u64, f64)| if next.1 < best.1 { next } else { best };
    let whole = whole_frames(shape, size_bytes, frame_payload_bytes).into_iter();
    let whole = whole
        .map(price)
        .reduce(cheapest)
        .expect("there is always a segment to try");
    let parts = parts_of_a_frame(shape, size_bytes, frame_payload_bytes)
        .map(price)
        .reduce(cheapest);
    parts
        .filter(|part| part.1 < whole.1 * WORTHWHILE_RATIO)
        .unwrap_or(whole)
}

fn parts_of_a_frame(
    shape: &Shape,
    size_bytes: u64,
    frame_payload_bytes: u64,
) -> impl Iterator<Item = u64> {
    let limit = if size_bytes == 0 {
        frame_payload_bytes
    } else {
        size_bytes.min(frame_payload_bytes)
    };
    // A cast's frames are not forwarded, so shorter ones do not help.
    let via = shape.via;
    let passed_on = !(via.is_scattered() || via.is_atomic() || via == Via::Cast);
    lengths()
        .map(|times| times * MIN_SEGMENT_BYTES / 2)
        .skip(1)
        .take_while(move |&bytes| passed_on && bytes < limit)
}

fn whole_frames(shape: &Shape, size_bytes: u64, frame_payload_bytes: u64) -> Vec<u64> {
    let message_frames = size_bytes.div_ceil(frame_payload_bytes).max(1);
    let most = message_frames.min(MAX_ATOMIC_SEGMENT_FRAMES);
    let limit = if size_bytes == 0 {
        frame_payload_bytes
    } else {
        size_bytes
    };
    let whole = |frames: u64| (frames * frame_payload_bytes).min(limit);
    if shape.via.is_scattered() {
        let ranks = shape.ranks as u64;
        return vec![whole(
            message_frames
                .div_ceil(ranks)
                .min(most_block_frames(ranks))
                .max(1),
        )];
    }
    if shape.via.is_atomic() {
        return vec![whole(most)];
    }
    lengths()
        .take_while(|&frames| frames < most)
        .chain([most])
        .map(whole)
        .collect()
}

/// Returns the longest block that the engine handles with its usual feed: a quarter of each
/// stream's, whose slots are a power of two.
fn most_block_frames(ranks: u64) -> u64 {
    let slots = (MAX_ATOMIC_SEGMENT_FRAMES * 4 / ranks.max(1)).max(64);
    (1 << slots.ilog2()) / 4
}

/// Yields 1, 2, 3, 4, 6, 8, 12, …: two per doubling, which is close enough because the curve is
/// flat at its minimum.
fn lengths() -> impl Iterator<Item = u64> {
    let doublings = (1..32).flat_map(|power| [1u64 << power, 3 << (power - 1)]);
    std::iter::once(1).chain(doublings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::topology::Topology;

    #[test]
    fn the_denser_the_arrivals_the_shorter_the_naps_down_to_a_bound() {
        assert_eq!(
            [130e3, 120e3, 50e3, 12e3, 1e3].map(nap_ns),
            [0.0, 250e3, 1e6, 768e3, 250e3]
        );
    }

    #[test]
    fn blocks_are_as_long_as_a_sixteenth_of_a_feed_allows() {
        assert_eq!(
            [1468, 8936, 65_503, 1 << 22].map(block_frames),
            [Some(128), Some(64), Some(16), None]
        );
    }

    #[test]
    fn parity_is_what_the_one_needs_that_loses_most() {
        assert_eq!(expected_frames(128, 7, 0.0), 0.0);
        // With one receiver: a share of p, and p of that again.
        assert!(
            (expected_frames(128, 1, 0.1) - 128.0 / 9.0).abs() < 1e-3,
            "{}",
            expected_frames(128, 1, 0.1)
        );
        // Blocks of 64, to seven receivers and to a thousand.
        let times =
            |block, receivers, loss| 1.0 + expected_frames(block, receivers, loss) / block as f64;
        let found =
            [(64, 7, 0.01), (64, 7, 0.1), (64, 1000, 0.001)].map(|(block, receivers, loss)| {
                (times(block, receivers, loss) * 1000.0).round() as u64
            });
        assert_eq!(found, [1029, 1174, 1030]);
    }

    fn shape(via: Via, ranks: usize) -> Shape {
        let topology =
            Topology::single_switch((0..ranks).map(|host| format!("n{host}"))).expect("hosts");
        let chain: Vec<Option<usize>> = (0..ranks).map(|rank| rank.checked_sub(1)).collect();
        let star: Vec<Option<usize>> = (0..ranks).map(|rank| (rank > 0).then_some(0)).collect();
        let parents = if matches!(via, Via::Cast | Via::Flat) {
            star
        } else {
            chain
        };
        let plan = Plan::from_parents(via, 0, &parents).expect("a plan");
        Shape::of(&plan, &topology, &Vec::from_iter(0..ranks))
    }

    #[test]
    fn segments_are_whole_frames_or_the_whole_message() {
        let chain = shape(Via::Chain, 4);
        assert_eq!(whole_frames(&chain, 0, 100), [100]);
        assert_eq!(whole_frames(&chain, 70, 100), [70]);
        assert_eq!(whole_frames(&chain, 100, 100), [100]);
        assert_eq!(whole_frames(&chain, 550, 100), [100, 200, 300, 400, 550]);
        let long = whole_frames(&chain, 1 << 30, 100);
        assert_eq!(
            (long.len(), long.first(), long.last()),
            (20, Some(&100), Some(&102_400))
        );
    }

    #[test]
    fn segments_are_parts_of_a_frame_where_a_relay_waits_for_them() {
        let parts = |via, size| Vec::from_iter(parts_of_a_frame(&shape(via, 4), size, 1468));
        assert_eq!(
            parts(Via::Chain, 1 << 30),
            [64, 96, 128, 192, 256, 384, 512, 768, 1024]
        );
        assert_eq!(parts(Via::Binary, 0).len(), 9);
        assert_eq!(
            (parts(Via::Chain, 128), parts(Via::Chain, 64)),
            (vec![64, 96], Vec::new())
        );
        assert!(parts(Via::Cast, 1 << 30).is_empty() && parts(Via::Flat, 1 << 30).is_empty());
    }

    #[test]
    fn three_children_never_beat_two() {
        // With arbitrarily short segments a higher degree only costs bandwidth (Patarasuk 2008
        // §4.2).
        let topology = Topology::builtin("fig9-4").expect("fig9-4");
        let members = Vec::from_iter(0..topology.hosts().len());
        let shape = |via| {
            let plan = crate::plan::make(via, &topology, 0, &members, &Default::default())
                .expect("a plan");
            Shape::of(&plan, &topology, &members)
        };
        let (two, three) = (shape(Via::Binary), shape(Via::Kary(3)));
        let calibration = Calibration::assumed(100_000_000, 1468);
        for size_bytes in (10..28).map(|power| 1 << power) {
            let best = |shape| best_segment(shape, size_bytes, 1468, &calibration).1;
            assert!(best(&two) <= best(&three), "{size_bytes} bytes");
        }
    }

    #[test]
    fn the_atomic_have_no_choice() {
        let flat = shape(Via::Flat, 4);
        assert_eq!(whole_frames(&flat, 550, 100), [550]);
        assert_eq!(whole_frames(&flat, 1 << 30, 100), [102_400]);
    }

    #[test]
    fn a_block_is_a_share_of_the_message_in_whole_frames() {
        let blocks = shape(Via::ScatterAllgather, 8);
        assert_eq!(whole_frames(&blocks, 50, 100), [50]);
        assert_eq!(whole_frames(&blocks, 750, 100), [100]);
        assert_eq!(whole_frames(&blocks, 1700, 100), [300]);
        assert_eq!(whole_frames(&blocks, 1 << 30, 100), [12_800]);
    }
}
