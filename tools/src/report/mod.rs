//! HTML report of a transfer (`--report`).
//!
//! All pages are made from the object of `send --json` (`kept`), so that a later page equals an
//! immediate one.

mod course;
mod diagnosis;
mod drawing;
mod kept;
mod lossy;
mod sections;

use crate::args::ReportArgs;
use crate::exit::{Code, WithCode, report};
use crate::inputs::read_text;
use crate::topo;
use ethbcast_bench::page::document;
use kept::Kept;
pub use kept::{Circumstances, object, record};
use maud::{Markup, html};
use serde_json::Value;
use std::path::Path;

pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let text = read_text(&args.file, "report")?;
    let name = if args.file == Path::new("-") {
        "stdin".into()
    } else {
        args.file.display().to_string()
    };
    let kept = object(&text)
        .and_then(Kept::read)
        .map_err(|why| format!("{name} {why}; {HELP}"))
        .code(Code::Usage)?;
    let page = page(&kept);
    match &args.out {
        None => report(page.trim_end()),
        Some(path) => topo::write(path, &page),
    }
}

const HELP: &str =
    "make one with `ethbcast send --report run.json` or `--json`, and its page by the same version";

pub fn is_page(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    ending == "html" || ending == "htm"
}

#[derive(Debug)]
pub struct Limits {
    pub whole: String,
    /// Causes for the receivers, in their order, where they are known.
    pub receivers: Vec<Option<String>>,
    pub others: Option<String>,
}

pub fn limits(object: &Value) -> Option<Limits> {
    let kept = Kept::read(object.clone()).ok()?;
    let receivers = kept
        .receivers
        .iter()
        .map(|receiver| diagnosis::of_receiver(&kept, receiver))
        .collect();
    let others = kept
        .run
        .as_ref()
        .and_then(|run| run.others.as_ref())
        .filter(|others| diagnosis::is_news(others));
    let others = others.map(diagnosis::in_words);
    Some(Limits {
        whole: diagnosis::part(&kept)?,
        receivers,
        others,
    })
}

/// Whether nothing at a host took the time.
pub fn is_of_network(object: &Value) -> bool {
    Kept::read(object.clone()).is_ok_and(|kept| diagnosis::is_of_network(&kept))
}

/// Renders the page of a report of `send`, or fails with exit code 4.
pub fn page_of(object: Value) -> anyhow::Result<String> {
    let kept = Kept::read(object)
        .map_err(|why| format!("the report {why}"))
        .code(Code::System)?;
    Ok(page(&kept))
}

const STYLE: &str = include_str!("style.css");

pub fn page(kept: &Kept) -> String {
    let title = format!("{} – ethbcast", sections::title(kept));
    document(&title, Some("light dark"), STYLE, &body(kept)) + "\n"
}

fn body(kept: &Kept) -> Markup {
    html! {
        (sections::header(kept))
        main {
            (sections::prediction(kept))
            @match &kept.run {
                None => {
                    p.note { "The report is of an earlier ethbcast, and says nothing of plan, course and settings." }
                }
                Some(run) => { (course::section(kept, run)) (drawing::section(run)) }
            }
            (sections::losses(kept))
            (sections::receivers(kept))
            @if let Some(run) = &kept.run { (sections::settings(kept, run)) }
        }
    }
}
