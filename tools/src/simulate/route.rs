//! The algorithms to be simulated.

use crate::args::SimulateArgs;
use crate::route::{read_plan, read_route};
use ethbcast_collectives::session::Route;
use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::SavedPlan;

#[derive(Clone, Debug)]
pub struct Routes {
    pub all: Vec<Route>,
    pub compared: bool,
}

impl Routes {
    pub fn resolve(args: &SimulateArgs) -> anyhow::Result<Routes> {
        let one = |route| Ok(Routes { all: vec![route], compared: false });
        match (&args.plan, args.via.as_str()) {
            (Some(path), _) => one(Route::Saved(Box::new(read_plan(path)?))),
            (None, "all") => Ok(Routes { all: Via::ALL.iter().copied().map(Route::Via).collect(), compared: true }),
            (None, name) => one(read_route(name)?),
        }
    }

    pub fn saved(&self) -> Option<&SavedPlan> {
        self.all.iter().find_map(|route| if let Route::Saved(plan) = route { Some(&**plan) } else { None })
    }
}
