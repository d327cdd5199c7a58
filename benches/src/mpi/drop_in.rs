//! An MPI program with and without the drop-in, and with the drop-in preloaded where it must not
//! run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use ethbcast_lab::Lab;

use super::{Cluster, Loop, Measured, Mpi, version};
use crate::interrupt::Interrupt;
use crate::results::verdict;
use crate::table::{Table, median};
use crate::units::{copy_seconds, milliseconds, size};

/// Target time of a size in a run, in seconds, so that long messages are sent fewer times; the next
/// constant is the least number.
const RUN_SECONDS: f64 = 3.0;
const MIN_ITERATIONS: u32 = 5;
/// Assumed maximum time of a byte in an MPI without shaping, in seconds.
const BYTE_SECONDS: f64 = 12e-9;
/// Assumed maximum number of copies in an MPI's broadcast, for the time limit of a run.
const MAX_COPIES: f64 = 9.0;

/// Highest permitted ratio of a program's best rounds with the refused drop-in to those without it.
const MAX_IDLE: f64 = 1.01;

/// Way to run the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Alone,
    With,
    /// Preloaded drop-in, configured with a missing interface.
    Refused,
}

impl Variant {
    const ALL: [Variant; 3] = [Variant::Alone, Variant::With, Variant::Refused];
}

#[derive(Debug)]
pub struct Comparison<'a> {
    pub lab: &'a Lab,
    /// Rate of the cables; `None` if they are not shaped.
    pub rate_bits_per_second: Option<u64>,
    pub sizes: &'a [u64],
    /// Rounds in which all variants take their turn.
    pub runs: u16,
    /// Iterations of the shortest messages.
    pub iterations: u32,
    /// The drop-in, with its back ends beside it.
    pub library: PathBuf,
}

/// Every round of one size, by variant.
#[derive(Debug, Default)]
pub struct Rounds([Vec<Measured>; 3]);

impl Rounds {
    fn seconds(&self, variant: Variant) -> f64 {
        self.of(variant, |measured| measured.broadcast.median)
    }

    /// Returns the least of the rounds' medians: disturbances only make a round longer.
    fn least(&self, variant: Variant) -> f64 {
        let medians = self.0[variant as usize].iter().map(|measured| measured.broadcast.median);
        medians.fold(f64::INFINITY, f64::min)
    }

    fn of(&self, variant: Variant, figure: fn(&Measured) -> f64) -> f64 {
        median(self.0[variant as usize].iter().map(figure).collect()).unwrap_or(f64::NAN)
    }
}

