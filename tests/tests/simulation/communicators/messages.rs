//! Simulated tests of communicators: messages between ranks, lost frames, several ranks on one
//! host.

use ethbcast_collectives::communicator::kind::ALIVE;
use ethbcast_collectives::communicator::{
    Barrier, Broadcast, CommunicatorError, Named, Preset, Scatter,
};
use ethbcast_planning::model::{Calibration, Point};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::communicator::{Case, NetworkKnowledge, NodePlay, Play, Step, play};
use ethbcast_transport::Instant;
use ethbcast_transport::messages::{RecvOutcome, SendOutcome};
use ethbcast_transport::sim::{Delivery, Fate, Faults, NoFaults, RandomFaults};
use ethbcast_transport::wire::{Kind, Rank, parse};
use std::time::Duration;

fn pair() -> Play<NoFaults> {
    let case = Case {
        leave: false,
        ..Case::new(2, &[Step::Barrier])
    };
    let mut play = Play::new(&case, 1, NoFaults, "a pair");
    play.run(Duration::from_millis(300));
    play.assert_done();
    play
}

fn run(play: &mut Play<NoFaults>, span: Duration) {
    let now = play.simulation().now();
    (0..2).for_each(|host| play.simulation().wake(host, now));
    play.run(span);
}

#[test]
fn messages_to_others_and_to_oneself_short_long_and_empty_arrive_in_order() {
    let lengths = [0, 1, 500, 100_000, 7, 30_000];
    let pairs = [(0, 1), (1, 0), (2, 2), (1, 2), (0, 0)];
    let steps = lengths.iter().flat_map(|&bytes| {
        pairs.map(|(from, to)| Step::Message {
            from,
            to,
            tag: 3,
            bytes,
        })
    });
    let case = Case::new(3, &steps.collect::<Vec<_>>());
    play(&case, 1, NoFaults, "messages");
    play(
        &case,
        1,
        RandomFaults::new(1).loss(0.1),
        "messages under loss",
    );
}

#[test]
fn a_receive_that_is_too_short_says_so_and_the_sender_does_not_hang() {
    let mut play = pair();
    let send = play
        .member(0)
        .send(Rank(1), 7, vec![1; 60_000], None)
        .expect("there is room");
    let recv = play
        .member(1)
        .recv(Rank(0), 7, 100, None)
        .expect("there is room");
    run(&mut play, Duration::from_millis(100));
    assert_eq!(
        play.member(1).take_received(recv),
        Some(RecvOutcome::TooShort {
            message_bytes: 60_000
        })
    );
    assert_eq!(play.member(0).take_sent(send), Some(SendOutcome::Refused));
    assert_eq!(
        play.member(0).take_sent(send),
        None,
        "an outcome is taken once"
    );
}

#[test]
fn a_tag_that_is_never_received_ends_with_the_deadline_and_others_pass() {
    let mut play = pair();
    let now = play.simulation().now();
    let until = Some(now + Duration::from_millis(50));
    let never = play
        .member(0)
        .send(Rank(1), 7, vec![1; 60_000], until)
        .expect("there is room");
    let other = play
        .member(0)
        .send(Rank(1), 8, vec![2; 60_000], until)
        .expect("there is room");
    let recv = play
        .member(1)
        .recv(Rank(0), 8, 60_000, None)
        .expect("there is room");
    let nothing = play
        .member(1)
        .recv(Rank(0), 9, 10, until)
        .expect("there is room");
    run(&mut play, Duration::from_millis(100));
    assert_eq!(play.member(0).take_sent(never), Some(SendOutcome::TimedOut));
    assert_eq!(play.member(0).take_sent(other), Some(SendOutcome::Sent));
    assert_eq!(
        play.member(1).take_received(recv),
        Some(RecvOutcome::Received {
            bytes: vec![2; 60_000]
        })
    );
    assert_eq!(
        play.member(1).take_received(nothing),
        Some(RecvOutcome::TimedOut)
    );
}

