//! Simulated tests of communicators: ranks that disagree about a call, and forged frames.

use ethbcast_collectives::communicator::{CommunicatorError, Operation, Signature, kind};
use ethbcast_tests::communicator::{Case, GROUP, Play, Step};
use ethbcast_transport::sim::{NoFaults, Random, RandomFaults, host_mac};
use ethbcast_transport::wire::{
    AckBody, EtherType, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES, Rank, StreamId,
    group_mac, seal,
};
use std::time::Duration;

fn group() -> Play<NoFaults> {
    let case = Case {
        leave: false,
        ..Case::new(
            3,
            &[
                Step::Broadcast {
                    root: 0,
                    bytes: 100,
                },
                Step::Barrier,
            ],
        )
    };
    let mut play = Play::new(&case, 1, NoFaults, "hostile");
    play.run(Duration::from_millis(300));
    play.assert_done();
    play
}

/// Seals a frame to the group from the address of a host.
fn frame(from: usize, header: Header, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(body);
    let link = EthernetHeader {
        source: host_mac(from),
        destination: group_mac(GROUP),
        ether_type: EtherType::DEFAULT,
    };
    seal(&mut frame, link, &header, body.len());
    frame
}

/// A header in the name of rank 1.
fn header(play: &mut Play<NoFaults>, kind: Kind, stream: u16, sequence: u64) -> Header {
    let session = play.member(0).session().expect("it has joined");
    let (stream, rank, flags) = (StreamId(stream), Rank(NAME), Flags::default());
    Header {
        kind,
        session,
        stream,
        rank,
        epoch: 0,
        flags,
        sequence,
        stamp: 0,
    }
}

#[test]
fn an_acknowledgement_of_data_that_was_never_sent_is_counted_and_ignored() {
    let mut play = group();
    let mut body = [0; AckBody::BYTES];
    AckBody {
        limit: 1000,
        below: 100,
        consumed: 100,
        held_us: 0,
    }
    .write(100, &mut body, 0);
    // For frame 99 of rank 0's cast, which has sent two, and of its chain, which has sent none.
    let chain = 1 + play.processes().len() as u16;
    for stream in [1, chain] {
        let header = header(&mut play, Kind::ACK, stream, 100);
        let now = play.simulation().now();
        play.simulation().inject(now, 0, &frame(1, header, &body));
    }
    play.run(Duration::from_millis(10));
    assert_eq!(play.stats()[0].streams.forged_acks, 2);
    play.go_on(&[
        Step::Broadcast {
            root: 0,
            bytes: 50_000,
        },
        Step::Barrier,
    ]);
    play.run(Duration::from_millis(500));
    play.assert_done();
}

#[test]
fn frames_of_non_members_are_counted_and_ignored() {
    let mut play = group();
    let before = play.stats()[0].non_members;
    let sign = header(
        &mut play,
        ethbcast_collectives::communicator::kind::ALIVE,
        0,
        0,
    );
    let another_session = Header {
        session: sign.session ^ 1,
        ..sign
    };
    let another_rank = Header {
        rank: Rank(2),
        ..sign
    };
    let no_rank = Header {
        rank: Rank(77),
        ..sign
    };
    let oneself = Header {
        rank: Rank(0),
        ..sign
    };
    let another_kind = Header {
        kind: ethbcast_collectives::session::kind::VERDICT,
        ..sign
    };
    for header in [
        another_session,
        another_rank,
        no_rank,
        oneself,
        another_kind,
    ] {
        let now = play.simulation().now();
        play.simulation()
            .inject(now, 0, &frame(1, header, &[0; 96]));
    }
    play.run(Duration::from_millis(10));
    assert_eq!(play.stats()[0].non_members, before + 5);
}

