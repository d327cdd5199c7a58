//! Diagnosis of what limited a transfer, most certain cause first, and of the cables that lost frames.

use super::drawing::{shown, time};
use super::kept::{Kept, Receiver, Run};
use super::plan_picture;
use super::plan_picture::network;
use ethbcast_planning::plan::{CableEnd, LossyCables, Passage, Via, lossy_cables};
use ethbcast_planning::topology::nodeset;
use std::collections::{HashMap, HashSet};

/// Fraction of retransmitted frames above which loss is a cause.
const MUCH_LOSS: f64 = 0.01;

/// Excess over the prediction, as a fraction, that the plan still explains.
const AS_PREDICTED: f64 = 0.1;

/// Multiple of the prediction above which no cable of the plan is the cause.
const MUCH_LONGER: f64 = 1.5;

/// Fraction of the time above which a host's activity is the cause.
const MUCH_TIME: f64 = 0.5;

/// Fraction of the time without interface or link above which that is the cause.
const MUCH_CUT_OFF: f64 = 0.1;

/// Fraction of the time by which the last receiver ends after all others, above which it is the cause.
const MUCH_LATER: f64 = 0.25;

/// Limit below which there are too few samples for a diagnosis.
const MIN_MOMENTS: usize = 4;

/// Returns the cause in words that follow "limited by".
pub fn part(kept: &Kept) -> String {
    if kept.failed().count() == kept.receivers.len() {
        return "nothing that was seen: no receiver has all of it".to_owned();
    }
    let is_as_predicted = kept.predicted_seconds.is_some_and(|seconds| kept.seconds <= seconds * (1.0 + AS_PREDICTED));
    if let Some(own) = of_the_own_interface(kept) {
        return own;
    }
    let seen = if is_as_predicted { of_the_network(kept) } else { of_the_network(kept).or_else(|| of_hosts(kept)) };
    seen.unwrap_or_else(|| by_the_plan(kept))
}

/// Returns the receiver that ended long after all others, and how long.
fn straggler(kept: &Kept) -> Option<(&Receiver, f64)> {
    let mut all: Vec<&Receiver> = kept.receivers.iter().filter(|one| Kept::has_all(one)).collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let later = all.first()?.seconds - all.get(1)?.seconds;
    (later > kept.seconds * MUCH_LATER).then_some((all[0], later))
}

fn of_the_network(kept: &Kept) -> Option<String> {
    if kept.rerouted {
        return Some(format!("switches that threw away what was sent to all: it went on via {}", shown(&kept.via)));
    }
    let cable = kept.contention.as_ref()?.first()?;
    let (from, to) = (shown(&cable.from), shown(&cable.to));
    Some(format!("the cable {from}–{to}, over which the plan has {} hosts send at a time", cable.senders))
}

/// Returns the root's interface, if it was down for much of the time.
fn of_the_own_interface(kept: &Kept) -> Option<String> {
    let run = kept.run.as_ref().filter(|run| run.cut_off_seconds > kept.seconds * MUCH_CUT_OFF)?;
    Some(format!(
        "the interface {} of {} itself, which was away or had no link for {:.1} s",
        shown(&run.interface),
        shown(&run.root),
        run.cut_off_seconds
    ))
}

fn of_hosts(kept: &Kept) -> Option<String> {
    if let Some((last, later)) = straggler(kept) {
        return Some(format!("{}, which ended {} after all others", shown(&last.host), time(later)));
    }
    let failed: Vec<&str> = kept.failed().map(|one| one.host.as_str()).collect();
    if !failed.is_empty() {
        return Some(format!("{}: failed on the way, and the others waited for it", shown(&nodeset::fold(&failed))));
    }
    let run = kept.run.as_ref()?;
    if let Some(apart) = run.timeline.incidents.iter().find(|incident| incident.kind == "apart") {
        let pair = shown(&apart.hosts.join(" and "));
        return Some(format!("the way between {pair}, who do not hear each other: both were served beside the others"));
    }
    if !run.aside.is_empty() {
        return Some(format!("{}, served beside the others from then on", shown(&nodeset::fold(&run.aside))));
    }
    if let Some(worst) = suspects(kept).first().filter(|worst| worst.loss > MUCH_LOSS) {
        return Some(format!("{} (loss {:.1} %)", worst.name, worst.loss * 100.0));
    }
    let lost = kept.frames.data_resent as f64 / kept.frames.data_sent.max(1) as f64;
    if lost > MUCH_LOSS {
        return Some(format!("loss: {} sent {:.1} % of its frames again", shown(&run.root), lost * 100.0));
    }
    let slow = run.held_up_by.as_ref();
    slow.map(|host| format!("{}, which took frames more slowly than they came", shown(host)))
}

