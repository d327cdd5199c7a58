//! Bytes that all hosts of a world share.

use std::fmt;
use std::sync::Arc;

/// Bytes shared by all hosts and equal in all states.
#[derive(Clone)]
pub struct Shared(Arc<[u8]>);

impl Shared {
    pub(super) fn of(bytes: usize) -> Shared {
        Shared((0..bytes).map(|at| (at * 7 + (at >> 8)) as u8).collect())
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
