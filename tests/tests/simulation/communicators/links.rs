//! Links that lose one kind of frame in one direction: no call hangs, and the rank behind the bad
//! link is named.

use ethbcast_collectives::communicator::kind::ALIVE;
use ethbcast_planning::model::{Calibration, Point};
use ethbcast_tests::communicator::{Case, Play, Step};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::{Kind, Rank, parse};
use std::time::Duration;

const RANKS: u16 = 5;
/// Ranks behind the bad link: the root of broadcasts and barriers, and another.
const VICTIMS: [usize; 2] = [0, 3];
const WITHIN: Duration = Duration::from_secs(3);
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

const DIRECTIONS: [Direction; 4] = [Direction::ToVictim, Direction::FromVictim, Direction::ToOne, Direction::FromOne];

fn before(victim: usize) -> usize {
    (victim + usize::from(RANKS) - 1) % usize::from(RANKS)
}

fn is_lost(delivery: &Delivery<'_>, kind: Option<Kind>, victim: usize, direction: Direction) -> bool {
    let Some(from) = delivery.from else { return false };
    let matches = match direction {
        Direction::ToVictim => delivery.to == victim,
        Direction::FromVictim => from == victim,
        Direction::ToOne => (from, delivery.to) == (victim, before(victim)),
        Direction::FromOne => (from, delivery.to) == (before(victim), victim),
    };
    let is_kind = || kind.is_none_or(|kind| parse(delivery.frame).is_ok_and(|frame| frame.header.kind == kind));
    matches && is_kind()
}

fn faults(kind: Option<Kind>, victim: usize, direction: Direction) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery| {
        let bad = delivery.at.since(Instant::START) >= BAD_AT && is_lost(delivery, kind, victim, direction);
        if bad { Fate::Drop } else { Fate::Deliver }
    }
}

fn all_faults() -> impl Iterator<Item = (Option<Kind>, usize, Direction)> {
    let of = |kind| DIRECTIONS.into_iter().flat_map(move |direction| VICTIMS.map(|victim| (kind, victim, direction)));
    KINDS.into_iter().flat_map(of)
}

fn assert_ends(calls: &[Step], chains: bool) {
    let program = [&[Step::Compute(2 * BAD_AT)], calls].concat();
    for (kind, victim, direction) in all_faults() {
        let replay = format!("{kind:?} lost {direction:?}, victim {victim}, in {calls:?}, chains: {chains}");
        let mut case = Case { patience: WITHIN, ..Case::new(RANKS, &program) };
        case.leave = false;
        case.calibration = chains.then(policed);
        let mut play = Play::new(&case, 1, faults(kind, victim, direction), &replay);
        play.run(WITHIN + Duration::from_secs(3));
        let failed = play.ends().iter().any(|end| matches!(end, Some(Err(_))));
        // A rank that had completed learns of it in the next call.
        let done = |end: &Option<Result<(), _>>| *end == Some(Ok(()));
        let late: Vec<usize> = (0..RANKS.into()).filter(|&host| failed && done(&play.ends()[host])).collect();
        late.iter().for_each(|&host| play.go_on_at(host, &[Step::Barrier]));
        play.run(WITHIN + Duration::from_secs(1));
        for (host, end) in play.ends().iter().enumerate() {
            let end = end.as_ref().unwrap_or_else(|| panic!("{replay}: host {host} hangs"));
            let text = end.as_ref().map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(failed, end.is_err(), "{replay}: host {host}: {text}");
            let named =
                end.is_ok() || text.contains(&format!("rank {victim} (n{victim})")) || text.contains("this rank");
            assert!(named || host == victim, "{replay}: host {host} blames another: {text}");
        }
    }
}

/// Costs under which long broadcasts go down the chain.
fn policed() -> Calibration {
    let point = |bytes, gap_ns, latency_ns| Point { bytes, gap_ns, latency_ns };
    let points = vec![point(64, 600, 20_000), point(544, 4_600, 20_000), point(54_400, 460_000, 21_000)];
    Calibration::from_points(points).and_then(|costs| costs.with_cast_max(2_000)).expect("a calibration")
}

#[test]
fn a_broadcast_by_cast_ends() {
    assert_ends(&[Step::Broadcast { root: 0, bytes: 200_000 }, Step::Barrier], false);
}

#[test]
fn a_broadcast_by_chain_ends() {
    assert_ends(&[Step::Broadcast { root: 0, bytes: 200_000 }, Step::Barrier], true);
}

#[test]
fn a_barrier_ends() {
    assert_ends(&[Step::Barrier; 3], false);
}

#[test]
fn a_gather_ends() {
    assert_ends(&[Step::Gather { root: 0, bytes: 30_000 }, Step::Gather { root: 3, bytes: 30_000 }], false);
}

#[test]
fn messages_end_at_their_deadlines() {
    for (kind, victim, direction) in all_faults() {
        let replay = format!("{kind:?} lost {direction:?}");
        let case = Case { leave: false, ..Case::new(RANKS, &[]) };
        let mut play = Play::new(&case, 1, faults(kind, victim, direction), &replay);
        play.run(2 * BAD_AT);
        let by = play.simulation().now() + WITHIN;
        let mut asked = Vec::new();
        for (from, to) in [(before(victim), victim), (victim, before(victim))] {
            for (tag, bytes) in [(1, 10), (2, 100_000)] {
                let sent = play.member(from).send(Rank(to as u16), tag, vec![7; bytes], Some(by)).expect("room");
                let received = play.member(to).recv(Rank(from as u16), tag, bytes, Some(by)).expect("room");
                asked.push((from, to, sent, received));
            }
        }
        let now = play.simulation().now();
        (0..RANKS.into()).for_each(|host| play.simulation().wake(host, now));
        play.run(WITHIN + Duration::from_secs(1));
        for (from, to, sent, received) in asked {
            assert!(play.member(to).take_received(received).is_some(), "{replay}: a receive hangs");
            let ended = play.member(from).take_sent(sent).is_some() || play.member(from).has_gone(sent);
            assert!(ended, "{replay}: a send hangs");
        }
    }
}

#[test]
fn joining_ends_though_calls_get_lost() {
    for direction in DIRECTIONS {
        let case = Case { patience: WITHIN, leave: false, ..Case::new(RANKS, &[]) };
        let faults = move |delivery: &Delivery<'_>| {
            if is_lost(delivery, None, 3, direction) { Fate::Drop } else { Fate::Deliver }
        };
        let mut play = Play::new(&case, 1, faults, &format!("calls lost {direction:?}"));
        play.run(WITHIN + Duration::from_secs(1));
        for (host, end) in play.ends().into_iter().enumerate() {
            let Some(Err(error)) = end else { panic!("{direction:?}: host {host} has joined or hangs: {end:?}") };
            let text = error.to_string();
            // Of two ranks that cannot reach each other either may be named.
            let named = ["n3", "n2 did not confirm", "4 of 5"].iter().any(|name| text.contains(name));
            assert!(host == 3 || named, "{direction:?}: host {host}: {text}");
        }
    }
}
