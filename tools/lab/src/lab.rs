//! A running test network: its hosts, commands run on them, and changes to their cables.

use std::ops::Deref;
use std::process::Command;
use std::time::Instant;

use ethbcast_planning::natural_order;

use crate::config::{LabConfig, check_lab_name, check_loss};
use crate::counters;
use crate::counters::HostCounters;
use crate::detour::{self, Detour};
use crate::down::{Removed, take_down};
use crate::error::LabError;
use crate::faults::{self, Cable, LinkFault};
use crate::names::{HOST_INTERFACE, SWITCHES, namespace_of};
use crate::netns::{inside, lab_namespaces, members_of, own_host};
use crate::program::require_root;
use crate::script::lose_instead;
use crate::up::{bring_up, set_loss};

/// A cluster of network namespaces that is up. Dropping it leaves the lab up, unlike [`LabGuard`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    name: String,
    hosts: Vec<String>,
}

impl Lab {
    /// Brings a lab up; 32 hosts take a fraction of a second.
    ///
    /// SIGINT, SIGTERM and SIGHUP on the calling thread are deferred until the lab is up or has
    /// been removed again.
    ///
    /// # Errors
    /// Any [`LabError`]; nothing of the lab is left then.
    pub fn up(config: &LabConfig) -> Result<Self, LabError> {
        bring_up(config)?;
        let mut hosts = config.topology.hosts().to_vec();
        hosts.sort_by(|left, right| natural_order(left, right));
        Ok(Self { name: config.name.clone(), hosts })
    }

    /// Finds a lab by its name, whichever process has brought it up.
    ///
    /// # Errors
    /// [`LabError::BadLabName`], [`LabError::NoSuchLab`]; [`LabError::Incomplete`] after a crash.
    pub fn open(name: &str) -> Result<Self, LabError> {
        check_lab_name(name)?;
        let mut hosts = members_of(name)?;
        if hosts.is_empty() {
            return Err(LabError::NoSuchLab { name: name.to_owned(), running: Self::list()? });
        }
        let members = hosts.len();
        hosts.retain(|host| host != SWITCHES);
        if hosts.is_empty() || hosts.len() == members {
            return Err(LabError::Incomplete(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), hosts })
    }

    /// Returns the host on which this process runs, by its network namespace; `None` outside of
    /// labs.
    pub fn own_host() -> Option<String> {
        own_host()
    }

    /// Returns the names of all labs, complete or not, in natural order.
    ///
    /// # Errors
    /// [`LabError::System`] if the namespaces cannot be listed.
    pub fn list() -> Result<Vec<String>, LabError> {
        let mut names: Vec<_> = lab_namespaces()?.into_iter().map(|(lab, _)| lab).collect();
        names.dedup();
        Ok(names)
    }

    /// Removes the lab of that name, or what a crash left of it, and ends the processes inside. It
    /// succeeds if there is none.
    ///
    /// # Errors
    /// [`LabError::BadLabName`], [`LabError::NotRoot`] if something must be removed,
    /// [`LabError::ProcessesRemain`], [`LabError::NamespacesRemain`].
    pub fn remove(name: &str) -> Result<Removed, LabError> {
        take_down(name)
    }

