//! Programs that ranks of a communicator run together, under the simulator: described, run, checked and priced.

mod cohort;
mod play;
mod process;
mod told;

pub use cohort::{Cohort, NodePlay};
pub use play::{Play, play};
pub use process::{Process, content};
pub use told::Told;

use ethbcast_collectives::communicator::{Config, Preset};
use ethbcast_collectives::session::Station;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Cable, HostSettings, Network, SwitchId, SwitchSettings, host_mac};
use ethbcast_transport::wire::{EtherType, group_mac};
use std::time::Duration;

/// The group of all simulated communicators.
pub const GROUP: &str = "simulated";

/// A step of a rank's program. Programs are equal for all ranks unless a test wants otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A broadcast from one rank to all.
    Broadcast {
        root: u16,
        bytes: usize,
    },
    Barrier,
    /// A block to each rank from one.
    Scatter {
        root: u16,
        bytes: usize,
    },
    /// A block from each rank to one.
    Gather {
        root: u16,
        bytes: usize,
    },
    /// A block from each rank to all.
    Allgather {
        bytes: usize,
    },
    /// A message: its sender goes on at once, its receiver waits for it, the others do nothing.
    Message {
        from: u16,
        to: u16,
        tag: u32,
        bytes: usize,
    },
    /// A computation of this duration.
    Compute(Duration),
    /// A wait until the messages this rank has sent have arrived.
    Settle,
}

/// A communicator to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    pub programs: Vec<Vec<Step>>,
    /// Number of ranks configured at each process.
    pub sizes: Vec<u16>,
    pub starts: Vec<Duration>,
    /// The name of each host.
    pub names: Vec<String>,
    /// The MTU of each host, in bytes.
    pub mtus: Vec<u16>,
    pub preset: Preset,
    /// Network configuration of each process.
    pub told: Vec<Told>,
    /// Switches with the hosts by number; one switch if `None`.
    pub wiring: Option<Topology>,
    /// Measured costs of the network, configured at all processes.
    pub calibration: Option<Calibration>,
    /// Time that a process waits for the others, and a call for progress.
    pub patience: Duration,
    /// Hosts that die, with the moment.
    pub crashes: Vec<(usize, Duration)>,
    /// Rate of every cable, in bits per second.
    pub rate_bits_per_second: u64,
    /// Bytes that an idle cable passes at once.
    pub burst_bytes: u64,
    /// Whether ranks leave at the end of their programs; otherwise the run ends when all programs
    /// have.
    pub leave: bool,
}

impl Case {
    /// Creates `ranks` processes that start at once and run `program`.
    pub fn new(ranks: u16, program: &[Step]) -> Case {
        let hosts = usize::from(ranks);
        Case {
            programs: vec![program.to_vec(); hosts],
            sizes: vec![ranks; hosts],
            starts: vec![Duration::ZERO; hosts],
            names: (0..hosts).map(|host| format!("n{host}")).collect(),
            mtus: vec![576; hosts],
            preset: Preset::Default,
            told: vec![Told::default(); hosts],
            wiring: None,
            calibration: None,
            patience: Duration::from_secs(20),
            crashes: Vec::new(),
            rate_bits_per_second: 1_000_000_000,
            burst_bytes: 0,
            leave: true,
        }
    }

    fn config(&self, host: usize, seed: u64) -> Config {
        let station = Station {
            host: self.names[host].clone(),
            group: GROUP.to_owned(),
            mac: host_mac(host),
            group_mac: group_mac(GROUP),
            ether_type: EtherType::DEFAULT,
            mtu_bytes: self.mtus[host],
        };
        let Told { topology, route, casts, probe } = self.told[host].clone();
        let nonce = seed ^ (host as u64) << 32;
        Config {
            preset: self.preset,
            topology,
            calibration: self.calibration.clone(),
            route,
            casts,
            probe,
            join_by: Some(Instant::START + self.starts[host] + self.patience),
            // Small feeds, unless frames are full: their memory is allocated anew in each of tens
            // of thousands of runs.
            feed_bytes: if self.mtus[host] < 1500 { 0 } else { Config::FEED_BYTES },
            ..Config::new(station, self.sizes[host], nonce)
        }
    }

    /// Connects the hosts to their switches.
    pub fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 4096,
            nic_transmit_frames: 32,
            ..HostSettings::default()
        };
        let cable = Cable::new(self.rate_bits_per_second, Duration::from_micros(5)).with_burst_bytes(self.burst_bytes);
        let mtu_bytes = self.mtus.iter().copied().max().unwrap_or(1500);
        let network = match &self.wiring {
            None => Network::star(self.programs.len(), cable, &settings),
            Some(topology) => wired(topology, cable, &settings),
        };
        network.with_mtu_bytes(mtu_bytes.into())
    }
}

fn wired(topology: &Topology, cable: Cable, settings: &HostSettings) -> Network {
    let mut network = Network::new();
    let switches: Vec<SwitchId> =
        topology.switches().iter().map(|_| network.add_switch(SwitchSettings::default())).collect();
    for &(one, other) in topology.cables() {
        network.connect(switches[one], switches[other], cable).expect("a topology is a tree");
    }
    for host in 0..topology.hosts().len() {
        network.add_host(switches[topology.switch_of(host)], cable, settings.clone());
    }
    network
}
