//! Fault injection: random choice of a run's hosts and faults.

use super::Class;
use super::play::Terms;
use super::scenario::{
    Attack, ChaosEvent, Deed, Due, Manners, OUTSIDER, Promise, RECEIVERS, ROOT, Scenario, Trouble,
};
use crate::lab::{Way, Which};
use ethbcast_collectives::session::kind;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::Kind;
use std::time::Duration;

const VIAS: [&str; 3] = ["chain", "cast", "binary"];
const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const BYTES: std::ops::Range<u64> = 1 << 20..16 << 20;

impl Scenario {
    /// Draws the scenario of a seed; its first trouble is of class `only`, if given.
    pub fn draw(seed: u64, only: Option<Class>, terms: &Terms) -> Self {
        let mut random = Random::new(seed ^ 0xc4a0_5c4a_05c4_a05c);
        let via = pick(&mut random, &VIAS);
        let bytes = BYTES.start + random.below(BYTES.end - BYTES.start + 1);
        let rate_bits_per_second = random.chance(0.7).then_some(RATE_BITS_PER_SECOND);
        let drawn = pick(&mut random, &Class::ALL);
        let mut scenario = Self {
            seed,
            only,
            via,
            bytes,
            rate_bits_per_second,
            late: random.chance(0.25),
            troubles: Vec::new(),
        };
        let mut hosts = HostPool::all();
        let first = only.unwrap_or(drawn);
        scenario
            .troubles
            .push(trouble(first, &scenario, terms, &mut hosts, &mut random));
        // The outcome of two senders with another trouble has no simple promise.
        if first != Class::Operators && hosts.count() > 0 && random.chance(0.5) {
            let second = pick(&mut random, &Class::ALL);
            if second != first && second != Class::Operators {
                scenario
                    .troubles
                    .push(trouble(second, &scenario, terms, &mut hosts, &mut random));
            }
        }
        scenario
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

#[derive(Debug)]
pub struct HostPool {
    free: Vec<usize>,
}

impl HostPool {
    pub fn all() -> Self {
        Self {
            free: (1..=RECEIVERS).collect(),
        }
    }

    pub fn count(&self) -> usize {
        self.free.len()
    }

    pub fn take(&mut self, random: &mut Random) -> String {
        let at = random.below(self.free.len() as u64) as usize;
        format!("n{}", self.free.remove(at))
    }

    pub fn take_several(
        &mut self,
        count: usize,
        neighbours: bool,
        random: &mut Random,
    ) -> Vec<String> {
        if !neighbours {
            return (0..count).map(|_| self.take(random)).collect();
        }
        let from = random.below((self.free.len() - count + 1) as u64) as usize;
        self.free
            .drain(from..from + count)
            .map(|host| format!("n{host}"))
            .collect()
    }
}

/// Exit codes of a receiver that reports that other hosts or its cable prevented the transfer. It
/// may have the file nevertheless.
const KEPT: &[i32] = &[0, 1, 3];
/// [`KEPT`], and the code of a host whose own interface is off.
const OFF: &[i32] = &[0, 1, 3, 4];

struct Drawing<'a> {
    scenario: &'a Scenario,
    terms: &'a Terms,
    hosts: &'a mut HostPool,
    random: &'a mut Random,
}

pub fn trouble(
    class: Class,
    scenario: &Scenario,
    terms: &Terms,
    hosts: &mut HostPool,
    random: &mut Random,
) -> Trouble {
    let mut drawing = Drawing {
        scenario,
        terms,
        hosts,
        random,
    };
    match class {
        Class::Kill => drawing.kill(),
        Class::Pause => drawing.pause(),
        Class::Root => drawing.root(),
        Class::Link => drawing.link(),
        Class::Drop => drawing.drop(),
        Class::Loss => drawing.loss(),
        Class::Relay => drawing.relay(),
        Class::Disk => drawing.disk(),
        Class::Reboot => drawing.reboot(),
        Class::Operators => drawing.operators(),
        Class::Attack => drawing.attack(),
    }
}

impl Drawing<'_> {
    fn nothing(class: Class, words: String) -> Trouble {
        let (promise, extra) = (Promise::File, Duration::ZERO);
        Trouble {
            class,
            words,
            events: Vec::new(),
            marred: Vec::new(),
            keeps_out: false,
            promise,
            extra,
        }
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        pick(self.random, of)
    }

    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(least + (most - least) * self.random.unit())
    }

    fn moment(&mut self) -> (&'static str, Due, Duration) {
        let unit = self.random.unit();
        let last = (1.0 - 0.05 / self.scenario.transfer().as_secs_f64()).max(0.5);
        match self.random.below(6) {
            0 => ("joining", Due::Joined, Duration::from_secs_f64(0.03 * unit)),
            1 => (
                "first frames",
                Due::Share(0.001 + 0.05 * unit),
                Duration::ZERO,
            ),
            2 | 3 => ("middle", Due::Share(0.1 + 0.8 * unit), Duration::ZERO),
            4 => (
                "last 50 ms",
                Due::Share(last + (1.0 - last) * 0.99 * unit),
                Duration::ZERO,
            ),
            _ => (
                "verifying",
                Due::Share(1.0),
                Duration::from_secs_f64(0.04 * unit),
            ),
        }
    }

    fn on_the_way(&mut self) -> Due {
        Due::Share(0.01 + 0.95 * self.random.unit())
    }

    /// Longest delay caused by a host that never returns.
    fn gone(&self) -> Duration {
        self.terms.patience + self.terms.stall + Duration::from_secs(4)
    }

    /// Draws a duration that all hosts survive: half of the patience at most, so that a busy
    /// machine does not exceed it.
    fn bearable(&mut self) -> Duration {
        let most = self.terms.patience.as_secs_f64() / 2.0;
        self.seconds(0.1, most.min(2.5))
    }
}

