//! Fingerprints of a host's state: a hash of its `Debug` output, without some types.

use std::fmt::{self, Debug, Write};

/// A state's 128 bits; states of one print count as equal.
pub(super) type Print = u128;

#[derive(Debug, Default)]
pub(super) struct Printer {
    text: String,
}

impl Printer {
    pub(super) fn take(&mut self, value: &impl Debug, skipped: &[&str], also: &impl Debug) -> Print {
        self.text.clear();
        let mut without = Without { text: &mut self.text, skipped, inside: false, open: 0 };
        write!(without, "{value:?}{also:?}").expect("a string takes all");
        let hash = blake3::hash(self.text.as_bytes());
        let half = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        u128::from_le_bytes(*half)
    }
}

/// Leaves out the fields of some types. A derived `Debug` writes a type's name in one piece, then
/// its braces.
struct Without<'a> {
    text: &'a mut String,
    skipped: &'a [&'a str],
    inside: bool,
    open: usize,
}

impl Write for Without<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if !self.inside {
            self.inside = self.skipped.contains(&piece);
            return self.text.write_str(piece);
        }
        self.open += piece.matches('{').count();
        let closed = piece.matches('}').count();
        self.open -= closed;
        self.inside = self.open > 0 || closed == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counter {
        frames: [(u64, Option<u64>); 2],
    }

    #[derive(Debug)]
    struct Thing {
        counter: Counter,
        position: u64,
    }

    #[test]
    fn counters_make_no_difference_and_all_else_does() {
        let thing = |frames, position| Thing { counter: Counter { frames: [(frames, Some(frames)); 2] }, position };
        let print = |frames, position, wakes| Printer::default().take(&thing(frames, position), &["Counter"], &wakes);
        let Thing { counter, position } = thing(9, 2);
        assert_eq!((counter.frames, position), ([(9, Some(9)); 2], 2));
        assert_eq!(print(1, 2, 3), print(9, 2, 3));
        assert!(print(1, 2, 3) != print(1, 3, 3) && print(1, 2, 3) != print(1, 2, 4));
        let with = |frames| Printer::default().take(&thing(frames, 2), &[], &3);
        assert_ne!(with(1), with(9));
    }
}
