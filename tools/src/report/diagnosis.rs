//! Diagnosis of what limited a transfer. Each candidate cause has a test that must hold in this
//! run, and the share of the time that it explains. The cause with the largest share is named. If
//! none holds, the diagnosis lists the observations.

use super::drawing::shown;
use super::kept::{Kept, Others, Receiver, Timeline};
use super::lossy;
use super::plan_picture;
use crate::units;
use ethbcast_planning::topology::nodeset;

/// Share of retransmitted frames above which loss is a cause.
const MUCH_LOSS: f64 = 0.01;
/// Share of the time that a measured cause must explain.
const FULL: f64 = 0.8;
/// Share of the time that a cause must explain if it is only observed.
const SOME: f64 = 0.1;
/// Share of the time that a host must explain that was waited for at the end.
const LATE: f64 = 0.2;
/// Share of the time that an observation is assumed to explain if no link was measured.
const UNKNOWN_REST: f64 = 0.5;
/// Weight of a prediction that came true, relative to a measured link.
const PREDICTED: f64 = 0.95;
/// Share of the rate between two hosts alone below which cables may be shared without the plan's
/// knowledge.
const SHARED: f64 = 0.5;
/// Time in seconds below which no wait counts.
const MOMENT: f64 = 0.2;
/// Fraction of the time above which a host's activity is the cause.
const MUCH_TIME: f64 = 0.5;
/// Limit below which there are too few samples for a diagnosis.
const MIN_MOMENTS: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct Evidence {
    pub seconds: f64,
    pub predicted_seconds: Option<f64>,
    /// Bits of the content that were sent, for each copy.
    pub bits: f64,
    /// Time of one copy over the path between two hosts alone, as measured before.
    pub copy_seconds: Option<f64>,
    /// The busiest cable, and the number of copies that it carried.
    pub busiest: Option<(String, usize)>,
    pub is_cast: bool,
    pub root: String,
    pub interface: String,
    pub cut_off_seconds: f64,
    pub limit_bits_per_second: Option<u64>,
    pub is_yielding: bool,
    /// Reason for which the transfer continued by another route, and that route.
    pub rerouted: Option<(String, String)>,
    pub others: Option<Others>,
    /// Cable over which several hosts send at once by the plan, and their number.
    pub contended: Option<(String, u64)>,
    /// Share of the whole time that the root's process was on a processor.
    pub processor_share: Option<f64>,
    /// Lossy cables with their losses, worst first.
    pub lossy: Vec<(String, f64)>,
    /// Share of frames sent again.
    pub repeated: f64,
    /// Hosts for which the others waited while nothing moved, and the duration.
    pub awaited: Option<(String, f64)>,
    /// Host that finished after all others, and the delay.
    pub last: Option<(String, f64)>,
    /// Host that took frames more slowly than they came, its activity, and the share of the time of
    /// that.
    pub held_up: Option<(String, Option<(String, f64)>)>,
    pub apart: Option<String>,
    /// Hosts that were served beside the others, each with the message about it.
    pub aside: Vec<(String, Option<String>)>,
    pub is_partial: bool,
    pub slow_cable: Option<String>,
    pub has_topology: bool,
}

/// A cause whose test held, and the share of the time that it explains.
type Cause = (f64, String);

/// Returns the cause in words that follow "limited by"; `None` if no receiver has everything.
pub fn part(kept: &Kept) -> Option<String> {
    let is_news = kept.receivers.iter().any(Kept::has_all);
    is_news.then(|| of(&Evidence::of(kept)))
}

pub fn of(seen: &Evidence) -> String {
    let causes = [of_the_own_side(seen), of_the_network(seen), of_hosts(seen), of_the_links(seen)];
    // Of equal ones the first counts.
    let strongest = causes.into_iter().flatten().reduce(|best, other| if other.0 > best.0 { other } else { best });
    strongest.map_or_else(|| unknown(seen), |(_, words)| words)
}

impl Evidence {
    /// Returns the share of the rate between two hosts alone that the busiest cable carried.
    fn link_share(&self) -> Option<f64> {
        let copies = self.busiest.as_ref().map_or(1, |(_, copies)| *copies) as f64;
        Some(self.copy_seconds? * copies / self.seconds.max(f64::MIN_POSITIVE))
    }

