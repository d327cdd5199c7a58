//! Packet and byte counters of a host's cable in a test network. A cable can also be led through a program.

use crate::error::LabError;
use crate::faults::port_to;
use crate::names::HOST_INTERFACE;
use crate::program::{IP, NFT, batch, run};
use crate::script::lost_frames;
use std::fs;
use std::path::Path;

/// Interface table of the thread's namespace. (`/proc/net/dev` is that of the process.)
const INTERFACES: &str = "/proc/thread-self/net/dev";

/// Frames and bytes over a host's `eth0` since the lab came up, received ones counted before its loss. Bytes include
/// the 14-byte header.
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
    let table =
        fs::read_to_string(INTERFACES).map_err(|source| LabError::system(format!("reading {INTERFACES}"), source))?;
    parse(&table)
        .ok_or_else(|| LabError::NoInterface { path: Path::new(INTERFACES).to_owned(), interface: HOST_INTERFACE })
}

pub(crate) fn read() -> Result<HostCounters, LabError> {
    let counters = read_interface()?;
    let ruleset = run(NFT, &["list", "ruleset"], "", "reading a host's loss")?;
    Ok(HostCounters { lost_frames: lost_frames(&ruleset), ..counters })
}

/// Parses the table's line of `eth0`: eight numbers about receiving, bytes and frames first, then
/// eight about sending (proc_pid_net(5)).
fn parse(table: &str) -> Option<HostCounters> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(HOST_INTERFACE)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = row.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[received_bytes, received_frames, _, _, _, _, _, _, sent_bytes, sent_frames, ..] = numbers.as_slice() else {
        return None;
    };
    Some(HostCounters { received_frames, received_bytes, sent_frames, sent_bytes, lost_frames: 0 })
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
    let shown = run(IP, &["-o", "link", "show", "dev", &port], "", "looking at a port")?;
    let word_after = |name: &str| shown.split_whitespace().skip_while(|word| *word != name).nth(1).map(str::to_owned);
    let (bridge, mtu) = (word_after("master"), word_after("mtu"));
    let bridge = bridge.expect("a port of a lab is a switch's, and a cable is led past one program");
    let mtu = mtu.expect("every interface has an MTU");
    let (near, far) = (format!("d{port}"), format!("{port}d"));
    let script = format!(
        "link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}\nlink set {far} master {bridge} up\n\
         link set {near} up\nlink set {port} nomaster\n"
    );
    batch(IP, &script, "leading a cable past a program")?;
    Ok(Detour { towards_host: port, towards_switch: near })
}

pub(crate) fn set_learning(host: &str, on: bool) -> Result<(), LabError> {
    let (port, word) = (port_to(host)?, if on { "on" } else { "off" });
    batch(IP, &format!("link set {port} type bridge_slave learning {word}\n"), "setting what a port learns")
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
        let expected =
            HostCounters { received_frames: 51, received_bytes: 4542, sent_frames: 3, sent_bytes: 266, lost_frames: 0 };
        assert_eq!(parse(table), Some(expected));
        assert_eq!(parse("lo: 1 2 3\n"), None);
        assert_eq!(parse("eth0: 1 2 3\n"), None, "too short a row is no row");
    }
}