impl Comparison<'_> {
    /// Runs all variants at all sizes in turns, by one MPI.
    ///
    /// # Errors
    /// Fails if a run does, or if the user interrupts.
    pub fn measure(&self, mpi: Mpi, interrupt: &Interrupt) -> anyhow::Result<Vec<Rounds>> {
        let cluster = Cluster::prepare(self.lab, mpi, 1)?;
        let library = self.library.to_str().context("the path of the drop-in is not UTF-8")?;
        ensure!(self.library.is_file(), "there is no {library}: `cargo build --release -p ethbcast-mpi`");
        let with = [("LD_PRELOAD", library), ("ETHBCAST_MPI_INTERFACE", "eth0")];
        let refused = [("LD_PRELOAD", library), ("ETHBCAST_MPI_INTERFACE", "nosuch0")];
        let mut all: Vec<Rounds> = self.sizes.iter().map(|_| Rounds::default()).collect();
        for round in 1..=self.runs {
            eprintln!("{}: round {round} of {}", mpi.name(), self.runs);
            for (rounds, &bytes) in all.iter_mut().zip(self.sizes) {
                for variant in Variant::ALL {
                    let set: &[(&str, &str)] = match variant {
                        Variant::Alone => &[],
                        Variant::With => &with,
                        Variant::Refused => &refused,
                    };
                    let what = self.what(bytes);
                    let limit = Duration::from_secs_f64(60.0 + 10.0 * RUN_SECONDS);
                    let measured = cluster.measure(set, Loop { sizes: &[bytes], ..what }, limit, interrupt)?;
                    let measured = measured.map_err(|words| anyhow!("{} failed: {words}", mpi.name()))?;
                    rounds.0[variant as usize].extend(measured);
                }
            }
        }
        Ok(all)
    }

    fn what(&self, bytes: u64) -> Loop<'static> {
        let once = self
            .rate_bits_per_second
            .map_or(bytes as f64 * BYTE_SECONDS * MAX_COPIES, |rate| copy_seconds(bytes, rate) * MAX_COPIES);
        let fits = (RUN_SECONDS / once) as u32;
        let iterations = fits.clamp(MIN_ITERATIONS, self.iterations.max(MIN_ITERATIONS));
        Loop { warm_ups: (iterations / 5).max(2), iterations, sizes: &[] }
    }

    /// Formats the results of one MPI, adds them to `csv`, and returns whether every bound was met.
    ///
    /// # Errors
    /// Fails if the MPI's version cannot be determined.
    pub fn report(&self, mpi: Mpi, all: &[Rounds], csv: &mut Table) -> anyhow::Result<(String, bool)> {
        let mut table = Table::new(&["size", "alone", "with", "ratio", "x copy alone", "x copy with", "refused"]);
        let (mut bounds, mut all_met) = (String::new(), true);
        for (rounds, &bytes) in all.iter().zip(self.sizes) {
            let [alone, with, refused] = Variant::ALL.map(|variant| rounds.seconds(variant));
            let copies = |seconds: f64| {
                let copy = self.rate_bits_per_second.map(|rate| copy_seconds(bytes, rate));
                copy.map_or("-".to_owned(), |copy| format!("{:.2}", seconds / copy))
            };
            let mut cells = vec![size(bytes)];
            cells.extend([alone, with].map(milliseconds));
            cells.extend([
                format!("{:.2}", alone / with),
                copies(alone),
                copies(with),
                format!("{:.3}", refused / alone),
            ]);
            table.push(cells);
            self.push(mpi, bytes, rounds, csv);
            let idle = rounds.least(Variant::Refused) / rounds.least(Variant::Alone);
            let idle = (format!("{idle:.3} times as long where it may not run (at most {MAX_IDLE})"), idle <= MAX_IDLE);
            for (text, is_met) in self.judged(mpi, bytes, [alone, with]).into_iter().chain([idle]) {
                all_met &= is_met;
                bounds += &format!("{}, {} bytes: {text}: {}\n", mpi.name(), size(bytes), verdict(is_met));
            }
        }
        Ok((format!("{}\n\n{}\n{bounds}\n", version(mpi)?, table.aligned()), all_met))
    }

    fn judged(&self, mpi: Mpi, bytes: u64, [alone, with]: [f64; 2]) -> Vec<(String, bool)> {
        let ratio = alone / with;
        let at_least = |least: f64| (format!("{ratio:.2} times as fast (at least {least})"), ratio >= least);
        match self.rate_bits_per_second {
            Some(rate) if bytes == 1 << 20 => {
                let most = if self.lab.hosts().len() > 16 { 1.15 } else { 1.10 };
                let copies = with / copy_seconds(bytes, rate);
                vec![(format!("{copies:.3} times one copy (at most {most})"), copies <= most)]
            }
            None if mpi == Mpi::OpenMpi && bytes == 256 => vec![at_least(2.5)],
            None if mpi == Mpi::OpenMpi && (64 << 10..=16 << 20).contains(&bytes) => vec![at_least(1.5)],
            _ => Vec::new(),
        }
    }

    fn push(&self, mpi: Mpi, bytes: u64, rounds: &Rounds, csv: &mut Table) {
        for (variant, name) in Variant::ALL.into_iter().zip(["alone", "with", "refused"]) {
            for (round, measured) in rounds.0[variant as usize].iter().enumerate() {
                let mut cells =
                    vec![mpi.name().to_owned(), bytes.to_string(), name.to_owned(), (round + 1).to_string()];
                let figures = [measured.broadcast.median, measured.broadcast.middle80, measured.barrier.median];
                cells.extend(figures.map(|seconds| format!("{seconds:.9}")));
                csv.push(cells);
            }
        }
    }

    /// Creates the CSV with its heading.
    pub fn csv() -> Table {
        let heading =
            ["mpi", "size_bytes", "variant", "round", "median_seconds", "middle80_seconds", "barrier_seconds"];
        Table::new(&heading)
    }
}
