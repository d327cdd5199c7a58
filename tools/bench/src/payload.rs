//! Test data: its generation, its place and its comparison.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

const BLOCK_BYTES: usize = 1 << 20;

/// Creates a directory that is removed with its contents. It is in memory if possible, because the
/// bench measures networks and all hosts share one disk.
///
/// # Errors
/// If no directory can be made.
pub fn scratch() -> io::Result<tempfile::TempDir> {
    let builder = |parent: &Path| tempfile::Builder::new().prefix("ethbcast-bench-").tempdir_in(parent);
    builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))
}

/// Writes a file of `bytes` pseudorandom bytes, which are equal in every run. Misplaced blocks are
/// detected.
///
/// # Errors
/// If the file cannot be written.
pub fn make_file(path: &Path, bytes: u64) -> io::Result<()> {
    let mut stream = blake3::Hasher::new().update(b"ethbcast bench").finalize_xof();
    let mut file = BufWriter::with_capacity(BLOCK_BYTES, File::create(path)?);
    io::copy(&mut Read::by_ref(&mut stream).take(bytes), &mut file)?;
    file.flush()
}

/// Whether two files hold equal bytes.
///
/// # Errors
/// If one of them cannot be read.
pub fn same_bytes(left: &Path, right: &Path) -> io::Result<bool> {
    let (mut left, mut right) = (File::open(left)?, File::open(right)?);
    if left.metadata()?.len() != right.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    loop {
        let count = left.read(&mut ours)?;
        if count == 0 {
            return Ok(true);
        }
        right.read_exact(&mut theirs[..count])?;
        if ours[..count] != theirs[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_or_one_byte_makes_files_differ() {
        let directory = scratch().expect("a directory");
        let (left, right) = (directory.path().join("left"), directory.path().join("right"));
        make_file(&left, 3_000_001).expect("a file");
        make_file(&right, 3_000_001).expect("a file");
        assert!(same_bytes(&left, &right).expect("readable"));

        let mut bytes = std::fs::read(&right).expect("readable");
        bytes[2_999_999] ^= 1;
        std::fs::write(&right, &bytes).expect("writable");
        assert!(!same_bytes(&left, &right).expect("readable"), "one bit");

        make_file(&right, 3_000_000).expect("a file");
        assert!(!same_bytes(&left, &right).expect("readable"), "one byte less");
        assert!(same_bytes(&left, &directory.path().join("missing")).is_err());
    }
}
