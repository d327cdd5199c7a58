//! Settings of a network measurement: its tests, message sizes and time limits.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Guard;
use std::time::Duration;

/// The paper's eight sizes (Patarasuk 2008 §5.1) and twice the largest, in bytes.
const SIZES: [usize; 9] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Length of the message that finds which targets reply, in bytes; also the shortest size of a
/// short probe.
pub(super) const SMALL_BYTES: usize = 64;

/// Unicast measurements known beforehand: the interval between full frames of a train, and the
/// share of them lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unicast {
    pub frame_gap: Duration,
    pub loss: f64,
}

/// Tests of a [`Prober`](super::Prober) and their limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeSettings {
    pub mtu_bytes: usize,
    pub guard: Guard,
    pub sizes_bytes: Vec<usize>,
    /// Repetitions of everything; the medians count.
    pub rounds: u32,
    /// Round trips for each size, host and round; fewer, but at least one, if they take longer than
    /// a train.
    pub pings: u32,
    /// Total time of all trains; each gets its share of it, within `train_min` and `train_max`, but
    /// at least `train_longest` for the longest messages, and has at least `train_messages`
    /// messages.
    pub trains: Duration,
    pub train_min: Duration,
    pub train_max: Duration,
    pub train_longest: Duration,
    /// Length of a stream to each of the first targets, and of one to all by cast, which show the
    /// processor time of streams. One down a chain of these lasts six times as long. Zero: no
    /// streams.
    pub bulk: Duration,
    pub train_messages: u64,
    /// Wait for the first reply of a host before it is probed again, which doubles each time, and
    /// probes before a silent host counts as gone.
    pub patience: Duration,
    pub roll_calls: u32,
    /// Whether to look for the largest frame that passes, instead of trusting the interface.
    pub seeks_mtu: bool,
    /// Group address for the test of broadcast, which every target listens to; `None` omits the
    /// test.
    pub cast: Option<MacAddr>,
    /// Known unicast results; if set, only broadcast is tried, with all targets, and gently.
    pub unicast: Option<Unicast>,
    /// Time limit; the prober then ends with its findings so far.
    pub budget: Duration,
    /// Time limit used if the first one is too short to measure two sizes with a host that replies,
    /// as on slow links: the longest messages are then omitted.
    pub slow_budget: Duration,
}

impl ProbeSettings {
    /// Returns the settings that measure everything, in 2 to 6 s on a link of 100 Mbit/s or more.
    /// `mtu_bytes` is the interface's.
    ///
    /// Broadcast is left out unless [`with_cast`](ProbeSettings::with_cast) names the group
    /// address.
    pub fn full(mtu_bytes: usize) -> ProbeSettings {
        ProbeSettings {
            mtu_bytes,
            guard: Guard::Plain,
            sizes_bytes: with_full_frame(&SIZES, mtu_bytes),
            rounds: 3,
            pings: 5,
            trains: Duration::from_secs(2),
            train_min: Duration::from_millis(4),
            // 3000 full frames at 1 Gbit/s. A receiver's pause of 1 ms is 3 % of it.
            train_max: Duration::from_millis(40),
            train_longest: Duration::ZERO,
            // Pauses begin after 5 ms, and windows have grown after 30 ms.
            bulk: Duration::from_millis(90),
            train_messages: 3,
            patience: Duration::from_millis(50),
            roll_calls: 10,
            seeks_mtu: true,
            cast: None,
            unicast: None,
            budget: Duration::from_secs(30),
            slow_budget: Duration::ZERO,
        }
    }

    /// Returns the settings that measure round trip and gap at three sizes (64 bytes, one full
    /// frame, eight of them) within 50 ms. On slow links, from 64 kbit/s on, they measure the first
    /// two, in the time of some 20 full frames.
    pub fn short(mtu_bytes: usize) -> ProbeSettings {
        let frame = full_payload(&Guard::Plain, mtu_bytes);
        ProbeSettings {
            sizes_bytes: vec![SMALL_BYTES, frame, frame * 8],
            rounds: 1,
            pings: 3,
            trains: Duration::from_millis(15),
            train_min: Duration::from_millis(2),
            train_max: Duration::from_millis(5),
            // 250 KB at 100 Mbit/s: enough to empty a shaper's bucket.
            train_longest: Duration::from_millis(20),
            bulk: Duration::ZERO,
            patience: Duration::from_millis(5),
            roll_calls: 8,
            seeks_mtu: false,
            budget: Duration::from_millis(50),
            slow_budget: Duration::from_secs(5),
            ..ProbeSettings::full(mtu_bytes)
        }
    }

    /// Returns the settings that test whether frames to `group` arrive, given the unicast results.
    /// The ramp of four short trains takes 60 to 100 ms with at most 160 frames, and ends at the
    /// first sign of policing: some switches shut a port that exceeds their limit.
    pub fn ramp(mtu_bytes: usize, group: MacAddr, unicast: Unicast) -> ProbeSettings {
        ProbeSettings {
            patience: Duration::from_millis(10),
            bulk: Duration::ZERO,
            budget: Duration::from_secs(1),
            unicast: Some(unicast),
            ..ProbeSettings::full(mtu_bytes).with_cast(group)
        }
    }

    /// Measures frames with this guard, which carry less if it is keyed.
    pub fn guarded(mut self, guard: &Guard) -> ProbeSettings {
        let [plain, full] = [&self.guard, guard].map(|guard| full_payload(guard, self.mtu_bytes));
        for size in self
            .sizes_bytes
            .iter_mut()
            .filter(|size| **size % plain == 0)
        {
            *size = *size / plain * full;
        }
        self.guard = guard.clone();
        self
    }

    pub fn with_cast(mut self, group: MacAddr) -> ProbeSettings {
        self.cast = Some(group);
        self
    }

    pub(super) fn least_train(&self, bytes: usize) -> Duration {
        let is_longest = self.sizes_bytes.iter().all(|&other| other <= bytes);
        if is_longest {
            self.train_longest
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn train(&self, targets: usize) -> Duration {
        let trains = targets * self.sizes_bytes.len() * self.rounds as usize;
        let share = self.trains / u32::try_from(trains.max(1)).unwrap_or(u32::MAX);
        share.clamp(self.train_min, self.train_max)
    }
}

pub(super) fn full_payload(guard: &Guard, mtu_bytes: usize) -> usize {
    guard.payload_bytes(mtu_bytes).max(SMALL_BYTES)
}

fn with_full_frame(sizes: &[usize], mtu_bytes: usize) -> Vec<usize> {
    let mut sizes = sizes.to_vec();
    sizes.push(full_payload(&Guard::Plain, mtu_bytes));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
