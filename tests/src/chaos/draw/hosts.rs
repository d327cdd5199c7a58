//! Who is still without a trouble of its own.

use ethbcast_transport::sim::Random;

use crate::chaos::scenario::RECEIVERS;

/// The receivers that nothing happens to yet.
#[derive(Debug)]
pub struct Hosts {
    free: Vec<usize>,
}

impl Hosts {
    /// All of them.
    pub fn all() -> Self {
        Self { free: (1..=RECEIVERS).collect() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.free.len()
    }

    /// One of them, who has a trouble from now on.
    pub fn take(&mut self, random: &mut Random) -> String {
        let at = random.below(self.free.len() as u64) as usize;
        format!("n{}", self.free.remove(at))
    }

    /// Several, in the order of their numbers if they are neighbours in a chain.
    pub fn take_several(&mut self, count: usize, neighbours: bool, random: &mut Random) -> Vec<String> {
        if !neighbours {
            return (0..count).map(|_| self.take(random)).collect();
        }
        let from = random.below((self.free.len() - count + 1) as u64) as usize;
        self.free.drain(from..from + count).map(|host| format!("n{host}")).collect()
    }
}
