//! One output of `lldpcli -f json0`: everything is a list there, whatever the number of neighbours.

use crate::topology::nodeset::{MAX_NAME_BYTES, is_name_character};
use serde::Deserialize;

/// What was heard on one interface from one neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heard {
    /// The local interface.
    pub interface: String,
    /// The neighbour.
    pub name: String,
    /// Whether it may be a switch: it forwards frames or packets, or does not say what it does.
    pub may_switch: bool,
}

/// Reads one output.
///
/// # Errors
/// The parser's message, and the line it is about.
pub(super) fn read(text: &str) -> Result<Vec<Heard>, (usize, String)> {
    let output: Output = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        (error.line().max(1), message.strip_suffix(&place).unwrap_or(&message).to_string())
    })?;
    let interfaces = output.lldp.into_iter().flat_map(|lldp| lldp.interface);
    Ok(interfaces
        .flat_map(|interface| interface.chassis.into_iter().filter_map(move |chassis| chassis.heard(&interface.name)))
        .collect())
}

#[derive(Deserialize)]
struct Output {
    lldp: Vec<Lldp>,
}

#[derive(Deserialize)]
struct Lldp {
    #[serde(default)]
    interface: Vec<Interface>,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    #[serde(default)]
    chassis: Vec<Chassis>,
}

#[derive(Deserialize)]
struct Chassis {
    #[serde(default)]
    name: Vec<Named>,
    #[serde(default)]
    id: Vec<Named>,
    #[serde(default)]
    capability: Vec<Capability>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Capability {
    #[serde(rename = "type")]
    kind: String,
    enabled: bool,
}

impl Chassis {
    fn heard(self, interface: &str) -> Option<Heard> {
        let forwards = |capability: &Capability| capability.enabled && matches!(capability.kind.as_str(), "Bridge" | "Router");
        let may_switch = self.capability.is_empty() || self.capability.iter().any(forwards);
        let mut names = self.name.into_iter().chain(self.id).map(|named| named.value);
        let name = names.find(|name| is_usable(name))?;
        Some(Heard { interface: interface.to_string(), name, may_switch })
    }
}

fn is_usable(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_name_character)
}