#[test]
fn messages_that_nobody_waits_for_are_dropped() {
    let mut play = pair();
    let ignored = play
        .member(0)
        .send(Rank(1), 7, vec![1; 10], None)
        .expect("there is room");
    play.member(0).ignore_sent(ignored);
    let cancelled = play
        .member(1)
        .recv(Rank(0), 9, 10, None)
        .expect("there is room");
    assert!(play.member(1).cancel_recv(cancelled));
    run(&mut play, Duration::from_millis(100));
    assert_eq!(play.member(0).take_sent(ignored), None);
    assert_eq!(play.member(1).take_received(cancelled), None);
    assert!(play.member(0).is_quiet() && play.member(1).is_quiet());
}

#[test]
fn ranks_and_tags_that_cannot_be_are_refused_with_what_to_do() {
    let mut play = pair();
    let now = play.simulation().now();
    let member = play.member(0);
    let no_rank = CommunicatorError::NoSuchRank {
        rank: Rank(2),
        size: 2,
    };
    assert_eq!(member.send(Rank(2), 0, vec![], None), Err(no_rank.clone()));
    assert_eq!(member.recv(Rank(2), 0, 1, None), Err(no_rank.clone()));
    assert_eq!(
        Broadcast::begin(member, now, Rank(2), 1).err(),
        Some(no_rank)
    );
    assert_eq!(
        member.send(Rank(1), 1 << 31, vec![], None),
        Err(CommunicatorError::Tag { tag: 1 << 31 })
    );
    assert_eq!(
        member.recv(Rank(1), u32::MAX, 1, None),
        Err(CommunicatorError::Tag { tag: u32::MAX })
    );
    let short = CommunicatorError::Length {
        blocks_bytes: 19,
        block_bytes: 10,
        size: 2,
    };
    assert_eq!(
        Scatter::begin(member, now, Rank(0), 19, 10).err(),
        Some(short)
    );
    // None of these was a call: the barrier has the number that the other rank expects.
    let barrier = Barrier::begin(member, now).expect("it can begin");
    assert!(matches!(
        Barrier::begin(member, now),
        Err(CommunicatorError::Busy { .. })
    ));
    assert!(matches!(
        barrier.abandon(member, now),
        CommunicatorError::TimedOut { .. }
    ));
    assert!(matches!(
        Barrier::begin(member, now),
        Err(CommunicatorError::Abandoned { .. })
    ));
}

#[test]
fn a_queue_that_is_full_refuses_until_outcomes_are_taken() {
    let mut play = pair();
    let ids: Vec<_> = (0..1024)
        .map(|_| {
            play.member(0)
                .send(Rank(1), 1, vec![0; 10], None)
                .expect("there is room")
        })
        .collect();
    assert!(matches!(
        play.member(0).send(Rank(1), 1, vec![], None),
        Err(CommunicatorError::Sends(_))
    ));
    let receives: Vec<_> = (0..1024)
        .map(|_| {
            play.member(1)
                .recv(Rank(0), 1, 10, None)
                .expect("there is room")
        })
        .collect();
    assert!(matches!(
        play.member(1).recv(Rank(0), 1, 10, None),
        Err(CommunicatorError::Receives(_))
    ));
    run(&mut play, Duration::from_millis(200));
    assert!(
        matches!(
            play.member(0).send(Rank(1), 1, vec![], None),
            Err(CommunicatorError::Sends(_))
        ),
        "none is taken"
    );
    assert!(
        ids.into_iter()
            .all(|id| play.member(0).take_sent(id) == Some(SendOutcome::Sent))
    );
    assert!(
        receives
            .into_iter()
            .all(|id| play.member(1).take_received(id).is_some())
    );
    // Collectives have room of their own.
    assert!(play.member(0).send(Rank(1), 1, vec![], None).is_ok());
}