    /// Returns the share of the time that neither the links nor the prediction explain.
    fn rest(&self) -> f64 {
        let predicted = self.predicted_seconds.map(|predicted| predicted / self.seconds.max(f64::MIN_POSITIVE));
        let explained = self.link_share().into_iter().chain(predicted).reduce(f64::max);
        explained.map_or(UNKNOWN_REST, |explained| 1.0 - explained.min(1.0))
    }

    /// Returns the largest share of the time in which a host was busy otherwise, or was waited for.
    fn host_share(&self) -> f64 {
        let activity = self.held_up.as_ref().and_then(|(_, activity)| Some(activity.as_ref()?.1));
        let waits = [&self.awaited, &self.last].into_iter().flatten().map(|(_, seconds)| self.part(*seconds));
        activity.into_iter().chain(waits).fold(0.0, f64::max)
    }

    fn part(&self, seconds: f64) -> f64 {
        seconds / self.seconds.max(f64::MIN_POSITIVE)
    }

    fn of(kept: &Kept) -> Evidence {
        let run = kept.run.clone().unwrap_or_default();
        let bytes = kept.sent_bytes.unwrap_or(kept.bytes).min(kept.bytes);
        let contended = kept
            .contention
            .as_ref()
            .and_then(|all| all.first())
            .map(|cable| (format!("{}–{}", shown(&cable.from), shown(&cable.to)), cable.senders));
        let apart = run.timeline.incidents.iter().find(|incident| incident.kind == "apart");
        let held_up = run.held_up_by.as_ref().map(|host| {
            let receiver = kept.receivers.iter().find(|one| one.host == *host);
            (shown(host), receiver.and_then(|receiver| activity(kept, receiver)))
        });
        Evidence {
            seconds: kept.seconds,
            predicted_seconds: kept.predicted_seconds,
            bits: bytes as f64 * 8.0,
            copy_seconds: run.copy_seconds,
            busiest: plan_picture::worst_cable(&run),
            is_cast: kept.via == "cast",
            root: shown(&run.root),
            interface: shown(&run.interface),
            cut_off_seconds: run.cut_off_seconds,
            limit_bits_per_second: kept.rate_limit_bits_per_second,
            is_yielding: kept.nice,
            others: run.others.clone(),
            rerouted: kept.rerouted.then(|| (rerouted_because(&run.timeline), shown(&kept.via))),
            contended,
            processor_share: run.processor_seconds.map(|seconds| seconds / kept.total_seconds.max(kept.seconds)),
            lossy: lossy::suspects(kept).into_iter().map(|one| (one.name, one.loss)).collect(),
            repeated: kept.frames.data_resent as f64 / kept.frames.data_sent.max(1) as f64,
            awaited: awaited(&run.timeline),
            last: last(kept),
            held_up,
            apart: apart.map(|apart| shown(&apart.hosts.join(" and "))),
            aside: run.aside.iter().map(|host| (shown(host), put_aside(kept, host))).collect(),
            is_partial: kept.sent_bytes.is_some_and(|bytes| bytes < kept.bytes / 2),
            slow_cable: run.slow_cable.as_deref().map(shown),
            has_topology: run.topology.is_some(),
        }
    }
}

fn last(kept: &Kept) -> Option<(String, f64)> {
    let mut done: Vec<&Receiver> = kept.receivers.iter().filter(|one| Kept::has_all(one)).collect();
    done.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    let [.., before, last] = done[..] else { return None };
    let late = last.seconds - before.seconds;
    let why = put_aside(kept, &last.host).map(|text| format!("which {text}"));
    let why = why.or_else(|| of_receiver(kept, last).map(|cause| format!("limited by {cause}")));
    let cause = why.map_or(String::new(), |why| format!(" ({why})"));
    (late >= MOMENT).then(|| (format!("{}{cause}", shown(&last.host)), late))
}

fn rerouted_because(timeline: &Timeline) -> String {
    let known = timeline.incidents.iter().find(|one| one.kind == "rerouted" && !one.text.is_empty());
    known.map_or_else(|| "another way, which proved better".to_owned(), |one| shown(&one.text))
}

