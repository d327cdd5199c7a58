//! Switches and cards that hold little, or police what they flood.

use crate::swarm::class::Class;
use crate::swarm::draw::Draw;
use crate::swarm::schedule::{Happening, Schedule};
use ethbcast_transport::sim::{PauseFrames, StormControl};

/// Adds the faults of one class.
pub fn add(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::StormControl => {
            let control = StormControl { frames_per_second: draw.log(20, 5000), burst_frames: draw.log(1, 100) };
            schedule.cluster.switches.iter_mut().for_each(|(settings, _)| settings.storm_control = Some(control));
            schedule.happenings.push((schedule.heals, Happening::FreeSwitches));
        }
        Class::SharedBuffer => {
            let frames = draw.log(6, 64);
            let bytes = frames * (u64::from(schedule.mtu_bytes) + 14);
            schedule.cluster.switches.iter_mut().for_each(|(settings, _)| settings.shared_bytes = Some(bytes));
        }
        Class::PauseFrames => {
            let (high_frames, lasts) = (draw.log(2, 64) as usize, draw.micros(5, 500));
            let pause = Some(PauseFrames { high_frames, lasts });
            schedule.cluster.switches.iter_mut().for_each(|(settings, _)| settings.pause = pause);
            if draw.chance(0.3) {
                schedule.cluster.hosts.iter_mut().for_each(|(_, _, settings)| settings.pause = pause);
            }
        }
        _ => schedule.cluster.shrink(draw),
    }
}
