//! A running test network (lab): its creation and removal, hosts, commands on them, cable faults,
//! and counters of a host's cable, which can also be led through a program.

use crate::config::{LabConfig, check_lab_name, check_loss};
use crate::error::LabError;
use crate::faults::{self, Cable, LinkFault, port_to};
use crate::names::{HOST_INTERFACE, SWITCHES, namespace_of};
use crate::netns::{end_all, inside, lab_namespaces, members_of, own_host};
use crate::program::{IP, InterruptsHeld, NFT, TC, batch, require_root, run};
use crate::script::{self, delete_namespaces, lose_instead, lost_frames};
use ethbcast_planning::natural_order;
use std::fs;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

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
        Ok(Self {
            name: config.name.clone(),
            hosts,
        })
    }

    /// Finds a lab by its name, whichever process has brought it up.
    ///
    /// # Errors
    /// [`LabError::BadLabName`], [`LabError::NoSuchLab`]; [`LabError::Incomplete`] after a crash.
    pub fn open(name: &str) -> Result<Self, LabError> {
        check_lab_name(name)?;
        let mut hosts = members_of(name)?;
        if hosts.is_empty() {
            return Err(LabError::NoSuchLab {
                name: name.to_owned(),
                running: Self::list()?,
            });
        }
        let members = hosts.len();
        hosts.retain(|host| host != SWITCHES);
        if hosts.is_empty() || hosts.len() == members {
            return Err(LabError::Incomplete(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            hosts,
        })
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
            Err(LabError::NoSuchHost {
                lab: self.name.clone(),
                host: host.to_owned(),
                hosts: self.hosts.clone(),
            })
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
        command
            .args(["netns", "exec", &namespace, program])
            .env("ETHBCAST_HOST", host)
            .env("ETHBCAST_NO_KEY", "1");
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
    pub fn run_on<T: Send>(
        &self,
        host: &str,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, LabError> {
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
        inside(&self.switches_namespace(), || {
            faults::switch(&faults::port_to(host)?, up)
        })?
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
        self.run_at_switches(|| lead(host))?
    }

    /// Switches address learning at a host's switch port on or off. Without it, a host that uses
    /// others' addresses does not attract their frames.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure of `ip`.
    pub fn set_learning(&self, host: &str, on: bool) -> Result<(), LabError> {
        self.namespace(host)?;
        self.run_at_switches(|| set_learning(host, on))?
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
        self.run_on(host, || Ok((read_interface()?.sent_bytes, Instant::now())))?
    }

    /// Returns the counters of a host's cable. It runs `nft` once, which takes a few milliseconds.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`] or a failure to read the counters.
    pub fn counters(&self, host: &str) -> Result<HostCounters, LabError> {
        self.run_on(host, read_counters)?
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

const NO_IPV6: [&str; 2] = [
    "/proc/sys/net/ipv6/conf/all/disable_ipv6",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6",
];

/// Keeps bridged frames out of iptables. (The files exist only with br_netfilter.)
const NO_FIREWALL: [&str; 3] = [
    "/proc/sys/net/bridge/bridge-nf-call-iptables",
    "/proc/sys/net/bridge/bridge-nf-call-ip6tables",
    "/proc/sys/net/bridge/bridge-nf-call-arptables",
];

pub(crate) fn bring_up(config: &LabConfig) -> Result<(), LabError> {
    config.check()?;
    require_root()?;
    let interrupts = InterruptsHeld::new()?;
    claim(config)?;
    // From here on the name is claimed and must be cleaned up.
    build(config, &interrupts).inspect_err(|_| {
        if let Err(error) = take_down(&config.name) {
            log::error!("cleaning up after a lab that did not come up: {error}");
        }
    })
}

/// Claims the lab's name by creating the switches' namespace, which only one of two concurrent
/// callers can.
fn claim(config: &LabConfig) -> Result<(), LabError> {
    let exists = || LabError::LabExists(config.name.clone());
    if !members_of(&config.name)?.is_empty() {
        return Err(exists());
    }
    let switches = namespace_of(&config.name, SWITCHES);
    match run(
        IP,
        &["netns", "add", &switches],
        "",
        "making the switches' namespace",
    ) {
        Ok(_) => Ok(()),
        Err(LabError::Tool { complaint, .. }) if complaint.contains("File exists") => Err(exists()),
        Err(other) => Err(other),
    }
}

fn build(config: &LabConfig, interrupts: &InterruptsHeld) -> Result<(), LabError> {
    let switches = namespace_of(&config.name, SWITCHES);
    let hosts = || {
        config
            .topology
            .hosts()
            .iter()
            .map(|host| namespace_of(&config.name, host))
    };
    batch(
        IP,
        &script::add_host_namespaces(config),
        "making the hosts' namespaces",
    )?;
    // Before any interface exists, so that none ever speaks IPv6.
    for namespace in hosts().chain([switches.clone()]) {
        interrupts.check()?;
        inside(&namespace, || keep_quiet(&namespace))??;
    }
    inside(&switches, || build_switches(config))??;
    for (host, namespace) in hosts().enumerate() {
        interrupts.check()?;
        inside(&namespace, || build_host(config, host))??;
    }
    interrupts.check()
}

fn keep_quiet(namespace: &str) -> Result<(), LabError> {
    let settings = NO_IPV6
        .iter()
        .map(|path| (path, "1"))
        .chain(NO_FIREWALL.iter().map(|path| (path, "0")));
    for (path, value) in settings {
        match fs::write(path, value) {
            // A kernel without the feature needs no change.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.map_err(|source| {
                LabError::system(format!("setting {path} in {namespace}"), source)
            })?,
        }
    }
    Ok(())
}

fn build_switches(config: &LabConfig) -> Result<(), LabError> {
    batch(IP, &script::wire(config), "wiring the lab")?;
    batch(
        TC,
        &script::shape_switches(config),
        "shaping the switches' ports",
    )
}

fn build_host(config: &LabConfig, host: usize) -> Result<(), LabError> {
    batch(
        IP,
        &script::host_links_up(),
        "switching a host's interfaces on",
    )?;
    batch(
        TC,
        &script::shape_host(config, host),
        "shaping a host's cable",
    )?;
    if config.loss > 0.0 {
        set_loss(&script::lose(config.loss))
    } else {
        Ok(())
    }
}

/// Feeds a loss script to `nft` in this thread's namespace, which must be a host's.
pub(crate) fn set_loss(script: &str) -> Result<(), LabError> {
    run(NFT, &["-f", "-"], script, "setting a host's loss").map(drop)
}

/// Attempts to remove namespaces that are created meanwhile, perhaps by an `up` under way.
const ROUNDS: usize = 3;

/// Counts of removed things, with the namespace of the switches; zero if there was no lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub namespaces: usize,
    pub processes: usize,
}

pub(crate) fn take_down(name: &str) -> Result<Removed, LabError> {
    check_lab_name(name)?;
    let mut removed = Removed::default();
    let mut complaint = String::new();
    for _ in 0..ROUNDS {
        let namespaces = namespaces_of(name)?;
        if namespaces.is_empty() {
            return Ok(removed);
        }
        require_root()?;
        // A process that does not end must not prevent the rest; it is reported afterwards.
        let ended = end_all(&namespaces);
        complaint = delete(&namespaces)?;
        removed.processes += ended?;
        removed.namespaces += namespaces.len();
    }
    match namespaces_of(name)? {
        remaining if remaining.is_empty() => Ok(removed),
        namespaces => Err(LabError::NamespacesRemain {
            namespaces,
            complaint,
        }),
    }
}

fn namespaces_of(name: &str) -> Result<Vec<String>, LabError> {
    Ok(members_of(name)?
        .iter()
        .map(|host| namespace_of(name, host))
        .collect())
}

/// Deletes the namespaces and returns the complaints of `ip`.
///
/// The option `-force` makes `ip` continue after a namespace that no longer exists.
fn delete(namespaces: &[String]) -> Result<String, LabError> {
    match run(
        IP,
        &["-force", "-batch", "-"],
        &delete_namespaces(namespaces),
        "deleting namespaces",
    ) {
        Ok(_) => Ok(String::new()),
        Err(LabError::Tool { complaint, .. }) => Ok(complaint),
        Err(other) => Err(other),
    }
}

/// Interface table of the thread's namespace. (`/proc/net/dev` is that of the process.)
const INTERFACES: &str = "/proc/thread-self/net/dev";

/// Frames and bytes over a host's `eth0` since the lab came up, received ones counted before its
/// loss. Bytes include the 14-byte header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    pub received_frames: u64,
    pub received_bytes: u64,
    pub sent_frames: u64,
    pub sent_bytes: u64,
    /// Frames the host lost since its loss was last set.
    pub lost_frames: u64,
}