/// Returns the message about a host from the moment when it was served beside the others.
fn put_aside(kept: &Kept, host: &str) -> Option<String> {
    let incidents = &kept.run.as_ref()?.timeline.incidents;
    let own = incidents.iter().find(|one| one.kind == "aside" && one.hosts.iter().any(|other| other == host))?;
    Some(shown(&own.text)).filter(|text| !text.is_empty())
}

fn awaited(timeline: &Timeline) -> Option<(String, f64)> {
    let moved = |at: usize| {
        let tracks = timeline.receivers.iter().map(|track| &track.bytes).chain([&timeline.sent_bytes]);
        // A report may hold any numbers.
        tracks.filter_map(|bytes| bytes.get(at)).fold(0, |sum: u64, &bytes| sum.saturating_add(bytes))
    };
    let (mut began, mut stills) = (0, Vec::new());
    for at in 1..timeline.seconds.len() {
        if moved(at) != moved(at - 1) {
            stills.push((timeline.seconds[began], timeline.seconds[at - 1]));
            began = at;
        }
    }
    stills.extend(timeline.seconds.get(began).zip(timeline.seconds.last()).map(|(&from, &to)| (from, to)));
    let ended_by = |&(from, to): &(f64, f64)| {
        let within = |seconds: f64| (from..=to + MOMENT).contains(&seconds);
        let incident = timeline.incidents.iter().find(|one| within(one.seconds) && !one.hosts.is_empty())?;
        matches!(incident.kind.as_str(), "failed" | "aside" | "held-up")
            .then(|| (shown(&nodeset::fold(&incident.hosts)), to - from))
    };
    let longest = |one: &(String, f64), other: &(String, f64)| one.1.total_cmp(&other.1);
    stills.iter().filter_map(ended_by).filter(|(_, seconds)| *seconds >= MOMENT).max_by(longest)
}

fn of_the_own_side(seen: &Evidence) -> Option<Cause> {
    let down = seen.part(seen.cut_off_seconds);
    let down = (down > SOME).then(|| {
        let (interface, root, seconds) = (&seen.interface, &seen.root, seen.cut_off_seconds);
        (down, format!("the interface {interface} of {root} itself, which was away or had no link for {seconds:.1} s"))
    });
    let limit = seen.limit_bits_per_second.and_then(|limit| {
        let share = seen.part(seen.bits / limit.max(1) as f64).min(1.0);
        let words = || format!("the configured limit of {}", units::rate(limit as f64));
        (share >= FULL).then(|| (share, words()))
    });
    let yielding = (seen.is_yielding && seen.link_share().is_some_and(|share| share < FULL))
        .then(|| (seen.rest(), "giving way to others, as asked (--nice)".to_owned()));
    let busy = seen.processor_share.filter(|&share| share >= FULL);
    let busy = busy.map(|share| {
        (share.min(1.0), format!("the processor of {}, busy for {:.0} % of the time", seen.root, share * 100.0))
    });
    strongest([down, limit, yielding, of_others(seen), busy])
}

/// Other traffic explains as much as the part of a link that it took, and the losses that it
/// caused.
fn of_others(seen: &Evidence) -> Option<Cause> {
    let others = seen.others.as_ref()?;
    let (taken, rest) = ((seen.part(others.seconds) * others.share).min(1.0), seen.rest());
    let share = if taken * 2.0 >= rest { rest.max(taken) } else { taken };
    (taken >= SOME && rest >= SOME).then(|| (share, in_words(others)))
}

pub fn in_words(others: &Others) -> String {
    let (host, seconds) = (shown(&others.host), others.seconds);
    let took = format!("{:.0} % of the link of {host} for {seconds:.1} s", others.share * 100.0);
    match &others.sessions[..] {
        [] => format!("other traffic, which took {took}"),
        [one] => format!("another ethbcast session of {}: others took {took}", shown(one)),
        several => format!("other ethbcast sessions of {}: others took {took}", shown(&nodeset::fold(several))),
    }
}

