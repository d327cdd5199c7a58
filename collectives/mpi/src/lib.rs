//! The MPI drop-in: preloaded, or linked before the MPI, it takes over `MPI_Bcast`, `MPI_Barrier`, `MPI_Allgather`,
//! `MPI_Scatter` and `MPI_Gather` where that is faster, and passes them on everywhere else (docs/mpi.md).
//!
//! **The front** (`exports`, `fortran`) knows no `mpi.h`. It takes every argument as the calling convention hands
//! it over, a word or an int, so that handles of any MPI fit; what they mean it asks a `table` of functions that a
//! **back end** in C fills, compiled with the MPI's own header; that of the standard's own binary interface is `abi`.
//! `library` finds which MPI there is, `presence` whether every rank has this library.
//!
//! **A communicator** is wired at its first collective (`group`): all ranks exchange `card`s by the MPI's own
//! allgather, derive the same `seating` from them, join, and agree whether all have succeeded. What it came to is
//! kept with the communicator as an attribute. When a length is called for, a `trial` says by its `timing` whether the
//! MPI is faster at it, in `prices` that all ranks have; the `ledger` says which length is due. Apart from that a
//! call's way depends on its number of bytes alone, which all ranks see the same (`calls`).
//!
//! Where they do not, as ranks differ about the number of bytes, a thread finds it out (`order`, `lookout`).
//!
//! While a call waits it lets the MPI go on, or messages that others wait for would never leave.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

mod abi;
mod buffers;
mod calls;
mod card;
mod dynamic;
mod exports;
mod fortran;
mod group;
mod ledger;
mod library;
mod lookout;
mod neighbours;
mod order;
mod presence;
mod prices;
mod seating;
mod settings;
mod statistics;
mod stderr;
mod table;
mod timing;
mod trial;
mod wire;
