//! MAC addresses, as bytes and as text.

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address (IEEE Std 802 §8) in wire order, with the local port id: the number of a process
/// behind that interface, 0 if there is only one.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr {
    octets: [u8; 6],
    port_id: u8,
}

/// Error for a text that is no MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address; write six pairs of hexadecimal digits, as in 02:00:00:00:00:01")]
pub struct ParseMacError;

impl MacAddr {
    /// Unspecified address.
    pub const ZERO: MacAddr = MacAddr { octets: [0; 6], port_id: 0 };
    /// Broadcast address.
    pub const BROADCAST: MacAddr = MacAddr { octets: [0xff; 6], port_id: 0 };

    /// Creates an address from its six bytes.
    pub const fn new(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> MacAddr {
        MacAddr { octets: [a, b, c, d, e, f], port_id: 0 }
    }

    /// Returns this interface's address with another local port id.
    pub const fn with_port_id(self, port_id: u8) -> MacAddr {
        MacAddr { port_id, ..self }
    }

    /// Returns the local port id: the number of the process behind the interface.
    pub const fn port_id(self) -> u8 {
        self.port_id
    }

    /// Whether both addresses are behind one interface.
    pub fn shares_interface_with(self, other: MacAddr) -> bool {
        self.octets == other.octets
    }

    /// Returns its six bytes.
    pub const fn octets(self) -> [u8; 6] {
        self.octets
    }

    /// Whether it is a group address, broadcast included: the lowest bit of the first byte is set.
    pub const fn is_multicast(self) -> bool {
        self.octets[0] & 1 == 1
    }

    /// Whether it is locally administered: the second bit of the first byte is set.
    pub const fn is_local(self) -> bool {
        self.octets[0] & 2 == 2
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> MacAddr {
        MacAddr { octets, port_id: 0 }
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.octets;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")?;
        if self.port_id == 0 { Ok(()) } else { write!(formatter, "/{}", self.port_id) }
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let mut octets = [0; 6];
        let mut pairs = text.split(':');
        for octet in &mut octets {
            let pair = pairs.next().filter(|pair| pair.len() == 2 && !pair.starts_with('+')).ok_or(ParseMacError)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| ParseMacError)?;
        }
        if pairs.next().is_some() { Err(ParseMacError) } else { Ok(MacAddr::from(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let address = MacAddr::new(2, 0, 0xab, 0, 0, 0x1f);
        assert_eq!((address.to_string(), format!("{address:?}")), (format!("{address:?}"), "02:00:ab:00:00:1f".into()));
        assert_eq!("02:00:AB:00:00:1f".parse(), Ok(address));
        for wrong in
            ["", "02:00:ab:00:00", "02:00:ab:00:00:1f:00", "02:00:ab:00:00:1g", "2:0:ab:0:0:1f", "+2:00:ab:00:00:1f"]
        {
            assert_eq!(wrong.parse::<MacAddr>(), Err(ParseMacError), "{wrong:?}");
        }
    }

    #[test]
    fn processes_behind_one_interface_are_distinguished_and_ordered_by_local_port_id() {
        let first = MacAddr::new(2, 0, 0, 0, 0, 1);
        let (second, other) = (first.with_port_id(1), MacAddr::new(2, 0, 0, 0, 0, 2));
        assert!(first < second && second < other && first.shares_interface_with(second));
        assert_eq!((first.to_string(), second.to_string()), ("02:00:00:00:00:01".into(), "02:00:00:00:00:01/1".into()));
        assert!(!first.shares_interface_with(other) && first.octets() == second.octets());
    }

    #[test]
    fn the_first_byte_says_group_and_local() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_local());
        assert!(!MacAddr::new(2, 0, 0, 0, 0, 1).is_multicast() && MacAddr::new(2, 0, 0, 0, 0, 1).is_local());
        assert!(MacAddr::new(1, 0, 0, 0, 0, 1).is_multicast() && !MacAddr::new(1, 0, 0, 0, 0, 1).is_local());
    }
}