fn of_the_network(seen: &Evidence) -> Option<Cause> {
    // None of these has a measured share: each explains at most what is left beside the hosts.
    let rest = Some(seen.rest() - seen.host_share()).filter(|&rest| rest >= SOME)?;
    let rerouted = seen.rerouted.as_ref().map(|(why, via)| format!("{why}: it went on via {via}"));
    let contended = seen
        .contended
        .as_ref()
        .map(|(cable, senders)| format!("the cable {cable}, over which the plan has {senders} hosts send at a time"));
    let apart = seen
        .apart
        .as_ref()
        .map(|pair| format!("the path between {pair}, where nothing gets through: both were served beside the others"));
    let lossy = seen.lossy.first().filter(|(_, loss)| *loss > MUCH_LOSS);
    let lossy = lossy.map(|(name, loss)| format!("{name} (loss {:.1} %)", loss * 100.0));
    let is_repeated = seen.repeated > MUCH_LOSS;
    let repeated =
        is_repeated.then(|| format!("loss: {} sent {:.1} % of its frames again", seen.root, seen.repeated * 100.0));
    rerouted.or(contended).or(apart).or(lossy).or(repeated).map(|words| (rest, words))
}

fn of_hosts(seen: &Evidence) -> Option<Cause> {
    let awaited = seen.awaited.as_ref().map(|(hosts, seconds)| {
        (seen.part(*seconds), format!("{hosts}: nothing moved for {seconds:.1} s while it was waited for"))
    });
    let last = seen
        .last
        .as_ref()
        .map(|(host, seconds)| (seen.part(*seconds), format!("{host}: it finished {seconds:.1} s after all others")));
    let rest = Some(seen.rest()).filter(|&rest| rest >= SOME);
    let aside = rest.zip(aside_text(&seen.aside));
    let held_up = rest.zip(seen.held_up.as_ref()).map(|(rest, (host, activity))| match activity {
        Some((what, share)) => (rest.max(*share), format!("{host}: {what} ({:.0} % of the time)", share * 100.0)),
        None => (rest, format!("{host}, which took frames more slowly than they came")),
    });
    // Cables are idle while hosts look up and verify the data that they hold.
    let partial = rest
        .filter(|_| seen.is_partial)
        .map(|rest| (rest, "the hosts, which looked for what they have and checked it: little was sent".to_owned()));
    let awaited = awaited.filter(|&(share, _)| share >= SOME);
    strongest([awaited, last.filter(|&(share, _)| share >= LATE), aside, held_up, partial])
}

fn aside_text(aside: &[(String, Option<String>)]) -> Option<String> {
    match aside {
        [] => None,
        [(host, Some(text))] => Some(format!("{host}, which {text}")),
        _ => {
            let hosts: Vec<String> = aside.iter().map(|(host, _)| host.clone()).collect();
            Some(format!("{}, served beside the others from then on", nodeset::fold(&hosts)))
        }
    }
}

fn of_the_links(seen: &Evidence) -> Option<Cause> {
    let carried = match &seen.busiest {
        Some((cable, 1)) => format!("the busiest, {cable}, carries the bytes once"),
        Some((cable, copies)) => format!("the busiest, {cable}, carries the bytes {copies} times"),
        None if seen.is_cast => "each carries every frame once".to_owned(),
        None => "they carry the bytes".to_owned(),
    };
    let slow = seen.slow_cable.as_ref().map(|cable| format!("{cable}, slower than the others by what is known of it"));
    let measured = seen.link_share().map(|share| share.min(1.0)).filter(|&share| share >= FULL).map(|share| {
        (share, format!("the links themselves: {carried}, at {:.0} % of what two hosts alone reach", share * 100.0))
    });
    let predicted = seen.predicted_seconds.map(|predicted| {
        let times = seen.part(predicted).max(f64::MIN_POSITIVE);
        let words = match seen.link_share() {
            Some(share) if share < FULL => format!("what was predicted, {:.0} % of it on the links", share * 100.0),
            _ => format!("the links themselves, as predicted: {carried}"),
        };
        (times.min(1.0 / times) * PREDICTED, slow.clone().unwrap_or(words))
    });
    strongest([measured, predicted.filter(|&(share, _)| share >= FULL)])
}

