//! Tests of cost in frames: many small simulated broadcasts, compared with a reviewed table.
//!
//! The other tests check guarantees under many seeds. A change that only sends one more heartbeat,
//! serves children in another order or waits a little longer breaks none of them; here it changes a
//! figure. To accept another table, review the difference and run `ETHBCAST_ACCEPT=1 cargo test -p
//! ethbcast-transport --test prices`.

#[path = "../common/accepted.rs"]
mod accepted;
#[path = "../common/case.rs"]
mod case;
#[path = "../common/gaps.rs"]
mod gaps;
#[path = "../common/guard.rs"]
mod guard;
mod host;
mod scenarios;
mod world;

use case::{Path, peer};
use ethbcast_transport::stream::Outlet;
use ethbcast_transport::wire::{Peer, Rank};
use ethbcast_transport::{Instant, Tuning};
use host::Host;
use std::fs;
use std::path::{Path as FilePath, PathBuf};
use world::{CATCH_UP, serve_alone};
use world::{Scenario, cut_off, lose_new, scenario};

const HEADING: &str = "\
What streams cost in the simulator, exactly. Each host has a cable of 100 Mbit/s and 5 us to one switch and a feed of 64
frames of up to 100 bytes, unless the name says otherwise. Of each scenario, after its name:

done      us until the last application had the last frame it takes
quiet     us until nothing was left to do
mean      us from a frame's push at the root until an application had it, over all frames and applications
lost      how often a frame of a cast was lost, as far as the root knows
orphans   how often somebody said that it lacks what its parent has not any more
turns     calls of all hosts' applications, and in how many of them a stream was urgent, level (nobody needs anything),
          settled (all acknowledged), halfway in a segment or pausing in one
next      sum of the numbers of the frames that were next for children whose turn it was, over all turns
held      sum of the ranks (one more of each) that were named as holding a stream up, over all turns; crowded: the same
          of those for whom a feed was crowded

and by role (the root, hosts with children, hosts without), all hosts of it together:

role, hosts | sent: new data to one, new to all, data again to one, again to all, acknowledgements, questions to one,
to all; of the data those that ask for an answer | received: new data, data that was there, beyond credit, out of order
and thrown away, acknowledgements, questions; acknowledgements sent for a loss; frames of strangers; malformed or forged
| the most frames in flight to one, the widest window (0: credit alone) | most bytes kept: payloads, slots and stamps;
readers; repairs; ends of messages and orphans
";

const SHOWN: u32 = 3;

fn copies(scenario: &Scenario) -> u64 {
    match scenario.case.path {
        Path::Cast | Path::TunedCast | Path::AckTree(_) => 1,
        _ => scenario.case.hosts as u64 - 1,
    }
}

/// Whether the file begins with `text`; true while another table is being accepted.
fn begins_with(path: &FilePath, text: &str) -> bool {
    accepted::is_accepting() || fs::read_to_string(path).is_ok_and(|all| all.starts_with(text))
}

#[test]
fn every_broadcast_costs_what_was_accepted() {
    let groups = [
        scenarios::paths(),
        scenarios::protocols(),
        scenarios::hazards(),
        scenarios::numbers(),
        deaths(),
        moves(),
        reroutes(),
        scenarios::parity(),
    ];
    let accepted = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/prices.txt");
    let (mut text, mut changed) = (HEADING.to_string(), 0);
    for scenario in groups.into_iter().flatten() {
        let (name, clean, steady) = (
            scenario.name.clone(),
            scenario.clean,
            scenario.steps.is_empty(),
        );
        let new_frames = copies(&scenario) * scenario.case.frames;
        let price = world::play(scenario);
        if clean {
            assert_eq!(
                price.again(),
                0,
                "{name}: nothing was lost, and nothing is to be sent again"
            );
        }
        if steady {
            assert_eq!(
                price.new_frames(),
                new_frames,
                "{name}: what is new is sent once"
            );
            assert_eq!(
                price.suspected(),
                0,
                "{name}: everybody is known and says what is true"
            );
        }
        text += &price.text(&name);
        changed += u32::from(!begins_with(&accepted, &text));
        if changed == SHOWN {
            break; // What else is another can be seen once it is accepted.
        }
    }
    accepted::compare(&accepted, &text, "-p ethbcast-transport --test prices");
}

#[derive(Clone, Copy, Debug)]
enum ViewChange {
    Adopt(usize),
    Drop(usize),
    Parent(usize),
}

impl ViewChange {
    fn act(self, host: &mut Host, now: Instant) {
        let stream = &mut host.streams[0];
        match self {
            ViewChange::Adopt(child) => stream.graft_child(now, peer(child)),
            ViewChange::Drop(child) => stream.remove_reader(now, peer(child).rank),
            ViewChange::Parent(parent) => stream.set_parent(peer(parent)),
        }
    }
}

