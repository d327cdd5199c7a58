//! Tests that no rule takes a single status report for a proof: among many receivers each reports
//! rarely.

use super::stall_watch::{StallVerdict, WatchContext};
use super::stragglers::{Straggler, Stragglers};
use crate::membership::{Station, Timing};
use crate::session::message::{MemberState, Status};
use crate::session::root::config::{OnSlow, RootConfig, RootEndpoint};
use crate::session::root::delivery::Delivery;
use crate::session::root::members::Members;
use crate::session::view::View;
use crate::session::view::tests::chain;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr};

/// Numbers of receivers: the most that report each 100 ms, and the most at an MTU of 1500 and with
/// jumbo frames.
pub const HOW_MANY: [usize; 4] = [800, 2000, 5695, 10_000];

/// Hosts of each test: it depends on the interval of reports, not on their number.
const HOSTS: u16 = 40;
/// Frames in a second at 1 Gbit/s.
const RATE: f64 = 81_274.0;
const REPORTS: u32 = 60;

fn ranks() -> impl Iterator<Item = Rank> {
    (1..=HOSTS).map(Rank)
}

/// Frames that have arrived by `now` at a host that takes `part` of the rate.
fn took(now: Instant, part: f64) -> Status {
    let frames = (RATE * part * now.as_secs_f64()) as u64;
    Status {
        arrived: frames,
        consumed: frames,
        ..Status::default()
    }
}

