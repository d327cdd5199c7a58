//! A cast of which switches throw most away, above a rate (storm control): found out while it runs, and answered.
//!
//! Its mark is loss at many receivers at once, while everybody gets far fewer frames than unicast carries. Then the
//! root sends nothing new to the group, repairs what is lacking host by host, and when all stand at the same frame it
//! tells a view in which the same stream goes on down a chain. Where few lose so much (one port is policed), they step
//! aside and are served alone. What a single word says changes nothing: who counts is the majority, over several
//! periods, and what everybody has got.

use super::delivery::Delivery;
use super::planner::Planner;
use super::replanning::Replanning;
use super::watch::{Finding, Scene};
use super::{OnSlow, Root, RootConfig, RootEvent, Route};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;
use std::time::Duration;

/// Periods over which it is judged how fast everybody gets frames, and those over which losses count: pacing makes them
/// rare after a while.
const RATE_PERIODS: usize = 3;
const LOSS_PERIODS: usize = 10;
/// Losing such a part of the frames is loss that matters, if it is so many.
const HEAVY_PART: u64 = 10;
const LEAST_LOST: u64 = 16;
/// So many frames at most are on their way to somebody who loses none.
const ON_ITS_WAY_FRAMES: u64 = 64;
/// A rate below this part of what unicast carries is low. Above it repairs cost less than what is in doubt.
const LOW_PART: f64 = 0.5;
/// So many periods at least the other way has to save: to get level and to tell the view take some.
const WORTH_PERIODS: u32 = 4;

const MANY: &str = "most receivers lose most of the frames that are sent to all: switches police broadcast";
const FEW: &str = "loses most of the frames that are sent to all: its port polices broadcast, or its cable is slow";

/// How things stood at one look.
#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    /// Frames that everybody has got, and that have been sent.
    everywhere: u64,
    sent: u64,
    /// Frames lost on the way to each listener.
    lost: Vec<(Rank, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Watching,
    /// Nothing new is cast until all stand at the same frame.
    Levelling,
    /// It goes another way, or is to go the way it does.
    Settled,
}

/// What the root does about it.
#[derive(Clone, Debug)]
pub(super) struct Policing {
    stage: Stage,
    /// The last looks at a cast that was not short of bytes to send.
    marks: VecDeque<Mark>,
}

impl Policing {
    /// Only what nobody asked for goes another way.
    pub(super) fn new(view: &View, config: &RootConfig) -> Policing {
        let watched = matches!(config.route, Route::Auto) && view.via == Via::Cast && view.may_reroute();
        Policing { stage: if watched { Stage::Watching } else { Stage::Settled }, marks: VecDeque::new() }
    }

    /// Whether nothing new is to be cast.
    pub(super) fn is_levelling(&self) -> bool {
        self.stage == Stage::Levelling
    }

    /// Looks at the cast, once in each period; who is to step aside.
    pub(super) fn look(&mut self, scene: &Scene<'_>, planner: &Planner, on_slow: OnSlow) -> Vec<Finding> {
        if self.stage != Stage::Watching {
            return Vec::new();
        }
        let blocks = scene.delivery.blocks();
        let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
        let starved = sent == blocks.frames() && !blocks.is_full() && !blocks.has_end();
        if starved || everywhere == blocks.frames() || scene.delivery.since_first_data(scene.now).is_zero() {
            // It is the source that is slow.
            self.marks.clear();
            return Vec::new();
        }
        self.marks.push_back(Mark { at: scene.now, everywhere, sent, lost: blocks.lost() });
        if self.marks.len() > LOSS_PERIODS + 1 {
            self.marks.pop_front();
        }
        let Some(rate) = self.rate().filter(|&rate| is_low(rate, planner.frame_time())) else { return Vec::new() };
        let losers = self.losers();
        let listeners = self.marks.back().map_or(0, |mark| mark.lost.len());
        if losers.len() * 2 > listeners {
            if is_worth_it(scene, rate, planner.frame_time(), listeners) {
                log::info!("{MANY}: {rate:.0} frames a second");
                self.stage = Stage::Levelling;
            }
            return Vec::new();
        }
        // The others have all that was sent, but for what is on its way: it is those few that all wait for.
        let has_all = |&(_, cursor): &(Rank, u64)| cursor + ON_ITS_WAY_FRAMES >= sent;
        let with_all = blocks.cursors().iter().filter(|reader| has_all(reader)).count();
        if losers.is_empty() || on_slow != OnSlow::Demote || with_all * 2 <= listeners {
            return Vec::new();
        }
        self.marks.clear();
        losers.into_iter().map(|rank| Finding::StepAside(rank, FEW.to_owned())).collect()
    }

