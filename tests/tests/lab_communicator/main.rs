//! Tests of communicators over real packet sockets, between threads in network namespaces.

mod fork;

use ethbcast_collectives::communicator::kind::ALIVE;
use ethbcast_collectives::communicator::{
    Communicator, CommunicatorError, Error, Number, Options, Reduction,
};
use ethbcast_lab::{LabConfig, LinkFault};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, in_a_quiet_moment, one_switch, within};
use ethbcast_tests::session::keys;
use ethbcast_transport::packet::NodeError;
use ethbcast_transport::wire::{Kind, Rank};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn on_all<T: Send>(site: &Site, size: u16, rank: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    on_nodes(site, &vec![1; size.into()], &options(), rank)
}

fn options() -> Options {
    let within = Duration::from_secs(20);
    Options {
        join_within: within,
        call_within: within,
        unkeyed: true,
        ..Options::default()
    }
}

const RANKS: u16 = 4;

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
    assert!(
        waited.iter().all(|&waited| waited >= pause * 9 / 10),
        "{waited:?}"
    );
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
            0 => (0..10).for_each(|_| {
                all.send(1, 5, &bytes)
                    .expect("there is room in the pushed buffer")
            }),
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
    assert!(
        took[0] < COMPUTES,
        "the sender was held up for {:?}",
        took[0]
    );
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
                        let message =
                            |rank: u64| content(rank << 32 | turn << 8 | u64::from(tag), bytes);
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
            assert_eq!(
                all.try_recv(0, 1, &mut buffer).expect("nothing is here"),
                None
            );
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

#[test]
fn an_error_of_a_message_is_reported_to_its_ranks() {
    let site = Site::beside("mistakes_messages", one_switch(2));
    on_all(&site, 2, |all| {
        let error = |result: Result<(), Error>| result.expect_err("refused").to_string();
        assert_eq!(
            error(all.send(2, 0, b"x")),
            "there is no rank 2 among 2: name a rank from 0 to 1"
        );
        assert_eq!(
            error(all.send(0, 1 << 31, b"x")),
            "tag 2147483648 is reserved: use tags below 2147483648"
        );
        assert!(error(all.broadcast(9, &mut [0])).contains("no rank 9"));
        assert!(
            error(all.allgather(&[0; 4], &mut [0; 7])).contains("7 bytes are not 2 blocks of 4")
        );

        let mut buffer = [0; 100];
        all.send(all.rank(), 3, b"to myself")
            .expect("there is room");
        assert_eq!(all.recv(all.rank(), 3, &mut buffer).expect("it is here"), 9);
        if all.rank() == 0 {
            all.send(1, 4, &[1; 101])
                .expect("a short message is sent, whatever becomes of it");
            let refused = all
                .send(1, 4, &[1; 1 << 20])
                .expect_err("only a part of a long one is");
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
            all.send(1, 4, &[]).expect("an empty message");
            all.send(1, 4, &[2; 100]).expect("one that fits");
        } else {
            for bytes in [101, 1 << 20] {
                let too_long = all
                    .recv(0, 4, &mut buffer)
                    .expect_err("the buffer is too short");
                assert!(
                    matches!(too_long, Error::TooLong { message_bytes, .. } if message_bytes == bytes),
                    "{too_long}"
                );
            }
            assert_eq!(all.recv(0, 4, &mut buffer).expect("empty"), 0);
            assert_eq!(all.recv(0, 4, &mut buffer).expect("it fits"), 100);
        }
        all.barrier().expect("the ranks still agree");
    });
}

#[test]
fn a_tag_that_nobody_receives_holds_its_sender_up_until_the_deadline_and_nobody_else() {
    let site = Site::beside("mistakes_tag", one_switch(3));
    on_all(&site, 3, |all| {
        match all.rank() {
            0 => {
                let within = Duration::from_millis(200);
                let blocked =
                    (0..100_000).find_map(|_| all.send_within(1, 6, &[0; 4096], within).err());
                let blocked = blocked.expect("the pushed buffer is bounded");
                assert!(matches!(blocked, Error::TimedOut { .. }), "{blocked}");
            }
            1 => assert_eq!(
                all.recv(2, 7, &mut [0; 10])
                    .expect("another's message has room"),
                10
            ),
            _ => all.send(1, 7, &[0; 10]).expect("there is room"),
        }
        all.barrier().expect("barrier");
    });
}

