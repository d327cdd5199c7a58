//! MPI drop-in: preloaded, or linked before the MPI, it takes over `MPI_Bcast`, `MPI_Barrier`,
//! `MPI_Allgather`, `MPI_Scatter` and `MPI_Gather` where it is faster, and passes all other calls
//! on (docs/mpi.md).
//!
//! **The front** (`exports`) uses no `mpi.h`. It takes every argument as the calling
//! convention passes it, a word or an int, so that handles of any MPI fit. It interprets them with
//! a `table` of functions from a **back end** in C, compiled with the MPI's own header; `abi` is
//! the back end of the standard's own binary interface. `library` finds the MPI, `presence` checks
//! that every rank has this library.
//!
//! **A communicator** is wired at its first collective (`group`): all ranks exchange `card`s by the
//! MPI's own allgather, derive equal `seating`s from them, join, and agree whether all have
//! succeeded. The result is kept with the communicator as an attribute. When a length is first
//! called, a `trial` measures with `timing` whether the MPI is faster at it, and all ranks record
//! the result in `prices`; the `ledger` decides which length is due. Otherwise a call's route
//! depends on its number of bytes alone, which all ranks see alike (`calls`).
//!
//! If ranks differ about the number of bytes, a thread detects it (`order`, `lookout`).
//!
//! While a call waits it lets the MPI make progress, because messages that others wait for would
//! otherwise never leave.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

mod abi;
mod buffers;
mod calls;
mod cost_table;
mod deadlock_watchdog;
mod dynamic;
mod exports;
mod group;
mod library;
mod neighbours;
mod node_descriptor;
mod order;
mod presence;
mod rank_map;
mod settings;
mod statistics;
mod stderr;
mod table;
mod timing;
mod trial;
mod tuning_table;
mod wire;
