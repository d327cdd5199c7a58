//! Random simulation: random choice of each fault's parameters.

use super::application::{DiskTrouble, Pace};
use super::class::{Class, Effect, Filter, Rule};
use super::hosts::HostSet;
use super::schedule::{Happening, Role, Schedule};
use super::seed::Draw;
use super::weather::SendTrouble;
use ethbcast_collectives::session::kind;
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{PauseFrames, StormControl};
use ethbcast_transport::wire::Kind;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const KINDS: [Kind; 14] = [
    Kind::DATA,
    Kind::ACK,
    Kind::HEARTBEAT,
    kind::ANNOUNCE,
    kind::JOIN,
    kind::REFUSE,
    kind::VIEW,
    kind::READY,
    kind::STATUS,
    kind::DONE,
    kind::VERDICT,
    kind::ABORT,
    kind::ORPHAN,
    kind::LEAVE,
];

pub fn add(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::Pause
        | Class::Crash
        | Class::RootDeath
        | Class::LinkFlap
        | Class::Restart
        | Class::Interrupt => {
            happen(schedule, class, draw);
        }
        Class::SlowCpu
        | Class::SlowDisk
        | Class::DiskError
        | Class::Lazy
        | Class::TimerSlack
        | Class::OwnTuning
        | Class::FalseHoldings => {
            slow(schedule, class, draw);
        }
        Class::SmallRings
        | Class::StormControl
        | Class::Policing
        | Class::SharedBuffer
        | Class::PauseFrames => {
            add_to_switches(schedule, class, draw);
        }
        // The class alone determines the topology.
        Class::NoPlan | Class::Mistake => {}
        Class::Wrap
        | Class::Replay
        | Class::OtherVersion
        | Class::Hostile
        | Class::TwoRoots
        | Class::Misfits
        | Class::Latecomers
        | Class::SendErrors => add_guests(schedule, class, draw),
        _ => {
            let from = if draw.chance(0.4) {
                Duration::ZERO
            } else {
                schedule.moment(draw)
            };
            let lasts = if draw.chance(0.6) {
                Duration::MAX
            } else {
                schedule.span_from(from, draw)
            };
            let until = from.saturating_add(lasts);
            let rules = rules(schedule, class, draw);
            schedule
                .rules
                .extend(rules.into_iter().map(|(filter, effect)| Rule {
                    class,
                    from,
                    until,
                    filter,
                    effect,
                }));
        }
    }
}

fn rules(schedule: &mut Schedule, class: Class, draw: &mut Draw) -> Vec<(Filter, Effect)> {
    let (one, some) = (draw.index(schedule.hosts()), schedule.some(draw));
    let share = draw.pick(&[0.01, 0.05, 0.1, 0.3]);
    let heavy = draw.pick(&[0.3, 0.7, 1.0]);
    match class {
        Class::OneWay => {
            let from = if draw.chance(0.5) {
                HostSet::one(one)
            } else {
                HostSet::ALL
            };
            let to = if from == HostSet::ALL {
                HostSet::one(one)
            } else {
                HostSet::ALL
            };
            vec![(Filter::between(from, to), Effect::Lose(1.0))]
        }
        Class::KindLoss => {
            let kinds = (0..draw.between(1, 3)).map(|_| draw.pick(&KINDS)).collect();
            let hosts = if draw.chance(0.5) { some } else { HostSet::ALL };
            let way = if draw.chance(0.5) {
                Filter::to(hosts)
            } else {
                Filter::between(hosts, HostSet::ALL)
            };
            vec![(Filter { kinds, ..way }, Effect::Lose(heavy))]
        }
        Class::CastLoss => {
            let cast = Some(draw.chance(0.7));
            vec![(
                Filter {
                    cast,
                    ..Filter::to(some)
                },
                Effect::Lose(heavy),
            )]
        }
        Class::Bursts => {
            let (begin, end, loss) = (
                draw.share(0.002, 0.05),
                draw.share(0.02, 0.5),
                draw.share(0.5, 1.0),
            );
            let effect = Effect::Burst {
                begin,
                end,
                loss,
                bad: HostSet::NONE,
            };
            vec![(
                Filter::to(if draw.chance(0.5) { some } else { HostSet::ALL }),
                effect,
            )]
        }
        Class::SubtreeLoss => {
            let behind = schedule
                .cluster
                .behind(draw.index(schedule.cluster.switches.len()));
            vec![(Filter::to(behind), Effect::LoseForAll(share))]
        }
        Class::SizeLoss => {
            let limit = draw.between(60, u64::from(schedule.mtu_bytes) + 14) as usize;
            let bytes = if draw.chance(0.8) {
                limit..usize::MAX
            } else {
                0..limit
            };
            vec![(
                Filter {
                    bytes,
                    ..Filter::to(some)
                },
                Effect::Lose(heavy),
            )]
        }
        Class::PairLoss => {
            let (from, to) = (
                HostSet::one(one),
                HostSet::one(draw.index(schedule.hosts())),
            );
            vec![(Filter::between(from, to), Effect::Lose(heavy))]
        }
        Class::Partition => {
            let there = || Effect::Lose(1.0);
            vec![
                (Filter::between(some, some.others()), there()),
                (Filter::between(some.others(), some), there()),
            ]
        }
        Class::Jitter => vec![(
            Filter::to(some),
            Effect::Delay(share, draw.micros(10, 100_000)),
        )],
        Class::Duplicate => vec![(
            Filter::to(some),
            Effect::Repeat(share, draw.micros(1, 500_000)),
        )],
        Class::Damage => {
            let kinds = if draw.chance(0.8) {
                vec![Kind::DATA]
            } else {
                Vec::new()
            };
            vec![(
                Filter {
                    kinds,
                    ..Filter::to(some)
                },
                Effect::Damage(share),
            )]
        }
        Class::MtuMismatch => short_frames_only(schedule, draw),
        Class::BitFlip => vec![(Filter::to(some), Effect::Flip(share))],
        _ => vec![(
            Filter::to(if draw.chance(0.5) { some } else { HostSet::ALL }),
            Effect::Lose(share),
        )],
    }
}

