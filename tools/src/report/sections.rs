//! Text and tables of the HTML report: outcome, prediction, losses, receivers, settings.

use super::diagnosis;
use super::drawing::{command_line, rate, shown, time};
use super::kept::{Damaged, Kept, Receiver, Run};
use super::lossy::{loss_of, suspects};
use crate::units;
use ethbcast_planning::topology::nodeset;
use maud::{Markup, html};
use std::collections::BTreeMap;

const MAX_WAYS: usize = 6;

pub fn header(kept: &Kept) -> Markup {
    let (all, failed) = (kept.receivers.len(), kept.failed().count());
    let run = kept.run.as_ref();
    html! {
        header {
            h1 { (title(kept)) }
            p {
                @if failed == 0 {
                    span.good {
                        "✓ " @if all == 1 { "the receiver has" } @else { "all " (all) " receivers have" }
                        " verified the bytes"
                    }
                } @else {
                    span.bad { "✕ " (failed) " of " (all) " receivers have not got the bytes" }
                }
                @if let Some(began) = run.and_then(|run| run.began.as_ref()) { span.note { " · " (shown(began)) } }
            }
            @if let Some(error) = &kept.error { p { strong { "Given up: " } (shown(error)) } }
            dl.figures {
                (figure("bytes", &units::bytes(kept.bytes)))
                (figure("took", &time(kept.seconds)))
                (figure("goodput", &units::rate(kept.goodput_bits_per_second)))
                (figure("via", &shown(&kept.via)))
                @if let Some(bytes) = kept.sent_bytes { (figure("sent of it", &units::bytes(bytes))) }
            }
        }
    }
}

pub fn title(kept: &Kept) -> String {
    let source = kept
        .run
        .as_ref()
        .map(|run| run.source.as_str())
        .filter(|source| !source.is_empty());
    let (count, source) = (
        kept.receivers.len(),
        source.map_or_else(|| "a transfer".to_owned(), shown),
    );
    format!(
        "{source} to {count} host{}",
        if count == 1 { "" } else { "s" }
    )
}

