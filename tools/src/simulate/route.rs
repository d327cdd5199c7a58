//! The algorithms to be simulated.

use crate::args::SimulateArgs;
use crate::route::{read_plan, read_route};
use ethbcast_collectives::session::Route;
use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::SavedPlan;

/// The choice of `--via` or `--plan`.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Algorithms, one run each.
    pub all: Vec<Route>,
    /// Whether the runs are compared in a table.
    pub compared: bool,
}

impl Routes {
    /// Resolves the arguments.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2, or 4 if the plan file cannot be read.
    pub fn resolve(args: &SimulateArgs) -> anyhow::Result<Routes> {
        let one = |route| Ok(Routes { all: vec![route], compared: false });
        match (&args.plan, args.via.as_str()) {
            (Some(path), _) => one(Route::Saved(Box::new(read_plan(path)?))),
            (None, "all") => Ok(Routes { all: Via::ALL.iter().copied().map(Route::Via).collect(), compared: true }),
            (None, name) => one(read_route(name)?),
        }
    }

    /// Returns the saved plan, if there is one.
    pub fn saved(&self) -> Option<&SavedPlan> {
        self.all.iter().find_map(|route| if let Route::Saved(plan) = route { Some(&**plan) } else { None })
    }
}
