//! The choice of `auto`, of all plans and segments the ones predicted to take least time, and why; and the price of a
//! plan that somebody else chose.

use super::calibration::{Broadcast, Calibration};
use super::predict::{Job, predict};
use super::segment::{MAX_ATOMIC_SEGMENT_FRAMES, best_segment};
use super::shape::Shape;
use crate::duration;
use crate::plan::{self, Costs, Plan, PlanError, Speeds, UsualCable, Via};
use crate::topology::Topology;

/// What a stream of unknown length is planned for: one that is long.
pub const ASSUMED_SIZE_BYTES: u64 = 1 << 30;

/// Ranks up to which plans are candidates whose root sends to everybody or to many at once, and those in blocks:
/// beyond, a block is shorter than 16 frames.
const MOST_RANKS_OF_FEW: usize = 64;
/// Ranks up to which plans are candidates whose making takes time with the cube or the square of the ranks: at this
/// number some 10 ms, at ten times as many seconds.
const MOST_RANKS_OF_MANY: usize = 1024;

/// A cast where nobody has tried broadcast is chosen only if it is better by more than this: it may be policed, and
/// unicast is known to arrive.
const UNTRIED: f64 = 1.05;
/// And where it is policed, only if it takes less than one part in so many: frames are not sent as slowly as they pass,
/// so that about every second one is lost and goes again (64 KiB and 1 MiB to 7 and 31 receivers, 500 frames/s allowed:
/// 1.4 to 2.1 times as long as what passes takes).
const POLICED: f64 = 2.0;

/// What is to be sent, from where, to whom, over what.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Where the hosts are.
    pub topology: &'a Topology,
    /// The host id of the root.
    pub root_host: usize,
    /// The host ids of all members, the root's among them; a member's rank is its index.
    pub members: &'a [usize],
    /// Bytes of the message; of a stream of unknown length, `None`: prices are for [`ASSUMED_SIZE_BYTES`], and
    /// [`Choice::predicted_for`] has that of the length it turns out to have.
    pub size_bytes: Option<u64>,
    /// Bytes of the message that one frame carries; above zero.
    pub frame_payload_bytes: u64,
    /// What the network costs.
    pub calibration: &'a Calibration,
}

/// A way to send with the segment that suits it, and its price.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// How the bytes travel.
    pub via: Via,
    /// The length of a segment in bytes, as [`best_segment`] finds it.
    pub segment_bytes: u64,
    /// From the first frame sent to the last frame received, in seconds.
    pub predicted_seconds: f64,
    /// The most edges between the root and any rank.
    pub height: usize,
    /// The most children of any rank.
    pub degree: usize,
    /// The most edges of the plan on one direction of a cable, as [`Shape::worst_flows`].
    pub worst_flows: usize,
    /// What slow cables and hosts cost, if any are slower than the others.
    pub slow_cable: Option<SlowCable>,
}

/// The cable or host that decides how long a plan takes where not all are alike.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlowCable {
    /// Which it is: `host n3 to switch s0`.
    pub cable: String,
    /// What would be predicted if all were like the usual, in seconds.
    pub even_seconds: f64,
}

/// A plan and what it is predicted to take.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Priced {
    /// Its price and what that depends on.
    pub estimate: Estimate,
    /// The plan.
    pub plan: Plan,
}

/// What is best, and what else there was.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Choice {
    /// The plan of least predicted time.
    pub plan: Plan,
    /// Its segment, in bytes.
    pub segment_bytes: u64,
    /// Its predicted time, in seconds; of a stream of unknown length, that of one of [`ASSUMED_SIZE_BYTES`].
    pub predicted_seconds: f64,
    /// Why, in one line for people: `cast: 5.61 ms predicted, next chain 6.20 ms (+11 %); segment 1 frame`.
    pub reason: String,
    /// The length it was chosen for, in bytes; `None` if that was not known, and the prices are for each GiB.
    pub size_bytes: Option<u64>,
    pricing: Pricing,
    /// All that were priced, by rising price, equal ones in the order of [`Via::ALL`], a cast that nobody has tried
    /// behind what is about as good; the first is the choice.
    pub candidates: Vec<Estimate>,
}

impl Situation<'_> {
    /// Which cables and hosts are slower than the calibration's usual one, if any are.
    pub(super) fn speeds(&self) -> Option<Speeds> {
        let frame_ns = self.calibration.gap_ns(self.frame_payload_bytes);
        let usual = UsualCable { frame_ns, frame_bits: self.calibration.frame_bits(self.frame_payload_bytes) };
        let hosts = self.topology.hosts();
        Speeds::new(self.topology, &usual, |host| self.calibration.injection_ns(&hosts[host]))
    }
}