fn short_frames_only(schedule: &mut Schedule, draw: &mut Draw) -> Vec<(Filter, Effect)> {
    let host = schedule.receiver(draw);
    if draw.chance(0.5) {
        // Never healed: the port of this host stays limited.
        schedule.core.remove(host);
    }
    let (host, limit) = (
        HostSet::one(host),
        draw.between(90, u64::from(schedule.mtu_bytes) + 13) as usize,
    );
    let long = |filter| {
        (
            Filter {
                bytes: limit + 1..usize::MAX,
                ..filter
            },
            Effect::Lose(1.0),
        )
    };
    vec![
        long(Filter::to(host)),
        long(Filter::between(host, HostSet::ALL)),
    ]
}

pub fn add_guests(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::Wrap => {
            // Mostly in the middle of the stream.
            let before = if draw.chance(0.7) {
                schedule.in_stream(draw)
            } else {
                draw.micros(1, 1_000_000)
            };
            let wrap = Duration::from_micros(1 << 32);
            schedule.begins = Instant::START + (wrap - before);
        }
        Class::Replay => schedule.replays[0] = draw.log(1, 200) as usize,
        Class::OtherVersion => schedule.replays[1] = draw.log(1, 200) as usize,
        Class::Hostile => schedule.forges = Some(draw.pick(&[0.002, 0.01, 0.05])),
        Class::SendErrors => {
            let share = draw.pick(&[0.01, 0.1, 0.5]);
            schedule.sending = Some(SendTrouble {
                hosts: schedule.some(draw),
                share,
                lasts: draw.micros(1, 20_000),
            });
        }
        Class::TwoRoots => {
            let host = schedule.add_host(draw, Role::Root);
            schedule.starts[host] = if draw.chance(0.3) {
                Duration::ZERO
            } else {
                schedule.moment(draw)
            };
        }
        Class::Latecomers => {
            for _ in 0..draw.between(1, 2) {
                let host = schedule.add_host(draw, Role::Receiver);
                schedule.starts[host] = Duration::from_millis(150) + schedule.moment(draw);
            }
        }
        _ => {
            let roles = [
                Role::SmallMtu,
                Role::NoRoom,
                Role::NotWanted,
                Role::NotInTopology,
                Role::Namesake,
            ];
            for role in roles {
                let fits = role == Role::NoRoom && !schedule.sized;
                // An unwanted host is refused for that before anything else.
                if !fits && draw.chance(if role == Role::NotWanted { 0.3 } else { 0.6 }) {
                    misfit(schedule, role, draw);
                }
            }
        }
    }
}

