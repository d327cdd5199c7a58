//! The files of a directory under construction: the one that is being written, and all for readers.

use super::makers::Orders;
use crate::disk::{Directory, DiskFile};
use crate::layout::Layout;
use crate::replay::OpenEntry;
use std::io;
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum Current<F> {
    New(F),
    /// DEST's own file, as long as its bytes are equal.
    Same(F),
}

#[derive(Debug)]
pub(super) struct BuiltFiles<D: Directory> {
    layout: Arc<Layout>,
    root: Arc<D>,
    /// Directory into which files were moved one by one; none if an earlier run built them.
    moved: Option<D>,
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
            // The page cache may hold bytes that the disk does not: a write-back error is reported
            // only once.
            file.forget()?;
            return Ok(file);
        };
        self.root.file(&path).or_else(|_| moved.file(&path))
    }
}
