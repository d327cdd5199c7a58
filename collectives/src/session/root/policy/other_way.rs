//! Changes of a running transfer: from a tree to a cast, or to another tree, if the first proves
//! far slower.

use super::planner::{Planner, host_name};
use super::stall_watch::WatchContext;
use crate::Route;
use crate::measure::RateComparison;
use crate::membership::ack_tree::AckTree;
use crate::session::message::MemberState;
use crate::session::root::config::RootConfig;
use crate::session::root::members::{MemberEntry, Members};
use crate::session::view::View;
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::{Identity, Rank};
use ethbcast_transport::{Instant, MacAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

const WORSE: f64 = 1.5;
const LOOKS: usize = 10;
const MAX_TRIALS: u32 = 2;
const TRIAL_PART: u64 = 200;
/// Numbers of hosts that are compared while the stream pauses: more would take too long.
const MOST_COMPARED: RangeInclusive<usize> = 2..=64;
/// Time of a train to one host.
const TRAIN: Duration = Duration::from_millis(5);
/// Factor between the time that a tree takes and what is predicted for it, above which its slow
/// hosts do not explain it.
const MAX_UNEXPLAINED: f64 = 2.0;
/// Status periods that a change takes, beside frames and trains under way.
const CHANGE_PERIODS: u32 = 4;

const CABLE_IS_SLOW: &str =
    "some hosts are behind a slow cable, over which the bytes went again and again";
const HOSTS_ARE_SLOW: &str = "hosts on slow cables sent to others";
pub const CAST_IS_FASTER: &str =
    "each host takes far longer to get the bytes from another than frames to all take";

/// Change from a tree to a cast, if the tree is slower by the factor [`WORSE`], with the change
/// included, at [`LOOKS`] consecutive checks, one for each status period. An algorithm that the
/// user chose is not replaced. A chain that has replaced a cast may be the slower of the two:
/// `seen` is the number of frames of that cast that arrived everywhere in a second.
#[derive(Clone, Debug)]
pub struct CastChange {
    is_watching: bool,
    seen: Option<f64>,
    looks: usize,
    trial: Option<RateComparison>,
    trials: u32,
}

impl CastChange {
    pub fn new(view: &View, config: &RootConfig) -> CastChange {
        let is_tree = view.via != Via::Cast && !view.via.is_in_blocks();
        let is_watching = matches!(config.route, Route::Auto)
            && is_tree
            && view.may_reroute()
            && !view.selective
            && !config.late;
        let is_watching = is_watching && config.routed.is_none();
        CastChange {
            is_watching,
            seen: None,
            looks: 0,
            trial: None,
            trials: 0,
        }
    }

    pub fn watch(&mut self, cast_rate: f64) {
        (self.is_watching, self.seen, self.looks) = (self.seen.is_none(), Some(cast_rate), 0);
    }

    pub fn trial_mut(&mut self) -> Option<&mut RateComparison> {
        self.trial.as_mut()
    }

    pub fn trial(&self) -> Option<&RateComparison> {
        self.trial.as_ref()
    }

    /// Whether the tree has lately been slower than a cast would be, which may still take its place.
    pub fn is_considered(&self) -> bool {
        let may_decide = self.seen.is_some() || self.trials < MAX_TRIALS;
        self.trial.is_some() || (self.is_watching && self.looks > 0 && may_decide)
    }

    /// Returns the longest time in which the frames under way arrive, if the stream is to continue
    /// as a cast then.
    pub fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (planner, identity): (&Planner, &Identity),
        is_suspected: bool,
    ) -> Option<Duration> {
        let open = open(members);
        let cast = self
            .seen
            .or(planner.cast_rate())
            .filter(|_| self.is_watching && planner.may_cast())?;
        let change = Change::of(scene, &open)?;
        let Change { rate, left, .. } = change;
        let is_excused = is_suspected || has_other_reason(scene, members, &open);
        let is_slow = change.is_worth(cast) && !is_excused;
        self.looks = if is_slow { self.looks + 1 } else { 0 };
        if self.seen.is_some() && self.looks >= LOOKS {
            self.is_watching = false;
            return Some(change.drain());
        }
        if let Some(trial) = self.trial.take_if(|trial| trial.is_over(scene.now)) {
            let gaps = trial.gaps()?;
            let unicast = 1e9 / gaps.usual_nanos.max(gaps.suspect_nanos);
            log::info!(
                "a cast would carry {:.0} frames a second, the tree carries {rate:.0}",
                cast.min(unicast)
            );
            // Slow cables at both ends would make a cast as slow.
            if is_slow && change.is_worth(cast.min(unicast)) {
                self.is_watching = false;
                return Some(change.drain());
            }
            self.looks = 0;
        }
        let frames = RateComparison::train_frames(planner.frame_time(), left / TRIAL_PART);
        if let ([one, .., other], Some(frames)) = (&open[..], frames)
            && self.looks >= LOOKS
            && self.trial.is_none()
            && self.trials < MAX_TRIALS
        {
            self.trials += 1;
            let macs = [one, other].map(|entry| scene.view.members[entry.rank().index()].mac);
            let train = (frames, usize::from(scene.view.payload_bytes));
            self.trial = Some(RateComparison::new(
                scene.now,
                identity.clone(),
                macs,
                train,
            ));
        }
        None
    }
}

