//! Tests of the test network of namespaces: setup, removal, behaviour of its cables.
//!
//! The tests need root, and fail without it: a skipped test proves nothing.

use ethbcast_lab::{Lab, LabConfig, LabError, LabGuard, LinkFault, Removed};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::lab::{LIMIT, Run, process_name, processes_on, require_root, within};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A lab of n0 and n1 on one switch, n2 and n3 on another, one cable between. `story` distinguishes
/// the labs of one test process.
fn two_switches(story: &str) -> LabConfig {
    require_root();
    let text = "schema = 1\n\
                [[switch]]\nname = \"left\"\nhosts = \"n[0-1]\"\nlinks = [\"right\"]\n\
                [[switch]]\nname = \"right\"\nhosts = \"n[2-3]\"\n";
    let mut config =
        LabConfig::new(Topology::parse(text, "two switches").expect("a good topology"));
    config.name = format!("test{}{story}", process_name());
    config
}

fn up(config: &LabConfig) -> LabGuard {
    LabGuard::up(config).unwrap_or_else(|error| panic!("bringing up `{}`: {error}", config.name))
}

const BROADCAST: [u8; 6] = [0xff; 6];

const ETHERTYPE: [u8; 2] = [0x08, 0x00];
const HEADER_BYTES: usize = 14;

struct FrameSocket {
    socket: OwnedFd,
    interface: LinkAddr,
}

impl FrameSocket {
    /// Opens one in the thread's namespace, with a large receive buffer so that it loses nothing
    /// itself.
    fn open() -> Self {
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthIp,
        )
        .expect("a packet socket");
        let mut addresses = getifaddrs().expect("the interfaces");
        let interface = addresses
            .find_map(|entry| {
                (entry.interface_name == "eth0").then_some(entry.address?.as_link_addr().copied()?)
            })
            .expect("eth0 has a link address");
        bind(socket.as_raw_fd(), &interface).expect("binding to eth0");
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).expect("a large buffer");
        Self { socket, interface }
    }

    fn mac(&self) -> [u8; 6] {
        self.interface.addr().expect("Ethernet has addresses")
    }

    fn send(
        &self,
        to: [u8; 6],
        number: u32,
        payload_bytes: usize,
        flags: MsgFlags,
    ) -> Result<(), Errno> {
        let mut frame = vec![0; HEADER_BYTES + payload_bytes];
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&self.mac());
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        let sent = sendto(self.socket.as_raw_fd(), &frame, &self.interface, flags)?;
        assert_eq!(sent, frame.len(), "frames go whole");
        Ok(())
    }

    fn receive(&self, patience: Duration) -> Option<(u32, usize, Instant)> {
        let timeout = TimeVal::new(patience.as_secs() as _, patience.subsec_micros() as _);
        setsockopt(&self.socket, sockopt::ReceiveTimeout, &timeout).expect("a time limit");
        let mut frame = vec![0; 1 << 17];
        loop {
            return match recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                Ok(length) => {
                    let number = u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
                    Some((number, length - HEADER_BYTES, Instant::now()))
                }
                // The process was stopped meanwhile, and went on.
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => None,
                Err(error) => panic!("receiving: {error}"),
            };
        }
    }

    fn receive_all(&self, patience: Duration) -> Vec<(u32, usize, Instant)> {
        std::iter::from_fn(|| self.receive(patience)).collect()
    }
}

