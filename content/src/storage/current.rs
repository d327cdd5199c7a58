//! The files of a directory that is being built: the one whose bytes come, and all of them for those who read them.

use super::makers::Orders;
use crate::disk::{Directory, DiskFile};
use crate::layout::Layout;
use crate::replay::OpenEntry;
use std::io;
use std::sync::Arc;

/// A file whose bytes come.
#[derive(Debug)]
pub(super) enum Current<F> {
    /// One that is built.
    New(F),
    /// What DEST has in its place, as long as that is the same.
    Same(F),
}

/// The files of a directory that is being built, or was.
#[derive(Debug)]
pub(super) struct BuiltFiles<D: Directory> {
    layout: Arc<Layout>,
    root: Arc<D>,
    /// Where they are once they were moved one by one; none where an earlier run built them.
    moved: Option<D>,
    /// Who makes them now, if others than the thread that takes the stream do.
    orders: Option<Arc<Orders<D>>>,
}

impl<D: Directory> BuiltFiles<D> {
    pub(super) fn new(layout: &Arc<Layout>, root: &Arc<D>, moved: Option<D>) -> BuiltFiles<D> {
        BuiltFiles { layout: Arc::clone(layout), root: Arc::clone(root), moved, orders: None }
    }

    pub(super) fn made_by(self, orders: Option<Arc<Orders<D>>>) -> BuiltFiles<D> {
        BuiltFiles { orders, ..self }
    }
}

impl<D: Directory> OpenEntry for BuiltFiles<D> {
    type File = D::File;

    fn open(&self, entry: usize) -> io::Result<D::File> {
        if let Some(orders) = &self.orders {
            orders.wait_for(entry);
        }
        let path = self.layout.manifest().path(entry);
        let Some(moved) = &self.moved else {
            let file = self.root.file(&path)?;
            // What memory has of it may be what the disk does not: an error of writing it back is told once.
            file.forget()?;
            return Ok(file);
        };
        self.root.file(&path).or_else(|_| moved.file(&path))
    }
}
