//! Progress as text: plain lines for logs, or bars for each host on a terminal.

use super::course::{HostProgress, MAX_HOSTS, TransferCourse, percent};
use crate::units;
use console::{Style, measure_text_width, truncate_str};
use ethbcast_collectives::session::MemberState;
use std::time::{Duration, Instant};

const BAR_COLUMNS: usize = 20;
/// Limit on the width of names, so that columns stay aligned.
const MAX_NAME_COLUMNS: usize = 24;

pub fn picture(
    course: &TransferCourse,
    now: Instant,
    columns: usize,
    colours: bool,
) -> Vec<String> {
    let whole = course.size.map_or(String::new(), |size| {
        format!("{} ", bar(course.bytes, size))
    });
    let lines = if course.hosts.is_empty() || course.receivers > MAX_HOSTS {
        vec![whole + &stat_line(course, now)]
    } else {
        let name_columns = course
            .hosts
            .iter()
            .map(|host| measure_text_width(&host.name))
            .max()
            .unwrap_or_default();
        let name_columns = name_columns.min(MAX_NAME_COLUMNS);
        let host = |host| host_line(host, course.size, now, name_columns, colours);
        course
            .hosts
            .iter()
            .map(host)
            .chain([whole + &summary(course, now)])
            .collect()
    };
    // The last column stays free, because some terminals wrap there.
    lines
        .iter()
        .map(|line| truncate_str(line, columns.saturating_sub(1), "…").into_owned())
        .collect()
}

/// Formats `n1  [=====>              ]  25 %    96.0 Mbit/s  is receiving`.
fn host_line(
    host: &HostProgress,
    size: Option<u64>,
    now: Instant,
    name_columns: usize,
    colours: bool,
) -> String {
    let (style, does) = match (host.end, host.state) {
        (Some("verified"), _) => (Style::new().green(), "verified"),
        (Some(end), _) => (Style::new().red(), end),
        (None, MemberState::Blocked) => (Style::new().yellow(), MemberState::Blocked.words()),
        (None, state) => (Style::new(), state.words()),
    };
    let name = truncate_str(&host.name, name_columns, "…");
    let fill = " ".repeat(name_columns.saturating_sub(measure_text_width(&name)));
    let name = style.force_styling(colours).apply_to(name);
    let far = size.map_or_else(
        || format!("{:>12}", units::bytes(host.bytes)),
        |size| {
            format!(
                "{} {:>3} %",
                bar(host.bytes, size),
                percent(host.bytes, size)
            )
        },
    );
    let rate = host
        .meter
        .rate(now)
        .filter(|_| host.end.is_none())
        .map_or(String::new(), units::rate);
    format!("{name}{fill}  {far}  {rate:>12}  {does}")
}

fn bar(bytes: u64, size: u64) -> String {
    let full = (percent(bytes, size) as usize * BAR_COLUMNS / 100).min(BAR_COLUMNS);
    let tip = if full < BAR_COLUMNS { ">" } else { "" };
    format!("[{:<BAR_COLUMNS$}]", "=".repeat(full) + tip)
}

pub fn stat_line(course: &TransferCourse, now: Instant) -> String {
    let slowest = course
        .slowest
        .as_ref()
        .map(|(host, state)| format!(", slowest {host}: {}", state.words()));
    summary(course, now) + &slowest.unwrap_or_default()
}

