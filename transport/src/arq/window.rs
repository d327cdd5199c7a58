//! A lane's window: how many frames may be in flight.

use super::stamp::Stamp;
use crate::tuning::Tuning;

/// Grows by what is acknowledged until the first heavy round, then by one frame a round; ×0.7 after a round that lost more
/// than the tolerated part (plans are contention-free, so light loss is the link's own and slowing down would not cure it).
#[derive(Clone, Debug)]
pub struct Window {
    frames: u64,
    min: u64,
    max: u64,
    threshold: u64,
    tolerated_percent: u64,
    grown: u64,
    round: Round,
}

/// Fewer frames say little about the part that is lost: at 30 % loss, one round in 30 of this length loses 40 %.
const ROUND_FRAMES: u64 = 64;

/// The frames sent since a stamp, judged when an echo passes it.
#[derive(Clone, Debug, Default)]
struct Round {
    ends: Stamp,
    acknowledged: u64,
    lost: u64,
}

impl Window {
    /// A new lane's window.
    pub fn new(tuning: &Tuning) -> Window {
        Window {
            frames: tuning.window.start_frames,
            min: tuning.window.min_frames,
            max: tuning.window.max_frames,
            threshold: tuning.window.max_frames,
            tolerated_percent: tuning.window.loss_tolerated_percent,
            grown: 0,
            round: Round::default(),
        }
    }

    /// Frames that may be in flight.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Takes in one acknowledgement: `acknowledged` frames confirmed, `lost` found missing; `newest` is the last stamp drawn.
    /// The window grows only if it is what held the sender back.
    pub fn on_ack(&mut self, acknowledged: u64, lost: u64, echo: Stamp, newest: Stamp, limiting: bool) {
        self.round.acknowledged += acknowledged;
        self.round.lost += lost;
        if limiting {
            self.grow(acknowledged);
        }
        let Round { ends, acknowledged, lost } = self.round;
        if ends == Stamp::NONE {
            self.round.ends = newest;
        } else if echo.is_after(ends) && acknowledged + lost >= ROUND_FRAMES {
            if lost * 100 > (acknowledged + lost) * self.tolerated_percent {
                self.frames = (self.frames * 7 / 10).max(self.min);
                self.threshold = self.frames;
            }
            self.round = Round { ends: newest, acknowledged: 0, lost: 0 };
        }
    }

    fn grow(&mut self, acknowledged: u64) {
        if self.frames < self.threshold {
            self.frames += acknowledged;
        } else {
            self.grown += acknowledged;
            self.frames += self.grown / self.frames;
            self.grown %= self.frames;
        }
        self.frames = self.frames.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(window: &mut Window, count: u32, from: u32, acknowledged: u64, lost: u64) {
        for round in from..from + count {
            window.on_ack(acknowledged, lost, Stamp(round + 1), Stamp(round + 1), true);
        }
    }

    #[test]
    fn light_loss_does_not_shrink_a_window_and_heavy_loss_does_once_a_round_down_to_the_floor() {
        let tuning = Tuning::default();
        let mut window = Window::new(&tuning);
        rounds(&mut window, 20, 1, 90, 40);
        assert_eq!(window.frames(), 32 + 20 * 90);
        rounds(&mut window, 1, 50, 0, 900);
        assert_eq!(window.frames(), 1832 * 7 / 10);
        rounds(&mut window, 1, 60, 1282, 0);
        assert_eq!(window.frames(), 1283, "after a cut it grows by a frame a round");
        rounds(&mut window, 40, 70, 0, 900);
        assert_eq!(window.frames(), tuning.window.min_frames);
        let mut fresh = Window::new(&tuning);
        rounds(&mut fresh, 3, 1, 10, 10);
        assert_eq!(fresh.frames(), 32 + 30, "three short rounds that lose half are not judged yet");
    }
}
