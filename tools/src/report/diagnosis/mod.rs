//! Diagnosis of what limited a transfer's speed, for its report. Each candidate cause has a test
//! that must hold in this run, and the share of the time that it explains. The cause with the
//! largest share is named. If none holds, the diagnosis lists the observations.

use super::drawing;
use super::drawing::shown;
use super::kept::{Kept, Others, Receiver, Timeline};
use super::lossy;
use crate::units;
use ethbcast_planning::topology::nodeset;

/// Share of retransmitted frames above which loss is a cause.
const MUCH_LOSS: f64 = 0.01;
/// Shares of the time that a cause must explain: if it is measured, if it is only observed, and if
/// it is a host that was waited for at the end.
const MEASURED_SHARE: f64 = 0.8;
const MIN_SHARE: f64 = 0.1;
const LATE_SHARE: f64 = 0.2;
/// Share of the time that an observation is assumed to explain if no link was measured.
const UNKNOWN_REST: f64 = 0.5;
/// Weight of a prediction that came true, relative to a measured link.
const PREDICTED: f64 = 0.95;
/// Shares of the rate between two hosts alone below which cables may be shared without the plan's
/// knowledge, and above which that rate was measured wrongly.
const SHARED: f64 = 0.5;
const MAX_RATE_SHARE: f64 = 1.25;
/// Part of the unexplained time that a cause must explain.
const MIN_PART_OF_REST: f64 = 0.4;
/// Share of the time that the wait for a host must explain that failed in the end.
const LOST: f64 = 0.05;
/// Time in seconds below which no wait counts.
const MOMENT: f64 = 0.2;
/// Fraction of the time above which a host's activity is the cause.
const MUCH_TIME: f64 = 0.5;
/// Limit below which there are too few samples for a diagnosis.
const MIN_MOMENTS: usize = 4;
/// Length up to which a transfer is mostly its beginning and its end, in bytes.
const SHORT_BYTES: u64 = 64 << 10;

/// Evidence about a transfer. `awaited` and `last` are the hosts for which the others waited while
/// nothing moved, and those that finished after all others, with the seconds. `held_up` and
/// `synced` are the host that took frames more slowly than they came, and the one that verified and
/// synced for longest, with the share of the time.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    pub seconds: f64,
    pub predicted_seconds: Option<f64>,
    /// Bits that the root sent, all copies together.
    pub bits: f64,
    pub is_short: bool,
    /// Time of one copy over the path between two hosts alone, as measured before.
    pub copy_seconds: Option<f64>,
    pub busiest: Option<(String, f64)>,
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
    pub processor_share: Option<f64>,
    /// Lossy cables with their losses, worst first.
    pub lossy: Vec<(String, f64)>,
    pub repeated: f64,
    pub awaited: Option<(String, f64)>,
    pub has_failed: bool,
    pub last: Option<(String, f64)>,
    pub held_up: Option<(String, f64)>,
    pub synced: Option<(String, f64)>,
    pub apart: Option<String>,
    /// Hosts that were served beside the others, each with the message about it.
    pub demoted: Vec<(String, Option<String>)>,
    pub is_partial: bool,
    pub slow_cable: Option<String>,
    pub has_topology: bool,
}

/// A cause whose test held, and the share of the time that it explains.
type Cause = (f64, String);

/// Returns the cause in words that follow "limited by"; `None` if no receiver has everything, the
/// sender gave up, or there were several rounds.
pub fn part(kept: &Kept) -> Option<String> {
    let is_news =
        kept.error.is_none() && kept.is_of_one_round() && kept.receivers.iter().any(Kept::has_all);
    is_news.then(|| of(&Evidence::of(kept)))
}

pub fn of(seen: &Evidence) -> String {
    if let Some(words) = of_the_lost(seen) {
        return words;
    }
    let causes = [
        of_the_own_side(seen),
        of_the_network(seen),
        of_hosts(seen),
        of_the_links(seen),
    ];
    match strongest(causes) {
        Some((share, words)) if share >= seen.rest() * MIN_PART_OF_REST => words,
        Some((_, words)) => format!("{}; seen was {words}", unknown(seen)),
        None => unknown(seen),
    }
}

