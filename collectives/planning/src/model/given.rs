//! The price of a plan that somebody else chose.

use super::{ASSUMED_SIZE_BYTES, Candidate, Choice, Job, Shape, Situation, best_segment, duration, predict};
use crate::plan::Plan;

/// Prices `plan` in segments of `segment_bytes`; without a length, in those of least predicted time.
///
/// # Panics
/// If the payload of a frame is zero bytes, or the members are not the plan's ranks.
pub fn given(plan: Plan, segment_bytes: Option<u64>, situation: &Situation) -> Choice {
    let &Situation { topology, members, frame_payload_bytes, calibration, .. } = situation;
    let size_bytes = situation.size_bytes.unwrap_or(ASSUMED_SIZE_BYTES);
    let shape = Shape::of(&plan, topology, members);
    let (segment_bytes, predicted_seconds) = match segment_bytes {
        Some(segment_bytes) => {
            let job = Job { size_bytes, segment_bytes, frame_payload_bytes };
            (segment_bytes, predict(&shape, &job, calibration))
        }
        None => best_segment(&shape, size_bytes, frame_payload_bytes, calibration),
    };
    let Shape { via, height, degree, worst_flows, .. } = shape;
    let frames = segment_bytes.div_ceil(frame_payload_bytes);
    let reason = format!(
        "{via}, as asked: {} predicted; segment {frames} frame{}",
        duration(predicted_seconds),
        if frames == 1 { "" } else { "s" }
    );
    let candidate = Candidate { via, segment_bytes, predicted_seconds, height, degree, worst_flows };
    Choice { plan, segment_bytes, predicted_seconds, reason, candidates: vec![candidate] }
}