#[test]
fn bytes_of_any_kind_from_a_member_neither_panic_nor_end_anything_but_collectives() {
    let kinds = [
        Kind::DATA,
        Kind::ACK,
        Kind::HEARTBEAT,
        Kind::PUSH,
        Kind::PULL,
        Kind::NOTE,
        Kind::RECEIPT,
        Kind::ASK,
    ];
    let controls = [
        ethbcast_collectives::communicator::kind::CALL,
        ethbcast_collectives::communicator::kind::ALIVE,
        ethbcast_collectives::communicator::kind::BYE,
        ethbcast_collectives::session::kind::JOIN,
        ethbcast_collectives::session::kind::VIEW,
    ];
    for seed in 0..300 {
        let mut play = group();
        let mut random = Random::new(seed);
        for _ in 0..40 {
            let kind = kinds
                .iter()
                .chain(&controls)
                .nth(random.below(13) as usize)
                .copied()
                .expect("one of thirteen");
            let mut body = vec![0; random.below(544) as usize];
            random.fill(&mut body);
            let header = Header {
                stamp: random.next_u64() as u32,
                flags: Flags(random.next_u64() as u8),
                sequence: random.below(80),
                ..header(&mut play, kind, random.below(9) as u16, 0)
            };
            let now = play.simulation().now();
            play.simulation().inject(now, 0, &frame(1, header, &body));
        }
        play.run(Duration::from_millis(300));
        // The traffic between ranks 0 and 2 is unharmed.
        let message = [Step::Message {
            from: 2,
            to: 0,
            tag: 1,
            bytes: 20_000,
        }];
        play.go_on_at(0, &message);
        play.go_on_at(2, &message);
        play.run(Duration::from_secs(1));
        assert_eq!(
            (&play.ends()[0], &play.ends()[2]),
            (&Some(Ok(())), &Some(Ok(()))),
            "seed {seed}"
        );
    }
}

const RANKS: u16 = 4;
/// Rank that forged frames claim to come from.
const NAME: u16 = 1;
const CALLS: [Step; 4] = [
    Step::Broadcast {
        root: 0,
        bytes: 60_000,
    },
    Step::Gather {
        root: 2,
        bytes: 3000,
    },
    Step::Allgather { bytes: 500 },
    Step::Barrier,
];

fn signature(number: u64, operation: u8) -> Vec<u8> {
    [
        &number.to_be_bytes()[..],
        &[operation, 0, 0, 0, 0, 0, 0, 0],
        &7_u64.to_be_bytes(),
    ]
    .concat()
}

/// Encodes the body of ALIVE or BYE: number of repeats, last call, code of the failure, three ranks
/// (the first one blamed), first number.
fn notice(repeats: u8, call: Option<Vec<u8>>, code: u8, ranks: [u16; 3], from: u64) -> Vec<u8> {
    let blame = if code == 4 { 3 } else { 0 };
    let mut body = vec![repeats, 0, 255, 255, 1, 1, 0, 0];
    body.extend(call.unwrap_or_else(|| vec![0; 24]));
    body.extend([0; 72]);
    body.extend([code, blame]);
    ranks
        .into_iter()
        .for_each(|rank| body.extend(rank.to_be_bytes()));
    body.extend(from.to_be_bytes());
    body.extend(signature(1, 2));
    body.extend(signature(1, 4));
    body
}

/// Forgeries: a name, the kind, the number, the stamp and the body.
fn forgeries() -> Vec<(&'static str, Kind, u64, u32, Vec<u8>)> {
    let alive = |what, code, rank| {
        (
            what,
            kind::ALIVE,
            0,
            0,
            notice(0, None, code, [rank, 2, 0], 0),
        )
    };
    vec![
        ("good-bye", kind::BYE, 0, 0, notice(0, None, 0, [0; 3], 0)),
        (
            "a good-bye that will be repeated",
            kind::BYE,
            0,
            0,
            notice(255, None, 0, [0; 3], 0),
        ),
        (
            "a good-bye after many calls",
            kind::BYE,
            0,
            0,
            notice(5, Some(signature(u64::MAX, 2)), 0, [0; 3], 0),
        ),
        alive("calls differ", 1, 3),
        alive("rank 3 is gone", 2, 3),
        alive("rank 0 is gone", 2, 0),
        alive("itself is gone", 2, NAME),
        alive("rank 3 has left", 3, 3),
        alive("a call is given up", 4, NAME),
        alive("garbled", 5, 3),
        alive("nothing gets through", 6, 3),
        alive("deaf", 7, NAME),
        (
            "the next call differs",
            kind::ALIVE,
            0,
            0,
            notice(0, Some(signature(2, 5)), 0, [0; 3], 0),
        ),
        (
            "the last call of all",
            kind::ALIVE,
            0,
            0,
            notice(0, Some(signature(u64::MAX, 2)), 0, [0; 3], u64::MAX),
        ),
        (
            "a heartbeat far ahead",
            Kind::HEARTBEAT,
            u64::MAX,
            1 << 30,
            Vec::new(),
        ),
        (
            "a heartbeat of a late stamp",
            Kind::HEARTBEAT,
            2,
            1 << 30,
            Vec::new(),
        ),
        (
            "a heartbeat with a body",
            Kind::HEARTBEAT,
            2,
            u32::MAX,
            vec![255; 16],
        ),
        (
            "data far ahead",
            Kind::DATA,
            u64::MAX,
            1 << 30,
            vec![255; 100],
        ),
        (
            "an acknowledgement of everything",
            Kind::ACK,
            u64::MAX,
            u32::MAX,
            vec![255; 64],
        ),
        (
            "an acknowledgement of nothing",
            Kind::ACK,
            0,
            0,
            vec![0; 16],
        ),
        ("a question", Kind::ASK, u64::MAX, 1 << 30, vec![255; 16]),
        ("a note", Kind::NOTE, u64::MAX, 1 << 30, vec![255; 64]),
        (
            "a receipt of everything",
            Kind::RECEIPT,
            u64::MAX,
            u32::MAX,
            vec![255; 64],
        ),
        (
            "a push far ahead",
            Kind::PUSH,
            u64::MAX,
            1 << 30,
            vec![255; 200],
        ),
        (
            "a pull far ahead",
            Kind::PULL,
            u64::MAX,
            1 << 30,
            vec![255; 200],
        ),
    ]
}

