//! Positions of the readers: a count per position, and the tail at the lowest one.

use crate::audit::AuditError;

/// A reader of a [`Feed`](super::Feed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId(usize);

#[derive(Clone, Debug)]
pub(super) struct Positions {
    /// Readers at each position; twice as many entries as slots, because `tail` and `tail + slots`
    /// are both positions.
    standing: Box<[u32]>,
    mask: u64,
    readers: Vec<Option<u64>>,
    present: usize,
    tail: u64,
}

impl Positions {
    pub(super) fn new(slots: u64) -> Positions {
        let places = slots * 2;
        Positions {
            standing: vec![0; places as usize].into_boxed_slice(),
            mask: places - 1,
            readers: Vec::new(),
            present: 0,
            tail: 0,
        }
    }

    pub(super) fn tail(&self, head: u64) -> u64 {
        if self.present == 0 { head } else { self.tail }
    }

    pub(super) fn add(&mut self, position: u64, tail: u64) -> ReaderId {
        self.tail = if self.present == 0 { position } else { tail };
        *self.count(position) += 1;
        self.present += 1;
        match self.readers.iter().position(Option::is_none) {
            Some(free) => {
                self.readers[free] = Some(position);
                ReaderId(free)
            }
            None => {
                self.readers.push(Some(position));
                ReaderId(self.readers.len() - 1)
            }
        }
    }

    pub(super) fn get(&self, reader: ReaderId) -> u64 {
        self.readers[reader.0].expect("a reader's id is used only while the reader is there")
    }

    pub(super) fn advance(&mut self, reader: ReaderId, position: u64, head: u64) {
        let from = self.get(reader);
        assert!(from <= position, "a reader moves forward only");
        *self.count(from) -= 1;
        *self.count(position) += 1;
        self.readers[reader.0] = Some(position);
        self.follow(head);
    }

    pub(super) fn skip_to(&mut self, position: u64) {
        self.standing.fill(0);
        self.readers.iter_mut().flatten().for_each(|reader| *reader = position);
        *self.count(position) = self.present as u32;
        self.tail = position;
    }

    pub(super) fn rewind(&mut self, reader: ReaderId) {
        let (from, tail) = (self.get(reader), self.tail);
        *self.count(from) -= 1;
        *self.count(tail) += 1;
        self.readers[reader.0] = Some(tail);
    }

    pub(super) fn remove(&mut self, reader: ReaderId, head: u64) {
        let from = self.get(reader);
        *self.count(from) -= 1;
        self.readers[reader.0] = None;
        self.present -= 1;
        if self.present > 0 {
            self.follow(head);
        }
    }

    /// Moves the tail to the first position with a reader: amortised one step for each freed frame.
    fn follow(&mut self, head: u64) {
        while self.tail < head && self.standing[(self.tail & self.mask) as usize] == 0 {
            self.tail += 1;
        }
    }

    fn count(&mut self, position: u64) -> &mut u32 {
        &mut self.standing[(position & self.mask) as usize]
    }

    pub(super) fn places_bytes(&self) -> usize {
        size_of_val(&*self.standing)
    }

    pub(super) fn readers_bytes(&self) -> usize {
        self.readers.capacity() * size_of::<Option<u64>>()
    }

    pub(super) fn audit(&self, head: u64) -> Result<(), AuditError> {
        let standing: Vec<u64> = self.readers.iter().flatten().copied().collect();
        if standing.len() != self.present {
            return Err(AuditError::new(format!("{} readers counted, {} there", self.present, standing.len())));
        }
        let lowest = standing.iter().copied().min().unwrap_or(head);
        if lowest != self.tail(head) {
            return Err(AuditError::new(format!("tail is {}, the last reader stands at {lowest}", self.tail(head))));
        }
        let mut recomputed = vec![0_u32; self.standing.len()];
        for position in standing {
            recomputed[(position & self.mask) as usize] += 1;
        }
        match recomputed.iter().zip(&self.standing).position(|(a, b)| a != b) {
            Some(place) => Err(AuditError::new(format!(
                "{} readers counted at place {place}, {} stand there",
                self.standing[place], recomputed[place]
            ))),
            None => Ok(()),
        }
    }
}