fn figure(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

pub fn prediction(kept: &Kept) -> Markup {
    let longest = kept
        .predicted_seconds
        .unwrap_or_default()
        .max(kept.seconds)
        .max(1e-9);
    html! {
        section {
            h2 { "Predicted and actual" }
            dl.bars {
                @if let Some(predicted) = kept.predicted_seconds {
                    (bar("predicted", predicted, longest, "predicted"))
                }
                (bar("actual", kept.seconds, longest, "actual"))
            }
            @if let Some(parts) = &kept.not_predicted {
                p.note { "Not predicted: " (shown(&parts.join(", "))) }
            }
            @if let Some(cause) = diagnosis::part(kept) { p { strong { "Limited by " } (cause) } }
            @if let Some(surprise) = &kept.surprise { p { (shown(surprise)) } }
            @if let Some(reason) = &kept.reason { p.note { "Chosen: " (shown(reason)) } }
            (ways(kept))
        }
    }
}

fn bar(name: &str, seconds: f64, longest: f64, class: &str) -> Markup {
    let percent = if seconds.is_finite() {
        (seconds / longest * 100.0).clamp(0.0, 100.0)
    } else {
        0.0
    };
    html! {
        dt { (name) }
        dd {
            span.rail { span class={ "bar " (class) } style={ "width:" (format!("{percent:.1}%")) } {} }
            (time(seconds))
        }
    }
}

fn ways(kept: &Kept) -> Markup {
    let all = kept.run.as_ref().map_or(&[][..], |run| &run.candidates);
    html! {
        @if all.len() > 1 {
            details {
                summary { "Other ways, as they were predicted" }
                table {
                    thead { tr { th { "via" } th.number { "predicted" } } }
                    tbody {
                        @for way in all.iter().take(MAX_WAYS) {
                            tr { td { (shown(&way.via)) } td.number { (time(way.predicted_seconds)) } }
                        }
                    }
                }
            }
        }
    }
}

const MAX_HOPS: usize = 50;

pub fn losses(kept: &Kept) -> Markup {
    let frames = kept.frames;
    let root = kept
        .run
        .as_ref()
        .map_or_else(|| "The sender".to_owned(), |run| shown(&run.root));
    let part =
        frames.data_resent as f64 / (frames.data_sent + frames.data_resent).max(1) as f64 * 100.0;
    let (hops, suspects) = (hops(&kept.damaged), suspects(kept));
    html! {
        section {
            h2 { "Losses" }
            p {
                (root) " sent " (frames.data_sent) " data frames, and " (frames.data_resent) " again ("
                (format!("{part:.2}")) " %)."
            }
            @if !suspects.is_empty() {
                p { "Lost on the way, by what the receivers say of how their frames came:" }
                ul {
                    @for one in suspects.iter().take(MAX_HOPS) {
                        li { (one.name) ": " (one.lost) " frames (" (format!("{:.2}", one.loss * 100.0)) " %)" }
                    }
                }
            }
            @if hops.is_empty() {
                p.note { "No bytes came damaged." }
            } @else {
                div.wide {
                    table {
                        thead { tr { th { "hop" } th.number { "pieces damaged" } th.number { "bytes" } } }
                        tbody {
                            @for ((from, to), (pieces, bytes)) in hops.iter().take(MAX_HOPS) {
                                tr {
                                    td.text { (shown(from)) " → " (shown(to)) }
                                    td.number { (pieces) }
                                    td.number { (units::bytes(*bytes)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

type Hops = Vec<((String, String), (u64, u64))>;

fn hops(damaged: &[Damaged]) -> Hops {
    let mut hops: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for Damaged { bytes, from, to } in damaged {
        let from = from.clone().unwrap_or_else(|| "somebody".to_owned());
        let (pieces, sum) = hops.entry((from, nodeset::fold(to))).or_default();
        (*pieces, *sum) = (*pieces + 1, sum.saturating_add(*bytes));
    }
    let mut hops: Hops = hops.into_iter().collect();
    hops.sort_by_key(|(_, (pieces, bytes))| std::cmp::Reverse((*pieces, *bytes)));
    hops
}

pub fn receivers(kept: &Kept) -> Markup {
    let has_failed = kept.failed().next().is_some();
    let has_said = kept.receivers.iter().any(|one| loss_of(one).is_some());
    html! {
        section {
            h2 { "Receivers" }
            div.wide {
                table {
                    thead {
                        tr {
                            th { "host" } th.number { "rank" } th { "status" } th.number { "bytes" }
                            th.number { "time" } th.number { "rate" }
                            @if has_said { th.number { "repaired" } }
                            @if has_failed { th { "why" } }
                        }
                    }
                    tbody { @for receiver in &kept.receivers { (line(receiver, has_said)) } }
                }
            }
            @if !kept.left_out.is_empty() {
                h3 { "Did not take part" }
                ul { @for one in &kept.left_out { li { (shown(&one.host)) ": " (shown(&one.reason)) } } }
            }
        }
    }
}

fn line(receiver: &Receiver, has_said: bool) -> Markup {
    let Receiver {
        host,
        rank,
        status,
        bytes,
        seconds,
        reason,
        repaired_frames,
        ..
    } = receiver;
    let ok = Kept::has_all(receiver);
    let repairs = loss_of(receiver)
        .and(*repaired_frames)
        .map_or("-".to_owned(), |count| count.to_string());
    html! {
        tr {
            td { (shown(host)) }
            td.number { (rank) }
            td { @if ok { "✓ verified" } @else { span.bad { "✕ " (shown(status)) } } }
            td.number { (units::bytes(*bytes)) }
            td.number { (time(*seconds)) }
            td.number { @if ok { (rate(*bytes, *seconds)) } @else { "-" } }
            @if has_said { td.number { (repairs) } }
            @if !ok { td.text { (shown(reason.as_deref().unwrap_or_default())) } }
        }
    }
}

pub fn settings(kept: &Kept, run: &Run) -> Markup {
    html! {
        section {
            h2 { "To repeat it" }
            pre.command { (long(&command_line(&run.command))) }
            dl.settings {
                (setting("ethbcast", &run.version))
                (setting("sender", &run.root))
                (setting("interface", &format!("{}, MTU {}", run.interface, run.mtu_bytes)))
                (setting("group", &run.group))
                (setting("session", &kept.session))
                @if let Some(bytes) = kept.segment_bytes { (setting("segment", &units::bytes(bytes))) }
                @if !kept.preset.is_empty() { (setting("preset", &kept.preset)) }
                @if let Some(digest) = &kept.blake3 { (setting("BLAKE3", digest)) }
            }
            @if let Some(topology) = &run.topology {
                details { summary { "The topology, as a file" } pre { (long(topology)) } }
            }
        }
    }
}

fn setting(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (shown(value)) } } }
}

fn long(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}
