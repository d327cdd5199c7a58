//! Faults by outsiders: other roots, misfits, latecomers, replays and frames of other versions; and
//! clocks and kernels at their limits.

use crate::swarm::class::Class;
use crate::swarm::draw::Draw;
use crate::swarm::schedule::{Role, Schedule};
use crate::swarm::weather::SendTrouble;
use ethbcast_transport::Instant;
use std::time::Duration;

pub fn add(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::Wrap => {
            // Mostly in the middle of the stream.
            let before = if draw.chance(0.7) { schedule.in_stream(draw) } else { draw.micros(1, 1_000_000) };
            let wrap = Duration::from_micros(1 << 32);
            schedule.begins = Instant::START + (wrap - before);
        }
        Class::Replay => schedule.replays[0] = draw.log(1, 200) as usize,
        Class::OtherVersion => schedule.replays[1] = draw.log(1, 200) as usize,
        Class::Hostile => schedule.forges = Some(draw.pick(&[0.002, 0.01, 0.05])),
        Class::SendErrors => {
            let share = draw.pick(&[0.01, 0.1, 0.5]);
            schedule.sending = Some(SendTrouble { hosts: schedule.some(draw), share, lasts: draw.micros(1, 20_000) });
        }
        Class::TwoRoots => {
            let host = schedule.add_host(draw, Role::Root);
            schedule.starts[host] = if draw.chance(0.3) { Duration::ZERO } else { schedule.moment(draw) };
        }
        Class::Latecomers => {
            for _ in 0..draw.between(1, 2) {
                let host = schedule.add_host(draw, Role::Receiver);
                schedule.starts[host] = Duration::from_millis(150) + schedule.moment(draw);
            }
        }
        _ => {
            let roles = [Role::SmallMtu, Role::NoRoom, Role::NotWanted, Role::NotInTopology, Role::Namesake];
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