fn strongest<const N: usize>(causes: [Option<Cause>; N]) -> Option<Cause> {
    causes.into_iter().flatten().reduce(|best, other| if other.0 > best.0 { other } else { best })
}

fn unknown(seen: &Evidence) -> String {
    let share = seen.link_share();
    let links = share.map(|share| {
        let cable = seen.busiest.as_ref().map_or("the cables", |(cable, _)| cable);
        format!("{cable} carried {:.0} % of what two hosts alone reach", share * 100.0)
    });
    let predicted = seen
        .predicted_seconds
        .filter(|&predicted| predicted > 0.0)
        .map(|predicted| format!("it took {:.1} times what was predicted", seen.seconds / predicted));
    let words: Vec<String> = links.into_iter().chain(predicted).collect();
    if words.is_empty() {
        return "not known: no rates were known before the start".to_owned();
    }
    let may_share = !seen.has_topology && !seen.is_cast && share.is_some_and(|share| share < SHARED);
    let ask = if may_share { "; are there several switches? `ethbcast probe --discover` finds out" } else { "" };
    format!("not known: {}{ask}", words.join(", and "))
}

/// Returns the cause for a receiver with all bytes, other than the path to it, in words that follow
/// "limited by".
pub fn of_receiver(kept: &Kept, receiver: &Receiver) -> Option<String> {
    let (what, share) = activity(kept, receiver)?;
    Some(format!("{what} ({:.0} % of the time)", share * 100.0))
}

/// Returns the activity of a receiver with all bytes for most of the time, other than receiving,
/// and its share.
fn activity(kept: &Kept, receiver: &Receiver) -> Option<(String, f64)> {
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
        [("b", "its disk, or the reader of its output"), ("c", "a host behind it"), ("vyt", "verifying and syncing")];
    let (states, cause) = causes.into_iter().find(|(states, _)| share(states) > MUCH_TIME)?;
    Some((cause.to_owned(), share(states)))
}

