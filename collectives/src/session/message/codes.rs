//! What goes over the wire as one byte: how a member fares, why one is turned away, what one is busy with.

use crate::membership::codec::BodyReader;

/// Declares an enum whose values go over the wire as one byte, counted from 0.
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
    /// How a member fared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    Outcome {
        /// Verified, confirmed by the root, on disk, visible under its name.
        Delivered = 0,
        /// No room for the announced size.
        NoSpace = 1,
        /// Writing, syncing or renaming failed.
        WriteFailed = 2,
        /// The bytes do not match the root's digest.
        Damaged = 3,
        /// Its user stopped it.
        Interrupted = 4,
        /// It fell silent.
        Silent = 5,
        /// Bytes that it lacks died with other hosts, and the root cannot read them again.
        Lost = 6,
        /// All bytes are there, on stable storage and agree with the trailer; they become visible when the root has
        /// confirmed them.
        Verified = 7,
        /// It made no progress for too long, though it was heard.
        Stalled = 8,
        /// Its process has ended.
        Died = 9,
    }
}

impl Outcome {
    /// The word for a receiver that took nothing, because of what it found at its DEST.
    pub const REFUSED: &'static str = "refused";

    /// The word for it in reports, and the reason, by the words of a receiver. One that took nothing says so at their
    /// beginning (protocol.md §10).
    pub fn told(self, text: &str) -> (&'static str, &str) {
        let reason = text.strip_prefix(Outcome::REFUSED).and_then(|rest| rest.strip_prefix(": "));
        match reason.filter(|_| self == Outcome::WriteFailed) {
            Some(reason) => (Outcome::REFUSED, reason),
            None => (self.word(), text),
        }
    }

    /// The word for it in reports.
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
    /// Why the root turns a receiver away.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Refusal {
        /// Its MTU is below the root's.
        SmallMtu = 0,
        /// It has less free space than the announced size.
        NoSpace = 1,
        /// The session has started, or is full.
        Late = 2,
        /// Another receiver on the same interface is there already.
        Twin = 3,
        /// The topology file does not name it.
        NotInTopology = 4,
        /// Short frames reach it, the longest do not.
        Path = 5,
        /// It is none of the hosts that the sender has named.
        NotWanted = 6,
    }
}

impl Refusal {
    /// The reason in two or three words.
    pub fn words(self) -> &'static str {
        match self {
            Refusal::SmallMtu => "MTU too small",
            Refusal::NoSpace => "no space",
            Refusal::Late => "too late",
            Refusal::Twin => "name or interface taken",
            Refusal::NotInTopology => "not in the topology",
            Refusal::Path => "smaller MTU on the way",
            Refusal::NotWanted => "not asked for",
        }
    }
}

wire_enum! {
    /// How far the session is that a root announces.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    Stage {
        /// It waits for receivers.
        #[default]
        Gathering = 0,
        /// It has started, and takes nobody in any more.
        Started = 1,
        /// It has started, and who comes late may still join.
        LateWelcome = 2,
    }
}

wire_enum! {
    /// What a member is busy with.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    MemberState {
        /// It receives, and nothing holds it up.
        #[default]
        Alive = 0,
        /// Its application takes frames more slowly than they come.
        Blocked = 1,
        /// It waits for frames.
        Starved = 2,
        /// It has everything and checks it.
        Verifying = 3,
        /// A child of its takes frames more slowly than they come.
        WaitsForChild = 4,
        /// It has everything and waits for its disk.
        Syncing = 5,
        /// It has verified everything and waits for the root's word.
        Settled = 6,
        /// It has given its last report.
        Done = 7,
    }
}

impl MemberState {
    /// What it does, in words that follow the host's name.
    pub fn words(self) -> &'static str {
        match self {
            MemberState::Alive => "is receiving",
            MemberState::Blocked => "waits for its disk or for whoever reads its output",
            MemberState::Starved => "waits for frames",
            MemberState::Verifying => "is verifying",
            MemberState::WaitsForChild => "waits for a host behind it",
            MemberState::Syncing => "is syncing to its disk",
            MemberState::Settled => "has verified everything and waits for the verdict",
            MemberState::Done => "is done",
        }
    }
}
