//! Tests of transfers over real packet sockets, between threads in network namespaces.

mod failures;

use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::Content;
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    ContentKind, Error, Outcome, Progress, ReceiveReport, RecvOptions, RootEvent, Route,
    RunOptions, SendOptions, SendReport, Session, WireOptions,
};
use ethbcast_content::command::CommandOutput;
use ethbcast_content::dest::{Arrival, Dest, Handling, Landed};
use ethbcast_content::source::{Opened, Opening, Selection};
use ethbcast_content::storage::Target;
use ethbcast_lab::LabConfig;
use ethbcast_planning::plan::Via;
use ethbcast_tests::lab::{LIMIT, Run, Site, content, names_in, one_switch, within};
use ethbcast_transport::wire::Rank;
use std::io::{Read, Write};
use std::ops::Deref;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::{fs, thread};

type Sending<'scope> = ScopedJoinHandle<'scope, Result<SendReport, Error>>;
type Receiving<'scope> = ScopedJoinHandle<'scope, Result<ReceiveReport, Error>>;

fn wire(host: &str) -> WireOptions {
    WireOptions {
        interface: Some("eth0".to_owned()),
        host: Some(host.to_owned()),
        ..WireOptions::default()
    }
}

fn sender() -> SendOptions {
    SendOptions {
        wire: wire("n0"),
        max_wait: Some(LIMIT),
        ..SendOptions::new().receivers(1)
    }
}

fn receiver() -> RecvOptions {
    RecvOptions {
        wire: wire("n1"),
        max_wait: Some(LIMIT),
        once: true,
        ..RecvOptions::new()
    }
}

/// A lab for sessions of this process. It excludes other sessions, because leftovers are found by
/// thread name.
struct Own {
    site: Site,
    _turn: MutexGuard<'static, ()>,
}

impl Own {
    fn up(story: &str, config: LabConfig) -> Own {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Own {
            site: Site::beside(story, config),
            _turn: turn,
        }
    }
}

impl Deref for Own {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

fn send<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    (site, host): (&'env Site, &'env str),
    reader: impl Read + Send + 'scope,
    options: SendOptions,
) -> Sending<'scope> {
    let work = move || {
        Session::send(
            "test",
            reader,
            &SendOptions {
                wire: wire(host),
                ..options
            },
        )
    };
    scope.spawn(move || {
        site.lab()
            .run_on(host, work)
            .expect("the lab has this host")
    })
}

fn receive<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    (site, host): (&'env Site, &'env str),
    writer: impl Write + Send + 'scope,
    options: RecvOptions,
) -> Receiving<'scope> {
    let work = move || {
        Session::receive(
            "test",
            writer,
            &RecvOptions {
                wire: wire(host),
                ..options
            },
        )
    };
    scope.spawn(move || {
        site.lab()
            .run_on(host, work)
            .expect("the lab has this host")
    })
}

/// Panics if a session has left a thread or a socket behind. No other session may be running.
fn assert_nothing_left(site: &Site, hosts: &[&str]) {
    // A thread that has ended may still be listed for a moment.
    let names = || {
        let tasks = fs::read_dir("/proc/self/task").expect("our threads");
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        let names = tasks.filter_map(|task| name(task.ok()?));
        names
            .filter(|name| ["reader", "writer"].contains(&name.trim()))
            .collect::<Vec<_>>()
    };
    within(LIMIT, || names().is_empty().then_some(()))
        .unwrap_or_else(|| panic!("threads are left: {:?}", names()));
    for host in hosts {
        let read = || {
            fs::read_to_string("/proc/thread-self/net/packet")
                .expect("the namespace's packet sockets")
        };
        let sockets = || {
            site.lab()
                .run_on(host, read)
                .expect("the lab has this host")
        };
        let closed = within(LIMIT, || (sockets().lines().count() == 1).then_some(()));
        assert!(
            closed.is_some(),
            "{host} has packet sockets left:\n{}",
            sockets()
        );
    }
}

/// A gate for a reader or writer: reports its arrival, and blocks until the keeper opens it.
struct Gate {
    reached: Sender<()>,
    go_on: Receiver<()>,
}

/// The other side of a [`Gate`]; dropping it opens the gate for good.
struct Keeper {
    reached: Receiver<()>,
    go_on: Sender<()>,
}

impl Gate {
    fn new() -> (Gate, Keeper) {
        let ((reached, at_gate), (go_on, told)) = (channel(), channel());
        (
            Gate {
                reached,
                go_on: told,
            },
            Keeper {
                reached: at_gate,
                go_on,
            },
        )
    }