#[test]
fn calls_are_refused_before_all_are_there_and_after_leaving() {
    let mut case = Case::new(2, &[]);
    case.starts[1] = Duration::from_secs(1);
    let mut play = Play::new(&case, 1, NoFaults, "early");
    play.run(Duration::from_millis(100));
    let now = play.simulation().now();
    assert_eq!(
        play.member(0).send(Rank(1), 1, vec![], None),
        Err(CommunicatorError::NotJoined)
    );
    assert_eq!(
        Barrier::begin(play.member(0), now).err(),
        Some(CommunicatorError::NotJoined)
    );
    play.run(Duration::from_secs(3));
    assert_eq!(
        play.member(0).recv(Rank(1), 1, 0, None),
        Err(CommunicatorError::Closed)
    );
}

const RANKS: u16 = 5;
/// Ranks behind the bad link: the root of broadcasts and barriers, and another.
const VICTIMS: [usize; 2] = [0, 3];
const MESSAGE_LIMIT: Duration = Duration::from_secs(3);
const BAD_AT: Duration = Duration::from_millis(30);

/// `None` stands for all kinds.
const KINDS: [Option<Kind>; 10] = [
    Some(Kind::DATA),
    Some(Kind::ACK),
    Some(Kind::HEARTBEAT),
    Some(Kind::PUSH),
    Some(Kind::PULL),
    Some(Kind::NOTE),
    Some(Kind::RECEIPT),
    Some(Kind::ASK),
    Some(ALIVE),
    None,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToVictim,
    FromVictim,
    /// The victim sends to its predecessor in a chain.
    ToOne,
    FromOne,
}

const DIRECTIONS: [Direction; 4] = [
    Direction::ToVictim,
    Direction::FromVictim,
    Direction::ToOne,
    Direction::FromOne,
];

fn before(victim: usize) -> usize {
    (victim + usize::from(RANKS) - 1) % usize::from(RANKS)
}

fn is_lost(
    delivery: &Delivery<'_>,
    kind: Option<Kind>,
    victim: usize,
    direction: Direction,
) -> bool {
    let Some(from) = delivery.from else {
        return false;
    };
    let matches = match direction {
        Direction::ToVictim => delivery.to == victim,
        Direction::FromVictim => from == victim,
        Direction::ToOne => (from, delivery.to) == (victim, before(victim)),
        Direction::FromOne => (from, delivery.to) == (before(victim), victim),
    };
    let is_kind = || {
        kind.is_none_or(|kind| parse(delivery.frame).is_ok_and(|frame| frame.header.kind == kind))
    };
    matches && is_kind()
}

fn faults(
    kind: Option<Kind>,
    victim: usize,
    direction: Direction,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery| {
        let bad = delivery.at.since(Instant::START) >= BAD_AT
            && is_lost(delivery, kind, victim, direction);
        if bad { Fate::Drop } else { Fate::Deliver }
    }
}

fn all_faults() -> impl Iterator<Item = (Option<Kind>, usize, Direction)> {
    let of = |kind| {
        DIRECTIONS
            .into_iter()
            .flat_map(move |direction| VICTIMS.map(|victim| (kind, victim, direction)))
    };
    KINDS.into_iter().flat_map(of)
}

fn assert_ends(calls: &[Step], chains: bool) {
    let program = [&[Step::Compute(2 * BAD_AT)], calls].concat();
    for (kind, victim, direction) in all_faults() {
        let replay =
            format!("{kind:?} lost {direction:?}, victim {victim}, in {calls:?}, chains: {chains}");
        let mut case = Case {
            patience: MESSAGE_LIMIT,
            ..Case::new(RANKS, &program)
        };
        case.leave = false;
        case.calibration = chains.then(policed);
        let mut play = Play::new(&case, 1, faults(kind, victim, direction), &replay);
        play.run(MESSAGE_LIMIT + Duration::from_secs(3));
        let failed = play.ends().iter().any(|end| matches!(end, Some(Err(_))));
        // A rank that had completed is notified in the next call.
        let done = |end: &Option<Result<(), _>>| *end == Some(Ok(()));
        let late: Vec<usize> = (0..RANKS.into())
            .filter(|&host| failed && done(&play.ends()[host]))
            .collect();
        late.iter()
            .for_each(|&host| play.go_on_at(host, &[Step::Barrier]));
        play.run(MESSAGE_LIMIT + Duration::from_secs(1));
        for (host, end) in play.ends().iter().enumerate() {
            let end = end
                .as_ref()
                .unwrap_or_else(|| panic!("{replay}: host {host} hangs"));
            let text = end
                .as_ref()
                .map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(failed, end.is_err(), "{replay}: host {host}: {text}");
            let named = end.is_ok()
                || text.contains(&format!("rank {victim} (n{victim})"))
                || text.contains("this rank");
            assert!(
                named || host == victim,
                "{replay}: host {host} blames another: {text}"
            );
        }
    }
}

