//! Identifiers in frames: MAC addresses, and the numbers of hosts (ranks) and of streams.

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address (IEEE Std 802 §8) in wire order, with the local port id: the number of a
/// process behind that interface, 0 if there is only one.
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
    pub const ZERO: MacAddr = MacAddr {
        octets: [0; 6],
        port_id: 0,
    };
    /// Broadcast address.
    pub const BROADCAST: MacAddr = MacAddr {
        octets: [0xff; 6],
        port_id: 0,
    };

    /// Creates an address from its six bytes.
    pub const fn new(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> MacAddr {
        MacAddr {
            octets: [a, b, c, d, e, f],
            port_id: 0,
        }
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
        if self.port_id == 0 {
            Ok(())
        } else {
            write!(formatter, "/{}", self.port_id)
        }
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
            let pair = pairs
                .next()
                .filter(|pair| pair.len() == 2 && !pair.starts_with('+'))
                .ok_or(ParseMacError)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| ParseMacError)?;
        }
        if pairs.next().is_some() {
            Err(ParseMacError)
        } else {
            Ok(MacAddr::from(octets))
        }
    }
}

/// Number of a host in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u16);

/// Number of a stream within its session; 0 if there is only one or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

impl Rank {
    /// Rank of a session's root.
    pub const ROOT: Rank = Rank(0);
    /// Rank of a host that is not a member.
    pub const NONE: Rank = Rank(u16::MAX);

    /// Returns its index in a list of all hosts by rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the rank `steps` further in the ring of `size` ranks, where 0 follows the last.
    pub const fn ahead(self, steps: u16, size: u16) -> Rank {
        Rank((self.0 + steps) % size)
    }
}

impl StreamId {
    /// Returns its index in a list of all streams by number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl From<u16> for Rank {
    fn from(number: u16) -> Rank {
        Rank(number)
    }
}

impl From<u16> for StreamId {
    fn from(number: u16) -> StreamId {
        StreamId(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let address = MacAddr::new(2, 0, 0xab, 0, 0, 0x1f);
        assert_eq!(
            (address.to_string(), format!("{address:?}")),
            (format!("{address:?}"), "02:00:ab:00:00:1f".into())
        );
        assert_eq!("02:00:AB:00:00:1f".parse(), Ok(address));
        for wrong in [
            "",
            "02:00:ab:00:00",
            "02:00:ab:00:00:1f:00",
            "02:00:ab:00:00:1g",
            "2:0:ab:0:0:1f",
            "+2:00:ab:00:00:1f",
        ] {
            assert_eq!(wrong.parse::<MacAddr>(), Err(ParseMacError), "{wrong:?}");
        }
    }

    #[test]
    fn processes_behind_one_interface_are_distinguished_and_ordered_by_local_port_id() {
        let first = MacAddr::new(2, 0, 0, 0, 0, 1);
        let (second, other) = (first.with_port_id(1), MacAddr::new(2, 0, 0, 0, 0, 2));
        assert!(first < second && second < other && first.shares_interface_with(second));
        assert_eq!(
            (first.to_string(), second.to_string()),
            ("02:00:00:00:00:01".into(), "02:00:00:00:00:01/1".into())
        );
        assert!(!first.shares_interface_with(other) && first.octets() == second.octets());
    }

    #[test]
    fn the_first_byte_says_group_and_local() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_local());
        assert!(
            !MacAddr::new(2, 0, 0, 0, 0, 1).is_multicast()
                && MacAddr::new(2, 0, 0, 0, 0, 1).is_local()
        );
        assert!(
            MacAddr::new(1, 0, 0, 0, 0, 1).is_multicast()
                && !MacAddr::new(1, 0, 0, 0, 0, 1).is_local()
        );
    }

    #[test]
    fn ranks_are_counted_around_the_ring_and_numbers_are_places() {
        assert_eq!(
            [0, 1, 2, 4].map(|steps| Rank(3).ahead(steps, 5)),
            [3, 4, 0, 2].map(Rank)
        );
        assert_eq!((Rank(7).index(), StreamId(9).index()), (7, 9));
        assert_eq!((Rank::from(7), StreamId::from(9)), (Rank(7), StreamId(9)));
        assert_eq!(format!("{} {}", Rank(7), StreamId(9)), "7 9");
    }
}
