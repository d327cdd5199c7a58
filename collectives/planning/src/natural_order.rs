//! Natural order of host names: `n2` before `n10`.

use std::cmp::Ordering;

/// Compares names piece by piece, numbers by value; names that differ only in zero padding are
/// ordered as text.
pub fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    while !left_rest.is_empty() && !right_rest.is_empty() {
        let left_piece = take_piece(&mut left_rest);
        let right_piece = take_piece(&mut right_rest);
        match compare_pieces(left_piece, right_piece) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    left_rest.len().cmp(&right_rest.len()).then_with(|| left.cmp(right))
}

pub(crate) fn take_piece<'a>(rest: &mut &'a str) -> &'a str {
    let digits = rest.starts_with(|character: char| character.is_ascii_digit());
    let end = rest.find(|character: char| character.is_ascii_digit() != digits).unwrap_or(rest.len());
    let (piece, tail) = rest.split_at(end);
    *rest = tail;
    piece
}

fn compare_pieces(left: &str, right: &str) -> Ordering {
    let number = |piece: &str| piece.starts_with(|character: char| character.is_ascii_digit());
    if !(number(left) && number(right)) {
        return left.cmp(right);
    }
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_sort_as_a_person_counts_them() {
        let sorted = ["7", "a", "login", "n", "n1", "n02", "n2", "n10", "n10a", "n10b", "r1n9", "r1n10", "r2n1"];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_by(|left, right| natural_order(left, right));
        assert_eq!(shuffled, sorted);
    }

    #[test]
    fn zeros_in_front_decide_last() {
        let mut hosts = vec!["n10", "n2", "a", "n1", "n01", "n1b", "n1a2", "n001", "n1a10", "10", "9", "n"];
        hosts.sort_by(|left, right| natural_order(left, right));
        assert_eq!(hosts, ["9", "10", "a", "n", "n001", "n01", "n1", "n1a2", "n1a10", "n1b", "n2", "n10"]);
    }

    proptest! {
        #[test]
        fn natural_order_is_a_total_order(mut names in prop::collection::vec("[ab]?[0-9]{0,2}[ab]?[0-9]{0,2}", 0..40)) {
            // `sort_by` panics on an order that is not total; names that sort as equal must be
            // equal.
            names.sort_by(|left, right| natural_order(left, right));
            for pair in names.windows(2) {
                let order = natural_order(&pair[0], &pair[1]);
                prop_assert_eq!(order == Ordering::Equal, pair[0] == pair[1]);
                prop_assert_eq!(natural_order(&pair[1], &pair[0]), order.reverse());
            }
        }
    }
}
