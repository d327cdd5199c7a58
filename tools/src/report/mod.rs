//! The report of a transfer as a page to keep: plan, course, losses and settings, by which the run can be repeated.
//!
//! `record` adds to the object of `send --json` what the page needs beyond it, `kept` reads such an object again, and
//! everything else makes a page of that, so that a page made later says what one made at once does. `page` is the
//! frame, `verdict` the top (what became of it, predicted beside actual), `limiting` names what held it up, `course`
//! and `track` draw bytes against time, `plan_picture` the plan over the switches, `losses` what had to be sent again,
//! `lossy` over which cables, `settings` how to repeat it; `scale` has axes and lines, `text` what is safe to show.

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
/// A [`Failure`](crate::exit::Failure) with code 2 if FILE is no report of `send`, 4 if it cannot be read or the page
/// not be written.
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

/// What helps where a file is no report.
const HELP: &str = "make one with `ethbcast send --report run.json` or `--json`, and its page by the same version";

/// Whether a report is to be written to this file as a page.
pub fn is_page(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    ending == "html" || ending == "htm"
}

/// What limited a transfer.
#[derive(Debug)]
pub struct Limits {
    /// The whole, to be read after "limited by".
    pub whole: String,
    /// The receivers, in their order, as far as there is something to say of them.
    pub receivers: Vec<Option<String>>,
}

/// What limited the transfer of a report of `send`, if there were receivers.
pub fn limits(object: &Value) -> Option<Limits> {
    let kept = Kept::read(object.clone()).ok()?;
    let receivers = kept.receivers.iter().map(|receiver| limiting::of_receiver(&kept, receiver)).collect();
    Some(Limits { whole: limiting::part(&kept), receivers })
}

/// The page of a report of `send`.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 4, if it is none.
pub fn page_of(object: Value) -> anyhow::Result<String> {
    let kept = Kept::read(object).map_err(|why| format!("the report {why}")).code(Code::System)?;
    Ok(page::page(&kept))
}