fn ip(words: &[&str]) -> String {
    let ended = Run::here("ip", words).end(LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

fn namespaces_of(lab: &str) -> Vec<String> {
    let prefix = format!("ethbcast-{lab}-");
    let text = ip(&["netns", "list"]);
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect()
}

fn delete_by_hand(namespace: &str) {
    ip(&["netns", "delete", namespace]);
}

fn output_on(lab: &Lab, host: &str, program: &str, arguments: &[&str]) -> String {
    let mut command = lab.command(host, program).expect("a host");
    command.args(arguments);
    let ended = Run::to_end(command, LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

#[test]
fn a_program_on_a_host_sees_that_host_alone() {
    let lab = up(&two_switches("inside"));
    assert_eq!(
        output_on(&lab, "n2", "ls", &["/sys/class/net"]),
        "eth0\nlo\n"
    );
    assert_eq!(
        output_on(&lab, "n2", "cat", &["/sys/class/net/eth0/address"]),
        "02:eb:00:00:00:02\n"
    );
    assert_eq!(
        output_on(&lab, "n2", "cat", &["/sys/class/net/lo/flags"]),
        "0x9\n",
        "lo is up"
    );
    assert_eq!(
        output_on(&lab, "n2", "cat", &["/proc/net/if_inet6"]),
        "",
        "no IPv6 anywhere"
    );
    let mut exits = lab.command("n0", "sh").expect("a host");
    exits.args(["-c", "exit 7"]);
    // The program's exit status is passed on.
    Run::to_end(exits, LIMIT).assert_code(7);
    let error = lab
        .command("n9", "true")
        .expect_err("there is none")
        .to_string();
    assert!(
        error.contains("`n9`") && error.contains("n0, n1, n2, n3"),
        "{error}"
    );
}

#[test]
fn the_machines_own_namespace_stays_as_it_was() {
    let outside = || {
        let links = ip(&["-o", "link", "show"]);
        links
            .lines()
            .map(|line| line.split(' ').nth(1).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let before = outside();
    let _lab = up(&two_switches("outside"));
    assert_eq!(outside(), before);
}

#[test]
fn a_running_lab_is_found_by_name_and_cannot_be_brought_up_twice() {
    let config = two_switches("twice");
    let lab = up(&config);
    assert_eq!(Lab::open(&config.name).expect("it is up"), *lab);
    assert!(Lab::list().expect("the labs").contains(&config.name));
    let error = Lab::up(&config).expect_err("it is up already");
    assert!(error.to_string().contains("ethbcast lab down"), "{error}");
    assert_eq!(lab.hosts(), ["n0", "n1", "n2", "n3"]);
    assert_eq!(
        namespaces_of(&config.name).len(),
        5,
        "the refusal took nothing away"
    );
    let error = Lab::open("nosuchlab")
        .expect_err("nobody made it")
        .to_string();
    assert!(
        error.contains("`nosuchlab`") && error.contains(&config.name),
        "{error}"
    );
}

#[test]
fn down_ends_the_polite_and_the_stubborn_and_leaves_nothing() {
    let config = two_switches("down");
    let lab = LabGuard::up(&config).expect("up");
    let start = |host: &str, program: &str, words: &[&str]| {
        let mut command = lab.command(host, program).expect("a host");
        command.args(words).stdin(Stdio::null());
        Run::start(program, command)
    };
    let polite = start("n0", "sleep", &["1000"]);
    let stubborn = start(
        "n3",
        "sh",
        &[
            "-c",
            "trap '' TERM; echo ready >&2; while :; do sleep 1000; done",
        ],
    );
    stubborn.wait_for_line("ready");
    wait_until_inside(&lab, "n0", polite.pid());
    let removed = Lab::remove(&config.name).expect("down");
    assert_eq!(removed.namespaces, 5);
    assert!(
        removed.processes >= 3,
        "sleep, sh and its sleep: {removed:?}"
    );
    polite.end(LIMIT).assert_code(128 + Signal::SIGTERM as i32);
    stubborn
        .end(LIMIT)
        .assert_code(128 + Signal::SIGKILL as i32);
    assert_eq!(namespaces_of(&config.name), [""; 0]);
    assert_eq!(
        Lab::remove(&config.name).expect("nothing to do is no error"),
        Removed::default()
    );
}

fn wait_until_inside(lab: &Lab, host: &str, pid: u32) {
    let inside = || {
        processes_on(lab, host)
            .expect("a host")
            .iter()
            .any(|inside| inside.as_raw() as u32 == pid)
    };
    within(LIMIT, || inside().then_some(()))
        .unwrap_or_else(|| panic!("process {pid} never came inside"));
}

#[test]
fn the_remains_of_a_crashed_lab_are_recognised_and_removed() {
    let config = two_switches("crash");
    let lab = LabGuard::up(&config).expect("up");
    for gone in [
        lab.switches_namespace(),
        lab.namespace("n1").expect("a host"),
    ] {
        delete_by_hand(&gone);
    }
    // `ip netns add` leaves this when it is killed half-way: a file with no namespace mounted on
    // it.
    std::fs::write(format!("/run/netns/ethbcast-{}-n7", config.name), "").expect("an empty file");
    assert!(matches!(
        Lab::open(&config.name),
        Err(LabError::Incomplete(..))
    ));
    assert!(matches!(Lab::up(&config), Err(LabError::LabExists(..))));
    let removed = Lab::remove(&config.name).expect("down");
    assert_eq!(
        removed,
        Removed {
            namespaces: 4,
            processes: 0
        }
    );
    assert_eq!(namespaces_of(&config.name), [""; 0]);
}

#[test]
fn an_interrupt_while_coming_up_leaves_nothing_and_is_not_swallowed() {
    let config = two_switches("interrupt");
    // Blocked in this test as well, so that the signal waits instead of ending the test.
    let interrupt: SigSet = [Signal::SIGTERM].into_iter().collect();
    interrupt.thread_block().expect("holding back");
    raise(Signal::SIGTERM).expect("raise goes to this thread");
    assert!(matches!(Lab::up(&config), Err(LabError::Interrupted)));
    assert_eq!(namespaces_of(&config.name), [""; 0]);
    let waiting = SignalFd::with_flags(&interrupt, SfdFlags::SFD_NONBLOCK).expect("a descriptor");
    let heard = waiting
        .read_signal()
        .expect("it can be read")
        .expect("it is still there");
    assert_eq!(heard.ssi_signo, Signal::SIGTERM as u32);
    interrupt.thread_unblock().expect("as before");
}

#[test]
fn the_guard_takes_its_lab_down_also_when_a_test_panics() {
    let config = two_switches("guard");
    let name = config.name.clone();
    let panicked = std::thread::spawn(move || {
        let _lab = up(&config);
        panic!("this panic is part of the test");
    });
    assert!(panicked.join().is_err());
    assert_eq!(namespaces_of(&name), [""; 0]);
}

#[test]
fn thirty_two_shaped_lossy_hosts_come_up_and_go_down() {
    let mut config = two_switches("large");
    config.topology = Topology::builtin("fig9-5").expect("a test bed");
    config.rate_bits_per_second = Some(100_000_000);
    config.loss = 0.01;
    let lab = up(&config);
    assert_eq!(lab.hosts().len(), 32);
    assert_eq!(Lab::remove(&config.name).expect("down").namespaces, 33);
}

/// Long enough for any frame in flight on a busy machine.
const QUIET: Duration = Duration::from_millis(800);

fn socket_on(lab: &Lab, host: &str) -> FrameSocket {
    lab.run_on(host, FrameSocket::open)
        .expect("entering the host")
}

fn numbers(frames: &[(u32, usize, std::time::Instant)]) -> Vec<u32> {
    frames.iter().map(|frame| frame.0).collect()
}

#[test]
fn a_broadcast_reaches_every_other_host_once_and_nothing_else_moves() {
    let lab = up(&two_switches("broadcast"));
    let sockets: Vec<_> = lab
        .hosts()
        .iter()
        .map(|host| socket_on(&lab, host))
        .collect();
    sockets[0]
        .send(BROADCAST, 7, 100, MsgFlags::empty())
        .expect("sending");
    for socket in &sockets[1..] {
        assert_eq!(numbers(&socket.receive_all(QUIET)), [7]);
    }
    assert!(
        sockets[0].receive(Duration::from_millis(10)).is_none(),
        "the sender does not hear itself"
    );
    for host in ["n1", "n2", "n3"] {
        let counters = lab.counters(host).expect("counters");
        assert_eq!(
            (counters.received_frames, counters.sent_frames),
            (1, 0),
            "{host}: nobody else has spoken"
        );
    }
    // The switches have learnt where n0 is: a reply goes there alone.
    sockets[3]
        .send(sockets[0].mac(), 8, 100, MsgFlags::empty())
        .expect("sending");
    assert_eq!(numbers(&sockets[0].receive_all(QUIET)), [8]);
    for host in ["n1", "n2"] {
        assert_eq!(
            lab.counters(host).expect("counters").received_frames,
            1,
            "{host} is not asked"
        );
    }
}

#[test]
fn a_stream_takes_the_time_its_bits_take_on_the_wire() {
    let mut config = two_switches("rate");
    config.rate_bits_per_second = Some(20_000_000);
    let lab = up(&config);
    let (sender, receiver) = (socket_on(&lab, "n0"), socket_on(&lab, "n3"));
    let frames = 400;
    let began = std::time::Instant::now();
    let received = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive_all(QUIET));
        for number in 0..frames {
            sender
                .send(BROADCAST, number, 1500, MsgFlags::empty())
                .expect("sending");
        }
        receiving.join().expect("receiving")
    });
    assert_eq!(
        numbers(&received),
        (0..frames).collect::<Vec<_>>(),
        "one sender at the cable's rate loses nothing"
    );
    let seconds = (received[399].2 - began).as_secs_f64();
    let wire_seconds = 399.0 * f64::from((1500 + 14 + 24) * 8) / 20e6;
    // Other work makes it longer and never shorter.
    assert!(
        (0.95..10.0).contains(&(seconds / wire_seconds)),
        "{seconds} s, on the wire {wire_seconds} s"
    );
}

#[test]
fn two_senders_into_one_port_lose_what_its_queue_does_not_hold() {
    let mut config = two_switches("congestion");
    config.rate_bits_per_second = Some(50_000_000);
    config.switch_queue_bytes = 20 * 1514;
    let lab = up(&config);
    let receiver = socket_on(&lab, "n2");
    let senders = ["n0", "n3"].map(|host| socket_on(&lab, host));
    let received = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive_all(QUIET));
        for sender in &senders {
            scope.spawn(|| {
                (0..3000).for_each(|number| {
                    sender
                        .send(receiver.mac(), number, 1500, MsgFlags::empty())
                        .expect("sending")
                })
            });
        }
        receiving.join().expect("receiving").len()
    });
    // Both cables carry 3000 frames while the port carries 3000 and queues 20. More pass while one
    // of the senders waits for a processor.
    assert!(
        (2500..5400).contains(&received),
        "{received} of 6000 arrived"
    );
}