/// Whether no cause at a host holds, so that what took long may be the network, or the way.
pub fn is_of_network(kept: &Kept) -> bool {
    let seen = Evidence::of(kept);
    let at_hosts = strongest([of_the_own_side(&seen), of_hosts(&seen)]);
    let holds = |share: f64| share >= seen.rest() * MIN_PART_OF_REST;
    kept.is_of_one_round()
        && of_the_lost(&seen).is_none()
        && !at_hosts.is_some_and(|(share, _)| holds(share))
}

impl Evidence {
    /// Returns the share of the rate between two hosts alone that the busiest cable carried, unless
    /// more came over it than can, or others were there when the rate was measured.
    fn link_share(&self) -> Option<f64> {
        let share = self.part(self.copy_seconds? * self.copies());
        Some(share).filter(|&share| share <= MAX_RATE_SHARE && self.fits_beside_others(share))
    }

    /// Returns the share of the time that was predicted, unless it was predicted from a rate that
    /// others shared.
    fn predicted_share(&self) -> Option<f64> {
        let share = self.part(self.predicted_seconds?);
        Some(share).filter(|&share| self.fits_beside_others(share.min(1.0)))
    }

    fn copies(&self) -> f64 {
        self.busiest
            .as_ref()
            .map_or(1.0, |(_, copies)| copies.max(1.0))
    }

    /// Returns the share of a link that others took, over the whole time.
    fn taken_by_others(&self) -> f64 {
        self.others.as_ref().map_or(0.0, |others| {
            (self.part(others.seconds) * others.share).min(1.0)
        })
    }

    /// Whether a host's link has room for its copy beside what others took, where the busiest cable
    /// carries this share. A cable that is known to be slow says nothing about the others.
    fn fits_beside_others(&self, share: f64) -> bool {
        self.slow_cable.is_some()
            || share / self.copies() + self.taken_by_others() <= MAX_RATE_SHARE
    }

    fn limit_share(&self) -> Option<f64> {
        let limit = self.limit_bits_per_second?;
        Some(self.part(self.bits / limit.max(1) as f64).min(1.0))
            .filter(|&share| share >= MEASURED_SHARE)
    }

    /// Returns the share of the time that neither the links nor the prediction explain.
    fn rest(&self) -> f64 {
        let explained = self
            .link_share()
            .into_iter()
            .chain(self.predicted_share())
            .reduce(f64::max);
        explained.map_or(UNKNOWN_REST, |explained| 1.0 - explained.min(1.0))
    }

    /// Whether frames were lost, or hosts were served beside the others.
    fn has_trouble(&self) -> bool {
        let is_lossy = self.repeated > MUCH_LOSS
            || self
                .lossy
                .first()
                .is_some_and(|(_, loss)| *loss > MUCH_LOSS);
        is_lossy || self.rerouted.is_some() || self.apart.is_some() || !self.demoted.is_empty()
    }

    /// Returns the largest share of the time in which a host was busy otherwise, or was waited for.
    fn host_share(&self) -> f64 {
        let busy = [&self.held_up, &self.synced]
            .into_iter()
            .flatten()
            .map(|&(_, share)| share);
        let waits = [&self.awaited, &self.last]
            .into_iter()
            .flatten()
            .map(|(_, seconds)| self.part(*seconds));
        busy.chain(waits).fold(0.0, f64::max)
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
            .map(|cable| {
                (
                    format!("{}–{}", shown(&cable.from), shown(&cable.to)),
                    cable.senders,
                )
            });
        let apart = run
            .timeline
            .incidents
            .iter()
            .find(|incident| incident.kind == "apart");
        let held_up = run
            .held_up_by
            .as_ref()
            .and_then(|host| Some((shown(host), share_of(kept, host, BLOCKED)?)));
        let synced = kept
            .receivers
            .iter()
            .filter_map(|one| Some((shown(&one.host), share_of(kept, &one.host, ENDS)?)));
        // All frames but the last have the same length.
        let sent_bits = kept.frames.data_sent as f64 * run.mtu_bytes.min(bytes) as f64 * 8.0;
        Evidence {
            seconds: kept.seconds,
            predicted_seconds: kept.predicted_seconds,
            bits: sent_bits.max(bytes as f64 * 8.0),
            is_short: (1..=SHORT_BYTES).contains(&bytes),
            copy_seconds: run.copy_seconds,
            busiest: drawing::worst_cable(kept),
            is_cast: kept.via == "cast",
            root: shown(&run.root),
            interface: shown(&run.interface),
            cut_off_seconds: run.cut_off_seconds,
            limit_bits_per_second: kept.rate_limit_bits_per_second,
            is_yielding: kept.nice,
            others: run.others.clone().filter(is_news),
            rerouted: kept
                .rerouted
                .then(|| (rerouted_because(&run.timeline), shown(&kept.via))),
            contended,
            processor_share: run
                .processor_seconds
                .map(|seconds| seconds / kept.total_seconds.max(kept.seconds)),
            lossy: lossy::suspects(kept)
                .into_iter()
                .map(|one| (one.name, one.loss))
                .collect(),
            repeated: kept.frames.data_resent as f64 / kept.frames.data_sent.max(1) as f64,
            awaited: awaited(&run.timeline),
            has_failed: kept.failed().next().is_some(),
            last: last(kept),
            held_up: held_up.filter(|&(_, share)| share >= MIN_SHARE),
            synced: synced
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .filter(|&(_, share)| share >= MIN_SHARE),
            apart: apart.map(|apart| shown(&apart.hosts.join(" and "))),
            demoted: run
                .demoted
                .iter()
                .map(|host| (shown(host), demotion(kept, host)))
                .collect(),
            is_partial: kept.sent_bytes.is_some_and(|bytes| bytes < kept.bytes / 2),
            slow_cable: run.slow_cable.as_deref().map(shown),
            has_topology: run.topology.is_some(),
        }
    }
}

