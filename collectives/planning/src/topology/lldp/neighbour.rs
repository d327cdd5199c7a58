//! One output of `lldpcli -f json0`: everything is a list there, whatever the number of neighbours.

use crate::topology::nodeset::{MAX_NAME_BYTES, is_name_character};
use serde::Deserialize;

/// Who announces itself on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    /// The local interface.
    pub interface: String,
    /// What it calls itself.
    pub name: String,
    /// Whether it may be a switch: it forwards frames or packets, or does not say what it does.
    pub may_switch: bool,
}

/// Reads one output.
///
/// # Errors
/// The parser's message, and the line it is about.
pub(super) fn read(text: &str) -> Result<Vec<Neighbour>, (usize, String)> {
    let output: JsonOutput = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        (error.line().max(1), message.strip_suffix(&place).unwrap_or(&message).to_string())
    })?;
    let interfaces = output.lldp.into_iter().flat_map(|lldp| lldp.interface);
    Ok(interfaces
        .flat_map(|interface| {
            interface.chassis.into_iter().filter_map(move |chassis| chassis.neighbour(&interface.name))
        })
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
    fn neighbour(self, interface: &str) -> Option<Neighbour> {
        let forwards =
            |capability: &JsonCapability| capability.enabled && matches!(capability.kind.as_str(), "Bridge" | "Router");
        let may_switch = self.capability.is_empty() || self.capability.iter().any(forwards);
        let mut names = self.name.into_iter().chain(self.id).map(|text| text.value);
        let name = names.find(|name| is_usable(name))?;
        Some(Neighbour { interface: interface.to_string(), name, may_switch })
    }
}

fn is_usable(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_name_character)
}
