//! What has been measured so far.

use super::parcel::Parcel;
use super::processor::Processors;
use super::settings::Unicast;
use ethbcast_transport::wire::Peer;
use std::collections::BTreeMap;

/// So many tests in a row without any answer, and a host counts as gone.
const MUTE_TESTS: u32 = 3;

/// Of so many frames a loss that is known beforehand is a part.
const KNOWN_FRAMES: u64 = 1_000_000;

/// Samples of one size, in nanoseconds.
type Samples = BTreeMap<usize, Vec<u64>>;

/// How frames to the group address fare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CastFinding {
    /// They arrive as fast as unicast does.
    FullRate,
    /// Above a certain rate they are thrown away, while unicast arrives: the switch's storm control, most likely.
    Policed {
        /// The rate that gets through.
        knee_frames_per_second: u64,
    },
    /// It was not asked for, or nobody could say.
    #[default]
    NotMeasured,
}

/// What a stream to a target has shown, for each frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct BulkFinding {
    pub gap_nanos: u64,
    /// What it took the processors, to send and to receive, if they tell.
    pub work_nanos: Option<(u64, u64)>,
}

/// What a stream down a chain has shown, for each frame.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainFinding {
    /// How many are sent each frame.
    pub copies: u64,
    /// What it took the processor of each relay.
    pub relaying_nanos: Vec<u64>,
    /// The time between two at the end.
    pub gap_nanos: Option<u64>,
}

/// What is known of one target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub peer: Peer,
    /// Whether it has answered the roll-call.
    pub present: bool,
    /// The largest MTU whose frames came back.
    pub mtu_bytes: Option<usize>,
    pub round_trips: Samples,
    pub gaps: Samples,
    /// What a message takes the processors: to send, to receive.
    pub sending: Samples,
    pub receiving: Samples,
    pub bulk: Option<BulkFinding>,
    /// What tells its computer from others, if it has told.
    pub computer: Option<u64>,
    /// Frames of its trains, and those that were lost.
    pub sent: u64,
    pub lost: u64,
    mute: u32,
}

/// What is known of all.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    pub targets: Vec<Target>,
    /// The longest payload that passes to all targets, as far as is known.
    pub payload_bytes: usize,
    pub cast: CastFinding,
    pub chain: ChainFinding,
    /// What a frame of a cast took this end's processor, for each report.
    pub casting_nanos: Vec<u64>,
    /// This end's processors, if it is known what time they spend.
    pub processors: Option<Processors>,
}

impl Target {
    pub(super) fn new(peer: Peer) -> Target {
        Target {
            peer,
            present: false,
            mtu_bytes: None,
            round_trips: Samples::new(),
            gaps: Samples::new(),
            sending: Samples::new(),
            receiving: Samples::new(),
            bulk: None,
            computer: None,
            sent: 0,
            lost: 0,
            mute: 0,
        }
    }

    /// One of which so much is known beforehand, with frames of this payload.
    pub(super) fn known(peer: Peer, payload_bytes: usize, unicast: &Unicast) -> Target {
        let mut target = Target { present: true, ..Target::new(peer) };
        target.gaps.insert(payload_bytes, vec![unicast.frame_gap.as_nanos() as u64]);
        target.sent = KNOWN_FRAMES;
        target.lost = (KNOWN_FRAMES as f64 * unicast.loss.clamp(0.0, 1.0)) as u64;
        target
    }

    /// Takes note of whether a test was answered at all.
    pub(super) fn heard(&mut self, answered: bool) {
        self.mute = if answered { 0 } else { self.mute + 1 };
        self.present &= self.mute < MUTE_TESTS;
    }

    /// What part of its frames was lost.
    pub(super) fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// How long a round trip of so many bytes should take, going by what smaller ones took.
    pub(super) fn expected_round_trip(&self, bytes: usize) -> Option<u64> {
        let (&known_bytes, samples) = self.round_trips.range(..=bytes).next_back()?;
        Some(median(samples)?.saturating_mul(bytes.div_ceil(known_bytes.max(1)) as u64))
    }

    /// Full frames it takes in a second.
    pub(super) fn frames_per_second(&self, payload_bytes: usize) -> Option<f64> {
        let gap_nanos = median(self.gaps.get(&payload_bytes)?)?;
        Some(1e9 / gap_nanos.max(1) as f64)
    }
}

impl Findings {
    /// How many targets answer.
    pub(super) fn present(&self) -> usize {
        self.targets.iter().filter(|target| target.present).count()
    }

    /// The cores that this end shares with all who answer; 0 if some are on a computer of their own, or do not say.
    pub(super) fn shared_cores(&self) -> u32 {
        let shares = |here: u64| {
            let mut present = self.targets.iter().filter(|target| target.present).peekable();
            present.peek().is_some() && present.all(|target| target.computer == Some(here))
        };
        let shared = self.processors.filter(|processors| processors.computer().is_some_and(shares));
        shared.map_or(0, Processors::cores)
    }

    /// A message of this size.
    pub(super) fn parcel(&self, bytes: usize) -> Parcel {
        Parcel { bytes, payload_bytes: self.payload_bytes }
    }
}

/// The middle one of the samples, or the mean of the two in the middle.
pub(super) fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let (middle, count) = (sorted.len() / 2, sorted.len());
    match count {
        0 => None,
        _ if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}