#[test]
fn a_sender_that_is_too_fast_runs_out_of_its_own_buffer_never_of_the_queue() {
    for mtu_bytes in [1500, 9000, 65_535] {
        let mut config = two_switches("pressure");
        config.rate_bits_per_second = Some(100_000);
        config.mtu_bytes = mtu_bytes;
        let lab = up(&config);
        let sender = socket_on(&lab, "n0");
        let send = |number| {
            sender.send(
                BROADCAST,
                number,
                mtu_bytes as usize,
                MsgFlags::MSG_DONTWAIT,
            )
        };
        let refusal = (0..1000).find_map(|number| send(number).err());
        assert_eq!(refusal, Some(Errno::EAGAIN), "MTU {mtu_bytes}");
    }
}

#[test]
fn a_host_loses_the_configured_fraction_and_none_after_it_is_cleared() {
    let mut config = two_switches("loss");
    config.loss = 0.3;
    let lab = up(&config);
    let (sender, lossy) = (socket_on(&lab, "n0"), socket_on(&lab, "n2"));
    let (frames, counters) = (3000, || lab.counters("n2").expect("counters"));
    let deliver = || {
        let before = counters().received_frames;
        for number in 0..frames {
            sender
                .send(BROADCAST, number, 100, MsgFlags::empty())
                .expect("sending");
            // Paced, so that a kernel with other work can keep up.
            if number % 500 == 499 {
                let carried =
                    || (counters().received_frames - before > u64::from(number)).then_some(());
                within(LIMIT, carried).expect("the cable carries all");
            }
        }
        lossy.receive_all(QUIET).len()
    };
    let arrived = deliver();
    // 3000 trials with p = 0.3 have a standard deviation of 25; this is six of them.
    assert!(
        (1950..2250).contains(&arrived),
        "{arrived} of 3000 arrived at 30 % loss"
    );
    assert_eq!(counters().received_frames, 3000, "the cable carried all");
    assert_eq!(
        counters().lost_frames,
        3000 - arrived as u64,
        "and the rule counted what it took"
    );
    lab.set_loss("n2", 0.0).expect("no more loss");
    assert_eq!(deliver(), 3000);
    assert_eq!(lab.counters("n2").expect("counters").lost_frames, 0);
    lab.set_loss("n2", 0.999).expect("almost all");
    assert!(deliver() < 40, "the new loss is in place");
}

