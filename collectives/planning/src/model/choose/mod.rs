//! Choice of the broadcast algorithm and segment length with the least predicted time (`--via
//! auto`), with the reason.

use super::calibration::{Broadcast, Calibration};
use super::predict::{Job, MAX_ATOMIC_SEGMENT_FRAMES, best_segment, predict};
use super::shape::Shape;
use crate::duration;
use crate::plan::{self, Costs, Plan, PlanError, Speeds, UsualCable, Via};
use crate::topology::Topology;

/// Length assumed for a stream of unknown length, in bytes.
pub const ASSUMED_SIZE_BYTES: u64 = 1 << 30;

/// Limit of ranks for plans whose root sends to all or to many at once, and for block-wise ones:
/// with more, a block is shorter than 16 frames.
const MAX_RANKS_OF_FEW: usize = 64;
/// Limit of ranks for plans whose computation takes cubic or quadratic time: 10 ms at this number,
/// seconds at ten times as many.
const MAX_RANKS_OF_MANY: usize = 1024;
/// Limit of ranks for such a plan where no other is possible: a few seconds.
const MAX_RANKS_OF_LAST: usize = 4096;

/// Factor by which untested broadcast must be better to be chosen: it may be policed, while unicast
/// is known to arrive.
const UNTRIED: f64 = 1.05;
/// Factor by which an algorithm with a block for each rank must be better to be chosen. All its
/// hosts send and receive at once, which no probe tries.
const UNTRIED_BLOCKS: f64 = 1.1;
/// Factor within which times count as equal, because the model is no more exact. Measurements that
/// scatter more widen it, up to the second factor.
const TIE: f64 = 1.02;
const MAX_TIE: f64 = 1.5;
/// Spread above which no frame is shortened.
const MAX_SPREAD_OF_CUTS: f64 = 0.5;
/// Factor between the least and the most predicted time above which a prediction is called unsure.
const SURE_SPREAD: f64 = 1.5;
/// Part of a full frame's time below which an injection time is refused; measurements differ.
const MIN_FRAME_PART: f64 = 0.9;
/// Spread from which on nothing is predicted.
const MAX_SPREAD: f64 = 3.0;
/// Factor for a policed cast. Frames are not paced at the permitted rate, so about every second one
/// is lost and repeated (64 KiB and 1 MiB to 7 and 31 receivers, 500 frames/s allowed: 1.4 to 2.1
/// times the time at that rate).
const POLICED: f64 = 2.0;

/// A transfer: message, root, members and network.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Topology of the hosts.
    pub topology: &'a Topology,
    /// Host id of the root.
    pub root_host: usize,
    /// Host ids of all members, including the root; a member's rank is its index.
    pub members: &'a [usize],
    /// Bytes of the message; `None` for a stream of unknown length. Its prices are for
    /// [`ASSUMED_SIZE_BYTES`]; [`Choice::predicted_for`] returns the price of the final length.
    pub size_bytes: Option<u64>,
    /// Bytes of the message that one frame carries; greater than zero.
    pub frame_payload_bytes: u64,
    /// Costs of the network.
    pub calibration: &'a Calibration,
}

/// A route with its best segment, and its price.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Route.
    pub via: Via,
    /// Length of a segment in bytes, from [`best_segment`].
    pub segment_bytes: u64,
    /// Predicted seconds from the first frame sent to the last frame received.
    pub predicted_seconds: f64,
    /// Least and most seconds, by the spread of the measurements.
    pub range_seconds: [f64; 2],
    /// Most edges between the root and any rank.
    pub height: usize,
    /// Most children of any rank.
    pub degree: usize,
    /// Most edges of the plan on one direction of a cable, as [`Shape::worst_flows`].
    pub worst_flows: usize,
    /// Effect of slow cables and hosts, if any are slower than the others.
    pub slow_cable: Option<SlowCable>,
}

impl Estimate {
    fn unsure_range_seconds(&self) -> Option<[f64; 2]> {
        let [least, most] = self.range_seconds;
        (most > least * SURE_SPREAD).then_some([least, most])
    }
}