fn forged_group(seed: u64, replay: &str) -> Play<NoFaults> {
    let patience = Duration::from_secs(3);
    let case = Case {
        leave: false,
        patience,
        ..Case::new(RANKS, &CALLS)
    };
    let mut play = Play::new(&case, seed, NoFaults, replay);
    play.run(Duration::from_millis(250));
    play.assert_done();
    play
}

/// All ranks call; one rank or all others receive `forged_frame` at some moment; then they call
/// again. Returns the results.
fn calls_beside(
    play: &mut Play<NoFaults>,
    random: &mut Random,
    forged_header: Header,
    body: &[u8],
) {
    play.go_on(&CALLS);
    play.run(Duration::from_micros(random.below(3000)));
    let (now, to) = (
        play.simulation().now(),
        random.below(2 * u64::from(RANKS)) as usize,
    );
    for victim in (0..RANKS.into())
        .filter(|&host| host != usize::from(NAME) && (to == host || to >= RANKS.into()))
    {
        play.simulation()
            .inject(now, victim, &frame(NAME.into(), forged_header, body));
    }
    play.run(Duration::from_secs(4));
    play.go_on(&CALLS);
    play.run(Duration::from_secs(4));
}

#[test]
fn a_made_up_frame_changes_nothing() {
    for (what, kind, sequence, stamp, body) in forgeries() {
        for seed in 0..8 {
            let replay = format!("{what}, seed {seed}");
            let mut random = Random::new(seed);
            let mut play = forged_group(seed, &replay);
            let is_mail = matches!(
                kind,
                Kind::ASK | Kind::NOTE | Kind::RECEIPT | Kind::PUSH | Kind::PULL
            );
            let is_control = matches!(kind, kind::ALIVE | kind::BYE);
            // The rank's own cast, or that of rank 0 for frames towards the root.
            let stream = if is_mail || is_control {
                0
            } else {
                1 + 2 * (seed % 2) as u16
            };
            let forged_header = Header {
                stamp,
                ..header(&mut play, kind, stream, sequence)
            };
            calls_beside(&mut play, &mut random, forged_header, &body);
            play.assert_done();
        }
    }
}

#[test]
fn numbers_of_any_size_from_a_member_end_no_call_for_good_and_panic_nowhere() {
    let kinds = [
        Kind::DATA,
        Kind::ACK,
        Kind::HEARTBEAT,
        Kind::PUSH,
        Kind::PULL,
        Kind::NOTE,
        Kind::RECEIPT,
        Kind::ASK,
    ];
    let numbers = [
        0,
        1,
        3,
        60,
        1 << 16,
        1 << 31,
        1 << 32,
        1 << 62,
        u64::MAX - 1,
        u64::MAX,
    ];
    for seed in 0..250 {
        let replay = format!("seed {seed}");
        let mut random = Random::new(seed);
        let mut play = forged_group(seed, &replay);
        let pick = |random: &mut Random| numbers[random.below(10) as usize];
        let kind = kinds[random.below(8) as usize];
        let mut body: Vec<u8> = (0..8)
            .flat_map(|_| pick(&mut random).to_be_bytes())
            .collect();
        body.truncate(random.below(65) as usize);
        let stamp = pick(&mut random) as u32;
        let sequence = pick(&mut random);
        let stream = random.below(10) as u16;
        let forged_header = Header {
            stamp,
            flags: Flags(random.next_u64() as u8),
            ..header(&mut play, kind, stream, sequence)
        };
        calls_beside(&mut play, &mut random, forged_header, &body);
        assert!(
            play.ends().iter().all(Option::is_some),
            "{replay}: {kind:?} {sequence}: a call hangs"
        );
        let memory = (0..RANKS.into())
            .map(|host| play.member(host).memory().mailbox.receive_queue_bytes)
            .max();
        assert!(memory < Some(1 << 20), "{replay}: {memory:?}");
    }
}

