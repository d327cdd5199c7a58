//! Draws the parameters of each class of faults and adds them to a schedule.

mod guests;
mod hosts;
mod switches;

use super::class::Class;
use super::draw::Draw;
use super::host_set::HostSet;
use super::rule::{Effect, Filter, Rule};
use super::schedule::Schedule;
use ethbcast_collectives::session::kind;
use ethbcast_transport::wire::Kind;
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
        Class::Pause | Class::Crash | Class::RootDeath | Class::LinkFlap | Class::Restart | Class::Interrupt => {
            hosts::happen(schedule, class, draw);
        }
        Class::SlowCpu
        | Class::SlowDisk
        | Class::DiskError
        | Class::Lazy
        | Class::TimerSlack
        | Class::OwnTuning
        | Class::FalseHoldings => {
            hosts::slow(schedule, class, draw);
        }
        Class::SmallRings | Class::StormControl | Class::Policing | Class::SharedBuffer | Class::PauseFrames => {
            switches::add(schedule, class, draw);
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
        | Class::SendErrors => guests::add(schedule, class, draw),
        _ => {
            let from = if draw.chance(0.4) { Duration::ZERO } else { schedule.moment(draw) };
            let lasts = if draw.chance(0.6) { Duration::MAX } else { schedule.span_from(from, draw) };
            let until = from.saturating_add(lasts);
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

fn rules(schedule: &mut Schedule, class: Class, draw: &mut Draw) -> Vec<(Filter, Effect)> {
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
        Class::Damage => {
            let kinds = if draw.chance(0.8) { vec![Kind::DATA] } else { Vec::new() };
            vec![(Filter { kinds, ..Filter::to(some) }, Effect::Damage(share))]
        }
        Class::MtuMismatch => short_frames_only(schedule, draw),
        Class::BitFlip => vec![(Filter::to(some), Effect::Flip(share))],
        _ => vec![(Filter::to(if draw.chance(0.5) { some } else { HostSet::ALL }), Effect::Lose(share))],
    }
}

fn short_frames_only(schedule: &mut Schedule, draw: &mut Draw) -> Vec<(Filter, Effect)> {
    let host = schedule.receiver(draw);
    if draw.chance(0.5) {
        // Never healed: the port of this host stays limited.
        schedule.core.remove(host);
    }
    let (host, limit) = (HostSet::one(host), draw.between(90, u64::from(schedule.mtu_bytes) + 13) as usize);
    let long = |filter| (Filter { bytes: limit + 1..usize::MAX, ..filter }, Effect::Lose(1.0));
    vec![long(Filter::to(host)), long(Filter::between(host, HostSet::ALL))]
}
