//! What each class of faults does to a schedule: its parameters are drawn here.

use super::application::{DiskTrouble, Pace};
use super::class::Class;
use super::draw::Draw;
use super::host_set::HostSet;
use super::rule::{Effect, Filter, Rule};
use super::schedule::{Happening, Schedule};
use ethbcast_collectives::session::kind;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Kind;
use std::time::Duration;

/// The kinds of frames that can be lost alone.
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

/// Adds the faults of one class to `schedule`.
pub fn add(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::Pause | Class::Crash | Class::RootDeath | Class::LinkFlap => happen(schedule, class, draw),
        Class::SlowCpu | Class::SlowDisk | Class::DiskError | Class::Lazy | Class::SmallRings => {
            slow(schedule, class, draw);
        }
        _ => {
            let from = if draw.chance(0.5) { Duration::ZERO } else { schedule.moment(draw) };
            let lasts = if draw.chance(0.5) { Duration::MAX } else { schedule.span_from(from, draw) };
            let (from, until) = (Instant::START + from, Instant::START + from.saturating_add(lasts));
            let rules = rules(schedule, class, draw);
            schedule.rules.extend(rules.into_iter().map(|(filter, effect)| Rule {
                class,
                from,
                until,
                filter,
                effect,
            }));
        }
    }
}

fn rules(schedule: &Schedule, class: Class, draw: &mut Draw) -> Vec<(Filter, Effect)> {
    let (one, some) = (draw.index(schedule.hosts()), schedule.some(draw));
    let share = draw.pick(&[0.01, 0.05, 0.1, 0.3]);
    let heavy = draw.pick(&[0.3, 0.7, 1.0]);
    match class {
        Class::OneWay => {
            let from = if draw.chance(0.5) { HostSet::one(one) } else { HostSet::ALL };
            let to = if from == HostSet::ALL { HostSet::one(one) } else { HostSet::ALL };
            vec![(Filter::between(from, to), Effect::Lose(1.0))]
        }
        Class::KindLoss => {
            let kinds = (0..draw.between(1, 3)).map(|_| draw.pick(&KINDS)).collect();
            let hosts = if draw.chance(0.5) { some } else { HostSet::ALL };
            let way = if draw.chance(0.5) { Filter::to(hosts) } else { Filter::between(hosts, HostSet::ALL) };
            vec![(Filter { kinds, ..way }, Effect::Lose(heavy))]
        }
        Class::CastLoss => {
            let cast = Some(draw.chance(0.7));
            vec![(Filter { cast, ..Filter::to(some) }, Effect::Lose(heavy))]
        }
        Class::Bursts => {
            let (begin, end, loss) = (draw.share(0.002, 0.05), draw.share(0.02, 0.5), draw.share(0.5, 1.0));
            let effect = Effect::Burst { begin, end, loss, bad: HostSet::NONE };
            vec![(Filter::to(if draw.chance(0.5) { some } else { HostSet::ALL }), effect)]
        }
        Class::SubtreeLoss => {
            let behind = schedule.cluster.behind(draw.index(schedule.cluster.switches.len()));
            vec![(Filter::to(behind), Effect::LoseForAll(share))]
        }
        Class::SizeLoss => {
            let limit = draw.between(60, u64::from(schedule.mtu_bytes) + 14) as usize;
            let bytes = if draw.chance(0.8) { limit..usize::MAX } else { 0..limit };
            vec![(Filter { bytes, ..Filter::to(some) }, Effect::Lose(heavy))]
        }
        Class::PairLoss => {
            let (from, to) = (HostSet::one(one), HostSet::one(draw.index(schedule.hosts())));
            vec![(Filter::between(from, to), Effect::Lose(heavy))]
        }
        Class::Partition => {
            let there = || Effect::Lose(1.0);
            vec![(Filter::between(some, some.others()), there()), (Filter::between(some.others(), some), there())]
        }
        Class::Jitter => vec![(Filter::to(some), Effect::Delay(share, draw.micros(10, 100_000)))],
        Class::Duplicate => vec![(Filter::to(some), Effect::Repeat(share, draw.micros(1, 500_000)))],
        Class::BitFlip => vec![(Filter::to(some), Effect::Flip(share))],
        _ => vec![(Filter::to(if draw.chance(0.5) { some } else { HostSet::ALL }), Effect::Lose(share))],
    }
}

fn happen(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let at = schedule.moment(draw);
    match class {
        Class::RootDeath => schedule.happenings.push((at, Happening::Crash(0))),
        Class::Crash => {
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
                let cut = if trunk { Happening::CutTrunk(0, lasts) } else { Happening::Cut(host, lasts) };
                schedule.happenings.push((at, cut));
            }
        }
        _ => {
            for _ in 0..draw.log(1, 3) {
                let (host, at) = (draw.index(schedule.hosts()), schedule.moment(draw));
                schedule.happenings.push((at, Happening::Pause(host, schedule.span_from(at, draw))));
            }
        }
    }
}

fn slow(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let some = schedule.some(draw);
    let hosts: Vec<usize> = (0..schedule.hosts()).filter(|&host| some.has(host)).collect();
    match class {
        Class::SmallRings => schedule.cluster.shrink(draw),
        Class::SlowCpu => {
            for host in hosts {
                let settings = &mut schedule.cluster.hosts[host].2;
                settings.per_frame_cost = draw.micros(1, 200);
                settings.wake_up = draw.micros(1, 2000);
            }
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
            }
        }
        _ => {
            for host in hosts {
                // All of it takes a second at most.
                let bytes = draw.log(1, schedule.bytes as u64 + 1) as usize;
                let most = 1_000_000 / (schedule.bytes / bytes + 1) as u64;
                let pace = Pace { bytes, rests: draw.micros(1, most.clamp(1, 20_000)) };
                *(if host == 0 { &mut schedule.gives } else { &mut schedule.disks[host].pace }) = pace;
            }
        }
    }
}
