//! Matching of host names in different spellings: `n1`, `n1.cluster.example`, `N1` and
//! `n1@02:00:00:00:00:01`.

use std::borrow::Cow;
use std::collections::HashMap;

/// Returns the name up to its first dot, if it is a host's short name: `1.2.3.4` has none.
fn short(name: &str) -> &str {
    let label = name.split('.').next().unwrap_or(name);
    if label.chars().any(char::is_alphabetic) { label } else { name }
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
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// A table of hosts by name, compared as in DNS, and by the short or the full form of it if no
/// other host has that. `name@address` is the host of that name with that address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    exact: HashMap<String, usize>,
    lower: HashMap<String, Option<usize>>,
    /// Hosts by short name in lower case; `None` if several have it.
    short: HashMap<String, Option<usize>>,
}

impl HostNames {
    /// Builds the table of these names, each with its index.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = Self::default();
        for (index, name) in names.into_iter().enumerate() {
            let lower = lower(name);
            table.short.entry(short_node(&lower)).and_modify(|known| *known = None).or_insert(Some(index));
            table.lower.entry(lower.into_owned()).and_modify(|known| *known = None).or_insert(Some(index));
            // If a name is given twice, the first counts.
            table.exact.entry(name.to_owned()).or_insert(index);
        }
        table
    }

    /// Returns the host of this name. Two different full names never match. A name with an address
    /// is looked up with it, then without.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.find_whole(name).or_else(|| self.find_whole(name.split_once('@')?.0))
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
        let table = if short == *name { &self.short } else { &self.lower };
        table.get(&short).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full_names_are_one_host_s_unless_two_hosts_have_them() {
        let names = HostNames::new(["n1", "n2.a.example", "n3.a.example", "n3.b.example", "10.0.0.1", "10.0.0.2"]);
        let found =
            ["n1", "n1.a.example", "n2", "n2.a.example", "n3.b.example", "10.0.0.2"].map(|name| names.find(name));
        assert_eq!(found, [0, 0, 1, 1, 3, 5].map(Some));
        assert_eq!(["n2.b.example", "n3", "10", "n4", "10.0.0.3", ""].map(|name| names.find(name)), [None; 6]);
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
        let found = ["pc@02:00:00:00:00:01", "PC.lan@02:00:00:00:00:0B", "n1@02:00:00:00:00:05", "n1.lan@x"];
        assert_eq!(found.map(|name| names.find(name)), [0, 1, 2, 2].map(Some));
        assert_eq!(["pc", "pc@02:00:00:00:00:02"].map(|name| names.find(name)), [None; 2]);
    }
}
