//! Which protocol an Ethernet frame carries.

use std::fmt;
use std::str::FromStr;

/// An EtherType (IEEE 802.3 §3.2.6): which protocol an Ethernet frame carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(u16);

/// The text is no EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseEtherTypeError {
    /// It is no number of 16 bits in hexadecimal.
    #[error("expected up to four hexadecimal digits, such as 88b5")]
    NoNumber,
    /// The number is a length.
    #[error("values below 0600 are lengths, not EtherTypes; 88b5 and 88b6 are free for local use")]
    Length,
}

impl EtherType {
    /// IEEE Std 802 local experimental EtherType 1.
    pub const DEFAULT: EtherType = EtherType::new(0x88B5);
    /// The lowest; what is below is the length of a frame of another format.
    const LOWEST: u16 = 0x0600;

    /// The EtherType of that number.
    ///
    /// # Panics
    /// If it is below 0x0600: that is a length.
    pub const fn new(number: u16) -> EtherType {
        assert!(number >= Self::LOWEST, "values below 0x0600 are lengths, not EtherTypes");
        EtherType(number)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Its two bytes as they lie in a frame.
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
            Ok(number) if number >= Self::LOWEST => Ok(EtherType(number)),
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
        assert_eq!((EtherType::DEFAULT.number(), EtherType::DEFAULT.octets()), (0x88B5, [0x88, 0xB5]));
        assert_eq!(format!("{:?}", EtherType::DEFAULT), "0x88B5");
        for text in ["88b5", "88B5", "0x88B5"] {
            assert_eq!(text.parse(), Ok(EtherType::DEFAULT), "{text}");
        }
        assert_eq!("0x9000".parse(), Ok(EtherType::new(0x9000)));
        assert_eq!("600".parse(), Ok(EtherType::new(0x0600)));
        assert_eq!("05ff".parse::<EtherType>(), Err(ParseEtherTypeError::Length));
        for text in ["", "xyz", "18b5f"] {
            assert_eq!(text.parse::<EtherType>(), Err(ParseEtherTypeError::NoNumber), "{text}");
        }
    }
}
