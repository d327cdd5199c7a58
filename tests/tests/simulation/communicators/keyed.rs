//! Simulated tests of communicators with keys, against an attacker who receives every frame and
//! sends any.

use crate::keyed_sessions::{Heard, altered, recording};
use ethbcast_collectives::communicator::{CommunicatorError, Number, Reduction};
use ethbcast_collectives::keys::Keys;
use ethbcast_tests::communicator::{Case, NetworkKnowledge, Play, Step, play};
use ethbcast_tests::session::keys;
use ethbcast_transport::sim::{Delivery, Faults, NoFaults, Random, RandomFaults};
use ethbcast_transport::wire::{ETHERNET_BYTES, Header, KEYED_VERSION, Kind, parse_headers};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const RANKS: usize = 4;
/// Frame type of a rank that looks for its group.
const CALL: u8 = 40;

const CALLS: [Step; 6] = [
    Step::Broadcast {
        root: 0,
        bytes: 60_000,
    },
    Step::Gather {
        root: 2,
        bytes: 3000,
    },
    Step::Allgather { bytes: 500 },
    Step::Message {
        from: 3,
        to: 1,
        tag: 5,
        bytes: 20_000,
    },
    Step::Broadcast {
        root: 3,
        bytes: 100,
    },
    Step::Barrier,
];

fn case() -> Case {
    Case::new(RANKS as u16, &CALLS)
}

fn sent(play: &Play<impl Faults>) -> u64 {
    play.network().sent_frames
}

#[test]
fn ranks_with_one_key_call_each_other_whatever_is_lost() {
    for (seed, loss) in [(1, 0.0), (2, 0.02), (3, 0.1)] {
        let faults = || {
            RandomFaults::new(seed)
                .loss(loss)
                .duplicate(loss)
                .reorder(loss, Duration::from_micros(300))
        };
        for probe in [false, true] {
            let mut case = Case {
                mtus: vec![1500; RANKS],
                ..case()
            };
            case.told[0] = NetworkKnowledge {
                probe,
                ..NetworkKnowledge::default()
            };
            let keyed = play(
                &case.clone().keyed(),
                seed,
                faults(),
                &format!("seed {seed} loss {loss} keyed"),
            );
            let plain = play(&case, seed, faults(), &format!("seed {seed} loss {loss}"));
            // Frames carry 8 bytes less.
            assert!(
                loss > 0.0 || probe || sent(&keyed) <= sent(&plain) * 21 / 20,
                "{} {}",
                sent(&keyed),
                sent(&plain)
            );
        }
    }
}

#[test]
fn a_keyed_group_goes_on_without_a_rank_that_died() {
    let case = Case {
        leave: false,
        crashes: vec![(1, Duration::from_millis(500))],
        ..case()
    }
    .keyed();
    let mut play = Play::new(&case, 1, NoFaults, "shrinking");
    play.run(Duration::from_secs(4));
    let left = [0, 2, 3];
    left.iter().for_each(|&host| {
        play.go_on_at(
            host,
            &[
                Step::Shrink,
                Step::Broadcast {
                    root: 1,
                    bytes: 5000,
                },
            ],
        )
    });
    play.run(Duration::from_secs(10));
    for host in left {
        assert_eq!(play.ends()[host], Some(Ok(())), "host {host}");
    }
}

/// Returns the frames that come to the hosts of a group, some of which are lost.
fn captured(case: &Case) -> Vec<Vec<u8>> {
    let frames: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let hears = Rc::clone(&frames);
    let mut faults = RandomFaults::new(3).loss(0.03).duplicate(0.03);
    let hearing = move |delivery: &Delivery<'_>| {
        hears.borrow_mut().push(delivery.frame.to_vec());
        faults.fate(delivery)
    };
    play(case, 3, hearing, "captured");
    frames.take()
}

/// Whether 16 bytes of what the simulated ranks send are in a frame.
fn has_content(frame: &[u8]) -> bool {
    let is_step = |pair: &[u8]| pair[1].wrapping_sub(pair[0]) == 7;
    frame.windows(16).any(|part| part.windows(2).all(is_step))
}

/// Returns the stream or the message in a frame with content, the offset, and the bytes. A frame's
/// place in its stream is part of the first.
fn placed(frame: &[u8]) -> Option<([u64; 4], usize, &[u8])> {
    let (headers, bytes) = parse_headers(frame).expect("a whole frame");
    let Header {
        kind,
        stream,
        rank,
        sequence,
        ..
    } = headers.header;
    let payload = &headers.payload[..bytes];
    let number = |at: usize, bytes: usize| {
        let digits = payload[at..at + bytes].iter();
        digits.fold(0, |number, digit| number << 8 | u64::from(*digit))
    };
    let to = frame[..6]
        .iter()
        .fold(0, |to, byte| to << 8 | u64::from(*byte));
    let (offset, head_bytes) = match kind {
        Kind::DATA => return Some(([1, stream.0.into(), 0, sequence], 0, payload)),
        Kind::PUSH => (number(8, 4), 32),
        Kind::PULL => (number(8, 8), 16),
        _ => return None,
    };
    let message = [2, rank.0.into(), to, number(0, 8)];
    Some((message, offset as usize, &payload[head_bytes..]))
}

