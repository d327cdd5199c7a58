//! The ways a message can travel, by the names the command line and VIEW use.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How the bytes of one message travel. `auto` is no way of travelling: whoever offers it picks one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// Unicast from host to host in depth-first switch order (Patarasuk 2008, Algorithm 1).
    Chain,
    /// One broadcast frame that the switches replicate, repaired by unicast (EQA).
    Cast,
}

impl Via {
    /// Every way there is, in the order messages list them.
    pub const ALL: &[Self] = &[Self::Chain, Self::Cast];

    /// The name [`FromStr`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Cast => "cast",
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is no [`Via`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no way to send; use one of: {list}", list = valid_names())]
pub struct UnknownVia(
    /// The name that was given.
    pub String,
);

impl FromStr for Via {
    type Err = UnknownVia;

    fn from_str(name: &str) -> Result<Self, UnknownVia> {
        Self::ALL.iter().copied().find(|via| via.name() == name).ok_or_else(|| UnknownVia(name.to_string()))
    }
}

fn valid_names() -> String {
    Via::ALL.iter().map(|via| via.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for &via in Via::ALL {
            assert_eq!(via.to_string().parse(), Ok(via));
        }
        assert_eq!(format!("[{:>6}]", Via::Cast), "[  cast]");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        for name in ["binary", "auto", "Chain", ""] {
            let error = name.parse::<Via>().expect_err(name);
            assert_eq!(error.to_string(), format!("`{name}` is no way to send; use one of: chain, cast"));
        }
    }
}