/// Fails unless every rank fails with a mismatch, not at a deadline, and says these words.
fn assert_mismatch(
    site: &Site,
    words: &[&str],
    call: impl Fn(&Communicator) -> Result<(), Error> + Sync,
) {
    let ends = on_all(site, RANKS, |all| {
        all.barrier().expect("so far they agree");
        // A rank that only sends may detect it at the next call.
        call(all).and_then(|()| all.barrier())
    });
    let errors: Vec<Error> = ends
        .into_iter()
        .map(|end| end.expect_err("calls that differ fail"))
        .collect();
    let is_mismatch =
        |error: &Error| matches!(error, Error::Call(CommunicatorError::Mismatch { .. }));
    assert!(errors.iter().all(is_mismatch), "{errors:?}");
    let has_all = |error: &Error| words.iter().all(|word| error.to_string().contains(word));
    assert!(errors.iter().all(has_all), "{words:?}: {errors:?}");
}

#[test]
fn different_roots_lengths_and_operations_are_named_on_every_rank() {
    let site = Site::beside("mistakes", one_switch(RANKS.into()));
    assert_mismatch(&site, &["rank 3 (n3)"], |all| {
        all.broadcast(u16::from(all.rank() == 3), &mut [0; 64])
    });
    assert_mismatch(&site, &["65 bytes", "64 bytes"], |all| {
        all.broadcast(0, &mut vec![0; if all.rank() == 2 { 65 } else { 64 }])
    });
    assert_mismatch(&site, &["barrier", "gather"], |all| match all.rank() {
        1 => all.gather(0, &[0; 8], &mut []),
        _ => all.barrier(),
    });
    assert_mismatch(&site, &["rank 2 (n2)", "sum of i64", "max of i64"], |all| {
        let of = match all.rank() {
            2 => Reduction::Max,
            _ => Reduction::Sum,
        };
        all.allreduce(of(Number::I64), &mut [0; 800])
    });
}

const CALL_LIMIT: Duration = Duration::from_secs(3);
const KIND_AT: usize = 17;

fn until_failure(all: &Communicator) -> Error {
    let mut buffer = vec![7; 300_000];
    let failed = within(LIMIT, || {
        all.broadcast(0, &mut buffer)
            .and_then(|()| all.barrier())
            .err()
    });
    failed.expect("nothing has failed")
}

#[test]
fn a_cable_that_loses_one_kind_of_frame_ends_every_call_and_its_host_is_named() {
    let site = Site::beside("calls_links", one_switch(RANKS.into()));
    let faults = [
        LinkFault::arriving().byte(KIND_AT, &[Kind::DATA.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::ACK.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::PUSH.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::PUSH.0, Kind::ACK.0, ALIVE.0]),
        LinkFault::arriving(),
        LinkFault::leaving(),
    ];
    let options = Options {
        call_within: CALL_LIMIT,
        ..options()
    };
    for fault in faults {
        site.lab().set_faults("n2", &[]).expect("nft takes it");
        let ends = on_nodes(&site, &[1; RANKS as usize], &options, |all| {
            all.barrier().expect("the cable is still good");
            if all.rank() == 0 {
                site.lab()
                    .set_faults("n2", std::slice::from_ref(&fault))
                    .expect("nft takes it");
            }
            until_failure(all)
        });
        for (rank, error) in ends.iter().enumerate() {
            let text = error.to_string();
            assert!(
                rank == 2 || text.contains("rank 2 (n2)"),
                "{fault:?}: rank {rank} blames another: {text}"
            );
        }
    }
}