/// Returns the hosts that finished well after all others: fewer than those.
fn last(kept: &Kept) -> Option<(String, f64)> {
    let mut done: Vec<&Receiver> = kept
        .receivers
        .iter()
        .filter(|one| Kept::has_all(one))
        .collect();
    done.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    let late = |at: usize| done[at].seconds - done[at - 1].seconds;
    let first = (done.len() / 2 + 1..done.len()).chain((done.len() == 2).then_some(1));
    let at = first
        .max_by(|&one, &other| late(one).total_cmp(&late(other)))
        .filter(|&at| late(at) >= MOMENT)?;
    let [last] = done[at..] else {
        let mut hosts: Vec<String> = done[at..].iter().map(|one| shown(&one.host)).collect();
        hosts.sort_unstable();
        return Some((nodeset::fold(&hosts), late(at)));
    };
    let why = demotion(kept, &last.host).map(|text| format!("which {text}"));
    let why = why.or_else(|| of_receiver(kept, last).map(|cause| format!("limited by {cause}")));
    let cause = why.map_or(String::new(), |why| format!(" ({why})"));
    Some((format!("{}{cause}", shown(&last.host)), late(at)))
}

fn rerouted_because(timeline: &Timeline) -> String {
    let known = timeline
        .incidents
        .iter()
        .find(|one| one.kind == "rerouted" && !one.text.is_empty());
    known.map_or_else(
        || "another way, which proved better".to_owned(),
        |one| shown(&one.text),
    )
}

/// Returns the message about a host from the moment when it was served beside the others.
fn demotion(kept: &Kept, host: &str) -> Option<String> {
    let incidents = &kept.run.as_ref()?.timeline.incidents;
    let own = incidents
        .iter()
        .find(|one| one.kind == "aside" && one.hosts.iter().any(|other| other == host))?;
    Some(shown(&own.text)).filter(|text| !text.is_empty())
}

fn awaited(timeline: &Timeline) -> Option<(String, f64)> {
    let moved = |at: usize| {
        let tracks = timeline
            .receivers
            .iter()
            .map(|track| &track.bytes)
            .chain([&timeline.sent_bytes]);
        // A report may hold any numbers.
        tracks
            .filter_map(|bytes| bytes.get(at))
            .fold(0, |sum: u64, &bytes| sum.saturating_add(bytes))
    };
    let (mut began, mut stills) = (0, Vec::new());
    for at in 1..timeline.seconds.len() {
        if moved(at) != moved(at - 1) {
            stills.push((timeline.seconds[began], timeline.seconds[at - 1]));
            began = at;
        }
    }
    stills.extend(
        timeline
            .seconds
            .get(began)
            .zip(timeline.seconds.last())
            .map(|(&from, &to)| (from, to)),
    );
    let ended_by = |&(from, to): &(f64, f64)| {
        let within = |seconds: f64| (from..=to + MOMENT).contains(&seconds);
        let incident = timeline
            .incidents
            .iter()
            .find(|one| within(one.seconds) && !one.hosts.is_empty())?;
        matches!(incident.kind.as_str(), "failed" | "aside" | "held-up")
            .then(|| (shown(&nodeset::fold(&incident.hosts)), to - from))
    };
    let longest = |one: &(String, f64), other: &(String, f64)| one.1.total_cmp(&other.1);
    stills
        .iter()
        .filter_map(ended_by)
        .filter(|(_, seconds)| *seconds >= MOMENT)
        .max_by(longest)
}

