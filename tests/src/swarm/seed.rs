//! Random simulation: the name by which a scenario is repeated: seed, size, and version of the
//! generator.

use super::application::DiskTerms;
use super::schedule::Schedule;
use ethbcast_transport::sim::Random;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Version of the drawing: a number stands for another schedule in another version.
pub const DRAWING: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// A few hosts, and up to a few hundred frames.
    Small,
    Large,
}

impl Size {
    fn word(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Large => "large",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed {
    size: Size,
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSeed(String);

impl fmt::Display for NoSeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NoSeed {}

impl Seed {
    pub fn small(number: u64) -> Seed {
        Seed {
            size: Size::Small,
            number,
        }
    }

    pub fn large(number: u64) -> Seed {
        Seed {
            size: Size::Large,
            number,
        }
    }

    pub fn number(self) -> u64 {
        self.number
    }

    pub fn size(self) -> Size {
        self.size
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:v{DRAWING}", self.size.word(), self.number)
    }
}

impl FromStr for Seed {
    type Err = NoSeed;

    fn from_str(text: &str) -> Result<Seed, NoSeed> {
        let fields: Vec<&str> = text.trim().split(':').collect();
        let [size, number, version] = fields[..] else {
            return Err(NoSeed(format!(
                "{text:?} is no seed of the swarm: copy it whole from a replay line, such as {}",
                Seed::small(17)
            )));
        };
        let size = [Size::Small, Size::Large]
            .into_iter()
            .find(|known| known.word() == size);
        let size = size.ok_or_else(|| NoSeed(format!("{text:?}: schedules are small or large")))?;
        let number = number.parse().map_err(|_| {
            NoSeed(format!(
                "there is no seed {number}: seeds are whole numbers from 0 to {}",
                u64::MAX
            ))
        })?;
        if version != format!("v{DRAWING}") {
            return Err(NoSeed(format!(
                "{text:?} was drawn by version {} of the swarm, and this is version {DRAWING}, in which the number \
                 stands for another schedule: replay it on the commit that printed it",
                version.trim_start_matches('v')
            )));
        }
        Ok(Seed { size, number })
    }
}

#[derive(Clone, Debug)]
pub struct Draw {
    random: Random,
}

impl Draw {
    /// Starts the sequence of `seed` for one `purpose`; sequences of different purposes are
    /// unrelated.
    pub fn new(seed: u64, purpose: u64) -> Draw {
        Draw {
            random: Random::new(
                seed.wrapping_add(purpose << 56)
                    .wrapping_add(0x5157_4152_4D00),
            ),
        }
    }

    /// Draws a number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.below(high - low + 1)
    }

    /// Draws a number from `low` to `high`, evenly distributed over the logarithm.
    pub fn log(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = ((low.max(1) as f64).ln(), (high as f64 + 1.0).ln());
        ((from + (to - from) * self.random.unit()).exp() as u64).clamp(low, high)
    }

    pub fn index(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    pub fn share(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.unit()
    }

    pub fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.log(low, high))
    }

    pub fn bits(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.random.fill(&mut bytes);
        bytes
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule {
            seed,
            via,
            form,
            told,
            bytes,
            mtu_bytes,
            timing,
            gathers,
            pipe,
            sized,
            late,
            on_slow,
            ..
        } = self;
        let policy = self.tuning.policy;
        let (pushes, feed) = (self.tuning.cast.push_frames, self.tuning.feed.frames);
        writeln!(
            formatter,
            "{seed}: {} receivers via {via}, {form:?}, {bytes} bytes, MTU {mtu_bytes}, told {told}, chooses {}",
            self.hosts() - 1,
            self.chooses
        )?;
        writeln!(
            formatter,
            "  {policy:?}, pushes {pushes:?}, feed {feed}, pipe {pipe}, sized {sized}, late {late}, {on_slow:?}"
        )?;
        writeln!(
            formatter,
            "  patience {:?}, stall {:?}, gathers {gathers:?}",
            timing.patience, timing.stall
        )?;
        writeln!(
            formatter,
            "  {:?}: heals after {:?} for {:?}",
            self.classes, self.heals, self.core
        )?;
        writeln!(
            formatter,
            "  switches {:?}, trunks {:?}",
            self.cluster.switches, self.cluster.trunks
        )?;
        for (number, (host, disk)) in self.cluster.hosts.iter().zip(&self.disks).enumerate() {
            let (switch, rate, card) = host;
            let rings = (card.nic_transmit_frames, card.nic_receive_frames);
            let cpu = (card.per_frame_cost, card.wake_up);
            let DiskTerms {
                pace,
                settles,
                publishes,
                trouble,
                ..
            } = disk;
            let lazy = if number == 0 { &self.gives } else { pace };
            write!(
                formatter,
                "  n{number}: switch {switch}, {} Mbit/s, rings {rings:?}, CPU {cpu:?}",
                rate / 1_000_000
            )?;
            writeln!(
                formatter,
                ", disk {settles:?} {publishes:?} {trouble:?}, {lazy:?}, starts {:?}",
                self.starts[number]
            )?;
        }
        for (number, terms) in self.holdings.iter().enumerate() {
            terms
                .iter()
                .try_for_each(|terms| writeln!(formatter, "  n{number} has {terms:?}"))?;
        }
        for rule in &self.rules {
            writeln!(formatter, "  {rule:?}")?;
        }
        for happening in &self.happenings {
            writeln!(formatter, "  {happening:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reads_as_it_was_written_and_nothing_else_does() {
        for seed in [Seed::small(0), Seed::large(u64::MAX)] {
            assert_eq!(seed.to_string().parse(), Ok(seed));
        }
        let refused = |text: &str| text.parse::<Seed>().expect_err("no seed").to_string();
        assert!(refused("17").contains("copy it whole"), "{}", refused("17"));
        assert!(refused("huge:1:v7").contains("small or large"));
        assert!(refused(&format!("small:x:v{DRAWING}")).contains("no seed x"));
        assert!(refused("small:18446744073709551616:v7").contains("whole numbers"));
        assert!(refused("small:-1:v7").contains("whole numbers"));
        assert!(refused("small:1:v6").contains("version 6 of the swarm, and this is version 7"));
        assert!(refused("small:1:v8").contains("version 8 of the swarm"));
    }
}
