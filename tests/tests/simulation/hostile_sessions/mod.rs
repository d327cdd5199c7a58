//! Simulated tests of transfers under forged frames: no panic, no hang, no false report, bounded
//! memory.

mod forgery;
mod scene;

use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
use ethbcast_collectives::session::kind::VIEW;
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    ContentKind, Fetch, FetchedPiece, MemberState, Message, Needs, Outcome, Refusal, Stage,
    Station, Status, Timing,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, GROUP, Host, data, hosts, hosts_of, session, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, Random, Simulation, host_mac};
use ethbcast_transport::stream::LostRange;
use ethbcast_transport::wire::{Kind, OVERHEAD_BYTES, Rank, StreamId, parse};
use forgery::{Forged, Harm, forged};
use scene::{BYTES, MEMBERS, Name, PHASES, Phase, Scene};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RUNS: [u64; 2] = [2_500, 8_000];
const WAYS: [Via; 4] = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];

/// Recipient and forged sender: the root from its first child, from the last, and from itself; a
/// relay and the last member from the root, from another member, and from the group.
const PLACES: [(usize, Name); 7] = [
    (0, Name::Host(1)),
    (0, Name::Host(MEMBERS)),
    (0, Name::Host(0)),
    (2, Name::Host(0)),
    (MEMBERS, Name::Host(0)),
    (2, Name::Host(1)),
    (MEMBERS, Name::Group),
];

fn play(seed: u64) {
    let (ways, phases, places) = (WAYS.len() as u64, PHASES.len() as u64, PLACES.len() as u64);
    let via = WAYS[(seed % ways) as usize];
    let phase = PHASES[(seed / ways % phases) as usize];
    let (to, name) = PLACES[(seed / (ways * phases) % places) as usize];
    let round = seed / (ways * phases * places);
    let mut scene = Scene::new(via);
    let watched = if to == 0 { MEMBERS } else { to };
    assert!(scene.run_to(phase, watched), "{via}: there is no {phase:?}");
    let from = if let Name::Host(from) = name { from } else { 0 };
    let all = forgery::all(&scene, to, from);
    // Some kinds have hundreds of forgeries, others three: each kind has its turn.
    let family = &all[(round % all.len() as u64) as usize];
    let forged = &family[Random::new(seed).below(family.len() as u64) as usize];
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-tests --test simulation hostile_values \
         ({via}, {phase:?}, to n{to} in the name of {name:?}: {})",
        forged.what
    );
    scene.inject(to, name, forged.kind, &forged.body);
    let has = scene.finish(&replay);
    judge(&scene, forged, (to, name, phase), &has, &replay);
}

fn judge(
    scene: &Scene,
    forged: &Forged,
    (to, name, phase): (usize, Name, Phase),
    has: &[bool],
    replay: &str,
) {
    let from = if let Name::Host(from) = name {
        from
    } else {
        usize::MAX
    };
    // The root's messages have no effect in another name, and those of members only at the root.
    let heard = forgery::is_for(forged.kind, to, from, phase);
    let harm = if heard { forged.harm } else { Harm::Nothing };
    let concerned = if to == 0 { from } else { to };
    match harm {
        Harm::Nothing => assert!(has[0], "{replay}: {has:?} {}", scene.story()),
        Harm::OneMember => {
            let others = (1..=MEMBERS)
                .filter(|&host| host != concerned)
                .all(|host| has[host]);
            assert!(others, "{replay}: {has:?} {}", scene.story());
        }
        Harm::Session => {}
    }
}

#[test]
fn one_frame_with_hostile_values_does_at_most_the_listed_harm() {
    if let Ok(seed) = std::env::var("ETHBCAST_SEED") {
        play(seed.parse().expect("ETHBCAST_SEED is a number"));
        return;
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= in_full(RUNS[0], RUNS[1]) {
                        return;
                    }
                    play(seed);
                }
            });
        }
    });
}

const FOUR_RECEIVERS: usize = 4;
/// Its reader stops in the middle.
const STOPPED: usize = 4;
const SEED: u64 = 1;

