//! Creation of a test network of namespaces, bridges and veth pairs, with full clean-up after a
//! failure.

use std::fs;
use std::io::ErrorKind;

use crate::config::LabConfig;
use crate::down::take_down;
use crate::error::LabError;
use crate::interrupt::InterruptsHeld;
use crate::names::{SWITCHES, namespace_of};
use crate::netns::{inside, members_of};
use crate::program::{IP, NFT, TC, batch, require_root, run};
use crate::script;

const NO_IPV6: [&str; 2] = ["/proc/sys/net/ipv6/conf/all/disable_ipv6", "/proc/sys/net/ipv6/conf/default/disable_ipv6"];

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
    match run(IP, &["netns", "add", &switches], "", "making the switches' namespace") {
        Ok(_) => Ok(()),
        Err(LabError::Tool { complaint, .. }) if complaint.contains("File exists") => Err(exists()),
        Err(other) => Err(other),
    }
}

fn build(config: &LabConfig, interrupts: &InterruptsHeld) -> Result<(), LabError> {
    let switches = namespace_of(&config.name, SWITCHES);
    let hosts = || config.topology.hosts().iter().map(|host| namespace_of(&config.name, host));
    batch(IP, &script::add_host_namespaces(config), "making the hosts' namespaces")?;
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
    let settings = NO_IPV6.iter().map(|path| (path, "1")).chain(NO_FIREWALL.iter().map(|path| (path, "0")));
    for (path, value) in settings {
        match fs::write(path, value) {
            // A kernel without the feature needs no change.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.map_err(|source| LabError::system(format!("setting {path} in {namespace}"), source))?,
        }
    }
    Ok(())
}

fn build_switches(config: &LabConfig) -> Result<(), LabError> {
    batch(IP, &script::wire(config), "wiring the lab")?;
    batch(TC, &script::shape_switches(config), "shaping the switches' ports")
}

fn build_host(config: &LabConfig, host: usize) -> Result<(), LabError> {
    batch(IP, &script::host_links_up(), "switching a host's interfaces on")?;
    batch(TC, &script::shape_host(config, host), "shaping a host's cable")?;
    if config.loss > 0.0 { set_loss(&script::lose(config.loss)) } else { Ok(()) }
}

/// Feeds a loss script to `nft` in this thread's namespace, which must be a host's.
pub(crate) fn set_loss(script: &str) -> Result<(), LabError> {
    run(NFT, &["-f", "-"], script, "setting a host's loss").map(drop)
}
