//! A schedule described in text.

use super::application::DiskTerms;
use super::schedule::Schedule;
use std::fmt;

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule { seed, via, form, told, bytes, mtu_bytes, timing, gathers, pipe, sized, late, on_slow, .. } =
            self;
        let policy = self.tuning.policy;
        let (pushes, feed) = (self.tuning.cast.push_frames, self.tuning.feed.frames);
        writeln!(
            formatter,
            "{seed}: {} receivers via {via}, {form:?}, {bytes} bytes, MTU {mtu_bytes}, told {told}, chooses {}",
            self.hosts() - 1,
            self.chooses
        )?;
        writeln!(
            formatter,
            "  {policy:?}, pushes {pushes:?}, feed {feed}, pipe {pipe}, sized {sized}, late {late}, {on_slow:?}"
        )?;
        writeln!(formatter, "  patience {:?}, stall {:?}, gathers {gathers:?}", timing.patience, timing.stall)?;
        writeln!(formatter, "  {:?}: heals after {:?} for {:?}", self.classes, self.heals, self.core)?;
        writeln!(formatter, "  switches {:?}, trunks {:?}", self.cluster.switches, self.cluster.trunks)?;
        for (number, (host, disk)) in self.cluster.hosts.iter().zip(&self.disks).enumerate() {
            let (switch, rate, card) = host;
            let rings = (card.nic_transmit_frames, card.nic_receive_frames);
            let cpu = (card.per_frame_cost, card.wake_up);
            let DiskTerms { pace, settles, publishes, trouble, .. } = disk;
            let lazy = if number == 0 { &self.gives } else { pace };
            write!(
                formatter,
                "  n{number}: switch {switch}, {} Mbit/s, rings {rings:?}, CPU {cpu:?}",
                rate / 1_000_000
            )?;
            writeln!(
                formatter,
                ", disk {settles:?} {publishes:?} {trouble:?}, {lazy:?}, starts {:?}",
                self.starts[number]
            )?;
        }
        for (number, terms) in self.holdings.iter().enumerate() {
            terms.iter().try_for_each(|terms| writeln!(formatter, "  n{number} has {terms:?}"))?;
        }
        for rule in &self.rules {
            writeln!(formatter, "  {rule:?}")?;
        }
        for happening in &self.happenings {
            writeln!(formatter, "  {happening:?}")?;
        }
        Ok(())
    }
}
