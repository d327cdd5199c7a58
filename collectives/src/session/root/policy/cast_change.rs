//! Switch from relayed unicast to broadcast during a transfer, if relaying proves far slower. The
//! sender compares with a measured trial of broadcast frames, and switches only if no single host is
//! the cause.

use super::planner::Planner;
use super::stall_watch::WatchContext;
use crate::Route;
use crate::measure::RateComparison;
use crate::membership::ack_tree::AckTree;
use crate::session::message::MemberState;
use crate::session::root::config::RootConfig;
use crate::session::root::members::{MemberEntry, Members};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::{Identity, Rank};
use std::time::Duration;

/// Factor by which the tree must be slower than the cast, the change included.
const WORSE: f64 = 1.5;
/// Consecutive checks, one for each status period, at which the tree must be that slow.
const LOOKS: usize = 10;
/// Maximum number of trials of a cast.
const MAX_TRIALS: u32 = 2;
/// Divisor of the frames left, which limits the frames of each of a trial's two trains.
const TRIAL_PART: u64 = 200;

pub const WHY: &str = "each host takes far longer to get the bytes from another than frames to all take";

#[derive(Clone, Debug)]
pub struct CastChange {
    is_watching: bool,
    /// Frames of a cast that arrived everywhere in a second, in this session.
    seen: Option<f64>,
    looks: usize,
    trial: Option<RateComparison>,
    trials: u32,
}

impl CastChange {
    /// Only an algorithm that the user did not choose may be replaced.
    pub fn new(view: &View, config: &RootConfig) -> CastChange {
        let is_tree = view.via != Via::Cast && !view.via.is_in_blocks();
        let is_watching =
            matches!(config.route, Route::Auto) && is_tree && view.may_reroute() && !view.selective && !config.late;
        let is_watching = is_watching && config.routed.is_none();
        CastChange { is_watching, seen: None, looks: 0, trial: None, trials: 0 }
    }

    /// Watches a chain that has replaced a cast, of which `cast_rate` frames arrived everywhere in a second: it may be
    /// the slower of the two.
    pub fn watch(&mut self, cast_rate: f64) {
        (self.is_watching, self.seen, self.looks) = (self.seen.is_none(), Some(cast_rate), 0);
    }

    pub fn trial_mut(&mut self) -> Option<&mut RateComparison> {
        self.trial.as_mut()
    }

    pub fn trial(&self) -> Option<&RateComparison> {
        self.trial.as_ref()
    }

    /// Returns the longest time in which the frames under way arrive, if the stream is to continue as a cast then.
    pub fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (planner, identity): (&Planner, &Identity),
        is_suspected: bool,
    ) -> Option<Duration> {
        let open = |entry: &&MemberEntry| members.in_place(entry.rank()).is_some() && !entry.is_reported();
        let open: Vec<&MemberEntry> = members.entries().iter().filter(open).collect();
        let (cast, left) = self.seen.or(planner.cast_rate()).zip(scene.frames_left()).filter(|_| self.is_watching)?;
        let slowest = open.iter().map(|entry| entry.pace().arriving()).reduce(|one, other| {
            let (one, other) = one.zip(other)?;
            Some(one.min(other))
        });
        let rate = slowest.flatten()?;
        let is_blocked = open.iter().any(|entry| entry.status().state == MemberState::Blocked);
        let change = Change { rate, left, stock: in_stock(scene, &open) };
        let is_excused = is_blocked || is_suspected || members.has_silent(scene.now, scene.timing);
        let is_slow = change.is_worth(cast) && !is_excused && scene.delivery.trailer().is_none();
        self.looks = if is_slow { self.looks + 1 } else { 0 };
        if self.seen.is_some() && self.looks >= LOOKS {
            self.is_watching = false;
            return Some(change.drain());
        }
        if let Some(trial) = self.trial.take_if(|trial| trial.is_over(scene.now)) {
            let gaps = trial.gaps()?;
            let unicast = 1e9 / gaps.usual_nanos.max(gaps.suspect_nanos);
            log::info!("a cast would carry {:.0} frames a second, the tree carries {rate:.0}", cast.min(unicast));
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
            self.trial = Some(RateComparison::new(scene.now, identity.clone(), macs, train));
        }
        None
    }
}

/// Frames that were sent and have not arrived everywhere.
fn in_stock(scene: &WatchContext<'_>, open: &[&MemberEntry]) -> u64 {
    let least = open.iter().map(|entry| entry.status().arrived).min().unwrap_or(0);
    scene.delivery.blocks().frames().saturating_sub(least)
}

struct Change {
    rate: f64,
    left: u64,
    stock: u64,
}

impl Change {
    /// Time in which the frames that have not arrived everywhere do.
    fn drain(&self) -> Duration {
        Duration::try_from_secs_f64(self.stock as f64 / self.rate.max(1.0)).unwrap_or(Duration::MAX)
    }

    fn is_worth(&self, cast: f64) -> bool {
        let [tree, cast] = [self.rate, cast].map(|rate| self.left as f64 / rate.max(1.0));
        tree > cast * WORSE && tree > cast + self.drain().as_secs_f64()
    }
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