/// Costs under which long broadcasts go down the chain.
fn policed() -> Calibration {
    let point = |bytes, gap_ns, latency_ns| Point {
        bytes,
        gap_ns,
        latency_ns,
    };
    let points = vec![
        point(64, 600, 20_000),
        point(544, 4_600, 20_000),
        point(54_400, 460_000, 21_000),
    ];
    Calibration::from_points(points)
        .and_then(|costs| costs.with_cast_max(2_000))
        .expect("a calibration")
}

#[test]
fn broadcasts_barriers_and_gathers_end() {
    let broadcast = [
        Step::Broadcast {
            root: 0,
            bytes: 200_000,
        },
        Step::Barrier,
    ];
    assert_ends(&broadcast, false);
    assert_ends(&broadcast, true);
    assert_ends(&[Step::Barrier; 3], false);
    assert_ends(
        &[0, 3].map(|root| Step::Gather {
            root,
            bytes: 30_000,
        }),
        false,
    );
}

#[test]
fn messages_end_at_their_deadlines() {
    for (kind, victim, direction) in all_faults() {
        let replay = format!("{kind:?} lost {direction:?}");
        let case = Case {
            leave: false,
            ..Case::new(RANKS, &[])
        };
        let mut play = Play::new(&case, 1, faults(kind, victim, direction), &replay);
        play.run(2 * BAD_AT);
        let by = play.simulation().now() + MESSAGE_LIMIT;
        let mut asked = Vec::new();
        for (from, to) in [(before(victim), victim), (victim, before(victim))] {
            for (tag, bytes) in [(1, 10), (2, 100_000)] {
                let sent = play
                    .member(from)
                    .send(Rank(to as u16), tag, vec![7; bytes], Some(by))
                    .expect("room");
                let received = play
                    .member(to)
                    .recv(Rank(from as u16), tag, bytes, Some(by))
                    .expect("room");
                asked.push((from, to, sent, received));
            }
        }
        let now = play.simulation().now();
        (0..RANKS.into()).for_each(|host| play.simulation().wake(host, now));
        play.run(MESSAGE_LIMIT + Duration::from_secs(1));
        for (from, to, sent, received) in asked {
            assert!(
                play.member(to).take_received(received).is_some(),
                "{replay}: a receive hangs"
            );
            let ended =
                play.member(from).take_sent(sent).is_some() || play.member(from).has_gone(sent);
            assert!(ended, "{replay}: a send hangs");
        }
    }
}

#[test]
fn joining_ends_though_calls_get_lost() {
    for direction in DIRECTIONS {
        let case = Case {
            patience: MESSAGE_LIMIT,
            leave: false,
            ..Case::new(RANKS, &[])
        };
        let faults = move |delivery: &Delivery<'_>| {
            if is_lost(delivery, None, 3, direction) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        };
        let mut play = Play::new(&case, 1, faults, &format!("calls lost {direction:?}"));
        play.run(MESSAGE_LIMIT + Duration::from_secs(1));
        for (host, end) in play.ends().into_iter().enumerate() {
            let Some(Err(error)) = end else {
                panic!("{direction:?}: host {host} has joined or hangs: {end:?}")
            };
            let text = error.to_string();
            // Of two ranks that cannot reach each other either may be named.
            let named = ["n3", "n2 did not confirm", "4 of 5"]
                .iter()
                .any(|name| text.contains(name));
            assert!(host == 3 || named, "{direction:?}: host {host}: {text}");
        }
    }
}

