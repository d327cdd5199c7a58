//! The classes of faults. Each seed switches some of them on.

macro_rules! classes {
    ($($(#[$about:meta])* $name:ident = $words:literal,)*) => {
        /// A class of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class {
            $($(#[$about])* $name,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &'static [Class] = &[$(Class::$name),*];

            /// Returns the name used in reports.
            pub fn words(self) -> &'static str {
                match self { $(Class::$name => $words,)* }
            }
        }
    };
}

classes! {
    /// Deliveries are lost independently.
    Loss = "loss",
    /// All frames from one host, or to it, are lost, while the other direction works.
    OneWay = "one-way loss",
    /// Only frames of one kind are lost, in one direction.
    KindLoss = "loss by kind",
    /// Only group frames are lost, or only those to one host.
    CastLoss = "loss of multicast or of unicast only",
    /// Gilbert–Elliott channel: good periods, and bad ones with high loss.
    Bursts = "bursts of loss",
    /// Losses are common to all hosts behind one switch.
    SubtreeLoss = "correlated loss of a subtree",
    /// Long frames are lost, or short ones.
    SizeLoss = "loss by size",
    /// Loss between two hosts is high.
    PairLoss = "loss by pair",
    /// Two sets of hosts cannot reach each other for a while.
    Partition = "partition",
    /// Deliveries are delayed and reordered.
    Jitter = "jitter",
    /// Deliveries are duplicated, the copy arriving at once or much later.
    Duplicate = "duplicates",
    /// A bit is flipped in transit, which the checksum detects.
    BitFlip = "flipped bits",
    /// A process is suspended for a while.
    Pause = "pause",
    /// A host dies.
    Crash = "crash",
    /// A cable is down for short periods, repeatedly.
    LinkFlap = "link flaps",
    /// A process needs time for each frame, and to wake up.
    SlowCpu = "slow CPU",
    /// A disk is slow to write, settle or publish.
    SlowDisk = "slow disk",
    /// A disk fails to write, settle or publish.
    DiskError = "disk error",
    /// An application takes or gives a little at a time.
    Lazy = "lazy application",
    /// Network cards and switches have small rings and queues.
    SmallRings = "small rings",
    /// The root dies.
    RootDeath = "root death",
    /// A host dies and comes back with its address, as another run.
    Restart = "restart",
    /// The port of a host drops long frames.
    MtuMismatch = "MTU mismatch",
    /// Switches police what they flood.
    StormControl = "storm control",
    /// Switches begin to police flooded frames while a cast runs that the root has chosen itself.
    Policing = "switches that begin to police a cast",
    /// The ports of a switch share a small buffer.
    SharedBuffer = "shared switch buffer",
    /// Full queues send pause frames.
    PauseFrames = "pause frames",
    /// The kernel has no room for outgoing frames: ENOBUFS, EAGAIN, partly accepted batches.
    SendErrors = "send errors",
    /// Timers fire late.
    TimerSlack = "timer slack",
    /// The clock's microseconds exceed 32 bits during the session.
    Wrap = "stamps that wrap",
    /// Frames of an older session between these hosts are replayed.
    Replay = "replays of an old session",
    /// Frames of another version arrive.
    OtherVersion = "frames of another version",
    /// Payload is damaged in a way that the checksum does not detect.
    Damage = "damage that the checksum passes",
    /// Genuine frames are repeated with false values, from the right address.
    Hostile = "hostile values",
    /// A second root announces itself in the group.
    TwoRoots = "two roots",
    /// Hosts that cannot take part: too small an MTU, no room, a name that is not admitted or
    /// taken.
    Misfits = "misfits",
    /// Hosts that start late.
    Latecomers = "latecomers",
    /// A user stops a receiver, or the root.
    Interrupt = "interrupted by a user",
    /// No plan can be made: the topology does not name the root.
    NoPlan = "a root that its topology does not name",
    /// A rank of a communicator runs another program than the others.
    Mistake = "a rank with another program",
    /// Receivers' holdings are not what they announced.
    FalseHoldings = "holdings that are not what they were",
    /// Every host has its own tuning.
    OwnTuning = "own tunings",
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = Class::ALL.len();

    /// Index in [`Class::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Class {
    /// Whether frames are forged or damaged undetectably: then everything may fail, and nothing may
    /// be false.
    pub fn forges(self) -> bool {
        matches!(self, Class::Damage | Class::Hostile)
    }

    /// Whether this class may keep a host unreachable or motionless for long.
    pub fn takes_away(self) -> bool {
        use Class::{BitFlip, Duplicate, FalseHoldings, Jitter, SlowCpu, SlowDisk};
        !matches!(self, Jitter | Duplicate | BitFlip | SlowCpu | SlowDisk | FalseHoldings)
    }

    /// Whether this class may make a host slower than the others.
    pub fn slows(self) -> bool {
        !matches!(self, Class::Duplicate)
    }
}