impl Choice {
    /// The choice of `plan`, whose estimate is the first.
    fn of(plan: Plan, candidates: Vec<Estimate>, reason: String, situation: &Situation) -> Self {
        let Estimate { segment_bytes, predicted_seconds, .. } = candidates[0];
        let &Situation { topology, members, size_bytes, frame_payload_bytes, calibration, .. } = situation;
        let shape = Shape::with_speeds(&plan, topology, members, situation.speeds().as_ref());
        let pricing = Pricing { shape, calibration: calibration.clone(), frame_payload_bytes };
        Self { plan, segment_bytes, predicted_seconds, reason, candidates, size_bytes, pricing }
    }

    /// What it is predicted to take if so many bytes come to be sent, in seconds: for a stream whose length is known
    /// when it has ended.
    pub fn predicted_for(&self, size_bytes: u64) -> f64 {
        let Pricing { shape, calibration, frame_payload_bytes } = &self.pricing;
        let (segment_bytes, frame_payload_bytes) = (self.segment_bytes, *frame_payload_bytes);
        predict(shape, &Job { size_bytes, segment_bytes, frame_payload_bytes }, calibration)
    }
}

/// What a price depends on beside the length.
#[derive(Clone, Debug, PartialEq)]
struct Pricing {
    shape: Shape,
    calibration: Calibration,
    frame_payload_bytes: u64,
}

/// Finds the plan and the segment of least predicted time; of about equal ones what was measured.
///
/// Candidates are all ways of [`Via::ALL`] but the topology-unaware trees, as far as they suit the number of ranks:
/// `flat` and those in blocks up to 64, `binary` and `latency` up to 1024, `recursive-doubling` for powers of two.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is named twice.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn choose(situation: &Situation) -> Result<Choice, PlanError> {
    let mut priced =
        candidates(situation.members.len()).map(|via| price(via, situation)).collect::<Result<Vec<_>, _>>()?;
    let cost = |Priced { estimate, .. }: &Priced| {
        competing_seconds(estimate.via, estimate.predicted_seconds, situation.calibration)
    };
    // Stable: of equal ones the first listed stays the first.
    priced.sort_by(|left, right| cost(left).total_cmp(&cost(right)));
    let estimates: Vec<Estimate> = priced.iter().map(|priced| priced.estimate.clone()).collect();
    let reason = reason(&estimates, situation);
    Ok(Choice::of(priced.swap_remove(0).plan, estimates, reason, situation))
}

/// The price with which a way competes: its predicted time, of a cast that nobody has tried a little more, of one that
/// is policed twice that.
pub fn competing_seconds(via: Via, predicted_seconds: f64, calibration: &Calibration) -> f64 {
    let times = match calibration.broadcast() {
        _ if via != Via::Cast => 1.0,
        Broadcast::Untried => UNTRIED,
        Broadcast::Policed(_) => POLICED,
        Broadcast::FullRate => 1.0,
    };
    predicted_seconds * times
}

/// Plans one way to send and prices it with the segment that suits it best.
///
/// # Errors
/// [`PlanError`] as [`choose`], and if there is no such plan for so many ranks.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn price(via: Via, situation: &Situation) -> Result<Priced, PlanError> {
    let &Situation { topology, root_host, members, .. } = situation;
    let speeds = situation.speeds();
    let plan = plan::make(via, topology, root_host, members, &costs(situation, speeds.as_ref()))?;
    Ok(priced(plan, None, situation))
}

/// Prices a plan that somebody else chose, in segments of `segment_bytes`; without a length, in those of least
/// predicted time.
///
/// # Panics
/// If the payload of a frame is zero bytes, or the members are not the plan's ranks.
pub fn given(plan: Plan, segment_bytes: Option<u64>, situation: &Situation) -> Choice {
    let Priced { plan, estimate } = priced(plan, segment_bytes, situation);
    let (predicted, segment) =
        (duration(estimate.predicted_seconds), in_frames(&estimate, situation.frame_payload_bytes));
    let slow = slow_words(&estimate);
    let each = for_each(situation);
    let reason = format!("{}, as asked: {predicted}{each} predicted; {segment}{slow}", estimate.via);
    Choice::of(plan, vec![estimate], reason, situation)
}

