//! Links that accept no further frames: everything still ends on time.

use ethbcast_collectives::census::CensusQuery;
use ethbcast_collectives::communicator::{Config, Member};
use ethbcast_collectives::measure::{Finder, ProbeSettings, Prober, Search};
use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
use ethbcast_collectives::session::{Receiver, ReceiverConfig, Root, RootConfig, Station, Wanted};
use ethbcast_transport::link::{Blocked, Interest, Link, Waiter};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::wire::{Peer, Rank};
use ethbcast_transport::{Alone, Instant, Machine, TimeSource, drive};
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);
/// Permitted excess: repeated last messages that never leave.
const MORE: Duration = Duration::from_secs(3);

/// A clock that jumps to the end of every wait.
#[derive(Clone, Default)]
struct Jumping(Rc<Cell<Instant>>);

impl TimeSource for Jumping {
    fn now(&self) -> Instant {
        self.0.set(self.0.get() + Duration::from_micros(1));
        self.0.get()
    }
}

/// A link that holds its first frame forever, and either reports when it has room or has to be
/// polled.
struct Stuck {
    clock: Jumping,
    tells: bool,
    holds: bool,
    arrivals: VecDeque<(Instant, Vec<u8>)>,
}

impl Link for Stuck {
    type Error = Infallible;
    type Waiter = Sleeper;

    fn name(&self) -> &str {
        "stuck"
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let now = self.clock.0.get();
        if self.arrivals.front().is_none_or(|(at, _)| *at > now) {
            return 0;
        }
        let Some((_, frame)) = self.arrivals.pop_front() else { return 0 };
        take(&frame);
        1
    }

    fn send(&mut self, _now: Instant, mut write: impl FnMut(&mut [u8]) -> Option<usize>) -> Result<usize, Infallible> {
        self.holds = self.holds || write(&mut [0; 9014]).is_some();
        Ok(0)
    }

    fn has_arrival(&self) -> bool {
        self.arrivals.front().is_some_and(|(at, _)| *at <= self.clock.0.get())
    }

    fn blocked(&self) -> Option<Blocked> {
        let until = Blocked::Until(self.clock.0.get() + Duration::from_millis(100));
        self.holds.then_some(if self.tells { Blocked::Room } else { until })
    }

