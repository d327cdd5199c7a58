//! Congestion window for one receiver, and how losses shrink it.
//!
//! A window grows by the number of acknowledged frames until it is first cut, then by a frame a
//! round or a few. A cut is to 7/10, but never below a floor, so that a link's own losses cannot
//! stop it. Senders differ in when they cut it. A stream's unicast to one receiver (a lane)
//! attributes light loss to the link, because plans are contention-free and slowing down would not
//! help ([`LossRound`]). Messages of several hosts may share a cable: any loss is congestion, once
//! a round ([`Congestion`]).
//!
//! The queues of routers are everybody's ([`SharedPath`]; RFC 8085 §3.1). A lane that crosses one
//! has NewReno as in RFC 9002 §7: any loss halves the window, once a round trip. Silence for three
//! timeouts lets it fall to its floor, a pause begins it anew, and frames are paced at a little
//! more than a window in a round trip.

use super::echo::{Newest, Rtt};
use super::stamp::Stamp;
use crate::agenda::TokenBucket;
use crate::time::Instant;
use crate::tuning::WindowTuning;
use std::time::Duration;

/// First and smallest window of a shared path (RFC 9002 §7.2): ten frames, but no more bytes than
/// ten of 1500, and two.
const SHARED_START_FRAMES: u64 = 10;
const SHARED_START_BYTES: usize = 14_720;
const SHARED_MIN_FRAMES: u64 = 2;

/// Size of a window. Up to `threshold` it grows by the acknowledged frames; above, by one frame in
/// the first round, then by one or two a round, or by one with each acknowledgement of one frame.
/// Growth by one frame a round made 8 MiB over a path that reorders by 20 ms take 629 ms instead of
/// less than 452 (simulated). `before_cut` keeps size and threshold before the first cut, until the
/// window has grown to that size again. On a shared path it always grows by one frame a round.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    frames: u64,
    start: u64,
    min: u64,
    max: u64,
    threshold: u64,
    grown: u64,
    before_cut: Option<(u64, u64)>,
    is_shared: bool,
}

impl Window {
    pub(crate) fn new(tuning: &WindowTuning, most: u64) -> Window {
        let max = tuning.max_frames.min(most);
        let (frames, min) = (tuning.start_frames.min(max), tuning.min_frames.min(max));
        Window {
            frames,
            start: frames,
            min,
            max,
            threshold: max,
            grown: 0,
            before_cut: None,
            is_shared: false,
        }
    }

    /// Creates the window of a path whose queues others share, for frames of `payload_bytes`.
    pub(crate) fn shared(tuning: &WindowTuning, payload_bytes: usize) -> Window {
        let start = (SHARED_START_BYTES / payload_bytes.max(1)) as u64;
        let tuning = WindowTuning {
            start_frames: start.clamp(SHARED_MIN_FRAMES, SHARED_START_FRAMES),
            min_frames: SHARED_MIN_FRAMES,
            ..tuning.clone()
        };
        Window {
            is_shared: true,
            ..Window::new(&tuning, u64::MAX)
        }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether it grows by all that is acknowledged (slow start).
    pub(crate) fn is_doubling(&self) -> bool {
        self.frames < self.threshold
    }

    /// Whether the window limits the sender with `in_flight` frames; only then it grows.
    pub(crate) fn is_limiting(&self, in_flight: u64) -> bool {
        in_flight * 2 >= self.frames
    }

    pub(crate) fn grow(&mut self, acknowledged: u64) {
        if self.is_doubling() {
            self.frames += acknowledged;
        } else {
            self.grown += acknowledged;
            let round = self.frames;
            self.frames += self.grown / round;
            // Elsewhere by the window after it has grown.
            self.grown %= if self.is_shared { round } else { self.frames };
        }
        self.frames = self.frames.min(self.max);
        self.before_cut
            .take_if(|(frames, _)| *frames <= self.frames);
    }

    pub(crate) fn cut(&mut self) {
        self.before_cut.get_or_insert((self.frames, self.threshold));
        // At its floor it may have got no frame through, which says nothing of the path's capacity.
        let is_at_floor = self.is_shared && self.frames <= self.min;
        let kept_percent = if self.is_shared { 50 } else { 70 };
        self.frames = (self.frames * kept_percent / 100).max(self.min);
        if !is_at_floor {
            self.threshold = self.frames;
        }
    }

    /// Falls to the floor, because nothing came through for long (RFC 9002 §7.6).
    pub(crate) fn collapse(&mut self) {
        self.cut();
        self.frames = self.min;
    }

    /// Begins anew after an idle time, in which the path may have changed (RFC 5681 §4.1; the
    /// threshold as in RFC 2861).
    pub(crate) fn restart(&mut self) {
        self.threshold = self.threshold.max(self.frames * 3 / 4);
        self.frames = self.frames.min(self.start);
    }

    /// Undoes the cuts, because frames counted as lost were only overtaken (RFC 4015). On a shared
    /// path one such frame proves nothing about the others that were lost.
    pub(crate) fn undo_cut(&mut self) {
        if let Some(before) = self.before_cut.take_if(|_| !self.is_shared) {
            (self.frames, self.threshold) = before;
        }
    }
}

/// Frames of a round; fewer say little about the loss rate: at 30 % loss, one round in 30 of this
/// length loses 40 %.
const ROUND_FRAMES: u64 = 64;

#[derive(Clone, Debug)]
pub(crate) struct LossRound {
    tolerated_percent: u64,
    ends: Stamp,
    acknowledged: u64,
    lost: u64,
}

impl LossRound {
    pub(crate) fn new(tuning: &WindowTuning) -> LossRound {
        LossRound {
            tolerated_percent: tuning.loss_tolerated_percent,
            ends: Stamp::NONE,
            acknowledged: 0,
            lost: 0,
        }
    }