pub(crate) fn read_interface() -> Result<HostCounters, LabError> {
    let table = fs::read_to_string(INTERFACES)
        .map_err(|source| LabError::system(format!("reading {INTERFACES}"), source))?;
    parse_counters(&table).ok_or_else(|| LabError::NoInterface {
        path: Path::new(INTERFACES).to_owned(),
        interface: HOST_INTERFACE,
    })
}

pub(crate) fn read_counters() -> Result<HostCounters, LabError> {
    let counters = read_interface()?;
    let ruleset = run(NFT, &["list", "ruleset"], "", "reading a host's loss")?;
    Ok(HostCounters {
        lost_frames: lost_frames(&ruleset),
        ..counters
    })
}

/// Parses the table's line of `eth0`: eight numbers about receiving, bytes and frames first, then
/// eight about sending (proc_pid_net(5)).
fn parse_counters(table: &str) -> Option<HostCounters> {
    let row = table.lines().find_map(|line| {
        line.trim_start()
            .strip_prefix(HOST_INTERFACE)?
            .strip_prefix(':')
    })?;
    let numbers: Vec<u64> = row
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let &[
        received_bytes,
        received_frames,
        _,
        _,
        _,
        _,
        _,
        _,
        sent_bytes,
        sent_frames,
        ..,
    ] = numbers.as_slice()
    else {
        return None;
    };
    Some(HostCounters {
        received_frames,
        received_bytes,
        sent_frames,
        sent_bytes,
        lost_frames: 0,
    })
}

