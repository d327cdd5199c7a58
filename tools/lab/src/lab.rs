//! A lab that is up: which hosts it has, how to run things on them, how to make their cables worse.

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

/// A cluster of network namespaces that is up. Dropping it leaves it up; see [`LabGuard`] for the other wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    name: String,
    hosts: Vec<String>,
}

impl Lab {
    /// Brings a lab up; 32 hosts take a fraction of a second.
    ///
    /// SIGINT, SIGTERM and SIGHUP on the calling thread wait until the lab is up or, cut short, is gone again.
    ///
    /// # Errors
    /// Any [`LabError`]; nothing of the lab is left then.
    pub fn up(config: &LabConfig) -> Result<Self, LabError> {
        bring_up(config)?;
        let mut hosts = config.topology.hosts().to_vec();
        hosts.sort_by(|left, right| natural_order(left, right));
        Ok(Self { name: config.name.clone(), hosts })
    }

    /// Finds the lab of that name, which this or another process has brought up.
    ///
    /// # Errors
    /// [`LabError::BadLabName`], [`LabError::NoSuchLab`]; [`LabError::Incomplete`] for what a crash left of one.
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

    /// The host of a lab that this process runs on, by the network namespace it was started in; `None` outside of labs.
    pub fn own_host() -> Option<String> {
        own_host()
    }

    /// The names of all labs that are up, whole or in pieces, in natural order.
    ///
    /// # Errors
    /// [`LabError::System`] if the namespaces cannot be listed.
    pub fn list() -> Result<Vec<String>, LabError> {
        let mut names: Vec<_> = lab_namespaces()?.into_iter().map(|(lab, _)| lab).collect();
        names.dedup();
        Ok(names)
    }

    /// Takes down the lab of that name, or what a crash left of it; ends the processes inside. Nothing to do is no
    /// error.
    ///
    /// # Errors
    /// [`LabError::BadLabName`], [`LabError::NotRoot`] if there is something to do, [`LabError::ProcessesRemain`],
    /// [`LabError::NamespacesRemain`].
    pub fn remove(name: &str) -> Result<Removed, LabError> {
        take_down(name)
    }

    /// Takes this lab down.
    ///
    /// # Errors
    /// As [`Lab::remove`].
    pub fn down(self) -> Result<Removed, LabError> {
        take_down(&self.name)
    }

    /// What the lab is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hosts in natural order of their names (`n2` before `n10`), the same for who brought the lab up and who found
    /// it.
    pub fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// The network namespace that is this host, as `ip netns` knows it.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`].
    pub fn namespace(&self, host: &str) -> Result<String, LabError> {
        if self.hosts.iter().any(|known| known == host) {
            Ok(namespace_of(&self.name, host))
        } else {
            Err(LabError::NoSuchHost { lab: self.name.clone(), host: host.to_owned(), hosts: self.hosts.clone() })
        }
    }

    /// The network namespace that holds all switches and their ports; a port's alias says where its cable goes.
    pub fn switches_namespace(&self) -> String {
        namespace_of(&self.name, SWITCHES)
    }

