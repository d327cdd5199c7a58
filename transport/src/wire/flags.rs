//! Flag bits in a frame's header.

/// Bits of the flags byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The last frame of its stream.
    pub const LAST: Flags = Flags(1);
    /// The sender wants an acknowledgement without delay.
    pub const ACK_NOW: Flags = Flags(2);
    /// The frame was sent before.
    pub const RESENT: Flags = Flags(4);

    /// The last frame of a message, which is forwarded at once.
    pub const FLUSH: Flags = Flags(8);
    /// Request, with FLUSH, for a report when all applications behind have consumed the message.
    pub const REPORT: Flags = Flags(16);

    /// Flags that the origin sets and no host on the way changes: they are sealed with the payload.
    pub const SEALED: Flags = Flags(Flags::LAST.0 | Flags::FLUSH.0 | Flags::REPORT.0);

    /// Returns the names of the known bits that are set, lowest first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        ["LAST", "ACK_NOW", "RESENT", "FLUSH", "REPORT"]
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 == 1)
            .map(|(_, name)| name)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn sealed(self) -> Flags {
        Flags(self.0 & Flags::SEALED.0)
    }

    /// Returns the union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_named_from_the_lowest_on_and_unknown_ones_are_not() {
        let named = |bits: u8| Flags(bits).names().collect::<Vec<_>>();
        assert_eq!(named(0b1111_1111), ["LAST", "ACK_NOW", "RESENT", "FLUSH", "REPORT"]);
        assert_eq!((named(0b1001_0100), named(0)), (vec!["RESENT", "REPORT"], vec![]));
        assert_eq!(named(Flags::ACK_NOW.with(Flags::FLUSH).0), ["ACK_NOW", "FLUSH"]);
    }
}