#[test]
fn the_largest_frame_there_can_be_crosses_two_switches_shaped_or_not() {
    for (story, rate) in [("jumbo", None), ("jumborate", Some(1_000_000_000))] {
        let mut config = two_switches(story);
        config.mtu_bytes = 65_535;
        config.rate_bits_per_second = rate;
        let lab = up(&config);
        let (sender, receiver) = (socket_on(&lab, "n0"), socket_on(&lab, "n3"));
        sender
            .send(BROADCAST, 1, 65_535, MsgFlags::empty())
            .expect("sending");
        let frame = receiver
            .receive(LIMIT)
            .map(|(_, payload_bytes, _)| payload_bytes);
        assert_eq!(frame, Some(65_535), "{story}");
        assert_eq!(
            sender.send(BROADCAST, 2, 65_536, MsgFlags::empty()),
            Err(Errno::EMSGSIZE),
            "{story}"
        );
    }
}

/// Long enough for any frame in flight on a busy machine.
const QUIET_SHORT: Duration = Duration::from_millis(300);
/// Position of the last byte of the number at the start of a frame.
const NUMBER_BYTE: usize = 17;

fn arriving(
    from: &FrameSocket,
    to: [u8; 6],
    at: &FrameSocket,
    frames: &[(u32, usize)],
) -> Vec<u32> {
    for &(number, payload_bytes) in frames {
        from.send(to, number, payload_bytes, MsgFlags::empty())
            .expect("sending");
    }
    at.receive_all(QUIET_SHORT)
        .into_iter()
        .map(|(number, ..)| number)
        .collect()
}

