//! The Python package `ethbcast`: one-to-many transfers and MPI-like communicators.
//!
//! The package is a thin layer over [`ethbcast_collectives`]: a call releases the interpreter, runs
//! the library's call of that name, and raises its failure. `python/ethbcast` has the parts written
//! in Python, and the stubs. Unsafe operations are in `buffers`.

mod buffers;
mod communicator;
mod failure;
mod session;
mod waiting;

/// Sessions and communicators over raw Ethernet frames; `ethbcast` is its public name.
#[pyo3::pymodule]
mod _ethbcast {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::communicator::Communicator;
    #[pymodule_export]
    use crate::session::{Report, recv, send};
    #[pymodule_export]
    use crate::waiting::Cancel;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        ethbcast_collectives::spell_options(crate::failure::option);
        Ok(())
    }
}
