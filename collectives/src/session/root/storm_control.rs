//! Detection of storm control: switches that drop broadcast above some rate, and the fallback to a
//! chain.
//!
//! Its sign is loss at many receivers at once, while all of them get far fewer frames than unicast
//! carries. Then the root sends nothing new to the group, repairs losses host by host, and when all
//! members are at the same frame it publishes a view in which the same stream continues down a
//! chain. If only few lose that much (one port is policed), they are demoted and served alone. A
//! single report decides nothing: a majority over several periods does, and the frames that all
//! have acknowledged.

use super::delivery::Delivery;
use super::planner::Planner;
use super::replanning::Replanning;
use super::stall_watch::{StallFinding, WatchContext};
use super::{OnSlow, Root, RootConfig, RootEvent, Route};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;
use std::time::Duration;

/// Periods over which the frame rate is measured, and those over which losses count: pacing makes
/// losses rare after a while.
const RATE_PERIODS: usize = 3;
const LOSS_PERIODS: usize = 10;
/// Losses count if they are at least one frame in this many, and at least [`MIN_LOST`] frames.
const HEAVY_PART: u64 = 10;
const MIN_LOST: u64 = 16;
/// Maximum number of frames in flight to a receiver without loss.
const ON_ITS_WAY_FRAMES: u64 = 64;
/// Fraction of the unicast rate below which a rate is low. Above it, repairs cost less than a
/// fallback in doubt.
const LOW_PART: f64 = 0.5;
/// Minimum saving of a fallback, in status periods: levelling and the new view take some.
const WORTH_PERIODS: u32 = 4;

const MANY_RECEIVERS_TEXT: &str =
    "most receivers lose most of the frames that are sent to all: switches police broadcast";
const FEW_RECEIVERS_TEXT: &str =
    "loses most of the frames that are sent to all: its port polices broadcast, or its cable is slow";

