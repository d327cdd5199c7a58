//! Detection, within a second, of receivers behind a cable far slower than the others'.
//!
//! Status reports name a suspect: the host that the others wait for, or that falls far behind its
//! parent. They do not say whose cable is slow, its own or its parent's, nor whether others could
//! be faster. So the root sends a short train to the suspect and one to another host, and compares
//! the arrivals. A suspect that is proved slow is demoted once it has cost the others a part of the
//! time that the rest would take without it. The suspect may prove fast while its parent's feed
//! stays full of frames for it, though the parent does not wait for it. Then the parent sends
//! slowly, and is demoted in its place.

use super::planner::Planner;
use super::stall_watch::{StallVerdict, WatchContext};
use super::stragglers::{Straggler, frames_text};
use crate::measure::{ComparedGaps, RateComparison};
use crate::session::message::MemberState;
use crate::session::root::config::OnSlow;
use crate::session::root::members::progress::RATE_OVER;
use crate::session::root::members::{MemberEntry, Members};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::{Identity, Rank};
use std::time::Duration;

const SLOW_RATIO: f64 = 0.5;
const FULL_FOR: Duration = Duration::from_millis(500);
const MAY_COST: f64 = 0.1;
const MIN_DELAY: Duration = Duration::from_millis(300);
const COMPARED_AFTER: Duration = Duration::from_millis(200);
const HOLDS: Duration = Duration::from_secs(1);
const FAST_HOLDS: Duration = Duration::from_secs(10);
/// Least time in which a host reads a frame, in nanoseconds: frames with smaller gaps waited for
/// it.
const READ_NANOS: f64 = 200.0;
/// Time within which a host answers, whatever its processor does, if the frames reach it.
const ANSWERED_WITHIN: Duration = Duration::from_millis(150);
const MAX_COMPARISONS: u32 = 3;
const FRAMES_PART: u64 = 200;

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    rank: Rank,
    lasted: Duration,
    kept_full: Duration,
}

/// Result of a comparison of a host with the one `beside` it, which takes `others` frames per
/// second.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    rank: Rank,
    at: Instant,
    is_slow: bool,
    beside: Rank,
    others: f64,
}

impl Judgement {
    /// Judges by the gaps of two trains; `None` if they prove neither. A host that was kept from
    /// its processor takes a train at once, faster than its cable carries it, or far more slowly
    /// than hosts have taken the session's own frames, `best` in frames per second.
    fn new(
        at: Instant,
        hosts: (Rank, Rank),
        gaps: ComparedGaps,
        (link_rate, best): (Option<f64>, f64),
    ) -> Option<Judgement> {
        if link_rate.is_none() && gaps.usual_nanos < READ_NANOS {
            return None;
        }
        let usual_nanos = gaps
            .usual_nanos
            .max(link_rate.map_or(0.0, |rate| 1e9 / rate));
        let is_slow = usual_nanos <= gaps.suspect_nanos * SLOW_RATIO;
        let judgement = Judgement {
            rank: hosts.0,
            at,
            is_slow,
            beside: hosts.1,
            others: 1e9 / usual_nanos,
        };
        let is_fast = !is_slow && judgement.others >= best * SLOW_RATIO;
        (is_fast || gaps.is_sure && is_slow).then_some(judgement)
    }
}

#[derive(Clone, Debug)]
struct Trial {
    suspect: Rank,
    beside: Rank,
    comparison: RateComparison,
}

/// Search for hosts that take less than [`SLOW_RATIO`] of the rate of others. A host is compared
/// once it has been suspected for [`COMPARED_AFTER`], and again once the result no longer holds. A
/// slow one is demoted once it has held up the others for [`MIN_DELAY`], and cost them [`MAY_COST`]
/// of the time that the rest would take without it.
#[derive(Clone, Debug, Default)]
pub struct SlowHosts {
    suspicion: Option<Suspicion>,
    trial: Option<Trial>,
    trials: u32,
    judged: Vec<Judgement>,
    proved: Vec<(Rank, f64)>,
    cleared: Option<(Rank, Instant)>,
}

