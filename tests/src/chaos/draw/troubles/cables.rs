//! Troubles of cables.

use std::time::Duration;

use ethbcast_collectives::session::kind;
use ethbcast_transport::wire::Kind;

use super::{Drawing, KEPT, OFF, event};
use crate::chaos::Class;
use crate::chaos::scenario::{Deed, Due, Manners, ROOT, Trouble};
use crate::lab::{Way, Which};

const LOSABLE: [(Which, Way); 24] = [
    (Which::Kind(Kind::DATA), Way::To),
    (Which::Kind(Kind::DATA), Way::From),
    (Which::Kind(Kind::ACK), Way::To),
    (Which::Kind(Kind::ACK), Way::From),
    (Which::Kind(Kind::HEARTBEAT), Way::To),
    (Which::Kind(Kind::HEARTBEAT), Way::From),
    (Which::Kind(kind::ANNOUNCE), Way::To),
    (Which::Kind(kind::JOIN), Way::From),
    (Which::Kind(kind::VIEW), Way::To),
    (Which::Kind(kind::READY), Way::From),
    (Which::Kind(kind::STATUS), Way::From),
    (Which::Kind(kind::STATUS), Way::To),
    (Which::Kind(kind::DONE), Way::From),
    (Which::Kind(kind::VERDICT), Way::To),
    (Which::Unicast, Way::To),
    (Which::Unicast, Way::From),
    (Which::Unicast, Way::Both),
    (Which::Multicast, Way::To),
    (Which::Multicast, Way::From),
    (Which::All, Way::To),
    (Which::All, Way::From),
    (Which::Large(1000), Way::To),
    (Which::Large(1000), Way::From),
    (Which::Peer(ROOT), Way::Both),
];

impl Drawing<'_> {
    pub(super) fn link(&mut self) -> Trouble {
        let for_good = self.random.chance(0.35);
        let is_root = !for_good && self.random.chance(0.3);
        let host = if is_root { ROOT.to_owned() } else { self.hosts.take(self.random) };
        let set = if self.random.chance(0.6) { Deed::Port } else { Deed::Link };
        let (phase, due, then) = self.moment();
        let lasts = self.bearable();
        let due = if is_root && due == Due::Joined { Due::Start } else { due };
        let mut events = vec![event(&host, set(false), due, then)];
        let what = if set(true) == Deed::Port(true) { "port" } else { "interface" };
        let mut words = format!("{what} of {host} down in {phase}");
        if !for_good {
            words += &format!(" for {:.2} s", lasts.as_secs_f64());
            events.push(event(&host, set(true), due, then + lasts));
        }
        let marred = if for_good { vec![(host, OFF)] } else { Vec::new() };
        let keeps_out = for_good && due == Due::Joined;
        // A host that is cut off waits for a sender for as long as `--max-wait` allows.
        let extra = self.gone() + lasts + if for_good { self.terms.receive_wait } else { Duration::ZERO };
        Trouble { events, marred, keeps_out, extra, ..Self::nothing(Class::Link, words) }
    }

    pub(super) fn drop(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let (which, way) = self.one_of(&LOSABLE);
        let (for_good, fraction) = (self.random.chance(0.6), self.one_of(&[1.0, 1.0, 0.9, 0.5]));
        let (phase, due, then) =
            if self.random.chance(0.3) { ("all phases", Due::Before, Duration::ZERO) } else { self.moment() };
        let lasts = self.bearable();
        let mut events = vec![event(&host, Deed::Faults(which, way, fraction), due, then)];
        let mut words = format!("{:.0} % of {} {way:?} {host} lost in {phase}", fraction * 100.0, which.name());
        if !for_good {
            words += &format!(" for {:.2} s", lasts.as_secs_f64());
            let due = if due == Due::Before { Due::Start } else { due };
            events.push(event(&host, Deed::Heal, due, then + lasts));
        }
        let marred = if for_good { vec![(host, KEPT)] } else { Vec::new() };
        let keeps_out = for_good && matches!(due, Due::Before | Due::Joined);
        let extra = self.gone() * 2 + lasts + if for_good { self.terms.receive_wait } else { Duration::ZERO };
        Trouble { events, marred, keeps_out, extra, ..Self::nothing(Class::Drop, words) }
    }

    pub(super) fn loss(&mut self) -> Trouble {
        let fraction = self.one_of(&[0.001, 0.01, 0.03, 0.1]);
        let events = (0..=7).map(|host| event(&format!("n{host}"), Deed::Loss(fraction), Due::Before, Duration::ZERO));
        let words = format!("{} % everywhere", fraction * 100.0);
        let extra = self.scenario.transfer() * 8 + Duration::from_secs(5);
        Trouble { events: events.collect(), extra, ..Self::nothing(Class::Loss, words) }
    }

    pub(super) fn relay(&mut self) -> Trouble {
        let host = if self.random.chance(0.2) { ROOT.to_owned() } else { self.hosts.take(self.random) };
        let mut some = |most: f64| if self.random.chance(0.5) { most * self.random.unit() } else { 0.0 };
        let manners = Manners {
            drop: some(0.02),
            corrupt: some(0.02),
            damage: some(0.002),
            duplicate: some(0.2),
            reorder: some(0.1),
            late: Duration::from_secs_f64(0.001 + some(0.01)),
            jitter: Duration::from_secs_f64(some(0.003)),
        };
        let words = format!(
            "cable of {host}: {:.1} % lost, {:.1} % damaged, {:.2} % unseen, {:.1} % twice, \
             {:.1} % up to {:.1} ms late, {:.1} ms jitter",
            manners.drop * 100.0,
            manners.corrupt * 100.0,
            manners.damage * 100.0,
            manners.duplicate * 100.0,
            manners.reorder * 100.0,
            manners.late.as_secs_f64() * 1000.0,
            manners.jitter.as_secs_f64() * 1000.0
        );
        let events = vec![event(&host, Deed::Detour(manners), Due::Before, Duration::ZERO)];
        let extra = self.scenario.transfer() * 12 + Duration::from_secs(10);
        Trouble { events, extra, ..Self::nothing(Class::Relay, words) }
    }
}
