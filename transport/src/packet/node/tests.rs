//! Tests of processes that share a host's packet socket: exchange of frames, recovery when one
//! dies, and locks in a forked child.

use super::NodeError;
use super::board::{Board, Entry, Occupant, QUEUE_FRAMES};
use super::memory::SharedMemory;
use super::place::{Lock, NodeConfig, Place, sweep};
use super::port::Producer;
use crate::MacAddr;
use crate::lock::{Condvar, Mutex};
use crate::packet::Interface;
use crate::sim::Random;
use crate::wire::EtherType;
use std::collections::VecDeque;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const STRIDE: usize = 1536;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path =
            std::env::temp_dir().join(format!("ethbcast-node-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory of our own");
        Directory(path)
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.0).expect("it is there").count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn board(directory: &Directory) -> Board {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(directory.0.join("b"));
    let file = file.expect("a file of our own");
    let bytes = Board::file_bytes(STRIDE);
    file.set_len(bytes.get() as u64).expect("there is room");
    let board = Board::new(
        SharedMemory::map(&file, bytes).expect("it can be mapped"),
        STRIDE,
    );
    board.make(b"test");
    board
}

fn with_processes(directory: &Directory, places: u8) -> (Board, Vec<Producer>) {
    let board = board(directory);
    (0..places).for_each(|port_id| board.occupy(port_id, u64::from(port_id)));
    let producers = (0..places)
        .map(|port_id| Producer::new(&board, port_id))
        .collect();
    (board, producers)
}

fn taken(board: &Board, from: u8, to: u8) -> Option<Vec<u8>> {
    let mut frame = None;
    board.take(from, to, |bytes| frame = Some(bytes.to_vec()));
    frame
}

/// A process that does not keep to the protocol, or is not of this build.
#[test]
fn a_frame_that_is_overwritten_while_it_is_read_is_read_as_it_came() {
    let directory = Directory::new("overwritten");
    let (board, mut producers) = with_processes(&directory, 2);
    producers[0].give(&board, b"as it came", [1].into_iter());
    let mut is_read = false;
    board.take(0, 1, |bytes| {
        board.store(0, 0, b"in another way");
        is_read = bytes == b"as it came";
    });
    assert!(is_read);
}

#[test]
fn a_frame_for_all_is_stored_once_and_its_place_is_free_when_the_last_has_read_it() {
    let directory = Directory::new("once");
    let (board, mut producers) = with_processes(&directory, 4);
    let room = producers[0].room(&board);
    producers[0].give(&board, b"to all", [1, 2, 3].into_iter());
    producers[0].give(&board, b"to one", [2].into_iter());
    assert_eq!(
        board.readers(0, 0).load(Ordering::Relaxed) + board.readers(0, 1).load(Ordering::Relaxed),
        4
    );
    assert!((1..4).all(|to| board.has_arrival(to)) && !board.has_arrival(0));
    for to in [1, 2, 3] {
        assert!(producers[0].room(&board) < room, "before reader {to}");
        assert_eq!(taken(&board, 0, to).as_deref(), Some(&b"to all"[..]));
    }
    assert_eq!(
        (taken(&board, 0, 2).as_deref(), taken(&board, 0, 1)),
        (Some(&b"to one"[..]), None)
    );
    assert_eq!((producers[0].room(&board), producers[0].lost), (room, 0));
}

#[test]
fn a_process_that_reads_nothing_loses_frames_beyond_its_queue_and_nobody_else_does() {
    let directory = Directory::new("slow");
    let (board, mut producers) = with_processes(&directory, 3);
    for number in 0..2 * QUEUE_FRAMES {
        producers[0].give(&board, &number.to_be_bytes(), [1, 2].into_iter());
        assert_eq!(
            taken(&board, 0, 2),
            Some(number.to_be_bytes().to_vec()),
            "the quick one gets all"
        );
        producers[0].room(&board);
    }
    assert_eq!(
        (producers[0].room(&board), producers[0].lost),
        (0, u64::from(QUEUE_FRAMES))
    );
    for number in 0..QUEUE_FRAMES {
        assert_eq!(
            taken(&board, 0, 1),
            Some(number.to_be_bytes().to_vec()),
            "in order"
        );
    }
    assert!(taken(&board, 0, 1).is_none() && producers[0].room(&board) > 0);
}

type Expected = Vec<Vec<VecDeque<u32>>>;