    pub(crate) fn is_heavy(
        &mut self,
        acknowledged: u64,
        lost: u64,
        echo: Stamp,
        newest: Stamp,
    ) -> bool {
        self.acknowledged += acknowledged;
        self.lost += lost;
        let frames = self.acknowledged + self.lost;
        if self.ends == Stamp::NONE {
            self.ends = newest;
            return false;
        }
        let ended = echo.is_after(self.ends) && frames >= ROUND_FRAMES;
        let heavy = ended && self.lost * 100 > frames * self.tolerated_percent;
        if ended {
            (self.ends, self.acknowledged, self.lost) = (newest, 0, 0);
        }
        heavy
    }

    pub(crate) fn forgive(&mut self) {
        self.lost = 0;
    }
}

/// The newest stamp when the window was last cut: the loss of a frame sent before is no new one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Congestion {
    cut_at: Newest,
}

impl Congestion {
    pub(crate) fn is_new(&mut self, now: Instant, sent_at: Stamp, newest: Stamp) -> bool {
        let new = self.is_after_cut(now, sent_at);
        if new {
            self.cut_at = Newest::new(newest, now);
        }
        new
    }

    fn is_after_cut(&self, now: Instant, sent_at: Stamp) -> bool {
        sent_at.is_after(self.cut_at.stamp) || (sent_at != Stamp::NONE && self.cut_at.is_stale(now))
    }
}

/// Frames that may leave at once after a pause (RFC 9002 §7.7), and those of one wake-up.
const BURST_FRAMES: u32 = 10;
const WAKE_UP_FRAMES: u32 = 4;
/// Time of a late wake-up that is made up for.
const LATE: Duration = Duration::from_micros(500);
/// Timeouts without an answer after which a loss is persistent congestion.
const SILENT_TIMEOUTS: u32 = 3;

/// The path to one receiver. A frame that would have left too early is `held` until that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedPath {
    congestion: Congestion,
    bucket: TokenBucket,
    gap: Duration,
    held: Option<Instant>,
    /// Time of the last frame or answer: a round trip may take longer than any timeout.
    active_at: Option<Instant>,
}

