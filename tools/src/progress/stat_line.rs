//! Progress as a single plain line, for logs.

use super::course::TransferCourse;
use crate::units;
use std::time::{Duration, Instant};

pub fn stat_line(course: &TransferCourse, now: Instant) -> String {
    let slowest = course.slowest.as_ref().map(|(host, state)| format!(", slowest {host}: {}", state.words()));
    summary(course, now) + &slowest.unwrap_or_default()
}

pub fn summary(course: &TransferCourse, now: Instant) -> String {
    let mut parts = vec![arrived(course)];
    if let Some(rate) = course.rate(now) {
        parts.push(units::rate(rate));
    }
    if let Some(left) = course.left(now).filter(|left| !left.is_zero()) {
        parts.push(format!("{} left", roughly(left)));
    }
    if course.resent_frames > 0 {
        parts.push(format!("{} frames sent again", course.resent_frames));
    }
    if course.delivered > 0 {
        parts.push(format!("{} verified", course.delivered));
    }
    if course.failed > 0 {
        parts.push(format!("{} failed", course.failed));
    }
    parts.join(", ")
}

fn arrived(course: &TransferCourse) -> String {
    let bytes = units::bytes(course.bytes);
    let of = course.size.map_or(String::new(), |size| {
        let percent = (u128::from(course.bytes) * 100).checked_div(u128::from(size)).unwrap_or(100);
        format!(" of {} ({percent} %)", units::bytes(size))
    });
    let at = match (&course.slowest, course.receivers) {
        (None, _) => String::new(),
        (Some(_), 1) => " at 1 receiver".to_owned(),
        (Some(_), receivers) => format!(" at all {receivers} receivers"),
    };
    format!("{bytes}{of}{at}")
}

pub fn roughly(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        0 => "less than 1 s".to_owned(),
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::{moved, sending};
    use super::*;
    use ethbcast_collectives::session::Progress;

    #[test]
    fn a_sender_says_how_far_all_are_and_who_is_last() {
        let begin = Instant::now();
        let mut course = sending(begin);
        moved(&mut course, 0, begin);
        assert_eq!(
            stat_line(&course, begin),
            "0 B of 64.00 MiB (0 %) at all 3 receivers, 12 frames sent again, slowest n3: waits for frames"
        );
        let now = begin + Duration::from_secs(1);
        moved(&mut course, 16 << 20, now);
        (course.delivered, course.failed) = (1, 1);
        assert_eq!(
            stat_line(&course, now),
            "16.00 MiB of 64.00 MiB (25 %) at all 3 receivers, 134.2 Mbit/s, 3 s left, 12 frames sent again, 1 \
             verified, 1 failed, slowest n3: waits for frames"
        );
    }

    #[test]
    fn a_receiver_of_a_stream_whose_end_nobody_knows_says_what_it_has() {
        let begin = Instant::now();
        let mut course = TransferCourse::default();
        for seconds in 0..2 {
            let bytes = seconds * 1000;
            let progress = Progress::Moved { bytes, slowest: None, members: &[], resent_frames: 0 };
            course.record(&progress, begin + Duration::from_secs(seconds));
        }
        assert_eq!(stat_line(&course, begin + Duration::from_secs(1)), "1000 B, 8.0 kbit/s");
    }

    #[test]
    fn what_is_left_is_said_as_exactly_as_it_is_known() {
        let said = [0.2, 1.4, 119.0, 150.0, 7199.0, 12_000.0].map(|seconds| roughly(Duration::from_secs_f64(seconds)));
        assert_eq!(said, ["less than 1 s", "1 s", "119 s", "3 min", "120 min", "3 h 20 min"]);
    }
}