    fn waited(&mut self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Sleeps until the first wake-up; arrivals come every 10 ms.
struct Sleeper(Jumping);

impl Waiter for Sleeper {
    type Seen = ();

    fn wait(&self, now: Instant, wanted: Interest) {
        let next = now + Duration::from_millis(10);
        let until = if wanted.arrivals { wanted.until.map_or(next, |until| until.min(next)) } else { next };
        self.0.0.set(until.max(self.0.0.get()));
    }

    fn take_wake(&self) -> bool {
        false
    }

    fn yield_now(&self) {}

    fn wake(&self) {}
}

/// Runs a machine on a stuck link until `turn` returns true; returns that moment.
fn end_of<M: Machine>(
    machine: &mut M,
    tells: bool,
    arrivals: &[(Instant, Vec<u8>)],
    mut turn: impl FnMut(&mut M, Instant) -> bool,
) -> Duration {
    let clock = Jumping::default();
    let mut link = Stuck { clock: clock.clone(), tells, holds: false, arrivals: arrivals.to_vec().into() };
    let ended = drive(&mut link, machine, &Sleeper(clock.clone()), &clock, |machine, now| {
        assert!(now < Instant::START + 20 * PATIENCE, "it goes on for ever");
        if turn(machine, now) { ControlFlow::Break(now) } else { ControlFlow::Continue(()) }
    });
    let Ok(ended) = ended;
    ended.since(Instant::START)
}

/// Runs it on a link that reports room, and on one that does not; returns both machines.
fn both<M: Machine>(
    machine: impl Fn() -> M,
    arrivals: &[(Instant, Vec<u8>)],
    turn: impl Fn(&mut M, Instant) -> bool,
) -> [M; 2] {
    [true, false].map(|tells| {
        let mut machine = machine();
        let ended = end_of(&mut machine, tells, arrivals, &turn);
        assert!(ended <= PATIENCE + MORE, "{ended:?}, tells {tells}");
        machine
    })
}

fn station(host: usize) -> Station {
    Station::new("group", &format!("n{host}"), host_mac(host), 9000)
}

fn root() -> Root {
    let wanted = Wanted { patience: PATIENCE, ..Wanted::exactly(1) };
    Root::new(Instant::START, RootConfig { wanted, size: Some(1000), ..RootConfig::new(station(0), 7, "file") })
}

fn receiver() -> Receiver {
    let patience = Some(PATIENCE);
    Receiver::new(Instant::START, ReceiverConfig { patience, ..ReceiverConfig::new(station(1), 77) })
}

fn invitations(lasting: Duration) -> Vec<(Instant, Vec<u8>)> {
    let (mut root, mut frames, mut buffer) = (root(), Vec::new(), vec![0; 9014]);
    let mut now = Instant::START;
    while now.since(Instant::START) < lasting {
        root.handle_timeout(now);
        while let Some(length) = root.poll_transmit(now, &mut buffer) {
            frames.push((now, buffer[..length].to_vec()));
        }
        now += Duration::from_millis(10);
    }
    frames
}

#[test]
fn a_root_gives_up_when_its_patience_ends_or_its_user_says_so() {
    for root in both(root, &[], |root, _| root.is_over()) {
        assert!(root.failure().is_some_and(|failure| failure.to_string().contains("0 of 1")));
    }
    let stopped_at = Instant::START + PATIENCE / 5;
    both(root, &[], |root, now| {
        if now >= stopped_at {
            root.stop_waiting(now, "terminated");
        }
        root.is_over()
    });
}

#[test]
fn a_receiver_gives_up_when_its_patience_ends_or_its_user_says_so() {
    both(receiver, &[], |receiver, _| receiver.is_over());
    // A root announces itself, but no join request reaches it.
    let invited = invitations(PATIENCE * 3);
    for receiver in both(receiver, &invited, |receiver, _| receiver.is_over()) {
        assert!(receiver.asked().is_some(), "it has asked");
    }
    let stopped_at = Instant::START + PATIENCE / 5;
    let host = || Participant::<MemoryContent<Vec<u8>>, Collected>::receiver(receiver(), Collected::default());
    both(host, &invited, |host, now| {
        let Participant::Receiver(receiver, receiving) = host else { unreachable!("it is one") };
        if now >= stopped_at {
            receiving.cancel(receiver, now);
        }
        while let Some(event) = receiver.poll_event() {
            receiving.handle_event(now, event);
        }
        receiving.turn(receiver, now);
        receiver.is_over()
    });
}

#[test]
fn measurements_and_questions_end_with_their_time() {
    let identity = || station(0).identity(9, Rank::NONE);
    let target = Peer { rank: Rank::ROOT, mac: host_mac(1) };
    let settings = ProbeSettings { budget: PATIENCE, ..ProbeSettings::full(9000) };
    let prober = || Alone::new(Prober::new(Instant::START, identity(), vec![target], settings.clone()));
    both(prober, &[], |prober, _| prober.part.is_done());
    let search = || Search { hosts: vec!["n1".to_owned()], count: None, patience: PATIENCE };
    let finder = || Alone::new(Finder::new(Instant::START, identity(), "group", search()));
    both(finder, &[], |finder, _| finder.part.is_done());
    let asker = || CensusQuery::new(Instant::START, identity(), "group", PATIENCE, 5);
    both(asker, &[], |asker, _| asker.rounds() > 0);
}

#[test]
fn a_rank_gives_up_waiting_for_the_others() {
    let config = || Config { join_by: Some(Instant::START + PATIENCE), ..Config::new(station(0), 2, 5) };
    let member = || Member::begin(Instant::START, config()).expect("it may be so");
    both(member, &[], |member, _| member.joined().is_err());
}
