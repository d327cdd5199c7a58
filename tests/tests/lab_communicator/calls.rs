//! Calls without faults, or with lost frames only.

use super::on_all;
use ethbcast_collectives::communicator::Communicator;
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, Site, content, one_switch, within};
use std::thread;
use std::time::{Duration, Instant};

const RANKS: u16 = 4;

#[test]
fn every_collective_brings_the_right_bytes_to_the_right_rank_though_frames_are_lost() {
    let site = Site::beside("calls_loss", LabConfig { loss: 0.02, ..one_switch(RANKS.into()) });
    on_all(&site, RANKS, |all| {
        for (round, bytes) in [1, 255, 1468, 1469, 20_000, 300_000].into_iter().enumerate() {
            collectives(all, round as u64, bytes);
        }
    });
}

fn collectives(all: &Communicator, round: u64, bytes: usize) {
    let (rank, root) = (usize::from(all.rank()), (round % u64::from(RANKS)) as u16);
    let block = |rank: usize| content(1000 * round + rank as u64, bytes);
    let everybodys = || (0..RANKS.into()).flat_map(block).collect::<Vec<u8>>();

    let mut buffer = if all.rank() == root { block(99) } else { vec![0; bytes] };
    all.broadcast(root, &mut buffer).expect("broadcast");
    assert!(buffer == block(99), "broadcast of {bytes} bytes");

    let mut own = vec![0; bytes];
    let blocks = if all.rank() == root { everybodys() } else { Vec::new() };
    all.scatter(root, &blocks, &mut own).expect("scatter");
    assert!(own == block(rank), "scatter of {bytes} bytes");

    let mut blocks = vec![0; if all.rank() == root { bytes * usize::from(RANKS) } else { 0 }];
    all.gather(root, &own, &mut blocks).expect("gather");
    assert!(all.rank() != root || blocks == everybodys(), "gather of {bytes} bytes");

    let mut blocks = vec![0; bytes * usize::from(RANKS)];
    all.allgather(&own, &mut blocks).expect("allgather");
    assert!(blocks == everybodys(), "allgather of {bytes} bytes");

    let (right, left) = ((all.rank() + 1) % RANKS, (all.rank() + RANKS - 1) % RANKS);
    let mut from_left = vec![0; bytes];
    assert_eq!(all.sendrecv(right, &own, left, &mut from_left, 7).expect("sendrecv"), bytes);
    assert!(from_left == block(left.into()), "sendrecv of {bytes} bytes");
    all.barrier().expect("barrier");
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_has_come() {
    let site = Site::beside("calls_barrier", one_switch(RANKS.into()));
    let pause = Duration::from_millis(300);
    let waited = on_all(&site, RANKS, |all| {
        all.barrier().expect("barrier");
        let began = Instant::now();
        if all.rank() == 2 {
            thread::sleep(pause);
        }
        all.barrier().expect("barrier");
        began.elapsed()
    });
    assert!(waited.iter().all(|&waited| waited >= pause * 9 / 10), "{waited:?}");
}

/// Computing time of a rank: longer than the silence limit, and ten times what sending takes on a
/// busy machine.
const COMPUTES: Duration = Duration::from_secs(6);

#[test]
fn a_rank_that_computes_for_long_is_not_taken_for_dead_and_takes_its_messages_later() {
    let site = Site::beside("calls_computes", one_switch(3));
    let took = on_all(&site, 3, |all| {
        let began = Instant::now();
        let mut bytes = vec![1; 3000];
        match all.rank() {
            // Longer than the silence limit: the background thread sends signs of life meanwhile.
            1 => thread::sleep(COMPUTES),
            0 => (0..10).for_each(|_| all.send(1, 5, &bytes).expect("there is room in the pushed buffer")),
            _ => {}
        }
        let sent = began.elapsed();
        if all.rank() == 1 {
            (0..10).for_each(|_| assert_eq!(all.recv(0, 5, &mut bytes).expect("it is here"), 3000));
        }
        all.broadcast(1, &mut bytes).expect("broadcast");
        all.barrier().expect("barrier");
        sent
    });
    // A blocked sender would wait until the other rank has computed.
    assert!(took[0] < COMPUTES, "the sender was held up for {:?}", took[0]);
}

#[test]
fn several_threads_of_a_rank_send_and_receive_at_once() {
    let site = Site::beside("calls_threads", one_switch(2));
    on_all(&site, 2, |all| {
        let other = 1 - all.rank();
        thread::scope(|scope| {
            for tag in 0..4 {
                scope.spawn(move || {
                    for turn in 0..50_u64 {
                        let (mine, bytes) = (u64::from(all.rank()), 1 + 997 * turn as usize);
                        let mut buffer = vec![0; bytes];
                        let message = |rank: u64| content(rank << 32 | turn << 8 | u64::from(tag), bytes);
                        if (turn + mine) % 2 == 0 {
                            all.send(other, tag, &message(mine)).expect("send");
                        } else {
                            assert_eq!(all.recv(other, tag, &mut buffer).expect("recv"), bytes);
                            assert!(buffer == message(1 - mine), "tag {tag}, turn {turn}");
                        }
                    }
                });
            }
        });
        all.barrier().expect("barrier");
    });
}

#[test]
fn try_forms_do_not_wait() {
    let site = Site::beside("calls_try", one_switch(2));
    on_all(&site, 2, |all| {
        let mut buffer = [0; 8];
        if all.rank() == 1 {
            assert_eq!(all.try_recv(0, 1, &mut buffer).expect("nothing is here"), None);
            all.barrier().expect("barrier");
            let arrived = within(LIMIT, || all.try_recv(0, 1, &mut buffer).expect("it comes"));
            assert_eq!((arrived, &buffer[..5]), (Some(5), &b"hello"[..]));
        } else {
            all.barrier().expect("barrier");
            assert!(all.try_send(1, 1, b"hello").expect("there is room"));
        }
        all.barrier().expect("barrier");
    });
}