#[test]
fn in_any_order_of_steps_and_after_any_death_the_others_get_all_frames_in_order() {
    for seed in 0..200 {
        let directory = Directory::new(&format!("order-{seed}"));
        let (board, mut producers) = with_processes(&directory, 4);
        let (mut random, mut number) = (Random::new(seed), 0_u32);
        let mut expected: Expected = vec![vec![VecDeque::new(); 4]; 4];
        for _ in 0..600 {
            let (from, to) = (random.below(4) as u8, random.below(4) as u8);
            match random.below(10) {
                0..=3 => {
                    number += 1;
                    let others: Vec<u8> = producers[usize::from(from)].others(&board).collect();
                    let chosen: Vec<u8> = if number % 2 == 0 {
                        others
                    } else {
                        others.into_iter().take(1).collect()
                    };
                    if producers[usize::from(from)].room(&board) == 0 {
                        continue;
                    }
                    producers[usize::from(from)].give(
                        &board,
                        &number.to_be_bytes(),
                        chosen.iter().copied(),
                    );
                    chosen.iter().for_each(|&to| {
                        expected[usize::from(from)][usize::from(to)].push_back(number)
                    });
                }
                4..=8 if from != to && board.occupant(to) == Occupant::Here => {
                    let next = expected[usize::from(from)][usize::from(to)].pop_front();
                    assert_eq!(
                        taken(&board, from, to),
                        next.map(|next| next.to_be_bytes().to_vec()),
                        "seed {seed}"
                    );
                }
                // The process is gone: each other one takes back its frames, and a new one may take
                // the id.
                9 if random.below(4) == 0 => {
                    board.vacate(to);
                    for other in (0..4).filter(|&other| other != to) {
                        while board.take(other, to, |_| {}) {}
                        expected[usize::from(other)][usize::from(to)].clear();
                    }
                    board.occupy(to, u64::from(number));
                    producers[usize::from(to)] = Producer::new(&board, to);
                }
                _ => {}
            }
        }
        for (from, row) in expected.iter_mut().enumerate() {
            for (to, waiting) in row.iter_mut().enumerate().filter(|&(to, _)| to != from) {
                while let Some(frame) = taken(&board, from as u8, to as u8) {
                    assert_eq!(
                        Some(frame),
                        waiting.pop_front().map(|next| next.to_be_bytes().to_vec())
                    );
                }
                assert!(waiting.is_empty(), "seed {seed}: {from} to {to}");
            }
        }
        let kept = (0..4).flat_map(|port_id| (0..board.frames).map(move |frame| (port_id, frame)));
        let held: u32 = kept
            .map(|(port_id, frame)| board.readers(port_id, frame).load(Ordering::Relaxed))
            .sum();
        assert_eq!(held, 0, "seed {seed}: every frame is free again");
    }
}

#[test]
fn words_of_a_process_that_has_gone_mad_end_no_other() {
    let directory = Directory::new("mad");
    let (board, _) = with_processes(&directory, 2);
    let mad = Entry {
        frame: 1023,
        bytes: 1 << 20,
    };
    assert!(board.put(0, 1, mad));
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| taken(&board, 0, 1)));
    assert!(
        read.map_or(cfg!(debug_assertions), |frame| frame.is_none()),
        "never a byte beyond a frame's place"
    );
}

#[test]
fn a_sleeping_process_is_woken_once_and_one_with_a_waiting_frame_does_not_fall_asleep() {
    let directory = Directory::new("sleep");
    let (board, mut producers) = with_processes(&directory, 3);
    assert!(board.fall_asleep(1, 0) && board.fall_asleep(1, 1));
    producers[0].give(&board, b"x", [1, 2].into_iter());
    producers[2].give(&board, b"y", [1].into_iter());
    assert_eq!(
        producers[0].sleepers(&board).collect::<Vec<_>>(),
        [1],
        "who is awake is not rung"
    );
    assert_eq!(producers[2].sleepers(&board).count(), 0, "it has been rung");
    board.awake(1, 0);
    assert!(!board.fall_asleep(1, 0) && board.asleep(1).load(Ordering::Relaxed) == 0);
}

