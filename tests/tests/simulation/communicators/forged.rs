//! One forged frame from the right address, in the right session, with harmful numbers: it ends
//! nothing.

use ethbcast_collectives::communicator::kind;
use ethbcast_tests::communicator::{Case, GROUP, Play, Step};
use ethbcast_transport::sim::{NoFaults, Random, host_mac};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES, Rank, StreamId, group_mac, seal,
};
use std::time::Duration;

const RANKS: u16 = 4;
/// Rank that forged frames claim to come from.
const NAME: u16 = 1;
const CALLS: [Step; 4] = [
    Step::Broadcast { root: 0, bytes: 60_000 },
    Step::Gather { root: 2, bytes: 3000 },
    Step::Allgather { bytes: 500 },
    Step::Barrier,
];

fn signature(number: u64, operation: u8) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[operation, 0, 0, 0, 0, 0, 0, 0], &7_u64.to_be_bytes()].concat()
}

/// Encodes the body of ALIVE or BYE: number of repeats, last call, code of the failure, three ranks
/// (the first one blamed), first number.
fn notice(repeats: u8, call: Option<Vec<u8>>, code: u8, ranks: [u16; 3], from: u64) -> Vec<u8> {
    let blame = if code == 4 { 3 } else { 0 };
    let mut body = vec![repeats, 0, 255, 255, 1, 1, 0, 0];
    body.extend(call.unwrap_or_else(|| vec![0; 24]));
    body.extend([0; 72]);
    body.extend([code, blame]);
    ranks.into_iter().for_each(|rank| body.extend(rank.to_be_bytes()));
    body.extend(from.to_be_bytes());
    body.extend(signature(1, 2));
    body.extend(signature(1, 4));
    body
}

/// Forgeries: a name, the kind, the number, the stamp and the body.
fn forgeries() -> Vec<(&'static str, Kind, u64, u32, Vec<u8>)> {
    let alive = |what, code, rank| (what, kind::ALIVE, 0, 0, notice(0, None, code, [rank, 2, 0], 0));
    vec![
        ("good-bye", kind::BYE, 0, 0, notice(0, None, 0, [0; 3], 0)),
        ("a good-bye that will be repeated", kind::BYE, 0, 0, notice(255, None, 0, [0; 3], 0)),
        ("a good-bye after many calls", kind::BYE, 0, 0, notice(5, Some(signature(u64::MAX, 2)), 0, [0; 3], 0)),
        alive("calls differ", 1, 3),
        alive("rank 3 is gone", 2, 3),
        alive("rank 0 is gone", 2, 0),
        alive("itself is gone", 2, NAME),
        alive("rank 3 has left", 3, 3),
        alive("a call is given up", 4, NAME),
        alive("garbled", 5, 3),
        alive("nothing gets through", 6, 3),
        alive("deaf", 7, NAME),
        ("the next call differs", kind::ALIVE, 0, 0, notice(0, Some(signature(2, 5)), 0, [0; 3], 0)),
        ("the last call of all", kind::ALIVE, 0, 0, notice(0, Some(signature(u64::MAX, 2)), 0, [0; 3], u64::MAX)),
        ("a heartbeat far ahead", Kind::HEARTBEAT, u64::MAX, 1 << 30, Vec::new()),
        ("a heartbeat of a late stamp", Kind::HEARTBEAT, 2, 1 << 30, Vec::new()),
        ("a heartbeat with a body", Kind::HEARTBEAT, 2, u32::MAX, vec![255; 16]),
        ("data far ahead", Kind::DATA, u64::MAX, 1 << 30, vec![255; 100]),
        ("an acknowledgement of everything", Kind::ACK, u64::MAX, u32::MAX, vec![255; 64]),
        ("an acknowledgement of nothing", Kind::ACK, 0, 0, vec![0; 16]),
        ("a question", Kind::ASK, u64::MAX, 1 << 30, vec![255; 16]),
        ("a note", Kind::NOTE, u64::MAX, 1 << 30, vec![255; 64]),
        ("a receipt of everything", Kind::RECEIPT, u64::MAX, u32::MAX, vec![255; 64]),
        ("a push far ahead", Kind::PUSH, u64::MAX, 1 << 30, vec![255; 200]),
        ("a pull far ahead", Kind::PULL, u64::MAX, 1 << 30, vec![255; 200]),
    ]
}

fn frame(header: Header, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(body);
    let (source, destination) = (host_mac(NAME.into()), group_mac(GROUP));
    seal(&mut frame, EthernetHeader { source, destination, ether_type: EtherType::DEFAULT }, &header, body.len());
    frame
}

fn group(seed: u64, replay: &str) -> Play<NoFaults> {
    let patience = Duration::from_secs(3);
    let case = Case { leave: false, patience, ..Case::new(RANKS, &CALLS) };
    let mut play = Play::new(&case, seed, NoFaults, replay);
    play.run(Duration::from_millis(250));
    play.assert_done();
    play
}