fn by_the_plan(kept: &Kept) -> String {
    // In a delta transfer the cables are idle while hosts look up and verify their data.
    if kept.sent_bytes.is_some_and(|bytes| bytes < kept.bytes / 2) {
        return "the hosts, which looked for what they have and checked it: little was sent".to_owned();
    }
    let slow = kept.run.as_ref().and_then(|run| run.slow_cable.as_ref());
    if let Some(cable) = slow {
        return format!("{}, slower than the others by the topology", shown(cable));
    }
    // Where nothing was predicted, links may be far from what they carry.
    let Some(predicted) = kept.predicted_seconds else { return "nothing that was seen".to_owned() };
    let times = kept.seconds / predicted.max(f64::MIN_POSITIVE);
    let worst = kept.run.as_ref().and_then(plan_picture::worst_cable);
    match worst {
        _ if times > MUCH_LONGER => {
            format!("nothing that was seen, though it took {times:.1} times what was predicted")
        }
        Some(cable) => format!("the links themselves: the busiest, {}", shown(&cable)),
        None if kept.via == "cast" => "the links themselves: each carries every frame once".to_owned(),
        None => "nothing that was seen".to_owned(),
    }
}

/// Returns the cause for a receiver with all bytes, other than the path to it, in words that follow
/// "limited by".
pub fn of_receiver(kept: &Kept, receiver: &Receiver) -> Option<String> {
    let timeline = &kept.run.as_ref()?.timeline;
    let track = timeline.receivers.iter().rfind(|track| track.host == receiver.host && Kept::has_all(receiver))?;
    let moments: Vec<char> = track.states.chars().filter(|&state| state != '-').collect();
    if moments.len() < MIN_MOMENTS {
        return None;
    }
    let share = |states: &str| {
        let count = moments.iter().filter(|&&state| states.contains(state)).count();
        count as f64 / moments.len() as f64
    };
    let causes =
        [("b", "its disk, or whoever reads its output"), ("c", "a host behind it"), ("vyt", "verifying and syncing")];
    let (states, cause) = causes.into_iter().find(|(states, _)| share(states) > MUCH_TIME)?;
    Some(format!("{cause} ({:.0} % of the time)", share(states) * 100.0))
}

/// Loss below which a cable is not suspected.
const MIN_LOSS: f64 = 0.001;
/// Limit on cables that cannot be told apart; beyond it none is named.
const MAX_NAMED: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Suspects {
    pub name: String,
    pub loss: f64,
    pub lost: u64,
}

pub fn suspects(kept: &Kept) -> Vec<Suspects> {
    kept.run.as_ref().and_then(|run| found(kept, run)).unwrap_or_default()
}

fn found(kept: &Kept, run: &Run) -> Option<Vec<Suspects>> {
    let record = run.plan.as_ref()?;
    // In blocks, data comes from several hosts; after a fallback, the recorded plan is not the
    // actual one.
    let via: Via = record.via.parse().ok()?;
    if via.is_in_blocks() || kept.rerouted {
        return None;
    }
    let (topology, hosts) = network(run, record)?;
    let by_name: HashMap<&str, usize> = record.hosts.iter().map(String::as_str).zip(hosts.iter().copied()).collect();
    // Failed receivers and those on the catch-up stream were not served as planned.
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
    let lossy = lossy_cables(&topology, &passages, MIN_LOSS);
    Some(lossy.iter().map(|one| Suspects { name: name(one, named), loss: one.loss, lost: one.lost }).collect())
}