fn of_the_own_side(seen: &Evidence) -> Option<Cause> {
    let down = seen.part(seen.cut_off_seconds);
    let down = (down > MIN_SHARE).then(|| {
        let (interface, root, seconds) = (&seen.interface, &seen.root, seen.cut_off_seconds);
        (down, format!("the interface {interface} of {root} itself, which was away or had no link for {seconds:.1} s"))
    });
    let limit = seen.limit_share().zip(seen.limit_bits_per_second);
    let limit = limit.map(|(share, limit)| {
        (
            share,
            format!("the configured limit of {}", units::rate(limit as f64)),
        )
    });
    // A host may poll without a pause beside full links. Then its processor limits nothing.
    let is_full = limit.is_some()
        || seen
            .link_share()
            .is_some_and(|share| share >= MEASURED_SHARE);
    // `--nice` explains idle time only as far as nothing else is known to have taken it.
    let is_free = seen.others.is_some() || !seen.has_trouble();
    let yielding = (seen.is_yielding && !is_full && is_free)
        .then(|| {
            (
                seen.rest() - seen.host_share(),
                "yielding to others, as asked (--nice)".to_owned(),
            )
        })
        .filter(|&(share, _)| share >= MIN_SHARE);
    let busy = seen
        .processor_share
        .filter(|&share| share >= MEASURED_SHARE && !is_full)
        .map(|share| share.min(1.0));
    // Beside links of unknown rates it may be busy with waiting for room on them: that is seen, and
    // no cause.
    let is_judged = seen.copy_seconds.is_some() || seen.predicted_seconds.is_some();
    let busy = busy.map(|share| {
        let words = format!(
            "the processor of {}, busy for {:.0} % of the time",
            seen.root,
            share * 100.0
        );
        (if is_judged { share } else { 0.0 }, words)
    });
    strongest([down, limit, yielding, of_others(seen), busy])
}

/// Other traffic explains as much as the part of a link that it took, and the losses that it
/// caused.
fn of_others(seen: &Evidence) -> Option<Cause> {
    let others = seen.others.as_ref()?;
    let (taken, rest) = (seen.taken_by_others(), seen.rest());
    let share = if taken * 2.0 >= rest {
        rest.max(taken)
    } else {
        taken
    };
    (taken >= MIN_SHARE && rest >= MIN_SHARE).then(|| (share, in_words(others)))
}

pub fn is_news(others: &Others) -> bool {
    (others.share * 100.0).round() >= 1.0
}

pub fn in_words(others: &Others) -> String {
    let (host, seconds) = (shown(&others.host), others.seconds);
    let took = format!(
        "{:.0} % of the link of {host} for {seconds:.1} s",
        others.share * 100.0
    );
    match &others.sessions[..] {
        [] => format!("other traffic, which took {took}"),
        [one] => format!(
            "another ethbcast session of {}: others took {took}",
            shown(one)
        ),
        several => format!(
            "other ethbcast sessions of {}: others took {took}",
            shown(&nodeset::fold(several))
        ),
    }
}

fn of_the_network(seen: &Evidence) -> Option<Cause> {
    // None of these has a measured share: each explains at most what is left beside the hosts.
    let rest = Some(seen.rest() - seen.host_share()).filter(|&rest| rest >= MIN_SHARE)?;
    let rerouted = seen
        .rerouted
        .as_ref()
        .map(|(why, via)| format!("{why}: it went on via {via}"));
    let lossy = seen.lossy.first().filter(|(_, loss)| *loss > MUCH_LOSS);
    // Loss elsewhere was seen; that a shared cable costs more than predicted was not.
    let is_elsewhere = |cable: &str| lossy.is_some_and(|(name, _)| !is_named(name, cable));
    let contended = seen
        .contended
        .as_ref()
        .filter(|(cable, _)| !is_elsewhere(cable))
        .map(|(cable, senders)| {
            format!("the cable {cable}, over which the plan has {senders} hosts send at a time")
        });
    let apart = seen
        .apart
        .as_ref()
        .map(|pair| format!("the path between {pair}, where nothing gets through: both were served beside the others"));
    let lossy = lossy.map(|(name, loss)| format!("{name} (loss {:.1} %)", loss * 100.0));
    let is_repeated = seen.repeated > MUCH_LOSS;
    let repeated = is_repeated.then(|| {
        format!(
            "loss: {} sent {:.1} % of its frames again",
            seen.root,
            seen.repeated * 100.0
        )
    });
    rerouted
        .or(contended)
        .or(apart)
        .or(lossy)
        .or(repeated)
        .map(|words| (rest, words))
}