pub fn summary(course: &TransferCourse, now: Instant) -> String {
    let mut parts = vec![arrived(course)];
    if let Some(rate) = course.rate(now) {
        parts.push(units::rate(rate));
    }
    if let Some(left) = course.left(now).filter(|left| !left.is_zero()) {
        let least = if course.is_selective && left.as_millis() >= 500 {
            "at least "
        } else {
            ""
        };
        parts.push(format!("{least}{} left", roughly(left)));
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
    let of = course.size.zip(course.percent());
    let of = of.map_or(String::new(), |(size, percent)| {
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
    use super::*;
    use crate::progress::course::tests::{moved, sending};
    use ethbcast_collectives::session::live::ProgressPlace;
    use ethbcast_collectives::session::{Behind, MemberReport, Outcome, Progress, RootEvent};
    use ethbcast_transport::wire::Rank;

    /// Creates three receivers after one second: one has all bytes, one a quarter, one waits for
    /// its disk.
    fn three(begin: Instant) -> TransferCourse {
        let mut course = sending(begin);
        let place = ProgressPlace::new;
        for (at, part) in [(0, 0), (1, 1)] {
            let members = [
                place("n1", MemberState::Settled, part * (64 << 20)),
                place("node-2", MemberState::Alive, part * (16 << 20)),
                place("n3", MemberState::Blocked, part * (2 << 20)),
            ];
            let slowest = Some(("n3", MemberState::Blocked));
            let moved = Progress::Moved {
                bytes: part * (2 << 20),
                came: part * (2 << 20),
                slowest,
                members: &members,
                resent_frames: 0,
            };
            course.record(&moved, begin + Duration::from_secs(at));
        }
        let report = MemberReport {
            host: "n1".to_owned(),
            rank: Rank(1),
            outcome: Outcome::Delivered,
            bytes: 64 << 20,
            digest: [1; 32],
            text: String::new(),
            took: Duration::from_secs(1),
            taken: None,
            behind: Behind::default(),
        };
        course.record(
            &Progress::Sender(&RootEvent::Reported(report)),
            begin + Duration::from_secs(1),
        );
        course
    }

    #[test]
    fn few_hosts_have_a_line_each_and_one_for_all_below() {
        let begin = Instant::now();
        let lines = picture(&three(begin), begin + Duration::from_secs(1), 200, false);
        let expected = [
            "n1      [====================] 100 %                verified",
            "node-2  [=====>              ]  25 %  134.2 Mbit/s  is receiving",
            "n3      [>                   ]   3 %   16.8 Mbit/s  waits for its disk or for the reader of its output",
            "[>                   ] 2.00 MiB of 64.00 MiB (3 %) at all 3 receivers, 16.8 Mbit/s, 31 s left, 1 \
             verified",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_cut_at_the_terminals_edge_and_have_colours_if_it_has() {
        let begin = Instant::now();
        let lines = picture(&three(begin), begin + Duration::from_secs(1), 40, true);
        let expected = [
            "\u{1b}[32mn1\u{1b}[0m      [====================] 100 %  …",
            "node-2  [=====>              ]  25 %  …",
            "\u{1b}[33mn3\u{1b}[0m      [>                   ]   3 %  …",
            "[>                   ] 2.00 MiB of 64.…",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn many_hosts_have_one_line_which_names_the_slowest() {
        let begin = Instant::now();
        let mut course = three(begin);
        course.receivers = MAX_HOSTS + 1;
        let lines = picture(&course, begin + Duration::from_secs(1), 200, false);
        let expected = "[>                   ] 2.00 MiB of 64.00 MiB (3 %) at all 9 receivers, 16.8 Mbit/s, 31 s left, \
                        1 verified, slowest n3: waits for its disk or for the reader of its output";
        assert_eq!(lines, [expected]);
        course.size = None;
        let lines = picture(&course, begin + Duration::from_secs(1), 60, false);
        assert_eq!(
            lines,
            ["2.00 MiB at all 9 receivers, 16.8 Mbit/s, 1 verified, slow…"]
        );
    }

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
            let progress = Progress::Moved {
                bytes,
                came: bytes,
                slowest: None,
                members: &[],
                resent_frames: 0,
            };
            course.record(&progress, begin + Duration::from_secs(seconds));
        }
        assert_eq!(
            stat_line(&course, begin + Duration::from_secs(1)),
            "1000 B, 8.0 kbit/s"
        );
    }

    #[test]
    fn the_remaining_time_is_printed_as_exactly_as_it_is_known() {
        let said = [0.2, 1.4, 119.0, 150.0, 7199.0, 12_000.0]
            .map(|seconds| roughly(Duration::from_secs_f64(seconds)));
        assert_eq!(
            said,
            [
                "less than 1 s",
                "1 s",
                "119 s",
                "3 min",
                "120 min",
                "3 h 20 min"
            ]
        );
    }
}
