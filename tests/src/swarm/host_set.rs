//! A set of hosts of a schedule.

use std::fmt;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HostSet([u64; 4]);

impl HostSet {
    pub const MOST: usize = 256;

    pub const NONE: HostSet = HostSet([0; 4]);

    pub const ALL: HostSet = HostSet([u64::MAX; 4]);

    pub fn one(host: usize) -> HostSet {
        [host].into_iter().collect()
    }

    pub fn has(&self, host: usize) -> bool {
        self.0[host / 64] >> (host % 64) & 1 == 1
    }

    pub fn insert(&mut self, host: usize) {
        self.0[host / 64] |= 1 << (host % 64);
    }

    pub fn remove(&mut self, host: usize) {
        self.0[host / 64] &= !(1 << (host % 64));
    }

    #[must_use]
    pub fn others(self) -> HostSet {
        HostSet(self.0.map(|word| !word))
    }
}

impl fmt::Debug for HostSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, sign) = if self.has(HostSet::MOST - 1) { (self.others(), "all but ") } else { (*self, "") };
        let hosts: Vec<usize> = (0..HostSet::MOST).filter(|&host| most.has(host)).collect();
        write!(formatter, "{sign}{hosts:?}")
    }
}

impl FromIterator<usize> for HostSet {
    fn from_iter<T: IntoIterator<Item = usize>>(hosts: T) -> HostSet {
        let mut set = HostSet::NONE;
        hosts.into_iter().for_each(|host| set.insert(host));
        set
    }
}