/// Two interfaces in the switches' namespace, between which a program must forward all frames of a
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    pub towards_host: String,
    pub towards_switch: String,
}

/// Takes the port of `host` off its switch, and connects a new port to an interface beside it.
pub(crate) fn lead(host: &str) -> Result<Detour, LabError> {
    let port = port_to(host)?;
    let shown = run(
        IP,
        &["-o", "link", "show", "dev", &port],
        "",
        "looking at a port",
    )?;
    let word_after = |name: &str| {
        shown
            .split_whitespace()
            .skip_while(|word| *word != name)
            .nth(1)
            .map(str::to_owned)
    };
    let (bridge, mtu) = (word_after("master"), word_after("mtu"));
    let bridge =
        bridge.expect("a port of a lab is a switch's, and a cable is led past one program");
    let mtu = mtu.expect("every interface has an MTU");
    let (near, far) = (format!("d{port}"), format!("{port}d"));
    let script = format!(
        "link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}\nlink set {far} master {bridge} up\n\
         link set {near} up\nlink set {port} nomaster\n"
    );
    batch(IP, &script, "leading a cable past a program")?;
    Ok(Detour {
        towards_host: port,
        towards_switch: near,
    })
}

pub(crate) fn set_learning(host: &str, on: bool) -> Result<(), LabError> {
    let (port, word) = (port_to(host)?, if on { "on" } else { "off" });
    batch(
        IP,
        &format!("link set {port} type bridge_slave learning {word}\n"),
        "setting what a port learns",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_eth0_is_found_among_others() {
        let table = "Inter-|   Receive          |  Transmit\n face |bytes packets ...\n\
                     \u{20}   lo:  1 2 0 0 0 0 0 0  1 2 0 0 0 0 0 0\n\
                     \u{20} eth0: 4542 51 0 0 0 0 0 0 266 3 0 0 0 0 0 0\n\
                     \u{20}eth01: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n";
        let expected = HostCounters {
            received_frames: 51,
            received_bytes: 4542,
            sent_frames: 3,
            sent_bytes: 266,
            lost_frames: 0,
        };
        assert_eq!(parse_counters(table), Some(expected));
        assert_eq!(parse_counters("lo: 1 2 3\n"), None);
        assert_eq!(
            parse_counters("eth0: 1 2 3\n"),
            None,
            "too short a row is no row"
        );
    }
}
