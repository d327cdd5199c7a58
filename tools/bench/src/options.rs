//! Options of a bench.

use std::path::PathBuf;
use std::time::Duration;

/// Largest broadcast that is measured in memory, in bytes; larger ones are files.
pub const MAX_MESSAGE: u64 = 1 << 20;
/// Largest file, in bytes: eight copies must fit in memory.
pub const LARGEST_BYTES: u64 = 1 << 30;
/// Algorithms that can be measured.
pub const WAYS: [&str; 6] = ["chain", "cast", "binary", "binomial", "flat", "auto"];
/// Limit on the receivers, which all run on this machine.
pub const MAX_RECEIVERS: u16 = 63;
/// Largest MTU, in bytes: that of a veth.
pub const LARGEST_MTU_BYTES: u32 = 65_535;
/// Smallest MTU, in bytes: that which the other tools need.
pub const SMALLEST_MTU_BYTES: u32 = 576;

/// The settings to measure, in all combinations.
#[derive(Clone, Debug)]
pub struct Options {
    /// Algorithms, out of [`WAYS`].
    pub ways: Vec<&'static str>,
    /// Numbers of receivers.
    pub receivers: Vec<u16>,
    /// Sizes of a broadcast, in bytes.
    pub sizes: Vec<u64>,
    /// MTUs of the interfaces, in bytes.
    pub mtus: Vec<u32>,
    /// Fractions of frames lost at every host.
    pub losses: Vec<f64>,
    /// Rates of all cables, in bits per second; `None` for unshaped ones.
    pub rates: Vec<Option<u64>>,
    /// Whether the installed other tools are measured too.
    pub peers: bool,
    /// Timed broadcasts of a message; the report has their median.
    pub iterations: u32,
    /// Timed transfers of a file; the report has their median.
    pub runs: u32,
    /// Duration of each measurement of raw frames.
    pub raw_time: Duration,
    /// Limit on a run; by default ten times the wire's minimum and at least 30 s.
    pub limit: Option<Duration>,
    /// Name of the lab.
    pub lab: String,
    /// Path of the program `ethbcast`; by default beside this program.
    pub program: Option<PathBuf>,
}

impl Options {
    /// Returns options that take about a minute: two algorithms, two numbers of receivers, two
    /// message sizes and a file, with and without loss.
    pub fn short(lab: String) -> Self {
        Self {
            ways: vec!["chain", "cast"],
            receivers: vec![3, 7],
            sizes: vec![4 << 10, 1 << 20, 16 << 20],
            mtus: vec![1500],
            losses: vec![0.0, 0.01],
            rates: vec![Some(100_000_000)],
            peers: false,
            iterations: 20,
            runs: 1,
            raw_time: Duration::from_millis(300),
            limit: None,
            lab,
            program: None,
        }
    }

    /// Checks that the options can be measured.
    ///
    /// # Errors
    /// A sentence with the permitted values.
    pub fn check(&self) -> Result<(), String> {
        if let Some(receivers) = self.receivers.iter().find(|&&count| count == 0 || count > MAX_RECEIVERS) {
            return Err(format!(
                "{receivers} receivers cannot be measured on one machine: choose 1 to {MAX_RECEIVERS}"
            ));
        }
        if let Some(size) = self.sizes.iter().find(|&&size| size == 0 || size > LARGEST_BYTES) {
            return Err(format!("a broadcast of {size} bytes cannot be measured: choose --sizes from 1 to 1G"));
        }
        if let Some(mtu) = self.mtus.iter().find(|&&mtu| !(SMALLEST_MTU_BYTES..=LARGEST_MTU_BYTES).contains(&mtu)) {
            return Err(format!(
                "an MTU of {mtu} is not one of the lab's interfaces, which are veth: choose {SMALLEST_MTU_BYTES} to \
                 {LARGEST_MTU_BYTES}"
            ));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(0.0..=0.5).contains(*loss)) {
            return Err(format!(
                "a loss of {loss} is no share of frames to measure with: choose 0 to 0.5, such as 0.01"
            ));
        }
        Ok(())
    }

    /// Splits the sizes into those of messages and those of files.
    pub fn messages_and_files(&self) -> (Vec<u64>, Vec<u64>) {
        self.sizes.iter().partition(|&&size| size <= MAX_MESSAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::short("lab".to_owned());
        options.check().expect("the defaults");
        change(&mut options);
        options.check().expect_err("it should be refused")
    }

    #[test]
    fn what_cannot_be_measured_is_refused_in_a_sentence_that_says_what_can() {
        assert!(refusal(|options| options.mtus = vec![1500, 65_536]).contains("576 to 65535"));
        assert!(refusal(|options| options.receivers = vec![64]).contains("1 to 63"));
        assert!(refusal(|options| options.sizes = vec![0]).contains("1 to 1G"));
        assert!(refusal(|options| options.losses = vec![f64::NAN]).contains("such as 0.01"));
    }
}
