//! Charts of the HTML report: progress of all receivers over time, and incidents.

use super::drawing;
use super::drawing::{Scale, WIDTH, shown, time};
use super::kept::{Incident, Kept, Receiver, Run, Timeline, Track};
use crate::units;
use ethbcast_collectives::session::Timing;
use maud::{Markup, html};

const HEIGHT: f64 = 1000.0;
const PLACES: usize = 150;
const MAX_INCIDENTS: usize = 60;

pub fn section(kept: &Kept, run: &Run) -> Markup {
    let timeline = &run.timeline;
    let length = kept.length();
    let ends = kept
        .receivers
        .iter()
        .map(|one| one.seconds)
        .chain(timeline.seconds.iter().copied());
    let seconds = Scale::of_time(ends.fold(kept.seconds, f64::max));
    let courses: Vec<Course> = kept
        .receivers
        .iter()
        .map(|one| Course::of(one, timeline, length))
        .collect();
    let has_stalls = courses.iter().any(|course| !course.stalls.is_empty());
    html! {
        section {
            h2 { "Bytes against time" }
            (together(kept, run, &courses, &seconds, length))
            h3 { "Host by host" }
            p.note {
                "Height: the share of the bytes that had arrived, of " (crate::units::bytes(length))
                "; width: time since the first data frame."
            }
            ul.legend {
                li { span.key.area {} "arrived" }
                @if has_stalls { li { span.key.stall {} "nothing arrived, though not all was there" } }
                @if kept.failed().next().is_some() { li { span.key.died { "✕" } "its part ended without the bytes" } }
            }
            ol.tracks {
                li.track.axis { span.name {} (seconds.across()) span.result {} }
                @for (receiver, course) in kept.receivers.iter().zip(&courses) {
                    (row(receiver, course, &seconds, length))
                }
            }
            (incidents(run))
        }
    }
}

/// Draws what the root had sent, and the fastest, the median and the slowest receiver.
fn together(kept: &Kept, run: &Run, courses: &[Course], seconds: &Scale, length: u64) -> Markup {
    let bytes = Scale::of_bytes(length);
    let end = kept
        .receivers
        .iter()
        .map(|one| one.seconds)
        .fold(kept.seconds, f64::max);
    let mut lines = [const { Vec::new() }; 3];
    for place in 0..=PLACES {
        let at = end * place as f64 / PLACES as f64;
        // Receivers that failed no longer count as the slowest.
        let is_there = |(receiver, _): &(&Receiver, &Course)| {
            Kept::has_all(receiver) || at <= receiver.seconds
        };
        let present = kept.receivers.iter().zip(courses).filter(is_there);
        let mut there: Vec<u64> = present.map(|(_, course)| course.at(at)).collect();
        there.sort_unstable();
        let picked = [there.first(), there.get(there.len() / 2), there.last()];
        for (line, bytes_there) in lines.iter_mut().zip(picked) {
            line.push((
                seconds.part(at),
                bytes.part(bytes_there.copied().unwrap_or_default() as f64),
            ));
        }
    }
    let [slowest, median, fastest] = lines;
    let around: Vec<(f64, f64)> = fastest
        .into_iter()
        .chain(slowest.into_iter().rev())
        .collect();
    let sent = run.timeline.seconds.iter().zip(&run.timeline.sent_bytes);
    let sent = sent.map(|(&at, &sent)| (seconds.part(at), bytes.part(sent as f64)));
    let sent: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(sent).collect();
    html! {
        ul.legend {
            li { span.key.median {} "median receiver" }
            @if courses.len() > 1 { li { span.key.around {} "from the slowest to the fastest" } }
            li { span.key.sent {} "read and sent by " (shown(&run.root)) }
        }
        div.chart {
            (bytes.upwards())
            div.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                    title { "Bytes at the receivers against time" }
                    path.grid d={ (seconds.grid_across(HEIGHT)) (bytes.grid_upwards(HEIGHT)) } {}
                    path.around d={ (drawing::line(&around, HEIGHT)) "Z" } {}
                    path.sent d=(drawing::line(&sent, HEIGHT)) {}
                    path.median d=(drawing::line(&median, HEIGHT)) {}
                }
            }
            (seconds.across())
        }
    }
}