fn run_example(story: &str, program: &str, ranks: usize, more: &[&str]) -> Vec<String> {
    let site = Site::beside(story, one_switch(ranks));
    let runs: Vec<Run> = (0..ranks)
        .map(|rank| {
            let host = format!("n{rank}");
            let mut command = site.command(&host, program);
            command.arg(ranks.to_string()).args(more);
            Run::start(&host, command)
        })
        .collect();
    let ends: Vec<_> = runs.into_iter().map(|run| run.end(LIMIT)).collect();
    ends.iter().for_each(|end| end.assert_code(0));
    ends.iter()
        .map(|end| String::from_utf8_lossy(&end.stdout).into_owned())
        .collect()
}

#[test]
fn hello_reaches_every_rank() {
    let said = run_example("example_hello", env!("CARGO_BIN_EXE_hello"), 4, &[]);
    for (rank, text) in said.iter().enumerate() {
        assert_eq!(
            text,
            &format!("rank {rank} of 4, n{rank}: hello, cluster\n")
        );
    }
}

#[test]
fn jacobi_finds_the_solution_that_is_known() {
    let said = run_example("example_jacobi", env!("CARGO_BIN_EXE_jacobi"), 4, &["128"]);
    assert!(said[0].starts_with("128 unknowns on 4 ranks:"), "{said:?}");
}

#[test]
fn throughput_moves_every_byte() {
    let said = run_example(
        "example_throughput",
        env!("CARGO_BIN_EXE_throughput"),
        3,
        &[],
    );
    assert_eq!(said[0].lines().count(), 2, "{said:?}");
}