fn open(members: &Members) -> Vec<&MemberEntry> {
    let open =
        |entry: &&MemberEntry| members.in_place(entry.rank()).is_some() && !entry.is_reported();
    members.entries().iter().filter(open).collect()
}

/// Whether a tree is slow for a reason that no other way removes: a host takes nothing or is
/// silent. Near the end no change pays.
fn has_other_reason(scene: &WatchContext<'_>, members: &Members, open: &[&MemberEntry]) -> bool {
    let is_blocked = |entry: &&MemberEntry| entry.status().state == MemberState::Blocked;
    open.iter().any(is_blocked)
        || members.has_silent(scene.now, scene.timing)
        || scene.delivery.trailer().is_some()
}

/// Frames per second of the slowest host, frames that are still to be sent, and frames that have
/// not arrived everywhere.
#[derive(Clone, Copy, Debug)]
struct Change {
    rate: f64,
    left: u64,
    stock: u64,
}

impl Change {
    fn of(scene: &WatchContext<'_>, open: &[&MemberEntry]) -> Option<Change> {
        let slowest = open
            .iter()
            .map(|entry| entry.pace().arriving())
            .reduce(|one, other| {
                let (one, other) = one.zip(other)?;
                Some(one.min(other))
            });
        let least = open.iter().map(|entry| entry.status().arrived).min();
        let sent = scene.delivery.blocks().frames();
        Some(Change {
            rate: slowest.flatten()?,
            left: scene.frames_left()?,
            stock: sent.saturating_sub(least.unwrap_or(0)),
        })
    }

    fn drain(&self) -> Duration {
        Duration::try_from_secs_f64(self.stock as f64 / self.rate.max(1.0)).unwrap_or(Duration::MAX)
    }

    fn seconds(&self, rate: f64) -> f64 {
        self.left as f64 / rate.max(1.0)
    }

    fn is_worth(&self, other: f64) -> bool {
        let [tree, other] = [self.rate, other].map(|rate| self.seconds(rate));
        tree > other * WORSE && tree > other + self.drain().as_secs_f64()
    }
}

/// Change from a tree to another one, if each host receives less than the links carry, by the
/// factor [`WORSE`], at [`LOOKS`] consecutive checks, and nothing else explains it. Then a cable
/// between switches may be slow, and the bytes cross it again and again. The stream pauses, trains
/// to all hosts show which are behind that cable, and it continues along the better tree. This is
/// done once. A way or a network that the user gave is not replaced.
#[derive(Clone, Debug)]
pub struct TreeChange {
    is_watching: bool,
    looks: usize,
    /// Time of the first of these checks, and the frames that had arrived everywhere.
    since: (Instant, u64),
}

impl TreeChange {
    pub fn new(view: &View, config: &RootConfig) -> TreeChange {
        let is_free = matches!(config.route, Route::Auto)
            && config.topology.is_none()
            && config.routed.is_none()
            && config.rate.is_none();
        TreeChange {
            is_watching: is_free && view.may_reroute() && !view.selective && !config.late,
            looks: 0,
            since: (Instant::START, 0),
        }
    }

