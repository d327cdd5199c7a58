//! Overwriting of data in pieces; equal pieces are not written again.

use crate::disk::DiskFile;
use crate::journal::read_all;
use std::io;

pub(super) const PIECE_BYTES: usize = 64 << 10;
pub(super) static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// Comparison with existing data. After a long run of differences only one piece in 16 is read,
/// because reading costs too.
#[derive(Debug, Default)]
pub(super) struct Present {
    buffer: Vec<u8>,
    different: u32,
    pub found_bytes: u64,
}

impl Present {
    const DIFFERENT_IN_A_ROW: u32 = 64;
    const THEN_ONE_IN: u64 = 16;

    /// Writes the pieces of `bytes` that differ at `offset`. `before` is called before each write.
    pub(super) fn write<F: DiskFile>(
        &mut self,
        file: &F,
        offset: u64,
        bytes: &[u8],
        mut before: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut write = |from: usize, to: usize| match &bytes[from..to] {
            [] => Ok(()),
            part => before().and_then(|()| file.write_all_at(part, offset + from as u64)),
        };
        let (mut unwritten, mut at) = (0, 0);
        while at < bytes.len() {
            let begin = offset + at as u64;
            let to_border = PIECE_BYTES - (begin % PIECE_BYTES as u64) as usize;
            let end = bytes.len().min(at + to_border);
            if self.is(file, begin, &bytes[at..end]) {
                write(unwritten, at)?;
                self.found_bytes += (end - at) as u64;
                unwritten = end;
            }
            at = end;
        }
        write(unwritten, at)
    }

    fn is<F: DiskFile>(&mut self, file: &F, offset: u64, bytes: &[u8]) -> bool {
        let number = offset / PIECE_BYTES as u64;
        if self.different >= Present::DIFFERENT_IN_A_ROW && !number.is_multiple_of(Present::THEN_ONE_IN) {
            return false;
        }
        self.buffer.resize(bytes.len(), 0);
        let is_same =
            read_all(file, &mut self.buffer, offset).is_ok_and(|read| read == bytes.len()) && self.buffer == bytes;
        self.different = if is_same { 0 } else { self.different.saturating_add(1) };
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(bytes, 0).expect("room");
        file
    }

    fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
        (0..bytes).map(|at| (at / 100) as u8 ^ seed).collect()
    }

    #[test]
    fn what_is_there_already_is_not_written_and_the_rest_is() {
        let old = pattern(40 * PIECE_BYTES, 1);
        let mut new = old.clone();
        new[3 * PIECE_BYTES + 5] ^= 1;
        new[20 * PIECE_BYTES..22 * PIECE_BYTES].fill(9);
        let (file, mut present, mut at, mut writes) = (file(&old), Present::default(), 0, 0);
        // Pieces that are not aligned with its own.
        for bytes in new.chunks(1_000_003) {
            let before = || {
                writes += 1;
                Ok(())
            };
            present.write(&file, at, bytes, before).expect("room");
            at += bytes.len() as u64;
        }
        let mut found = vec![0; new.len()];
        read_all(&file, &mut found, 0).expect("so many");
        assert!(found == new);
        assert_eq!((present.found_bytes, writes), (37 * PIECE_BYTES as u64, 2));
    }

    #[test]
    fn an_image_that_is_all_new_is_soon_not_compared_any_more_and_one_that_is_old_again_is() {
        let mut present = Present::default();
        let old = file(&pattern(200 * PIECE_BYTES, 1));
        let other = pattern(PIECE_BYTES, 77);
        let mut same = |number: u64, bytes: &[u8]| present.is(&old, number * PIECE_BYTES as u64, bytes);
        assert!((0..64).all(|number| !same(number, &other)));
        let mut own = vec![0; PIECE_BYTES];
        read_all(&old, &mut own, 65 * PIECE_BYTES as u64).expect("so many");
        assert!(!same(65, &own), "it is not looked at");
        read_all(&old, &mut own, 80 * PIECE_BYTES as u64).expect("so many");
        assert!(same(80, &own) && !same(81, &other), "one in sixteen is, and then all are");
    }
}