/// Whether the name of lossy cables includes the cable, in either direction.
fn is_named(name: &str, cable: &str) -> bool {
    let turned = cable
        .split_once('–')
        .map(|(from, to)| format!("{to}–{from}"));
    let is_in = |part: &str| name.split([' ', ',']).any(|word| word == part);
    is_in(cable) || turned.is_some_and(|turned| is_in(&turned))
}

/// Returns the wait for a host that failed in the end, if links or prediction explain the time
/// without it. Before and after it the links may have been full.
fn of_the_lost(seen: &Evidence) -> Option<String> {
    let (hosts, seconds) = seen.awaited.as_ref().filter(|_| seen.has_failed)?;
    let share = seen.part(*seconds);
    (share >= LOST && share * 2.0 >= seen.rest()).then(|| in_vain(hosts, *seconds))
}

fn in_vain(hosts: &str, seconds: f64) -> String {
    format!("{hosts}: nothing moved for {seconds:.1} s while it was waited for")
}

fn of_hosts(seen: &Evidence) -> Option<Cause> {
    let awaited = seen
        .awaited
        .as_ref()
        .map(|(hosts, seconds)| (seen.part(*seconds), in_vain(hosts, *seconds)));
    let last = seen.last.as_ref().map(|(hosts, seconds)| {
        (
            seen.part(*seconds),
            format!("{hosts}, which finished {seconds:.1} s after all others"),
        )
    });
    let rest = Some(seen.rest()).filter(|&rest| rest >= MIN_SHARE);
    let demoted = rest.zip(demoted_text(&seen.demoted));
    let activity = |seen: &Option<(String, f64)>, words: &str| {
        let (host, share) = rest.and(seen.as_ref())?;
        Some((
            *share,
            format!("{host}: {words} ({:.0} % of the time)", share * 100.0),
        ))
    };
    let held_up = activity(&seen.held_up, "its disk, or the reader of its output");
    let synced = activity(&seen.synced, "verifying and syncing");
    // Cables are idle while hosts look up and verify the data that they hold.
    let partial = rest.filter(|_| seen.is_partial).map(|rest| {
        (
            rest,
            "the hosts, which looked for what they have and checked it: little was sent".to_owned(),
        )
    });
    let awaited = awaited.filter(|&(share, _)| share >= MIN_SHARE);
    strongest([
        awaited,
        last.filter(|&(share, _)| share >= LATE_SHARE),
        demoted,
        held_up,
        synced,
        partial,
    ])
}

fn demoted_text(demoted: &[(String, Option<String>)]) -> Option<String> {
    match demoted {
        [] => None,
        [(host, Some(text))] => Some(format!("{host}, which {text}")),
        _ => {
            let hosts: Vec<String> = demoted.iter().map(|(host, _)| host.clone()).collect();
            Some(format!(
                "{}, served beside the others from then on",
                nodeset::fold(&hosts)
            ))
        }
    }
}

