//! Distribution of the frames of a session over its streams.

use crate::session::view::View;

/// Round-robin distribution of frames: a block of consecutive frames to each stream in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Dealing {
    streams: u64,
    block_frames: u64,
}

impl Dealing {
    pub(in crate::session) fn new(view: &View) -> Dealing {
        if !view.via.is_in_blocks() {
            return Dealing::single();
        }
        Dealing { streams: view.members.len() as u64, block_frames: u64::from(view.segment_frames.max(1)) }
    }

    pub(in crate::session) fn single() -> Dealing {
        Dealing { streams: 1, block_frames: u64::MAX }
    }

    pub(in crate::session) fn block_frames(self) -> u64 {
        self.block_frames
    }

    /// Number in the whole of frame `sequence` of the stream with index `at`.
    pub(in crate::session) fn in_whole(self, at: usize, sequence: u64) -> u64 {
        if self.streams == 1 {
            return sequence;
        }
        let (round, within) = (sequence / self.block_frames, sequence % self.block_frames);
        (round.saturating_mul(self.streams) + at as u64).saturating_mul(self.block_frames).saturating_add(within)
    }

    pub(in crate::session) fn place_of(self, whole: u64) -> (usize, u64) {
        let place = if self.streams == 1 { 0 } else { (whole / self.block_frames % self.streams) as usize };
        (place, self.of_stream(place, whole))
    }

    pub(in crate::session) fn of_stream(self, at: usize, whole: u64) -> u64 {
        if self.streams == 1 {
            return whole;
        }
        let round = self.streams * self.block_frames;
        let rest = (whole % round).saturating_sub(at as u64 * self.block_frames);
        whole / round * self.block_frames + rest.min(self.block_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_of_the_whole_is_one_of_one_stream() {
        for (streams, block_frames) in [(1, u64::MAX), (3, 1), (4, 5), (7, 64)] {
            let dealing = Dealing { streams, block_frames };
            let mut counts = vec![0; streams as usize];
            for whole in 0..1000 {
                let place = |at: usize| dealing.in_whole(at, counts[at]) == whole;
                let at = (0..counts.len()).find(|&at| place(at)).expect("it has been dealt to somebody");
                assert_eq!(dealing.place_of(whole), (at, counts[at]), "{dealing:?}");
                counts[at] += 1;
                let expected: Vec<u64> = (0..counts.len()).map(|at| dealing.of_stream(at, whole + 1)).collect();
                assert_eq!(counts, expected, "{dealing:?} after {whole}");
            }
        }
    }
}
