//! Summary at the top of the page: the outcome, and the actual duration beside the predicted one.

use super::kept::Kept;
use super::limiting;
use super::text::{shown, time};
use crate::units;
use maud::{Markup, html};

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
    let source = kept.run.as_ref().map(|run| run.source.as_str()).filter(|source| !source.is_empty());
    let (count, source) = (kept.receivers.len(), source.map_or_else(|| "a transfer".to_owned(), shown));
    format!("{source} to {count} host{}", if count == 1 { "" } else { "s" })
}

fn figure(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

pub fn prediction(kept: &Kept) -> Markup {
    let longest = kept.predicted_seconds.unwrap_or_default().max(kept.seconds).max(1e-9);
    html! {
        section {
            h2 { "Predicted and actual" }
            dl.bars {
                @if let Some(predicted) = kept.predicted_seconds {
                    (bar("predicted", predicted, longest, "predicted"))
                }
                (bar("actual", kept.seconds, longest, "actual"))
            }
            @if let Some(cause) = limiting::part(kept) { p { strong { "Limited by " } (cause) } }
            @if let Some(surprise) = &kept.surprise { p { (shown(surprise)) } }
            @if let Some(reason) = &kept.reason { p.note { "Chosen: " (shown(reason)) } }
            (ways(kept))
        }
    }
}

fn bar(name: &str, seconds: f64, longest: f64, class: &str) -> Markup {
    let percent = if seconds.is_finite() { (seconds / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
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
