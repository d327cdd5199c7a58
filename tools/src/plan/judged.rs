//! A plan with its predicted duration and its load on the cables.

use super::settings::{PlanSettings, Ways};
use crate::exit::{Code, WithCode, fail};
use ethbcast_planning::draw::Overlay;
use ethbcast_planning::model::{Estimate, choose, given, price};
use ethbcast_planning::plan::{self, CableLoad, CheckReport, Plan, Via};

#[derive(Debug)]
pub struct Judged {
    /// The plan; for a message in blocks, the plan of its scatter.
    pub plan: Plan,
    /// Predicted duration, and the best segment size.
    pub estimate: Estimate,
    /// Number of messages on each direction of each cable, rounded up.
    pub report: CheckReport,
    /// Reason for its choice, if it was chosen.
    pub reason: Option<String>,
    /// Title of its drawing.
    pub title: String,
}

impl Judged {
    /// Returns the requested plan, or the best one.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2.
    pub fn one(settings: &PlanSettings) -> anyhow::Result<Judged> {
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

    /// Returns all algorithms by ascending predicted time, without those impossible for this number
    /// of hosts.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) if a plan does not reach everybody.
    pub fn all(settings: &PlanSettings) -> anyhow::Result<Vec<Judged>> {
        let situation = settings.situation();
        let priced = Via::every().filter_map(|via| price(via, &situation).ok());
        let judged = priced.map(|priced| judge(settings, priced.plan, priced.estimate, None));
        let mut all = judged.collect::<anyhow::Result<Vec<Judged>>>()?;
        // A stable sort keeps equal ones in their documented order.
        all.sort_by(|left, right| left.estimate.predicted_seconds.total_cmp(&right.estimate.predicted_seconds));
        Ok(all)
    }

    /// Returns the overlay for the drawing of the topology.
    pub fn overlay<'a>(&'a self, settings: &'a PlanSettings) -> Overlay<'a> {
        Overlay {
            title: &self.title,
            plan: Some(&self.plan),
            host_of_rank: &settings.members,
            loads: &self.report.loads,
        }
    }

    /// Returns the busiest cable in the checker's order; `None` where switches copy frames, or for
    /// a single host.
    pub fn worst(&self) -> Option<&CableLoad> {
        self.report.worst.as_ref()
    }

    /// Returns the maximum number of messages on a direction of a cable: 1 where switches copy
    /// frames.
    pub fn worst_flows(&self) -> usize {
        self.worst().map_or(self.plan.degree().min(1), |worst| worst.flows)
    }
}

/// Checks a plan with the independent checker, which shares no code with the planners.
fn judge(settings: &PlanSettings, plan: Plan, estimate: Estimate, reason: Option<String>) -> anyhow::Result<Judged> {
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