    /// Returns the comparison of all hosts that is due, with the longest time in which the frames
    /// under way arrive before it.
    pub fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (planner, identity): (&Planner, &Identity),
        is_excused: bool,
    ) -> Option<(Duration, HostSurvey)> {
        if !self.is_watching || scene.view.via == Via::Cast || scene.view.via.is_in_blocks() {
            return None;
        }
        let open = open(members);
        let change = Change::of(scene, &open)?;
        let children = scene.view.degrees().into_iter().max().unwrap_or(1).max(1) as f64;
        let usual = planner.link_rate()? / children;
        let is_excused =
            is_excused || scene.is_starved() || has_other_reason(scene, members, &open);
        let is_worth = |change: &Change| {
            change.is_worth(usual) && change.pays(usual, (open.len(), scene.timing.status))
        };
        let everywhere = scene
            .delivery
            .blocks()
            .frames()
            .saturating_sub(change.stock);
        if is_excused || !MOST_COMPARED.contains(&open.len()) || !is_worth(&change) {
            self.looks = 0;
            return None;
        }
        if self.looks == 0 {
            self.since = (scene.now, everywhere);
        }
        self.looks += 1;
        if self.looks < LOOKS {
            return None;
        }
        // The slowest host of a moment says less than the whole time.
        let (since, before) = self.since;
        let seconds = scene.now.since(since).as_secs_f64();
        let rate = everywhere.saturating_sub(before) as f64 / seconds.max(1e-6);
        let change = Change { rate, ..change };
        self.looks = 0;
        let frames = RateComparison::train_frames(planner.frame_time(), change.left / TRIAL_PART)
            .filter(|_| is_worth(&change))?;
        self.is_watching = false;
        let mac = |entry: &&MemberEntry| {
            let rank = entry.rank();
            (rank, scene.view.members[rank.index()].mac)
        };
        let survey = HostSurvey {
            identity: identity.clone(),
            hosts: open.iter().map(mac).collect(),
            train: (frames, usize::from(scene.view.payload_bytes)),
            next: 0,
            running: None,
            gaps: Vec::new(),
            change,
        };
        Some((change.drain(), survey))
    }
}

impl Change {
    /// Whether the rest is long enough to pay for the comparison of these hosts, if it shows a
    /// tree of the `usual` rate.
    fn pays(&self, usual: f64, (hosts, status): (usize, Duration)) -> bool {
        let saved = self.seconds(self.rate) * (1.0 - 1.0 / WORSE);
        let trains = hosts as f64 * TRAIN.as_secs_f64() * usual / self.rate.max(1.0);
        let cost = self.drain().as_secs_f64() + trains + (status * CHANGE_PERIODS).as_secs_f64();
        saved > cost
    }
}

/// Trains from the root to all hosts, two at a time, while the stream pauses.
#[derive(Clone, Debug)]
pub struct HostSurvey {
    identity: Identity,
    hosts: Vec<(Rank, MacAddr)>,
    train: (u64, usize),
    next: usize,
    running: Option<RateComparison>,
    /// Time of a full frame to each host, in nanoseconds.
    gaps: Vec<(Rank, f64)>,
    change: Change,
}

impl HostSurvey {
    pub fn running(&self) -> Option<&RateComparison> {
        self.running.as_ref()
    }

    pub fn running_mut(&mut self) -> Option<&mut RateComparison> {
        self.running.as_mut()
    }

    /// Goes on to the next hosts once the last ones have reported. Returns whether it is over.
    pub fn go_on(&mut self, now: Instant) -> bool {
        if let Some(running) = self.running.take_if(|running| running.is_over(now)) {
            let gaps = running.gaps();
            let gaps = gaps.filter(|gaps| gaps.suspect_nanos.is_finite());
            let Some(gaps) = gaps else {
                // Of a host that says nothing, nothing is known.
                (self.next, self.gaps) = (self.hosts.len(), Vec::new());
                return true;
            };
            let [one, other] = self.pair().map(|(rank, _)| rank);
            self.gaps.push((one, gaps.usual_nanos));
            if self.next + 1 < self.hosts.len() {
                self.gaps.push((other, gaps.suspect_nanos));
            }
            self.next += 2;
        }
        let is_over = self.next >= self.hosts.len();
        if self.running.is_none() && !is_over {
            let macs = self.pair().map(|(_, mac)| mac);
            let comparison = RateComparison::new(now, self.identity.clone(), macs, self.train);
            self.running = Some(comparison);
        }
        is_over
    }

    /// Returns the next two hosts; beside the last of an odd number it is the first once more.
    fn pair(&self) -> [(Rank, MacAddr); 2] {
        let other = self.hosts.get(self.next + 1).unwrap_or(&self.hosts[0]);
        [self.hosts[self.next], *other]
    }