impl SlowHosts {
    /// Takes the host that the others wait for. Returns the demotion of a host that is proved slow,
    /// once it has lasted.
    pub fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        straggler: Option<Straggler>,
        (planner, identity): (&Planner, &Identity),
    ) -> Option<StallVerdict> {
        let is_tree = scene.view.via != Via::Cast && !scene.view.via.is_in_blocks();
        if !is_tree || scene.delivery.since_first_data(scene.now).is_zero() {
            return None;
        }
        // If the length is unknown, the rest is taken to be as long as the part sent so far.
        let left = scene.frames_left();
        let to_come = left.unwrap_or(scene.delivery.blocks().frames());
        self.conclude(scene.now, members, planner.link_rate());
        self.suspect(scene, members, straggler);
        let suspicion = self.suspicion?;
        let rate = members.entry(suspicion.rank)?.pace().mean(RATE_OVER);
        // A host with several children gives each a share of its cable.
        let children = scene.view.degrees().into_iter().max().unwrap_or(1).max(1) as f64;
        let (judgement, holds) = (
            self.judgement(suspicion.rank, scene),
            scene.timing.or_reports(HOLDS, 3),
        );
        if judgement.is_none_or(|judged| scene.now.since(judged.at) >= holds) {
            let usual = planner
                .link_rate()
                .map(|rate| (rate / children).max(members.rates().best()));
            if usual
                .zip(rate)
                .is_none_or(|(usual, rate)| rate <= usual * SLOW_RATIO)
            {
                self.compare(scene, members, (to_come, planner.frame_time()), identity);
            }
        }
        let judgement = judgement.filter(|_| self.trial.is_none())?;
        let is_relay_slow = suspicion.kept_full >= scene.timing.or_reports(FULL_FOR, 2);
        let relay = Some(scene.parent(suspicion.rank))
            .filter(|&relay| is_relay_slow && relay != Rank::ROOT);
        let culprit = if judgement.is_slow {
            suspicion.rank
        } else {
            relay?
        };
        // A source of unknown length may not be re-readable for a demoted host: that one is shown
        // more patience.
        let left = left?;
        // A train beside the session's own frames may measure less than hosts have reached.
        let (rate, share) = (
            rate?,
            (judgement.others / children).max(members.rates().best()),
        );
        let is_late =
            suspicion.lasted >= patience(scene, (left, rate, share)) && rate <= share * SLOW_RATIO;
        self.suspicion.take_if(|_| is_late)?;
        // A relay that sends slowly was compared with none.
        if judgement.is_slow {
            self.proved.push((culprit, rate));
        }
        Some(StallVerdict::Demote(
            culprit,
            words(scene.view, (culprit, suspicion.rank), rate, judgement),
        ))
    }

    fn suspect(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        straggler: Option<Straggler>,
    ) {
        let held = straggler
            .filter(|straggler| !straggler.is_of_its_disk())
            .map(|straggler| straggler.rank);
        let found = held.or_else(|| scene.fallen_behind(members));
        let period = scene.timing.status;
        self.suspicion = match (self.suspicion, found) {
            (Some(known), Some(rank)) if rank == known.rank => Some(Suspicion {
                lasted: known.lasted + period,
                ..known
            }),
            // A check that misses it only counts down.
            (Some(known), _) if known.lasted > period => Some(Suspicion {
                lasted: known.lasted - period,
                ..known
            }),
            (_, Some(rank)) => Some(Suspicion {
                rank,
                lasted: period,
                kept_full: Duration::ZERO,
            }),
            (_, None) => None,
        };
        if let Some(known) = &mut self.suspicion {
            let is_kept_full = scene.keeps_full(members, known.rank);
            known.kept_full = if is_kept_full {
                known.kept_full + period
            } else {
                Duration::ZERO
            };
        }
    }

    fn compare(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (left, frame_time): (u64, Duration),
        identity: &Identity,
    ) {
        let Some(Suspicion { rank, lasted, .. }) = self.suspicion.filter(|_| self.trial.is_none())
        else {
            return;
        };
        let holds = scene.timing.or_reports(HOLDS, 3);
        let is_cleared = self
            .cleared
            .is_some_and(|(cleared, at)| cleared == rank && scene.now.since(at) < holds);
        if lasted < scene.timing.or_reports(COMPARED_AFTER, 2)
            || self.trials == MAX_COMPARISONS
            || is_cleared
        {
            return;
        }
        let frames = RateComparison::train_frames(frame_time, left / FRAMES_PART);
        let Some((frames, beside)) = frames.zip(scene.idle_host(members, rank)) else {
            return;
        };
        let mac = |rank: Rank| scene.view.members[rank.index()].mac;
        let payload_bytes = usize::from(scene.view.payload_bytes);
        log::info!("rank {rank} is compared with rank {beside}: how fast do frames reach it?");
        self.trials += 1;
        let comparison = RateComparison::new(
            scene.now,
            identity.clone(),
            [mac(beside), mac(rank)],
            (frames, payload_bytes),
        );
        self.trial = Some(Trial {
            suspect: rank,
            beside,
            comparison,
        });
    }

    fn conclude(&mut self, now: Instant, members: &Members, link_rate: Option<f64>) {
        // A host that has sent frames since then does not have those of the train: they wait in a
        // long queue.
        let speaks = |trial: &Trial| {
            let told_at = members
                .entry(trial.suspect)
                .and_then(|entry| entry.pace().reported_at());
            let since = trial.comparison.lacks_second_since();
            told_at
                .zip(since)
                .is_some_and(|(told_at, since)| told_at >= since + ANSWERED_WITHIN)
        };
        let is_over = |trial: &mut Trial| trial.comparison.is_over(now) || speaks(trial);
        let Some(Trial {
            suspect,
            beside,
            comparison,
            ..
        }) = self.trial.take_if(is_over)
        else {
            return;
        };
        let gaps = comparison.gaps();
        log::info!("rank {suspect} beside rank {beside}: {gaps:?}");
        let judged = gaps.and_then(|gaps| {
            Judgement::new(
                now,
                (suspect, beside),
                gaps,
                (link_rate, members.rates().best()),
            )
        });
        if !judged.is_some_and(|judged| judged.is_slow) {
            self.cleared = Some((suspect, now));
        }
        // A host that is no longer suspected was slow only for a moment.
        let is_suspected = self.suspicion.is_some_and(|known| known.rank == suspect);
        if let Some(judged) = judged.filter(|judged| is_suspected || !judged.is_slow) {
            self.judged.retain(|known| known.rank != suspect);
            self.judged.push(judged);
        }
    }

    fn judgement(&self, rank: Rank, scene: &WatchContext<'_>) -> Option<Judgement> {
        let lasts = |judged: &Judgement| if judged.is_slow { HOLDS } else { FAST_HOLDS };
        let holds = |judged: &&Judgement| {
            scene.now.since(judged.at) < scene.timing.or_reports(lasts(judged), 3)
        };
        self.judged
            .iter()
            .find(|judged| judged.rank == rank)
            .filter(holds)
            .copied()
    }

    /// Returns the host to blame. It is the straggler if its parent names it or a comparison has
    /// proved it slow. It is the parent if the straggler has lately proved fast. Of two that no
    /// comparison has distinguished neither is evicted; the parent may be demoted once no
    /// comparison is left.
    pub fn blame(
        &self,
        scene: &WatchContext<'_>,
        straggler: Straggler,
        on_slow: OnSlow,
    ) -> Option<Straggler> {
        let holds = |judged: &&Judgement| {
            judged.is_slow || scene.now.since(judged.at) < scene.timing.or_reports(FAST_HOLDS, 3)
        };
        let judged = self
            .judged
            .iter()
            .find(|judged| judged.rank == straggler.rank)
            .filter(holds);
        if straggler.is_named || judged.is_some_and(|judged| judged.is_slow) {
            return Some(straggler);
        }
        let is_last_resort = on_slow == OnSlow::Demote && self.trials == MAX_COMPARISONS;
        (judged.is_some() || is_last_resort).then_some(Straggler {
            rank: straggler.from,
            from: scene.parent(straggler.from),
            ..straggler
        })
    }

    /// Returns the hosts that were proved slow by trains, each with the frames per second that it
    /// took.
    pub fn proved(&self) -> &[(Rank, f64)] {
        &self.proved
    }

    /// Whether a host is being compared, or has proved slow and may be demoted.
    pub fn is_deciding(&self) -> bool {
        let is_slow = |known: Suspicion| {
            let judged = self.judged.iter();
            judged
                .filter(|judged| judged.rank == known.rank)
                .any(|judged| judged.is_slow)
        };
        self.trial.is_some() || self.suspicion.is_some_and(is_slow)
    }

    pub fn is_suspecting(&self) -> bool {
        let cleared = self.cleared.map(|(rank, _)| rank);
        self.suspicion
            .is_some_and(|known| Some(known.rank) != cleared)
            || self.trial.is_some()
    }

    pub fn trial_mut(&mut self) -> Option<&mut RateComparison> {
        self.trial.as_mut().map(|trial| &mut trial.comparison)
    }

    pub fn trial(&self) -> Option<&RateComparison> {
        self.trial.as_ref().map(|trial| &trial.comparison)
    }
}

