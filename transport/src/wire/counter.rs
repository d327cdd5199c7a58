//! Replay protection of control frames: a sender's frame counter, and the receiver's window of
//! numbers seen.

use super::MAX_SEQUENCE;

/// Number of a sender's final message, which another process may hold ready for it; it is above all
/// others.
pub const FINAL_NUMBER: u64 = MAX_SEQUENCE;

/// Numbers that one sender gives its control frames under one secret: 1, 2, 3 and so on, all below
/// [`FINAL_NUMBER`], which counting never reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counter(u64);

impl Counter {
    pub fn draw(&mut self) -> u64 {
        self.0 = (self.0 + 1).min(FINAL_NUMBER - 1);
        self.0
    }
}

/// Numbers that have come from one sender under one secret: the highest, and a bitmap of the 64
/// below it (as in RFC 4303 §3.4.3), in which bit `i` is number `highest - 1 - i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterWindow {
    highest: u64,
    below: u64,
}

impl CounterWindow {
    /// Takes the number of a frame whose tag was right. Returns false if the number has come
    /// before, or may have: the frame must then be counted and dropped. Nothing is taken after
    /// [`FINAL_NUMBER`].
    #[must_use]
    pub fn take(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return number == FINAL_NUMBER && planted!("last-words-heard-twice");
        }
        if planted!("window-does-not-move") {
            return true;
        }
        if number > self.highest {
            let ahead = number - self.highest;
            // The former highest number is now one of those below; 0 then seems to have come, which
            // has no effect.
            let shifted = u128::from(self.below) << 1 | 1;
            self.below = if ahead <= 64 {
                (shifted << (ahead - 1)) as u64
            } else {
                0
            };
            self.highest = number;
        } else {
            self.below |= 1 << (self.highest - number - 1);
        }
        true
    }

    pub fn is_new(&self, number: u64) -> bool {
        if number == 0 || number > FINAL_NUMBER || self.highest == FINAL_NUMBER {
            return false;
        }
        number > self.highest
            || matches!(self.highest - number, 1..=64 if self.below >> (self.highest - number - 1) & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_begin_at_one_and_last_words_end_them() {
        let (mut counter, mut window) = (Counter::default(), CounterWindow::default());
        assert_eq!([counter.draw(), counter.draw(), counter.draw()], [1, 2, 3]);
        assert!(
            !window.take(0)
                && window.take(2)
                && window.take(1)
                && !window.take(1)
                && !window.take(2)
        );
        assert!(window.take(FINAL_NUMBER) && !window.take(FINAL_NUMBER) && !window.take(3));
        assert!(!CounterWindow::default().take(FINAL_NUMBER + 1));
        counter.0 = FINAL_NUMBER - 2;
        assert_eq!([counter.draw(), counter.draw()], [FINAL_NUMBER - 1; 2]);
    }

    #[test]
    fn the_window_has_the_highest_and_64_below() {
        let mut window = CounterWindow::default();
        assert!(window.take(100) && window.take(36) && !window.take(35) && !window.take(36));
        assert!(window.take(101) && !window.take(100) && !window.take(36) && window.take(37));
        assert!(window.take(101 + 64) && !window.take(101) && window.take(102));
        assert!(window.take(165 + 65) && !window.take(165) && window.take(166));
    }

    proptest! {
        #[test]
        fn each_number_is_taken_once_whatever_the_order(steps in prop::collection::vec(0_u64..300, 0..400)) {
            let (mut window, mut taken) = (CounterWindow::default(), BTreeSet::new());
            for number in steps {
                let highest = taken.last().copied().unwrap_or(0);
                let fits = number > 0 && number + 64 >= highest && !taken.contains(&number);
                prop_assert_eq!(window.take(number), fits, "{} after {}", number, highest);
                if fits {
                    taken.insert(number);
                }
            }
        }
    }
}
