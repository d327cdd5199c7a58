//! The lab of a bench: hosts on one switch and, for tools that need it, IPv4.

use std::process::Stdio;

use anyhow::{Context, bail};
use ethbcast_lab::{Lab, LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use nix::unistd::Uid;

/// Network interface of every lab host.
pub const INTERFACE: &str = "eth0";

/// Brings up `hosts` hosts on one switch, named after the bench and this process.
///
/// # Errors
/// Without root, or if the lab cannot be brought up.
pub fn bring_up(bench: &str, hosts: usize, rate_bits_per_second: Option<u64>) -> anyhow::Result<LabGuard> {
    let topology = Topology::single_switch((0..hosts).map(|host| format!("n{host}")))?;
    bring_up_named(format!("{bench}{}", std::process::id()), topology, rate_bits_per_second)
}

/// Brings up a lab of the given name and topology.
///
/// # Errors
/// Without root, or if the lab cannot be brought up.
pub fn bring_up_named(name: String, topology: Topology, rate_bits_per_second: Option<u64>) -> anyhow::Result<LabGuard> {
    bring_up_as(LabConfig { name, rate_bits_per_second, ..LabConfig::new(topology) })
}

/// Brings up a lab from its full configuration.
///
/// # Errors
/// Without root, or if the lab cannot be brought up.
pub fn bring_up_as(config: LabConfig) -> anyhow::Result<LabGuard> {
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this bench with `sudo -E`");
    }
    LabGuard::up(&config).context("bringing up the lab")
}

/// Returns the IPv4 address of a lab host, counted from 0.
pub(crate) fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 1)
}

/// Gives every host its IPv4 address and a multicast route.
///
/// # Errors
/// If `ip` fails on a host.
pub fn give_addresses(lab: &Lab) -> anyhow::Result<()> {
    for (number, name) in lab.hosts().iter().enumerate() {
        let address = format!("{}/24", address(number));
        ip(lab, name, &["address", "add", &address, "broadcast", "+", "dev", INTERFACE])?;
        ip(lab, name, &["route", "add", "224.0.0.0/4", "dev", INTERFACE])?;
    }
    Ok(())
}

/// Limits TCP to frames of the MTU's size, unlike the segments of up to 64 KiB that veth carries
/// and Ethernet does not.
///
/// # Errors
/// If `ip` fails on a host.
pub fn cut_segments(lab: &Lab) -> anyhow::Result<()> {
    lab.hosts().iter().try_for_each(|host| ip(lab, host, &["link", "set", "dev", INTERFACE, "gso_max_segs", "1"]))
}

/// Switches TCP offloads on or off. Without them, frames are those of a real cable.
///
/// # Errors
/// If `ethtool` fails on a host.
pub fn set_offloads(lab: &Lab, on: bool) -> anyhow::Result<()> {
    let word = if on { "on" } else { "off" };
    let arguments = ["-K", INTERFACE, "tso", word, "gso", word, "gro", word];
    lab.hosts().iter().try_for_each(|host| on_host(lab, host, "ethtool", &arguments))
}

/// Sets the fraction of arriving frames that every host loses, the sender included.
///
/// # Errors
/// If a host's loss cannot be set.
pub fn set_loss(lab: &Lab, fraction: f64) -> anyhow::Result<()> {
    lab.hosts().iter().try_for_each(|host| lab.set_loss(host, fraction)).context("setting the loss")
}

fn ip(lab: &Lab, host: &str, arguments: &[&str]) -> anyhow::Result<()> {
    on_host(lab, host, "ip", arguments)
}

fn on_host(lab: &Lab, host: &str, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = lab.command(host, program)?.args(arguments).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{program} {}` failed on {host}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}
