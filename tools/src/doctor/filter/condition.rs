//! Evaluation of a rule's conditions for our frames.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    Never,
    Sometimes,
    Always,
}

impl Holds {
    fn when(is_true: bool) -> Holds {
        if is_true { Holds::Always } else { Holds::Never }
    }

    fn sometimes_when(is_possible: bool) -> Holds {
        if is_possible { Holds::Sometimes } else { Holds::Never }
    }

    fn negated(self) -> Holds {
        match self {
            Holds::Never => Holds::Always,
            Holds::Sometimes => Holds::Sometimes,
            Holds::Always => Holds::Never,
        }
    }
}

#[derive(Clone, Debug)]
pub struct FrameCondition<'a> {
    pub interface: &'a str,
    /// Whether the interface is a bridge, in which case rules see its ports as well.
    pub is_bridge: bool,
    /// Source and destination addresses: this host's and the group's.
    pub addresses: [String; 2],
    pub ether_type: u16,
    pub mtu_bytes: u64,
}

impl FrameCondition<'_> {
    /// Evaluates a `match` of a rule; unknown conditions count as never met.
    pub fn fit(&self, condition: &Value) -> Holds {
        let (operator, left, right) =
            (condition["op"].as_str().unwrap_or("=="), &condition["left"], &condition["right"]);
        let any = |holds: &dyn Fn(&Value) -> Holds| match right["set"].as_array() {
            Some(set) => set.iter().map(holds).max().unwrap_or(Holds::Never),
            None => holds(right),
        };
        if is_of_an_address(&left["&"][0]) {
            return Holds::Sometimes;
        }
        let key = left["meta"]["key"].as_str().unwrap_or_default();
        let equal = match key {
            "length" => return self.length(operator, right),
            "iif" | "iifname" | "oif" | "oifname" => any(&|value| self.is_through(value)),
            // Frames go to this host or to a group, never to others.
            "pkttype" => any(&|value| Holds::sometimes_when(value != "other")),
            _ if is_ether_type(left) => any(&|value| Holds::when(self.is_of(value))),
            _ if left["payload"]["protocol"] == "ether" => any(&|value| {
                let is_ours = |own: &String| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(own));
                Holds::sometimes_when(self.addresses.iter().any(is_ours))
            }),
            _ if left.get("numgen").is_some() => return Holds::Sometimes,
            _ => return Holds::Never,
        };
        match operator {
            "==" | "in" => equal,
            "!=" => equal.negated(),
            _ => Holds::Never,
        }
    }

    /// Whether a number in nftables' notation is their EtherType.
    pub fn is_of(&self, value: &Value) -> bool {
        let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
        let hexadecimal = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let decimal = value.as_str().and_then(|text| text.parse().ok());
        value.as_u64().or(hexadecimal).or(decimal) == Some(self.ether_type.into())
    }

    /// Whether a name, which may end in a star, matches their interface.
    pub fn is_on(&self, name: &str) -> bool {
        name.strip_suffix('*').map_or(name == self.interface, |start| self.interface.starts_with(start))
    }

    fn is_through(&self, value: &Value) -> Holds {
        if self.is_bridge { Holds::Sometimes } else { Holds::when(value.as_str().is_some_and(|name| self.is_on(name))) }
    }

    fn length(&self, operator: &str, right: &Value) -> Holds {
        let Some(bytes) = right.as_u64() else { return Holds::Never };
        Holds::sometimes_when(match operator {
            ">" => bytes < self.mtu_bytes,
            ">=" | "==" => bytes <= self.mtu_bytes,
            _ => true,
        })
    }
}

/// Whether a rule matches the EtherType, under whatever name.
pub fn is_ether_type(left: &Value) -> bool {
    let payload = &left["payload"];
    left["meta"]["key"] == "protocol"
        || payload["protocol"] == "ether" && payload["field"] == "type"
        || payload["base"] == "ll" && payload["offset"] == 96 && payload["len"] == 16
}

/// Whether a masked value is an address, as in a test of the group bit.
fn is_of_an_address(masked: &Value) -> bool {
    let payload = &masked["payload"];
    payload["protocol"] == "ether" && payload["field"] != "type"
        || payload["base"] == "ll" && payload["offset"].as_u64().is_some_and(|bits| bits < 96)
}
