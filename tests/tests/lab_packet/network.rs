//! Test helper: two hosts (network namespaces) joined by a veth pair, with scripted protocol
//! machines.

use ethbcast_tests::lab::{LIMIT, Run, process_name, require_root};
use ethbcast_transport::packet::{
    Clock, Interface, InterfaceError, OpenError, Port, PortConfig, Waker, drive,
};
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::{Deadline, Instant, Kept, Link, MacAddr, Machine, SplitFrame, Timer};
use nix::sched::{CloneFlags, setns};
use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const ETHER_TYPE: EtherType = EtherType::DEFAULT;
pub const GROUP: MacAddr = MacAddr::new(0x33, 0x0e, 0xb0, 0, 0, 1);

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

/// A cable between two hosts, removed with everything on it when dropped.
pub struct Cable {
    hosts: [String; 2],
}

impl Cable {
    pub fn lay(mtu_bytes: usize) -> Self {
        require_root();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let hosts = ["a", "b"].map(|end| format!("pkt{}-{number}{end}", process_name()));
        let cable = Cable { hosts };
        let [a, b] = &cable.hosts;
        run(&format!("ip netns add {a}"));
        run(&format!("ip netns add {b}"));
        run(&format!(
            "ip link add eth0 netns {a} mtu {mtu_bytes} type veth peer name eth0 netns {b} mtu {mtu_bytes}"
        ));
        cable.switch_on();
        cable
    }