fn misfit(schedule: &mut Schedule, role: Role, draw: &mut Draw) {
    let host = schedule.add_host(draw, role);
    if role == Role::Namesake {
        // Only the first of the two is admitted.
        schedule.core.remove(1);
        schedule.starts[host] = draw.micros(1, 200_000);
    }
}

pub fn happen(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let at = schedule.moment(draw);
    match class {
        Class::RootDeath => {
            schedule.happenings.push((at, Happening::Crash(0)));
            if draw.chance(0.3) {
                let later = draw.micros(10_000, 3_000_000);
                schedule
                    .happenings
                    .push((at + later, Happening::Restart(0)));
            }
        }
        Class::Restart => {
            let (host, later) = (schedule.receiver(draw), draw.micros(1000, 3_000_000));
            schedule.core.remove(host);
            schedule.happenings.extend([
                (at, Happening::Crash(host)),
                (at + later, Happening::Restart(host)),
            ]);
        }
        Class::Interrupt => {
            let host = if draw.chance(0.2) {
                0
            } else {
                schedule.receiver(draw)
            };
            schedule.core.remove(host);
            // Mostly in the middle of its work.
            let slow = &mut schedule.disks[host];
            slow.settles = slow.settles.max(draw.micros(100, 30_000));
            let at = if draw.chance(0.7) {
                schedule.in_stream(draw)
            } else {
                at
            };
            schedule.happenings.push((at, Happening::Interrupt(host)));
        }
        Class::Crash => {
            if draw.chance(0.2) {
                let (host, trouble) = (
                    schedule.receiver(draw),
                    draw.pick(&[DiskTrouble::DiesSettling, DiskTrouble::DiesPublishing]),
                );
                let lasts = draw.micros(100, 10_000);
                schedule.core.remove(host);
                let disk = &mut schedule.disks[host];
                (disk.trouble, disk.settles, disk.publishes) = (Some(trouble), lasts, lasts);
                return;
            }
            let many = draw.log(1, 3);
            for _ in 0..many {
                let (host, apart) = (schedule.receiver(draw), draw.pick(&[0, 1000, 100_000]));
                let at = at + Duration::from_micros(draw.between(0, apart));
                schedule.core.remove(host);
                schedule.happenings.push((at, Happening::Crash(host)));
            }
        }
        Class::LinkFlap => {
            let (host, times) = (draw.index(schedule.hosts()), draw.log(1, 8));
            let trunk = schedule.cluster.switches.len() > 1 && draw.chance(0.3);
            for _ in 0..times {
                let at = schedule.moment(draw);
                let lasts = schedule.span_from(at, draw).min(Duration::from_millis(400));
                let cut = if trunk {
                    Happening::CutTrunk(0, lasts)
                } else {
                    Happening::Cut(host, lasts)
                };
                schedule.happenings.push((at, cut));
            }
        }
        _ => {
            for _ in 0..draw.log(1, 3) {
                let (host, at) = (draw.index(schedule.hosts()), schedule.moment(draw));
                schedule
                    .happenings
                    .push((at, Happening::Pause(host, schedule.span_from(at, draw))));
            }
        }
    }
}