    /// A command that runs `program` on a host. Add arguments, streams and environment, then start it as any other.
    ///
    /// `ip netns exec` steps inside and becomes the program: the child's process id and exit status are the program's.
    /// The hosts of a lab share one hostname, so `$ETHBCAST_HOST` tells the program on which of them it is.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`], [`LabError::NotRoot`].
    pub fn command(&self, host: &str, program: &str) -> Result<Command, LabError> {
        let namespace = self.namespace(host)?;
        require_root()?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, program]).env("ETHBCAST_HOST", host);
        Ok(command)
    }

    /// Runs `work` on a thread that has stepped onto a host, and returns what it returns. Sockets it opens stay there.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`]; [`LabError::System`] if the namespace cannot be entered.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn run_on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        inside(&self.namespace(host)?, work)
    }

    /// Makes a host lose this fraction of the frames that reach it, in place of what it lost before; 0 for none.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`], [`LabError::BadLoss`] or what keeps `nft` from doing so.
    pub fn set_loss(&self, host: &str, fraction: f64) -> Result<(), LabError> {
        check_loss(fraction)?;
        self.run_on(host, || set_loss(&lose_instead(fraction)))?
    }

    /// Makes a host lose the frames that one of these faults says, in place of the faults it had; `&[]` for none. What
    /// [`Lab::set_loss`] has set stays.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `nft` from doing so.
    pub fn set_faults(&self, host: &str, faults: &[LinkFault]) -> Result<(), LabError> {
        self.cable_of(host)?.set(faults)
    }

    /// How many frames a host's faults have taken since they were set: with 0, a test of them has tested nothing.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps the counters from being read.
    pub fn faulted_frames(&self, host: &str) -> Result<u64, LabError> {
        self.cable_of(host)?.taken_frames()
    }

    fn cable_of(&self, host: &str) -> Result<Cable, LabError> {
        Cable::find(host, self.namespace(host)?, self.switches_namespace())
    }

    /// The Ethernet address of a host, for [`LinkFault::peer`].
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `ip` from saying it.
    pub fn mac(&self, host: &str) -> Result<String, LabError> {
        self.run_on(host, faults::mac)?
    }

    /// Switches a host's interface on or off, as its administrator does: its sockets are told (`ENETDOWN`).
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `ip` from doing so.
    pub fn set_link(&self, host: &str, up: bool) -> Result<(), LabError> {
        self.run_on(host, || faults::switch(HOST_INTERFACE, up))?
    }

    /// Switches the port of a host at its switch on or off: the host loses its carrier, and the interface stays up.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `ip` from doing so.
    pub fn set_port(&self, host: &str, up: bool) -> Result<(), LabError> {
        self.namespace(host)?;
        inside(&self.switches_namespace(), || faults::switch(&faults::port_to(host)?, up))?
    }

    /// Leads a host's cable past a program: between the two interfaces that are returned, in the switches' namespace
    /// ([`Lab::run_at_switches`]), nothing moves but what somebody carries. Faults of frames that leave the host
    /// ([`Lab::set_faults`]) have no effect on what that program sees.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `ip` from doing so.
    ///
    /// # Panics
    /// If it is led past one already.
    pub fn detour(&self, host: &str) -> Result<Detour, LabError> {
        self.namespace(host)?;
        self.run_at_switches(|| detour::lead(host))?
    }

    /// Lets the switch of a host learn which addresses are behind its port, which is the usual, or not: then a host
    /// that borrows addresses does not draw their frames away from whom they belong to.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps `ip` from doing so.
    pub fn set_learning(&self, host: &str, on: bool) -> Result<(), LabError> {
        self.namespace(host)?;
        self.run_at_switches(|| detour::set_learning(host, on))?
    }

    /// As [`Lab::run_on`], among the switches.
    ///
    /// # Errors
    /// [`LabError::System`] if the namespace cannot be entered.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn run_at_switches<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        inside(&self.switches_namespace(), work)
    }

    /// The bytes a host has put on its cable, and when that was read. Without the other counters of [`Lab::counters`],
    /// which need a program, it is cheap enough to be asked every few milliseconds.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps the counters from being read.
    pub fn sent_bytes(&self, host: &str) -> Result<(u64, Instant), LabError> {
        self.run_on(host, || Ok((counters::read_interface()?.sent_bytes, Instant::now())))?
    }

    /// What has gone over a host's cable so far; costs one run of `nft`, a few milliseconds.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or what keeps the counters from being read.
    pub fn counters(&self, host: &str) -> Result<HostCounters, LabError> {
        self.run_on(host, counters::read)?
    }
}

/// A lab that is taken down when this is dropped, also when a test panics.
#[derive(Debug)]
pub struct LabGuard {
    lab: Lab,
}

impl LabGuard {
    /// Brings a lab up for as long as the guard lives.
    ///
    /// # Errors
    /// As [`Lab::up`].
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
