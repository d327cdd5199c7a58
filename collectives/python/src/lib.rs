//! The Python package `ethbcast`: sessions and communicators.
//!
//! Thin over [`ethbcast_collectives`]: a call gives its thread's hold on the interpreter back, runs the library's call
//! of the same name, and raises what that failed with. `python/ethbcast` has what is better said in Python, and the
//! stubs. All that is unsafe in the doing stands in `buffers`.

mod buffers;
mod communicator;
mod failure;
mod options;
mod running;
mod session;
mod signals;

/// Sessions and communicators over raw Ethernet frames; `ethbcast` is its public name.
#[pyo3::pymodule]
mod _ethbcast {
    #[pymodule_export]
    use crate::communicator::Communicator;
    #[pymodule_export]
    use crate::session::{Report, recv, send};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
