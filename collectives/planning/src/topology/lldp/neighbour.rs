//! Parser of the output of `lldpcli -f json0`: the switch and port that a host is connected to.

use super::Neighbour;
use crate::parse_rate;
use crate::topology::nodeset::{MAX_NAME_BYTES, is_name_character};
use serde::Deserialize;

pub(super) fn read(text: &str) -> Result<Vec<Neighbour>, (usize, String)> {
    let output: JsonOutput = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        (
            error.line().max(1),
            message.strip_suffix(&place).unwrap_or(&message).to_string(),
        )
    })?;
    let interfaces = output.lldp.into_iter().flat_map(|lldp| lldp.interface);
    Ok(interfaces
        .flat_map(
            |JsonInterface {
                 name,
                 chassis,
                 port,
             }| {
                let port = port.into_iter().next().unwrap_or_default();
                chassis
                    .into_iter()
                    .filter_map(move |chassis| chassis.neighbour(&name, &port))
            },
        )
        .collect())
}

#[derive(Deserialize)]
struct JsonOutput {
    lldp: Vec<JsonLldp>,
}

#[derive(Deserialize)]
struct JsonLldp {
    #[serde(default)]
    interface: Vec<JsonInterface>,
}

#[derive(Deserialize)]
struct JsonInterface {
    name: String,
    #[serde(default)]
    chassis: Vec<JsonChassis>,
    #[serde(default)]
    port: Vec<JsonPort>,
}

#[derive(Default, Deserialize)]
struct JsonPort {
    #[serde(default)]
    aggregation: Vec<JsonText>,
    #[serde(default, rename = "auto-negotiation")]
    negotiation: Vec<JsonNegotiation>,
}

#[derive(Deserialize)]
struct JsonNegotiation {
    #[serde(default)]
    current: Vec<JsonText>,
}

#[derive(Deserialize)]
struct JsonChassis {
    #[serde(default)]
    name: Vec<JsonText>,
    #[serde(default)]
    id: Vec<JsonText>,
    #[serde(default)]
    capability: Vec<JsonCapability>,
}

#[derive(Deserialize)]
struct JsonText {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct JsonCapability {
    #[serde(rename = "type")]
    kind: String,
    enabled: bool,
}

impl JsonChassis {
    fn neighbour(self, interface: &str, port: &JsonPort) -> Option<Neighbour> {
        let forwards = |capability: &JsonCapability| {
            capability.enabled && matches!(capability.kind.as_str(), "Bridge" | "Router")
        };
        let may_switch = self.capability.is_empty() || self.capability.iter().any(forwards);
        let address = self
            .id
            .iter()
            .filter(|id| id.kind == "mac")
            .find_map(|id| address(&id.value));
        let mut names = self.name.into_iter().chain(self.id).map(|text| text.value);
        let name = names.find(|name| is_usable(name))?;
        let rate = port
            .negotiation
            .iter()
            .flat_map(|one| &one.current)
            .find_map(|current| rate(&current.value));
        let aggregation = port
            .aggregation
            .iter()
            .map(|one| one.value.clone())
            .find(|id| !id.is_empty() && id != "0");
        Some(Neighbour {
            interface: interface.to_string(),
            name,
            may_switch,
            address,
            rate,
            aggregation,
        })
    }
}

fn address(text: &str) -> Option<u64> {
    let bytes = text.split(':').map(|byte| {
        u64::from_str_radix(byte, 16)
            .ok()
            .filter(|byte| *byte < 256)
    });
    let bytes: Vec<u64> = bytes.collect::<Option<_>>()?;
    (bytes.len() == 6).then(|| bytes.iter().fold(0, |number, byte| number << 8 | byte))
}

/// Returns the rate of a port of this type, in bits per second. Types are spelt as in RFC 4836,
/// with more behind: `1000BaseTFD`, `10GigBaseSR`, `40GbaseLR4`.
fn rate(kind: &str) -> Option<u64> {
    let end = kind.find(|letter: char| !letter.is_ascii_digit() && letter != 'p')?;
    let (number, unit) = (
        kind[..end].replace('p', "."),
        kind[end..].to_ascii_lowercase(),
    );
    let scale = [("gig", "gbit"), ("gbase", "gbit"), ("base", "mbit")]
        .iter()
        .find(|scale| unit.starts_with(scale.0))?
        .1;
    parse_rate(&format!("{number}{scale}")).ok()
}

fn is_usable(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_name_character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_ports_say_what_they_carry() {
        let types = [
            (
                "1000BaseTFD - Four-pair Category 5 UTP, full duplex mode",
                1_000_000_000,
            ),
            (
                "100BaseTXFD - 2 pair category 5 UTP, full duplex mode",
                100_000_000,
            ),
            ("10GigBaseSR - R fiber over 850 nm optics", 10_000_000_000),
            ("40GbaseSR4", 40_000_000_000),
            ("100GbaseCR4 - x", 100_000_000_000),
            ("2p5GigT - 2.5GBASE-T", 2_500_000_000),
        ];
        types
            .iter()
            .for_each(|&(kind, expected)| assert_eq!(rate(kind), Some(expected), "{kind}"));
        assert_eq!(["unknown", "", "BaseT", "10", "AUI"].map(rate), [None; 5]);
    }

    #[test]
    fn addresses_are_numbers() {
        assert_eq!(address("02:00:00:00:01:0a"), Some(0x0200_0000_010a));
        assert_eq!(
            ["02:00", "", "02:00:00:00:01:100", "x:0:0:0:0:0"].map(address),
            [None; 4]
        );
    }
}
