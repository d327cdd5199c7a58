//! Comparison of host names: in natural order (n2 before n10), and in different spellings (`n1`,
//! `n1.cluster.example`, `N1`, with MAC address).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Returns the name up to its first dot, if it is a host's short name: `1.2.3.4` has none.
fn short(name: &str) -> &str {
    let label = name.split('.').next().unwrap_or(name);
    if label.chars().any(char::is_alphabetic) {
        label
    } else {
        name
    }
}

fn short_node(name: &str) -> String {
    match name.split_once('@') {
        Some((name, address)) => format!("{}@{address}", short(name)),
        None => short(name).to_owned(),
    }
}

/// Returns the name as DNS compares it: in lower case, without a final dot.
fn lower(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}

/// A table of hosts by name, compared as in DNS. A short name finds a host with a full one, and the
/// other way round, if no other host has that name. `name@address` is the host of that name with
/// that address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    exact: HashMap<String, usize>,
    lower: HashMap<String, Option<usize>>,
    /// Hosts by short name in lower case; `None` if several hosts have it.
    short: HashMap<String, Option<usize>>,
}

impl HostNames {
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = Self::default();
        for (index, name) in names.into_iter().enumerate() {
            let lower = lower(name);
            table
                .short
                .entry(short_node(&lower))
                .and_modify(|known| *known = None)
                .or_insert(Some(index));
            table
                .lower
                .entry(lower.into_owned())
                .and_modify(|known| *known = None)
                .or_insert(Some(index));
            // If a name is given twice, the first counts.
            table.exact.entry(name.to_owned()).or_insert(index);
        }
        table
    }

    /// Returns the host of this name. Two different full names never match. A name with an address
    /// is looked up with it, then without, then by the IPv4 address that is in it over UDP.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.find_whole(name).or_else(|| {
            let (name, address) = name.split_once('@')?;
            self.find_whole(name)
                .or_else(|| self.exact.get(&ipv4_in(address)?).copied())
        })
    }

    fn find_whole(&self, name: &str) -> Option<usize> {
        if let Some(&index) = self.exact.get(name) {
            return Some(index);
        }
        let name = lower(name);
        if let Some(&index) = self.lower.get(&*name) {
            return index;
        }
        let short = short_node(&name);
        // A full name may match a host known by the short one, or the other way round.
        let table = if short == *name {
            &self.short
        } else {
            &self.lower
        };
        table.get(&short).copied().flatten()
    }
}

/// Returns the IPv4 address in the last four of a MAC address's six bytes, as text.
fn ipv4_in(mac: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = mac
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    let [_, _, a, b, c, d] = bytes?[..] else {
        return None;
    };
    Some(format!("{a}.{b}.{c}.{d}"))
}

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
    left_rest
        .len()
        .cmp(&right_rest.len())
        .then_with(|| left.cmp(right))
}

pub(crate) fn take_piece<'a>(rest: &mut &'a str) -> &'a str {
    let digits = rest.starts_with(|character: char| character.is_ascii_digit());
    let end = rest
        .find(|character: char| character.is_ascii_digit() != digits)
        .unwrap_or(rest.len());
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
    fn short_and_full_names_are_one_host_s_unless_two_hosts_have_them() {
        let names = HostNames::new([
            "n1",
            "n2.a.example",
            "n3.a.example",
            "n3.b.example",
            "10.0.0.1",
            "10.0.0.2",
        ]);
        let found = [
            "n1",
            "n1.a.example",
            "n2",
            "n2.a.example",
            "n3.b.example",
            "10.0.0.2",
        ]
        .map(|name| names.find(name));
        assert_eq!(found, [0, 0, 1, 1, 3, 5].map(Some));
        assert_eq!(
            ["n2.b.example", "n3", "10", "n4", "10.0.0.3", ""].map(|name| names.find(name)),
            [None; 6]
        );
    }

    #[test]
    fn case_and_a_final_dot_do_not_distinguish_hosts_unless_two_differ_in_them_alone() {
        let names = HostNames::new(["N1.Lab", "n2", "a", "A"]);
        let found = ["n1.lab", "n1", "N1.LAB.", "N2.lab", "a", "A"].map(|name| names.find(name));
        assert_eq!(found, [0, 0, 0, 1, 2, 3].map(Some));
        assert_eq!(HostNames::new(["B", "B"]).find("B"), Some(0), "given twice");
        assert_eq!(HostNames::new(["b", "B"]).find("b.lab"), None, "two");
    }

    #[test]
    fn an_address_behind_a_name_distinguishes_hosts_that_share_it() {
        let names = HostNames::new(["pc@02:00:00:00:00:01", "pc@02:00:00:00:00:0b", "n1"]);
        let found = [
            "pc@02:00:00:00:00:01",
            "PC.lan@02:00:00:00:00:0B",
            "n1@02:00:00:00:00:05",
            "n1.lan@x",
        ];
        assert_eq!(found.map(|name| names.find(name)), [0, 1, 2, 2].map(Some));
        assert_eq!(
            ["pc", "pc@02:00:00:00:00:02"].map(|name| names.find(name)),
            [None; 2]
        );
        let names = HostNames::new(["10.1.0.2", "10.1.0.3", "n4"]);
        let found = [
            "n3@02:35:0a:01:00:03",
            "n4@02:35:0a:01:00:02",
            "n5@02:35:0a:01:00:05",
            "n3@0a:01:00:03",
        ];
        assert_eq!(
            found.map(|name| names.find(name)),
            [Some(1), Some(2), None, None]
        );
    }

    #[test]
    fn hosts_sort_as_a_person_counts_them() {
        let sorted = [
            "7", "a", "login", "n", "n1", "n02", "n2", "n10", "n10a", "n10b", "r1n9", "r1n10",
            "r2n1",
        ];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_by(|left, right| natural_order(left, right));
        assert_eq!(shuffled, sorted);
    }

    #[test]
    fn zeros_in_front_decide_last() {
        let mut hosts = vec![
            "n10", "n2", "a", "n1", "n01", "n1b", "n1a2", "n001", "n1a10", "10", "9", "n",
        ];
        hosts.sort_by(|left, right| natural_order(left, right));
        assert_eq!(
            hosts,
            [
                "9", "10", "a", "n", "n001", "n01", "n1", "n1a2", "n1a10", "n1b", "n2", "n10"
            ]
        );
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
