//! The page's frame: a self-contained file, in light and dark, for any window width.

use super::kept::Kept;
use super::{course, losses, plan_picture, settings, verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Content policy that forbids scripts and external resources, whatever a name or text contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");

pub fn page(kept: &Kept) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (verdict::title(kept)) " – ethbcast" }
                style { (PreEscaped(STYLE)) }
            }
            body { (body(kept)) }
        }
    };
    page.into_string() + "\n"
}

fn body(kept: &Kept) -> Markup {
    html! {
        (verdict::header(kept))
        main {
            (verdict::prediction(kept))
            @match &kept.run {
                None => {
                    p.note { "The report is of an earlier ethbcast, and says nothing of plan, course and settings." }
                }
                Some(run) => { (course::section(kept, run)) (plan_picture::section(run)) }
            }
            (losses::section(kept))
            (losses::receivers(kept))
            @if let Some(run) = &kept.run { (settings::section(kept, run)) }
        }
    }
}
