//! The choice of `auto`: of all plans and segments the ones predicted to take least time, and why.

use super::{Calibration, MAX_ATOMIC_SEGMENT_FRAMES, Shape, best_segment};
use crate::plan::{self, Costs, Plan, PlanError, Via};
use crate::topology::Topology;

/// How long a stream of unknown length is taken to be.
pub const ASSUMED_SIZE_BYTES: u64 = 1 << 30;

/// Ranks up to which plans are candidates whose root sends to everybody or to many at once, and those in blocks: beyond, a
/// block is shorter than 16 frames.
const MOST_RANKS_OF_FEW: usize = 64;
/// Ranks up to which plans are candidates whose making takes time with the cube or the square of the ranks: at this number some
/// 10 ms, at ten times as many seconds.
const MOST_RANKS_OF_MANY: usize = 1024;

/// What is to be sent, from where, to whom, over what.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Where the hosts are.
    pub topology: &'a Topology,
    /// The host id of the root.
    pub root_host: usize,
    /// The host ids of all members, the root's among them; a member's rank is its index.
    pub members: &'a [usize],
    /// Bytes of the message; of a stream of unknown length, `None`: it is priced as one of [`ASSUMED_SIZE_BYTES`].
    pub size_bytes: Option<u64>,
    /// Bytes of the message that one frame carries; above zero.
    pub frame_payload_bytes: u64,
    /// What the network costs.
    pub calibration: &'a Calibration,
}

/// A way to send with the segment that suits it, and its price.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
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
}

/// A candidate and its plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Priced {
    /// The price and what it depends on.
    pub candidate: Candidate,
    /// The plan.
    pub plan: Plan,
}

/// What is best, and what else there was.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The plan of least predicted time.
    pub plan: Plan,
    /// Its segment, in bytes.
    pub segment_bytes: u64,
    /// Its predicted time, in seconds.
    pub predicted_seconds: f64,
    /// Why, in one line for people: `cast: 5.61 ms predicted, next chain 6.20 ms (+11 %); segment 1 frame`.
    pub reason: String,
    /// All that were priced, by rising price, equal ones in the order of [`Via::ALL`]; the first is the choice.
    pub candidates: Vec<Candidate>,
}

/// Finds the plan and the segment of least predicted time.
///
/// Candidates are all ways of [`Via::ALL`] but the topology-unaware trees, as far as they suit the number of ranks: `flat` and those in
/// blocks up to 64, `binary` and `latency` up to 1024, `recursive-doubling` for powers of two.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology, or a member is named twice.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn choose(situation: &Situation) -> Result<Choice, PlanError> {
    let suits = |via: &&Via| suits(**via, situation.members.len());
    let mut priced = Via::ALL.iter().filter(suits).map(|&via| price(via, situation)).collect::<Result<Vec<_>, _>>()?;
    // Stable: of equal ones the first listed stays the first.
    priced.sort_by(|left, right| left.candidate.predicted_seconds.total_cmp(&right.candidate.predicted_seconds));
    let candidates: Vec<Candidate> = priced.iter().map(|priced| priced.candidate.clone()).collect();
    let best = priced.swap_remove(0);
    Ok(Choice {
        plan: best.plan,
        segment_bytes: best.candidate.segment_bytes,
        predicted_seconds: best.candidate.predicted_seconds,
        reason: reason(&candidates, situation.frame_payload_bytes),
        candidates,
    })
}

/// Plans one way to send and prices it with the segment that suits it best.
///
/// # Errors
/// [`PlanError`] as [`choose`], and if there is no such plan for so many ranks.
///
/// # Panics
/// If the payload of a frame is zero bytes.
pub fn price(via: Via, situation: &Situation) -> Result<Priced, PlanError> {
    let &Situation { topology, root_host, members, frame_payload_bytes, calibration, .. } = situation;
    let size_bytes = situation.size_bytes.unwrap_or(ASSUMED_SIZE_BYTES);
    let plan = plan::make(via, topology, root_host, members, &costs(size_bytes, situation))?;
    let shape = Shape::of(&plan, topology, members);
    let (segment_bytes, predicted_seconds) = best_segment(&shape, size_bytes, frame_payload_bytes, calibration);
    let Shape { height, degree, worst_flows, .. } = shape;
    let candidate = Candidate { via, segment_bytes, predicted_seconds, height, degree, worst_flows };
    Ok(Priced { candidate, plan })
}

/// What the latency tree is made for: the whole message, or as much as the engine keeps of it. A switch adds the time of one
/// frame, which it stores before it sends it on; of the measured latency one switch is taken to be a part.
fn costs(size_bytes: u64, situation: &Situation) -> Costs {
    let (frame, calibration) = (situation.frame_payload_bytes, situation.calibration);
    let bytes = size_bytes.min(frame * MAX_ATOMIC_SEGMENT_FRAMES);
    let hop_ns = calibration.gap_ns(frame) as u64;
    let latency_ns = (calibration.latency_ns(bytes).max(0.0) as u64).saturating_sub(hop_ns);
    Costs { injection_ns: calibration.gap_ns(bytes) as u64, latency_ns, hop_ns }
}

/// Whether a way to send is worth pricing for so many ranks.
fn suits(via: Via, ranks: usize) -> bool {
    match via {
        Via::ChainUnaware | Via::BinaryUnaware => false,
        Via::Flat => ranks <= MOST_RANKS_OF_FEW,
        Via::ScatterAllgather => (2..=MOST_RANKS_OF_FEW).contains(&ranks),
        Via::RecursiveDoubling => (2..=MOST_RANKS_OF_FEW).contains(&ranks) && ranks.is_power_of_two(),
        Via::Binary | Via::Latency => ranks <= MOST_RANKS_OF_MANY,
        Via::Chain | Via::Kary(_) | Via::Cast | Via::Binomial => true,
    }
}

fn reason(candidates: &[Candidate], frame_payload_bytes: u64) -> String {
    let best = &candidates[0];
    let mut text = format!("{}: {} predicted", best.via, duration(best.predicted_seconds));
    if let Some(next) = candidates.get(1) {
        text += &format!(", next {} {}", next.via, duration(next.predicted_seconds));
        if best.predicted_seconds > 0.0 {
            let more = (next.predicted_seconds / best.predicted_seconds - 1.0) * 100.0;
            text += &format!(" (+{more:.0} %)");
        }
    }
    let frames = best.segment_bytes.div_ceil(frame_payload_bytes);
    text + &format!("; segment {frames} frame{}", if frames == 1 { "" } else { "s" })
}

/// Seconds for people, with three digits that count and the unit that suits: `5.61 s`, `48.2 ms` or `120 µs`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds >= 0.9995 => (seconds, "s"),
        _ if seconds >= 0.000_999_5 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests;