fn everything(ranks: u16, bytes: usize) -> Vec<Step> {
    let (middle, last) = (ranks / 2, ranks - 1);
    let rooted = [0, middle, last].into_iter().flat_map(|root| {
        [
            Step::Broadcast { root, bytes },
            Step::Scatter { root, bytes },
            Step::Gather { root, bytes },
            Step::Barrier,
        ]
    });
    let messages = [(0, last), (last, middle), (middle, 0)].map(|(from, to)| Step::Message {
        from,
        to,
        tag: 3,
        bytes: bytes + usize::from(from),
    });
    let rest = [Step::Allgather { bytes }, Step::Settle, Step::Barrier];
    rooted.chain(messages).chain(rest).collect()
}

fn ranks(node_sizes: &[usize]) -> u16 {
    node_sizes.iter().sum::<usize>() as u16
}

fn play_on_nodes<F: Faults>(
    case: &Case,
    node_sizes: &[usize],
    faults: F,
    replay: &str,
) -> NodePlay<F> {
    let mut play_on_nodes = NodePlay::new(case, node_sizes, 1, faults, replay);
    let quiet = play_on_nodes.run(Duration::from_secs(120));
    assert!(
        play_on_nodes.ends().iter().all(|end| *end == Some(Ok(()))),
        "{replay}: {:?}",
        play_on_nodes.ends()
    );
    assert!(quiet, "{replay}");
    play_on_nodes
}

#[test]
fn every_call_delivers_wherever_the_ranks_are() {
    for node_sizes in [
        &[1, 1][..],
        &[2, 1],
        &[1, 2],
        &[1, 5, 2],
        &[4; 4],
        &[1, 1, 20],
        &[2; 18],
    ] {
        for bytes in [0, 1, 256, 2000] {
            let case = Case::new(ranks(node_sizes), &everything(ranks(node_sizes), bytes));
            play_on_nodes(
                &case,
                node_sizes,
                NoFaults,
                &format!("{node_sizes:?}, {bytes} bytes"),
            );
        }
    }
}

#[test]
fn long_messages_arrive_by_all_presets_and_ways_whatever_is_lost() {
    for preset in [Preset::Default, Preset::Paper, Preset::PushPull] {
        for (casts, loss) in [
            (true, 0.0),
            (false, 0.0),
            (true, 0.02),
            (false, 0.02),
            (true, 0.1),
        ] {
            let node_sizes = [3, 1, 2];
            let mut case = Case {
                preset,
                ..Case::new(6, &everything(6, 100_000))
            };
            case.told[1] = NetworkKnowledge {
                casts,
                ..NetworkKnowledge::default()
            };
            let faults = RandomFaults::new(7)
                .loss(loss)
                .duplicate(0.01)
                .corrupt(0.005);
            play_on_nodes(
                &case,
                &node_sizes,
                faults,
                &format!("{preset:?}, casts {casts}, loss {loss}"),
            );
        }
    }
}

#[test]
fn on_one_host_only_call_frames_reach_the_wire() {
    let case = Case::new(5, &everything(5, 3000));
    let play_on_nodes = play_on_nodes(&case, &[5], NoFaults, "one host");
    let calls: u64 = play_on_nodes
        .processes()
        .map(|process| process.member.as_ref().expect("begun").stats().calls_sent)
        .sum();
    assert!(
        play_on_nodes.wire_frames() <= calls,
        "{} frames, {calls} calls",
        play_on_nodes.wire_frames()
    );
}

#[test]
fn a_broadcast_and_a_barrier_of_4_hosts_with_4_ranks_take_fewer_frames_than_there_are_ranks() {
    const TIMES: u64 = 50;
    let both = [
        Step::Broadcast {
            root: 0,
            bytes: 256,
        },
        Step::Barrier,
    ];
    let steps: Vec<Step> = std::iter::repeat_n(both, TIMES as usize)
        .flatten()
        .collect();
    let mut case = Case {
        leave: false,
        ..Case::new(16, &steps)
    };
    case.mtus.fill(1500);
    let mut play_on_nodes = NodePlay::new(&case, &[4; 4], 1, NoFaults, "4 x 4");
    play_on_nodes.run(Duration::from_secs(2));
    assert!(
        play_on_nodes.ends().iter().all(|end| *end == Some(Ok(()))),
        "{:?}",
        play_on_nodes.ends()
    );
    let frames = play_on_nodes.wire_frames() - play_on_nodes.signs();
    // One frame for the broadcast, one arrival of each of three hosts, one for the release.
    // Acknowledgements cover many rounds.
    assert!(
        (5 * TIMES..6 * TIMES).contains(&frames),
        "{frames} frames in {TIMES} rounds"
    );
}