#[test]
fn threads_that_all_hand_out_to_all_get_everything_in_order() {
    const FRAMES: u32 = 2000;
    const LIMIT: Duration = Duration::from_secs(60);
    let (directory, begun) = (Directory::new("threads"), std::time::Instant::now());
    let (board, producers) = with_processes(&directory, 3);
    let board = Arc::new(board);
    let threads: Vec<_> = producers
        .into_iter()
        .zip(0_u8..)
        .map(|(mut producer, own)| {
            let board = Arc::clone(&board);
            std::thread::spawn(move || {
                let (mut given, mut read) = (0, [0; 3]);
                while given < FRAMES
                    || (0..3).any(|from| from != usize::from(own) && read[from] < FRAMES)
                {
                    assert!(
                        begun.elapsed() < LIMIT,
                        "{own} has given {given} and read {read:?} of {FRAMES}"
                    );
                    for _ in 0..producer.room(&board).min(64).min((FRAMES - given) as usize) {
                        producer.give(
                            &board,
                            &[&given.to_be_bytes()[..], &[own; 1000]].concat(),
                            others(own),
                        );
                        given += 1;
                    }
                    for from in others(own) {
                        let number = &mut read[usize::from(from)];
                        while board.take(from, own, |frame| {
                            assert_eq!(frame[..4], number.to_be_bytes());
                            assert!(
                                frame[4..].iter().all(|&byte| byte == from) && frame.len() == 1004
                            );
                            *number += 1;
                        }) {}
                    }
                    std::thread::yield_now();
                }
                producer.lost
            })
        })
        .collect();
    assert!(
        threads
            .into_iter()
            .all(|thread| thread.join().expect("no frame is damaged") == 0)
    );
}

fn others(own: u8) -> impl Iterator<Item = u8> + Clone {
    (0..3).filter(move |&port_id| port_id != own)
}

fn interface() -> Interface {
    Interface {
        name: "eth0".to_owned(),
        index: 7,
        mac: MacAddr::new(2, 0, 0, 0, 0, 1),
        mtu_bytes: 1500,
    }
}

fn config(nonce: u64) -> NodeConfig {
    let group_mac = MacAddr::new(3, 0, 0, 0, 0, 9);
    let nonce = u64::from(std::process::id()) << 32 | nonce;
    let (group, host) = ("g".to_owned(), "n0".to_owned());
    NodeConfig {
        group_mac,
        group,
        host,
        ether_type: EtherType::DEFAULT,
        nonce,
        port_id: None,
    }
}

fn come(directory: &Path, config: &NodeConfig) -> Result<Place, NodeError> {
    Place::take(directory, &interface(), config)
}

