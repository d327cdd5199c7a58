//! Receivers that have no trouble of their own yet.

use ethbcast_transport::sim::Random;

use crate::chaos::scenario::RECEIVERS;

#[derive(Debug)]
pub struct Hosts {
    free: Vec<usize>,
}

impl Hosts {
    pub fn all() -> Self {
        Self { free: (1..=RECEIVERS).collect() }
    }

    pub fn count(&self) -> usize {
        self.free.len()
    }

    pub fn take(&mut self, random: &mut Random) -> String {
        let at = random.below(self.free.len() as u64) as usize;
        format!("n{}", self.free.remove(at))
    }

    pub fn take_several(&mut self, count: usize, neighbours: bool, random: &mut Random) -> Vec<String> {
        if !neighbours {
            return (0..count).map(|_| self.take(random)).collect();
        }
        let from = random.below((self.free.len() - count + 1) as u64) as usize;
        self.free.drain(from..from + count).map(|host| format!("n{host}")).collect()
    }
}