use ViewChange::{Adopt, Drop, Parent};

/// Applies a view at one host after the other, 300 us apart.
fn view(scenario: Scenario, micros: u64, words: &[(usize, ViewChange)]) -> Scenario {
    words
        .iter()
        .enumerate()
        .fold(scenario, |scenario, (place, &(host, word))| {
            scenario.then(micros + 300 * place as u64, host, move |host, now| {
                word.act(host, now)
            })
        })
}

fn deaths() -> Vec<Scenario> {
    let lossy = |name: &str, path, hosts, frames| scenario(name, path, hosts, frames).loss(0.03);
    let bridge = [(1, Adopt(3)), (1, Drop(2)), (3, Parent(1))];
    let two = [(1, Drop(2)), (1, Drop(3)), (1, Adopt(4)), (4, Parent(1))];
    let level = [
        (0, Adopt(3)),
        (0, Adopt(4)),
        (0, Drop(1)),
        (3, Parent(0)),
        (4, Parent(0)),
    ];
    vec![
        view(
            lossy("host 2 dies", Path::Chain, 5, 300).crash(3_000, 2),
            9_000,
            &bridge,
        ),
        view(
            lossy("host 2 dies, strict", Path::Chain, 5, 200)
                .by(Tuning::paper(), 64)
                .crash(3_000, 2),
            9_000,
            &bridge,
        ),
        view(
            lossy("hosts 2 and 3 die", Path::Chain, 6, 300)
                .crash(3_000, 2)
                .crash(3_000, 3),
            9_000,
            &two,
        ),
        view(
            lossy("hosts 2 and 3 die, strict", Path::Chain, 6, 300)
                .by(Tuning::paper(), 64)
                .crash(3_000, 2)
                .crash(3_000, 3),
            9_000,
            &two,
        ),
        view(
            lossy("host 1 dies", Path::Tree(2), 7, 300).crash(3_000, 1),
            9_000,
            &level,
        ),
        view(
            lossy("host 1 dies", Path::AckTree(2), 7, 300).crash(3_000, 1),
            9_000,
            &level,
        ),
        view(
            lossy("host 3 dies", Path::AckTree(2), 7, 300).crash(3_000, 3),
            9_000,
            &[(1, Drop(3))],
        ),
        view(
            lossy("host 1 dies, and nobody is left", Path::Cast, 2, 300).crash(3_000, 1),
            9_000,
            &[(0, Drop(1))],
        ),
        view(
            lossy("host 3 dies", Path::Cast, 5, 300).crash(3_000, 3),
            9_000,
            &[(0, Drop(3))],
        ),
        view(
            lossy("host 3 dies", Path::Flat, 5, 300).crash(3_000, 3),
            9_000,
            &[(0, Drop(3))],
        ),
        view(
            lossy("the designated one dies", Path::TunedCast, 6, 150)
                .by(Tuning::push_pull().with_push_frames(Some(4)), 64)
                .crash(3_000, 1),
            9_000,
            &[(0, Drop(1))],
        ),
        view(
            lossy("the one that speaks for all dies", Path::TunedCast, 20, 500)
                .by(Tuning::default(), 256)
                .crash(3_000, 1),
            9_000,
            &[(0, Drop(1))],
        ),
        view(
            lossy("host 2 dies, strict", Path::TunedCast, 5, 200)
                .by(Tuning::paper(), 64)
                .crash(3_000, 2),
            9_000,
            &[(0, Drop(2))],
        ),
    ]
}

