//! Resources used by a process, and checks for growth.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Number of parts of a run: the first is a warm-up, the second is compared with the last.
const QUARTERS: usize = 4;
/// Permitted growth of memory in KiB: the allocator keeps freed memory for each thread.
const ALLOWED_KIB: u64 = 2048;

/// Resources that this process uses at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub resident_kib: u64,
    pub descriptors: usize,
    pub threads: usize,
    /// Files in a directory and below.
    pub files: usize,
}

impl Usage {
    /// Samples the usage, with the files of `directory`.
    ///
    /// # Errors
    /// Fails if `/proc` or the directory cannot be read.
    pub fn now(directory: &Path) -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Ok(Self {
            resident_kib: resident.context("the kernel says how much is resident")?.parse()?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: fs::read_dir("/proc/self/task")?.count(),
            files: count_files(directory)?,
        })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { resident_kib, descriptors, threads, files } = self;
        write!(to, "{resident_kib} KiB, {descriptors} descriptors, {threads} threads, {files} files")
    }
}

fn count_files(directory: &Path) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        count += if path.is_dir() { count_files(&path)? } else { 1 };
    }
    Ok(count)
}

#[derive(Clone, Debug, Default)]
pub struct Course {
    samples: Vec<Usage>,
}

impl Course {
    pub fn push(&mut self, usage: Usage) {
        self.samples.push(usage);
    }

    /// Returns the first and the last sample.
    pub fn ends(&self) -> Option<(Usage, Usage)> {
        Some((*self.samples.first()?, *self.samples.last()?))
    }

    fn compared(&self) -> [Usage; 2] {
        let quarter = self.samples.len() / QUARTERS;
        let most = |samples: &[Usage]| {
            samples.iter().fold(Usage::default(), |most, usage| Usage {
                resident_kib: most.resident_kib.max(usage.resident_kib),
                descriptors: most.descriptors.max(usage.descriptors),
                threads: most.threads.max(usage.threads),
                files: most.files.max(usage.files),
            })
        };
        [most(&self.samples[quarter..2 * quarter]), most(&self.samples[self.samples.len() - quarter..])]
    }

    /// Returns a sentence for each resource that has grown.
    pub fn drift(&self) -> Vec<String> {
        let mut drift = self.counted_drift();
        if self.samples.len() >= 2 * QUARTERS {
            let [before, after] = self.compared().map(|usage| usage.resident_kib);
            drift.extend((after > before + ALLOWED_KIB).then(|| format!("memory grew from {before} to {after} KiB")));
        }
        drift
    }

    /// Returns a sentence for each counted resource that has grown; memory is left out because it
    /// grows until every buffer has been used once.
    pub fn counted_drift(&self) -> Vec<String> {
        if self.samples.len() < 2 * QUARTERS {
            return vec![format!("{} samples are too few to tell", self.samples.len())];
        }
        let [before, after] = self.compared();
        let mut drift = Vec::new();
        let counted = [
            ("descriptors", before.descriptors, after.descriptors),
            ("threads", before.threads, after.threads),
            ("files", before.files, after.files),
        ];
        for (what, before, after) in counted {
            drift.extend((after > before).then(|| format!("{what} grew from {before} to {after}")));
        }
        drift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(resident_kib: impl Fn(u64) -> u64, descriptors: impl Fn(u64) -> usize) -> Course {
        let usage = |at| Usage { resident_kib: resident_kib(at), descriptors: descriptors(at), threads: 2, files: 0 };
        Course { samples: (0..40).map(usage).collect() }
    }

    #[test]
    fn a_warm_up_is_no_drift_and_one_descriptor_in_the_end_is() {
        assert_eq!(course(|at| 20_000 + 3000 * at.min(8), |_| 7).drift(), Vec::<String>::new());
        assert_eq!(course(|_| 20_000, |at| 7 + usize::from(at > 38)).drift(), ["descriptors grew from 7 to 8"]);
        assert_eq!(course(|at| 20_000 + 100 * at, |_| 7).drift(), Vec::<String>::new(), "what the allocator may keep");
        assert_eq!(course(|at| 20_000 + 200 * at, |_| 7).drift(), ["memory grew from 23800 to 27800 KiB"]);
        assert_eq!(Course::default().drift(), ["0 samples are too few to tell"]);
    }

    #[test]
    fn what_a_process_has_is_seen() {
        let directory = tempfile::tempdir().expect("a directory");
        let before = Usage::now(directory.path()).expect("it can be read");
        let _file = fs::File::create(directory.path().join("file")).expect("made");
        let after = Usage::now(directory.path()).expect("it can be read");
        assert_eq!(after.files, before.files + 1);
        assert!(before.resident_kib > 100 && before.descriptors > 2 && before.threads > 0, "{before}");
    }
}