fn event(host: &str, deed: Deed, due: Due, then: Duration) -> ChaosEvent {
    ChaosEvent {
        host: host.to_owned(),
        deed,
        due,
        then,
    }
}

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
        let host = if is_root {
            ROOT.to_owned()
        } else {
            self.hosts.take(self.random)
        };
        let set = if self.random.chance(0.6) {
            Deed::Port
        } else {
            Deed::Link
        };
        let (phase, due, then) = self.moment();
        let lasts = self.bearable();
        let due = if is_root && due == Due::Joined {
            Due::Start
        } else {
            due
        };
        let mut events = vec![event(&host, set(false), due, then)];
        let what = if set(true) == Deed::Port(true) {
            "port"
        } else {
            "interface"
        };
        let mut words = format!("{what} of {host} down in {phase}");
        if !for_good {
            words += &format!(" for {:.2} s", lasts.as_secs_f64());
            events.push(event(&host, set(true), due, then + lasts));
        }
        let marred = if for_good {
            vec![(host, OFF)]
        } else {
            Vec::new()
        };
        let keeps_out = for_good && due == Due::Joined;
        // A host that is cut off waits for a sender for as long as `--max-wait` allows.
        let extra = self.gone()
            + lasts
            + if for_good {
                self.terms.receive_wait
            } else {
                Duration::ZERO
            };
        Trouble {
            events,
            marred,
            keeps_out,
            extra,
            ..Self::nothing(Class::Link, words)
        }
    }

    pub(super) fn drop(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let (which, way) = self.one_of(&LOSABLE);
        let (for_good, fraction) = (self.random.chance(0.6), self.one_of(&[1.0, 1.0, 0.9, 0.5]));
        let (phase, due, then) = if self.random.chance(0.3) {
            ("all phases", Due::Before, Duration::ZERO)
        } else {
            self.moment()
        };
        let lasts = self.bearable();
        let mut events = vec![event(&host, Deed::Faults(which, way, fraction), due, then)];
        let mut words = format!(
            "{:.0} % of {} {way:?} {host} lost in {phase}",
            fraction * 100.0,
            which.name()
        );
        if !for_good {
            words += &format!(" for {:.2} s", lasts.as_secs_f64());
            let due = if due == Due::Before { Due::Start } else { due };
            events.push(event(&host, Deed::Heal, due, then + lasts));
        }
        let marred = if for_good {
            vec![(host, KEPT)]
        } else {
            Vec::new()
        };
        let keeps_out = for_good && matches!(due, Due::Before | Due::Joined);
        let extra = self.gone() * 2
            + lasts
            + if for_good {
                self.terms.receive_wait
            } else {
                Duration::ZERO
            };
        Trouble {
            events,
            marred,
            keeps_out,
            extra,
            ..Self::nothing(Class::Drop, words)
        }
    }

    pub(super) fn loss(&mut self) -> Trouble {
        let fraction = self.one_of(&[0.001, 0.01, 0.03, 0.1]);
        let events = (0..=7).map(|host| {
            event(
                &format!("n{host}"),
                Deed::Loss(fraction),
                Due::Before,
                Duration::ZERO,
            )
        });
        let words = format!("{} % everywhere", fraction * 100.0);
        let extra = self.scenario.transfer() * 8 + Duration::from_secs(5);
        Trouble {
            events: events.collect(),
            extra,
            ..Self::nothing(Class::Loss, words)
        }
    }

    pub(super) fn relay(&mut self) -> Trouble {
        let host = if self.random.chance(0.2) {
            ROOT.to_owned()
        } else {
            self.hosts.take(self.random)
        };
        let mut some = |most: f64| {
            if self.random.chance(0.5) {
                most * self.random.unit()
            } else {
                0.0
            }
        };
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
        let events = vec![event(
            &host,
            Deed::Detour(manners),
            Due::Before,
            Duration::ZERO,
        )];
        let extra = self.scenario.transfer() * 12 + Duration::from_secs(10);
        Trouble {
            events,
            extra,
            ..Self::nothing(Class::Relay, words)
        }
    }
}