#[test]
fn a_false_status_does_not_hide_a_reader_that_has_stopped() {
    let (stall, patience) = (Duration::from_secs(2), Duration::from_secs(3));
    let timing = Timing {
        stall,
        patience,
        ..Timing::default()
    };
    for (via, arrived) in [Via::Chain, Via::Cast]
        .into_iter()
        .flat_map(|via| [0, 1000, u64::MAX].map(|sent| (via, sent)))
    {
        let mut case = Case {
            timing,
            mtu_bytes: 1500,
            ..Case::new(via, FOUR_RECEIVERS, 1_000_000)
        };
        case.stops = Some((STOPPED, 300_000));
        let mut simulation =
            Simulation::new(&star(&case, 1_000_000_000), hosts(&case, SEED), NoFaults);
        for state in [
            MemberState::Alive,
            MemberState::Starved,
            MemberState::WaitsForChild,
        ] {
            let status = Status {
                state,
                waits_for: Some(Rank(2)),
                arrived,
                consumed: arrived,
                is_mute: false,
                link: None,
            };
            let (kind, body) = Message::Status(status).encode();
            let station = Station::new(GROUP, "x", host_mac(STOPPED), 1500);
            let identity = station.identity(session(SEED), Rank(STOPPED as u16));
            let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
            identity.write(&mut frame, host_mac(0), &identity.header(kind), &body);
            simulation.inject(
                Instant::START + Duration::from_millis(600 + state as u64),
                0,
                &frame,
            );
        }
        let end = simulation.run(
            Instant::START + Duration::from_secs(20),
            |_, host: &mut Host, now| host.turn(now),
        );
        let replay = format!("{via}, {arrived}: {end:?}");
        let Participant::Root(root, _) = &simulation.machines()[0] else {
            panic!("host 0 is the root")
        };
        assert!(end.is_quiet() && root.is_over(), "{replay}");
        let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
        assert_eq!(fates[STOPPED - 1], Outcome::Stalled, "{replay}");
        let others = fates[..STOPPED - 1]
            .iter()
            .all(|&fate| fate == Outcome::Delivered);
        assert!(others, "{replay}: {fates:?}");
    }
}

#[test]
fn a_false_ready_does_not_leave_out_what_a_demoted_member_lacks() {
    for (via, host) in [
        (Via::Chain, 2),
        (Via::Chain, 4),
        (Via::Cast, 2),
        (Via::Binary, 1),
    ] {
        for arrived in [60, 100, 103, u64::MAX] {
            let mut scene = Scene::new(via);
            let replay = format!("{via}: READY of n{host} with {arrived} frames");
            assert!(scene.run_to(Phase::FirstFrames, host), "{replay}");
            scene.pause(host, Duration::from_secs(2));
            scene.run_until_demoted(host);
            let view = scene.view().expect("it is being run");
            let ready = Message::Ready {
                epoch: view.epoch,
                digest: view.digest(),
                arrived,
            };
            let (kind, body) = ready.encode();
            scene.inject(0, Name::Host(host), kind, &body);
            let has = scene.finish(&replay);
            assert!(has[0], "{replay}: {}", scene.story());
        }
    }
}

/// Bytes of a pipe cannot be read again: a host that lacks them is lost, and the root continues.
/// Formerly the root sent requests forever for a host whose outcome it knew.
#[test]
fn a_forged_gap_report_about_a_complete_receiver_of_a_pipe_does_nothing() {
    let timing = Timing {
        stall: Duration::from_secs(2),
        patience: Duration::from_secs(4),
        ..Timing::default()
    };
    let mut case = Case {
        timing,
        mtu_bytes: 1500,
        pipe: true,
        ..Case::new(Via::Chain, FOUR_RECEIVERS, 60_000)
    };
    case.stops = Some((STOPPED, 30_000));
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts(&case, SEED), NoFaults);
    let gap = LostRange {
        rank: Rank(2),
        from: 0,
        to: 5,
    };
    let (kind, body) = Message::Orphan {
        stream: StreamId(1),
        gap,
    }
    .encode();
    let identity = Station::new(GROUP, "x", host_mac(1), 1500).identity(session(SEED), Rank(1));
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    identity.write(&mut frame, host_mac(0), &identity.header(kind), &body);
    simulation.inject(Instant::START + Duration::from_millis(600), 0, &frame);
    let end = simulation.run(
        Instant::START + Duration::from_secs(20),
        |_, host: &mut Host, now| host.turn(now),
    );
    let Participant::Root(root, _) = &simulation.machines()[0] else {
        panic!("host 0 is the root")
    };
    let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
    assert!(end.is_quiet() && root.is_over(), "{end:?}");
    assert!(
        fates[..STOPPED - 1]
            .iter()
            .all(|&fate| fate == Outcome::Delivered),
        "{fates:?}"
    );
}