    /// Frames that everybody gets in a second, of late.
    fn rate(&self) -> Option<f64> {
        let last = self.marks.back()?;
        let first = self.marks.len().checked_sub(RATE_PERIODS + 1).map(|at| &self.marks[at])?;
        let seconds = last.at.since(first.at).as_secs_f64();
        Some(last.everywhere.saturating_sub(first.everywhere) as f64 / seconds.max(1e-6))
    }

    /// Who loses much.
    fn losers(&self) -> Vec<Rank> {
        let (Some(first), Some(last)) = (self.marks.front(), self.marks.back()) else { return Vec::new() };
        let heavy = (last.sent.saturating_sub(first.sent) / HEAVY_PART).max(LEAST_LOST);
        let before = |rank| first.lost.iter().find(|(listener, _)| *listener == rank).map_or(0, |&(_, lost)| lost);
        let loses = |&&(rank, lost): &&(Rank, u64)| lost.saturating_sub(before(rank)) >= heavy;
        last.lost.iter().filter(loses).map(|&(rank, _)| rank).collect()
    }

    /// Goes on to the other way as soon as everybody stands at the same frame; what to tell of it, if it just did.
    pub(super) fn go_on(
        &mut self,
        view: &mut View,
        delivery: &mut Delivery,
        replanning: &mut Replanning,
    ) -> Option<RootEvent> {
        if !self.is_levelling() || !delivery.blocks().is_level() {
            return None;
        }
        self.stage = Stage::Settled;
        let blocks = delivery.blocks();
        if blocks.has_end() && blocks.frames_everywhere() == blocks.frames() {
            return None; // That was all.
        }
        replanning.reroute(view);
        delivery.hold();
        Some(RootEvent::Rerouted { via: view.via, text: MANY.to_owned() })
    }
}

impl Root {
    /// The way that it went on by, if that is another than the one chosen at the start.
    pub fn rerouted(&self) -> Option<Via> {
        let via = self.view()?.via;
        (self.choice.as_ref()?.plan.via() != via).then_some(via)
    }
}

/// Whether everybody gets far fewer frames than unicast carries.
fn is_low(rate: f64, frame_time: Duration) -> bool {
    rate * frame_time.as_secs_f64() < LOW_PART
}

/// Whether what is left is sent so much sooner the other way that it is worth the while.
fn is_worth_it(scene: &Scene<'_>, rate: f64, frame_time: Duration, listeners: usize) -> bool {
    let blocks = scene.delivery.blocks();
    let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
    // Of a stream without an end in sight as much again is expected as there has been.
    let all = scene.view.size.map_or(2 * sent, |size| size.div_ceil(blocks.payload_bytes().max(1) as u64));
    let left = all.max(blocks.frames()).saturating_sub(sent);
    // What was sent is repaired host by host, the rest goes down the chain.
    let repaired = sent.saturating_sub(everywhere) * listeners as u64;
    let other = (left + repaired) as f64 * frame_time.as_secs_f64();
    let fixed = if left > 0 { (scene.timing.status * WORTH_PERIODS).as_secs_f64() } else { 0.0 };
    all.saturating_sub(everywhere) as f64 / rate.max(1.0) > other + fixed
}
