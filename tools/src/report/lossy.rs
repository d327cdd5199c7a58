//! Localisation of lossy cables for the report, from the losses of the receivers behind them.

use super::drawing::{network, shown};
use super::kept::{Kept, Receiver, Run};
use ethbcast_planning::plan::{CableEnd, LossyCables, Passage, Via, lossy_cables};
use std::collections::{HashMap, HashSet};

const MIN_LOSS: f64 = 0.001;
/// Limit on cables that cannot be distinguished; beyond it none is named.
const MAX_NAMED: usize = 3;

/// Maximum factor between the losses of receivers with similar losses, and their minimum number.
const ALIKE: f64 = 2.0;
const MIN_ALIKE: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Suspects {
    pub name: String,
    pub loss: f64,
    pub lost: u64,
}

pub fn suspects(kept: &Kept) -> Vec<Suspects> {
    kept.run
        .as_ref()
        .and_then(|run| found(kept, run))
        .unwrap_or_default()
}

fn found(kept: &Kept, run: &Run) -> Option<Vec<Suspects>> {
    let record = run.plan.as_ref()?;
    // In block-wise algorithms, data comes from several hosts; after a fallback, the recorded plan
    // is not the actual one.
    let via: Via = record.via.parse().ok()?;
    if via.is_in_blocks() || kept.rerouted {
        return None;
    }
    let (topology, hosts) = network(run, record)?;
    let by_name: HashMap<&str, usize> = record
        .hosts
        .iter()
        .map(String::as_str)
        .zip(hosts.iter().copied())
        .collect();
    // Failed receivers and those on the catch-up stream were not served as planned.
    let failed: HashSet<&str> = kept.failed().map(|one| one.host.as_str()).collect();
    let moved =
        |host: &str| failed.contains(host) || run.demoted.iter().any(|demoted| demoted == host);
    let heard: HashMap<&str, &Receiver> = kept
        .receivers
        .iter()
        .map(|one| (one.host.as_str(), one))
        .collect();
    let passages: Vec<Passage> = record
        .edges
        .iter()
        .filter(|edge| !moved(&edge.from) && !moved(&edge.to))
        .filter_map(|edge| {
            let receiver = heard.get(edge.to.as_str())?;
            let (from, to) = (
                *by_name.get(edge.from.as_str())?,
                *by_name.get(edge.to.as_str())?,
            );
            Some(Passage {
                from,
                to,
                frames: receiver.frames?,
                lost: receiver.repaired_frames?,
            })
        })
        .collect();
    let named = run.topology.is_some();
    let lossy = lossy_cables(&topology, &passages, MIN_LOSS);
    if let Some(all) = alike(&passages) {
        return Some(vec![match &lossy[..] {
            // All frames crossed this one too, such as the root's cable in a cast.
            [shared] => Suspects {
                name: format!("{}, or {}", name(shared, named), all.name),
                ..all
            },
            _ => all,
        }]);
    }
    Some(
        lossy
            .iter()
            .map(|one| Suspects {
                name: name(one, named),
                loss: one.loss,
                lost: one.lost,
            })
            .collect(),
    )
}

/// Returns the loss of all together if every receiver lost about as much: no cable is the cause.
fn alike(passages: &[Passage]) -> Option<Suspects> {
    let loss = |one: &Passage| one.lost as f64 / one.frames.max(1) as f64;
    let (most, least) = (
        passages.iter().map(loss).reduce(f64::max)?,
        passages.iter().map(loss).reduce(f64::min)?,
    );
    let (frames, lost) = passages
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.frames, sum.1 + one.lost));
    let is_alike = passages.len() >= MIN_ALIKE && least >= MIN_LOSS && most <= least * ALIKE;
    is_alike.then(|| Suspects {
        name: "every cable alike".to_owned(),
        loss: lost as f64 / frames as f64,
        lost,
    })
}