/// Cable or host that limits a plan where speeds differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlowCable {
    /// Its description: `host n3 to switch s0`.
    pub cable: String,
    /// Predicted seconds if all cables and hosts were like the usual one.
    pub even_seconds: f64,
}

/// A plan and its predicted time.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Priced {
    /// Price, and the properties that it depends on.
    pub estimate: Estimate,
    /// The plan.
    pub plan: Plan,
}

/// Best plan and its alternatives.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Choice {
    /// Plan of least predicted time.
    pub plan: Plan,
    /// Its segment, in bytes.
    pub segment_bytes: u64,
    /// Its predicted time, in seconds; for a stream of unknown length that of
    /// [`ASSUMED_SIZE_BYTES`].
    pub predicted_seconds: f64,
    /// Reason in one line for people: `cast: 5.61 ms predicted, next chain 6.20 ms (+11 %); segment
    /// 1 frame`.
    pub reason: String,
    /// Length that it was chosen for, in bytes; `None` if unknown, and the prices are per GiB.
    pub size_bytes: Option<u64>,
    pricing: Pricing,
    /// Priced routes. The first is the choice; the others come by rising price, an untried cast
    /// behind routes that are about as good.
    pub candidates: Vec<Estimate>,
}

impl Situation<'_> {
    /// Checks that no host sends full frames faster than its cable carries them: at the rate that
    /// the topology gives it, else, with `is_measured`, in the time of the calibration.
    ///
    /// # Errors
    /// [`PlanError::ShortInjection`].
    pub fn check_injections(&self, is_measured: bool) -> Result<(), PlanError> {
        let frame_ns = |host: usize| {
            let measured = is_measured.then(|| self.calibration.gap_ns(self.frame_payload_bytes));
            let bits = self.calibration.frame_bits(self.frame_payload_bytes);
            let by_rate = |rate: u64| bits * 1e9 / rate as f64;
            self.topology.host_rate(host).map(by_rate).or(measured)
        };
        for (host, name) in self.topology.hosts().iter().enumerate() {
            if let Some((injection_ns, frame_ns)) =
                self.topology.injection_ns(host).zip(frame_ns(host))
                && (injection_ns as f64) < frame_ns * MIN_FRAME_PART
            {
                return Err(PlanError::ShortInjection {
                    host: name.clone(),
                    injection_ns,
                    frame_ns: frame_ns as u64,
                });
            }
        }
        Ok(())
    }

    /// Returns the slowness of cables and hosts relative to usual ones, as far as it is known;
    /// `None` if all are about alike.
    pub fn speeds(&self) -> Option<Speeds> {
        let frame_ns = self.calibration.gap_ns(self.frame_payload_bytes);
        let usual = UsualCable {
            frame_ns,
            frame_bits: self.calibration.frame_bits(self.frame_payload_bytes),
        };
        let hosts = self.topology.hosts();
        Speeds::new(self.topology, &usual, |host| {
            self.calibration.injection_ns(&hosts[host])
        })
    }
}

impl Choice {
    fn of(plan: Plan, candidates: Vec<Estimate>, reason: String, situation: &Situation) -> Self {
        let Estimate {
            segment_bytes,
            predicted_seconds,
            ..
        } = candidates[0];
        let &Situation {
            topology,
            members,
            size_bytes,
            frame_payload_bytes,
            calibration,
            ..
        } = situation;
        let shape = Shape::with_speeds(&plan, topology, members, situation.speeds().as_ref());
        let pricing = Pricing {
            shape,
            calibration: calibration.clone(),
            frame_payload_bytes,
        };
        Self {
            plan,
            segment_bytes,
            predicted_seconds,
            reason,
            candidates,
            size_bytes,
            pricing,
        }
    }

    /// Returns the least and the most predicted seconds if the measurements leave them far apart.
    pub fn unsure_range_seconds(&self) -> Option<[f64; 2]> {
        self.candidates[0].unsure_range_seconds()
    }

    /// Returns the least and the most predicted seconds, by the spread of the measurements.
    pub fn range_seconds(&self) -> [f64; 2] {
        self.candidates[0].range_seconds
    }