/// Runs the ranks of hosts, with a number on each; returns their results in the order of the ranks.
fn on_nodes<T: Send>(
    site: &Site,
    node_sizes: &[u16],
    options: &Options,
    rank: impl Fn(&Communicator) -> T + Sync,
) -> Vec<T> {
    let size = node_sizes.iter().sum();
    let mut ends: Vec<(u16, T)> = thread::scope(|scope| {
        let hosts = node_sizes
            .iter()
            .zip(0..)
            .flat_map(|(&node_sizes, host)| (0..node_sizes).map(move |_| format!("n{host}")));
        let ranks: Vec<_> = hosts
            .map(|host| {
                let rank = &rank;
                scope.spawn(move || {
                    let all = join(site, &host, size, options)
                        .unwrap_or_else(|error| panic!("{host}: {error}"));
                    assert_eq!(all.host(), host);
                    (all.rank(), rank(&all))
                })
            })
            .collect();
        ranks
            .into_iter()
            .map(|rank| {
                rank.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    ends.sort_by_key(|&(rank, _)| rank);
    assert!(
        ends.iter().map(|&(rank, _)| rank).eq(0..size),
        "every rank is one process"
    );
    ends.into_iter().map(|(_, end)| end).collect()
}

fn join(site: &Site, host: &str, size: u16, options: &Options) -> Result<Communicator, Error> {
    let options = Options {
        interface: Some("eth0".into()),
        host: Some(host.into()),
        ..options.clone()
    };
    site.lab()
        .run_on(host, || Communicator::join_with("test", size, &options))
        .expect("the lab has this host")
}

fn everything(all: &Communicator, round: u64, bytes: usize) {
    let (rank, size) = (usize::from(all.rank()), usize::from(all.size()));
    let root = (round % size as u64) as u16;
    let block = |rank: usize| content(1000 * round + rank as u64, bytes);
    let everybodys = || (0..size).flat_map(block).collect::<Vec<u8>>();

    let mut buffer = if all.rank() == root {
        block(99)
    } else {
        vec![0; bytes]
    };
    all.broadcast(root, &mut buffer).expect("broadcast");
    assert!(buffer == block(99), "broadcast of {bytes} bytes");
    let (mut own, blocks) = (
        vec![0; bytes],
        if all.rank() == root {
            everybodys()
        } else {
            Vec::new()
        },
    );
    all.scatter(root, &blocks, &mut own).expect("scatter");
    assert!(own == block(rank), "scatter of {bytes} bytes");
    let mut blocks = vec![0; if all.rank() == root { bytes * size } else { 0 }];
    all.gather(root, &own, &mut blocks).expect("gather");
    assert!(
        all.rank() != root || blocks == everybodys(),
        "gather of {bytes} bytes"
    );
    let mut blocks = vec![0; bytes * size];
    all.allgather(&own, &mut blocks).expect("allgather");
    assert!(blocks == everybodys(), "allgather of {bytes} bytes");
    let combined = |reduction: Reduction| {
        let mut all = block(0);
        (1..size).for_each(|other| reduction.combine(&mut all, &block(other)));
        all
    };
    let (sum, most) = (Reduction::Sum(Number::U8), Reduction::Max(Number::I8));
    let mut buffer = block(rank);
    all.allreduce(sum, &mut buffer).expect("allreduce");
    assert!(buffer == combined(sum), "allreduce of {bytes} bytes");
    let mut buffer = block(rank);
    all.reduce(root, most, &mut buffer).expect("reduce");
    let expected = match all.rank() == root {
        true => combined(most),
        false => block(rank),
    };
    assert!(buffer == expected, "reduce of {bytes} bytes");
    let mut buffer = block(rank);
    all.allreduce_by(1, &mut buffer, |into, from| sum.combine(into, from))
        .expect("allreduce by an own function");
    assert!(buffer == combined(sum), "own function of {bytes} bytes");
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut from_left = vec![0; bytes];
    assert_eq!(
        all.sendrecv(right as u16, &own, left as u16, &mut from_left, 7)
            .expect("sendrecv"),
        bytes
    );
    assert!(from_left == block(left), "sendrecv of {bytes} bytes");
    all.barrier().expect("barrier");
}

#[test]
fn every_call_brings_the_right_bytes_wherever_the_ranks_are_though_frames_are_lost() {
    for node_sizes in [&[3, 1, 2][..], &[1; RANKS as usize]] {
        let site = Site::beside(
            "nodes_calls",
            LabConfig {
                loss: 0.02,
                ..one_switch(node_sizes.len())
            },
        );
        on_nodes(&site, node_sizes, &options(), |all| {
            let hosts = node_sizes
                .iter()
                .zip(0..)
                .flat_map(|(&node_sizes, host)| (0..node_sizes).map(move |_| format!("n{host}")));
            assert_eq!(
                all.hosts(),
                hosts.collect::<Vec<_>>(),
                "ranks follow the hosts' names"
            );
            for (round, bytes) in [1, 255, 1468, 1469, 20_000, 300_000]
                .into_iter()
                .enumerate()
            {
                everything(all, round as u64, bytes);
            }
        });
    }
}

#[test]
fn messages_between_ranks_of_one_host_do_not_reach_the_wire() {
    let site = Site::beside("nodes_one", one_switch(2));
    let sent = on_nodes(&site, &[4], &options(), |all| {
        all.barrier().expect("all know that they are alone");
        all.barrier().expect("and have said so");
        let before = all.counters().expect("it runs");
        (0..5).for_each(|round| everything(all, round, 50_000));
        thread::sleep(Duration::from_millis(300));
        let after = all.counters().expect("it runs");
        assert!(
            after.node_received > before.node_received + 100,
            "it goes through memory"
        );
        assert_eq!(after.node_lost, 0);
        after.frames_sent - before.frames_sent
    });
    assert_eq!(sent, [0; 4]);
}

/// Returns the frames on the wire for each of `times` broadcasts of `bytes` bytes with a barrier
/// behind; signs of life are left out, for a busy machine sends many.
fn wire_frames(site: &Site, node_sizes: &[u16], bytes: usize, times: u64) -> f64 {
    let sent = on_nodes(site, node_sizes, &options(), |all| {
        let mut buffer = vec![1; bytes];
        (0..10).for_each(|_| {
            all.broadcast(0, &mut buffer)
                .and_then(|()| all.barrier())
                .expect("warm")
        });
        let sent = || {
            all.counters().expect("it runs").frames_sent - all.stats().expect("it runs").signs_sent
        };
        let before = sent();
        (0..times).for_each(|_| {
            all.broadcast(0, &mut buffer)
                .and_then(|()| all.barrier())
                .expect("both")
        });
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
            if frames < full + 16.0 {
                Ok(frames)
            } else {
                Err(format!("{frames} frames for {bytes} bytes"))
            }
        });
        println!("{frames} frames for {bytes} bytes among 16 ranks, of which they fill {full}");
    }
}

#[test]
fn an_allreduce_puts_twice_all_but_one_block_on_each_cable() {
    const HOSTS: u16 = 8;
    const BYTES: usize = 16 << 20;
    let site = Site::beside(
        "reduce_cables",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(HOSTS.into())
        },
    );
    let least = 2.0 * f64::from(HOSTS - 1) / f64::from(HOSTS);
    let copy = (BYTES as f64 / 1468.0).ceil() * 1514.0;
    let counters = || {
        let of = |host| site.lab().counters(&format!("n{host}")).expect("a host");
        (0..HOSTS).map(of).collect::<Vec<_>>()
    };
    let reduction = Reduction::Sum(Number::F32);
    // Silence beside it: 1 % of a cable is more than all signs of life.
    let copies = in_a_quiet_moment(|| {
        let before = counters();
        let took = on_all(&site, HOSTS, |all| {
            let mut buffer: Vec<u8> = (0..BYTES / 4)
                .flat_map(|at| (at as f32 + f32::from(all.rank())).to_ne_bytes())
                .collect();
            all.barrier().expect("barrier");
            let began = Instant::now();
            all.allreduce(reduction, &mut buffer).expect("allreduce");
            let took = began.elapsed();
            let (sums, _) = buffer.as_chunks::<4>();
            assert_eq!(f32::from_ne_bytes(sums[1000]), 8.0 * 1000.0 + 28.0);
            all.barrier().expect("barrier");
            took
        });
        println!("took {took:.3?}");
        let cables = before.into_iter().zip(counters());
        let most = cables.map(|(before, after)| {
            let sent = after.sent_bytes - before.sent_bytes;
            let received = after.received_bytes - before.received_bytes;
            sent.max(received) as f64 / copy
        });
        let most = most.fold(0.0, f64::max);
        if most <= 1.05 * least {
            Ok(most)
        } else {
            Err(format!("{most:.4} copies"))
        }
    });
    println!("{copies:.4} copies on the busiest cable, {least} at least");
}

#[test]
fn an_own_function_that_panics_ends_the_call_on_all_ranks() {
    let site = Site::beside("reduce_panics", one_switch(3));
    let errors = on_all(&site, 3, |all| {
        all.barrier().expect("barrier");
        let ended = catch_unwind(AssertUnwindSafe(|| {
            all.allreduce_by(1, &mut [1; 100], |_, _| {
                assert!(all.rank() != 0, "a function that panics, as it is to");
            })
        }));
        assert_eq!(ended.is_err(), all.rank() == 0);
        all.barrier().expect_err("the group has failed")
    });
    let is_abandoned = |error: &Error| match error {
        Error::Call(CommunicatorError::Abandoned { rank, .. }) => rank.rank == Rank(0),
        _ => false,
    };
    assert!(errors.iter().all(is_abandoned), "{errors:?}");
}

#[test]
fn ranks_of_one_host_with_different_settings_are_refused_with_the_remedy() {
    let site = Site::beside("nodes_told", one_switch(1));
    let options = Options {
        join_within: Duration::from_secs(6),
        ..options()
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| join(&site, "n0", 3, &options));
        within(LIMIT, || shared_file(&site, "n0")).expect("the first rank makes it");
        let other = Options {
            host: Some("n7".into()),
            interface: Some("eth0".into()),
            ..options.clone()
        };
        let refused = site
            .lab()
            .run_on("n0", || Communicator::join_with("test", 3, &other))
            .expect("a host");
        let text = refused.expect_err("one host has one name").to_string();
        assert_eq!(
            text,
            "other ranks of group test on this host have host name n0, this one n7: give all the same"
        );
        let refused = join(&site, "n0", 2, &options).expect_err("another size");
        assert!(
            matches!(refused, Error::Call(CommunicatorError::SizesDiffer { .. })),
            "{refused}"
        );
        let refused = first.join().expect("no panic").expect_err("another size");
        assert!(
            matches!(refused, Error::Call(CommunicatorError::SizesDiffer { .. })),
            "{refused}"
        );
    });
}