#[test]
fn processes_get_port_ids_in_the_order_in_which_they_come_and_the_last_removes_the_file() {
    let directory = Directory::new("seats");
    let places: Vec<Place> = (10..13)
        .map(|nonce| come(&directory.0, &config(nonce)).expect("there is room"))
        .collect();
    assert_eq!(
        places.iter().map(|place| place.port_id).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let file = std::fs::read_dir(&directory.0)
        .expect("it is there")
        .next()
        .expect("a file")
        .expect("an entry");
    let about = file.metadata().expect("it is there");
    assert_eq!(
        (directory.files(), about.permissions().mode() & 0o777),
        (1, 0o600)
    );
    assert!(
        about.blocks() * 512 < 3 * Board::area(STRIDE, 0).len() as u64 + 65_536,
        "no more than three take"
    );
    let [first, second, third] = <[Place; 3]>::try_from(places).expect("three");
    drop(second);
    assert_eq!(
        come(&directory.0, &config(14))
            .expect("there is room")
            .port_id,
        1,
        "it is free again"
    );
    drop((first, third));
    assert_eq!(directory.files(), 0);
}

#[test]
fn a_process_that_has_a_port_id_already_gets_the_same_whenever_it_comes() {
    let directory = Directory::new("same");
    let places = [2, 0, 1].map(|id| {
        come(
            &directory.0,
            &NodeConfig {
                port_id: Some(id),
                ..config(30 + u64::from(id))
            },
        )
    });
    assert_eq!(
        places
            .each_ref()
            .map(|place| place.as_ref().expect("there is room").port_id),
        [2, 0, 1]
    );
    let again = come(
        &directory.0,
        &NodeConfig {
            port_id: Some(1),
            ..config(40)
        },
    );
    assert!(matches!(again, Err(NodeError::Full { .. })), "it is taken");
}

#[test]
fn a_process_with_other_settings_is_refused_with_the_difference_and_another_group_is_ignored() {
    let directory = Directory::new("told");
    let first = come(&directory.0, &config(20)).expect("there is room");
    let refused = come(
        &directory.0,
        &NodeConfig {
            host: "n1".to_owned(),
            ..config(21)
        },
    );
    let text = refused.expect_err("one host has one name").to_string();
    assert_eq!(
        text,
        "other ranks of group g on this host have host name n0, this one n1: give all the same"
    );
    let larger = Interface {
        mtu_bytes: 9000,
        ..interface()
    };
    let refused = Place::take(&directory.0, &larger, &config(22));
    assert!(matches!(refused, Err(NodeError::OtherLayout { .. })));
    let (other, group) = (MacAddr::new(3, 0, 0, 0, 0, 8), "h".to_owned());
    let second = NodeConfig {
        group_mac: other,
        group,
        ..config(23)
    };
    let second = come(&directory.0, &second).expect("another group");
    let waiting = || Place::waiting_groups(&directory.0, &interface(), other);
    assert_eq!((second.port_id, waiting()), (0, vec!["g".to_owned()]));
    // Root alone can make a file another user's.
    let is_root = std::fs::metadata(&first.path).expect("it is there").uid() == 0;
    if is_root && std::os::unix::fs::chown(&first.path, Some(65534), None).is_ok() {
        assert_eq!(waiting(), [""; 0], "what another user says is not shown");
        std::os::unix::fs::chown(&first.path, Some(0), None).expect("root may");
    }
    first.board.complete().store(1, Ordering::Relaxed);
    assert_eq!(waiting(), [""; 0], "it is complete");
}

#[test]
fn remains_of_a_crashed_run_are_recreated_or_removed_and_files_in_use_are_not() {
    let directory = Directory::new("crash");
    let crash = |nonce| {
        // The kernel releases the locks of a killed process, and nothing else happens.
        let place = come(&directory.0, &config(nonce)).expect("there is room");
        place.board.put(0, 1, Entry { frame: 5, bytes: 9 });
        Lock::Process(place.port_id).release(&place.file);
        std::mem::forget(place);
    };
    crash(30);
    let place = come(&directory.0, &config(31)).expect("nobody is there");
    assert_eq!(
        (
            place.port_id,
            place.board.given(),
            place.board.waiting(0, 1)
        ),
        (0, 1, 0)
    );
    sweep(&directory.0);
    assert_eq!(directory.files(), 1, "it is in use");
    drop(place);
    crash(32);
    sweep(&directory.0);
    assert_eq!(directory.files(), 0);
}

#[test]
fn a_false_tail_is_passed_over_at_once() {
    let directory = Directory::new("tail");
    let (board, _) = with_processes(&directory, 2);
    board.tail(0, 1).store(u32::MAX / 2, Ordering::Release);
    let taken = std::iter::from_fn(|| board.take(0, 1, |_| {}).then_some(()))
        .take(2000)
        .count();
    assert_eq!((taken, board.waiting(0, 1)), (1, 0));
}

fn while_threads_wait(count: usize, meanwhile: impl FnOnce()) {
    let flag = Arc::new((Mutex::new(0), Condvar::new(), Condvar::new()));
    let wait = |_| {
        let flag = Arc::clone(&flag);
        std::thread::spawn(move || {
            let mut waiting = flag.0.lock();
            *waiting += 1;
            flag.1.notify_all();
            while *waiting <= count {
                flag.2.wait(&mut waiting);
            }
        })
    };
    let threads: Vec<_> = (0..count).map(wait).collect();
    let mut waiting = flag.0.lock();
    while *waiting < count {
        flag.1.wait(&mut waiting);
    }
    meanwhile();
    *waiting += 1;
    drop(waiting);
    flag.2.notify_all();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("it only waits"));
}

#[test]
#[expect(unsafe_code, reason = "a fork, and the end of the child")]
fn a_forked_child_waits_where_its_parents_threads_do() {
    while_threads_wait(16, || {
        // SAFETY: the child uses what the library would use there, and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a limit of the child's life, in seconds.
            unsafe { libc::alarm(20) };
            let ended = std::panic::catch_unwind(|| while_threads_wait(32, || ()));
            // SAFETY: no destructor of the parent runs in the child.
            unsafe { libc::_exit(i32::from(ended.is_err())) };
        }
        let mut status = 0;
        // SAFETY: `status` lives here, and the child is this thread's.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's status");
    });
}
