//! Settings needed to repeat a run.

use super::kept::{Kept, Run};
use super::text::{command_line, shown};
use crate::units;
use maud::{Markup, html};

pub fn section(kept: &Kept, run: &Run) -> Markup {
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