const TIMES: u64 = 10_000;
/// Interval of the shortest frames at 1 Gbit/s.
const FRAME_INTERVAL: Duration = Duration::from_micros(1);

/// Plays a session in which host `to` receives a flood of `message`, each with another number, in
/// `phase`.
fn flood(phase: Phase, to: usize, from: Name, message: impl Fn(u64) -> Message) {
    for via in [Via::Chain, Via::Cast] {
        let mut scene = Scene::new(via);
        assert!(scene.run_to(phase, MEMBERS), "{via}: there is no {phase:?}");
        for number in 0..TIMES {
            let (kind, body) = message(number).encode();
            scene.inject_after(FRAME_INTERVAL * number as u32, to, from, kind, &body);
        }
        let replay = format!(
            "{via}, {phase:?}: {TIMES} times {:?} to n{to} in the name of {from:?}",
            message(0)
        );
        let has = scene.finish(&replay);
        assert!(has[0], "{replay}: {has:?} {}", scene.story());
    }
}

fn announce(number: u64) -> Message {
    Message::Announce {
        group: GROUP.to_owned(),
        host: format!("n{number}"),
        source: "another".to_owned(),
        size: Some(number),
        content: ContentKind::Stream,
        chunk: ChunkSize::default(),
        mtu_bytes: 1500,
        stage: Stage::Gathering,
        age_millis: number as u32,
    }
}

#[test]
fn ten_thousand_forged_messages_of_one_kind_disturb_nobody() {
    for phase in [Phase::Joining, Phase::Middle] {
        for (to, from) in [
            (0, Name::Host(2)),
            (2, Name::Group),
            (MEMBERS, Name::Host(1)),
            (0, Name::Group),
        ] {
            flood(phase, to, from, announce);
            flood(phase, to, from, |nonce| Message::Refuse {
                nonce,
                why: Refusal::Late,
                text: "no".to_owned(),
            });
        }
    }
    let join = |nonce| {
        let (group, host) = (GROUP.to_owned(), "n2".to_owned());
        Message::Join {
            nonce: 1 << 32 | nonce,
            group,
            host,
            mtu_bytes: 1500,
            free_bytes: 0,
            features: 0,
        }
    };
    for from in [Name::Host(2), Name::Group] {
        flood(Phase::Middle, 0, from, join);
    }
    // READYs for views that were never sent: each gets a reply, but not a view.
    let ready = |number| Message::Ready {
        epoch: 2 + number as u32 % 20,
        digest: [9; 32],
        arrived: number,
    };
    flood(Phase::Middle, 0, Name::Host(2), ready);
    // One request of each member waits, and the replies get a fifth of the link.
    for phase in [Phase::FirstFrames, Phase::Middle, Phase::Verifying] {
        let asks = |rank, number: u64| {
            let (bytes, attempt) = (
                number % 30_000..number % 30_000 + 20_000,
                1 + (number % 3) as u8,
            );
            Message::Fetch(Fetch {
                rank,
                bytes,
                attempt,
                blamed: Rank(1),
            })
        };
        flood(phase, 0, Name::Host(2), |number| asks(Rank(2), number));
        flood(phase, MEMBERS, Name::Host(0), |number| {
            asks(Rank(2), number)
        });
        let piece = |number| {
            Message::Piece(FetchedPiece {
                from: number * 1000,
                end: 1 << 40,
                bytes: vec![7; 1000],
            })
        };
        flood(phase, 2, Name::Host(0), piece);
        flood(phase, 0, Name::Host(2), piece);
    }
}

const MANY_RECEIVERS: usize = 1000;
const MANY_BYTES: usize = 600_000;
const RATE_BITS_PER_SECOND: u64 = 100_000_000;

#[derive(Default)]
struct Heard {
    views: BTreeSet<u8>,
    data: Vec<Instant>,
}