impl SharedPath {
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.held.take_if(|at| *at <= now);
    }

    /// Whether a frame may leave now. If not, [`due`](SharedPath::due) gives the time at which
    /// several may.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        let wait = (self.gap * (WAKE_UP_FRAMES - 1)).min(LATE);
        self.held = self.bucket.ready_at(now).map(|at| at + wait);
        self.held.is_none()
    }

    /// Whether an answer to a frame sent under this stamp lets the window grow: not to one from
    /// before the last cut (RFC 9002 §7.3.2).
    pub(crate) fn is_recovered(&self, now: Instant, sent_at: Stamp) -> bool {
        self.congestion.is_after_cut(now, sent_at)
    }

    /// Takes note of a frame that leaves while `in_flight` others are on their way.
    pub(crate) fn on_sent(&mut self, now: Instant, in_flight: u64, rtt: &Rtt, window: &mut Window) {
        let since_last = self.active_at.replace(now).map(|at| now.since(at));
        if in_flight == 0 && since_last.is_some_and(|since| since > rtt.timeout(0)) {
            window.restart();
        }
        let Some(round_trip) = rtt.smoothed() else {
            return;
        };
        // A window that doubles in a round trip needs twice its present rate.
        let time = if window.is_doubling() {
            round_trip / 2
        } else {
            round_trip * 4 / 5
        };
        self.gap = time / u32::try_from(window.frames()).unwrap_or(u32::MAX);
        let depth = (self.gap * BURST_FRAMES).max(LATE);
        self.bucket.spend(now, self.gap, depth);
    }

    /// Takes note of an answer and the frames lost by it, the last of them sent under `sent_at`,
    /// with the time since the answer before. `newest` is the stamp drawn last.
    pub(crate) fn on_answer(
        &mut self,
        now: Instant,
        (sent_at, newest): (Stamp, Stamp),
        silence: Duration,
        rtt: &Rtt,
        window: &mut Window,
    ) {
        self.active_at = Some(now);
        if !self.congestion.is_new(now, sent_at, newest) {
            return;
        }
        if silence > rtt.timeout(0) * SILENT_TIMEOUTS {
            window.collapse();
        } else {
            window.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Tuning;

    struct StreamWindow(Window, LossRound);

    impl StreamWindow {
        fn new(tuning: &WindowTuning) -> StreamWindow {
            StreamWindow(Window::new(tuning, u64::MAX), LossRound::new(tuning))
        }

        fn rounds(&mut self, count: u32, from: u32, acknowledged: u64, lost: u64) -> u64 {
            for round in from..from + count {
                self.0.grow(acknowledged);
                if self
                    .1
                    .is_heavy(acknowledged, lost, Stamp(round + 1), Stamp(round + 1))
                {
                    self.0.cut();
                }
            }
            self.0.frames()
        }
    }

    #[test]
    fn light_loss_does_not_shrink_a_window_and_heavy_loss_does_once_a_round_down_to_the_floor() {
        let tuning = WindowTuning::default();
        let mut lane = StreamWindow::new(&tuning);
        assert_eq!(lane.rounds(20, 1, 90, 40), 32 + 20 * 90);
        assert_eq!(lane.rounds(1, 50, 0, 900), 1832 * 7 / 10);
        assert_eq!(
            lane.rounds(1, 60, 1282, 0),
            1283,
            "after a cut it grows by a frame a round"
        );
        assert_eq!(lane.rounds(40, 70, 0, 900), tuning.min_frames);
        let mut fresh = StreamWindow::new(&tuning);
        assert_eq!(
            fresh.rounds(3, 1, 10, 10),
            32 + 30,
            "three short rounds that lose half are not judged yet"
        );
    }

    #[test]
    fn many_losses_of_one_round_cut_the_window_once_and_no_loss_cuts_it_below_its_floor() {
        let tuning = WindowTuning::default();
        let (mut window, mut congestion) = (Window::new(&tuning, 1024), Congestion::default());
        let mut lose = |window: &mut Window, sent_at: u32, newest: u32| {
            if congestion.is_new(Instant::START, Stamp(sent_at), Stamp(newest)) {
                window.cut();
            }
        };
        window.grow(968);
        assert_eq!(window.frames(), 1000);
        (1..=50).for_each(|sent_at| lose(&mut window, sent_at, 100));
        assert_eq!(window.frames(), 700);
        window.undo_cut();
        assert_eq!(window.frames(), 1000, "nothing was lost at all");
        (101..=150).for_each(|sent_at| lose(&mut window, sent_at, 200));
        window.grow(700);
        assert_eq!(
            window.frames(),
            701,
            "after a cut it grows by a frame a round"
        );
        (2..=50).for_each(|round| lose(&mut window, round * 100, round * 100));
        assert_eq!(window.frames(), tuning.min_frames);
        assert!(
            window.is_limiting(8) && !window.is_limiting(7),
            "what does not hold it back need not grow"
        );
    }

    #[test]
    fn a_cut_window_grows_by_a_frame_in_the_first_round_then_with_each_acknowledgement_of_one() {
        let mut window = Window::new(&WindowTuning::default(), u64::MAX);
        window.grow(968);
        window.cut();
        (0..699).for_each(|_| window.grow(1));
        assert_eq!(window.frames(), 700);
        (0..10).for_each(|_| window.grow(1));
        assert_eq!(window.frames(), 710);
        (0..45).for_each(|_| window.grow(16));
        assert_eq!(window.frames(), 712, "two a round, if each is of 16");
    }

    #[test]
    fn a_loss_is_new_however_long_ago_the_one_before_was() {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let stamp = |seconds: u64| Stamp::of(at(seconds));
        let mut congestion = Congestion::default();
        assert!(congestion.is_new(at(1), stamp(1), stamp(1)));
        assert!(!congestion.is_new(at(2), stamp(1), stamp(2)), "sent before");
        // Stamps compare within 35 minutes.
        assert!(congestion.is_new(at(2700), stamp(2699), stamp(2700)));
        assert!(!congestion.is_new(at(5400), Stamp::NONE, stamp(5400)));
    }

    #[test]
    fn a_shared_paths_window_begins_small_halves_and_grows_by_a_frame_a_round() {
        let window = |payload| Window::shared(&WindowTuning::default(), payload).frames();
        assert_eq!([100, 1440, 8900, 65_000].map(window), [10, 10, 2, 2]);
        let mut window = Window::shared(&WindowTuning::default(), 1440);
        window.grow(190);
        assert!(window.frames() == 200 && window.is_doubling());
        window.cut();
        assert!(window.frames() == 100 && !window.is_doubling());
        window.undo_cut();
        window.grow(100);
        assert_eq!(window.frames(), 101, "others were lost");
    }

    #[test]
    fn a_shared_paths_window_doubles_up_to_where_it_was_cut_after_an_outage_or_a_pause() {
        let mut window = Window::shared(&WindowTuning::default(), 1440);
        window.grow(190);
        window.collapse();
        assert_eq!((window.frames(), window.threshold), (2, 100));
        (0..20).for_each(|_| window.cut());
        assert_eq!(
            (window.frames(), window.threshold),
            (2, 100),
            "nothing passed"
        );
        (0..7).for_each(|_| window.grow(window.frames()));
        assert!(window.frames() >= 100 && !window.is_doubling());
        window.restart();
        assert!(window.frames() == 10 && window.is_doubling());
        (0..5).for_each(|_| window.grow(window.frames()));
        assert!(!window.is_doubling(), "above three quarters");
    }

    struct Path(SharedPath, Rtt, Window);

    impl Path {
        /// A path with a round trip of 100 ms.
        fn new() -> Path {
            let tuning = Tuning::default();
            let mut rtt = Rtt::new(&tuning);
            (0..40).for_each(|_| rtt.sample(ms(100)));
            let window = Window::shared(&tuning.window, 1440);
            Path(SharedPath::default(), rtt, window)
        }

        fn send(&mut self, now: Instant, in_flight: u64) {
            self.0.on_sent(now, in_flight, &self.1, &mut self.2);
        }

        /// Sends for a second all that may leave; returns the number of frames.
        fn sent_in_a_second(&mut self, from: Instant) -> u64 {
            let (mut now, mut frames) = (from, 0);
            while now < from + ms(1000) {
                self.0.on_timeout(now);
                while self.0.admits(now) {
                    self.send(now, 1);
                    frames += 1;
                }
                now = self.0.due().expect("it waits");
            }
            frames
        }

        fn lose(&mut self, now: Instant, sent_at: Instant, silence: Duration) -> u64 {
            let stamps = (Stamp::of(sent_at), Stamp::of(now));
            self.0.on_answer(now, stamps, silence, &self.1, &mut self.2);
            self.2.frames()
        }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + ms(millis)
    }

    #[test]
    fn frames_are_paced_at_a_quarter_more_than_the_window_and_twice_as_fast_while_it_doubles() {
        let mut path = Path::new();
        path.2.grow(90);
        let frames = path.sent_in_a_second(at(1000));
        assert!((2000..2020).contains(&frames), "{frames}");
        path.2.cut();
        let frames = path.sent_in_a_second(at(3000));
        assert!((625..645).contains(&frames), "{frames}");
    }

    #[test]
    fn many_losses_of_a_round_trip_cut_the_window_once_and_silence_lets_it_fall() {
        let mut path = Path::new();
        path.2.grow(90);
        assert_eq!(path.lose(at(1000), at(900), ms(1)), 50);
        assert_eq!(
            path.lose(at(1050), at(990), ms(1)),
            50,
            "sent before the cut"
        );
        let is_recovered = |at| path.0.is_recovered(at, Stamp::of(at));
        assert!(!is_recovered(at(990)) && is_recovered(at(1001)));
        assert_eq!(path.lose(at(1200), at(1100), ms(1)), 25);
        assert_eq!(path.lose(at(5000), at(4000), ms(3000)), 2);
        assert_eq!(path.lose(at(9000), at(8000), ms(3000)), 2);
    }

    #[test]
    fn a_pause_begins_the_window_anew_and_a_slow_source_does_not() {
        let mut path = Path::new();
        path.2.grow(90);
        path.send(at(1000), 0);
        path.send(at(3000), 1);
        assert_eq!(path.2.frames(), 100, "an answer is due");
        path.send(at(3050), 0);
        assert_eq!(path.2.frames(), 100);
        let longest_timeout = Tuning::default().timeout.max;
        path.0.on_answer(
            at(3060) + longest_timeout,
            (Stamp::NONE, Stamp::NONE),
            Duration::ZERO,
            &path.1,
            &mut path.2,
        );
        path.send(at(3070) + longest_timeout, 0);
        assert_eq!(path.2.frames(), 100, "its round trip is as long");
        path.send(at(6000), 0);
        assert_eq!(path.2.frames(), 10);
    }
}