pub fn slow(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let some = schedule.some(draw);
    let hosts: Vec<usize> = (0..schedule.hosts())
        .filter(|&host| some.has(host))
        .collect();
    match class {
        Class::TimerSlack => {
            let slack = draw.micros(50, 10_000);
            hosts
                .into_iter()
                .for_each(|host| schedule.cluster.hosts[host].2.timer_slack = slack);
        }
        Class::OwnTuning => {
            schedule.feeds = (0..schedule.hosts())
                .map(|_| draw.pick(&[16, 32, 64, 256]))
                .collect()
        }
        Class::SlowCpu => {
            for host in hosts {
                let settings = &mut schedule.cluster.hosts[host].2;
                settings.per_frame_cost = draw.micros(1, 200);
                settings.wake_up = draw.micros(1, 2000);
            }
        }
        Class::FalseHoldings => {
            schedule.hold(draw);
            let mut holdings = std::mem::take(&mut schedule.holdings);
            for terms in holdings.iter_mut().flatten() {
                *terms = terms.with_trouble(draw);
            }
            schedule.holdings = holdings;
        }
        Class::DiskError => {
            let host = schedule.receiver(draw);
            let at = draw.between(0, schedule.bytes as u64) as usize;
            schedule.disks[host].trouble = Some(match draw.index(5) {
                0 => DiskTrouble::Full(at),
                1 => DiskTrouble::Write(at),
                2 => DiskTrouble::Stops(at),
                3 => DiskTrouble::Settle,
                _ => DiskTrouble::Publish,
            });
        }
        Class::SlowDisk => {
            for host in hosts {
                let disk = &mut schedule.disks[host];
                disk.settles = draw.micros(100, 1_000_000);
                disk.publishes = draw.micros(100, 300_000);
                disk.checks = draw.chance(0.3);
            }
        }
        _ => {
            for host in hosts {
                // All of it takes a second at most.
                let bytes =
                    (draw.log(1, schedule.bytes as u64 + 1) as usize).max(schedule.bytes / 500 + 1);
                let most = 1_000_000 / (schedule.bytes / bytes + 1) as u64;
                let pace = Pace {
                    bytes,
                    rests: draw.micros(1, most.clamp(1, 20_000)),
                };
                *(if host == 0 {
                    &mut schedule.gives
                } else {
                    &mut schedule.disks[host].pace
                }) = pace;
            }
        }
    }
}

pub fn add_to_switches(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::StormControl => {
            let control = StormControl {
                frames_per_second: draw.log(20, 5000),
                burst_frames: draw.log(1, 100),
            };
            schedule
                .cluster
                .switches
                .iter_mut()
                .for_each(|(settings, _)| settings.storm_control = Some(control));
            schedule
                .happenings
                .push((schedule.heals, Happening::FreeSwitches));
        }
        Class::Policing => police(schedule, draw),
        Class::SharedBuffer => {
            let frames = draw.log(6, 64);
            let bytes = frames * (u64::from(schedule.mtu_bytes) + 14);
            schedule
                .cluster
                .switches
                .iter_mut()
                .for_each(|(settings, _)| settings.shared_bytes = Some(bytes));
        }
        Class::PauseFrames => {
            let (high_frames, lasts) = (draw.log(2, 64) as usize, draw.micros(5, 500));
            let pause = Some(PauseFrames { high_frames, lasts });
            schedule
                .cluster
                .switches
                .iter_mut()
                .for_each(|(settings, _)| settings.pause = pause);
            if draw.chance(0.3) {
                schedule
                    .cluster
                    .hosts
                    .iter_mut()
                    .for_each(|(_, _, settings)| settings.pause = pause);
            }
        }
        _ => schedule.cluster.shrink(draw),
    }
}

/// Polices a cast that the root has chosen itself, from some moment on, until the faults heal or
/// for good. The stream lasts long enough for the root to notice.
fn police(schedule: &mut Schedule, draw: &mut Draw) {
    (schedule.chooses, schedule.via, schedule.sized) = (true, Via::Cast, true);
    // Latecomers cannot be served in blocks.
    schedule.late = true;
    schedule.tuning = Tuning::default().with_feed_frames(draw.pick(&[64, 128, 256]));
    let (payload, frame) = (
        u64::from(schedule.mtu_bytes) - 32,
        u64::from(schedule.mtu_bytes) + 38,
    );
    let frames = draw.between(300, 700);
    if !schedule.selects {
        schedule.set_bytes((frames * payload) as usize);
    }
    let lasts = Duration::from_millis(draw.between(300, 1200));
    let rate = (frames * frame * 8 * 1000 / lasts.as_millis() as u64).max(2_000_000);
    schedule
        .cluster
        .hosts
        .iter_mut()
        .for_each(|(_, own, _)| *own = rate);
    schedule
        .cluster
        .trunks
        .iter_mut()
        .for_each(|own| *own = rate);
    let control = StormControl {
        frames_per_second: draw.log(50, 2000),
        burst_frames: draw.log(1, 50),
    };
    // The root gathers and measures first.
    let at = Duration::from_millis(draw.between(350, 500)) + lasts.mul_f64(draw.share(0.0, 0.8));
    schedule.happenings.push((at, Happening::Police(control)));
    if draw.chance(0.5) {
        schedule
            .happenings
            .push((schedule.heals.max(at), Happening::FreeSwitches));
    }
}
