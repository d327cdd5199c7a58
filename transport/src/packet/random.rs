//! Random numbers that name sessions and processes.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Draws a number that no other process has drawn.
///
/// The function uses the system call directly, even if the C library does not offer it, so that no file in
/// /dev is needed. Names must differ and are no secret: a freshly booted host with little entropy
/// is not waited for.
///
/// # Errors
/// If the kernel has no such call (before Linux 3.17), or something forbids it.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let drawn = match getrandom(&mut bytes, GetRandomFlags::INSECURE) {
        // Before Linux 5.6 the kernel does not know the flag.
        Err(Errno::INVAL) => getrandom(&mut bytes, GetRandomFlags::empty()),
        drawn => drawn,
    };
    match drawn {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Draws a number of 32 bits.
///
/// # Errors
/// As [`random_u64`].
pub fn random_u32() -> io::Result<u32> {
    random_u64().map(|number| number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_thousand_numbers_differ_and_use_all_bits() {
        let drawn: BTreeSet<u64> = (0..1000).map(|_| random_u64().expect("a random number")).collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(drawn.iter().fold(0, |all, number| all | number), u64::MAX);
        assert_eq!(drawn.iter().fold(u64::MAX, |all, number| all & number), 0);
    }
}
