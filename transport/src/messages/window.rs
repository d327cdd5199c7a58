//! How many frames may be in flight to one peer.
//!
//! Messages of several hosts may meet at one cable, unlike a plan's streams: loss is taken as congestion and the window cut once a
//! round (DESIGN §8), down to a floor so that a link's own losses cannot stop it.

use crate::arq::stamp::Stamp;
use crate::tuning::Tuning;

#[derive(Debug)]
pub(super) struct Window {
    frames: u64,
    min: u64,
    max: u64,
    /// Below this it grows by what is acknowledged, above by one frame a round.
    threshold: u64,
    grown: u64,
    /// Frames with older stamps were sent before the last cut, and their loss is paid for.
    cut_at: Stamp,
}

impl Window {
    pub(super) fn new(tuning: &Tuning, span: u64) -> Window {
        let max = tuning.window.max_frames.min(span);
        let frames = tuning.window.start_frames.clamp(1, max);
        Window { frames, min: tuning.window.min_frames.clamp(1, max), max, threshold: max, grown: 0, cut_at: Stamp::NONE }
    }

    /// Frames that may be in flight.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// So many frames are acknowledged; it grows only if it is what holds the sender back.
    pub(super) fn on_acknowledged(&mut self, frames: u64, limiting: bool) {
        if !limiting {
            return;
        }
        if self.frames < self.threshold {
            self.frames += frames;
        } else {
            self.grown += frames;
            self.frames += self.grown / self.frames;
            self.grown %= self.frames;
        }
        self.frames = self.frames.min(self.max);
    }

    /// A frame sent under `sent_at` is lost; `newest` is the last stamp drawn.
    pub(super) fn on_lost(&mut self, sent_at: Stamp, newest: Stamp) {
        if sent_at.is_after(self.cut_at) {
            self.cut_at = newest;
            self.frames = (self.frames * 7 / 10).max(self.min);
            self.threshold = self.frames;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_losses_of_one_round_cut_the_window_once_and_no_loss_cuts_it_below_its_floor() {
        let mut window = Window::new(&Tuning::default(), 1024);
        window.on_acknowledged(968, true);
        assert_eq!(window.frames(), 1000);
        (1..=50).for_each(|sent_at| window.on_lost(Stamp(sent_at), Stamp(100)));
        assert_eq!(window.frames(), 700);
        window.on_acknowledged(700, true);
        assert_eq!(window.frames(), 701, "after a cut it grows by a frame a round");
        (2..=50).for_each(|round| window.on_lost(Stamp(round * 100), Stamp(round * 100)));
        assert_eq!(window.frames(), Tuning::default().window.min_frames);
        window.on_acknowledged(1000, false);
        assert_eq!(window.frames(), 16, "what did not hold it back need not grow");
    }
}
