//! What a prober measures, and how long it may take.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::HEADER_BYTES;
use std::time::Duration;

/// The paper's eight sizes (Patarasuk 2008 §5.1) and twice the largest, in bytes.
const SIZES: [usize; 9] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// The message that finds out who answers, and the shortest that a short probe measures, in bytes.
pub(super) const SMALL_BYTES: usize = 64;

/// What is known of unicast beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unicast {
    /// The time between two full frames of many.
    pub frame_gap: Duration,
    /// Share of them that is lost.
    pub loss: f64,
}

/// What a [`Prober`](super::Prober) measures.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeSettings {
    /// The MTU of this host's interface.
    pub mtu_bytes: usize,
    /// Sizes of messages, in bytes.
    pub sizes_bytes: Vec<usize>,
    /// How often everything is measured; the medians count.
    pub rounds: u32,
    /// Round trips for each size, host and round; fewer, but at least one, if they take longer than a train.
    pub pings: u32,
    /// How long all trains together should take; each gets its share of it, within `train_min` and `train_max`.
    pub trains: Duration,
    /// The shortest train.
    pub train_min: Duration,
    /// The longest train.
    pub train_max: Duration,
    /// How long the train of the longest messages takes at least.
    pub train_longest: Duration,
    /// How long a stream to each of the first targets, and one to all by cast, lasts, which show what streams take
    /// processors; one down a chain of these lasts six times as long. Zero: there are none.
    pub bulk: Duration,
    /// Fewest messages of a train.
    pub train_messages: u64,
    /// How long to wait for the first answer of a host before it is asked again.
    pub patience: Duration,
    /// How often a host is asked before it counts as silent.
    pub roll_calls: u32,
    /// Whether to look for the largest frame that passes, instead of trusting the interface.
    pub seeks_mtu: bool,
    /// The group address to try broadcast on, which every target listens to; `None` to leave broadcast out.
    pub cast: Option<MacAddr>,
    /// If this is known, nothing but broadcast is tried, with all targets, and gently.
    pub unicast: Option<Unicast>,
    /// After so long the prober ends, with what it has.
    pub budget: Duration,
}

impl ProbeSettings {
    /// Everything, in 2 to 6 s on a link of 100 Mbit/s or more. `mtu_bytes` is the interface's.
    ///
    /// Broadcast is left out unless [`with_cast`](ProbeSettings::with_cast) names the group address.
    pub fn full(mtu_bytes: usize) -> ProbeSettings {
        ProbeSettings {
            mtu_bytes,
            sizes_bytes: with_full_frame(&SIZES, mtu_bytes),
            rounds: 3,
            pings: 5,
            trains: Duration::from_secs(2),
            train_min: Duration::from_millis(4),
            // At 1 Gbit/s 3000 full frames; against a nap of the receiver of 1 ms, 3 %.
            train_max: Duration::from_millis(40),
            train_longest: Duration::ZERO,
            // Naps begin after 5 ms, and windows have grown after 30.
            bulk: Duration::from_millis(90),
            train_messages: 3,
            patience: Duration::from_millis(50),
            roll_calls: 10,
            seeks_mtu: true,
            cast: None,
            unicast: None,
            budget: Duration::from_secs(30),
        }
    }

    /// Round trip and gap at three sizes (64 bytes, one full frame, eight of them) within 50 ms, whatever happens.
    pub fn short(mtu_bytes: usize) -> ProbeSettings {
        let frame = full_payload(mtu_bytes);
        ProbeSettings {
            sizes_bytes: vec![SMALL_BYTES, frame, frame * 8],
            rounds: 1,
            pings: 3,
            trains: Duration::from_millis(15),
            train_min: Duration::from_millis(2),
            train_max: Duration::from_millis(5),
            // At 100 Mbit/s 250 KB: what a shaper's bucket lets through at once is over by then.
            train_longest: Duration::from_millis(20),
            bulk: Duration::ZERO,
            patience: Duration::from_millis(5),
            roll_calls: 3,
            seeks_mtu: false,
            budget: Duration::from_millis(50),
            ..ProbeSettings::full(mtu_bytes)
        }
    }

    /// Whether frames to `group` arrive, of which so much is known by unicast: by a ramp of four short trains, 60 to
    /// 100 ms with 160 frames in all at most, which ends at the first sign of policing. Some switches shut a port that
    /// is sent more than they let through.
    pub fn ramp(mtu_bytes: usize, group: MacAddr, unicast: Unicast) -> ProbeSettings {
        ProbeSettings {
            patience: Duration::from_millis(10),
            bulk: Duration::ZERO,
            budget: Duration::from_secs(1),
            unicast: Some(unicast),
            ..ProbeSettings::full(mtu_bytes).with_cast(group)
        }
    }

    /// Also finds out how fast frames to `group` arrive.
    pub fn with_cast(mut self, group: MacAddr) -> ProbeSettings {
        self.cast = Some(group);
        self
    }

    /// How long a train of messages of so many bytes lasts at least, however many targets there are.
    pub(super) fn least_train(&self, bytes: usize) -> Duration {
        let is_longest = self.sizes_bytes.iter().all(|&other| other <= bytes);
        if is_longest { self.train_longest } else { Duration::ZERO }
    }

    /// How long one train lasts if there are so many targets.
    pub(super) fn train(&self, targets: usize) -> Duration {
        let trains = targets * self.sizes_bytes.len() * self.rounds as usize;
        let share = self.trains / u32::try_from(trains.max(1)).unwrap_or(u32::MAX);
        share.clamp(self.train_min, self.train_max)
    }
}

/// The longest payload of a frame.
pub(super) fn full_payload(mtu_bytes: usize) -> usize {
    mtu_bytes.saturating_sub(HEADER_BYTES).max(SMALL_BYTES)
}

/// The sizes, and a full frame: what segments are made of.
fn with_full_frame(sizes: &[usize], mtu_bytes: usize) -> Vec<usize> {
    let mut sizes = sizes.to_vec();
    sizes.push(full_payload(mtu_bytes));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
