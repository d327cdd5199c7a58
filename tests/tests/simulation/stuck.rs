//! Simulated tests of transfers in which no frame passes between two of the hosts.

use ethbcast_collectives::census::CensusQuery;
use ethbcast_collectives::communicator::{Config, Member};
use ethbcast_collectives::measure::{Finder, ProbeSettings, Prober, Search};
use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
use ethbcast_collectives::session::{
    Outcome, Receiver, ReceiverConfig, Root, RootConfig, RootEvent, Station, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Played, play, star};
use ethbcast_transport::link::{Blocked, Interest, Link, Waiter};
use ethbcast_transport::sim::{Delivery, Fate, RandomFaults, host_mac};
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
        let Some((_, frame)) = self.arrivals.pop_front() else {
            return 0;
        };
        take(&frame);
        1
    }

    fn send(
        &mut self,
        _now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, Infallible> {
        self.holds = self.holds || write(&mut [0; 9014]).is_some();
        Ok(0)
    }

    fn has_arrival(&self) -> bool {
        self.arrivals
            .front()
            .is_some_and(|(at, _)| *at <= self.clock.0.get())
    }

    fn blocked(&self) -> Option<Blocked> {
        let until = Blocked::Until(self.clock.0.get() + Duration::from_millis(100));
        self.holds
            .then_some(if self.tells { Blocked::Room } else { until })
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
        let until = if wanted.arrivals {
            wanted.until.map_or(next, |until| until.min(next))
        } else {
            next
        };
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
    let mut link = Stuck {
        clock: clock.clone(),
        tells,
        holds: false,
        arrivals: arrivals.to_vec().into(),
    };
    let ended = drive(
        &mut link,
        machine,
        &Sleeper(clock.clone()),
        &clock,
        |machine, now| {
            assert!(now < Instant::START + 20 * PATIENCE, "it goes on for ever");
            if turn(machine, now) {
                ControlFlow::Break(now)
            } else {
                ControlFlow::Continue(())
            }
        },
    );
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
    let wanted = Wanted {
        patience: PATIENCE,
        ..Wanted::exactly(1)
    };
    Root::new(
        Instant::START,
        RootConfig {
            wanted,
            size: Some(1000),
            ..RootConfig::new(station(0), 7, "file")
        },
    )
}

fn receiver() -> Receiver {
    let patience = Some(PATIENCE);
    Receiver::new(
        Instant::START,
        ReceiverConfig {
            patience,
            ..ReceiverConfig::new(station(1), 77)
        },
    )
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
        assert!(
            root.failure()
                .is_some_and(|failure| failure.to_string().contains("0 of 1"))
        );
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
    let host = || {
        Participant::<MemoryContent<Vec<u8>>, Collected>::receiver(receiver(), Collected::default())
    };
    both(host, &invited, |host, now| {
        let Participant::Receiver(receiver, receiving) = host else {
            unreachable!("it is one")
        };
        if now >= stopped_at {
            receiving.cancel(receiver, now, "enough");
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
    let target = Peer {
        rank: Rank::ROOT,
        mac: host_mac(1),
    };
    let settings = ProbeSettings {
        budget: PATIENCE,
        ..ProbeSettings::full(9000)
    };
    let prober = || {
        Alone::new(Prober::new(
            Instant::START,
            identity(),
            vec![target],
            settings.clone(),
        ))
    };
    both(prober, &[], |prober, _| prober.part.is_done());
    let search = || Search {
        hosts: vec!["n1".to_owned()],
        count: None,
        patience: PATIENCE,
    };
    let finder = || Alone::new(Finder::new(Instant::START, identity(), "group", search()));
    both(finder, &[], |finder, _| finder.part.is_done());
    let asker = || CensusQuery::new(Instant::START, identity(), "group", PATIENCE, 5);
    both(asker, &[], |asker, _| asker.rounds() > 0);
}

#[test]
fn a_rank_gives_up_waiting_for_the_others() {
    let config = || Config {
        join_by: Some(Instant::START + PATIENCE),
        ..Config::new(station(0), 2, 5)
    };
    let member = || Member::begin(Instant::START, config()).expect("it may be so");
    both(member, &[], |member, _| member.joined().is_err());
}

/// Feeds that hold a part of the stream, and all of it.
const FEEDS: [u64; 2] = [64, 2048];

/// A transfer to three receivers with feeds of `feed` frames; the two of `pair` get no frames of
/// each other.
fn isolated(via: Via, pair: (usize, usize), feed: u64) -> Played {
    let case = Case::new(via, 3, 400_000).with_feed(feed);
    let faults = move |delivery: &Delivery<'_>| {
        let ends = (delivery.from.unwrap_or(usize::MAX), delivery.to);
        if ends == pair || ends == (pair.1, pair.0) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let played = play(
        &case,
        &star(&case, 100_000_000),
        1,
        faults,
        &format!("{via} {pair:?}"),
    );
    assert_eq!(played.fates, [Outcome::Delivered; 3], "{via} {pair:?}");
    played
}

/// Pairs between which no frame got through, as the root reports.
fn apart(played: &Played) -> Vec<(&str, &str)> {
    let events = played.told.iter().map(|(_, event)| event);
    let pairs = events.filter_map(|event| match event {
        RootEvent::Apart { one, other } => Some((one.as_str(), other.as_str())),
        _ => None,
    });
    pairs.collect()
}

/// Members reported to hold up the others.
fn blamed(played: &Played) -> Vec<&RootEvent> {
    let events = played.told.iter().map(|(_, event)| event);
    events
        .filter(|event| matches!(event, RootEvent::HeldUp { .. } | RootEvent::Demoted { .. }))
        .collect()
}

#[test]
fn two_isolated_receivers_alone_are_named_and_both_are_served_by_catch_up_streams() {
    use Via::{Binary, Binomial, Chain, RecursiveDoubling, ScatterAllgather};
    for (via, pair, named) in [
        (Chain, (1, 2), ("n1", "n2")),
        (Chain, (2, 3), ("n2", "n3")),
        (Binary, (2, 3), ("n2", "n3")),
        (Binomial, (2, 3), ("n2", "n3")),
        // In blocks hosts wait for each other in a circle.
        (ScatterAllgather, (1, 2), ("n1", "n2")),
        (ScatterAllgather, (2, 3), ("n2", "n3")),
        (ScatterAllgather, (1, 3), ("n3", "n1")),
        (RecursiveDoubling, (2, 3), ("n2", "n3")),
        (RecursiveDoubling, (1, 3), ("n1", "n3")),
    ] {
        for feed in FEEDS {
            let played = isolated(via, pair, feed);
            let (story, pairs) = (
                format!("{via} {pair:?}, feed {feed}: {:?}", played.told),
                apart(&played),
            );
            let is_pair =
                |&(one, other): &(&str, &str)| (one, other) == named || (other, one) == named;
            assert!(pairs.len() == 1 && pairs.iter().all(is_pair), "{story}");
            assert_eq!(blamed(&played), [] as [&RootEvent; 0], "{story}");
            assert!(played.took < Duration::from_millis(2500), "{story}");
        }
    }
}

#[test]
fn hosts_that_do_not_send_to_each_other_are_not_disturbed() {
    for (via, pair) in [
        (Via::Chain, (1, 3)),
        (Via::Binary, (1, 2)),
        (Via::Binomial, (1, 3)),
        (Via::Cast, (1, 2)),
        (Via::Cast, (2, 3)),
        (Via::RecursiveDoubling, (1, 2)),
    ] {
        let played = isolated(via, pair, FEEDS[0]);
        assert_eq!(
            (apart(&played), blamed(&played)),
            (Vec::new(), Vec::new()),
            "{via} {pair:?}"
        );
        assert!(
            played.took < Duration::from_millis(200),
            "{via} {pair:?}: {:?}",
            played.took
        );
    }
}

#[test]
fn with_every_third_frame_lost_no_pair_is_reported_as_isolated() {
    for seed in 0..40 {
        for via in [Via::Chain, Via::Binary, Via::ScatterAllgather, Via::TwoTree] {
            let case = Case::new(via, 5, 60_000);
            let faults = RandomFaults::new(seed).loss(0.33);
            let played = play(
                &case,
                &star(&case, 100_000_000),
                seed,
                faults,
                &format!("{via}, seed {seed}"),
            );
            assert_eq!(apart(&played), [], "{via}, seed {seed}");
        }
    }
}
