//! Two hosts on one switch.

use anyhow::Context;
use ethbcast_lab::{Lab, LabGuard};
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::Interface;

use crate::cluster::{INTERFACE, bring_up};

/// Two hosts on one switch, taken down on drop.
#[derive(Debug)]
pub struct Hop {
    lab: LabGuard,
    hosts: [String; 2],
    macs: [MacAddr; 2],
}

impl Hop {
    /// Brings them up.
    ///
    /// # Errors
    /// Fails without root, or if the lab does not come up.
    pub fn up(bench: &str) -> anyhow::Result<Self> {
        let lab = bring_up(bench, 2, None)?;
        let hosts: [String; 2] = lab.hosts().try_into().ok().context("the lab has two hosts")?;
        let mac = |host: &str| anyhow::Ok(lab.run_on(host, || Interface::find(Some(INTERFACE)))??.mac);
        let macs = [mac(&hosts[0])?, mac(&hosts[1])?];
        Ok(Self { lab, hosts, macs })
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the address of host 0 or 1.
    pub fn mac(&self, host: usize) -> MacAddr {
        self.macs[host]
    }

    /// Runs `work` on host 0 or 1, on a thread of its own. Sockets opened there stay on that host.
    ///
    /// # Errors
    /// Fails if the host cannot be entered, or if `work` does.
    pub fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        self.lab.run_on(&self.hosts[host], work)?
    }

    /// Opens something on each host.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_both<T: Send>(&self, open: impl Fn(usize) -> anyhow::Result<T> + Sync) -> anyhow::Result<[T; 2]> {
        Ok([self.on(0, || open(0))?, self.on(1, || open(1))?])
    }
}
