//! The benchmark's test network: hosts (network namespaces) on one switch, with IPv4 for other
//! tools. It also measures raw AF_PACKET frames without a protocol: no transport with
//! acknowledgements, checks and files can be faster.

use std::ops::ControlFlow;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant as Moment};

use anyhow::{Context, bail};
use ethbcast_lab::{Lab, LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
use ethbcast_transport::wire::{ETHERNET_BYTES, EtherType, HEADER_BYTES};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use nix::unistd::Uid;

pub const INTERFACE: &str = "eth0";

/// Brings up `hosts` hosts on one switch, named after the bench and this process.
pub fn bring_up(
    bench: &str,
    hosts: usize,
    rate_bits_per_second: Option<u64>,
) -> anyhow::Result<LabGuard> {
    let topology = Topology::single_switch((0..hosts).map(|host| format!("n{host}")))?;
    let name = format!("{bench}{}", std::process::id());
    bring_up_as(LabConfig {
        name,
        rate_bits_per_second,
        ..LabConfig::new(topology)
    })
}

pub fn bring_up_as(config: LabConfig) -> anyhow::Result<LabGuard> {
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this bench with `sudo -E`");
    }
    LabGuard::up(&config).context("bringing up the lab")
}

pub(crate) fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 1)
}

pub fn give_addresses(lab: &Lab) -> anyhow::Result<()> {
    for (number, name) in lab.hosts().iter().enumerate() {
        let address = format!("{}/24", address(number));
        ip(
            lab,
            name,
            &[
                "address",
                "add",
                &address,
                "broadcast",
                "+",
                "dev",
                INTERFACE,
            ],
        )?;
        ip(
            lab,
            name,
            &["route", "add", "224.0.0.0/4", "dev", INTERFACE],
        )?;
    }
    Ok(())
}

/// Limits TCP to frames of the MTU's size, unlike the segments of up to 64 KiB that veth carries
/// and Ethernet does not.
pub fn cut_segments(lab: &Lab) -> anyhow::Result<()> {
    lab.hosts().iter().try_for_each(|host| {
        ip(
            lab,
            host,
            &["link", "set", "dev", INTERFACE, "gso_max_segs", "1"],
        )
    })
}

/// Switches TCP's and UDP's offloads on or off. Without them, frames are those of a real cable.
pub fn set_offloads(lab: &Lab, on: bool) -> anyhow::Result<()> {
    let word = if on { "on" } else { "off" };
    let (tso, uso) = ("tso", "tx-udp-segmentation");
    let arguments = [
        "-K", INTERFACE, tso, word, uso, word, "gso", word, "gro", word,
    ];
    lab.hosts()
        .iter()
        .try_for_each(|host| on_host(lab, host, "ethtool", &arguments))
}

pub fn received_bytes(lab: &Lab) -> anyhow::Result<Vec<u64>> {
    let receivers = lab.hosts().into_iter().skip(1);
    receivers
        .map(|host| {
            Ok(lab
                .counters(&host)
                .context("reading a host's counters")?
                .received_bytes)
        })
        .collect()
}

pub fn set_loss(lab: &Lab, fraction: f64) -> anyhow::Result<()> {
    lab.hosts()
        .iter()
        .try_for_each(|host| lab.set_loss(host, fraction))
        .context("setting the loss")
}

fn ip(lab: &Lab, host: &str, arguments: &[&str]) -> anyhow::Result<()> {
    on_host(lab, host, "ip", arguments)
}

fn on_host(lab: &Lab, host: &str, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = lab
        .command(host, program)?
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!(
            "`{program} {}` failed on {host}: {}",
            arguments.join(" "),
            said.trim()
        );
    }
    Ok(())
}

/// A local experimental EtherType (IEEE 802), different from the tool's.
const ETHER_TYPE: EtherType = EtherType::new(0x88b6);
const GROUP: MacAddr = MacAddr::new(0x03, 0xeb, 0xca, 0x57, 0xbe, 0x4c);
const WARM_UP: Duration = Duration::from_millis(150);
/// Limit on frames that a relay has yet to forward: the capacity of a ring at MTU 1500.
const MAX_OWED: u64 = 5000;

/// Goodput of raw frames to each receiver, in bits per second, with as much payload as our frames
/// have: the slowest receiver's if the switch copies one frame for all, and the last one's if hosts
/// forward to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    pub broadcast_bits_per_second: f64,
    pub chain_bits_per_second: f64,
}

