//! Interpretation of the arguments of `ethbcast plan`. Each resulting plan comes with its predicted
//! time and the checker's result.

use crate::args::PlanArgs;
use crate::exit::{Code, WithCode, fail};
use crate::inputs::{find_root, read_calibration_for, read_plan, read_topology};
use crate::session::check_mtu;
use ethbcast_planning::draw::Overlay;
use ethbcast_planning::model::{Calibration, Estimate, MAX_ATOMIC_SEGMENT_FRAMES, Situation, choose, given, price};
use ethbcast_planning::plan;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::plan::{CableLoad, CheckReport, Plan, UnknownVia, Via};
use ethbcast_planning::topology::{ASSUMED_RATE_BITS_PER_SECOND, Topology};
use ethbcast_transport::wire::HEADER_BYTES;

/// Part of a full frame's time below which an injection time is refused; measurements differ.
const MIN_FRAME_PART: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// The one with the least predicted time.
    Auto,
    All,
    One(Via),
}

#[derive(Debug)]
pub struct PlanSettings {
    pub name: String,
    pub topology: Topology,
    /// Topology index of each rank's host: the root first, then the others in order.
    pub members: Vec<usize>,
    pub size_bytes: Option<u64>,
    pub frame_payload_bytes: u64,
    pub calibration: Calibration,
    pub is_measured: bool,
    /// Assumed rate of cables without one, in bits per second, for a calibration that was not
    /// measured.
    pub assumed_rate: u64,
    pub ways: Ways,
    pub saved: Option<SavedPlan>,
}

impl PlanSettings {
    pub fn resolve(args: &PlanArgs) -> anyhow::Result<PlanSettings> {
        let ways = read_ways(&args.via)?;
        if ways == Ways::All && (args.drawing.dot || args.drawing.svg || args.out.is_some()) {
            return fail(
                Code::Usage,
                "--dot, --svg and --out are about one plan: choose it with --via, such as --via chain",
            );
        }
        check_mtu(args.mtu)?;
        let frame_payload_bytes = u64::from(args.mtu) - HEADER_BYTES as u64;
        let name = args.topology.display().to_string();
        let topology = read_topology(&args.topology)?;
        let calibration = |path| read_calibration_for(path, Some(&topology));
        let measured = args.calibration.as_deref().map(calibration).transpose()?;
        let assumed_rate = topology.fastest_host_rate().unwrap_or(ASSUMED_RATE_BITS_PER_SECOND);
        let calibration = measured.clone().unwrap_or_else(|| Calibration::assumed(assumed_rate, frame_payload_bytes));
        check_injection(&topology, &name, calibration.gap_ns(frame_payload_bytes))?;
        let saved = args.check.as_deref().map(read_plan).transpose()?;
        let members = match (&saved, &args.root) {
            (Some(plan), _) => members_of(&topology, plan, frame_payload_bytes)?,
            (None, root) => members(&topology, &name, root.as_deref().unwrap_or_default())?,
        };
        Ok(PlanSettings {
            name,
            topology,
            members,
            size_bytes: args.size.or(saved.as_ref().and_then(SavedPlan::size_bytes)),
            frame_payload_bytes,
            is_measured: measured.is_some(),
            calibration,
            assumed_rate,
            ways,
            saved,
        })
    }

    pub fn situation(&self) -> Situation<'_> {
        Situation {
            topology: &self.topology,
            root_host: self.members[0],
            members: &self.members,
            size_bytes: self.size_bytes,
            frame_payload_bytes: self.frame_payload_bytes,
            calibration: &self.calibration,
        }
    }

    pub fn name(&self, rank: usize) -> &str {
        &self.topology.hosts()[self.members[rank]]
    }
}

/// Refuses a host that sends full frames faster than its cable carries them.
fn check_injection(topology: &Topology, name: &str, frame_ns: f64) -> anyhow::Result<()> {
    let given = |at: usize| Some((at, topology.injection_ns(at)?));
    let too_short = |&(_, nanos): &(usize, u64)| (nanos as f64) < frame_ns * MIN_FRAME_PART;
    let Some((at, nanos)) = (0..topology.hosts().len()).filter_map(given).find(too_short) else { return Ok(()) };
    let host = &topology.hosts()[at];
    fail(
        Code::Usage,
        format!(
            "{name}: injection_ns {nanos} of host {host} is less than the {frame_ns:.0} ns that a full frame takes on \
             its cable; give at least that, or leave it out"
        ),
    )
}

fn read_ways(via: &str) -> anyhow::Result<Ways> {
    match via {
        "auto" => Ok(Ways::Auto),
        "all" => Ok(Ways::All),
        name => match name.parse::<Via>() {
            Ok(via) => Ok(Ways::One(via)),
            Err(error @ UnknownVia::Name(_)) => fail(Code::Usage, format!("{error}, auto, all")),
            Err(error) => fail(Code::Usage, error),
        },
    }
}

fn members_of(topology: &Topology, plan: &SavedPlan, frame_payload_bytes: u64) -> anyhow::Result<Vec<usize>> {
    plan.check_segment(frame_payload_bytes * MAX_ATOMIC_SEGMENT_FRAMES).code(Code::Usage)?;
    // Checked first: the topology must contain all hosts.
    drop(plan.admit(topology, Contention::Allowed).code(Code::Usage)?);
    let others = plan.members().iter().map(String::as_str).filter(|name| *name != plan.root());
    Ok(std::iter::once(plan.root()).chain(others).filter_map(|name| topology.host_named(name)).collect())
}

fn members(topology: &Topology, name: &str, root: &str) -> anyhow::Result<Vec<usize>> {
    let root = find_root(topology, name, root)?;
    let others = (0..topology.hosts().len()).filter(|&host| host != root);
    Ok(std::iter::once(root).chain(others).collect())
}

#[derive(Debug)]
pub struct Judged {
    /// The plan; for a message in blocks, the plan of its scatter.
    pub plan: Plan,
    pub estimate: Estimate,
    /// Number of messages on each direction of each cable, rounded up.
    pub report: CheckReport,
    pub reason: Option<String>,
    pub title: String,
}

impl Judged {
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
    pub fn all(settings: &PlanSettings) -> anyhow::Result<Vec<Judged>> {
        let situation = settings.situation();
        let priced = Via::every().filter_map(|via| price(via, &situation).ok());
        let judged = priced.map(|priced| judge(settings, priced.plan, priced.estimate, None));
        let mut all = judged.collect::<anyhow::Result<Vec<Judged>>>()?;
        // A stable sort keeps equal ones in their documented order.
        all.sort_by(|left, right| left.estimate.predicted_seconds.total_cmp(&right.estimate.predicted_seconds));
        Ok(all)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_rank_0_and_the_others_follow_in_order() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        let ranks = members(&bed, "fig9-1", "n3").expect("a host");
        assert_eq!((&ranks[..5], ranks.len()), ([3, 0, 1, 2, 4].as_slice(), 16));
        let error = members(&bed, "fig9-1", "n16").expect_err("no host").to_string();
        assert_eq!(error, "the topology (fig9-1) has no host n16, only n[0-15]: choose one of them with --root");
    }

    #[test]
    fn ways_are_those_of_send_and_all() {
        assert_eq!(read_ways("kary=4").expect("a way"), Ways::One(Via::Kary(4)));
        assert_eq!(read_ways("all").expect("all ways"), Ways::All);
        assert!(read_ways("chains").expect_err("none").to_string().ends_with("two-tree, binary-best, auto, all"));
        assert!(read_ways("kary").expect_err("none").to_string().ends_with("use for example kary=3"));
    }
}
