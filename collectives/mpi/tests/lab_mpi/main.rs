//! Tests of MPI programs (MPICH and Open MPI) in network namespaces, with and without ethbcast's
//! library.

mod bed;
mod calls;
mod standard;
mod withdrawing;
