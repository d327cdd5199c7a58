//! Joining: processes find each other, or fail with a reason.

use ethbcast_collectives::communicator::{CommunicatorError, Preset};
use ethbcast_tests::communicator::{Case, GROUP, Play, Step, play};
use ethbcast_transport::sim::{NoFaults, Random, RandomFaults, host_mac};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Header, OVERHEAD_BYTES, Rank, StreamId, group_mac, seal,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn hosts<F: ethbcast_transport::sim::Faults>(play: &Play<F>, host: usize) -> Vec<String> {
    let member = play.processes()[host].member.as_ref().expect("it has started");
    member.hosts().map(str::to_owned).collect()
}

#[test]
fn ranks_follow_the_names_of_the_hosts_whoever_comes_first_and_all_have_the_same_list() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(15) as u16;
        let mut case = Case::new(ranks, &[]);
        case.starts.iter_mut().for_each(|start| *start = Duration::from_millis(random.below(2500)));
        // Host 0 is called n15, and so on down.
        case.names = (0..ranks).map(|host| format!("n{}", 15 - host)).collect();
        case.leave = false;
        let loss = [0.0, 0.1, 0.3][seed as usize % 3];
        let mut play = Play::new(
            &case,
            seed,
            RandomFaults::new(seed).loss(loss),
            &format!("{ranks} ranks, loss {loss}, seed {seed}"),
        );
        play.run(8 * SECOND);
        play.assert_done();
        let mut expected: Vec<String> = case.names.clone();
        expected.reverse();
        for host in 0..case.names.len() {
            assert_eq!(hosts(&play, host), expected, "seed {seed}");
            let rank = play.processes()[host].member.as_ref().and_then(|member| member.rank());
            assert_eq!(rank, Some(Rank(ranks - 1 - host as u16)), "seed {seed}");
        }
    }
}

#[test]
fn the_group_is_complete_a_millisecond_after_the_last_has_come() {
    let mut case = Case::new(8, &[]);
    case.starts[3] = Duration::from_millis(1234);
    case.leave = false;
    let mut play = Play::new(&case, 1, NoFaults, "one is late");
    play.run(2 * SECOND);
    let latest = play.processes().iter().map(|process| process.joined_at).max().flatten().expect("all have joined");
    let took = latest.since(ethbcast_transport::Instant::START + case.starts[3]);
    assert!(took < Duration::from_millis(1), "{took:?}");
}

#[test]
fn one_alone_is_a_group_at_once_and_sends_nothing_but_its_call() {
    let program = [
        Step::Barrier,
        Step::Broadcast { root: 0, bytes: 1000 },
        Step::Allgather { bytes: 9 },
        Step::Gather { root: 0, bytes: 9 },
    ];
    let played = play(&Case::new(1, &program), 1, NoFaults, "alone");
    assert_eq!(played.network().sent_frames, 0);
}

#[test]
fn a_process_that_starts_anew_before_the_group_is_complete_takes_its_own_place() {
    let mut case = Case::new(3, &[Step::Barrier]);
    case.starts[2] = Duration::from_millis(500);
    let mut play = Play::new(&case, 1, NoFaults, "n1 starts anew");
    play.run(Duration::from_millis(250));
    play.restart(1, &case, 99);
    assert!(play.run(5 * SECOND));
    play.assert_done();
}

#[test]
fn two_hosts_of_one_name_are_told_so() {
    let mut case = Case::new(3, &[]);
    case.names[2] = "n1".to_owned();
    let mut play = Play::new(&case, 1, NoFaults, "namesakes");
    play.run(SECOND);
    for host in 0..3 {
        assert_eq!(play.error(host), CommunicatorError::Namesakes { host: "n1".to_owned() }, "host {host}");
    }
}

#[test]
fn more_processes_than_ranks_are_all_named() {
    let mut case = Case::new(4, &[]);
    case.sizes = vec![3; 4];
    let mut play = Play::new(&case, 1, NoFaults, "too many");
    play.run(SECOND);
    for host in 0..4 {
        let CommunicatorError::TooMany { size: 3, hosts } = play.error(host) else { panic!("{}", play.error(host)) };
        assert_eq!(hosts, ["n0", "n1", "n2", "n3"]);
    }
}

