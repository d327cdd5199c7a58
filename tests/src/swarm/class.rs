//! The classes of faults: each seed switches some of them on.

/// Declares the classes with what they are called in reports.
macro_rules! classes {
    ($($(#[$about:meta])* $name:ident = $words:literal,)*) => {
        /// A class of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class {
            $($(#[$about])* $name,)*
        }

        impl Class {
            /// All of them.
            pub const ALL: &'static [Class] = &[$(Class::$name),*];

            /// What it is called.
            pub fn words(self) -> &'static str {
                match self { $(Class::$name => $words,)* }
            }
        }
    };
}

classes! {
    /// Deliveries are lost independently.
    Loss = "loss",
    /// Nothing gets through from one host, or to it, while the other direction works.
    OneWay = "one-way loss",
    /// Only frames of one kind are lost, in one direction.
    KindLoss = "loss by kind",
    /// Only group frames are lost, or only those to one host.
    CastLoss = "loss of multicast or of unicast only",
    /// Gilbert and Elliott's channel: good times, and bad ones in which most is lost.
    Bursts = "bursts of loss",
    /// What is lost is lost for all hosts behind one switch.
    SubtreeLoss = "correlated loss of a subtree",
    /// Long frames are lost, or short ones.
    SizeLoss = "loss by size",
    /// Between two hosts much is lost.
    PairLoss = "loss by pair",
    /// Two groups of hosts do not hear each other for a while.
    Partition = "partition",
    /// Deliveries come later, and overtake each other.
    Jitter = "jitter",
    /// Deliveries come twice, the second time at once or much later.
    Duplicate = "duplicates",
    /// A bit is flipped on the way, which the checksum finds.
    BitFlip = "flipped bits",
    /// A process stands still for a while.
    Pause = "pause",
    /// A host dies.
    Crash = "crash",
    /// A cable is out for moments, again and again.
    LinkFlap = "link flaps",
    /// A process needs time for each frame, and to wake up.
    SlowCpu = "slow CPU",
    /// A disk is slow to write, settle or publish.
    SlowDisk = "slow disk",
    /// A disk fails to write, settle or publish.
    DiskError = "disk error",
    /// An application takes, or gives, a little now and then.
    Lazy = "lazy application",
    /// Network cards and switches have small rings and queues.
    SmallRings = "small rings",
    /// The root dies.
    RootDeath = "root death",
    /// A host dies and comes back with its address, as another run.
    Restart = "restart",
    /// The port of a host takes no long frames.
    MtuMismatch = "MTU mismatch",
    /// Switches police what they flood.
    StormControl = "storm control",
    /// Switches begin to police what they flood while a cast runs that nobody asked for.
    Policing = "switches that begin to police a cast",
    /// The ports of a switch share a small buffer.
    SharedBuffer = "shared switch buffer",
    /// Long queues stop whoever fills them.
    PauseFrames = "pause frames",
    /// The kernel has no room for what is sent: ENOBUFS, EAGAIN, batches of which it takes a part.
    SendErrors = "send errors",
    /// Timers ring late.
    TimerSlack = "timer slack",
    /// The clock's microseconds pass 32 bits during the session.
    Wrap = "stamps that wrap",
    /// Frames of an older session of the same hosts come again.
    Replay = "replays of an old session",
    /// Frames of another version.
    OtherVersion = "frames of another version",
    /// Payload is damaged in a way the checksum does not show.
    Damage = "damage that the checksum passes",
    /// True frames come a second time with false values, from the right address.
    Hostile = "hostile values",
    /// A second root of the group.
    TwoRoots = "two roots",
    /// Hosts that cannot take part: too small an MTU, no room, a name that is not wanted or taken.
    Misfits = "misfits",
    /// Hosts that come late.
    Latecomers = "latecomers",
    /// A user stops a receiver, or the root.
    Interrupt = "interrupted by a user",
    /// No plan can be made: the topology does not name the root.
    NoPlan = "a root that its topology does not name",
    /// A rank of a communicator runs another program than the others.
    Mistake = "a rank with another program",
    /// What receivers have of the content already is not what they said it is.
    FalseHoldings = "holdings that are not what they were",
    /// Every host has numbers of its own.
    OwnTuning = "own tunings",
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = Class::ALL.len();

    /// Its place among them.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Class {
    /// Whether somebody speaks in the name of others, or damages what they say: then everything may fail, and nothing
    /// may be false.
    pub fn forges(self) -> bool {
        matches!(self, Class::Damage | Class::Hostile)
    }

    /// Whether it may keep a host from being heard, or from moving, for long.
    pub fn takes_away(self) -> bool {
        use Class::{BitFlip, Duplicate, FalseHoldings, Jitter, SlowCpu, SlowDisk};
        !matches!(self, Jitter | Duplicate | BitFlip | SlowCpu | SlowDisk | FalseHoldings)
    }

    /// Whether it may make a host slower than the others.
    pub fn slows(self) -> bool {
        !matches!(self, Class::Duplicate)
    }
}
