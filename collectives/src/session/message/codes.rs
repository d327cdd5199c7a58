//! One-byte codes in control messages: outcomes, reasons of refusal, stages, states of members.

use crate::membership::codec::BodyReader;

/// Declares an enum whose values are one byte on the wire, counted from 0.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* $variant = $value,)*
        }

        impl $name {
            pub(super) const ALL: &[$name] = &[$($name::$variant),*];

            pub(super) fn read(from: &mut BodyReader<'_>) -> Option<$name> {
                $name::ALL.get(usize::from(from.u8()?)).copied()
            }
        }
    };
}

wire_enum! {
    /// Outcome of a transfer at a member.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    Outcome {
        /// Verified, confirmed by the root, on disk, visible under its name.
        Delivered = 0,
        /// Too little room for the announced size.
        NoSpace = 1,
        /// Writing, syncing or renaming failed.
        WriteFailed = 2,
        /// The bytes do not match the root's digest.
        Damaged = 3,
        /// Its user stopped it.
        Interrupted = 4,
        /// The member fell silent.
        Silent = 5,
        /// Missing bytes were lost with other hosts, and the root cannot re-read them.
        Lost = 6,
        /// All bytes are on stable storage and match the trailer; they become visible when the root
        /// has confirmed them.
        Verified = 7,
        /// The member made no progress for too long, although its reports arrived.
        Stalled = 8,
        /// Its process has ended.
        Died = 9,
    }
}

impl Outcome {
    /// Name of the outcome of a receiver that took no data, because its DEST does not permit it.
    pub const REFUSED: &'static str = "refused";

    /// Returns the outcome's name in reports, and the reason, from a receiver's text. The text of a
    /// receiver that took no data begins with that fact (protocol.md §10).
    pub fn status_and_reason(self, text: &str) -> (&'static str, &str) {
        let reason = text.strip_prefix(Outcome::REFUSED).and_then(|rest| rest.strip_prefix(": "));
        match reason.filter(|_| self == Outcome::WriteFailed) {
            Some(reason) => (Outcome::REFUSED, reason),
            None => (self.word(), text),
        }
    }

    /// Returns the name used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Delivered => "verified",
            Outcome::NoSpace => "no-space",
            Outcome::WriteFailed => "write-failed",
            Outcome::Damaged => "damaged",
            Outcome::Interrupted => "interrupted",
            Outcome::Silent => "silent",
            Outcome::Lost => "lost",
            Outcome::Verified => "unconfirmed",
            Outcome::Stalled => "stalled",
            Outcome::Died => "died",
        }
    }
}

wire_enum! {
    /// Reason why the root refuses a receiver.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Refusal {
        /// Its MTU is below the root's.
        SmallMtu = 0,
        /// The free space is less than the announced size.
        NoSpace = 1,
        /// The session has started, or is full.
        Late = 2,
        /// Another receiver on the same interface is there already.
        Twin = 3,
        /// The topology file does not name it.
        NotInTopology = 4,
        /// Short frames reach it, the longest do not.
        Path = 5,
        /// The sender's list of hosts does not include it.
        NotWanted = 6,
        /// Refusal by itself, as its DEST cannot hold what is sent. Never sent.
        Declined = 7,
    }
}

impl Refusal {
    /// Returns the reason in two or three words.
    pub fn words(self) -> &'static str {
        match self {
            Refusal::SmallMtu => "MTU too small",
            Refusal::NoSpace => "no space",
            Refusal::Late => "too late",
            Refusal::Twin => "name or interface taken",
            Refusal::NotInTopology => "not in the topology",
            Refusal::Path => "smaller MTU on the way",
            Refusal::NotWanted => "not asked for",
            Refusal::Declined => "cannot hold it",
        }
    }
}

wire_enum! {
    /// Stage of an announced session.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    Stage {
        /// Waiting for receivers.
        #[default]
        Gathering = 0,
        /// Started, without further admission.
        Started = 1,
        /// Started, with late receivers still admitted.
        LateWelcome = 2,
    }
}

wire_enum! {
    /// State of a member.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    MemberState {
        /// Receiving, and not blocked.
        #[default]
        Alive = 0,
        /// Its application takes frames more slowly than they come.
        Blocked = 1,
        /// Waiting for frames.
        Starved = 2,
        /// All received; verification is in progress.
        Verifying = 3,
        /// A child takes frames more slowly than they come.
        WaitsForChild = 4,
        /// All received; waiting for the disk.
        Syncing = 5,
        /// All verified; waiting for the root's confirmation.
        Settled = 6,
        /// The last report has been sent.
        Done = 7,
    }
}

impl MemberState {
    /// Returns the state in words that follow the host's name.
    pub fn words(self) -> &'static str {
        match self {
            MemberState::Alive => "is receiving",
            MemberState::Blocked => "waits for its disk or for the reader of its output",
            MemberState::Starved => "waits for frames",
            MemberState::Verifying => "is verifying",
            MemberState::WaitsForChild => "waits for a host behind it",
            MemberState::Syncing => "is syncing to its disk",
            MemberState::Settled => "has verified everything and waits for the verdict",
            MemberState::Done => "is done",
        }
    }
}