fn name(lossy: &LossyCables, named: bool) -> String {
    let cable = |(one, other): &(CableEnd, CableEnd)| match named {
        true => format!("{}–{}", shown(one.name()), shown(other.name())),
        false => shown(one.name()),
    };
    let cables: Vec<String> = lossy.cables.iter().take(MAX_NAMED).map(cable).collect();
    let more = lossy.cables.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 {
        format!(" or {more} more")
    } else {
        String::new()
    };
    let of = if named { "cable " } else { "the cable of " };
    format!("{of}{}{more}", cables.join(" or "))
}

/// Returns the fraction of a receiver's frames that had been lost before, if it reported them.
pub fn loss_of(receiver: &Receiver) -> Option<f64> {
    let (frames, repaired) = (receiver.frames?, receiver.repaired_frames?);
    (frames > 0 && repaired <= frames).then(|| repaired as f64 / frames as f64)
}

#[cfg(test)]
mod tests {
    use super::super::kept::{Edge, PlanRecord};
    use super::*;

    /// Creates a report of the chain n0, n1, n2, n3 over two switches, whose receivers lost these
    /// numbers of 1000 frames.
    fn kept(lost: [u64; 3], topology: bool) -> Kept {
        let host = |rank: usize| format!("n{rank}");
        let receiver = |(at, &lost): (usize, &u64)| Receiver {
            host: host(at + 1),
            status: "verified".to_owned(),
            frames: Some(1000),
            repaired_frames: Some(lost),
            ..Receiver::default()
        };
        let edges = (0..3)
            .map(|at| Edge {
                from: host(at),
                to: host(at + 1),
                half: 0,
            })
            .collect();
        let plan = PlanRecord {
            via: "chain".to_owned(),
            hosts: (0..4).map(host).collect(),
            edges,
        };
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
                    \"s1\"\nhosts = \"n[2-3]\"\n";
        let run = Run {
            plan: Some(plan),
            topology: topology.then(|| text.to_owned()),
            ..Run::default()
        };
        Kept {
            receivers: lost.iter().enumerate().map(receiver).collect(),
            run: Some(run),
            ..Kept::default()
        }
    }

    fn names(kept: &Kept) -> Vec<String> {
        suspects(kept)
            .into_iter()
            .map(|one| format!("{} {:.3}", one.name, one.loss))
            .collect()
    }

    #[test]
    fn the_cable_that_lost_frames_is_named_as_the_topology_names_it_or_by_its_host() {
        assert_eq!(names(&kept([0, 20, 20], true)), ["cable n2–s1 0.020"]);
        assert_eq!(names(&kept([0, 20, 20], false)), ["the cable of n2 0.020"]);
        assert_eq!(
            names(&kept([0, 20, 0], true)),
            ["cable n1–s0 or n2–s1 or s1–s0 0.020"]
        );
        assert_eq!(
            names(&kept([0, 20, 0], false)),
            ["the cable of n1 or n2 0.020"]
        );
        assert_eq!(names(&kept([0, 0, 0], true)), Vec::<String>::new());
        assert_eq!(
            names(&kept([18, 20, 22], false)),
            ["every cable alike 0.020"]
        );
        assert!(!names(&kept([18, 20, 60], true))[0].contains("alike"));
    }

    #[test]
    fn receivers_served_by_others_or_without_counts_are_no_evidence_about_a_cable() {
        let mut dead = kept([0, 20, 20], true);
        dead.receivers[1].status = "died".to_owned();
        assert_eq!(names(&dead), Vec::<String>::new());
        let mut silent = kept([0, 20, 20], true);
        silent
            .receivers
            .iter_mut()
            .for_each(|one| one.repaired_frames = None);
        assert_eq!(names(&silent), Vec::<String>::new());
        let rerouted = Kept {
            rerouted: true,
            ..kept([0, 20, 20], true)
        };
        assert_eq!(names(&rerouted), Vec::<String>::new());
    }
}
