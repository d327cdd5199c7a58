//! Faults of hosts: deaths, pauses, slow or failing disks and applications.

use crate::swarm::application::{DiskTrouble, Pace};
use crate::swarm::class::Class;
use crate::swarm::draw::Draw;
use crate::swarm::schedule::{Happening, Schedule};
use std::time::Duration;

pub fn happen(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let at = schedule.moment(draw);
    match class {
        Class::RootDeath => {
            schedule.happenings.push((at, Happening::Crash(0)));
            if draw.chance(0.3) {
                let later = draw.micros(10_000, 3_000_000);
                schedule.happenings.push((at + later, Happening::Restart(0)));
            }
        }
        Class::Restart => {
            let (host, later) = (schedule.receiver(draw), draw.micros(1000, 3_000_000));
            schedule.core.remove(host);
            schedule.happenings.extend([(at, Happening::Crash(host)), (at + later, Happening::Restart(host))]);
        }
        Class::Interrupt => {
            let host = if draw.chance(0.2) { 0 } else { schedule.receiver(draw) };
            schedule.core.remove(host);
            // Mostly in the middle of its work.
            let slow = &mut schedule.disks[host];
            slow.settles = slow.settles.max(draw.micros(100, 30_000));
            let at = if draw.chance(0.7) { schedule.in_stream(draw) } else { at };
            schedule.happenings.push((at, Happening::Interrupt(host)));
        }
        Class::Crash => {
            if draw.chance(0.2) {
                let (host, trouble) =
                    (schedule.receiver(draw), draw.pick(&[DiskTrouble::DiesSettling, DiskTrouble::DiesPublishing]));
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

pub fn slow(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    let some = schedule.some(draw);
    let hosts: Vec<usize> = (0..schedule.hosts()).filter(|&host| some.has(host)).collect();
    match class {
        Class::TimerSlack => {
            let slack = draw.micros(50, 10_000);
            hosts.into_iter().for_each(|host| schedule.cluster.hosts[host].2.timer_slack = slack);
        }
        Class::OwnTuning => schedule.feeds = (0..schedule.hosts()).map(|_| draw.pick(&[16, 32, 64, 256])).collect(),
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
                let bytes = (draw.log(1, schedule.bytes as u64 + 1) as usize).max(schedule.bytes / 500 + 1);
                let most = 1_000_000 / (schedule.bytes / bytes + 1) as u64;
                let pace = Pace { bytes, rests: draw.micros(1, most.clamp(1, 20_000)) };
                *(if host == 0 { &mut schedule.gives } else { &mut schedule.disks[host].pace }) = pace;
            }
        }
    }
}