#[test]
fn a_fault_takes_the_frames_that_fit_it_in_its_direction_alone() {
    let lab = up(&two_switches("faults"));
    let [n0, n1, n3] = ["n0", "n1", "n3"].map(|host| socket_on(&lab, host));
    let frames = [(1, 100), (2, 100), (3, 1000)];
    let cases = [
        (
            LinkFault::arriving().byte(NUMBER_BYTE, &[1, 3]),
            vec![2],
            vec![1, 2, 3],
        ),
        (
            LinkFault::leaving().byte(NUMBER_BYTE, &[2]),
            vec![1, 2, 3],
            vec![1, 3],
        ),
        (
            LinkFault::arriving().longer_than(999),
            vec![1, 2],
            vec![1, 2, 3],
        ),
        (
            LinkFault::arriving().longer_than(1000),
            vec![1, 2, 3],
            vec![1, 2, 3],
        ),
        (
            LinkFault::leaving().longer_than(999),
            vec![1, 2, 3],
            vec![1, 2],
        ),
        (
            LinkFault::leaving().longer_than(1000),
            vec![1, 2, 3],
            vec![1, 2, 3],
        ),
        (
            LinkFault::arriving().multicast(),
            vec![1, 2, 3],
            vec![1, 2, 3],
        ),
        (LinkFault::arriving().unicast(), vec![], vec![1, 2, 3]),
        (LinkFault::leaving().unicast(), vec![1, 2, 3], vec![]),
        (
            LinkFault::arriving().fraction(0.0),
            vec![1, 2, 3],
            vec![1, 2, 3],
        ),
        (
            LinkFault::arriving().peer(lab.mac("n0").expect("an address")),
            vec![],
            vec![1, 2, 3],
        ),
        (
            LinkFault::arriving().peer(lab.mac("n1").expect("an address")),
            vec![1, 2, 3],
            vec![1, 2, 3],
        ),
        (
            LinkFault::leaving().peer(lab.mac("n0").expect("an address")),
            vec![1, 2, 3],
            vec![],
        ),
    ];
    for (fault, to, from) in cases {
        lab.set_faults("n3", std::slice::from_ref(&fault))
            .expect("nft takes it");
        assert_eq!(
            arriving(&n0, n3.mac(), &n3, &frames),
            to,
            "to n3: {fault:?}"
        );
        assert_eq!(
            arriving(&n3, n0.mac(), &n0, &frames),
            from,
            "from n3: {fault:?}"
        );
        let taken = 6 - to.len() - from.len();
        assert_eq!(
            lab.faulted_frames("n3").expect("counters"),
            taken as u64,
            "{fault:?}"
        );
    }
    let both = [LinkFault::arriving().multicast(), LinkFault::leaving()];
    lab.set_faults("n3", &both).expect("nft takes both");
    // Frames that the switches flooded before they knew where n3 is.
    n1.receive_all(QUIET_SHORT);
    assert_eq!(arriving(&n0, BROADCAST, &n3, &frames), [0; 0]);
    assert_eq!(
        n1.receive_all(QUIET_SHORT).len(),
        3,
        "another host hears all there was"
    );
    lab.set_faults("n3", &[]).expect("no more faults");
    assert_eq!(arriving(&n3, n0.mac(), &n0, &frames), [1, 2, 3]);
    assert_eq!(lab.faulted_frames("n3").expect("counters"), 0);
}

/// Panics unless one of some frames to a host arrives: a bridge forwards again a moment after a
/// port is back.
fn comes_through(from: &FrameSocket, to: &FrameSocket, at: &FrameSocket) {
    let came = (0..10).any(|_| arriving(from, to.mac(), at, &[(1, 100)]) == [1]);
    assert!(came, "nothing comes through");
}

#[test]
fn a_port_and_an_interface_go_down_and_come_back() {
    let lab = up(&two_switches("ports"));
    let [n0, n3] = ["n0", "n3"].map(|host| socket_on(&lab, host));
    let one = [(1, 100)];
    lab.set_port("n3", false).expect("down");
    assert_eq!(arriving(&n0, n3.mac(), &n3, &one), [0; 0]);
    lab.set_port("n3", true).expect("up");
    comes_through(&n0, &n3, &n3);
    lab.set_link("n3", false).expect("down");
    n0.send(n3.mac(), 2, 100, MsgFlags::empty())
        .expect("sending");
    lab.set_link("n3", true).expect("up");
    // The socket reports that its interface was down before it returns the next frame.
    let again = socket_on(&lab, "n3");
    comes_through(&n0, &n3, &again);
}