    fn pass(&self) {
        // Without a keeper the gate is open.
        if self.reached.send(()).is_ok() {
            // Bounded, in case the keeper is blocked in a scope that waits for this thread.
            self.go_on.recv_timeout(LIMIT).unwrap_or_default();
        }
    }
}

impl Keeper {
    fn wait(&self) {
        self.reached
            .recv_timeout(LIMIT)
            .expect("somebody comes to the gate");
    }

    fn open(&self) {
        self.go_on.send(()).expect("somebody stands at the gate");
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    within(LIMIT, || condition().then_some(())).unwrap_or_else(|| panic!("never: {what}"));
}

#[test]
fn all_receivers_write_what_the_sender_reads_and_both_sides_report() {
    let site = Own::up("library", one_switch(3));
    let bytes = content(1, 3 << 20);
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&told);
    let (source, size, route) = (
        "numbers".to_owned(),
        Some(bytes.len() as u64),
        Route::Via(Via::Chain),
    );
    let mut run = RunOptions::default();
    run.on_progress(move |progress| {
        let word = match progress {
            Progress::Sender(RootEvent::Joined { receivers, .. }) => format!("{receivers} joined"),
            Progress::Sender(RootEvent::Started { receivers, via, .. }) => {
                format!("{receivers} start via {via}")
            }
            Progress::Sender(RootEvent::Reported(report)) => report.outcome.word().to_owned(),
            _ => return,
        };
        note.lock().expect("nobody panics").push(word);
    });
    let options = SendOptions {
        run,
        source,
        size,
        route,
        ..sender().receivers(2)
    };
    let mut written = [Vec::new(), Vec::new()];
    thread::scope(|scope| {
        let [first, second] = &mut written;
        let receivers = [("n1", first), ("n2", second)]
            .map(|(host, to)| receive(scope, (&*site, host), to, receiver()));
        let sent = send(scope, (&*site, "n0"), &bytes[..], options)
            .join()
            .expect("no panic")
            .expect("sent");
        let mut tally = Tally::default();
        tally.add(&bytes);
        assert_eq!(
            (sent.trailer, sent.verified(), sent.via()),
            (Some(tally.trailer()), 2, Some(Via::Chain))
        );
        for (rank, received) in (1..).zip(receivers) {
            let received = received.join().expect("no panic").expect("received");
            assert!(
                received.is_delivered() && received.is_confirmed(),
                "{received:?}"
            );
            assert_eq!(
                (received.rank, received.source.as_str()),
                (Some(Rank(rank)), "numbers")
            );
            assert_eq!(received.bytes(), bytes.len() as u64);
        }
    });
    assert!(
        written.iter().all(|written| *written == bytes),
        "other bytes than were sent"
    );
    let told = told.lock().expect("nobody panics");
    assert_eq!(
        told[..],
        [
            "1 joined",
            "2 joined",
            "2 start via chain",
            "verified",
            "verified"
        ]
    );
    assert_nothing_left(&site, &["n0", "n1", "n2"]);
}

#[test]
fn two_sessions_of_one_process_share_an_interface() {
    let site = Own::up("two_groups", one_switch(2));
    let (there, back) = (content(1, 2 << 20), content(2, 2 << 20));
    // On each host one thread sends to one group while another receives from the other.
    let run = |host: &'static str, to: &'static str, bytes: &[u8], from: &'static str| {
        let work = || {
            thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    Session::send(
                        to,
                        bytes,
                        &SendOptions {
                            wire: wire(host),
                            ..sender()
                        },
                    )
                });
                let mut written = Vec::new();
                let received = Session::receive(
                    from,
                    &mut written,
                    &RecvOptions {
                        wire: wire(host),
                        ..receiver()
                    },
                );
                let sent = sending.join().expect("no panic").expect("sent");
                assert_eq!(sent.receivers[0].outcome, Outcome::Delivered);
                received.expect("received");
                written
            })
        };
        site.lab()
            .run_on(host, work)
            .expect("the lab has this host")
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run("n1", "back", &back, "there"));
        assert!(
            run("n0", "there", &there, "back") == back,
            "other bytes came back"
        );
        assert!(
            other.join().expect("no panic") == there,
            "other bytes came there"
        );
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}

fn transfer(site: &Site, opened: Opened, dest: Dest, target: Target) -> Landed {
    let (arrival, landed) = Arrival::new(
        dest,
        target,
        Handling {
            read_back: true,
            ..Handling::default()
        },
    );
    thread::scope(|scope| {
        let receive = || Session::receive_into("test", arrival, &receiver());
        let receiver = scope.spawn(|| {
            site.lab()
                .run_on("n1", receive)
                .expect("a host of this lab")
        });
        let send = || Session::send("test", opened.content, &sender());
        let sent = site
            .lab()
            .run_on("n0", send)
            .expect("a host of this lab")
            .expect("sent");
        let received = receiver.join().expect("no panic").expect("received");
        assert_eq!((sent.verified(), received.bytes()), (1, sent.bytes()));
    });
    landed
}