    /// Returns the seconds that `size_bytes` in full frames take over the path between two hosts
    /// alone, if that was measured.
    pub fn copy_seconds(&self, size_bytes: u64) -> Option<f64> {
        let Pricing {
            calibration,
            frame_payload_bytes,
            ..
        } = &self.pricing;
        let frames = size_bytes as f64 / *frame_payload_bytes as f64;
        self.is_known()
            .then(|| frames * calibration.gap_ns(*frame_payload_bytes) / 1e9)
    }

    /// Returns the costs with which it was chosen.
    pub fn calibration(&self) -> &Calibration {
        &self.pricing.calibration
    }

    /// Whether the prediction is reliable: its inputs were measured, or are known.
    pub fn is_known(&self) -> bool {
        self.pricing.calibration.spread() < MAX_SPREAD
    }

    /// Returns the predicted seconds for `size_bytes`, for a stream whose length is known only at
    /// its end.
    pub fn predicted_for(&self, size_bytes: u64) -> f64 {
        let Pricing {
            shape,
            calibration,
            frame_payload_bytes,
        } = &self.pricing;
        let (segment_bytes, frame_payload_bytes) = (self.segment_bytes, *frame_payload_bytes);
        let times = calibration.times(self.plan.via());
        times
            * predict(
                shape,
                &Job {
                    size_bytes,
                    segment_bytes,
                    frame_payload_bytes,
                },
                calibration,
            )
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Pricing {
    shape: Shape,
    calibration: Calibration,
    frame_payload_bytes: u64,
}

/// Finds the plan and the segment of least predicted time. If measurements scatter, it is the one
/// whose excess over the best, by any of them, is least. Among plans that are about equal, the
/// choice sends fewest frames: a cast if broadcast is proved, else a chain.
///
/// Candidates are all routes of [`Via::ALL`] but the topology-unaware trees, if they suit the
/// number of ranks: `flat` and block-wise ones up to 64, `binary` and `latency` up to 1024,
/// `recursive-doubling` for powers of two.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is
/// named twice; if no way leads from the root to a member over hosts that can talk.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn choose(situation: &Situation) -> Result<Choice, PlanError> {
    choose_among(situation, |_| true)
}

/// Chooses among the candidates that `may_be` allows; all, if it allows none.
///
/// # Errors
/// The errors of [`choose`].
///
/// # Panics
/// The panics of [`choose`].
pub fn choose_among(
    situation: &Situation,
    may_be: impl Fn(Via) -> bool,
) -> Result<Choice, PlanError> {
    let (ranks, calibration) = (situation.members.len(), situation.calibration);
    let any = !candidates(ranks).any(&may_be);
    let vias = candidates(ranks).filter(|&via| any || may_be(via));
    // A way that needs a pair which cannot talk is no candidate.
    let (mut priced, mut refused) = (Vec::new(), None);
    for via in vias {
        match price(via, situation) {
            Ok(one) => priced.push(one),
            Err(error @ PlanError::CannotTalk { .. }) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = refused.filter(|_| priced.is_empty()) {
        // This tree uses no such pair; that it takes long to compute is better than nothing.
        let is_left = ranks > MAX_RANKS_OF_MANY && ranks <= MAX_RANKS_OF_LAST;
        let last = Some(Via::Latency).filter(|&via| is_left && (any || may_be(via)));
        priced.push(price(last.ok_or(error)?, situation)?);
    }
    let cost = |Priced { estimate, .. }: &Priced| {
        competing_seconds(estimate.via, estimate.predicted_seconds, calibration)
    };
    // The sort is stable: of equal ones the first listed stays first.
    priced.sort_by(|left, right| cost(left).total_cmp(&cost(right)));
    let quote = |Priced { estimate, .. }: &Priced| Quote::of(estimate);
    let quotes: Vec<Quote> = priced.iter().map(quote).collect();
    let chosen = priced.remove(best(&quotes, ranks, calibration));
    priced.insert(0, chosen);
    let estimates: Vec<Estimate> = priced
        .iter()
        .map(|priced| priced.estimate.clone())
        .collect();
    let reason = reason(&estimates, situation);
    Ok(Choice::of(
        priced.swap_remove(0).plan,
        estimates,
        reason,
        situation,
    ))
}

/// Price of a route in a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quote {
    /// Route.
    pub via: Via,
    /// Predicted seconds: the likely ones, the least and the most.
    pub seconds: [f64; 3],
}

impl Quote {
    fn of(estimate: &Estimate) -> Self {
        let &Estimate {
            via,
            predicted_seconds,
            range_seconds: [least, most],
            ..
        } = estimate;
        Self {
            via,
            seconds: [predicted_seconds, least, most],
        }
    }

    /// Creates a quote of exactly this time.
    pub fn exact(via: Via, seconds: f64) -> Self {
        Self {
            via,
            seconds: [seconds; 3],
        }
    }
}

/// Returns the index of the quote to choose: the one whose excess over the best is least for any
/// reading of the measurements (minimax), and of those about equal, the one that sends fewest
/// frames.
///
/// # Panics
/// If there are no quotes.
pub fn best(quotes: &[Quote], ranks: usize, calibration: &Calibration) -> usize {
    let price =
        |quote: &Quote, at: usize| competing_seconds(quote.via, quote.seconds[at], calibration);
    let least = [0, 1, 2].map(|at| {
        quotes
            .iter()
            .map(|quote| price(quote, at))
            .fold(f64::INFINITY, f64::min)
    });
    let too_long = |quote: &Quote, at: usize| price(quote, at) / least[at].max(f64::MIN_POSITIVE);
    let regrets: Vec<f64> = quotes
        .iter()
        .map(|quote| (0..3).map(|at| too_long(quote, at)).fold(0.0, f64::max))
        .collect();
    let lowest = regrets.iter().copied().fold(f64::INFINITY, f64::min);
    let tie = (1.0 + calibration.spread()).clamp(TIE, MAX_TIE);
    let equal = |wanted: Via| {
        (0..quotes.len()).find(|&at| quotes[at].via == wanted && regrets[at] <= lowest * tie)
    };
    // A cast to a single host floods the others' ports for nothing.
    let is_proved = calibration.broadcast() == Broadcast::FullRate && ranks > 2;
    let frugal = equal(Via::Cast)
        .filter(|_| is_proved)
        .or_else(|| equal(Via::Chain));
    frugal
        .or_else(|| regrets.iter().position(|&regret| regret == lowest))
        .expect("a choice has candidates")
}

/// Returns the time with which a route competes. It is the predicted time, with a small factor for
/// an untested cast, a larger one for blocks, and a factor of two for a policed cast.
pub fn competing_seconds(via: Via, predicted_seconds: f64, calibration: &Calibration) -> f64 {
    let times = match calibration.broadcast() {
        _ if via.is_scattered() => UNTRIED_BLOCKS,
        _ if via != Via::Cast => 1.0,
        Broadcast::Untried => UNTRIED,
        Broadcast::Policed(_) => POLICED,
        Broadcast::FullRate | Broadcast::Slower(_) => 1.0,
    };
    predicted_seconds * times
}

/// Plans one route and prices it with its best segment.
///
/// # Errors
/// [`PlanError`] as [`choose`], and if there is no such plan for this number of ranks.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn price(via: Via, situation: &Situation) -> Result<Priced, PlanError> {
    let &Situation {
        topology,
        root_host,
        members,
        ..
    } = situation;
    let speeds = situation.speeds();
    let plan = plan::make(
        via,
        topology,
        root_host,
        members,
        &costs(situation, speeds.as_ref()),
    )?;
    Ok(priced(plan, None, situation))
}

/// Prices a given plan, in segments of `segment_bytes`, or by default in those of least predicted
/// time.
///
/// # Panics
/// If the payload of a frame is zero bytes, or the members are not the plan's ranks.
pub fn given(plan: Plan, segment_bytes: Option<u64>, situation: &Situation) -> Choice {
    let Priced { plan, estimate } = priced(plan, segment_bytes, situation);
    let (predicted, segment) = (
        duration(estimate.predicted_seconds),
        in_frames(&estimate, situation.frame_payload_bytes),
    );
    let slow = slow_text(&estimate);
    let each = for_each(situation);
    let predicted = match situation.calibration.spread() {
        spread if spread >= MAX_SPREAD => "no rates are known".to_owned(),
        _ => format!("{predicted}{each} predicted{}", spread_text(&estimate)),
    };
    let reason = format!("{}, as asked: {predicted}; {segment}{slow}", estimate.via);
    Choice::of(plan, vec![estimate], reason, situation)
}

fn priced(plan: Plan, segment_bytes: Option<u64>, situation: &Situation) -> Priced {
    let &Situation {
        topology,
        members,
        frame_payload_bytes,
        calibration,
        ..
    } = situation;
    let size_bytes = situation.size_bytes.unwrap_or(ASSUMED_SIZE_BYTES);
    let speeds = situation.speeds();
    let shape = Shape::with_speeds(&plan, topology, members, speeds.as_ref());
    let (segment_bytes, predicted_seconds) = match segment_bytes {
        Some(segment_bytes) => {
            let job = Job {
                size_bytes,
                segment_bytes,
                frame_payload_bytes,
            };
            (segment_bytes, predict(&shape, &job, calibration))
        }
        // Frames are shortened only for a certain gain.
        None if calibration.spread() > MAX_SPREAD_OF_CUTS => {
            let (best, _) = best_segment(&shape, size_bytes, frame_payload_bytes, calibration);
            let segment_bytes = best.max(frame_payload_bytes);
            let job = Job {
                size_bytes,
                segment_bytes,
                frame_payload_bytes,
            };
            (segment_bytes, predict(&shape, &job, calibration))
        }
        None => best_segment(&shape, size_bytes, frame_payload_bytes, calibration),
    };
    let job = Job {
        size_bytes,
        segment_bytes,
        frame_payload_bytes,
    };
    let range_seconds = match calibration.spread() {
        0.0 => [predicted_seconds; 2],
        spread => {
            let ends = [1.0 / (1.0 + spread), 1.0 + spread].map(|times| calibration.slowed(times));
            let ends = ends.map(|calibration| predict(&shape, &job, &calibration));
            [
                ends[0].min(predicted_seconds),
                ends[1].max(predicted_seconds),
            ]
        }
    };
    let times = calibration.times(plan.via());
    let predicted_seconds = predicted_seconds * times;
    let range_seconds = range_seconds.map(|seconds| seconds * times);
    let even = || predict(&Shape::of(&plan, topology, members), &job, calibration) * times;
    let slowed = shape.slow.is_some().then(even);
    let Shape {
        via,
        height,
        degree,
        worst_flows,
        slow,
        ..
    } = shape;
    let slow_cable = slow.zip(slowed).map(|(slow, even_seconds)| SlowCable {
        cable: slow.cable,
        even_seconds,
    });
    let estimate = Estimate {
        via,
        segment_bytes,
        predicted_seconds,
        range_seconds,
        height,
        degree,
        worst_flows,
        slow_cable,
    };
    Priced { estimate, plan }
}

/// Returns the costs for the latency tree: of the whole message, or the part that the engine keeps.
/// A switch adds the time of one frame, which it stores and forwards; the measured latency includes
/// one switch.
fn costs<'a>(situation: &Situation, speeds: Option<&'a Speeds>) -> Costs<'a> {
    let (frame, calibration) = (situation.frame_payload_bytes, situation.calibration);
    let bytes = situation
        .size_bytes
        .unwrap_or(ASSUMED_SIZE_BYTES)
        .min(frame * MAX_ATOMIC_SEGMENT_FRAMES);
    let hop_ns = calibration.gap_ns(frame) as u64;
    let latency_ns = (calibration.latency_ns(bytes).max(0.0) as u64).saturating_sub(hop_ns);
    Costs {
        injection_ns: calibration.gap_ns(bytes) as u64,
        latency_ns,
        hop_ns,
        speeds,
    }
}