/// Prices a plan in segments of this length, or of the best.
fn priced(plan: Plan, segment_bytes: Option<u64>, situation: &Situation) -> Priced {
    let &Situation { topology, members, frame_payload_bytes, calibration, .. } = situation;
    let size_bytes = situation.size_bytes.unwrap_or(ASSUMED_SIZE_BYTES);
    let speeds = situation.speeds();
    let shape = Shape::with_speeds(&plan, topology, members, speeds.as_ref());
    let (segment_bytes, predicted_seconds) = match segment_bytes {
        Some(segment_bytes) => {
            let job = Job { size_bytes, segment_bytes, frame_payload_bytes };
            (segment_bytes, predict(&shape, &job, calibration))
        }
        None => best_segment(&shape, size_bytes, frame_payload_bytes, calibration),
    };
    let slowed = shape.slow.is_some().then(|| {
        let job = Job { size_bytes, segment_bytes, frame_payload_bytes };
        predict(&Shape { slow: None, ..shape.clone() }, &job, calibration)
    });
    let Shape { via, height, degree, worst_flows, slow, .. } = shape;
    let slow_cable = slow.zip(slowed).map(|(slow, even_seconds)| SlowCable { cable: slow.cable, even_seconds });
    let estimate = Estimate { via, segment_bytes, predicted_seconds, height, degree, worst_flows, slow_cable };
    Priced { estimate, plan }
}

/// What the latency tree is made for: the whole message, or as much as the engine keeps of it. A switch adds the time
/// of one frame, which it stores before it sends it on; of the measured latency one switch is taken to be a part.
fn costs<'a>(situation: &Situation, speeds: Option<&'a Speeds>) -> Costs<'a> {
    let (frame, calibration) = (situation.frame_payload_bytes, situation.calibration);
    let bytes = situation.size_bytes.unwrap_or(ASSUMED_SIZE_BYTES).min(frame * MAX_ATOMIC_SEGMENT_FRAMES);
    let hop_ns = calibration.gap_ns(frame) as u64;
    let latency_ns = (calibration.latency_ns(bytes).max(0.0) as u64).saturating_sub(hop_ns);
    Costs { injection_ns: calibration.gap_ns(bytes) as u64, latency_ns, hop_ns, speeds }
}

/// The ways that [`choose`] prices for so many ranks, in the order that decides between equal ones.
pub fn candidates(ranks: usize) -> impl Iterator<Item = Via> {
    Via::ALL.iter().copied().filter(move |&via| suits(via, ranks))
}

/// Whether a way to send is worth pricing for so many ranks.
fn suits(via: Via, ranks: usize) -> bool {
    match via {
        // The best is looked for by who asks for it: that takes long.
        Via::ChainUnaware | Via::BinaryUnaware | Via::BinaryBest => false,
        Via::Flat => ranks <= MOST_RANKS_OF_FEW,
        Via::ScatterAllgather => (2..=MOST_RANKS_OF_FEW).contains(&ranks),
        Via::RecursiveDoubling => (2..=MOST_RANKS_OF_FEW).contains(&ranks) && ranks.is_power_of_two(),
        Via::Binary | Via::Latency => ranks <= MOST_RANKS_OF_MANY,
        Via::Chain | Via::Kary(_) | Via::Cast | Via::Binomial => true,
    }
}

/// Why the first of these was chosen, in one line for people.
fn reason(estimates: &[Estimate], situation: &Situation) -> String {
    let best = &estimates[0];
    let mut text = format!("{}: {}{} predicted", best.via, duration(best.predicted_seconds), for_each(situation));
    if let Some(next) = estimates.get(1) {
        text += &format!(", next {} {}", next.via, duration(next.predicted_seconds));
        if best.predicted_seconds > 0.0 {
            let more = (next.predicted_seconds / best.predicted_seconds - 1.0) * 100.0;
            text += &format!(" (+{more:.0} %)");
        }
    }
    text + "; " + &in_frames(best, situation.frame_payload_bytes) + &slow_words(best)
}

/// What a price is for, where it is not for the whole message.
fn for_each(situation: &Situation) -> &'static str {
    if situation.size_bytes.is_none() { " for each GiB" } else { "" }
}

/// What the slowest cable or host costs, if any is slower than the others and that costs anything.
fn slow_words(estimate: &Estimate) -> String {
    let slower = |slow: &&SlowCable| slow.even_seconds < estimate.predicted_seconds * 0.99;
    let words = |slow: &SlowCable| {
        format!("; slowed down by {}: {} if it were like the others", slow.cable, duration(slow.even_seconds))
    };
    estimate.slow_cable.as_ref().filter(slower).map(words).unwrap_or_default()
}

fn in_frames(estimate: &Estimate, frame_payload_bytes: u64) -> String {
    if estimate.segment_bytes < frame_payload_bytes {
        return format!("segment {} bytes", estimate.segment_bytes);
    }
    let frames = estimate.segment_bytes.div_ceil(frame_payload_bytes);
    format!("segment {frames} frame{}", if frames == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
