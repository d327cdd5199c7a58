//! Order in which the files of a directory are sent, given by patterns.

use super::Exclusion;
use crate::manifest::{Manifest, Node};

/// Patterns of files that are sent first: those of the first pattern, then those of the second, and so on.
#[derive(Clone, Debug, Default)]
pub struct Order(Vec<Exclusion>);

impl Order {
    /// Compiles patterns as those of [`Exclusion`].
    ///
    /// # Errors
    /// The invalid pattern and the reason.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Order, String> {
        patterns.into_iter().map(|pattern| Exclusion::new([pattern])).collect::<Result<_, _>>().map(Order)
    }

    /// Returns the rank of each entry, lowest first; none without a pattern.
    pub(super) fn ranks(&self, manifest: &Manifest) -> Option<Vec<usize>> {
        if self.0.is_empty() {
            return None;
        }
        let entries = manifest.entries();
        let mut ranks = vec![self.0.len(); entries.len()];
        for (at, entry) in entries.iter().enumerate().skip(1) {
            let path = manifest.path(at);
            let own = self.0.iter().position(|pattern| pattern.leaves_out(&path, entry.is_directory()));
            // What is in a directory is sent with it.
            let inherited = ranks[entry.parent.unwrap_or(0) as usize];
            ranks[at] = own.unwrap_or(inherited).min(inherited);
        }
        // A link comes after its file, and everything after its directory.
        for (at, entry) in entries.iter().enumerate() {
            if let Node::HardLink(file) = entry.node {
                ranks[file as usize] = ranks[file as usize].min(ranks[at]);
            }
        }
        for (at, entry) in entries.iter().enumerate().skip(1).rev() {
            let parent = entry.parent.unwrap_or(0) as usize;
            ranks[parent] = ranks[parent].min(ranks[at]);
        }
        Some(ranks)
    }
}
