//! Faults of a host's cable in a test network: frames of chosen types are dropped.
//!
//! Frames that the host sends are dropped at its switch's port. A rule on the host's own output
//! would report `ENOBUFS` to the sender, which a cable does not.

use std::fmt::Write;

use crate::error::LabError;
use crate::names::HOST_INTERFACE;
use crate::netns::inside;
use crate::program::{IP, NFT, batch, run};
use crate::script::{chance, counted_frames};

const FAULTS_TABLE: &str = "ethbcast_faults";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Arriving,
    Leaving,
}

/// A fault that drops the frames of one direction that meet all its conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkFault {
    direction: Direction,
    bytes: Vec<(usize, Vec<u8>)>,
    group_addressed: Option<bool>,
    peer: Option<String>,
    longer_than_bytes: Option<u32>,
    fraction: f64,
}

impl LinkFault {
    pub fn arriving() -> Self {
        Self::new(Direction::Arriving)
    }

    /// Drops all frames that leave the host, without an error there.
    pub fn leaving() -> Self {
        Self::new(Direction::Leaving)
    }

    fn new(direction: Direction) -> Self {
        Self {
            direction,
            bytes: Vec::new(),
            group_addressed: None,
            peer: None,
            longer_than_bytes: None,
            fraction: 1.0,
        }
    }

    /// Limits the fault to frames whose byte `at`, counted from the destination address on, is one
    /// of `values`.
    pub fn byte(mut self, at: usize, values: &[u8]) -> Self {
        self.bytes.push((at, values.to_vec()));
        self
    }

    pub fn unicast(mut self) -> Self {
        self.group_addressed = Some(false);
        self
    }

    pub fn multicast(mut self) -> Self {
        self.group_addressed = Some(true);
        self
    }

    /// Limits the fault to one peer, the source of arriving or the destination of leaving frames
    /// ([`crate::Lab::mac`]).
    pub fn peer(mut self, mac: impl Into<String>) -> Self {
        self.peer = Some(mac.into());
        self
    }

    /// Limits the fault to frames with a payload longer than `payload_bytes`, as on a path with a
    /// smaller MTU than its ends.
    pub fn longer_than(mut self, payload_bytes: u32) -> Self {
        self.longer_than_bytes = Some(payload_bytes);
        self
    }

    /// Limits the fault to a random fraction of the frames, 0 to 1.
    pub fn fraction(mut self, fraction: f64) -> Self {
        self.fraction = fraction;
        self
    }

    fn rule(&self) -> String {
        let mut rule = String::new();
        let mut add = |condition: String| {
            write!(rule, "{condition} ").expect("writing to a String cannot fail")
        };
        if let Some(group) = self.group_addressed {
            add(format!("@ll,0,8 & 1 == {}", u8::from(group)));
        }
        for (at, values) in &self.bytes {
            let values: Vec<_> = values.iter().map(u8::to_string).collect();
            add(format!("@ll,{},8 {{ {} }}", 8 * at, values.join(", ")));
        }
        let address = if self.direction == Direction::Arriving {
            "saddr"
        } else {
            "daddr"
        };
        if let Some(mac) = &self.peer {
            add(format!("ether {address} {mac}"));
        }
        if let Some(bytes) = self.longer_than_bytes {
            add(format!("meta length > {bytes}"));
        }
        if self.fraction < 1.0 {
            add(chance(self.fraction));
        }
        rule + "counter drop"
    }
}

fn table(interface: &str) -> String {
    format!("{FAULTS_TABLE}_{interface}")
}

fn script(interface: &str, rules: &[String]) -> String {
    let table = table(interface);
    let mut text = format!("table netdev {table}\ndelete table netdev {table}\n");
    if !rules.is_empty() {
        text += &format!(
            "table netdev {table} {{ chain ingress {{ type filter hook ingress device \"{interface}\" priority 10;\n\
             {}\n}}; }}\n",
            rules.join("\n")
        );
    }
    text
}

pub(crate) struct Cable {
    ends: [(Direction, String, String); 2],
}

impl Cable {
    pub(crate) fn find(
        host: &str,
        inside_host: String,
        switches: String,
    ) -> Result<Self, LabError> {
        let port = inside(&switches, || port_to(host))??;
        let host_end = (Direction::Arriving, inside_host, HOST_INTERFACE.to_owned());
        Ok(Self {
            ends: [host_end, (Direction::Leaving, switches, port)],
        })
    }