#[test]
fn ranks_with_one_key_call_each_other_and_one_with_another_is_named() {
    let site = Site::beside("calls_keys", one_switch(3));
    let keyed = |cluster| Options {
        keys: Some(Arc::new(keys(cluster))),
        ..options()
    };
    let short = |cluster| Options {
        join_within: Duration::from_secs(6),
        ..keyed(cluster)
    };
    thread::scope(|scope| {
        let ranks = [("n0", 1), ("n2", 2)].map(|(host, cluster)| {
            let (site, options) = (&site, short(cluster));
            scope.spawn(move || join(site, host, 2, &options).map(drop))
        });
        for rank in ranks {
            let refused = rank
                .join()
                .expect("no panic")
                .expect_err("the other has another key");
            assert!(
                matches!(
                    refused,
                    Error::Call(CommunicatorError::Missing { other: Some(_), .. })
                ),
                "{refused}"
            );
            assert!(
                refused.to_string().contains("copy one file to both"),
                "{refused}"
            );
        }
    });
    thread::scope(|scope| {
        let non_member = scope.spawn(|| join(&site, "n2", 2, &short(2)).map(drop));
        on_nodes(&site, &[1, 1], &keyed(1), |all| {
            for (round, bytes) in [1, 1460, 1461, 300_000].into_iter().enumerate() {
                everything(all, round as u64, bytes);
            }
        });
        non_member
            .join()
            .expect("no panic")
            .expect_err("it has another key");
    });
}