#[test]
fn a_long_broadcast_goes_to_each_host_once() {
    let mut case = Case {
        leave: false,
        ..Case::new(
            16,
            &[
                Step::Broadcast {
                    root: 5,
                    bytes: 64 << 10,
                },
                Step::Barrier,
            ],
        )
    };
    case.mtus.fill(1500);
    for casts in [true, false] {
        case.told[0] = NetworkKnowledge {
            casts,
            ..NetworkKnowledge::default()
        };
        let mut play_on_nodes = NodePlay::new(&case, &[4; 4], 1, NoFaults, "4 x 4");
        play_on_nodes.run(Duration::from_secs(2));
        assert!(
            play_on_nodes.ends().iter().all(|end| *end == Some(Ok(()))),
            "{:?}",
            play_on_nodes.ends()
        );
        // Calls and signs of life are less than another copy.
        let (bytes, copies) = (play_on_nodes.wire_bytes(), if casts { 1 } else { 3 });
        assert!(
            bytes < (copies + 1) * (80 << 10),
            "casts {casts}: {bytes} bytes"
        );
    }
}

#[test]
fn a_topology_names_hosts_and_ranks_hang_on_theirs() {
    let topology =
        "schema = 1\nswitch = [{name='a', hosts='n[0-1]', links=['b']}, {name='b', hosts='n2'}]";
    let topology = Topology::parse(topology, "t").expect("a topology");
    let node_sizes = [2, 3, 1];
    let mut case = Case::new(6, &everything(6, 20_000));
    case.told[3] = NetworkKnowledge {
        topology: Some(topology),
        casts: false,
        ..NetworkKnowledge::default()
    };
    play_on_nodes(&case, &node_sizes, NoFaults, "with a topology");
}

#[test]
fn a_rank_that_is_killed_is_named_by_all_others_whichever_it_was() {
    let steps = [
        Step::Barrier,
        Step::Compute(Duration::from_secs(1)),
        Step::Barrier,
    ];
    for (host, port_id, rank) in [(0, 0, 0), (0, 1, 1), (1, 0, 3), (1, 2, 5), (2, 0, 6)] {
        let mut play_on_nodes =
            NodePlay::new(&Case::new(7, &steps), &[3, 3, 1], 1, NoFaults, "killed");
        assert!(
            !play_on_nodes.run(Duration::from_millis(700)),
            "they compute"
        );
        play_on_nodes.kill(host, port_id);
        play_on_nodes.run(Duration::from_secs(10));
        for (other, end) in play_on_nodes
            .ends()
            .into_iter()
            .enumerate()
            .filter(|(other, _)| *other != rank)
        {
            let named = Named {
                rank: Rank(rank as u16),
                host: format!("n{host}"),
            };
            assert_eq!(
                end,
                Some(Err(CommunicatorError::Gone(named))),
                "rank {other}"
            );
        }
    }
}

#[test]
fn ranks_of_one_host_that_expect_different_groups_are_refused() {
    let mut case = Case::new(4, &[Step::Barrier]);
    case.sizes[1] = 5;
    let mut play_on_nodes = NodePlay::new(&case, &[2, 2], 1, NoFaults, "sizes");
    play_on_nodes.run(Duration::from_secs(30));
    let ends = play_on_nodes.ends();
    let differ = |end: &Option<Result<(), CommunicatorError>>| {
        matches!(
            end,
            Some(Err(
                CommunicatorError::SizesDiffer { .. } | CommunicatorError::TooMany { .. }
            ))
        )
    };
    assert!(ends.iter().all(differ), "{ends:?}");
}