/// Returns the routes that [`choose`] prices for `ranks` ranks, in the order that breaks ties.
pub fn candidates(ranks: usize) -> impl Iterator<Item = Via> {
    Via::ALL
        .iter()
        .copied()
        .filter(move |&via| suits(via, ranks))
}

fn suits(via: Via, ranks: usize) -> bool {
    match via {
        // `BinaryBest` takes long to compute, so it is made only on request.
        Via::ChainUnaware | Via::BinaryUnaware | Via::BinaryBest => false,
        Via::Flat => ranks <= MAX_RANKS_OF_FEW,
        Via::ScatterAllgather => (2..=MAX_RANKS_OF_FEW).contains(&ranks),
        Via::RecursiveDoubling => {
            (2..=MAX_RANKS_OF_FEW).contains(&ranks) && ranks.is_power_of_two()
        }
        Via::Binary | Via::Latency => ranks <= MAX_RANKS_OF_MANY,
        Via::TwoTree => ranks > 2,
        Via::Chain | Via::Kary(_) | Via::Cast | Via::Binomial => true,
    }
}

fn reason(estimates: &[Estimate], situation: &Situation) -> String {
    let best = &estimates[0];
    if situation.calibration.spread() >= MAX_SPREAD {
        return format!(
            "{}: no rates are known; {}",
            best.via,
            in_frames(best, situation.frame_payload_bytes)
        );
    }
    let mut text = format!(
        "{}: {}{} predicted",
        best.via,
        duration(best.predicted_seconds),
        for_each(situation)
    );
    if let Some(next) = estimates.get(1) {
        text += &format!(", next {} {}", next.via, duration(next.predicted_seconds));
        text += &beside(best, next, situation.calibration);
    }
    text + &spread_text(best)
        + "; "
        + &in_frames(best, situation.frame_payload_bytes)
        + &slow_text(best)
}

