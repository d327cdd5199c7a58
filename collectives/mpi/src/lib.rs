//! Preloadable library that makes a program's MPI collectives faster by Ethernet broadcast. It
//! takes over `MPI_Bcast`, `MPI_Barrier`, `MPI_Allgather`, `MPI_Scatter`, `MPI_Gather`,
//! `MPI_Allreduce` and `MPI_Reduce` where it is faster, and passes all other calls on (docs/mpi.md).
//!
//! **The front** (`exports`) uses no `mpi.h`. It takes every argument as the calling convention
//! passes it, a word or an int, so that handles of any MPI fit. It interprets them with a table of
//! functions from a **back end** in C, compiled with the MPI's own header; `abi` is the back end of
//! the standard's own binary interface. `library` finds the MPI, `presence` checks that every rank
//! has this library.
//!
//! **A communicator** is wired (its ranks join an ethbcast group, the *wire*) once the ranks'
//! `account`s show that it can pay (`group`). All ranks exchange node descriptors (`rank_map`) by
//! the MPI's own allgather, derive equal `rank_map`s from them, and join in the background, while
//! the program continues with the MPI. The state is kept with the communicator as an attribute. The
//! account decides when a length is tried on the wire, by the program's own calls; all ranks record
//! the result in a `cost_table`, which decides from then on (`calls`). The results are kept for
//! later communicators, and so is the wire, for those of the same ranks; in it those of fewer ranks
//! are numbers (`kept`).
//!
//! A thread detects ranks that differ about the number of bytes (`order`, `wire`).
//!
//! While a call waits it lets the MPI make progress, because messages that others wait for would
//! otherwise never leave.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

mod abi;
mod account;
mod buffers;
mod calls;
mod cost_table;
mod dynamic;
mod exports;
mod group;
mod kept;
mod library;
mod neighbours;
mod order;
mod presence;
mod rank_map;
mod settings;
mod wire;
