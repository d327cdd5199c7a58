//! Tests of MPI programs (MPICH and Open MPI) on hosts in network namespaces, with and without the
//! library.

mod bed;
mod calls;
mod standard;
mod withdrawing;