#[test]
fn half_of_a_thousand_die_at_once_in_one_view_and_data_pauses_for_the_dead_limit_and_a_second() {
    let timing = Timing {
        patience: Duration::from_secs(3),
        ..Timing::default()
    };
    let case = Case {
        timing,
        mtu_bytes: 1500,
        ..Case::new(Via::Cast, MANY_RECEIVERS, MANY_BYTES)
    };
    let hosts = hosts_of(&case, 1, MemoryContent::new(data(MANY_BYTES, 1)), |_| {
        Collected::default()
    });
    let mut heard = Heard::default();
    let listen = |delivery: &Delivery<'_>| {
        if delivery.to == MANY_RECEIVERS
            && let Ok(frame) = parse(delivery.frame)
        {
            match frame.header.kind {
                VIEW => drop(heard.views.insert(frame.header.epoch)),
                Kind::DATA => heard.data.push(delivery.at),
                _ => {}
            }
        }
        Fate::Deliver
    };
    let mut simulation = Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts, listen);
    // In the middle of the data.
    let mut turn =
        |_: usize, host: &mut Participant<MemoryContent<Vec<u8>>, Collected>, now| host.turn(now);
    while simulation.machines()[MANY_RECEIVERS]
        .streams()
        .is_none_or(|streams| streams.frames() < 50)
    {
        assert!(
            simulation
                .step(Instant::START + Duration::from_secs(60), &mut turn)
                .is_none(),
            "it does not begin"
        );
    }
    let died_at = simulation.now();
    (0..MANY_RECEIVERS / 2).for_each(|half| simulation.crash(1 + half * 2, died_at));
    let outcome = simulation.run(Instant::START + Duration::from_secs(60), turn);
    assert!(
        outcome.is_quiet(),
        "{outcome:?}, {:?}",
        simulation.next_deadline()
    );
    let hosts = simulation.into_machines();
    let Participant::Root(root, _) = &hosts[0] else {
        panic!("host 0 is the root")
    };
    let delivered = root
        .reports()
        .filter(|report| report.outcome == Outcome::Delivered)
        .count();
    assert_eq!(delivered, MANY_RECEIVERS / 2);
    // The first view, the one in which they are demoted, and the one in which their patience has
    // ended.
    assert_eq!(heard.views, BTreeSet::from([1, 2, 3]));
    let pauses = heard.data.windows(2).map(|two| two[1].since(two[0]));
    let longest = pauses.max().expect("data has come");
    assert!(
        longest < timing.dead + Duration::from_secs(1),
        "{longest:?}"
    );
}

const ALL: u64 = BYTES as u64;
const MAX_RANGE_BYTES: u64 = 128 << 10;

pub fn questions() -> Vec<Forged> {
    let (whole, ends) = ((0, MAX_RANGE_BYTES), (u64::MAX - 1, u64::MAX));
    let ranges = [
        whole,
        (0, 1),
        (0, MAX_RANGE_BYTES + 1),
        (0, u64::MAX),
        (9, 3),
        (7, 7),
        (ALL - 1, ALL),
        (ALL, ALL + 1),
        ends,
    ];
    let ranks = (0..=MEMBERS as u16).chain([60_000, u16::MAX]);
    let mut found = Vec::new();
    for (rank, (from, to)) in ranks.flat_map(|rank| ranges.map(|range| (rank, range))) {
        for (attempt, blamed) in [
            (1, 0),
            (3, 2),
            (0, 0),
            (4, 1),
            (u8::MAX, rank),
            (2, 50_000),
            (1, u16::MAX),
        ] {
            let fetch = Fetch {
                rank: Rank(rank),
                bytes: from..to,
                attempt,
                blamed: Rank(blamed),
            };
            found.push(forged(&Message::Fetch(fetch), Harm::Nothing));
        }
    }
    found
}

pub fn answers() -> Vec<Forged> {
    let places = [
        (0, MAX_RANGE_BYTES),
        (0, 0),
        (0, 1),
        (ALL - 5, ALL),
        (ALL, u64::MAX),
        (u64::MAX, u64::MAX),
        (u64::MAX, 0),
    ];
    let answer = |(from, end): (u64, u64)| {
        [0, 1, 1400].map(|bytes| {
            forged(
                &Message::Piece(FetchedPiece {
                    from,
                    end,
                    bytes: vec![7; bytes],
                }),
                Harm::Nothing,
            )
        })
    };
    places.into_iter().flat_map(answer).collect()
}

/// NEEDS with valid and invalid values, in sessions without have-sets.
pub fn words() -> Vec<Forged> {
    let sets = [
        vec![],
        vec![0],
        vec![1],
        vec![1, 0, 0, 4, 0],
        vec![0xff; 129],
        vec![0; 129],
        vec![7; 60],
    ];
    let word = |stretch: u64| {
        sets.clone()
            .map(|set| forged(&Message::Needs(Needs { stretch, set }), Harm::Nothing))
    };
    [0, 1, 8, u64::MAX].into_iter().flat_map(word).collect()
}
