//! Retransmissions by hop, and the figures of each receiver.

use super::kept::{Damaged, Kept, Receiver};
use super::lossy::{loss_of, suspects};
use super::text::{rate, shown, time};
use crate::units;
use ethbcast_planning::topology::nodeset;
use maud::{Markup, html};
use std::collections::BTreeMap;

const MAX_HOPS: usize = 50;

pub fn section(kept: &Kept) -> Markup {
    let frames = kept.frames;
    let root = kept.run.as_ref().map_or_else(|| "The sender".to_owned(), |run| shown(&run.root));
    let part = frames.data_resent as f64 / (frames.data_sent + frames.data_resent).max(1) as f64 * 100.0;
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
    let Receiver { host, rank, status, bytes, seconds, reason, repaired_frames, .. } = receiver;
    let ok = Kept::has_all(receiver);
    let repairs = loss_of(receiver).and(*repaired_frames).map_or("-".to_owned(), |count| count.to_string());
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