    pub fn on<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        let path = format!("/run/netns/{}", self.hosts[host]);
        let inside = move || {
            let namespace = File::open(&path).expect("the namespace was made");
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
            work()
        };
        std::thread::scope(|scope| {
            scope
                .spawn(inside)
                .join()
                .expect("the work in the namespace succeeds")
        })
    }

    pub fn command(&self, host: usize, command: &str) {
        run(&format!("ip netns exec {} {command}", self.hosts[host]));
    }

    /// Recreates it after its removal, with these addresses (and other `ip link` arguments) at its
    /// ends.
    pub fn lay_again(&self, end_a: &str, end_b: &str) {
        let [a, b] = &self.hosts;
        run(&format!(
            "ip link add eth0 netns {a} address {end_a} type veth peer name eth0 netns {b} address {end_b}"
        ));
        self.switch_on();
    }

    /// Switches both ends on, and waits for the kernel: it drops frames until it has had time to.
    fn switch_on(&self) {
        self.hosts
            .iter()
            .for_each(|host| drop(run(&format!("ip -n {host} link set eth0 up"))));
        let begun = std::time::Instant::now();
        for host in &self.hosts {
            while !run(&format!("ip -n {host} link show eth0")).contains("state UP") {
                assert!(begun.elapsed() < LIMIT, "the link of {host} is not up");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    pub fn shape(&self, rate: &str, burst: &str, limit: &str) {
        self.command(
            0,
            &format!("tc qdisc add dev eth0 root tbf rate {rate} burst {burst} limit {limit}"),
        );
    }

    pub fn interface(&self, host: usize) -> Interface {
        self.on(host, || Interface::find(None).expect("eth0 is up"))
    }

    pub fn open(&self, host: usize, change: impl FnOnce(&mut PortConfig) + Send) -> Port {
        let mut config = PortConfig::new(ETHER_TYPE);
        config.group = Some(GROUP);
        change(&mut config);
        self.on(host, || {
            let interface = Interface::find(Some("eth0")).expect("eth0 is up");
            Port::open(&interface, config).expect("root may open a port")
        })
    }

    pub fn open_both(&self) -> (Port, Port) {
        (self.open(0, |_| {}), self.open(1, |_| {}))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in &self.hosts {
            // A failed test may have left only one of them.
            let _ = Command::new("ip").args(["netns", "del", host]).output();
        }
    }
}

fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().expect("a command has a first word"));
    command.args(words);
    let ended = Run::to_end(command, LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

/// Moment, by a loop's own clock, at which it gives up.
pub const GIVES_UP: Instant = Instant::from_nanos(60_000_000_000);

#[derive(Default)]
pub struct Script {
    pub outgoing: VecDeque<Vec<u8>>,
    pub received: Vec<Vec<u8>>,
    /// Fires then, and again every `period` if set.
    pub deadline: Option<Instant>,
    pub period: Option<Duration>,
    pub lateness: Vec<Duration>,
    pub urgent: bool,
}

impl Script {
    pub fn sending(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Script {
            outgoing: frames.into_iter().collect(),
            ..Script::default()
        }
    }
}

impl Machine for Script {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        self.received.push(frame.to_vec());
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(at) = self.deadline.filter(|&at| at <= now) {
            self.lateness.push(now.since(at));
            self.deadline = self.period.map(|period| now + period);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = self.outgoing.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        // A loop without other deadlines has a turn, too.
        let at = self.deadline.map_or(GIVES_UP, |at| at.min(GIVES_UP));
        Some(Deadline {
            at,
            why: Timer::HEARTBEAT,
        })
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

pub fn until(is_over: bool, now: Instant) -> ControlFlow<()> {
    if is_over || now >= GIVES_UP {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// A frame of the tests' EtherType from an arbitrary address; its payload is its number and then
/// zeros.
pub fn frame(to: MacAddr, number: u32, payload_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; payload_bytes];
    let digits = payload_bytes.min(4);
    payload[..digits].copy_from_slice(&number.to_be_bytes()[4 - digits..]);
    raw_frame(to, &ETHER_TYPE.octets(), &payload)
}

pub fn raw_frame(to: MacAddr, types: &[u8], payload: &[u8]) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0, 9];
    [&to.octets()[..], &from, types, payload].concat()
}

pub fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    let number =
        |frame: &Vec<u8>| u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
    frames.iter().map(number).collect()
}

pub fn send(port: &mut Port, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut script = Script::sending(frames);
    while port
        .transmit(Instant::START, &mut script)
        .expect("the interface is up")
        .frames
        > 0
    {}
    assert!(
        script.outgoing.is_empty(),
        "the kernel had no room for {} frames",
        script.outgoing.len()
    );
}

/// Idle time after which all frames have arrived, with a margin for a kernel that has other work.
const QUIET_MILLIS: u32 = 100;
/// Idle time after which no frame is expected at all.
const NOTHING_MILLIS: u32 = 1000;

pub fn collect(port: &mut Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut quiet = 0;
    while quiet
        < if frames.is_empty() {
            NOTHING_MILLIS
        } else {
            QUIET_MILLIS
        }
    {
        if port.receive(|frame| frames.push(frame.to_vec())) == 0 {
            std::thread::sleep(Duration::from_millis(1));
            quiet += 1;
        } else {
            quiet = 0;
        }
    }
    frames
}

fn refusal(cable: &Cable, name: Option<&str>) -> InterfaceError {
    cable
        .on(0, || Interface::find(name))
        .expect_err("there is nothing to find")
}

#[test]
fn inside_a_namespace_its_own_interface_is_found_by_name_and_alone() {
    let cable = Cable::lay(4000);
    let alone = cable.interface(0);
    assert_eq!((alone.name.as_str(), alone.mtu_bytes), ("eth0", 4000));
    assert_eq!(
        cable
            .on(0, || Interface::find(Some("eth0")))
            .expect("it is there"),
        alone
    );
    assert_ne!(cable.interface(1).mac, alone.mac);
}

#[test]
fn each_refusal_says_what_to_do_instead() {
    let cable = Cable::lay(1500);
    assert_eq!(
        refusal(&cable, Some("eth7")).to_string(),
        "there is no interface eth7: choose one of eth0 with interface"
    );
    assert!(matches!(
        refusal(&cable, Some("a-name-no-interface-can-have")),
        InterfaceError::Unknown { .. }
    ));
    assert_eq!(
        refusal(&cable, Some("lo")).to_string(),
        "interface lo is not an Ethernet interface: choose another with interface"
    );

    cable.command(0, "ip link add eth1 type veth peer name eth2");
    cable.command(0, "ip link set eth1 up");
    cable.command(0, "ip link set eth2 up");
    assert_eq!(
        refusal(&cable, None).to_string(),
        "several Ethernet interfaces are up (eth0, eth1, eth2): say which with interface"
    );

    cable.command(0, "ip link del eth1");
    cable.command(0, "ip link set eth0 down");
    assert_eq!(
        refusal(&cable, Some("eth0")).to_string(),
        "interface eth0 is down: bring it up with `ip link set eth0 up`"
    );
    assert_eq!(
        refusal(&cable, None).to_string(),
        "no Ethernet interface is up among eth0, lo: bring one up with `ip link set NAME up`"
    );
}

#[test]
fn an_interface_without_a_cable_does_not_make_the_choice_ambiguous() {
    let cable = Cable::lay(1500);
    cable.command(0, "ip link add eth1 type veth peer name eth2");
    cable.command(0, "ip link set eth1 up");
    assert_eq!(cable.interface(0).name, "eth0");
}

#[test]
fn an_interface_that_went_down_after_it_was_found_cannot_be_opened() {
    let cable = Cable::lay(1500);
    let found = cable.interface(0);
    cable.command(0, "ip link set eth0 down");
    let opened = cable.on(0, || {
        Port::open(&found, PortConfig::new(ETHER_TYPE)).map(drop)
    });
    assert!(matches!(opened, Err(OpenError::Down { .. })), "{opened:?}");
}

/// Number of payloads kept: as many as a link takes at a time.
const PLACES: usize = 64;
const PAYLOAD_BYTES: usize = 1496;

/// Sends numbered frames and keeps their payloads until it is called otherwise.
struct Keeper {
    to: MacAddr,
    next: u32,
    left: u32,
    payloads: Vec<[u8; PAYLOAD_BYTES]>,
}

impl Machine for Keeper {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        self.forget();
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.forget();
    }

    fn poll_transmit_split(&mut self, _: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        self.next += 1;
        self.payloads[number as usize % PLACES] = payload(number);
        let head = [
            &self.to.octets()[..],
            &[2, 0, 0, 0, 0, 9],
            &ETHER_TYPE.octets(),
            &number.to_be_bytes(),
        ]
        .concat();
        buffer[..head.len()].copy_from_slice(&head);
        let kept = Kept {
            stream: 1,
            sequence: number.into(),
            bytes: PAYLOAD_BYTES,
        };
        Some(SplitFrame {
            written_bytes: head.len(),
            kept: Some(kept),
        })
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        &self.payloads[kept.sequence as usize % PLACES]
    }

    fn poll_timeout(&self, _: Instant) -> Option<Deadline> {
        Some(Deadline {
            at: GIVES_UP,
            why: Timer::HEARTBEAT,
        })
    }
}

impl Keeper {
    fn new(to: MacAddr, frames: u32) -> Keeper {
        Keeper {
            to,
            next: 0,
            left: frames,
            payloads: vec![[0xee; PAYLOAD_BYTES]; PLACES],
        }
    }

    fn forget(&mut self) {
        self.payloads.fill([0xee; PAYLOAD_BYTES]);
    }
}

fn payload(number: u32) -> [u8; PAYLOAD_BYTES] {
    std::array::from_fn(|at| (number as usize * 31 + at * 7) as u8)
}

/// Sends `frames` frames through a shaped cable; returns how often the sender was blocked, and the
/// frames that arrived.
fn sent(frames: u32, shape: [&str; 3]) -> (u64, Vec<Vec<u8>>) {
    let cable = Cable::lay(1500);
    let [rate, burst, limit] = shape;
    cable.shape(rate, burst, limit);
    let (mut a, mut b) = cable.open_both();
    let mut keeper = Keeper::new(b.interface().mac, frames);
    let waker = Waker::new().expect("a descriptor is free");
    let ended = drive(
        &mut a,
        &mut keeper,
        &waker,
        &Clock::start(),
        |keeper, now| {
            keeper.forget();
            until(keeper.left == 0, now)
        },
    );
    ended.expect("the interface is up");
    assert_eq!(keeper.left, 0, "they never left");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let counters = a.counters();
    (
        counters.send_would_block + counters.send_no_buffers,
        collect(&mut b),
    )
}

/// The link copies unsent payloads when the loop goes on: the machine may change them.
#[test]
fn a_kept_payload_leaves_as_it_was_whoever_is_blocked() {
    for shape in [["50mbit", "16kb", "1mb"], ["50mbit", "4kb", "6kb"]] {
        let (held_up, mut frames) = sent(1000, shape);
        assert!(held_up > 0, "{shape:?}: nothing was left over");
        frames.sort();
        assert_eq!(numbers(&frames), (0..1000).collect::<Vec<_>>(), "{shape:?}");
        let wrong = frames
            .iter()
            .zip(0..)
            .filter(|(frame, number)| frame[18..] != payload(*number))
            .count();
        assert_eq!(wrong, 0, "{shape:?}");
    }
}
