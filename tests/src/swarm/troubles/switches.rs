//! Switches and cards with little buffer, and switches that police flooded frames.

use crate::swarm::class::Class;
use crate::swarm::draw::Draw;
use crate::swarm::schedule::{Happening, Schedule};
use ethbcast_planning::plan::Via;
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{PauseFrames, StormControl};
use std::time::Duration;

pub fn add(schedule: &mut Schedule, class: Class, draw: &mut Draw) {
    match class {
        Class::StormControl => {
            let control = StormControl { frames_per_second: draw.log(20, 5000), burst_frames: draw.log(1, 100) };
            schedule.cluster.switches.iter_mut().for_each(|(settings, _)| settings.storm_control = Some(control));
            schedule.happenings.push((schedule.heals, Happening::FreeSwitches));
        }
        Class::Policing => police(schedule, draw),
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

/// Polices a cast that the root has chosen itself, from some moment on, until the faults heal or
/// for good. The stream lasts long enough for the root to notice.
fn police(schedule: &mut Schedule, draw: &mut Draw) {
    (schedule.chooses, schedule.via, schedule.sized) = (true, Via::Cast, true);
    // Latecomers cannot be served in blocks.
    schedule.late = true;
    schedule.tuning = Tuning::default().with_feed_frames(draw.pick(&[64, 128, 256]));
    let (payload, frame) = (u64::from(schedule.mtu_bytes) - 32, u64::from(schedule.mtu_bytes) + 38);
    let frames = draw.between(300, 700);
    if !schedule.selects {
        schedule.set_bytes((frames * payload) as usize);
    }
    let lasts = Duration::from_millis(draw.between(300, 1200));
    let rate = (frames * frame * 8 * 1000 / lasts.as_millis() as u64).max(2_000_000);
    schedule.cluster.hosts.iter_mut().for_each(|(_, own, _)| *own = rate);
    schedule.cluster.trunks.iter_mut().for_each(|own| *own = rate);
    let control = StormControl { frames_per_second: draw.log(50, 2000), burst_frames: draw.log(1, 50) };
    // The root gathers and measures first.
    let at = Duration::from_millis(draw.between(350, 500)) + lasts.mul_f64(draw.share(0.0, 0.8));
    schedule.happenings.push((at, Happening::Police(control)));
    if draw.chance(0.5) {
        schedule.happenings.push((schedule.heals.max(at), Happening::FreeSwitches));
    }
}