/// All ranks call; one rank or all others receive the frame at some moment; then they call again.
/// Returns the results.
fn calls_beside(play: &mut Play<NoFaults>, random: &mut Random, header: Header, body: &[u8]) {
    play.go_on(&CALLS);
    play.run(Duration::from_micros(random.below(3000)));
    let (now, to) = (play.simulation().now(), random.below(2 * u64::from(RANKS)) as usize);
    for victim in (0..RANKS.into()).filter(|&host| host != usize::from(NAME) && (to == host || to >= RANKS.into())) {
        play.simulation().inject(now, victim, &frame(header, body));
    }
    play.run(Duration::from_secs(4));
    play.go_on(&CALLS);
    play.run(Duration::from_secs(4));
}

fn header(play: &mut Play<NoFaults>, kind: Kind, stream: u16, sequence: u64, stamp: u32) -> Header {
    let session = play.member(0).session().expect("it has joined");
    let (rank, epoch, flags) = (Rank(NAME), 0, Flags::default());
    Header { kind, session, stream: StreamId(stream), rank, epoch, flags, sequence, stamp }
}

#[test]
fn a_made_up_frame_changes_nothing() {
    for (what, kind, sequence, stamp, body) in forgeries() {
        for seed in 0..8 {
            let replay = format!("{what}, seed {seed}");
            let mut random = Random::new(seed);
            let mut play = group(seed, &replay);
            let is_mail = matches!(kind, Kind::ASK | Kind::NOTE | Kind::RECEIPT | Kind::PUSH | Kind::PULL);
            let is_control = matches!(kind, kind::ALIVE | kind::BYE);
            // The rank's own cast, or that of rank 0 for frames towards the root.
            let stream = if is_mail || is_control { 0 } else { 1 + 2 * (seed % 2) as u16 };
            let header = header(&mut play, kind, stream, sequence, stamp);
            calls_beside(&mut play, &mut random, header, &body);
            play.assert_done();
        }
    }
}

#[test]
fn numbers_of_any_size_from_a_member_end_no_call_for_good_and_panic_nowhere() {
    let kinds = [Kind::DATA, Kind::ACK, Kind::HEARTBEAT, Kind::PUSH, Kind::PULL, Kind::NOTE, Kind::RECEIPT, Kind::ASK];
    let numbers = [0, 1, 3, 60, 1 << 16, 1 << 31, 1 << 32, 1 << 62, u64::MAX - 1, u64::MAX];
    for seed in 0..250 {
        let replay = format!("seed {seed}");
        let mut random = Random::new(seed);
        let mut play = group(seed, &replay);
        let pick = |random: &mut Random| numbers[random.below(10) as usize];
        let kind = kinds[random.below(8) as usize];
        let mut body: Vec<u8> = (0..8).flat_map(|_| pick(&mut random).to_be_bytes()).collect();
        body.truncate(random.below(65) as usize);
        let stamp = pick(&mut random) as u32;
        let sequence = pick(&mut random);
        let stream = random.below(10) as u16;
        let header =
            Header { flags: Flags(random.next_u64() as u8), ..header(&mut play, kind, stream, sequence, stamp) };
        calls_beside(&mut play, &mut random, header, &body);
        assert!(play.ends().iter().all(Option::is_some), "{replay}: {kind:?} {sequence}: a call hangs");
        let memory = (0..RANKS.into()).map(|host| play.member(host).memory().mailbox.receive_queue_bytes).max();
        assert!(memory < Some(1 << 20), "{replay}: {memory:?}");
    }
}

#[test]
fn calls_of_ghosts_keep_nobody_from_joining() {
    let call = |size: u16, group: &str, host: &str, preset: u8| {
        let mut body = [&99_u64.to_be_bytes()[..], &size.to_be_bytes(), &576_u16.to_be_bytes(), &[preset, 0]].concat();
        body.extend([0; 32]);
        for text in [group, host] {
            body.push(text.len() as u8);
            body.extend(text.as_bytes());
        }
        body
    };
    let ghosts = [call(RANKS + 1, GROUP, "n9", 0), call(RANKS, GROUP, "n9", 1), call(RANKS, GROUP, "n2", 0)];
    for (at, body) in ghosts.iter().enumerate() {
        let mut case = Case { leave: false, ..Case::new(RANKS, &CALLS) };
        case.starts[2] = Duration::from_millis(1000);
        let mut play = Play::new(&case, 1, NoFaults, &format!("ghost {at}"));
        play.run(Duration::from_millis(950));
        let (kind, rank, flags) = (kind::CALL, Rank::NONE, Flags::default());
        let header = Header { kind, session: 0, stream: StreamId(0), rank, epoch: 0, flags, sequence: 0, stamp: 0 };
        // From an address of its own, or from that of an existing process.
        for source in [9, NAME.into()] {
            let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
            frame[OVERHEAD_BYTES..].copy_from_slice(body);
            let (source, destination) = (host_mac(source), group_mac(GROUP));
            let ethernet = EthernetHeader { source, destination, ether_type: EtherType::DEFAULT };
            seal(&mut frame, ethernet, &header, body.len());
            let now = play.simulation().now();
            [0, 3].into_iter().for_each(|host| play.simulation().inject(now, host, &frame));
        }
        play.run(Duration::from_secs(8));
        play.assert_done();
    }
}