/// Names cables by their ends; without a topology the switches have no names.
fn name(lossy: &LossyCables, named: bool) -> String {
    let cable = |(one, other): &(CableEnd, CableEnd)| match named {
        true => format!("{}–{}", shown(one.name()), shown(other.name())),
        false => shown(one.name()),
    };
    let cables: Vec<String> = lossy.cables.iter().take(MAX_NAMED).map(cable).collect();
    let more = lossy.cables.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" or {more} more") } else { String::new() };
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
    use super::*;
    use crate::report::kept::{Edge, Frames, PlanRecord, Run, Timeline, Track};

    fn kept(states: &str) -> Kept {
        let track = Track { host: "n1".to_owned(), states: states.to_owned(), ..Track::default() };
        let timeline = Timeline { receivers: vec![track], ..Timeline::default() };
        let receiver = Receiver { host: "n1".to_owned(), status: "verified".to_owned(), ..Receiver::default() };
        let run = Run { root: "n0".to_owned(), timeline, ..Run::default() };
        Kept { receivers: vec![receiver], run: Some(run), via: "cast".to_owned(), ..Kept::default() }
    }

    #[test]
    fn a_host_is_limited_by_what_took_most_of_its_time() {
        let limit = |states| {
            let kept = kept(states);
            of_receiver(&kept, &kept.receivers[0])
        };
        assert_eq!(limit("abbb").as_deref(), Some("its disk, or whoever reads its output (75 % of the time)"));
        assert_eq!(limit("aacccc--").as_deref(), Some("a host behind it (67 % of the time)"));
        assert_eq!(limit("avyyt").as_deref(), Some("verifying and syncing (80 % of the time)"));
        assert_eq!(["asssssav", "aabb", "bbb", "----"].map(limit), [const { None }; 4]);
        let mut failed = kept("bbbb");
        failed.receivers[0].status = "died".to_owned();
        assert_eq!(of_receiver(&failed, &failed.receivers[0]), None, "its failure is named elsewhere");
    }

    #[test]
    fn what_is_most_certain_is_named_first() {
        let mut kept = kept("aaaa");
        assert_eq!(part(&kept), "nothing that was seen");
        let predicted = Kept { seconds: 1.0, predicted_seconds: Some(1.0), ..kept.clone() };
        assert_eq!(part(&predicted), "the links themselves: each carries every frame once");
        let slow = Kept { seconds: 1.0, predicted_seconds: Some(0.1), ..kept.clone() };
        assert_eq!(part(&slow), "nothing that was seen, though it took 10.0 times what was predicted");
        let updated = Kept { bytes: 1000, sent_bytes: Some(20), ..kept.clone() };
        assert!(part(&updated).starts_with("the hosts, which looked for what they have"));
        kept.frames = Frames { data_sent: 1000, data_resent: 25, ..Frames::default() };
        assert_eq!(part(&kept), "loss: n0 sent 2.5 % of its frames again");
        let (mut died, mut late) = (kept.receivers[0].clone(), kept.receivers[0].clone());
        died.status = "died".to_owned();
        let alone = Kept { receivers: vec![died.clone()], ..kept.clone() };
        assert_eq!(part(&alone), "nothing that was seen: no receiver has all of it");
        kept.receivers.push(died);
        assert_eq!(part(&kept), "n1: failed on the way, and the others waited for it");
        (late.host, late.seconds) = ("n4".to_owned(), 3.0);
        let receivers = [&kept.receivers[..], &[late]].concat();
        let waited = Kept { receivers, seconds: 3.0, ..kept.clone() };
        assert_eq!(part(&waited), "n4, which ended 3.00 s after all others", "nobody waited for n1");
        let run = Run { interface: "eth0".to_owned(), cut_off_seconds: 3.0, ..kept.run.clone().expect("it has one") };
        let cut = Kept { run: Some(run), seconds: 5.0, ..kept.clone() };
        assert_eq!(part(&cut), "the interface eth0 of n0 itself, which was away or had no link for 3.0 s");
        kept.rerouted = true;
        assert_eq!(part(&kept), "switches that threw away what was sent to all: it went on via cast");
    }

    /// Creates a report of the chain n0, n1, n2, n3 over two switches, whose receivers lost these
    /// numbers of 1000 frames.
    fn chain(lost: [u64; 3], topology: bool) -> Kept {
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

    fn suspected(chain: &Kept) -> Vec<String> {
        suspects(chain).into_iter().map(|one| format!("{} {:.3}", one.name, one.loss)).collect()
    }

    #[test]
    fn the_cable_that_lost_frames_is_named_as_the_topology_names_it_or_by_its_host() {
        assert_eq!(suspected(&chain([0, 20, 20], true)), ["cable n2–s1 0.020"]);
        assert_eq!(suspected(&chain([0, 20, 20], false)), ["the cable of n2 0.020"]);
        assert_eq!(suspected(&chain([0, 20, 0], true)), ["cable n1–s0 or n2–s1 or s1–s0 0.020"]);
        assert_eq!(suspected(&chain([0, 20, 0], false)), ["the cable of n1 or n2 0.020"]);
        assert_eq!(suspected(&chain([0, 0, 0], true)), Vec::<String>::new());
    }

    #[test]
    fn who_was_served_by_another_or_says_nothing_speaks_for_no_cable() {
        let mut dead = chain([0, 20, 20], true);
        dead.receivers[1].status = "died".to_owned();
        assert_eq!(suspected(&dead), Vec::<String>::new());
        let mut silent = chain([0, 20, 20], true);
        silent.receivers.iter_mut().for_each(|one| one.repaired_frames = None);
        assert_eq!(suspected(&silent), Vec::<String>::new());
        let rerouted = Kept { rerouted: true, ..chain([0, 20, 20], true) };
        assert_eq!(suspected(&rerouted), Vec::<String>::new());
    }
}