/// SIGKILL, or an earlier regular end.
const KILLED: &[i32] = &[0, 137];

impl Drawing<'_> {
    pub(super) fn kill(&mut self) -> Trouble {
        let most = self.hosts.count() as u64;
        let most = most.min(self.one_of(&[1, 2, 3, 7]));
        let count = 1 + self.random.below(most) as usize;
        let (neighbours, one_by_one) = (self.random.chance(0.6), self.random.chance(0.4));
        let deed = if self.random.chance(0.3) {
            Deed::PowerOff
        } else {
            Deed::Kill
        };
        let killed = self.hosts.take_several(count, neighbours, self.random);
        let (phase, due, then) = self.moment();
        let step = if one_by_one {
            self.seconds(0.005, 0.4)
        } else {
            Duration::ZERO
        };
        let words = format!(
            "{deed:?} {} in {phase}, {} ms apart",
            killed.join(" "),
            step.as_millis()
        );
        let each = killed.iter().enumerate();
        let events = each
            .map(|(number, host)| event(host, deed, due, then + step * number as u32))
            .collect();
        let marred = killed.iter().map(|host| (host.clone(), KILLED)).collect();
        // The silence of hosts that die together is detected once.
        let extra = self.gone() * if one_by_one { 2 } else { 1 } + step * count as u32;
        Trouble {
            events,
            marred,
            keeps_out: due == Due::Joined,
            extra,
            ..Self::nothing(Class::Kill, words)
        }
    }

    pub(super) fn pause(&mut self) -> Trouble {
        let for_long = self.random.chance(0.25);
        let is_root = !for_long && self.random.chance(0.3);
        let host = if is_root {
            ROOT.to_owned()
        } else {
            self.hosts.take(self.random)
        };
        let (phase, due, then) = self.moment();
        let lasts = if for_long {
            self.terms.patience + self.seconds(3.0, 5.0)
        } else {
            self.bearable()
        };
        let words = format!(
            "{host} stands still for {:.2} s in {phase}",
            lasts.as_secs_f64()
        );
        let due = if is_root && due == Due::Joined {
            Due::Start
        } else {
            due
        };
        let events = vec![
            event(&host, Deed::Stop, due, then),
            event(&host, Deed::Continue, due, then + lasts),
        ];
        let marred = if for_long {
            vec![(host, KEPT)]
        } else {
            Vec::new()
        };
        let keeps_out = for_long && due == Due::Joined;
        Trouble {
            events,
            marred,
            keeps_out,
            extra: lasts + self.gone(),
            ..Self::nothing(Class::Pause, words)
        }
    }

    pub(super) fn root(&mut self) -> Trouble {
        let deed = self.one_of(&[Deed::Kill, Deed::PowerOff, Deed::Terminate]);
        let (phase, due, then) = self.moment();
        // The root is there from the start.
        let due = if due == Due::Joined { Due::Start } else { due };
        let events = vec![event(ROOT, deed, due, then)];
        let extra = self.gone() + self.terms.receive_wait;
        let words = format!("{deed:?} in {phase}");
        Trouble {
            events,
            promise: Promise::Truth,
            extra,
            ..Self::nothing(Class::Root, words)
        }
    }

    pub(super) fn reboot(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let (phase, due, then) = self.moment();
        let down = self.seconds(0.0, 1.5);
        let words = format!("{host} in {phase}, back after {:.2} s", down.as_secs_f64());
        let events = vec![
            event(&host, Deed::PowerOff, due, then),
            event(&host, Deed::Restart, due, then + down),
        ];
        // The new receiver may be too late, and then waits for a sender for its whole limit.
        let extra = self.gone() + self.terms.receive_wait;
        let marred = vec![(host, &[0, 1, 3, 137][..])];
        Trouble {
            events,
            marred,
            keeps_out: due == Due::Joined,
            extra,
            ..Self::nothing(Class::Reboot, words)
        }
    }
}