fn moves() -> Vec<Scenario> {
    let lossy = |name: &str, path, hosts, frames| scenario(name, path, hosts, frames).loss(0.02);
    let hop = [(0, Adopt(2)), (2, Parent(0)), (1, Drop(2))];
    let away = |scenario: Scenario, host| {
        let scenario = view(
            scenario.faults(cut_off(host, 2_000..14_000)),
            4_000,
            &[(0, Drop(host))],
        );
        view(scenario, 14_000, &[(0, Adopt(host))])
    };
    let late = |scenario: Scenario, host: usize, first| {
        let mut scenario = view(scenario, 1_500, &[(0, Adopt(host))]);
        scenario.non_members.push(host);
        scenario.begin_at.insert(host, first);
        scenario
    };
    vec![
        view(
            lossy("host 2 moves to the root", Path::Chain, 4, 300),
            4_000,
            &hop,
        ),
        view(
            scenario(
                "host 2 moves to the root, nothing lost",
                Path::Chain,
                4,
                300,
            ),
            4_000,
            &hop,
        ),
        view(
            lossy("host 3 moves from 1 to 2", Path::AckTree(2), 7, 300),
            4_000,
            &[(2, Adopt(3)), (3, Parent(2)), (1, Drop(3))],
        ),
        view(
            view(
                lossy("host 3 moves from 1 to 2 and back", Path::Tree(2), 7, 400),
                4_000,
                &[(2, Adopt(3)), (3, Parent(2)), (1, Drop(3))],
            ),
            9_000,
            &[(1, Adopt(3)), (3, Parent(1)), (2, Drop(3))],
        ),
        view(
            scenario(
                "host 3 moves from 1 to 2, which is behind it",
                Path::Tree(2),
                7,
                300,
            )
            .cable(2, 100, 1_500)
            .faults(lose_new(|host, frame| host == 2 && frame % 8 == 2)),
            4_000,
            &[(2, Adopt(3)), (3, Parent(2)), (1, Drop(3))],
        ),
        away(
            scenario("host 2 is away from 2 to 14 ms", Path::Cast, 5, 900),
            2,
        ),
        away(
            scenario("host 2 is away from 2 to 14 ms", Path::Flat, 4, 900),
            2,
        ),
        away(
            scenario("host 2 is away, strict", Path::Flat, 4, 500).by(Tuning::paper(), 64),
            2,
        ),
        away(
            scenario("host 2 is away, strict", Path::TunedCast, 5, 500).by(Tuning::paper(), 64),
            2,
        ),
        away(
            scenario("host 1 is away, push-pull", Path::TunedCast, 5, 400)
                .by(Tuning::push_pull().with_push_frames(Some(3)), 64),
            1,
        ),
        late(
            lossy("host 3 joins late, from frame 20 on", Path::Flat, 4, 300),
            3,
            20,
        ),
        late(
            lossy("host 3 joins late, from frame 20 on", Path::Cast, 4, 300),
            3,
            20,
        ),
        scenario("another view's number, the end known", Path::Cast, 4, 120)
            .then(0, 1, |host, _| host.streams[0].expect_last(119))
            .then(900, 0, |host, _| host.streams[0].set_epoch(3))
            .then(1_100, 2, |host, _| host.streams[0].set_epoch(3))
            .loss(0.05),
    ]
}

fn reroutes() -> Vec<Scenario> {
    vec![
        rerouted(scenario("goes on as a chain", Path::Cast, 5, 300), 4),
        rerouted(
            scenario("goes on as a chain, 5 % lost", Path::Cast, 5, 300).loss(0.05),
            1,
        ),
        rerouted(
            scenario("goes on as a chain, strict", Path::TunedCast, 5, 200).by(Tuning::paper(), 64),
            1,
        ),
        rerouted(
            scenario("goes on as a chain, 5 % lost", Path::AckTree(2), 5, 300).loss(0.05),
            1,
        ),
        alone(
            scenario("host 2 is served alone", Path::Cast, 4, 400),
            2,
            40,
        ),
        alone(
            scenario("host 2 is served alone, 3 % lost", Path::Flat, 4, 400).loss(0.03),
            2,
            10,
        ),
        alone(
            scenario(
                "host 3 is served alone, too far on",
                Path::TunedCast,
                4,
                300,
            )
            .loss(0.01),
            3,
            90,
        ),
    ]
}

/// The root stops the cast after 4 ms; from 9 ms on each host sends to the next, in segments of
/// `segment_frames`.
fn rerouted(scenario: Scenario, segment_frames: u64) -> Scenario {
    let hosts = scenario.case.hosts;
    let mut tuning = scenario.case.tuning.clone();
    tuning.feed.segment_frames = segment_frames;
    let scenario = scenario.then(4_000, 0, |host, _| host.streams[0].retire());
    (0..hosts).fold(scenario, |scenario, at| {
        let children: Vec<Peer> = (at + 1..hosts.min(at + 2)).map(peer).collect();
        let (outlet, tuning) = (Outlet::Lanes(children), tuning.clone());
        scenario.then(9_000 + 200 * at as u64, at, move |host, now| {
            if at > 0 {
                host.streams[0].set_parent(peer(at - 1));
            }
            host.streams[0].reroute(now, &outlet, tuning.clone());
        })
    })
}

/// The root removes `host` after 3 ms and serves it by its own stream from frame `first` on; the
/// host learns of it 2 ms later.
fn alone(scenario: Scenario, host: usize, first: u64) -> Scenario {
    scenario
        .then(3_000, 0, move |root, now| {
            root.streams[0].remove_reader(now, Rank(host as u16))
        })
        .then(4_000, 0, move |root, _| serve_alone(root, host, first))
        .then(5_000, host, move |host, now| {
            host.streams[0].set_number(now, CATCH_UP)
        })
}