#[test]
fn calls_of_ghosts_keep_nobody_from_joining() {
    let call = |size: u16, forged_group: &str, host: &str, preset: u8| {
        let mut body = [
            &99_u64.to_be_bytes()[..],
            &size.to_be_bytes(),
            &576_u16.to_be_bytes(),
            &[preset, 0],
        ]
        .concat();
        body.extend([0; 32]);
        for text in [forged_group, host] {
            body.push(text.len() as u8);
            body.extend(text.as_bytes());
        }
        body
    };
    let ghosts = [
        call(RANKS + 1, GROUP, "n9", 0),
        call(RANKS, GROUP, "n9", 1),
        call(RANKS, GROUP, "n2", 0),
    ];
    for (at, body) in ghosts.iter().enumerate() {
        let mut case = Case {
            leave: false,
            ..Case::new(RANKS, &CALLS)
        };
        case.starts[2] = Duration::from_millis(1000);
        let mut play = Play::new(&case, 1, NoFaults, &format!("ghost {at}"));
        play.run(Duration::from_millis(950));
        let (kind, rank, flags) = (kind::CALL, Rank::NONE, Flags::default());
        let forged_header = Header {
            kind,
            session: 0,
            stream: StreamId(0),
            rank,
            epoch: 0,
            flags,
            sequence: 0,
            stamp: 0,
        };
        // From an unused address, or from that of an existing process.
        for source in [9, NAME.into()] {
            let (now, forged) = (play.simulation().now(), frame(source, forged_header, body));
            [0, 3]
                .into_iter()
                .for_each(|host| play.simulation().inject(now, host, &forged));
        }
        play.run(Duration::from_secs(8));
        play.assert_done();
    }
}

const BARRIER: Step = Step::Barrier;
const BROADCAST: Step = Step::Broadcast {
    root: 0,
    bytes: 256,
};

/// Plays `odd` with other steps than the others after two matching collectives; returns the errors
/// of all, and the time of the last.
fn errors(ranks: u16, odd: usize, theirs: &[Step], others: &[Step]) -> Vec<CommunicatorError> {
    let common = [BARRIER, BROADCAST];
    // A rank detects the mismatch in its next call if it need not wait in the mismatched one.
    let program = |rest: &[Step]| [&common, rest, &[BARRIER; 2]].concat();
    let mut case = Case::new(ranks, &program(others));
    case.programs[odd] = program(theirs);
    let replay = format!("{ranks} ranks, rank {odd} in {theirs:?}, the others in {others:?}");
    let mut play = Play::new(&case, 1, NoFaults, &replay);
    play.run(Duration::from_secs(2));
    let joined_at = play.processes()[0].joined_at.expect("all have joined");
    for (rank, process) in play.processes().iter().enumerate() {
        let Some((Err(_), at)) = &process.ended else {
            panic!("{replay}: rank {rank} ended as {:?}", process.ended)
        };
        assert!(
            at.since(joined_at) < Duration::from_secs(1),
            "{replay}: rank {rank} took {:?}",
            at.since(joined_at)
        );
    }
    (0..ranks.into()).map(|host| play.error(host)).collect()
}

