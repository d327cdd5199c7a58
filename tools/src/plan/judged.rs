//! A plan, what it is predicted to take, and what it does to the cables.

use super::settings::{Settings, Ways};
use crate::exit::{Code, WithCode, fail};
use ethbcast_planning::draw::Overlay;
use ethbcast_planning::model::{Estimate, choose, given, price};
use ethbcast_planning::plan::{self, CableLoad, CheckReport, Plan, Via};

/// A plan with all there is to say about it.
#[derive(Debug)]
pub struct Judged {
    /// The plan; of a message in blocks, its scatter.
    pub plan: Plan,
    /// Its price, and the segment that suits it.
    pub estimate: Estimate,
    /// What every direction of every cable carries, in whole messages, begun ones counted.
    pub report: CheckReport,
    /// Why it was chosen, if it was.
    pub reason: Option<String>,
    /// What it is, for its picture.
    pub title: String,
}

impl Judged {
    /// The plan that was asked for, or the best.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2.
    pub fn one(settings: &Settings) -> anyhow::Result<Judged> {
        let situation = settings.situation();
        if let Some(saved) = &settings.saved {
            let names: Vec<&str> = (0..settings.members.len()).map(|rank| settings.name(rank)).collect();
            let plan = saved.for_members(&names, saved.epoch()).code(Code::Usage)?;
            let mut choice = given(plan, Some(saved.segment_bytes()), &situation);
            return judge(settings, choice.plan, choice.candidates.swap_remove(0), None);
        }
        match settings.ways {
            Ways::One(via) => {
                let priced = price(via, &situation).code(Code::Usage)?;
                judge(settings, priced.plan, priced.estimate, None)
            }
            Ways::Auto | Ways::All => {
                let mut choice = choose(&situation).code(Code::Usage)?;
                judge(settings, choice.plan, choice.candidates.swap_remove(0), Some(choice.reason))
            }
        }
    }

    /// All ways, by rising predicted time; those that are not to be had for so many hosts are left out.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) if a plan does not reach everybody.
    pub fn all(settings: &Settings) -> anyhow::Result<Vec<Judged>> {
        let situation = settings.situation();
        let priced = Via::every().filter_map(|via| price(via, &situation).ok());
        let judged = priced.map(|priced| judge(settings, priced.plan, priced.estimate, None));
        let mut all = judged.collect::<anyhow::Result<Vec<Judged>>>()?;
        // Stable: equal ones stay in the order messages list them.
        all.sort_by(|left, right| left.estimate.predicted_seconds.total_cmp(&right.estimate.predicted_seconds));
        Ok(all)
    }

    /// What to draw over the topology.
    pub fn overlay<'a>(&'a self, settings: &'a Settings) -> Overlay<'a> {
        Overlay {
            title: &self.title,
            plan: Some(&self.plan),
            host_of_rank: &settings.members,
            loads: &self.report.loads,
        }
    }

    /// The busiest cable, by the checker's order; `None` where switches copy, or one host is all.
    pub fn worst(&self) -> Option<&CableLoad> {
        self.report.worst.as_ref()
    }

    /// The most messages on one direction of a cable: 1 where switches copy.
    pub fn worst_flows(&self) -> usize {
        self.worst().map_or(self.plan.degree().min(1), |worst| worst.flows)
    }
}

/// Asks the checker, which shares no code with the planners.
fn judge(settings: &Settings, plan: Plan, estimate: Estimate, reason: Option<String>) -> anyhow::Result<Judged> {
    let report = plan::check_message(&settings.topology, &plan, &settings.members);
    if !report.is_spanning() {
        let text =
            format!("the {} plan is not sound ({report}); please report this with the topology file", plan.via());
        return fail(Code::System, text);
    }
    let others = plan.ranks() - 1;
    let title = format!("{} from {} to {others} others on {}", plan.via(), settings.name(plan.root()), settings.name);
    Ok(Judged { plan, estimate, report, reason, title })
}
