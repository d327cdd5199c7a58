//! The classes of trouble.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Receivers are killed: any of them, neighbours or not, at once or one after the other, in
    /// every phase.
    Kill,
    /// A process is suspended for a while: SIGSTOP, SIGCONT.
    Pause,
    Root,
    /// A link goes down, and up again or not.
    Link,
    /// One kind of frame is lost in one direction, for a while or for good.
    Drop,
    /// Every host loses a share of its incoming frames.
    Loss,
    /// A host's cable delays, repeats, reorders, drops and damages frames.
    Relay,
    /// A disk is too small, is filled, or loses written data.
    Disk,
    /// A receiver is powered off and starts anew.
    Reboot,
    /// Two senders of one group.
    Operators,
    /// A host replays frames, or forges them with a member's address.
    Attack,
}

impl Class {
    pub const ALL: [Class; 11] = [
        Class::Kill,
        Class::Pause,
        Class::Root,
        Class::Link,
        Class::Drop,
        Class::Loss,
        Class::Relay,
        Class::Disk,
        Class::Reboot,
        Class::Operators,
        Class::Attack,
    ];

    /// Returns the name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Class::Kill => "kill",
            Class::Pause => "pause",
            Class::Root => "root",
            Class::Link => "link",
            Class::Drop => "drop",
            Class::Loss => "loss",
            Class::Relay => "relay",
            Class::Disk => "disk",
            Class::Reboot => "reboot",
            Class::Operators => "operators",
            Class::Attack => "attack",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Class::ALL.into_iter().find(|class| class.name() == text);
        named.ok_or_else(|| {
            format!("there is no class `{text}`: choose one of {}", Class::ALL.map(Class::name).join(", "))
        })
    }
}