/// Plays a session whose members report as often as among `receivers`, each at another time of the
/// period. `told` returns their reports, `None` for a lost one; `look` is called once a period.
fn played(
    (receivers, via): (usize, Via),
    told: impl Fn(Rank, u32, Instant) -> Option<Status>,
    mut look: impl FnMut(&WatchContext<'_>, &mut Members),
) {
    let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
    let endpoint = RootEndpoint::new(
        RootConfig::new(station.clone(), 1, "file"),
        station,
        1,
        Rank::ROOT,
        None,
    );
    let (timing, view) = (
        Timing::default().among(receivers),
        View {
            via,
            ..chain(HOSTS + 1)
        },
    );
    let delivery = Delivery::new(&view, None, &endpoint);
    let mut members = Members::new(Instant::START, HOSTS, &timing);
    ranks().for_each(|rank| members.set_ready(Instant::START, rank, view.epoch));
    for report in 0..REPORTS {
        let begin = Instant::START + timing.status * report;
        for rank in ranks() {
            // 17 and 40 have no common divisor, so that no two hosts report at one time.
            let now = begin
                + timing.status * (u32::from(rank.0) * 17 % u32::from(HOSTS)) / u32::from(HOSTS);
            if let Some(status) = told(rank, report, now) {
                members.on_frame(now, rank);
                members.set_status(now, rank, status, u64::MAX);
            }
        }
        let now = begin + timing.status;
        members.rates_mut().sent(now, took(now, 1.0).arrived);
        let scene = WatchContext {
            now,
            view: &view,
            timing: &timing,
            delivery: &delivery,
            undecided: &[],
        };
        look(&scene, &mut members);
    }
}

#[test]
fn a_host_that_takes_more_than_seven_tenths_of_the_rate_is_never_demoted() {
    let part = |rank| if rank == Rank(HOSTS) { 1.0 } else { 0.78 };
    for receivers in HOW_MANY {
        let mut stragglers = vec![Stragglers::default(); usize::from(HOSTS)];
        played(
            (receivers, Via::Chain),
            |rank, _, now| Some(took(now, part(rank))),
            |scene, members| {
                for (rank, stragglers) in ranks().zip(&mut stragglers) {
                    let straggler = Straggler {
                        rank,
                        from: Rank::ROOT,
                        is_named: true,
                        why: "slow",
                    };
                    assert_eq!(scene.look(members, scene.timing.status), [], "{receivers}");
                    let found = stragglers.look(scene, members, Some(straggler), OnSlow::Demote);
                    assert_eq!(found, [], "{receivers}: {rank}");
                }
            },
        );
    }
}

#[test]
fn a_slow_host_is_demoted_without_its_parent_though_reports_of_it_are_lost() {
    for receivers in HOW_MANY {
        for slow in ranks().skip(1) {
            let (parent, mut stragglers, mut aside) =
                (Rank(slow.0 - 1), Stragglers::default(), Vec::new());
            // All take half of their rate since the middle: they wait for the slow one.
            let told = |rank, report: u32, now: Instant| {
                let middle =
                    Instant::START + Timing::default().among(receivers).status * (REPORTS / 2);
                let frames = took(now.min(middle), 1.0).arrived
                    + took(Instant::START + now.since(middle), 0.5).arrived;
                let status = Status {
                    arrived: frames,
                    consumed: frames,
                    ..Status::default()
                };
                let waits = Status {
                    state: MemberState::WaitsForChild,
                    waits_for: Some(slow),
                    ..status
                };
                let is_lost = rank == slow && report.is_multiple_of(3);
                (!is_lost).then_some(if rank == parent { waits } else { status })
            };
            played((receivers, Via::Chain), told, |scene, members| {
                let straggler = scene.straggler(members);
                aside.extend(stragglers.look(scene, members, straggler, OnSlow::Demote));
            });
            let is_it = |finding: &StallVerdict| matches!(finding, StallVerdict::Demote(rank, _) if *rank == slow);
            assert!(
                !aside.is_empty() && aside.iter().all(is_it),
                "{receivers}: {slow} {aside:?}"
            );
        }
    }
}

#[test]
fn of_hosts_that_take_frames_alike_none_seems_behind_for_the_age_of_its_report() {
    for (receivers, via) in HOW_MANY
        .into_iter()
        .flat_map(|receivers| [Via::Chain, Via::Cast].map(|via| (receivers, via)))
    {
        for child in ranks().skip(1) {
            let parent = Rank(child.0 - 1);
            let told = |rank, _, now| {
                let waits = Status {
                    state: MemberState::WaitsForChild,
                    waits_for: Some(child),
                    ..took(now, 1.0)
                };
                Some(if rank == parent {
                    waits
                } else {
                    took(now, 1.0)
                })
            };
            let mut report = 0;
            played((receivers, via), told, |scene, members| {
                report += 1;
                let found = scene
                    .straggler(members)
                    .map(|found| (found.rank, found.from, found.is_named));
                let named = Some((child, parent, true)).filter(|_| via == Via::Chain);
                // A rate is known from 200 ms on.
                assert!(
                    report < 4 || found == named,
                    "{receivers} {via}: {child} {found:?}"
                );
            });
        }
    }
}

#[test]
fn one_forged_report_of_a_mute_child_parts_no_two_hosts_and_true_ones_do() {
    for receivers in HOW_MANY {
        for (is_forged, apart) in [
            (true, Vec::new()),
            (false, vec![StallVerdict::Apart(Rank(5), Rank(6))]),
        ] {
            let told = |rank, report, now| {
                let is_mute = rank == Rank(5)
                    && if is_forged {
                        report == 10
                    } else {
                        report >= 10
                    };
                let status = took(now, 1.0);
                Some(if is_mute {
                    Status {
                        is_mute,
                        waits_for: Some(Rank(6)),
                        ..status
                    }
                } else {
                    status
                })
            };
            let mut found = Vec::new();
            played((receivers, Via::Chain), told, |scene, members| {
                // The next report comes after most of another period.
                let before_next = scene.timing.status * (5 * 17 % 40 - 1) / 40;
                let scene = WatchContext {
                    now: scene.now + before_next,
                    ..*scene
                };
                found.extend(scene.look(members, scene.timing.status));
                found.dedup();
            });
            assert_eq!(found, apart, "{receivers}");
        }
    }
}