#[test]
fn another_size_and_another_preset_are_named_on_both_sides() {
    let mut case = Case::new(2, &[]);
    case.sizes[1] = 3;
    let mut play = Play::new(&case, 1, NoFaults, "sizes differ");
    play.run(SECOND);
    assert_eq!(play.error(0), CommunicatorError::SizesDiffer { host: "n1".to_owned(), theirs: 3, ours: 2 });
    assert_eq!(play.error(1), CommunicatorError::SizesDiffer { host: "n0".to_owned(), theirs: 2, ours: 3 });

    let paper = Case { preset: Preset::Paper, ..Case::new(2, &[]) };
    let mut play = Play::new(&Case::new(2, &[]), 1, NoFaults, "presets differ");
    play.restart(1, &paper, 2);
    play.run(SECOND);
    assert_eq!(play.error(0), CommunicatorError::PresetsDiffer { host: "n1".to_owned() });
    assert_eq!(play.error(1), CommunicatorError::PresetsDiffer { host: "n0".to_owned() });
}

#[test]
fn when_patience_ends_those_who_were_there_are_named() {
    let mut case = Case { patience: 3 * SECOND, ..Case::new(4, &[]) };
    case.starts[2] = 100 * SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "one is missing");
    play.run(4 * SECOND);
    let CommunicatorError::Missing { size: 4, hosts } = play.error(0) else { panic!("{}", play.error(0)) };
    assert_eq!(hosts, ["n0", "n1", "n3"]);
    assert_eq!(
        play.error(0).to_string(),
        "3 of 4 were there: n0, n1, n3; \
         start the others, one on each host, and see whether they use this group, size and network"
    );
}

#[test]
fn frames_are_as_long_as_the_smallest_mtu_allows() {
    let mut case = Case::new(3, &[Step::Broadcast { root: 0, bytes: 100_000 }, Step::Barrier]);
    case.mtus = vec![9000, 1500, 4000];
    let played = play(&case, 1, NoFaults, "three MTUs");
    let frames = (100_000_u64 + 24).div_ceil(1468);
    assert_eq!(played.stats()[0].streams.data_sent, frames + 1, "and the release of the barrier");
}

#[test]
fn a_late_process_finds_the_group_running_and_does_not_disturb_it() {
    let program = [Step::Barrier, Step::Compute(5 * SECOND), Step::Barrier];
    let mut case = Case { patience: 3 * SECOND, ..Case::new(4, &program) };
    case.sizes = vec![3; 4];
    case.starts[3] = SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "one too many, late");
    play.run(10 * SECOND);
    let CommunicatorError::Running { hosts } = play.error(3) else { panic!("{}", play.error(3)) };
    assert_eq!(hosts, ["n0", "n1", "n2"]);
    assert_eq!(play.ends()[..3], [Some(Ok(())), Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let refused = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new(1, &[]);
        change(&mut case);
        let mut play = Play::new(&case, 1, NoFaults, "refused");
        play.run(SECOND);
        assert_eq!(play.network().sent_frames, 0);
        play.error(0).to_string()
    };
    assert!(refused(&|case| case.sizes[0] = 0).contains("ask for 1 to 4096"));
    assert!(refused(&|case| case.sizes[0] = 4097).contains("ask for 1 to 4096"));
    assert!(refused(&|case| case.mtus[0] = 575).contains("raise the interface's MTU to 576"));
    assert!(refused(&|case| case.names[0] = String::new()).contains("choose one of 1 to 128"));
    assert!(refused(&|case| case.names[0] = "n".repeat(129)).contains("choose one of 1 to 128"));
}

#[test]
fn a_process_of_another_version_is_refused_by_name() {
    let mut case = Case::new(2, &[]);
    case.starts[1] = 100 * SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "another version");
    let body = [&[0; 12][..], &[0, 0], &[0; 32], &[9], GROUP.as_bytes(), b"\x02n7"].concat();
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(&body);
    let header = Header {
        kind: ethbcast_collectives::communicator::kind::CALL,
        session: 0,
        stream: StreamId(0),
        rank: Rank::NONE,
        epoch: 0,
        flags: Flags::default(),
        sequence: 0,
        stamp: 0,
    };
    let link = EthernetHeader { source: host_mac(7), destination: group_mac(GROUP), ether_type: EtherType::DEFAULT };
    seal(&mut frame, link, &header, body.len());
    // In the older version's format: other positions of length and checksum, and other covered
    // bytes.
    frame[16] = 1;
    frame[18..46].fill(0);
    frame[28..30].copy_from_slice(&(body.len() as u16).to_be_bytes());
    let checksum = crc32(&frame).to_be_bytes();
    frame[42..46].copy_from_slice(&checksum);
    for at in [100, 200] {
        play.simulation().inject(ethbcast_transport::Instant::START + Duration::from_millis(at), 0, &frame);
        play.run(Duration::from_millis(150));
        assert_eq!(play.ends()[0].is_some(), at == 200, "once is not enough");
    }
    let text = play.error(0).to_string();
    assert!(text.starts_with("n7 (") && text.contains("speaks version 1 of the protocol"), "{text}");
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
