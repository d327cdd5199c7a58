//! HTML report of a transfer: plan, progress, losses and the settings needed to repeat it.
//!
//! `record` extends the object of `send --json` by what the page needs, and `kept` reads such an
//! object. All pages are made from that object, so that a later page equals an immediate one.
//! `page` is the frame, `verdict` the summary with the prediction, `limiting` the diagnosis,
//! `course` and `track` the progress over time, `plan_picture` the plan over the switches, `losses`
//! the retransmissions, `lossy` the suspected cables, `settings` the way to repeat the run. `scale`
//! draws axes and lines, and `text` makes strings safe to show.

mod course;
mod kept;
mod limiting;
mod losses;
mod lossy;
mod page;
mod plan_picture;
mod record;
mod scale;
mod settings;
mod text;
mod track;
mod verdict;

use crate::args::ReportArgs;
use crate::exit::{Code, WithCode, report};
use crate::topo;
use crate::topology_file::read_text;
use kept::Kept;
pub use kept::object;
pub use record::{Circumstances, record};
use serde_json::Value;
use std::path::Path;

/// Runs `ethbcast report`.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 if FILE is no report of `send`, 4 if it cannot
/// be read or the page not be written.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let text = read_text(&args.file, "report")?;
    let name = if args.file == Path::new("-") { "stdin".into() } else { args.file.display().to_string() };
    let kept = object(&text).and_then(Kept::read).map_err(|why| format!("{name} {why}; {HELP}")).code(Code::Usage)?;
    let page = page::page(&kept);
    match &args.out {
        None => report(page.trim_end()),
        Some(path) => topo::write(path, &page),
    }
}

const HELP: &str = "make one with `ethbcast send --report run.json` or `--json`, and its page by the same version";

pub fn is_page(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    ending == "html" || ending == "htm"
}

#[derive(Debug)]
pub struct Limits {
    pub whole: String,
    /// Causes for the receivers, in their order, where they are known.
    pub receivers: Vec<Option<String>>,
}

pub fn limits(object: &Value) -> Option<Limits> {
    let kept = Kept::read(object.clone()).ok()?;
    let receivers = kept.receivers.iter().map(|receiver| limiting::of_receiver(&kept, receiver)).collect();
    Some(Limits { whole: limiting::part(&kept)?, receivers })
}

/// Renders the page of a report of `send`, or fails with exit code 4.
pub fn page_of(object: Value) -> anyhow::Result<String> {
    let kept = Kept::read(object).map_err(|why| format!("the report {why}")).code(Code::System)?;
    Ok(page::page(&kept))
}
