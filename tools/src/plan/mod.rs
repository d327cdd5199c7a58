//! `ethbcast plan`: shows which host sends to which, over which cables and in what time, before a
//! transfer. For a saved plan it shows the load on a topology's cables.
//!
//! `settings` resolves the arguments, `judged` is a plan with its prediction and the checker's
//! result, and `report` prints one plan or compares all.

mod judged;
mod report;
mod settings;

use crate::args::PlanArgs;
use crate::exit::{self, Code, WithCode};
use crate::topo;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use judged::Judged;
use settings::{PlanSettings, Ways};

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(args: PlanArgs) -> anyhow::Result<()> {
    let settings = PlanSettings::resolve(&args)?;
    if settings.ways == Ways::All {
        let plans = Judged::all(&settings)?;
        let text = if args.json { report::all_as_json(&settings, &plans) } else { report::table(&settings, &plans) };
        return exit::report(&text);
    }
    let judged = Judged::one(&settings)?;
    if let Some(path) = &args.out {
        topo::write(path, &saved(&settings, &judged).to_toml())?;
    }
    let text = match (args.json, args.drawing.dot || args.drawing.svg) {
        (true, _) => report::as_json(&settings, &judged).to_string(),
        (false, true) => topo::drawn(&settings.topology, &judged.overlay(&settings), args.drawing),
        (false, false) => report::as_text(&settings, &judged),
    };
    exit::report(text.trim_end())?;
    if let Some(saved) = settings.saved.as_ref().filter(|_| !args.allow_contention) {
        drop(saved.admit(&settings.topology, Contention::Refused).code(Code::Usage)?);
    }
    Ok(())
}

fn saved(settings: &PlanSettings, judged: &Judged) -> SavedPlan {
    let names: Vec<&str> = (0..judged.plan.ranks()).map(|rank| settings.name(rank)).collect();
    SavedPlan::from_plan(&judged.plan, &names, judged.estimate.segment_bytes, settings.size_bytes)
}