#[derive(Clone, Debug)]
struct StormControlMark {
    at: Instant,
    everywhere: u64,
    sent: u64,
    lost: Vec<(Rank, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StormControlStage {
    Watching,
    Levelling,
    Settled,
}

#[derive(Clone, Debug)]
pub(super) struct StormControl {
    stage: StormControlStage,
    marks: VecDeque<StormControlMark>,
}

impl StormControl {
    /// Only an algorithm that the user did not choose may be replaced.
    pub(super) fn new(view: &View, config: &RootConfig) -> StormControl {
        let watched = matches!(config.route, Route::Auto) && view.via == Via::Cast && view.may_reroute();
        StormControl {
            stage: if watched { StormControlStage::Watching } else { StormControlStage::Settled },
            marks: VecDeque::new(),
        }
    }

    pub(super) fn is_levelling(&self) -> bool {
        self.stage == StormControlStage::Levelling
    }

    pub(super) fn look(&mut self, scene: &WatchContext<'_>, planner: &Planner, on_slow: OnSlow) -> Vec<StallFinding> {
        if self.stage != StormControlStage::Watching {
            return Vec::new();
        }
        let blocks = scene.delivery.blocks();
        let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
        let starved = sent == blocks.frames() && !blocks.is_full() && !blocks.has_end();
        if starved || everywhere == blocks.frames() || scene.delivery.since_first_data(scene.now).is_zero() {
            // The source is the bottleneck.
            self.marks.clear();
            return Vec::new();
        }
        self.marks.push_back(StormControlMark { at: scene.now, everywhere, sent, lost: blocks.lost() });
        if self.marks.len() > LOSS_PERIODS + 1 {
            self.marks.pop_front();
        }
        let Some(rate) = self.rate().filter(|&rate| is_low(rate, planner.frame_time())) else { return Vec::new() };
        let losers = self.losers();
        let listeners = self.marks.back().map_or(0, |mark| mark.lost.len());
        if losers.len() * 2 > listeners {
            if is_worth_it(scene, rate, planner.frame_time(), listeners) {
                log::info!("{MANY_RECEIVERS_TEXT}: {rate:.0} frames a second");
                self.stage = StormControlStage::Levelling;
            }
            return Vec::new();
        }
        // The other receivers have all frames but those in flight: the few policed ones hold them
        // up.
        let has_all = |&(_, cursor): &(Rank, u64)| cursor + ON_ITS_WAY_FRAMES >= sent;
        let with_all = blocks.cursors().iter().filter(|reader| has_all(reader)).count();
        if losers.is_empty() || on_slow != OnSlow::Demote || with_all * 2 <= listeners {
            return Vec::new();
        }
        self.marks.clear();
        losers.into_iter().map(|rank| StallFinding::StepAside(rank, FEW_RECEIVERS_TEXT.to_owned())).collect()
    }

    fn rate(&self) -> Option<f64> {
        let last = self.marks.back()?;
        let first = self.marks.len().checked_sub(RATE_PERIODS + 1).map(|at| &self.marks[at])?;
        let seconds = last.at.since(first.at).as_secs_f64();
        Some(last.everywhere.saturating_sub(first.everywhere) as f64 / seconds.max(1e-6))
    }

    fn losers(&self) -> Vec<Rank> {
        let (Some(first), Some(last)) = (self.marks.front(), self.marks.back()) else { return Vec::new() };
        let heavy = (last.sent.saturating_sub(first.sent) / HEAVY_PART).max(MIN_LOST);
        let before = |rank| first.lost.iter().find(|(listener, _)| *listener == rank).map_or(0, |&(_, lost)| lost);
        let loses = |&&(rank, lost): &&(Rank, u64)| lost.saturating_sub(before(rank)) >= heavy;
        last.lost.iter().filter(loses).map(|&(rank, _)| rank).collect()
    }

    /// Switches to the chain as soon as all members are at the same frame. Returns the event if it
    /// did.
    pub(super) fn go_on(
        &mut self,
        view: &mut View,
        delivery: &mut Delivery,
        replanning: &mut Replanning,
    ) -> Option<RootEvent> {
        if !self.is_levelling() || !delivery.blocks().is_level() {
            return None;
        }
        self.stage = StormControlStage::Settled;
        let blocks = delivery.blocks();
        if blocks.has_end() && blocks.frames_everywhere() == blocks.frames() {
            return None; // The stream is complete everywhere.
        }
        replanning.reroute(view);
        delivery.hold();
        Some(RootEvent::Rerouted { via: view.via, text: MANY_RECEIVERS_TEXT.to_owned() })
    }
}

impl Root {
    /// Returns the algorithm that replaced the one chosen at the start, if one did.
    pub fn rerouted(&self) -> Option<Via> {
        let via = self.view()?.via;
        (self.choice.as_ref()?.plan.via() != via).then_some(via)
    }
}

fn is_low(rate: f64, frame_time: Duration) -> bool {
    rate * frame_time.as_secs_f64() < LOW_PART
}

fn is_worth_it(scene: &WatchContext<'_>, rate: f64, frame_time: Duration, listeners: usize) -> bool {
    let blocks = scene.delivery.blocks();
    let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
    // If the size is unknown, the rest is taken to be as long as the part sent so far.
    let all = scene.view.size.map_or(2 * sent, |size| size.div_ceil(blocks.payload_bytes().max(1) as u64));
    let left = all.max(blocks.frames()).saturating_sub(sent);
    // The part sent so far is repaired host by host; the rest goes down the chain.
    let repaired = sent.saturating_sub(everywhere) * listeners as u64;
    let other = (left + repaired) as f64 * frame_time.as_secs_f64();
    let fixed = if left > 0 { (scene.timing.status * WORTH_PERIODS).as_secs_f64() } else { 0.0 };
    all.saturating_sub(everywhere) as f64 / rate.max(1.0) > other + fixed
}
