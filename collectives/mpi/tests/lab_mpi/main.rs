//! MPI programs of both MPIs on the hosts of a lab, with the drop-in preloaded, and without.

mod bed;
mod calls;
mod standard;
mod withdrawing;
