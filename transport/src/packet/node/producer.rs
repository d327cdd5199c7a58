//! Frames that a process hands out to the others of its node, each stored once for all readers.

use super::board::{Board, Entry, Occupant, QUEUE_FRAMES};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Most kept frames checked per round for remaining readers; frames with readers go to the end of
/// the queue.
const LOOKED_AT: usize = 256;

#[derive(Debug)]
pub(super) struct Producer {
    seat: u8,
    free: Vec<usize>,
    kept: VecDeque<usize>,
    untold: u64,
    pub lost: u64,
}

impl Producer {
    /// Takes over the frames of the seat's former process.
    pub(super) fn new(board: &Board, seat: u8) -> Producer {
        let frames = (0..board.kept_frames()).rev();
        let (kept, free): (Vec<usize>, _) = frames.partition(|&frame| has_readers(board, seat, frame));
        Producer { seat, free, kept: kept.into(), untold: 0, lost: 0 }
    }

    pub(super) fn others<'a>(&self, board: &'a Board) -> impl Iterator<Item = u8> + 'a {
        let own = self.seat;
        (0..board.given()).filter(move |&seat| seat != own && board.occupant(seat) == Occupant::Here)
    }

    pub(super) fn room(&mut self, board: &Board) -> usize {
        self.reclaim(board);
        let queues = self.others(board).map(|to| QUEUE_FRAMES.saturating_sub(board.waiting(self.seat, to)) as usize);
        queues.min().map_or(usize::MAX, |least| least.min(self.free.len()))
    }

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

    pub(super) fn sleepers<'a>(&mut self, board: &'a Board) -> impl Iterator<Item = u8> + use<'a> {
        let untold = std::mem::take(&mut self.untold);
        let told = (0..board.given()).filter(move |&seat| untold & 1 << seat != 0);
        told.filter(|&seat| board.takes_waking(seat))
    }
}

fn has_readers(board: &Board, seat: u8, frame: usize) -> bool {
    board.readers(seat, frame).load(Ordering::Acquire) > 0
}
