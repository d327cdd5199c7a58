//! Picture in the HTML report: the broadcast tree over the switches, with the load of the cables.

use super::kept::{Kept, PlanRecord, Receiver, Run};
use ethbcast_planning::draw::{self, Overlay};
use ethbcast_planning::plan::{self, CableEnd, CheckReport, Plan, Via};
use ethbcast_planning::topology::Topology;
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;

/// Number of hosts above which the drawing is too large to be useful.
const MAX_HOSTS: usize = 400;

struct Drawn {
    topology: Topology,
    plan: Plan,
    hosts: Vec<usize>,
    judged: CheckReport,
}

impl Drawn {
    fn of(run: &Run) -> Option<Drawn> {
        let record = run.plan.as_ref()?;
        let (topology, hosts) = network(run, record)?;
        let plan = tree(record)?;
        let judged = plan::check_message(&topology, &plan, &hosts);
        judged.is_spanning().then_some(Drawn { topology, plan, hosts, judged })
    }
}

pub fn network(run: &Run, record: &PlanRecord) -> Option<(Topology, Vec<usize>)> {
    let Some(text) = &run.topology else {
        return Some((one_switch(&record.hosts)?, (0..record.hosts.len()).collect()));
    };
    let topology = Topology::parse(text, "the report").ok()?;
    let hosts = record.hosts.iter().map(|host| topology.host_named(host)).collect::<Option<_>>()?;
    Some((topology, hosts))
}

fn one_switch(names: &[String]) -> Option<Topology> {
    let by_rank = || (0..names.len()).map(|rank| format!("rank{rank}"));
    Topology::single_switch(names.iter().cloned()).or_else(|_| Topology::single_switch(by_rank())).ok()
}

fn tree(record: &PlanRecord) -> Option<Plan> {
    let via: Via = record.via.parse().ok()?;
    let ranks: HashMap<&str, usize> =
        record.hosts.iter().enumerate().map(|(rank, host)| (host.as_str(), rank)).collect();
    let tree = |half: usize| {
        let mut children = vec![Vec::new(); record.hosts.len()];
        for edge in record.edges.iter().filter(|edge| edge.half == half) {
            children[*ranks.get(edge.from.as_str())?].push(*ranks.get(edge.to.as_str())?);
        }
        Plan::from_children(via, 0, &children).ok()
    };
    if via == Via::TwoTree { tree(0)?.paired(tree(1)?).ok() } else { tree(0) }
}

/// Returns the cable with most copies of the bytes by the plan, and how many it carried.
pub fn worst_cable(kept: &Kept) -> Option<(String, f64)> {
    let run = kept.run.as_ref()?;
    let drawn = Drawn::of(run)?;
    let carried = carried(kept, &run.plan.as_ref()?.hosts, &drawn.plan);
    let (worst, edges) = (drawn.judged.worst?, drawn.judged.worst_edges);
    let share = edges.iter().map(|&(_, to)| carried[to]).sum::<f64>() / edges.len().max(1) as f64;
    // Without a topology switches have no names.
    let from = match run.topology {
        Some(_) => format!("{} to {}", worst.from, worst.to),
        None => {
            let host = if matches!(worst.from, CableEnd::Host(_)) { &worst.from } else { &worst.to };
            format!("the cable of {}", host.name())
        }
    };
    Some((from, worst.flows as f64 * share))
}

/// Returns the part of the bytes that came to each rank: less than all to a receiver that failed, unless one behind it
/// has more.
fn carried(kept: &Kept, hosts: &[String], plan: &Plan) -> Vec<f64> {
    let part = |one: &Receiver| (one.bytes as f64 / kept.bytes.max(1) as f64).min(1.0);
    let failed: HashMap<&str, f64> = kept.failed().map(|one| (one.host.as_str(), part(one))).collect();
    let mut carried: Vec<f64> = hosts.iter().map(|host| failed.get(host.as_str()).map_or(1.0, |&part| part)).collect();
    for tree in plan.trees() {
        for rank in 0..carried.len() {
            let (mut at, part) = (rank, carried[rank]);
            while let Some(parent) = tree.parent(at).filter(|&parent| carried[parent] < part) {
                carried[parent] = part;
                at = parent;
            }
        }
    }
    carried
}

pub fn section(run: &Run) -> Markup {
    let Some(drawn) = Drawn::of(run) else { return html! {} };
    let ranks = drawn.plan.ranks();
    let title = format!("{} from {} to {} others", drawn.plan.via(), drawn.topology.hosts()[drawn.hosts[0]], ranks - 1);
    let loads = &drawn.judged.loads;
    let overlay = Overlay { title: &title, plan: Some(&drawn.plan), host_of_rank: &drawn.hosts, loads };
    html! {
        section {
            h2 { "The plan over the switches" }
            p.note {
                @if run.topology.is_none() { "No topology was named: all hosts are drawn on one switch. " }
                "What each cable carries is by the plan, in copies of the bytes."
            }
            @if ranks > MAX_HOSTS {
                p { (title) ": too many hosts to draw; `ethbcast plan --svg` draws it." }
            } @else {
                div.plan {
                    div.wide { (PreEscaped(draw::svg_in_page(&drawn.topology, &overlay))) }
                    ul.legend {
                        @for (sign, text) in draw::svg_legend(&drawn.topology, &overlay) {
                            li { (PreEscaped(sign)) span { (text) } }
                        }
                    }
                }
            }
        }
    }
}