    pub(crate) fn set(&self, faults: &[LinkFault]) -> Result<(), LabError> {
        for (direction, namespace, interface) in &self.ends {
            let rules = faults
                .iter()
                .filter(|fault| fault.direction == *direction)
                .map(LinkFault::rule);
            let script = script(interface, &rules.collect::<Vec<_>>());
            inside(namespace, || {
                run(NFT, &["-f", "-"], &script, "setting a host's faults")
            })??;
        }
        Ok(())
    }

    pub(crate) fn taken_frames(&self) -> Result<u64, LabError> {
        let mut frames = 0;
        for (_, namespace, interface) in &self.ends {
            let ruleset = inside(namespace, || {
                run(NFT, &["list", "ruleset"], "", "reading a host's faults")
            })??;
            frames += counted_frames(&ruleset, &table(interface));
        }
        Ok(frames)
    }
}

pub(crate) fn mac() -> Result<String, LabError> {
    let shown = run(
        IP,
        &["-o", "link", "show", "dev", HOST_INTERFACE],
        "",
        "reading a host's address",
    )?;
    let address = shown
        .split_once("link/ether ")
        .and_then(|(_, after)| after.split_whitespace().next());
    Ok(address
        .expect("every host of a lab has an Ethernet interface")
        .to_owned())
}

pub(crate) fn switch(interface: &str, up: bool) -> Result<(), LabError> {
    let word = if up { "up" } else { "down" };
    batch(
        IP,
        &format!("link set {interface} {word}\n"),
        "switching an interface",
    )
}

/// Returns the switch port of `host`. The thread must be in the switches' namespace.
pub(crate) fn port_to(host: &str) -> Result<String, LabError> {
    let shown = run(IP, &["-o", "link", "show"], "", "looking for a port")?;
    Ok(port_in(&shown, host).expect("every host of a lab has a port"))
}

/// Finds the port in lines like `7: p3@if2: <BROADCAST> mtu 1500 ... alias to-n3`.
fn port_in(shown: &str, host: &str) -> Option<String> {
    let alias = format!("to-{host}");
    let line = shown.lines().find(|line| {
        line.split_whitespace()
            .skip_while(|word| *word != "alias")
            .nth(1)
            == Some(&alias)
    })?;
    let name = line.split_whitespace().nth(1)?.trim_end_matches(':');
    Some(name.split('@').next().unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_it_takes_and_in_which_direction() {
        let faults = [
            LinkFault::arriving()
                .byte(17, &[1, 3])
                .unicast()
                .peer("02:eb:00:00:00:01"),
            LinkFault::leaving()
                .multicast()
                .longer_than(1000)
                .fraction(0.5),
        ];
        let rules = faults.map(|fault| fault.rule());
        assert_eq!(
            rules[0],
            "@ll,0,8 & 1 == 0 @ll,136,8 { 1, 3 } ether saddr 02:eb:00:00:00:01 counter drop"
        );
        assert_eq!(
            rules[1],
            "@ll,0,8 & 1 == 1 meta length > 1000 numgen random mod 1000000000 < 500000000 counter drop"
        );
        let text = script("p3", &rules);
        assert!(
            text.contains("ethbcast_faults_p3 {") && text.contains("device \"p3\""),
            "{text}"
        );
        assert_eq!(
            text.lines()
                .filter(|line| line.ends_with("counter drop"))
                .count(),
            2,
            "{text}"
        );
        assert_eq!(
            script("p3", &[]).lines().count(),
            2,
            "none: what was there goes"
        );
    }

    #[test]
    fn a_port_is_found_by_where_its_cable_goes() {
        let shown = "6: p13@if2: <UP> mtu 1500 \\    link/ether 02:eb:01 brd ff \\    alias to-n1\n\
                     7: p1@if2: <UP> mtu 1500 \\    link/ether 02:eb:01 brd ff \\    alias to-n13\n";
        assert_eq!(port_in(shown, "n1").as_deref(), Some("p13"));
        assert_eq!(port_in(shown, "n13").as_deref(), Some("p1"));
        assert_eq!(port_in(shown, "n"), None);
    }
}
