//! Congestion window for one receiver, and how losses shrink it.
//!
//! A window grows by the number of acknowledged frames until it is first cut, then by a frame a
//! round or a few. A cut is to 7/10, but never below a floor, so that a link's own losses cannot
//! stop it. Senders differ in when they cut it. A stream's unicast to one receiver (a lane)
//! attributes light loss to the link, because plans are contention-free and slowing down would not
//! help ([`LossRound`]). Messages of several hosts may share a cable: any loss is congestion, once
//! a round ([`Congestion`]).

use super::echo::Newest;
use super::stamp::Stamp;
use crate::time::Instant;
use crate::tuning::WindowTuning;

/// Size of a window. Up to `threshold` it grows by the acknowledged frames; above, by one frame in
/// the first round, then by one or two a round, or by one with each acknowledgement of one frame.
/// By one frame a round, 8 MiB over a path that reorders by 20 ms took 629 ms instead of less than
/// 452 (simulated). `before_cut` keeps size and threshold before the first cut, until the window
/// has grown to that size again.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    frames: u64,
    min: u64,
    max: u64,
    threshold: u64,
    grown: u64,
    before_cut: Option<(u64, u64)>,
}

impl Window {
    pub(crate) fn new(tuning: &WindowTuning, most: u64) -> Window {
        let max = tuning.max_frames.min(most);
        let (frames, min) = (tuning.start_frames.min(max), tuning.min_frames.min(max));
        Window {
            frames,
            min,
            max,
            threshold: max,
            grown: 0,
            before_cut: None,
        }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether the window limits the sender with `in_flight` frames; only then it grows.
    pub(crate) fn is_limiting(&self, in_flight: u64) -> bool {
        in_flight * 2 >= self.frames
    }

    pub(crate) fn grow(&mut self, acknowledged: u64) {
        if self.frames < self.threshold {
            self.frames += acknowledged;
        } else {
            self.grown += acknowledged;
            self.frames += self.grown / self.frames;
            // By the window after it has grown.
            self.grown %= self.frames;
        }
        self.frames = self.frames.min(self.max);
        self.before_cut
            .take_if(|(frames, _)| *frames <= self.frames);
    }

    pub(crate) fn cut(&mut self) {
        self.before_cut.get_or_insert((self.frames, self.threshold));
        self.frames = (self.frames * 7 / 10).max(self.min);
        self.threshold = self.frames;
    }

    /// Undoes the cuts, because frames counted as lost were only overtaken (RFC 4015).
    pub(crate) fn undo_cut(&mut self) {
        if let Some(before) = self.before_cut.take() {
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
        let new = sent_at.is_after(self.cut_at.stamp)
            || (sent_at != Stamp::NONE && self.cut_at.is_stale(now));
        if new {
            self.cut_at = Newest::new(newest, now);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
}