#[test]
fn a_capture_of_a_keyed_group_has_no_content_and_one_text_at_each_place() {
    let more = [
        Step::Scatter {
            root: 1,
            bytes: 3000,
        },
        Step::Reduce {
            root: 1,
            reduction: Reduction::Max(Number::U8),
            bytes: 9000,
        },
        Step::Allreduce {
            reduction: Reduction::Max(Number::U8),
            bytes: 9000,
        },
    ];
    let case = Case::new(RANKS as u16, &[&CALLS[..], &more].concat());
    assert!(captured(&case).iter().any(|frame| has_content(frame)));
    let frames = captured(&case.keyed());
    let mut texts: BTreeMap<[u64; 4], Vec<Option<u8>>> = BTreeMap::new();
    let (mut again, mut messages) = (0, 0);
    for frame in &frames {
        assert!(!has_content(frame));
        let Some((place, offset, bytes)) = placed(frame) else {
            continue;
        };
        let text = texts.entry(place).or_default();
        text.resize(text.len().max(offset + bytes.len()), None);
        for (known, byte) in text[offset..].iter_mut().zip(bytes) {
            again += usize::from(known.is_some());
            assert_eq!(*known.get_or_insert(*byte), *byte, "{place:?}");
        }
        messages += usize::from(place[0] == 2);
    }
    assert!(again > 10_000 && messages > 20, "{again} {messages}");
}

/// Plays a group while an attacker sends recorded frames, unchanged or altered, to any host from
/// `begins` on. `known` are frames of an earlier group.
fn attacked(
    case: &Case,
    seed: u64,
    known: &Heard,
    begins: Duration,
    ends: Duration,
) -> (Play<impl Faults + use<>>, Heard) {
    let (heard, faults) = recording(known);
    let mut play = Play::new(case, seed, faults, &format!("attacked, seed {seed}"));
    let (mut random, mut injected) = (Random::new(!seed), 0);
    play.run(begins);
    let until = play.simulation().now() + ends;
    while play.simulation().now() < until {
        play.run(Duration::from_micros(500));
        let count = heard.borrow().len() as u64;
        if count > 0 {
            let (to, mut frame) = heard.borrow()[random.below(count) as usize].clone();
            altered(&mut frame, &mut random);
            let to = if random.chance(0.5) {
                to
            } else {
                random.below(RANKS as u64) as usize
            };
            let now = play.simulation().now();
            play.simulation().inject(now, to, &frame);
            injected += 1;
        }
    }
    assert!(injected > 1000, "{injected}");
    let heard = heard.borrow().clone();
    assert!(
        heard
            .iter()
            .all(|(_, frame)| frame[ETHERNET_BYTES + 2] == KEYED_VERSION)
    );
    (play, heard)
}

#[test]
fn whatever_somebody_without_the_key_repeats_or_alters_has_no_effect() {
    let case = Case {
        leave: false,
        ..case()
    }
    .keyed();
    let (mut known, begins) = (Heard::new(), Duration::from_millis(20));
    for seed in 1..5 {
        let (mut play, heard) = attacked(&case, seed, &known, begins, Duration::from_secs(2));
        play.go_on(&CALLS);
        play.run(Duration::from_secs(10));
        play.assert_done();
        // The attacker knows all frames of this group in the next one.
        known = heard;
    }
}

#[test]
fn forged_frames_of_another_version_end_no_join() {
    let case = Case {
        leave: false,
        ..case()
    }
    .keyed();
    let (_, known) = attacked(
        &case,
        1,
        &Heard::new(),
        Duration::ZERO,
        Duration::from_secs(1),
    );
    let mut frame = known
        .into_iter()
        .map(|(_, frame)| frame)
        .find(|frame| frame[17] == CALL)
        .expect("ranks call");
    // A non-member's, so that no true frame of its address takes it back.
    frame[11] ^= 0x80;
    frame[ETHERNET_BYTES + 2] = 9;
    // The others wait for the last rank.
    let mut starts = vec![Duration::ZERO; RANKS];
    starts[3] = Duration::from_millis(500);
    let mut play = Play::new(&Case { starts, ..case }, 1, NoFaults, "another version");
    for _ in 0..10 {
        let now = play.simulation().now();
        (0..RANKS).for_each(|to| play.simulation().inject(now, to, &frame));
        play.run(Duration::from_millis(10));
    }
    play.run(Duration::from_secs(10));
    play.assert_done();
}

