//! Several ranks on a host, each with a communicator of its own: shared resources, frames on the
//! wire, and refusals. `tools/tests/lab_program/nodes.rs` tests processes that are killed.

use super::options;
use ethbcast_collectives::communicator::{Communicator, CommunicatorError, Error, Options};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, Site, content, one_switch, within};
use ethbcast_tests::quiet::in_a_quiet_moment;
use ethbcast_transport::packet::NodeError;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

fn on_nodes<T: Send>(site: &Site, seats: &[u16], rank: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    let size = seats.iter().sum();
    let mut ends: Vec<(u16, T)> = thread::scope(|scope| {
        let hosts = seats.iter().zip(0..).flat_map(|(&seats, host)| (0..seats).map(move |_| format!("n{host}")));
        let ranks: Vec<_> = hosts
            .map(|host| {
                let rank = &rank;
                scope.spawn(move || {
                    let all = join(site, &host, size, &options()).unwrap_or_else(|error| panic!("{host}: {error}"));
                    assert_eq!(all.host(), host);
                    (all.rank(), rank(&all))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    ends.sort_by_key(|&(rank, _)| rank);
    assert!(ends.iter().map(|&(rank, _)| rank).eq(0..size), "every rank is one process");
    ends.into_iter().map(|(_, end)| end).collect()
}

fn join(site: &Site, host: &str, size: u16, options: &Options) -> Result<Communicator, Error> {
    let options = Options { interface: Some("eth0".into()), host: Some(host.into()), ..options.clone() };
    site.lab().run_on(host, || Communicator::join_with("test", size, &options)).expect("the lab has this host")
}

fn everything(all: &Communicator, round: u64, bytes: usize) {
    let (rank, size) = (usize::from(all.rank()), usize::from(all.size()));
    let root = (round % size as u64) as u16;
    let block = |rank: usize| content(1000 * round + rank as u64, bytes);
    let everybodys = || (0..size).flat_map(block).collect::<Vec<u8>>();

    let mut buffer = if all.rank() == root { block(99) } else { vec![0; bytes] };
    all.broadcast(root, &mut buffer).expect("broadcast");
    assert!(buffer == block(99), "broadcast of {bytes} bytes");
    let (mut own, blocks) = (vec![0; bytes], if all.rank() == root { everybodys() } else { Vec::new() });
    all.scatter(root, &blocks, &mut own).expect("scatter");
    assert!(own == block(rank), "scatter of {bytes} bytes");
    let mut blocks = vec![0; if all.rank() == root { bytes * size } else { 0 }];
    all.gather(root, &own, &mut blocks).expect("gather");
    assert!(all.rank() != root || blocks == everybodys(), "gather of {bytes} bytes");
    let mut blocks = vec![0; bytes * size];
    all.allgather(&own, &mut blocks).expect("allgather");
    assert!(blocks == everybodys(), "allgather of {bytes} bytes");
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut from_left = vec![0; bytes];
    assert_eq!(all.sendrecv(right as u16, &own, left as u16, &mut from_left, 7).expect("sendrecv"), bytes);
    assert!(from_left == block(left), "sendrecv of {bytes} bytes");
    all.barrier().expect("barrier");
}

#[test]
fn every_call_brings_the_right_bytes_wherever_the_ranks_are_though_frames_are_lost() {
    let site = Site::beside("nodes_calls", LabConfig { loss: 0.01, ..one_switch(3) });
    on_nodes(&site, &[3, 1, 2], |all| {
        assert_eq!(all.hosts(), ["n0", "n0", "n0", "n1", "n2", "n2"]);
        for (round, bytes) in [1, 255, 1469, 20_000, 300_000].into_iter().enumerate() {
            everything(all, round as u64, bytes);
        }
    });
}

#[test]
fn what_ranks_of_one_host_say_to_each_other_does_not_reach_the_wire() {
    let site = Site::beside("nodes_one", one_switch(2));
    let sent = on_nodes(&site, &[4], |all| {
        all.barrier().expect("all know that they are alone");
        all.barrier().expect("and have said so");
        let before = all.counters().expect("it runs");
        (0..5).for_each(|round| everything(all, round, 50_000));
        thread::sleep(Duration::from_millis(300));
        let after = all.counters().expect("it runs");
        assert!(after.node_received > before.node_received + 100, "it goes through memory");
        assert_eq!(after.node_lost, 0);
        after.frames_sent - before.frames_sent
    });
    assert_eq!(sent, [0; 4]);
}

/// Returns the frames on the wire for each of `times` broadcasts of `bytes` bytes with a barrier
/// behind; signs of life are left out, for a busy machine sends many.
fn wire_frames(site: &Site, seats: &[u16], bytes: usize, times: u64) -> f64 {
    let sent = on_nodes(site, seats, |all| {
        let mut buffer = vec![1; bytes];
        (0..10).for_each(|_| all.broadcast(0, &mut buffer).and_then(|()| all.barrier()).expect("warm"));
        let sent = || all.counters().expect("it runs").frames_sent - all.stats().expect("it runs").signs_sent;
        let before = sent();
        (0..times).for_each(|_| all.broadcast(0, &mut buffer).and_then(|()| all.barrier()).expect("both"));
        let after = sent();
        all.barrier().expect("the others count, too");
        after - before
    });
    sent.iter().sum::<u64>() as f64 / times as f64
}

#[test]
fn a_broadcast_and_a_barrier_take_fewer_frames_than_there_are_ranks() {
    let site = Site::beside("nodes_frames", one_switch(4));
    let copy = f64::from((64_u32 << 10).div_ceil(1500 - 32));
    // The broadcast, three arrivals, the release, and shared acknowledgements. On a busy machine
    // there are more acknowledgements, never fewer.
    for (bytes, times, full) in [(256, 100, 0.0), (64 << 10, 50, copy)] {
        let frames = in_a_quiet_moment(|| {
            let frames = wire_frames(&site, &[4; 4], bytes, times);
            if frames < full + 16.0 { Ok(frames) } else { Err(format!("{frames} frames for {bytes} bytes")) }
        });
        println!("{frames} frames for {bytes} bytes among 16 ranks, of which they fill {full}");
    }
}

#[test]
fn ranks_of_one_host_that_were_told_different_things_are_refused_with_what_to_do() {
    let site = Site::beside("nodes_told", one_switch(1));
    let options = Options { join_within: Duration::from_secs(6), ..options() };
    thread::scope(|scope| {
        let first = scope.spawn(|| join(&site, "n0", 3, &options));
        within(LIMIT, || shared_file(&site, "n0")).expect("the first rank makes it");
        let other = Options { host: Some("n7".into()), interface: Some("eth0".into()), ..options.clone() };
        let refused = site.lab().run_on("n0", || Communicator::join_with("test", 3, &other)).expect("a host");
        let text = refused.expect_err("one host has one name").to_string();
        assert_eq!(
            text,
            "other ranks of group test on this host were told host name n0, this one n7: tell all the same"
        );
        let refused = join(&site, "n0", 2, &options).expect_err("another size");
        assert!(matches!(refused, Error::Call(CommunicatorError::SizesDiffer { .. })), "{refused}");
        let refused = first.join().expect("no panic").expect_err("another size");
        assert!(matches!(refused, Error::Call(CommunicatorError::SizesDiffer { .. })), "{refused}");
    });
}

#[test]
fn who_waits_in_vain_is_told_of_those_on_its_host_who_wait_for_another_group() {
    let site = Site::beside("nodes_groups", one_switch(1));
    let options = Options { interface: Some("eth0".into()), ..options() };
    let short = Options { join_within: Duration::from_secs(2), ..options.clone() };
    let joined = |group: &'static str, options: &Options| {
        site.lab().run_on("n0", || Communicator::join_with(group, 2, options)).expect("a host")
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| joined("tset", &options));
        let text = joined("test", &short).expect_err("nobody comes").to_string();
        assert!(text.ends_with("on this host others wait for tset: give all ranks the same group"), "{text}");
        // However slow the machine is, the other one still waits for its second rank.
        let second = joined("tset", &options);
        other.join().expect("no panic").expect("it has a second rank");
        second.expect("it is the second rank");
    });
}

fn shared_file(site: &Site, host: &str) -> Option<PathBuf> {
    let read = || std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
    let namespace = site.lab().run_on(host, read).expect("a host");
    let prefix = format!("ethbcast-{namespace:x}-");
    let files = std::fs::read_dir("/dev/shm").expect("it is there").flatten();
    let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix));
    files.next().map(|file| file.path())
}

#[test]
fn what_ranks_share_is_their_users_alone_and_another_users_is_refused_by_name() {
    let site = Site::beside("nodes_users", one_switch(1));
    let options = Options { join_within: Duration::from_secs(6), ..options() };
    thread::scope(|scope| {
        let first = scope.spawn(|| join(&site, "n0", 2, &options));
        let path = within(LIMIT, || shared_file(&site, "n0")).expect("the first rank makes it");
        let about = std::fs::metadata(&path).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        chown(&path, Some(12_345), None).expect("root may");
        let refused = join(&site, "n0", 2, &options).expect_err("it is another user's");
        assert!(matches!(refused, Error::Node(NodeError::OtherUser { uid: 12_345, .. })), "{refused}");
        assert!(refused.to_string().contains("run all ranks of a group on a host as one user"), "{refused}");
        first.join().expect("no panic").expect_err("nobody comes");
        assert!(!path.exists(), "the last one removes it");
    });
}
