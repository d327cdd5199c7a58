//! Hosts by name, where one side says `n1` and the other `n1.cluster.example`.

use std::collections::HashMap;

/// The name up to its first dot, if it is a host's short name: `1` of `1.2.3.4` is none.
pub(crate) fn short(name: &str) -> &str {
    let label = name.split('.').next().unwrap_or(name);
    if label.chars().any(char::is_alphabetic) { label } else { name }
}

/// A table of hosts that finds each by its name, and by the short or the full form of it if no other host has that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostNames {
    exact: HashMap<String, usize>,
    /// By short name; `None` if several hosts have it.
    short: HashMap<String, Option<usize>>,
}

impl HostNames {
    /// The table of these names, each with its index.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = Self::default();
        for (index, name) in names.into_iter().enumerate() {
            table.exact.insert(name.to_owned(), index);
            table.short.entry(short(name).to_owned()).and_modify(|known| *known = None).or_insert(Some(index));
        }
        table
    }

    /// The host of this name. Of two full names none is the other's short form: they must be equal.
    pub fn find(&self, name: &str) -> Option<usize> {
        if let Some(&index) = self.exact.get(name) {
            return Some(index);
        }
        let short = short(name);
        match self.exact.get(short) {
            // A full name is looked for, and its host is known by the short one.
            Some(&index) if short != name => Some(index),
            _ if short == name => self.short.get(name).copied().flatten(),
            _ => None,
        }
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
}
