//! Decision whether a switch's storm control dropped part of a test burst sent by broadcast.

use super::body::ReportBody;

/// Share of the expected arrivals below which a train counts as policed. At 10 % loss, 64 frames
/// stay above it in 99 of 100 cases.
pub(super) const POLICED_BELOW: f64 = 0.85;
/// Share for the shorter trains of a gentle ramp: 16 frames that count.
pub(super) const GENTLY_POLICED_BELOW: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RampPace {
    pub frames_per_second: f64,
    pub frames: u64,
}

impl RampPace {
    /// Returns the first frame of the second half. Only that half counts, because a policer lets a burst pass first.
    pub(super) fn mark(self) -> u64 {
        self.frames / 2
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UnicastKnowledge {
    pub frames_per_second: f64,
    pub loss: f64,
}

/// Returns the rate at which frames got through to a target, if they were policed; `None` if at
/// least `least_part` of those expected from unicast arrived.
pub(super) fn policed(pace: RampPace, known: UnicastKnowledge, report: &ReportBody, least_part: f64) -> Option<f64> {
    let expected = (known.frames_per_second / pace.frames_per_second).min(1.0) * (1.0 - known.loss);
    let late_frames = pace.frames - pace.mark();
    let part = report.arrived_late as f64 / late_frames.max(1) as f64;
    (part < expected * least_part).then(|| passed(pace, report, part))
}

/// Returns the rate by the receiver's clock, from the first to the last arrival of the second half.
/// If few arrive, the train's pace is used instead.
fn passed(pace: RampPace, report: &ReportBody, part: f64) -> f64 {
    let nanos = report.last_nanos.saturating_sub(report.late_nanos);
    match report.arrived_late {
        0..=8 => part * pace.frames_per_second,
        _ if nanos == 0 => part * pace.frames_per_second,
        frames => (frames - 1) as f64 * 1e9 / nanos as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: UnicastKnowledge = UnicastKnowledge { frames_per_second: 8000.0, loss: 0.01 };

    fn report(pace: RampPace, arrived_late: u64) -> ReportBody {
        let half_nanos = (pace.mark() as f64 * 1e9 / pace.frames_per_second) as u64;
        ReportBody {
            arrived: arrived_late,
            arrived_late,
            first_nanos: 0,
            late_nanos: half_nanos,
            last_nanos: half_nanos * 2,
            worked_nanos: 0,
            computer: None,
        }
    }

    #[test]
    fn broadcast_that_arrives_like_unicast_is_not_policed() {
        let pace = RampPace { frames_per_second: 8000.0, frames: 800 };
        for arrived in [400, 396, 350] {
            assert_eq!(policed(pace, KNOWN, &report(pace, arrived), POLICED_BELOW), None, "{arrived} of 400");
        }
    }

    #[test]
    fn a_slow_receiver_is_no_policer() {
        let pace = RampPace { frames_per_second: 8000.0, frames: 800 };
        let slow = UnicastKnowledge { frames_per_second: 4000.0, loss: 0.0 };
        assert_eq!(policed(pace, slow, &report(pace, 200), POLICED_BELOW), None);
        assert!(policed(pace, slow, &report(pace, 100), POLICED_BELOW).is_some());
    }

    #[test]
    fn the_rate_that_gets_through_is_taken_from_the_receivers_clock() {
        let pace = RampPace { frames_per_second: 8000.0, frames: 800 };
        let rate = policed(pace, KNOWN, &report(pace, 100), POLICED_BELOW).expect("a quarter arrived");
        assert!((rate - 2000.0).abs() < 40.0, "{rate}");
        assert_eq!(policed(pace, KNOWN, &ReportBody::default(), POLICED_BELOW), Some(0.0), "nothing at all");
    }
}
