//! Tests of MPI programs (MPICH and Open MPI) on the hosts of a lab, with the drop-in preloaded, and without.

mod bed;
mod calls;
mod standard;
mod withdrawing;