    /// Returns the better tree for the rest, with the planner for the network that explains best
    /// what the present one carried, and the reason in words: slow hosts are behind one cable, or
    /// each has a slow one.
    pub fn better_tree(
        &self,
        planner: &Planner,
        view: &View,
    ) -> Option<(Planner, Plan, &'static str)> {
        let usual = self.gaps.iter().map(|&(_, gap)| gap).reduce(f64::min)?;
        let gaps = self.gaps.iter().copied();
        let slow: Vec<(Rank, f64)> = gaps.filter(|&(_, gap)| gap >= usual * WORSE).collect();
        log::info!("frames take {usual:.0} ns, to slow hosts {slow:?}");
        let carried = self.change.seconds(self.change.rate);
        let networks = [
            (behind_one_cable(view, planner, &slow), CABLE_IS_SLOW),
            (on_slow_cables(view, planner, &slow), HOSTS_ARE_SLOW),
        ];
        let explained = networks.into_iter().filter_map(|(network, why)| {
            let planner = planner.in_network(network?, usual, self.change.left)?;
            let seconds = planner.seconds(view)?;
            Some(((seconds / carried).ln().abs(), seconds, planner, why))
        });
        let best = explained.min_by(|one, other| one.0.total_cmp(&other.0));
        let (_, seconds, planner, why) = best.filter(|best| best.0 <= MAX_UNEXPLAINED.ln())?;
        let ranks: Vec<Rank> = view.ranks().collect();
        let (plan, best) = planner.best_tree(&ranks)?;
        log::info!("this tree takes {seconds:.3} s, {} {best:.3} s", plan.via());
        (seconds > best * WORSE).then_some((planner, plan, why))
    }
}

fn behind_one_cable(view: &View, planner: &Planner, slow: &[(Rank, f64)]) -> Option<Topology> {
    let gap = slow.iter().map(|&(_, gap)| gap).reduce(f64::min)?;
    let is_slow = |rank: usize| slow.iter().any(|&(slow, _)| slow.index() == rank);
    let [near, far] = [false, true].map(|is_far| {
        let ranks = (0..view.members.len()).filter(|&rank| is_slow(rank) == is_far);
        names(ranks)
    });
    let rate = bits_per_second(planner, gap);
    network(&format!(
        "[[switch]]\nname = 'near'\nhosts = [{near}]\nlinks = [{{to = 'far', rate = '{rate}bit'}}]\n\
         [[switch]]\nname = 'far'\nhosts = [{far}]\n"
    ))
}

fn on_slow_cables(view: &View, planner: &Planner, slow: &[(Rank, f64)]) -> Option<Topology> {
    let all = names(0..view.members.len());
    let host = |&(rank, gap): &(Rank, f64)| {
        let (name, rate) = (host_name(rank.index()), bits_per_second(planner, gap));
        format!("[[host]]\nname = '{name}'\nrate = '{rate}bit'\n")
    };
    let hosts: String = slow.iter().map(host).collect();
    let is_any = !slow.is_empty();
    network(&format!(
        "[[switch]]\nname = 'near'\nhosts = [{all}]\n{hosts}"
    ))
    .filter(|_| is_any)
}

fn names(ranks: impl Iterator<Item = usize>) -> String {
    let names: Vec<String> = ranks.map(|rank| format!("'{}'", host_name(rank))).collect();
    names.join(", ")
}

fn bits_per_second(planner: &Planner, gap_nanos: f64) -> u64 {
    (planner.frame_bits() * 1e9 / gap_nanos.max(1.0)) as u64
}

/// Returns the topology in this text. A cable that is too slow for one gives none.
fn network(text: &str) -> Option<Topology> {
    Topology::parse(&format!("schema = 1\n{text}"), "the trains").ok()
}

/// Makes a cast of the view: each member acknowledges to its parent in the ack tree.
pub fn reroute(view: &mut View) {
    (view.via, view.segment_frames) = (Via::Cast, 1);
    let tree = AckTree::new(view.members.len() - 1, view.policy);
    for (position, member) in view.members.iter_mut().skip(1).enumerate() {
        let parent = tree.parent(position).map_or(0, |parent| parent + 1);
        (member.parent, member.order) = (Some(Rank(parent as u16)), tree.order(position) as u16);
    }
}