fn patience(scene: &WatchContext<'_>, (left, rate, others): (u64, f64, f64)) -> Duration {
    let lost = (1.0 - rate / others.max(f64::MIN_POSITIVE)).max(0.1);
    let seconds = left as f64 / others.max(1.0) * MAY_COST / lost;
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(Duration::MAX)
        .max(scene.timing.or_reports(MIN_DELAY, 2))
        .min(scene.timing.slow)
}

fn words(view: &View, (culprit, suspect): (Rank, Rank), rate: f64, judgement: Judgement) -> String {
    let [rate, others] = [rate, judgement.others].map(|rate| frames_text(view, rate));
    let host = |rank: Rank| &view.members[rank.index()].host;
    if culprit == suspect {
        let beside = host(judgement.beside);
        return format!(
            "holds up the others: its cable or its processor takes {rate}, that of {beside} {others}"
        );
    }
    format!(
        "holds up the others: it sends {rate} to {}, whose cable takes as much as others, {others}",
        host(suspect)
    )
}

impl WatchContext<'_> {
    /// Whether the parent of `rank` limits it by its own cable or processor. The parent's feed is
    /// then full of frames for `rank`, but most of its reports of the last second do not name
    /// `rank`.
    fn keeps_full(&self, members: &Members, rank: Rank) -> bool {
        let by_now = |entry: &MemberEntry| entry.arrived_by(self.now, self.timing);
        let Some(parent) = members.in_place(self.parent(rank)) else {
            return false;
        };
        let kept = members
            .in_place(rank)
            .map_or(0, |entry| by_now(parent).saturating_sub(by_now(entry)));
        kept >= self.delivery.blocks().slots() / 2 && parent.mostly_waits() == Some(false)
    }

    /// Returns the member that takes far fewer frames than its parent in the same time, while
    /// neither reports a reason. Of several it is the one with the fewest frames.
    fn fallen_behind(&self, members: &Members) -> Option<Rank> {
        let takes = |entry: &MemberEntry| {
            let state = entry.status().state;
            let is_open = matches!(
                state,
                MemberState::Alive | MemberState::Starved | MemberState::WaitsForChild
            );
            entry
                .pace()
                .mean(RATE_OVER / 2)
                .filter(|_| is_open && !entry.is_reported())
        };
        let far = |entry: &&MemberEntry| {
            let rate =
                takes(entry).filter(|_| entry.status().state != MemberState::WaitsForChild)?;
            let above = takes(members.in_place(self.parent(entry.rank()))?)?;
            Some(rate <= above * SLOW_RATIO)
        };
        let in_place = members
            .entries()
            .iter()
            .filter(|entry| members.in_place(entry.rank()).is_some());
        let fallen = in_place.filter(|entry| far(entry) == Some(true));
        fallen
            .min_by_key(|entry| entry.status().arrived)
            .map(MemberEntry::rank)
    }

    /// Returns the member with which `suspect` is compared: one behind it, whose cable is idle,
    /// else one that is not above it, else its parent.
    fn idle_host(&self, members: &Members, suspect: Rank) -> Option<Rank> {
        let above = |rank: Rank| {
            let parent = |&at: &Rank| Some(self.parent(at)).filter(|&at| at != Rank::ROOT);
            std::iter::successors(parent(&rank), parent)
                .take(members.entries().len())
                .collect::<Vec<Rank>>()
        };
        let before = above(suspect);
        let class = |rank: Rank| {
            if above(rank).contains(&suspect) {
                0
            } else {
                1 + u8::from(before.contains(&rank))
            }
        };
        let others = members
            .entries()
            .iter()
            .filter(|entry| entry.rank() != suspect && !entry.is_reported());
        let in_place = others
            .map(MemberEntry::rank)
            .filter(|&rank| members.in_place(rank).is_some());
        in_place.min_by_key(|&rank| (class(rank), std::cmp::Reverse(above(rank).len()), rank))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::HOW_MANY;
    use super::*;
    use crate::membership::{Station, Timing};
    use crate::session::message::Status;
    use crate::session::root::config::{RootConfig, RootEndpoint};
    use crate::session::root::delivery::Delivery;
    use crate::session::view::tests::chain;
    use ethbcast_transport::MacAddr;

    /// Calls `check` for a chain of five hosts of which none has reported; they report as often as
    /// among `receivers`.
    fn in_a_chain(receivers: usize, check: impl FnOnce(&WatchContext<'_>, &mut Members)) {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let endpoint = RootEndpoint::new(
            RootConfig::new(station.clone(), 1, "file"),
            station,
            1,
            Rank::ROOT,
            None,
        );
        let (now, timing) = (
            Instant::START + Duration::from_secs(60),
            Timing::default().among(receivers),
        );
        let view = chain(5);
        let delivery = Delivery::new(&view, None, &endpoint);
        let scene = WatchContext {
            now,
            view: &view,
            timing: &timing,
            delivery: &delivery,
            undecided: &[],
        };
        check(&scene, &mut Members::new(now, 4, &timing));
    }

    #[test]
    fn a_relay_is_blamed_for_the_host_behind_it_only_if_that_one_proved_fast() {
        in_a_chain(4, |scene, _| {
            let straggler = |is_named| Straggler {
                rank: Rank(3),
                from: Rank(2),
                is_named,
                why: "slow",
            };
            let blamed = |judged: Option<bool>, is_named| {
                let judged = judged.map(|is_slow| Judgement {
                    rank: Rank(3),
                    at: scene.now,
                    is_slow,
                    beside: Rank(4),
                    others: 8000.0,
                });
                let hosts = SlowHosts {
                    judged: judged.into_iter().collect(),
                    ..SlowHosts::default()
                };
                hosts
                    .blame(scene, straggler(is_named), OnSlow::Demote)
                    .map(|blamed| (blamed.rank, blamed.from))
            };
            assert_eq!(blamed(None, false), None, "neither has proved slow");
            assert_eq!(blamed(Some(false), false), Some((Rank(2), Rank(1))));
            assert_eq!(blamed(Some(true), false), Some((Rank(3), Rank(2))));
            assert_eq!(
                [None, Some(false)].map(|judged| blamed(judged, true)),
                [Some((Rank(3), Rank(2))); 2]
            );
            let at = scene.now - FAST_HOLDS;
            let stale = Judgement {
                rank: Rank(3),
                at,
                is_slow: false,
                beside: Rank(4),
                others: 8000.0,
            };
            let spent = SlowHosts {
                trials: MAX_COMPARISONS,
                judged: vec![stale],
                ..SlowHosts::default()
            };
            assert!(
                spent
                    .blame(scene, straggler(false), OnSlow::Evict)
                    .is_none(),
                "it was fast some time ago"
            );
            let spent = SlowHosts {
                trials: MAX_COMPARISONS,
                ..SlowHosts::default()
            };
            let blamed = [OnSlow::Demote, OnSlow::Evict]
                .map(|on_slow| spent.blame(scene, straggler(false), on_slow));
            assert_eq!(
                blamed.map(|blamed| blamed.map(|blamed| blamed.rank)),
                [Some(Rank(2)), None]
            );
        });
    }

    #[test]
    fn a_relay_that_waits_by_each_of_its_first_reports_is_not_the_slow_one() {
        for (state, keeps) in [
            (MemberState::WaitsForChild, false),
            (MemberState::Alive, true),
        ] {
            in_a_chain(4, |scene, members| {
                let frames = scene.delivery.blocks().slots();
                for report in 1..=10 {
                    let told = Status {
                        arrived: frames,
                        consumed: frames,
                        state,
                        ..Status::default()
                    };
                    members.set_status(scene.now, Rank(2), told, frames);
                    let is_known = report >= 3;
                    assert_eq!(
                        scene.keeps_full(members, Rank(3)),
                        keeps && is_known,
                        "{state:?}, report {report}"
                    );
                }
            });
        }
    }

    #[test]
    fn however_rarely_hosts_report_one_report_makes_no_comparison_and_its_result_holds_for_two() {
        for receivers in HOW_MANY {
            in_a_chain(receivers, |scene, members| {
                let identity =
                    Station::new("group", "n0", MacAddr::default(), 1500).identity(1, Rank::ROOT);
                let straggler = Straggler {
                    rank: Rank(3),
                    from: Rank(2),
                    is_named: true,
                    why: "slow",
                };
                let mut hosts = SlowHosts::default();
                let tries = [0, 1].map(|_| {
                    hosts.suspect(scene, members, Some(straggler));
                    hosts.compare(
                        scene,
                        members,
                        (1 << 30, Duration::from_micros(12)),
                        &identity,
                    );
                    hosts.trial.is_some()
                });
                assert_eq!(tries, [false, true], "{receivers}");
                let at = scene.now - scene.timing.status * 2;
                let judged = Judgement {
                    rank: Rank(3),
                    at,
                    is_slow: true,
                    beside: Rank(4),
                    others: 8000.0,
                };
                hosts.judged.push(judged);
                assert!(hosts.judgement(Rank(3), scene).is_some(), "{receivers}");
            });
        }
    }

    #[test]
    fn a_train_that_a_sleeper_took_at_once_is_no_rate_of_its_cable() {
        let judged = |usual_nanos, suspect_nanos: f64, link_rate| {
            let gaps = ComparedGaps {
                usual_nanos,
                suspect_nanos,
                is_sure: suspect_nanos > 300_000.0,
            };
            let judgement = Judgement::new(
                Instant::START,
                (Rank(5), Rank(4)),
                gaps,
                (link_rate, 3000.0),
            );
            judgement.map(|judgement| (judgement.is_slow, judgement.others.round()))
        };
        // A frame takes 250 µs.
        assert_eq!(judged(66.0, 260_000.0, Some(4000.0)), Some((false, 4000.0)));
        assert_eq!(
            judged(66.0, 1_200_000.0, Some(4000.0)),
            Some((true, 4000.0))
        );
        assert_eq!(
            judged(300_000.0, 1_200_000.0, Some(4000.0)),
            Some((true, 3333.0))
        );
        assert_eq!(judged(300_000.0, f64::INFINITY, None), Some((true, 3333.0)));
        // Without a rate of the link nothing limits what such a train seems to say.
        assert_eq!(judged(0.01, 0.01, None), None);
        assert_eq!(judged(66.0, f64::INFINITY, None), None);
        // A difference that a pause explains proves neither a slow host nor a fast one.
        assert_eq!(judged(1_000.0, 11_000.0, None), None);
        assert_eq!(judged(1_000.0, 1_500.0, None), Some((false, 1e6)));
        // Others have taken 3000 frames/s of the session: both hosts of this train were busy.
        assert_eq!(judged(1e6, 1.1e6, None), None);
        assert_eq!(judged(600_000.0, 700_000.0, None), Some((false, 1667.0)));
    }
}