fn dest(path: &Path) -> (Dest, Target) {
    let target = Target {
        dest: path.to_owned(),
        ..Target::default()
    };
    (
        Dest::resolve(path.as_os_str(), false).expect("it can be written"),
        target,
    )
}

#[test]
fn a_program_sends_files_directories_and_what_a_command_writes_and_puts_them_where_the_tool_would()
{
    let site = Own::up("contents", one_switch(2));
    let tree = site.directory("tree");
    fs::create_dir(tree.join("sub"))
        .and_then(|()| fs::write(tree.join("sub/file"), "text"))
        .expect("room");
    let file = site.file("file", content(1, 3_000_000));
    let opened = Opened::tree(&[tree], &Selection::default()).expect("readable");
    assert_eq!(opened.tree.as_ref().map(|tree| tree.entries()), Some(2));
    let (to, target) = dest(&site.path("copy"));
    let landed = transfer(&site, opened, to, target);
    assert_eq!(landed.path(), Some(&site.path("copy")));
    assert_eq!(
        fs::read_to_string(site.path("copy/sub/file")).expect("there"),
        "text"
    );
    let opened = Opened::file(&file, Opening::default()).expect("readable");
    let (to, target) = dest(&site.directory("there"));
    transfer(&site, opened, to, target);
    assert!(fs::read(site.path("there/file")).is_ok_and(|copy| copy == content(1, 3_000_000)));
    // A reader of the program's own, as content with a name, into a command.
    let output = CommandOutput::start("printf abc").expect("a shell");
    let content =
        ethbcast_collectives::session::live::Content::of(output).named("letters", "the letters");
    let said = site.path("said");
    let to = Dest::Command(format!("echo $ETHBCAST_SOURCE $(cat) > {}", said.display()));
    let opened = Opened {
        content: content.kind(ContentKind::Stream).sized(Some(3)),
        tree: None,
    };
    transfer(&site, opened, to, Target::default());
    assert_eq!(fs::read_to_string(said).expect("it ran"), "letters abc\n");
}

fn start(site: &Site, host: &str, program: &str, arguments: &[&str]) -> Run {
    let mut command = site.command(host, program);
    command.args(arguments);
    Run::start(host, command)
}

#[test]
fn the_examples_send_a_file_to_all_who_want_it() {
    let site = Own::up("send_file", one_switch(4));
    let bytes = content(1, 5 << 20);
    let file = site.file("image", &bytes);
    let dests = ["n1", "n2", "n3"].map(|host| (host, site.path(host)));
    let text = |path: &std::path::Path| path.to_str().expect("a path in ASCII").to_owned();
    let receive = |(host, dest): &(&str, std::path::PathBuf)| {
        start(
            &site,
            host,
            env!("CARGO_BIN_EXE_receive_file"),
            &["images", &text(dest)],
        )
    };
    let receivers: Vec<Run> = dests.iter().map(receive).collect();
    let sender = start(
        &site,
        "n0",
        env!("CARGO_BIN_EXE_send_file"),
        &["images", "3", &text(&file)],
    )
    .end(LIMIT);
    sender.assert_code(0);
    assert!(
        sender
            .stdout_text()
            .starts_with("5242880 bytes at 3 receivers after"),
        "{}",
        sender.stdout_text()
    );
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    for (host, dest) in &dests {
        assert!(
            std::fs::read(dest).expect("it is there") == bytes,
            "{host} has other bytes"
        );
    }
    assert_eq!(
        names_in(file.parent().expect("it has one")).len(),
        4,
        "something is left beside the files"
    );
}

#[test]
fn the_examples_say_what_to_do_when_they_are_used_wrongly() {
    let site = Own::up("send_file_wrong", one_switch(1));
    let sender = start(&site, "n0", env!("CARGO_BIN_EXE_send_file"), &["images"]).end(LIMIT);
    sender.assert_refusal(1, &["usage: send_file GROUP RECEIVERS FILE"]);
    let dest = site.path("there");
    let dest = dest.to_str().expect("a path in ASCII");
    let receiver = start(
        &site,
        "n0",
        env!("CARGO_BIN_EXE_receive_file"),
        &[&"g".repeat(65), dest],
    )
    .end(LIMIT);
    receiver.assert_refusal(1, &["the group name has 65 bytes", "1 to 64"]);
    assert!(
        names_in(site.path("").as_path()).is_empty(),
        "something is left"
    );
}

