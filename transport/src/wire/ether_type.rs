//! EtherType: the protocol number in an Ethernet header.

use std::fmt;
use std::str::FromStr;

/// An EtherType (IEEE 802.3 §3.2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(u16);

/// Reason why a text is no EtherType.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseEtherTypeError {
    #[error("expected up to four hexadecimal digits, such as 88b5")]
    NoNumber,
    #[error("values below 0600 are lengths, not EtherTypes; 88b5 and 88b6 are free for local use")]
    Length,
    /// The number belongs to another protocol, for which hosts and switches would take the frames.
    #[error("that is {0}'s EtherType; 88b5 and 88b6 are free for local use")]
    Taken(&'static str),
}

/// EtherTypes that hosts and switches act on, with their protocols (IANA, IEEE 802 Numbers).
const TAKEN: [(u16, &str); 18] = [
    (0x0800, "IPv4"),
    (0x0806, "ARP"),
    (0x0842, "Wake-on-LAN"),
    (0x8035, "RARP"),
    (0x8100, "VLAN tags"),
    (0x86DD, "IPv6"),
    (0x8808, "flow control"),
    (0x8809, "LACP"),
    (0x8847, "MPLS"),
    (0x8863, "PPPoE"),
    (0x8864, "PPPoE"),
    (0x888E, "802.1X"),
    (0x88A8, "VLAN tags"),
    (0x88CC, "LLDP"),
    (0x88E5, "MACsec"),
    (0x88F7, "PTP"),
    (0x8906, "FCoE"),
    (0x8915, "RoCE"),
];

impl EtherType {
    /// IEEE Std 802 local experimental EtherType 1.
    pub const DEFAULT: EtherType = EtherType::new(0x88B5);
    /// Lowest EtherType; a smaller value is the length of a frame in another format.
    pub(crate) const LOWEST: u16 = 0x0600;

    /// Creates the EtherType of that number.
    ///
    /// # Panics
    /// If it is below 0x0600, which is a length.
    pub const fn new(number: u16) -> EtherType {
        assert!(
            number >= Self::LOWEST,
            "values below 0x0600 are lengths, not EtherTypes"
        );
        EtherType(number)
    }

    /// Returns its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns its two bytes in wire order.
    pub const fn octets(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl Default for EtherType {
    fn default() -> EtherType {
        EtherType::DEFAULT
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0x{:04X}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for EtherType {
    type Err = ParseEtherTypeError;

    fn from_str(text: &str) -> Result<EtherType, ParseEtherTypeError> {
        match u16::from_str_radix(text.trim_start_matches("0x"), 16) {
            Ok(number) if number >= Self::LOWEST => {
                match TAKEN.iter().find(|(taken, _)| *taken == number) {
                    Some((_, protocol)) => Err(ParseEtherTypeError::Taken(protocol)),
                    None => Ok(EtherType(number)),
                }
            }
            Ok(_) => Err(ParseEtherTypeError::Length),
            Err(_) => Err(ParseEtherTypeError::NoNumber),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ether_type_is_hexadecimal_and_not_a_length() {
        assert_eq!(EtherType::DEFAULT.to_string(), "0x88B5");
        assert_eq!(
            (EtherType::DEFAULT.number(), EtherType::DEFAULT.octets()),
            (0x88B5, [0x88, 0xB5])
        );
        assert_eq!(format!("{:?}", EtherType::DEFAULT), "0x88B5");
        for text in ["88b5", "88B5", "0x88B5"] {
            assert_eq!(text.parse(), Ok(EtherType::DEFAULT), "{text}");
        }
        assert_eq!("0x9000".parse(), Ok(EtherType::new(0x9000)));
        assert_eq!("600".parse(), Ok(EtherType::new(0x0600)));
        assert_eq!(
            "0800".parse::<EtherType>(),
            Err(ParseEtherTypeError::Taken("IPv4"))
        );
        assert_eq!(
            "05ff".parse::<EtherType>(),
            Err(ParseEtherTypeError::Length)
        );
        for text in ["", "xyz", "18b5f"] {
            assert_eq!(
                text.parse::<EtherType>(),
                Err(ParseEtherTypeError::NoNumber),
                "{text}"
            );
        }
    }
}