/// Lists the messages that a user would have seen during the run.
fn incidents(run: &Run) -> Markup {
    let all = &run.timeline.incidents;
    let more = all.len().saturating_sub(MAX_INCIDENTS) as u64 + run.timeline.incidents_left_out;
    html! {
        @if !all.is_empty() {
            h3 { "What happened" }
            div.wide {
                table {
                    thead { tr { th.number { "at" } th { "host" } th { "what" } } }
                    tbody { @for incident in all.iter().take(MAX_INCIDENTS) { (line(incident)) } }
                }
            }
            @if more > 0 { p.note { "and " (more) " more" } }
        }
    }
}

fn line(incident: &Incident) -> Markup {
    let hosts = ethbcast_planning::topology::nodeset::fold(&incident.hosts);
    html! {
        tr {
            td.number { (time(incident.seconds)) }
            td { (shown(&hosts)) }
            td.text { (shown(&incident.text)) }
        }
    }
}

const TRACK_HEIGHT: f64 = 100.0;
/// Duration below which a pause may only be the interval between status reports.
const MIN_STALL_SECONDS: f64 = 0.4;
/// Minimum duration of a stall at the start, where hosts at the end of a chain wait longer for
/// their first bytes.
const MIN_START_SECONDS: f64 = 1.5;

#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    pub from: f64,
    pub to: f64,
    pub state: char,
}

#[derive(Clone, Debug)]
pub struct Course {
    /// Seconds and bytes, up to the host's end.
    pub points: Vec<(f64, u64)>,
    pub stalls: Vec<Stall>,
}

impl Course {
    pub fn of(receiver: &Receiver, timeline: &Timeline, length: u64) -> Course {
        let track = timeline
            .receivers
            .iter()
            .rfind(|track| track.host == receiver.host);
        let mut points = vec![(0.0, 0)];
        let mut states = vec!['a'];
        if let Some(Track {
            bytes,
            states: letters,
            ..
        }) = track
        {
            let moments = timeline.seconds.iter().zip(bytes).zip(letters.chars());
            for ((&seconds, &bytes), letter) in
                moments.take_while(|((seconds, _), _)| **seconds < receiver.seconds)
            {
                points.push((seconds, bytes.min(length)));
                states.push(letter);
            }
        }
        let last = points.last().map_or(0, |&(_, bytes)| bytes);
        let end = if Kept::has_all(receiver) {
            length
        } else {
            last
        };
        points.push((receiver.seconds, end));
        states.push(states.last().copied().unwrap_or('a'));
        // What a member had reported is drawn until its next report.
        let reports_seconds = Timing::default()
            .among(timeline.receivers.len())
            .status
            .as_secs_f64();
        let stalls = stalls(&points, &states, length, 3.0 * reports_seconds);
        Course { points, stalls }
    }

    pub fn at(&self, seconds: f64) -> u64 {
        let behind = self.points.partition_point(|&(at, _)| at <= seconds);
        let Some(&(from, before)) = behind.checked_sub(1).and_then(|at| self.points.get(at)) else {
            return 0;
        };
        let Some(&(to, after)) = self.points.get(behind) else {
            return before;
        };
        let part = if to > from {
            (seconds - from) / (to - from)
        } else {
            1.0
        };
        before.saturating_add((after.saturating_sub(before) as f64 * part) as u64)
    }
}

fn stalls(points: &[(f64, u64)], states: &[char], length: u64, min_seconds: f64) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let mut begin = 0;
    for at in 1..=points.len() {
        if points
            .get(at)
            .is_some_and(|&(_, bytes)| bytes == points[begin].1)
        {
            continue;
        }
        let ((from, bytes), (to, _)) = (points[begin], points[at - 1]);
        let least = if begin == 0 {
            MIN_START_SECONDS
        } else {
            MIN_STALL_SECONDS
        };
        if bytes < length && to - from >= least.max(min_seconds) {
            stalls.push(Stall {
                from,
                to,
                state: most_frequent(&states[begin..at]),
            });
        }
        begin = at;
    }
    stalls
}

fn most_frequent(letters: &[char]) -> char {
    let count = |letter: char| letters.iter().filter(|&&other| other == letter).count();
    letters
        .iter()
        .copied()
        .max_by_key(|&letter| count(letter))
        .unwrap_or('-')
}

/// Returns words for a state that follow the host's name, empty for an unremarkable one.
pub fn text(state: char) -> &'static str {
    match state {
        'b' => "waits for its disk or for the reader of its output",
        'c' => "waits for a host behind it",
        's' => "waits for frames",
        'v' => "is verifying",
        'y' => "is syncing to its disk",
        't' | 'd' => "waits for the verdict",
        '-' => "is not there",
        _ => "makes no progress",
    }
}

