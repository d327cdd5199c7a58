//! Switches, cables and cards of a schedule.

use super::draw::Draw;
use super::host_set::HostSet;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{Cable, CableId, HostSettings, Network, QueueLimit, SwitchSettings};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Cluster {
    /// Each switch with the index of its parent in the tree; the first switch has none.
    pub switches: Vec<(SwitchSettings, usize)>,
    /// Bits per second of the cable from each switch to its parent; index 0 is unused.
    pub trunks: Vec<u64>,
    /// Each host: its switch, its cable's bits per second, its card and process.
    pub hosts: Vec<(usize, u64, HostSettings)>,
}

impl Cluster {
    pub fn draw(draw: &mut Draw, hosts: usize, small: bool) -> Cluster {
        let switches = if hosts > 2 && draw.chance(0.3) { draw.between(2, 4) as usize } else { 1 };
        // Status messages of a hundred hosts would fill a slow cable.
        let rate = draw.log(if small { 8 } else { 50 }, 1000) * 1_000_000;
        let least = if small { 2_000_000 } else { 20_000_000 };
        let mixed = draw.chance(0.2);
        let settings = HostSettings { nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
        let other = |draw: &mut Draw| if mixed && draw.chance(0.3) { rate / draw.between(2, 20) } else { rate };
        Cluster {
            switches: (0..switches).map(|at| (SwitchSettings::default(), draw.index(at.max(1)))).collect(),
            trunks: (0..switches).map(|_| other(draw).max(rate / 4).max(least)).collect(),
            hosts: (0..hosts).map(|_| (draw.index(switches), other(draw).max(least), settings.clone())).collect(),
        }
    }

    pub fn star(hosts: usize) -> Cluster {
        Cluster {
            switches: vec![(SwitchSettings::default(), 0)],
            trunks: vec![0],
            hosts: vec![(0, 100_000_000, HostSettings::default()); hosts],
        }
    }

    pub fn network(&self, mtu_bytes: u16) -> (Network, Vec<CableId>) {
        let mut network = Network::new().with_mtu_bytes(usize::from(mtu_bytes));
        let switches: Vec<_> = self.switches.iter().map(|(settings, _)| network.add_switch(*settings)).collect();
        let mut trunks = Vec::new();
        for (at, &(_, above)) in self.switches.iter().enumerate().skip(1) {
            let cable = Cable::new(self.trunks[at], Duration::from_micros(5));
            trunks.push(network.connect(switches[above], switches[at], cable).expect("switches form a tree"));
        }
        for (switch, rate, settings) in &self.hosts {
            network.add_host(switches[*switch], Cable::new(*rate, Duration::from_micros(5)), settings.clone());
        }
        (network, trunks)
    }

    pub fn behind(&self, switch: usize) -> HostSet {
        let below = |mut at: usize| loop {
            if at == switch {
                return true;
            }
            if at == 0 {
                return false;
            }
            at = self.switches[at].1;
        };
        self.hosts.iter().enumerate().filter(|(_, (at, ..))| below(*at)).map(|(host, _)| host).collect()
    }

    pub fn topology(&self, name: impl Fn(usize) -> Option<String>) -> Topology {
        let mut text = "schema = 1\n".to_owned();
        for at in 0..self.switches.len() {
            let own = self.hosts.iter().enumerate().filter(|(_, (switch, ..))| *switch == at);
            let hosts: Vec<String> = own.filter_map(|(host, _)| name(host)).collect();
            let below = self.switches.iter().enumerate().skip(1).filter(|(_, (_, above))| *above == at);
            let links: Vec<String> = below.map(|(switch, _)| format!("s{switch}")).collect();
            text += &format!("[[switch]]\nname = \"s{at}\"\nhosts = {hosts:?}\nlinks = {links:?}\n");
        }
        Topology::parse(&text, "the swarm").expect("switches form a tree, and names differ")
    }

    pub fn slowest(&self) -> u64 {
        let trunks = self.trunks.iter().skip(1).copied();
        self.hosts.iter().map(|(_, rate, _)| *rate).chain(trunks).min().unwrap_or(1_000_000)
    }

    pub fn shrink(&mut self, draw: &mut Draw) {
        for (_, _, settings) in &mut self.hosts {
            settings.nic_receive_frames = draw.log(4, 128) as usize;
            settings.nic_transmit_frames = draw.log(1, 32) as usize;
        }
        for (settings, _) in &mut self.switches {
            settings.port_queue = QueueLimit::Frames(draw.log(3, 64) as usize);
        }
    }
}