/// Compares the next route with the best, and returns why it was not chosen if it is the cheaper
/// one.
fn beside(best: &Estimate, next: &Estimate, calibration: &Calibration) -> String {
    if best.predicted_seconds <= 0.0 {
        return String::new();
    }
    let percent = ((next.predicted_seconds / best.predicted_seconds - 1.0) * 100.0).round();
    let why = match (next.via, calibration.broadcast()) {
        (Via::Cast, Broadcast::Untried) => "nobody has tried whether switches let it through",
        (Via::Cast, Broadcast::Policed(_) | Broadcast::Slower(_)) => {
            "switches hold back what is sent to all"
        }
        (via, _) if via.is_scattered() => "it was never tried",
        _ => "as good by what is known, and sends more",
    };
    match percent {
        0.0 => " (the same)".to_owned(),
        more if more > 0.0 => format!(" (+{more:.0} %)"),
        less => format!(" ({:.0} % less, but {why})", -less),
    }
}

fn spread_text(best: &Estimate) -> String {
    best.unsure_range_seconds()
        .map_or(String::new(), |[least, most]| {
            format!(
                "; not sure, {} to {}: measurements differ",
                duration(least),
                duration(most)
            )
        })
}

fn for_each(situation: &Situation) -> &'static str {
    if situation.size_bytes.is_none() {
        " for each GiB"
    } else {
        ""
    }
}

fn slow_text(estimate: &Estimate) -> String {
    let slower = |slow: &&SlowCable| slow.even_seconds < estimate.predicted_seconds * 0.99;
    let words = |slow: &SlowCable| {
        format!(
            "; slowed down by {}: {} if it were like the others",
            slow.cable,
            duration(slow.even_seconds)
        )
    };
    estimate
        .slow_cable
        .as_ref()
        .filter(slower)
        .map(words)
        .unwrap_or_default()
}

fn in_frames(estimate: &Estimate, frame_payload_bytes: u64) -> String {
    if estimate.segment_bytes < frame_payload_bytes {
        return format!("segment {} bytes", estimate.segment_bytes);
    }
    let frames = estimate.segment_bytes.div_ceil(frame_payload_bytes);
    format!(
        "segment {frames} frame{}",
        if frames == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests;