#[test]
fn another_root_length_or_operation_is_named_on_every_rank_within_a_second() {
    let ways = [
        (
            BROADCAST,
            Step::Broadcast {
                root: 1,
                bytes: 256,
            },
        ),
        (
            BROADCAST,
            Step::Broadcast {
                root: 0,
                bytes: 255,
            },
        ),
        (BROADCAST, BARRIER),
        (BARRIER, BROADCAST),
        (
            BROADCAST,
            Step::Broadcast {
                root: 0,
                bytes: 100_000,
            },
        ),
        (
            Step::Broadcast {
                root: 0,
                bytes: 100_000,
            },
            Step::Broadcast {
                root: 0,
                bytes: 99_999,
            },
        ),
        (
            Step::Broadcast {
                root: 1,
                bytes: 100_000,
            },
            BARRIER,
        ),
        (
            Step::Scatter {
                root: 0,
                bytes: 100,
            },
            Step::Gather {
                root: 0,
                bytes: 100,
            },
        ),
        (
            Step::Scatter {
                root: 0,
                bytes: 100,
            },
            Step::Scatter { root: 0, bytes: 99 },
        ),
        (
            Step::Gather { root: 0, bytes: 99 },
            Step::Gather {
                root: 0,
                bytes: 100_000,
            },
        ),
        (
            Step::Gather { root: 1, bytes: 99 },
            Step::Gather { root: 0, bytes: 99 },
        ),
        (
            Step::Allgather { bytes: 100 },
            Step::Allgather { bytes: 101 },
        ),
        (
            Step::Allgather { bytes: 100 },
            Step::Allgather { bytes: 90_000 },
        ),
        (Step::Allgather { bytes: 100 }, BARRIER),
    ];
    for ranks in [2, 3, 8] {
        for (one, other) in ways {
            for odd in [0, 1, ranks - 1] {
                for error in errors(ranks, odd.into(), &[one], &[other]) {
                    let CommunicatorError::Mismatch {
                        one: named,
                        other: also,
                        signatures,
                    } = &error
                    else {
                        panic!(
                            "{ranks} ranks, rank {odd} in {one:?}, the others in {other:?}: {error}"
                        )
                    };
                    let oddity = named.rank == Rank(odd) || also.rank == Rank(odd);
                    assert!(oddity && named.rank != also.rank, "{error}");
                    assert!(
                        signatures.0.number == 2
                            && signatures.1.number == 2
                            && signatures.0 != signatures.1,
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_rank_that_makes_one_call_more_or_less_is_named() {
    for ranks in [2, 3, 8] {
        for odd in [0, ranks - 1] {
            for (theirs, others) in [
                (vec![BROADCAST, BROADCAST], vec![BROADCAST]),
                (vec![], vec![BROADCAST]),
            ] {
                for error in errors(ranks, odd.into(), &theirs, &others) {
                    assert!(
                        matches!(error, CommunicatorError::Mismatch { .. }),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_sentence_names_ranks_hosts_and_calls() {
    let broadcast = Signature {
        number: 2,
        operation: Operation::Broadcast,
        root: Rank(0),
        bytes: 256,
    };
    let barrier = Signature {
        number: 2,
        operation: Operation::Barrier,
        root: Rank(0),
        bytes: 0,
    };
    let errors = errors(3, 2, &[BARRIER], &[BROADCAST]);
    let CommunicatorError::Mismatch { signatures, .. } = &errors[0] else {
        panic!("{}", errors[0])
    };
    assert!(**signatures == (broadcast, barrier) || **signatures == (barrier, broadcast));
    let text = errors[1].to_string();
    assert!(text.contains("rank 2 (n2) is in barrier #2"), "{text}");
    assert!(
        text.contains("is in broadcast #2 of 256 bytes from rank 0"),
        "{text}"
    );
    assert!(
        text.contains("call the same collectives in the same order"),
        "{text}"
    );
}

#[test]
fn a_mismatch_is_found_under_loss_too_and_later_collectives_fail_alike() {
    for seed in 0..30 {
        let mut case = Case::new(4, &[BARRIER, BROADCAST, BARRIER]);
        case.leave = false;
        case.programs[3] = vec![BARRIER, Step::Gather { root: 0, bytes: 1 }, BARRIER];
        let mut play = Play::new(
            &case,
            seed,
            RandomFaults::new(seed).loss(0.2),
            &format!("seed {seed}"),
        );
        play.run(Duration::from_secs(3));
        let first: Vec<_> = (0..4).map(|host| play.error(host)).collect();
        play.go_on(&[BARRIER]);
        play.run(Duration::from_millis(1));
        for (host, error) in first.iter().enumerate() {
            assert!(
                matches!(error, CommunicatorError::Mismatch { .. }),
                "seed {seed}: {error}"
            );
            assert_eq!(play.error(host), *error, "seed {seed}");
        }
    }
}