/// Receives on a host over the memory that it has; returns that memory afterwards, and the report.
fn over<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    (site, host): (&'env Site, &'env str),
    memory: Vec<u8>,
) -> ScopedJoinHandle<'scope, (Vec<u8>, Result<ReceiveReport, Error>)> {
    let work = move || {
        Session::receive_over(
            "test",
            memory,
            &RecvOptions {
                wire: wire(host),
                ..receiver()
            },
        )
    };
    scope.spawn(move || {
        site.lab()
            .run_on(host, work)
            .expect("the lab has this host")
    })
}

const ARRAY_BYTES: usize = 32 << 20;

/// Returns an array, and its next version, of which one percent has changed in two places.
fn versions() -> (Vec<u8>, Arc<[u8]>) {
    let old = content(7, ARRAY_BYTES);
    let mut new = old.clone();
    for at in [5 << 20, 20 << 20] {
        new[at..at + ARRAY_BYTES / 200]
            .iter_mut()
            .for_each(|byte| *byte ^= 1);
    }
    (old, new.into())
}

fn send_array(site: &Site, array: &Arc<[u8]>, receivers: usize) -> SendReport {
    let options = SendOptions {
        chunk: Some(ChunkSize::SHORTEST),
        ..sender().receivers(receivers)
    };
    let work = || Session::send("test", Content::of_memory(Arc::clone(array)), &options);
    site.lab()
        .run_on("n0", work)
        .expect("the lab has this host")
        .expect("sent")
}

#[test]
fn of_memory_only_changed_chunks_are_sent_to_those_with_the_last_version() {
    let site = Own::up("delta", one_switch(4));
    let (old, new) = versions();
    thread::scope(|scope| {
        let receivers = ["n1", "n2", "n3"].map(|host| over(scope, (&*site, host), old.clone()));
        let sent = send_array(&site, &new, 3)
            .sent_bytes
            .expect("they have most of it");
        assert!(
            sent <= ARRAY_BYTES as u64 * 15 / 1000,
            "{sent} bytes of {ARRAY_BYTES}"
        );
        for receiver in receivers {
            let (memory, report) = receiver.join().expect("no panic");
            let report = report.expect("received");
            assert!(memory == *new && report.bytes() == ARRAY_BYTES as u64);
            let came = report.came_bytes.expect("it had most of it");
            assert!(
                came <= ARRAY_BYTES as u64 * 15 / 1000,
                "{came} bytes of {ARRAY_BYTES}"
            );
        }
    });
    // One host has the old version, one has other bytes, and one has more memory, with the old
    // version in front.
    let mut other = Vec::new();
    thread::scope(|scope| {
        let same = over(scope, (&*site, "n1"), new.to_vec());
        let whole = receive(scope, (&*site, "n2"), &mut other, receiver());
        let longer = over(scope, (&*site, "n3"), [&old[..], &[9; 1000]].concat());
        let sent = send_array(&site, &new, 3);
        let notes: Vec<&str> = sent
            .receivers
            .iter()
            .map(|member| member.text.as_str())
            .collect();
        assert_eq!(
            notes,
            [
                "",
                "",
                "its earlier version has 33555432 bytes, and this one 33554432"
            ]
        );
        assert!(same.join().expect("no panic").0 == *new);
        whole.join().expect("no panic").expect("received");
        let (memory, report) = longer.join().expect("no panic");
        assert_eq!(report.expect("received").bytes(), ARRAY_BYTES as u64);
        assert!(memory[..ARRAY_BYTES] == *new && memory[ARRAY_BYTES..] == [9; 1000]);
    });
    assert!(other == *new);
}

#[test]
fn memory_that_is_too_short_is_refused_and_a_stream_comes_whole() {
    let site = Own::up("delta_refused", one_switch(3));
    let (old, new) = versions();
    thread::scope(|scope| {
        let short = over(scope, (&*site, "n1"), vec![5; 10]);
        let fits = over(scope, (&*site, "n2"), old.clone());
        send_array(&site, &new, 1);
        let (memory, report) = short.join().expect("no panic");
        let text = report.expect_err("there is no room").to_string();
        assert!(
            text.contains("room for 10 bytes") && text.contains("has 32.00 MiB"),
            "{text}"
        );
        assert!(memory == [5; 10] && fits.join().expect("no panic").0 == *new);
    });
    // A reader cannot read again.
    thread::scope(|scope| {
        let receiver = over(scope, (&*site, "n1"), old.clone());
        let work = || Session::send("test", &new[..], &sender());
        let sent = site
            .lab()
            .run_on("n0", work)
            .expect("the lab has this host")
            .expect("sent");
        let (memory, report) = receiver.join().expect("no panic");
        assert_eq!(
            (sent.sent_bytes, report.expect("received").came_bytes),
            (None, None)
        );
        assert!(memory == *new);
    });
}