pub fn measure_raw(lab: &Lab, mtu_bytes: u32, time: Duration) -> anyhow::Result<Ceiling> {
    let bits = f64::from(mtu_bytes - HEADER_BYTES as u32) * 8.0;
    let hosts = lab.hosts().len();
    let to_all = received(lab, mtu_bytes, time, &|host| (host == 0).then_some(GROUP))?;
    let addresses = (0..hosts)
        .map(|host| mac_of(lab, host))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let onwards = received(lab, mtu_bytes, time, &|host| {
        addresses.get(host + 1).copied()
    })?;
    let least = to_all[1..].iter().copied().fold(f64::INFINITY, f64::min);
    let last = onwards.last().copied().context("a lab has hosts")?;
    Ok(Ceiling {
        broadcast_bits_per_second: least * bits,
        chain_bits_per_second: last * bits,
    })
}

fn mac_of(lab: &Lab, host: usize) -> anyhow::Result<MacAddr> {
    Ok(lab
        .run_on(&lab.hosts()[host], || Interface::find(Some(INTERFACE)))??
        .mac)
}

/// Returns the frames per second at each host. Each host sends to the one that `next` names: the
/// first as fast as it can, the others a frame for each that arrives.
fn received(
    lab: &Lab,
    mtu_bytes: u32,
    time: Duration,
    next: &dyn Fn(usize) -> Option<MacAddr>,
) -> anyhow::Result<Vec<f64>> {
    let over = AtomicBool::new(false);
    let (mut ends, mut counts) = (Vec::new(), Vec::new());
    for (number, host) in lab.hosts().iter().enumerate() {
        let count = Arc::new(AtomicU64::new(0));
        let mac = mac_of(lab, number)?;
        // A frame to an address that the switch has not seen goes to all ports.
        let greeting = Some(frame(mac, GROUP, 46));
        let frame = next(number).map(|to| frame(mac, to, mtu_bytes));
        let machine = Passing {
            greeting,
            frame,
            is_source: number == 0,
            owed: 0,
            received: Arc::clone(&count),
        };
        let port = lab.run_on(host, open)??;
        counts.push(count);
        ends.push((port, machine, Waker::new()?));
    }
    let wakers: Vec<Waker> = ends.iter().map(|(.., waker)| waker.clone()).collect();
    let read = || {
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let run = |(port, machine, waker)| scope.spawn(|| run(port, machine, waker, &over));
        let running: Vec<_> = ends.into_iter().map(run).collect();
        thread::sleep(WARM_UP);
        let (began, before) = (Moment::now(), read());
        thread::sleep(time);
        let (seconds, after) = (began.elapsed().as_secs_f64(), read());
        over.store(true, Ordering::Release);
        wakers.iter().for_each(Waker::wake);
        for end in running {
            end.join().expect("a loop does not panic")?;
        }
        Ok(before
            .iter()
            .zip(after)
            .map(|(before, after)| (after - before) as f64 / seconds)
            .collect())
    })
}

fn open() -> anyhow::Result<Port> {
    let mut config = PortConfig::new(ETHER_TYPE);
    config.group = Some(GROUP);
    Ok(Port::open(&Interface::find(Some(INTERFACE))?, config)?)
}

fn run(
    mut port: Port,
    mut machine: Passing,
    waker: Waker,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    drive(
        &mut port,
        &mut machine,
        &waker,
        &Clock::start(),
        |machine, _| match over.load(Ordering::Acquire) {
            true => {
                (machine.is_source, machine.owed) = (false, 0);
                ControlFlow::Break(())
            }
            false => ControlFlow::Continue(()),
        },
    )
    .context("moving raw frames")
}

fn frame(from: MacAddr, to: MacAddr, mtu_bytes: u32) -> Vec<u8> {
    let mut frame = [&to.octets()[..], &from.octets(), &ETHER_TYPE.octets()].concat();
    frame.resize(ETHERNET_BYTES + mtu_bytes as usize, 0x5a);
    frame
}

struct Passing {
    /// First frame, by which the switch learns this host's port.
    greeting: Option<Vec<u8>>,
    frame: Option<Vec<u8>>,
    is_source: bool,
    owed: u64,
    received: Arc<AtomicU64>,
}

impl Machine for Passing {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        // This is the only writer: a plain store avoids a locked addition.
        self.received
            .store(self.received.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.owed = (self.owed + 1).min(MAX_OWED);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(greeting) = self.greeting.take() {
            buffer[..greeting.len()].copy_from_slice(&greeting);
            return Some(greeting.len());
        }
        let frame = self
            .frame
            .as_ref()
            .filter(|_| self.is_source || self.owed > 0)?;
        buffer[..frame.len()].copy_from_slice(frame);
        self.owed = self.owed.saturating_sub(1);
        Some(frame.len())
    }

    fn poll_timeout(&self, _: Instant) -> Option<Deadline> {
        None
    }
}