    pub fn down(self) -> Result<Removed, LabError> {
        take_down(&self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hosts in natural order of their names (`n2` before `n10`).
    pub fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }

    pub fn namespace(&self, host: &str) -> Result<String, LabError> {
        if self.hosts.iter().any(|known| known == host) {
            Ok(namespace_of(&self.name, host))
        } else {
            Err(LabError::NoSuchHost { lab: self.name.clone(), host: host.to_owned(), hosts: self.hosts.clone() })
        }
    }

    /// Returns the network namespace of all switches and their ports. The alias of a port
    /// names the other end of its cable.
    pub fn switches_namespace(&self) -> String {
        namespace_of(&self.name, SWITCHES)
    }

    /// Returns a command that runs `program` on a host. The caller adds arguments, streams and
    /// environment.
    ///
    /// `ip netns exec` enters the namespace and becomes the program: process id and exit status are
    /// the program's. The hosts of a lab share one hostname, so `$ETHBCAST_HOST` names the host to
    /// the program. With `$ETHBCAST_NO_KEY` this machine's own key decides nothing in a lab.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`], [`LabError::NotRoot`].
    pub fn command(&self, host: &str, program: &str) -> Result<Command, LabError> {
        let namespace = self.namespace(host)?;
        require_root()?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, program]).env("ETHBCAST_HOST", host).env("ETHBCAST_NO_KEY", "1");
        Ok(command)
    }

    /// Runs `work` on a thread inside a host's namespace and returns its result. Sockets it opens
    /// stay there.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`]; [`LabError::System`] if the namespace cannot be entered.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn run_on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        inside(&self.namespace(host)?, work)
    }

    /// Sets the fraction of arriving frames that a host loses, in place of its earlier loss.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`], [`LabError::BadLoss`] or a failure of `nft`.
    pub fn set_loss(&self, host: &str, fraction: f64) -> Result<(), LabError> {
        check_loss(fraction)?;
        self.run_on(host, || set_loss(&lose_instead(fraction)))?
    }

    /// Sets the faults of a host's cable in place of its earlier ones; `&[]` for none. The loss of
    /// [`Lab::set_loss`] stays.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `nft`.
    pub fn set_faults(&self, host: &str, faults: &[LinkFault]) -> Result<(), LabError> {
        self.cable_of(host)?.set(faults)
    }

    /// Returns the number of frames that a host's faults have dropped since they were set. A test
    /// with 0 has tested nothing.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure to read the counters.
    pub fn faulted_frames(&self, host: &str) -> Result<u64, LabError> {
        self.cable_of(host)?.taken_frames()
    }

    fn cable_of(&self, host: &str) -> Result<Cable, LabError> {
        Cable::find(host, self.namespace(host)?, self.switches_namespace())
    }

    pub fn mac(&self, host: &str) -> Result<String, LabError> {
        self.run_on(host, faults::mac)?
    }

    /// Sets a host's interface up or down administratively. Its sockets get `ENETDOWN`.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `ip`.
    pub fn set_link(&self, host: &str, up: bool) -> Result<(), LabError> {
        self.run_on(host, || faults::switch(HOST_INTERFACE, up))?
    }

    /// Sets a host's switch port up or down. The host loses its carrier, and its interface stays
    /// up.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `ip`.
    pub fn set_port(&self, host: &str, up: bool) -> Result<(), LabError> {
        self.namespace(host)?;
        inside(&self.switches_namespace(), || faults::switch(&faults::port_to(host)?, up))?
    }

    /// Leads a host's cable through a program, which must forward frames between the two returned
    /// interfaces in the switches' namespace ([`Lab::run_at_switches`]). The program sees leaving
    /// frames before the faults of [`Lab::set_faults`] apply.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `ip`.
    ///
    /// # Panics
    /// If the cable has a detour already.
    pub fn detour(&self, host: &str) -> Result<Detour, LabError> {
        self.namespace(host)?;
        self.run_at_switches(|| detour::lead(host))?
    }

    /// Switches address learning at a host's switch port on or off. Without it, a host that uses
    /// others' addresses does not attract their frames.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `ip`.
    pub fn set_learning(&self, host: &str, on: bool) -> Result<(), LabError> {
        self.namespace(host)?;
        self.run_at_switches(|| detour::set_learning(host, on))?
    }

    /// Runs `work` on a thread in the switches' namespace and returns its result.
    ///
    /// # Errors
    /// [`LabError::System`] if the namespace cannot be entered.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn run_at_switches<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        inside(&self.switches_namespace(), work)
    }

    /// Returns the bytes that a host has sent, and the time of reading. It runs no program, unlike
    /// [`Lab::counters`], and is cheap enough for every few milliseconds.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure to read the counters.
    pub fn sent_bytes(&self, host: &str) -> Result<(u64, Instant), LabError> {
        self.run_on(host, || Ok((counters::read_interface()?.sent_bytes, Instant::now())))?
    }

    /// Returns the counters of a host's cable. It runs `nft` once, which takes a few milliseconds.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure to read the counters.
    pub fn counters(&self, host: &str) -> Result<HostCounters, LabError> {
        self.run_on(host, counters::read)?
    }
}

/// A lab that is removed on drop, also when a test panics.
#[derive(Debug)]
pub struct LabGuard {
    lab: Lab,
}

impl LabGuard {
    pub fn up(config: &LabConfig) -> Result<Self, LabError> {
        Lab::up(config).map(Self::from)
    }
}

impl From<Lab> for LabGuard {
    fn from(lab: Lab) -> Self {
        Self { lab }
    }
}

impl Deref for LabGuard {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl Drop for LabGuard {
    fn drop(&mut self) {
        if let Err(error) = take_down(&self.lab.name) {
            log::error!("taking down the lab `{}`: {error}", self.lab.name);
        }
    }
}