pub fn row(receiver: &Receiver, course: &Course, seconds: &Scale, length: u64) -> Markup {
    let place = |&(at, bytes): &(f64, u64)| (seconds.part(at), bytes as f64 / length.max(1) as f64);
    let points: Vec<(f64, f64)> = course
        .points
        .iter()
        .map(place)
        .map(|(x, y)| (x, y.min(1.0)))
        .collect();
    let ok = Kept::has_all(receiver);
    let got = course.points.last().map_or(0, |&(_, bytes)| bytes);
    let host = shown(&receiver.host);
    html! {
        li.track {
            span.name { (host) }
            div.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (TRACK_HEIGHT) } preserveAspectRatio="none" role="img" {
                    title {
                        (host) ": " (units::bytes(got)) " in " (time(receiver.seconds)) ", " (shown(&receiver.status))
                    }
                    path.grid d=(seconds.grid_across(TRACK_HEIGHT)) {}
                    path.area d=(drawing::area(&points, TRACK_HEIGHT)) {}
                    @for stall in &course.stalls {
                        (band(stall, seconds, &host))
                    }
                }
                @if !ok {
                    span.died style={ "left:" (seconds.percent(receiver.seconds)) } aria-hidden="true" { "✕" }
                }
            }
            span.result {
                @if ok { (time(receiver.seconds)) } @else {
                    span.bad { "✕ " (shown(&receiver.status)) } " at " (time(receiver.seconds))
                }
            }
        }
    }
}

fn band(stall: &Stall, seconds: &Scale, host: &str) -> Markup {
    let (from, to) = (
        seconds.part(stall.from) * WIDTH,
        seconds.part(stall.to) * WIDTH,
    );
    html! {
        rect.stall x=(format!("{from:.0}")) y="0" width=(format!("{:.0}", (to - from).max(2.0))) height=(TRACK_HEIGHT) {
            title { (host) " " (text(stall.state)) ", from " (time(stall.from)) " to " (time(stall.to)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(bytes: &[u64], states: &str, receiver: &Receiver) -> Course {
        let seconds = (1..=bytes.len()).map(|at| at as f64 / 10.0).collect();
        let track = Track {
            host: "n1".to_owned(),
            bytes: bytes.to_vec(),
            states: states.to_owned(),
        };
        let timeline = Timeline {
            seconds,
            receivers: vec![track],
            ..Timeline::default()
        };
        Course::of(receiver, &timeline, 100)
    }

    fn receiver(status: &str, seconds: f64, bytes: u64) -> Receiver {
        Receiver {
            host: "n1".to_owned(),
            status: status.to_owned(),
            seconds,
            bytes,
            ..Receiver::default()
        }
    }

    #[test]
    fn a_receiver_without_progress_for_long_is_stalled() {
        let course = course(
            &[10, 20, 20, 20, 20, 20, 20, 100, 100, 100, 100, 100, 100],
            "aabbbbbavvvvv",
            &receiver("verified", 1.4, 100),
        );
        assert_eq!(course.stalls.len(), 1, "{:?}", course.stalls);
        let Stall { from, to, state } = course.stalls[0].clone();
        assert!(
            (from - 0.2).abs() < 1e-9 && (to - 0.7).abs() < 1e-9 && state == 'b',
            "{from} {to} {state}"
        );
        assert_eq!((course.at(0.75), course.at(9.0)), (60, 100));
    }

    #[test]
    fn the_interval_of_reports_of_many_receivers_is_no_stall() {
        for (receivers, stalls) in [(800, 1), (5695, 0)] {
            let tracks = (1..=receivers).map(|host| Track {
                host: format!("n{host}"),
                bytes: vec![10, 20, 20, 20, 20, 20, 20, 20, 30],
                states: "aaaaaaaaa".to_owned(),
            });
            let timeline = Timeline {
                seconds: (1..=9).map(|at| f64::from(at) / 10.0).collect(),
                receivers: tracks.collect(),
                ..Timeline::default()
            };
            assert_eq!(
                Course::of(&receiver("verified", 1.4, 100), &timeline, 100)
                    .stalls
                    .len(),
                stalls
            );
        }
    }

    #[test]
    fn reports_after_a_hosts_end_are_not_drawn() {
        let course = course(&[10, 20, 20, 20], "aa--", &receiver("died", 0.25, 0));
        assert_eq!(course.points, [(0.0, 0), (0.1, 10), (0.2, 20), (0.25, 20)]);
    }
}