#[cfg(test)]
mod tests {
    use super::super::kept::{Frames, Incident, Run, Timeline, Track};
    use super::*;

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
        assert_eq!(limit("abbb").as_deref(), Some("its disk, or the reader of its output (75 % of the time)"));
        assert_eq!(limit("aacccc--").as_deref(), Some("a host behind it (67 % of the time)"));
        assert_eq!(limit("avyyt").as_deref(), Some("verifying and syncing (80 % of the time)"));
        assert_eq!(["asssssav", "aabb", "bbb", "----"].map(limit), [const { None }; 4]);
        let mut failed = kept("bbbb");
        failed.receivers[0].status = "died".to_owned();
        assert_eq!(of_receiver(&failed, &failed.receivers[0]), None, "its failure is named elsewhere");
    }

    /// A run of 10 s over a chain whose cables two hosts alone would fill in `copy` seconds.
    fn run(copy: f64) -> Evidence {
        Evidence {
            seconds: 10.0,
            bits: 1e9,
            copy_seconds: Some(copy),
            busiest: Some(("host n0 to switch s0".to_owned(), 1)),
            root: "n0".to_owned(),
            interface: "eth0".to_owned(),
            has_topology: true,
            ..Evidence::default()
        }
    }

    fn others(seconds: f64, share: f64, sessions: &[&str]) -> Option<Others> {
        let sessions = sessions.iter().map(|&host| host.to_owned()).collect();
        Some(Others { host: "n3".to_owned(), seconds, share, sessions })
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[track_caller]
    fn assert_said(table: &[(Evidence, &str)]) {
        for (at, (seen, expected)) in table.iter().enumerate() {
            let said = of(seen);
            assert!(said.starts_with(expected), "{at}: {said}, expected {expected}");
        }
    }

    #[test]
    fn each_planted_cause_of_links_and_own_side_is_named_and_nothing_that_was_not_looked_at() {
        let nothing = || Evidence { copy_seconds: None, ..run(0.0) };
        assert_said(&[
            (run(9.5), "the links themselves: the busiest, host n0 to switch s0, carries the bytes once, at 95 % of"),
            (
                Evidence { busiest: Some(("switch s0 to switch s1".to_owned(), 8)), ..run(1.2) },
                "the links themselves: the busiest, switch s0 to switch s1, carries the bytes 8 times, at 96 %",
            ),
            (run(1.2), "not known: host n0 to switch s0 carried 12 % of what two hosts alone reach"),
            (
                Evidence { has_topology: false, ..run(1.2) },
                "not known: host n0 to switch s0 carried 12 % of what two hosts alone reach; are there",
            ),
            (nothing(), "not known: no rates were known before the start"),
            (Evidence { predicted_seconds: Some(9.8), ..nothing() }, "the links themselves, as predicted: the busiest"),
            (
                Evidence { predicted_seconds: Some(9.8), is_cast: true, busiest: None, ..nothing() },
                "the links themselves, as predicted: each carries every frame once",
            ),
            (
                Evidence { predicted_seconds: Some(1.0), ..nothing() },
                "not known: it took 10.0 times what was predicted",
            ),
            (Evidence { predicted_seconds: Some(9.8), ..run(4.0) }, "what was predicted, 40 % of it on the links"),
            (
                Evidence { predicted_seconds: Some(9.8), slow_cable: some("host n3 to switch s0"), ..run(1.0) },
                "host n3 to switch s0, slower than the others",
            ),
            (Evidence { cut_off_seconds: 6.0, ..run(3.0) }, "the interface eth0 of n0 itself"),
            (Evidence { limit_bits_per_second: Some(105_000_000), ..run(1.0) }, "the configured limit of 105.0 Mbit/s"),
            (Evidence { limit_bits_per_second: Some(900_000_000), ..run(9.0) }, "the links themselves"),
            (Evidence { is_yielding: true, ..run(3.0) }, "giving way to others"),
            (
                Evidence { others: others(5.0, 0.48, &[]), ..run(5.0) },
                "other traffic, which took 48 % of the link of n3",
            ),
            (
                Evidence { others: others(9.0, 0.5, &["n8"]), repeated: 0.2, ..run(5.0) },
                "another ethbcast session of n8",
            ),
            (Evidence { others: others(1.0, 0.5, &[]), ..run(5.0) }, "not known: "),
            (Evidence { others: others(9.0, 0.12, &[]), ..run(9.0) }, "the links themselves"),
            (Evidence { processor_share: Some(0.92), ..run(3.0) }, "the processor of n0, busy for 92 %"),
            (Evidence { processor_share: Some(0.5), ..run(3.0) }, "not known: "),
        ]);
    }

    #[test]
    fn each_planted_cause_of_network_and_hosts_is_named() {
        let cable = || ("n2–s1".to_owned(), 2);
        assert_said(&[
            (
                Evidence { rerouted: some("switches police broadcast").zip(some("chain")), ..run(3.0) },
                "switches police broadcast: it went on via chain",
            ),
            (
                Evidence {
                    rerouted: some("frames to all take longer").zip(some("chain")),
                    awaited: some("n5").zip(Some(7.8)),
                    ..run(1.6)
                },
                "n5: nothing moved for 7.8 s while it was waited for",
            ),
            (Evidence { contended: Some(cable()), ..run(3.0) }, "the cable n2–s1, over which the plan has 2 hosts"),
            (
                Evidence { apart: some("n1 and n2"), aside: vec![("n1".to_owned(), None)], ..run(3.0) },
                "the path between n1 and n2",
            ),
            (
                Evidence { aside: ["n1", "n2"].map(|host| (host.to_owned(), None)).to_vec(), ..run(3.0) },
                "n[1-2], served beside the others",
            ),
            (
                Evidence { aside: vec![("n1".to_owned(), some("takes 19.6 Mbit/s"))], ..run(3.0) },
                "n1, which takes 19.6 Mbit/s",
            ),
            (
                Evidence { lossy: vec![("the cable of n2".to_owned(), 0.021)], repeated: 0.02, ..run(3.0) },
                "the cable of n2 (loss 2.1 %)",
            ),
            (Evidence { lossy: vec![("the cable of n2".to_owned(), 0.021)], ..run(9.3) }, "the links themselves"),
            (Evidence { repeated: 0.025, ..run(3.0) }, "loss: n0 sent 2.5 % of its frames again"),
            (Evidence { repeated: 0.005, ..run(3.0) }, "not known: "),
            (Evidence { awaited: Some(("n3".to_owned(), 4.0)), ..run(5.0) }, "n3: nothing moved for 4.0 s"),
            (Evidence { awaited: Some(("n3".to_owned(), 0.5)), ..run(9.0) }, "the links themselves"),
            (Evidence { last: Some(("n4".to_owned(), 5.0)), ..run(5.0) }, "n4: it finished 5.0 s after all others"),
            (
                Evidence { last: Some(("n4".to_owned(), 5.0)), awaited: Some(("n3".to_owned(), 1.2)), ..run(4.0) },
                "n4: it",
            ),
            (
                Evidence { held_up: Some(("n1".to_owned(), some("its disk").zip(Some(0.75)))), ..run(5.0) },
                "n1: its disk (75 % of the time)",
            ),
            (Evidence { held_up: Some(("n1".to_owned(), None)), ..run(5.0) }, "n1, which took frames more slowly"),
            (Evidence { held_up: Some(("n1".to_owned(), None)), ..run(9.5) }, "the links themselves"),
            (Evidence { is_partial: true, ..run(0.2) }, "the hosts, which looked for what they have"),
        ]);
    }

    #[test]
    fn loss_is_not_named_where_a_host_took_the_time() {
        let lossy = || Evidence { lossy: vec![("the cable of n0".to_owned(), 0.449)], repeated: 0.4, ..run(0.4) };
        assert_said(&[
            (
                Evidence { held_up: Some(("n1".to_owned(), some("verifying and syncing").zip(Some(0.94)))), ..lossy() },
                "n1: verifying and syncing (94 % of the time)",
            ),
            (Evidence { awaited: Some(("n1".to_owned(), 8.9)), ..lossy() }, "n1: nothing moved for 8.9 s"),
            (Evidence { last: Some(("n1".to_owned(), 2.5)), ..lossy() }, "the cable of n0 (loss 44.9 %)"),
        ]);
    }

    #[test]
    fn a_dead_host_is_named_only_if_the_others_waited() {
        let mut run = kept("aaaaaaaa");
        let host = |host: &str, status: &str, seconds| Receiver {
            host: host.to_owned(),
            status: status.to_owned(),
            seconds,
            ..Receiver::default()
        };
        run.seconds = 8.0;
        run.receivers = vec![host("n1", "verified", 8.0), host("n2", "verified", 7.9), host("n3", "died", 2.0)];
        let timeline = &mut run.run.as_mut().expect("it has one").timeline;
        timeline.seconds = (0..9).map(f64::from).collect();
        timeline.incidents = vec![Incident {
            seconds: 3.1,
            kind: "failed".to_owned(),
            hosts: vec!["n3".to_owned()],
            text: String::new(),
        }];
        let moving = |timeline: &mut Timeline, bytes: [u64; 9]| timeline.sent_bytes = bytes.to_vec();
        moving(timeline, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Evidence::of(&run).awaited, None);
        moving(&mut run.run.as_mut().expect("it has one").timeline, [0, 1, 1, 1, 4, 5, 6, 7, 8]);
        assert_eq!(Evidence::of(&run).awaited, Some(("n3".to_owned(), 2.0)));
        assert_eq!(part(&run).as_deref(), Some("n3: nothing moved for 2.0 s while it was waited for"));
        run.receivers.iter_mut().for_each(|one| one.status = "write-failed".to_owned());
        assert_eq!(part(&run), None, "nobody has anything: its failure is the news");
    }

    #[test]
    fn causes_follow_from_the_figures_of_the_report() {
        let mut one = kept("aaaa");
        one.seconds = 1.0;
        one.frames = Frames { data_sent: 1000, data_resent: 25, ..Frames::default() };
        assert_eq!(part(&one).as_deref(), Some("loss: n0 sent 2.5 % of its frames again"));
        one.frames = Frames::default();
        assert_eq!(part(&one).as_deref(), Some("not known: no rates were known before the start"));
    }
}
