//! Troubles of processes: killed, stopped, powered off.

use std::time::Duration;

use super::{Drawing, KEPT, event};
use crate::chaos::Class;
use crate::chaos::scenario::{Deed, Due, Promise, ROOT, Trouble};

/// SIGKILL, or an earlier regular end.
const KILLED: &[i32] = &[0, 137];

impl Drawing<'_> {
    pub(super) fn kill(&mut self) -> Trouble {
        let most = self.hosts.count() as u64;
        let most = most.min(self.one_of(&[1, 2, 3, 7]));
        let count = 1 + self.random.below(most) as usize;
        let (neighbours, one_by_one) = (self.random.chance(0.6), self.random.chance(0.4));
        let deed = if self.random.chance(0.3) { Deed::PowerOff } else { Deed::Kill };
        let killed = self.hosts.take_several(count, neighbours, self.random);
        let (phase, due, then) = self.moment();
        let step = if one_by_one { self.seconds(0.005, 0.4) } else { Duration::ZERO };
        let words = format!("{deed:?} {} in {phase}, {} ms apart", killed.join(" "), step.as_millis());
        let each = killed.iter().enumerate();
        let events = each.map(|(number, host)| event(host, deed, due, then + step * number as u32)).collect();
        let marred = killed.iter().map(|host| (host.clone(), KILLED)).collect();
        // The silence of hosts that die together is detected once.
        let extra = self.gone() * if one_by_one { 2 } else { 1 } + step * count as u32;
        Trouble { events, marred, keeps_out: due == Due::Joined, extra, ..Self::nothing(Class::Kill, words) }
    }

    pub(super) fn pause(&mut self) -> Trouble {
        let for_long = self.random.chance(0.25);
        let is_root = !for_long && self.random.chance(0.3);
        let host = if is_root { ROOT.to_owned() } else { self.hosts.take(self.random) };
        let (phase, due, then) = self.moment();
        let lasts = if for_long { self.terms.patience + self.seconds(3.0, 5.0) } else { self.bearable() };
        let words = format!("{host} stands still for {:.2} s in {phase}", lasts.as_secs_f64());
        let due = if is_root && due == Due::Joined { Due::Start } else { due };
        let events = vec![event(&host, Deed::Stop, due, then), event(&host, Deed::Continue, due, then + lasts)];
        let marred = if for_long { vec![(host, KEPT)] } else { Vec::new() };
        let keeps_out = for_long && due == Due::Joined;
        Trouble { events, marred, keeps_out, extra: lasts + self.gone(), ..Self::nothing(Class::Pause, words) }
    }

    pub(super) fn root(&mut self) -> Trouble {
        let deed = self.one_of(&[Deed::Kill, Deed::PowerOff, Deed::Terminate]);
        let (phase, due, then) = self.moment();
        // The root is there from the start.
        let due = if due == Due::Joined { Due::Start } else { due };
        let events = vec![event(ROOT, deed, due, then)];
        let extra = self.gone() + self.terms.receive_wait;
        let words = format!("{deed:?} in {phase}");
        Trouble { events, promise: Promise::Truth, extra, ..Self::nothing(Class::Root, words) }
    }

    pub(super) fn reboot(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let (phase, due, then) = self.moment();
        let down = self.seconds(0.0, 1.5);
        let words = format!("{host} in {phase}, back after {:.2} s", down.as_secs_f64());
        let events = vec![event(&host, Deed::PowerOff, due, then), event(&host, Deed::Restart, due, then + down)];
        // The new receiver may be too late, and then waits for a sender for its whole limit.
        let extra = self.gone() + self.terms.receive_wait;
        let marred = vec![(host, &[0, 1, 3, 137][..])];
        Trouble { events, marred, keeps_out: due == Due::Joined, extra, ..Self::nothing(Class::Reboot, words) }
    }
}
