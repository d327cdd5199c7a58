//! Which cables lost frames, by what each receiver said of how its frames came.

use super::kept::{Kept, Receiver, Run};
use super::plan_picture::network;
use super::text::shown;
use ethbcast_planning::plan::{CableEnd, LossyCables, Passage, Via, lossy_cables};
use std::collections::{HashMap, HashSet};

/// Less than this is one of a cable's bad moments.
const LEAST_LOSS: f64 = 0.001;
/// More cables that cannot be told apart are not listed.
const MOST_NAMED: usize = 3;

/// Cables of which one or more lost frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspects {
    /// What they are called, to be read in a sentence.
    pub name: String,
    /// What part of the frames was lost.
    pub loss: f64,
    /// How many frames that were.
    pub lost: u64,
}

/// The cables that lost frames, those that lost most first.
pub fn suspects(kept: &Kept) -> Vec<Suspects> {
    kept.run.as_ref().and_then(|run| found(kept, run)).unwrap_or_default()
}

fn found(kept: &Kept, run: &Run) -> Option<Vec<Suspects>> {
    let record = run.plan.as_ref()?;
    // Blocks come to a host from several others, and after another way was taken the plan is not what went.
    let via: Via = record.via.parse().ok()?;
    if via.is_in_blocks() || kept.rerouted {
        return None;
    }
    let (topology, hosts) = network(run, record)?;
    let by_name: HashMap<&str, usize> = record.hosts.iter().map(String::as_str).zip(hosts.iter().copied()).collect();
    // Who was served by somebody else meanwhile says nothing of the way that was planned for it.
    let failed: HashSet<&str> = kept.failed().map(|one| one.host.as_str()).collect();
    let moved = |host: &str| failed.contains(host) || run.aside.iter().any(|aside| aside == host);
    let heard: HashMap<&str, &Receiver> = kept.receivers.iter().map(|one| (one.host.as_str(), one)).collect();
    let passages: Vec<Passage> = record
        .edges
        .iter()
        .filter(|edge| !moved(&edge.from) && !moved(&edge.to))
        .filter_map(|edge| {
            let receiver = heard.get(edge.to.as_str())?;
            let (from, to) = (*by_name.get(edge.from.as_str())?, *by_name.get(edge.to.as_str())?);
            Some(Passage { from, to, frames: receiver.frames?, lost: receiver.repaired_frames? })
        })
        .collect();
    let named = run.topology.is_some();
    let lossy = lossy_cables(&topology, &passages, LEAST_LOSS);
    Some(lossy.iter().map(|one| Suspects { name: name(one, named), loss: one.loss, lost: one.lost }).collect())
}

/// Cables by their ends; without a topology the switches are nobody's.
fn name(lossy: &LossyCables, named: bool) -> String {
    let cable = |(one, other): &(CableEnd, CableEnd)| match named {
        true => format!("{}–{}", shown(one.name()), shown(other.name())),
        false => shown(one.name()),
    };
    let cables: Vec<String> = lossy.cables.iter().take(MOST_NAMED).map(cable).collect();
    let more = lossy.cables.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" or {more} more") } else { String::new() };
    let of = if named { "cable " } else { "the cable of " };
    format!("{of}{}{more}", cables.join(" or "))
}

/// What part of a receiver's frames had been lost before, if it said so.
pub fn loss_of(receiver: &Receiver) -> Option<f64> {
    let (frames, repaired) = (receiver.frames?, receiver.repaired_frames?);
    (frames > 0 && repaired <= frames).then(|| repaired as f64 / frames as f64)
}

#[cfg(test)]
mod tests {
    use super::super::kept::{Edge, PlanRecord};
    use super::*;

    /// A chain n0, n1, n2, n3 over two switches, whose receivers lost so many of a thousand frames.
    fn kept(lost: [u64; 3], topology: bool) -> Kept {
        let host = |rank: usize| format!("n{rank}");
        let receiver = |(at, &lost): (usize, &u64)| Receiver {
            host: host(at + 1),
            status: "verified".to_owned(),
            frames: Some(1000),
            repaired_frames: Some(lost),
            ..Receiver::default()
        };
        let edges = (0..3).map(|at| Edge { from: host(at), to: host(at + 1) }).collect();
        let plan = PlanRecord { via: "chain".to_owned(), hosts: (0..4).map(host).collect(), edges };
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
                    \"s1\"\nhosts = \"n[2-3]\"\n";
        let run = Run { plan: Some(plan), topology: topology.then(|| text.to_owned()), ..Run::default() };
        Kept { receivers: lost.iter().enumerate().map(receiver).collect(), run: Some(run), ..Kept::default() }
    }

    fn names(kept: &Kept) -> Vec<String> {
        suspects(kept).into_iter().map(|one| format!("{} {:.3}", one.name, one.loss)).collect()
    }

    #[test]
    fn the_cable_that_lost_frames_is_named_as_the_topology_names_it_or_by_its_host() {
        assert_eq!(names(&kept([0, 20, 20], true)), ["cable n2–s1 0.020"]);
        assert_eq!(names(&kept([0, 20, 20], false)), ["the cable of n2 0.020"]);
        assert_eq!(names(&kept([0, 20, 0], true)), ["cable n1–s0 or n2–s1 or s1–s0 0.020"]);
        assert_eq!(names(&kept([0, 20, 0], false)), ["the cable of n1 or n2 0.020"]);
        assert_eq!(names(&kept([0, 0, 0], true)), Vec::<String>::new());
    }

    #[test]
    fn who_was_served_by_another_or_says_nothing_speaks_for_no_cable() {
        let mut dead = kept([0, 20, 20], true);
        dead.receivers[1].status = "died".to_owned();
        assert_eq!(names(&dead), Vec::<String>::new());
        let mut silent = kept([0, 20, 20], true);
        silent.receivers.iter_mut().for_each(|one| one.repaired_frames = None);
        assert_eq!(names(&silent), Vec::<String>::new());
        let rerouted = Kept { rerouted: true, ..kept([0, 20, 20], true) };
        assert_eq!(names(&rerouted), Vec::<String>::new());
    }
}
