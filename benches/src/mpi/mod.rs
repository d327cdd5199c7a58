//! An MPI program on the hosts of a lab, with and without the drop-in.

pub mod drop_in;

pub use ethbcast_bench::mpi::{Cluster, Loop, Measured, Mpi, WARM_UPS, missing, version};