const FULL: &[i32] = &[0, 4];

impl Drawing<'_> {
    pub(super) fn disk(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let bytes = self.scenario.bytes;
        let before = |deed| event(&host, deed, Due::Before, Duration::ZERO);
        let (words, events, keeps_out) = match self.random.below(3) {
            0 => {
                let room = bytes / 4 + self.random.below(bytes / 2);
                (
                    format!("{host} has room for {room} bytes"),
                    vec![before(Deed::SmallDisk(room))],
                    true,
                )
            }
            1 => {
                let due = self.on_the_way();
                let fill = event(&host, Deed::FillDisk, due, Duration::ZERO);
                (
                    format!("{host}'s disk is filled"),
                    vec![before(Deed::SmallDisk(bytes + (2 << 20))), fill],
                    false,
                )
            }
            _ => {
                let room = 1 + ((bytes / 3) >> 20);
                let words = format!("{host}'s disk loses what is more than {room} MiB");
                // The file system's own needs.
                (words, vec![before(Deed::ThinDisk(room + 2))], false)
            }
        };
        let extra = self.gone()
            + if keeps_out {
                self.terms.receive_wait
            } else {
                Duration::ZERO
            };
        Trouble {
            events,
            marred: vec![(host, FULL)],
            keeps_out,
            extra,
            ..Self::nothing(Class::Disk, words)
        }
    }

    pub(super) fn operators(&mut self) -> Trouble {
        let (phase, due, then) = match self.random.below(3) {
            0 => ("at once", Due::Start, Duration::ZERO),
            1 => (
                "while the first gathers",
                Due::Start,
                self.seconds(0.0, 0.3),
            ),
            _ => ("meanwhile", self.on_the_way(), Duration::ZERO),
        };
        let events = vec![event(OUTSIDER, Deed::Send, due, then)];
        let extra = self.terms.receive_wait * 2;
        let words = format!("a second sender {phase}");
        Trouble {
            events,
            promise: Promise::Either,
            extra,
            ..Self::nothing(Class::Operators, words)
        }
    }

    pub(super) fn attack(&mut self) -> Trouble {
        let attack = self.one_of(&[Attack::Old, Attack::Echo, Attack::Forge]);
        let due = if self.random.chance(0.5) {
            Due::Start
        } else {
            self.on_the_way()
        };
        let events = vec![event(OUTSIDER, Deed::Attack(attack), due, Duration::ZERO)];
        let promise = if attack == Attack::Forge {
            Promise::Forged
        } else {
            Promise::File
        };
        let words = match attack {
            Attack::Old => "replays an old session",
            Attack::Echo => "replays this session",
            Attack::Forge => "forges frames of this session",
        };
        let extra = (self.gone() + self.terms.receive_wait) * 2 + self.scenario.transfer() * 4;
        Trouble {
            events,
            promise,
            extra,
            ..Self::nothing(Class::Attack, words.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TERMS: Terms = Terms {
        stall: Duration::from_secs(4),
        patience: Duration::from_secs(6),
        send_wait: Duration::from_secs(6),
        receive_wait: Duration::from_secs(15),
        slack: 1.0,
    };

    #[test]
    fn a_seed_says_all_and_every_class_is_drawn_often() {
        let mut drawn = [0; Class::ALL.len()];
        for seed in 0..1100 {
            let scenario = Scenario::draw(seed, None, &TERMS);
            assert_eq!(
                scenario.to_string(),
                Scenario::draw(seed, None, &TERMS).to_string()
            );
            assert!((1..=2).contains(&scenario.troubles.len()), "{scenario}");
            scenario
                .troubles
                .iter()
                .for_each(|trouble| drawn[trouble.class as usize] += 1);
        }
        assert!(drawn.iter().all(|&times| times > 60), "{drawn:?}");
    }

    #[test]
    fn the_class_that_is_asked_for_comes_first() {
        for (seed, class) in (0..110).zip(Class::ALL.into_iter().cycle()) {
            assert_eq!(
                Scenario::draw(seed, Some(class), &TERMS).troubles[0].class,
                class
            );
        }
    }

    #[test]
    fn no_host_has_two_troubles_of_its_own() {
        for seed in 0..1000 {
            let scenario = Scenario::draw(seed, None, &TERMS);
            let [first, second] = &scenario.troubles[..] else {
                continue;
            };
            let both = first
                .marred
                .iter()
                .filter(|(host, _)| second.marred.iter().any(|(other, _)| other == host));
            assert_eq!(both.count(), 0, "{scenario}");
        }
    }
}
