//! Progress of all receivers over time: a common chart, a row for each receiver, and the incidents.

use super::kept::{Incident, Kept, Receiver, Run};
use super::scale::{self, Scale, WIDTH};
use super::text::{shown, time};
use super::track::{self, Course};
use maud::{Markup, html};

const HEIGHT: f64 = 1000.0;
const PLACES: usize = 150;
const MAX_INCIDENTS: usize = 60;

pub fn section(kept: &Kept, run: &Run) -> Markup {
    let timeline = &run.timeline;
    let length = kept.length();
    let ends = kept.receivers.iter().map(|one| one.seconds).chain(timeline.seconds.iter().copied());
    let seconds = Scale::of_time(ends.fold(kept.seconds, f64::max));
    let courses: Vec<Course> = kept.receivers.iter().map(|one| Course::of(one, timeline, length)).collect();
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
                    (track::row(receiver, course, &seconds, length))
                }
            }
            (incidents(run))
        }
    }
}

/// Draws what the root had sent, and the fastest, the median and the slowest receiver.
fn together(kept: &Kept, run: &Run, courses: &[Course], seconds: &Scale, length: u64) -> Markup {
    let bytes = Scale::of_bytes(length);
    let end = kept.receivers.iter().map(|one| one.seconds).fold(kept.seconds, f64::max);
    let mut lines = [const { Vec::new() }; 3];
    for place in 0..=PLACES {
        let at = end * place as f64 / PLACES as f64;
        // Receivers that failed no longer count as the slowest.
        let is_there = |(receiver, _): &(&Receiver, &Course)| Kept::has_all(receiver) || at <= receiver.seconds;
        let present = kept.receivers.iter().zip(courses).filter(is_there);
        let mut there: Vec<u64> = present.map(|(_, course)| course.at(at)).collect();
        there.sort_unstable();
        let picked = [there.first(), there.get(there.len() / 2), there.last()];
        for (line, bytes_there) in lines.iter_mut().zip(picked) {
            line.push((seconds.part(at), bytes.part(bytes_there.copied().unwrap_or_default() as f64)));
        }
    }
    let [slowest, median, fastest] = lines;
    let around: Vec<(f64, f64)> = fastest.into_iter().chain(slowest.into_iter().rev()).collect();
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
                    path.around d={ (scale::line(&around, HEIGHT)) "Z" } {}
                    path.sent d=(scale::line(&sent, HEIGHT)) {}
                    path.median d=(scale::line(&median, HEIGHT)) {}
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