#[test]
fn a_rank_that_waits_in_vain_gets_the_names_of_ranks_on_its_host_that_wait_for_another_group() {
    let site = Site::beside("nodes_groups", one_switch(1));
    let options = Options {
        interface: Some("eth0".into()),
        ..options()
    };
    let short = Options {
        join_within: Duration::from_secs(2),
        ..options.clone()
    };
    let joined = |group: &'static str, options: &Options| {
        site.lab()
            .run_on("n0", || Communicator::join_with(group, 2, options))
            .expect("a host")
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| joined("tset", &options));
        let text = joined("test", &short)
            .expect_err("nobody comes")
            .to_string();
        assert!(
            text.ends_with("on this host others wait for tset: give all ranks the same group"),
            "{text}"
        );
        // However slow the machine is, the other one still waits for its second rank.
        let second = joined("tset", &options);
        other
            .join()
            .expect("no panic")
            .expect("it has a second rank");
        second.expect("it is the second rank");
    });
}

fn shared_file(site: &Site, host: &str) -> Option<PathBuf> {
    let read = || {
        std::fs::metadata("/proc/thread-self/ns/net")
            .expect("a namespace")
            .ino()
    };
    let namespace = site.lab().run_on(host, read).expect("a host");
    let prefix = format!("ethbcast-{namespace:x}-");
    let files = std::fs::read_dir("/dev/shm")
        .expect("it is there")
        .flatten();
    let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix));
    files.next().map(|file| file.path())
}

#[test]
fn shared_memory_of_ranks_is_their_users_alone_and_another_users_is_refused_by_name() {
    let site = Site::beside("nodes_users", one_switch(1));
    let options = Options {
        join_within: Duration::from_secs(6),
        ..options()
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| join(&site, "n0", 2, &options));
        let path = within(LIMIT, || shared_file(&site, "n0")).expect("the first rank makes it");
        let about = std::fs::metadata(&path).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        chown(&path, Some(12_345), None).expect("root may");
        let refused = join(&site, "n0", 2, &options).expect_err("it is another user's");
        assert!(
            matches!(
                refused,
                Error::Node(NodeError::OtherUser { uid: 12_345, .. })
            ),
            "{refused}"
        );
        assert!(
            refused
                .to_string()
                .contains("run all ranks of a group on a host as one user"),
            "{refused}"
        );
        first.join().expect("no panic").expect_err("nobody comes");
        assert!(!path.exists(), "the last one removes it");
    });
}
