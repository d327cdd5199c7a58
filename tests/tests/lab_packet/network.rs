//! Two hosts for one test: network namespaces, each with one end of a veth called `eth0`.

use ethbcast_tests::lab::{LIMIT, Run, process_name, require_root};
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::{Interface, Port, PortConfig};
use ethbcast_transport::wire::EtherType;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

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
        run(&format!("ip link add eth0 netns {a} mtu {mtu_bytes} type veth peer name eth0 netns {b} mtu {mtu_bytes}"));
        run(&format!("ip -n {a} link set eth0 up"));
        run(&format!("ip -n {b} link set eth0 up"));
        cable
    }

    pub fn on<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        let path = format!("/run/netns/{}", self.hosts[host]);
        let inside = move || {
            let namespace = File::open(&path).expect("the namespace was made");
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().expect("the work in the namespace succeeds"))
    }

    pub fn command(&self, host: usize, command: &str) {
        run(&format!("ip netns exec {} {command}", self.hosts[host]));
    }

    /// Recreates it after its removal, with these addresses (and other `ip link` arguments) at its
    /// ends.
    pub fn lay_again(&self, end_a: &str, end_b: &str) {
        let [a, b] = &self.hosts;
        run(&format!("ip link add eth0 netns {a} address {end_a} type veth peer name eth0 netns {b} address {end_b}"));
        self.hosts.iter().for_each(|host| run(&format!("ip -n {host} link set eth0 up")));
    }

    pub fn shape(&self, rate: &str, burst: &str, limit: &str) {
        self.command(0, &format!("tc qdisc add dev eth0 root tbf rate {rate} burst {burst} limit {limit}"));
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

fn run(command: &str) {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().expect("a command has a first word"));
    command.args(words);
    Run::to_end(command, LIMIT).assert_code(0);
}
