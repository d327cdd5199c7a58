//! What a process hands out to the others of its node: each frame is stored once, whoever reads it.

use super::board::{Board, Entry, Occupant, QUEUE_FRAMES};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Frames that are looked at in a round for whether all have read them: those that have not go to the end of the line.
const LOOKED_AT: usize = 256;

/// The frames of one process.
#[derive(Debug)]
pub(super) struct Producer {
    seat: u8,
    free: Vec<usize>,
    /// Frames that had readers when they were looked at last, the oldest first.
    kept: VecDeque<usize>,
    /// Seats for which something has been put into a queue since they were told, a bit for each.
    untold: u64,
    /// Frames that a reader did not get, because it had as many waiting as there can be.
    pub lost: u64,
}

impl Producer {
    /// The one in this seat, after whoever was there before.
    pub(super) fn new(board: &Board, seat: u8) -> Producer {
        let frames = (0..board.kept_frames()).rev();
        let (kept, free): (Vec<usize>, _) = frames.partition(|&frame| has_readers(board, seat, frame));
        Producer { seat, free, kept: kept.into(), untold: 0, lost: 0 }
    }

    /// The other processes that are there.
    pub(super) fn others<'a>(&self, board: &'a Board) -> impl Iterator<Item = u8> + 'a {
        let own = self.seat;
        (0..board.given()).filter(move |&seat| seat != own && board.occupant(seat) == Occupant::Here)
    }

    /// How many frames can be handed out now so that everybody gets them.
    pub(super) fn room(&mut self, board: &Board) -> usize {
        self.reclaim(board);
        let queues = self.others(board).map(|to| QUEUE_FRAMES.saturating_sub(board.waiting(self.seat, to)) as usize);
        queues.min().map_or(usize::MAX, |least| least.min(self.free.len()))
    }

    /// Takes back the frames that all have read.
    fn reclaim(&mut self, board: &Board) {
        for _ in 0..self.kept.len().min(LOOKED_AT) {
            let Some(frame) = self.kept.pop_front() else { break };
            if has_readers(board, self.seat, frame) {
                self.kept.push_back(frame);
            } else {
                self.free.push(frame);
            }
        }
    }

    /// Hands a frame out to these seats.
    pub(super) fn give(&mut self, board: &Board, bytes: &[u8], to: impl Iterator<Item = u8> + Clone) {
        let readers = to.clone().count() as u32;
        if readers == 0 || bytes.len() > board.frame_bytes() {
            return;
        }
        let Some(frame) = self.free.pop() else {
            self.lost += u64::from(readers);
            return;
        };
        board.store(self.seat, frame, bytes);
        board.readers(self.seat, frame).store(readers, Ordering::Relaxed);
        let mut missed = 0;
        for seat in to {
            if board.put(self.seat, seat, Entry { frame, bytes: bytes.len() }) {
                self.untold |= 1 << seat;
            } else {
                missed += 1;
            }
        }
        if missed > 0 {
            self.lost += u64::from(missed);
            board.readers(self.seat, frame).fetch_sub(missed, Ordering::AcqRel);
        }
        self.kept.push_back(frame);
    }

    /// Those of the processes handed something since the last time that sleep.
    pub(super) fn sleepers<'a>(&mut self, board: &'a Board) -> impl Iterator<Item = u8> + use<'a> {
        let untold = std::mem::take(&mut self.untold);
        let told = (0..board.given()).filter(move |&seat| untold & 1 << seat != 0);
        told.filter(|&seat| board.takes_waking(seat))
    }
}

fn has_readers(board: &Board, seat: u8, frame: usize) -> bool {
    board.readers(seat, frame).load(Ordering::Acquire) > 0
}
