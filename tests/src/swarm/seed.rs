//! The name of a schedule: a number, its size, and the version of the drawing that made it what it is.

use std::fmt;
use std::str::FromStr;

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

/// The seed of a whole schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed {
    size: Size,
    number: u64,
}

/// The reason why a text is no seed.
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
        Seed { size: Size::Small, number }
    }

    pub fn large(number: u64) -> Seed {
        Seed { size: Size::Large, number }
    }

    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns the size of its schedule.
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
        let size = [Size::Small, Size::Large].into_iter().find(|known| known.word() == size);
        let size = size.ok_or_else(|| NoSeed(format!("{text:?}: schedules are small or large")))?;
        let number = number.parse().map_err(|_| {
            NoSeed(format!("there is no seed {number}: seeds are whole numbers from 0 to {}", u64::MAX))
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
