//! Intermediate results of a network measurement, per host.

use super::probe::FramedMessage;
use super::processor::Processors;
use super::settings::Unicast;
use ethbcast_transport::wire::Peer;
use std::collections::BTreeMap;

/// Consecutive unanswered tests after which a host counts as gone.
const MUTE_TESTS: u32 = 3;

/// Assumed sample size of a loss known beforehand.
const KNOWN_FRAMES: u64 = 1_000_000;

type Samples = BTreeMap<usize, Vec<u64>>;

/// Fate of broadcast frames, in comparison with unicast ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CastFinding {
    FullRate,
    /// Loss above this rate, while unicast arrives: most likely the switch's storm control.
    Policed {
        threshold_frames_per_second: u64,
    },
    /// Slower arrival than unicast's, by the factor `times`: frames are copied for each host at the
    /// sender's end, as overlays do (the factor is the number of hosts then), or sent at a lower
    /// rate, as in a radio cell.
    Slower {
        frames_per_second: u64,
        times: f64,
        is_copied: bool,
    },
    /// The test was not requested, or no host could report it.
    #[default]
    NotMeasured,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BulkFinding {
    pub gap_nanos: u64,
    pub work_nanos: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ChainFinding {
    pub copies: u64,
    pub relaying_nanos: Vec<u64>,
    pub gap_nanos: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub peer: Peer,
    pub present: bool,
    pub mtu_bytes: Option<usize>,
    pub round_trips: Samples,
    pub gaps: Samples,
    /// Shares by which parts of trains differ from the whole, by size.
    pub spreads: BTreeMap<usize, Vec<f64>>,
    pub sending: Samples,
    pub receiving: Samples,
    pub bulk: Option<BulkFinding>,
    pub computer: Option<u64>,
    pub sent: u64,
    pub lost: u64,
    mute: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Findings {
    pub targets: Vec<Target>,
    pub payload_bytes: usize,
    pub cast: CastFinding,
    pub chain: ChainFinding,
    pub casting_nanos: Vec<u64>,
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
            spreads: BTreeMap::new(),
            sending: Samples::new(),
            receiving: Samples::new(),
            bulk: None,
            computer: None,
            sent: 0,
            lost: 0,
            mute: 0,
        }
    }

    pub(super) fn known(peer: Peer, payload_bytes: usize, unicast: &Unicast) -> Target {
        let mut target = Target {
            present: true,
            ..Target::new(peer)
        };
        target
            .gaps
            .insert(payload_bytes, vec![unicast.frame_gap.as_nanos() as u64]);
        target.sent = KNOWN_FRAMES;
        target.lost = (KNOWN_FRAMES as f64 * unicast.loss.clamp(0.0, 1.0)) as u64;
        target
    }

    pub(super) fn on_echo(&mut self, answered: bool) {
        self.mute = if answered { 0 } else { self.mute + 1 };
        self.present &= self.mute < MUTE_TESTS;
    }

    pub(super) fn loss(&self) -> f64 {
        if self.sent == 0 {
            0.0
        } else {
            self.lost as f64 / self.sent as f64
        }
    }

    pub(super) fn expected_round_trip(&self, bytes: usize) -> Option<u64> {
        let (&known_bytes, samples) = self.round_trips.range(..=bytes).next_back()?;
        Some(median(samples)?.saturating_mul(bytes.div_ceil(known_bytes.max(1)) as u64))
    }

    pub(super) fn frames_per_second(&self, payload_bytes: usize) -> Option<f64> {
        let gap_nanos = median(self.gaps.get(&payload_bytes)?)?;
        Some(1e9 / gap_nanos.max(1) as f64)
    }
}

impl Findings {
    pub(super) fn present(&self) -> usize {
        self.targets.iter().filter(|target| target.present).count()
    }

    /// Returns the number of cores that this end shares with all that reply; 0 if some are on
    /// another computer or do not report theirs.
    pub(super) fn shared_cores(&self) -> u32 {
        let shares = |here: u64| {
            let mut present = self
                .targets
                .iter()
                .filter(|target| target.present)
                .peekable();
            present.peek().is_some() && present.all(|target| target.computer == Some(here))
        };
        let shared = self
            .processors
            .filter(|processors| processors.computer().is_some_and(shares));
        shared.map_or(0, Processors::cores)
    }

    pub(super) fn framed(&self, bytes: usize) -> FramedMessage {
        FramedMessage {
            bytes,
            payload_bytes: self.payload_bytes,
        }
    }
}

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