#[test]
fn recorded_frames_keep_no_dead_rank_alive() {
    let case = Case {
        leave: false,
        crashes: vec![(2, Duration::from_millis(300))],
        ..case()
    }
    .keyed();
    let (mut play, _) = attacked(
        &case,
        1,
        &Heard::new(),
        Duration::ZERO,
        Duration::from_secs(3),
    );
    [0, 1, 3]
        .into_iter()
        .for_each(|host| play.go_on_at(host, &[Step::Barrier]));
    play.run(Duration::from_millis(10));
    for host in [0, 1, 3] {
        assert!(
            matches!(play.error(host), CommunicatorError::Gone(named) if named.host == "n2"),
            "host {host}"
        );
    }
}

#[test]
fn recorded_calls_of_an_earlier_group_delay_or_prevent_the_next_and_change_nothing_else() {
    let patience = Duration::from_secs(3);
    let case = Case {
        leave: false,
        patience,
        ..case()
    }
    .keyed();
    let (_, known) = attacked(
        &case,
        1,
        &Heard::new(),
        Duration::ZERO,
        Duration::from_secs(1),
    );
    for seed in 2..5 {
        let (play, _) = attacked(&case, seed, &known, Duration::ZERO, patience * 3);
        for (host, end) in play.ends().into_iter().enumerate() {
            let end = end.unwrap_or_else(|| panic!("seed {seed}: host {host} waits"));
            assert!(
                end.is_ok() || play.processes()[host].joined_at.is_none(),
                "seed {seed}: host {host}: {end:?}"
            );
        }
    }
}

#[test]
fn a_rank_with_another_key_or_none_is_named_when_the_time_to_join_is_over() {
    type KeysOf = fn(usize) -> Option<Keys>;
    let is_other: [(KeysOf, [&str; 2]); 2] = [
        (
            |host| Some(keys(if host == 2 { 2 } else { 1 })),
            ["copy one file to both", "copy one file to both"],
        ),
        (
            |host| (host != 2).then(|| keys(1)),
            [
                "frames without a key were heard from",
                "and this host has none: give it the file",
            ],
        ),
    ];
    for (keys, [told, itself]) in is_other {
        let case = Case {
            keys,
            patience: Duration::from_secs(3),
            ..case()
        };
        let mut play = Play::new(&case, 1, NoFaults, "other keys");
        play.run(Duration::from_secs(3));
        for host in 0..RANKS {
            let text = play.error(host).to_string();
            assert!(
                text.contains(if host == 2 { itself } else { told }),
                "host {host}: {text}"
            );
            let there = if host == 2 {
                "1 of 4 were there: n2;"
            } else {
                "3 of 4 were there: n0, n1, n3;"
            };
            assert!(text.contains(there), "host {host}: {text}");
        }
    }
}

#[test]
fn a_rank_with_another_key_or_none_is_told_so_by_a_group_that_runs() {
    type KeysOf = fn(usize) -> Option<Keys>;
    let is_other: [(KeysOf, &str); 2] = [
        (|_| Some(keys(2)), "copy one file to both"),
        (|_| None, "and this host has none: give it the file"),
    ];
    for (keys, itself) in is_other {
        let running = Case {
            leave: false,
            ..case()
        }
        .keyed();
        let mut play = Play::new(&running, 1, NoFaults, "another key, late");
        play.run(Duration::from_secs(1));
        let called = |play: &Play<NoFaults>| {
            let others = play
                .stats()
                .into_iter()
                .enumerate()
                .filter(|&(host, _)| host != 2);
            others.map(|(_, stats)| stats.calls_sent).sum::<u64>()
        };
        let before = called(&play);
        let late = Case {
            keys,
            patience: Duration::from_secs(3),
            ..case()
        };
        play.restart(2, &late, 9);
        play.run(Duration::from_secs(4));
        let text = play.error(2).to_string();
        assert!(text.contains(itself), "{text}");
        let answers = called(&play) - before;
        assert!(
            (1..=24).contains(&answers),
            "nobody answers for ever: {answers}"
        );
    }
}

#[test]
fn recorded_frames_keep_no_rank_that_leaves() {
    let case = Case {
        leave: false,
        ..case()
    }
    .keyed();
    let (mut play, heard) = attacked(
        &case,
        1,
        &Heard::new(),
        Duration::ZERO,
        Duration::from_secs(2),
    );
    play.assert_done();
    let (began, mut next) = (play.simulation().now(), 0);
    for host in 0..RANKS {
        play.member(host)
            .leave(began, began + Duration::from_secs(3));
        play.simulation().wake(host, began);
    }
    // In the order in which they were sent.
    while !(0..RANKS).all(|host| play.member(host).has_left()) {
        for _ in 0..5 {
            let (to, frame) = &heard[next % heard.len()];
            let now = play.simulation().now();
            play.simulation().inject(now, *to, frame);
            next += 1;
        }
        play.run(Duration::from_millis(1));
    }
    let took = play.simulation().now().since(began);
    assert!(took < Duration::from_millis(300), "{took:?}");
}
