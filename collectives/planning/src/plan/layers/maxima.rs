//! Range-maximum tree over numbers that can be removed.

/// Numbers that may be cleared, with range maximum; both in logarithmic time.
#[derive(Default)]
pub(super) struct Maxima {
    /// A complete binary tree in an array: the numbers in the second half, every other entry the
    /// greater of its two.
    tree: Vec<u32>,
}

impl Maxima {
    pub fn set(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        let count = numbers.len();
        self.tree.clear();
        self.tree.resize(count, 0);
        self.tree.extend(numbers);
        for entry in (1..count).rev() {
            self.tree[entry] = self.tree[2 * entry].max(self.tree[2 * entry + 1]);
        }
    }

    pub fn clear(&mut self, index: usize) {
        let mut entry = index + self.tree.len() / 2;
        self.tree[entry] = 0;
        while entry > 1 {
            entry /= 2;
            self.tree[entry] = self.tree[2 * entry].max(self.tree[2 * entry + 1]);
        }
    }

    /// Returns the greatest number in `from..to`; 0 if the range is empty.
    pub fn greatest(&self, from: usize, to: usize) -> u32 {
        let count = self.tree.len() / 2;
        let (mut low, mut high, mut greatest) = (from + count, to + count, 0);
        while low < high {
            if low % 2 == 1 {
                greatest = greatest.max(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                greatest = greatest.max(self.tree[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_are_those_of_what_is_left() {
        let mut maxima = Maxima::default();
        maxima.set([3, 9, 4, 7, 5].into_iter());
        assert_eq!(
            [maxima.greatest(0, 5), maxima.greatest(2, 5), maxima.greatest(4, 5), maxima.greatest(3, 3)],
            [9, 7, 5, 0]
        );
        maxima.clear(1);
        maxima.clear(3);
        assert_eq!([maxima.greatest(0, 5), maxima.greatest(1, 2), maxima.greatest(0, 3)], [5, 0, 4]);
    }
}