fn of_the_links(seen: &Evidence) -> Option<Cause> {
    let carried = match &seen.busiest {
        Some((cable, copies)) if *copies < 1.5 => {
            format!("the busiest, {cable}, carries the bytes once")
        }
        Some((cable, copies)) => {
            format!("the busiest, {cable}, carries the bytes {copies:.0} times")
        }
        None if seen.is_cast => "each carries every frame once".to_owned(),
        None => "they carry the bytes".to_owned(),
    };
    let slow = seen
        .slow_cable
        .as_ref()
        .map(|cable| format!("{cable}, which is known to be slower than the others"));
    let measured = seen
        .link_share()
        .map(|share| share.min(1.0))
        .filter(|&share| share >= MEASURED_SHARE)
        .map(|share| {
            (
                share,
                format!(
                    "the links themselves: {carried}, at {:.0} % of what two hosts alone reach",
                    share * 100.0
                ),
            )
        });
    // The time was predicted for receivers of which some went away.
    let as_predicted = seen.predicted_share().filter(|_| !seen.has_failed);
    let predicted = as_predicted.map(|share| {
        let times = share.max(f64::MIN_POSITIVE);
        let words = match seen.link_share() {
            Some(share) if share < MEASURED_SHARE => {
                format!(
                    "the predicted time, {:.0} % of it on the links",
                    share * 100.0
                )
            }
            _ => format!("the links themselves, as predicted: {carried}"),
        };
        (
            times.min(1.0 / times) * PREDICTED,
            slow.clone().unwrap_or(words),
        )
    });
    strongest([
        measured,
        predicted.filter(|&(share, _)| share >= MEASURED_SHARE),
    ])
}

fn strongest<const N: usize>(causes: [Option<Cause>; N]) -> Option<Cause> {
    causes
        .into_iter()
        .flatten()
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
}

fn unknown(seen: &Evidence) -> String {
    if seen.is_short {
        return "not known: so short a transfer is mostly its beginning and its end".to_owned();
    }
    let share = seen.link_share();
    let links = share.map(|share| {
        let cable = seen
            .busiest
            .as_ref()
            .map_or("the cables", |(cable, _)| cable);
        format!(
            "{cable} carried {:.0} % of what two hosts alone reach",
            share * 100.0
        )
    });
    let predicted = seen
        .predicted_seconds
        .filter(|&predicted| predicted > 0.0)
        .map(|predicted| {
            format!(
                "it took {:.1} times the predicted time",
                seen.seconds / predicted
            )
        });
    let is_wrong = share.is_none() && seen.copy_seconds.is_some();
    let wrong = is_wrong
        .then(|| "the cables carried more than was measured between two hosts alone".to_owned());
    let words: Vec<String> = links.into_iter().chain(wrong).chain(predicted).collect();
    if words.is_empty() {
        return "not known: no rates were known before the start".to_owned();
    }
    let may_share =
        !seen.has_topology && !seen.is_cast && share.is_some_and(|share| share < SHARED);
    let ask = if may_share {
        "; are there several switches? `ethbcast probe --discover` finds out"
    } else {
        ""
    };
    format!("not known: {}{ask}", words.join(", and "))
}

/// Returns the cause for a receiver with all bytes, other than the path to it, in words that follow
/// "limited by".
pub fn of_receiver(kept: &Kept, receiver: &Receiver) -> Option<String> {
    let (what, share) = activity(kept, receiver).filter(|_| kept.is_of_one_round())?;
    Some(format!("{what} ({:.0} % of the time)", share * 100.0))
}

/// Returns the activity of a receiver with all bytes for most of the time, other than receiving,
/// and its share.
fn activity(kept: &Kept, receiver: &Receiver) -> Option<(String, f64)> {
    let causes = [
        (BLOCKED, "its disk, or the reader of its output"),
        ("c", "a host behind it"),
        (ENDS, "verifying and syncing"),
    ];
    let share = |(states, cause)| Some((cause, share_of(kept, &receiver.host, states)?));
    let (cause, share) = causes
        .into_iter()
        .filter_map(share)
        .find(|&(_, share)| share > MUCH_TIME)?;
    Some((cause.to_owned(), share))
}

/// States of a receiver that waits for its disk or reader, and of one with all bytes that verifies
/// and syncs. One that waits for the verdict may wait for others.
const BLOCKED: &str = "b";
const ENDS: &str = "vy";

/// Returns the share of the time that a receiver with all bytes spent in one of these states.
fn share_of(kept: &Kept, host: &str, states: &str) -> Option<f64> {
    kept.receivers
        .iter()
        .find(|one| one.host == host && Kept::has_all(one))?;
    let track = kept
        .run
        .as_ref()?
        .timeline
        .receivers
        .iter()
        .rfind(|track| track.host == host)?;
    let moments: Vec<char> = track.states.chars().filter(|&state| state != '-').collect();
    let count = moments
        .iter()
        .filter(|&&state| states.contains(state))
        .count();
    (moments.len() >= MIN_MOMENTS).then(|| count as f64 / moments.len() as f64)
}

#[cfg(test)]
mod planted;

#[cfg(test)]
mod tests;
