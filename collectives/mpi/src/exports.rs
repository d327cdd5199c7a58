//! Exported C names of the calls. Each is offered to `calls` first, and otherwise passed on to the
//! MPI.
//!
//! An int is passed as an int everywhere. A handle, an address or a count of the `_c` forms is a
//! word; the calling conventions of 64-bit Linux allow an int of MPICH's in it.
#![allow(non_snake_case)]

use crate::calls;
use crate::dynamic::Symbol;
use crate::presence;
use crate::stderr::print_line;
use crate::table::Word;
use std::ffi::c_int;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle and an int do not pass alike on this machine");

/// Value of `MPI_ERR_OTHER` in most MPIs; used only for a missing function.
const NO_SUCH_FUNCTION: c_int = 15;

/// Calls the MPI's own function, or returns an error if it has none of this name.
pub fn own<F: Copy>(symbol: &Symbol<F>, name: &str, call: impl FnOnce(F) -> c_int) -> c_int {
    symbol.get().map_or_else(
        || {
            print_line(format_args!("this MPI has no {name}"));
            NO_SUCH_FUNCTION
        },
        call,
    )
}

macro_rules! one_buffer {
    ($name:ident, $own:literal, $count:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(buffer: Word, count: $count, datatype: Word, root: c_int, comm: Word) -> c_int {
            static OWN: Symbol<extern "C" fn(Word, $count, Word, c_int, Word) -> c_int> = Symbol::new($own);
            calls::broadcast((buffer, i64::from(count), datatype), root, comm, || {
                own(&OWN, concat!("P", stringify!($name)), |own| own(buffer, count, datatype, root, comm))
            })
        }
    };
}

macro_rules! two_buffers_and_root {
    ($name:ident, $own:literal, $call:path, $count:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word,
            sent: $count,
            sent_type: Word,
            to: Word,
            received: $count,
            received_type: Word,
            root: c_int,
            comm: Word,
        ) -> c_int {
            type Own = extern "C" fn(Word, $count, Word, Word, $count, Word, c_int, Word) -> c_int;
            static OWN: Symbol<Own> = Symbol::new($own);
            let buffers = ((from, i64::from(sent), sent_type), (to, i64::from(received), received_type));
            $call(buffers.0, buffers.1, root, comm, || {
                own(&OWN, concat!("P", stringify!($name)), |own| {
                    own(from, sent, sent_type, to, received, received_type, root, comm)
                })
            })
        }
    };
}

macro_rules! two_buffers {
    ($name:ident, $own:literal, $call:path, $count:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word,
            sent: $count,
            sent_type: Word,
            to: Word,
            received: $count,
            received_type: Word,
            comm: Word,
        ) -> c_int {
            type Own = extern "C" fn(Word, $count, Word, Word, $count, Word, Word) -> c_int;
            static OWN: Symbol<Own> = Symbol::new($own);
            let buffers = ((from, i64::from(sent), sent_type), (to, i64::from(received), received_type));
            $call(buffers.0, buffers.1, comm, || {
                own(&OWN, concat!("P", stringify!($name)), |own| {
                    own(from, sent, sent_type, to, received, received_type, comm)
                })
            })
        }
    };
}

one_buffer!(MPI_Bcast, c"PMPI_Bcast", c_int);
one_buffer!(MPI_Bcast_c, c"PMPI_Bcast_c", i64);
two_buffers!(MPI_Allgather, c"PMPI_Allgather", calls::allgather, c_int);
two_buffers!(MPI_Allgather_c, c"PMPI_Allgather_c", calls::allgather, i64);
two_buffers_and_root!(MPI_Gather, c"PMPI_Gather", calls::gather, c_int);
two_buffers_and_root!(MPI_Gather_c, c"PMPI_Gather_c", calls::gather, i64);
two_buffers_and_root!(MPI_Scatter, c"PMPI_Scatter", calls::scatter, c_int);
two_buffers_and_root!(MPI_Scatter_c, c"PMPI_Scatter_c", calls::scatter, i64);

#[unsafe(no_mangle)]
extern "C" fn MPI_Barrier(comm: Word) -> c_int {
    static OWN: Symbol<extern "C" fn(Word) -> c_int> = Symbol::new(c"PMPI_Barrier");
    calls::barrier(comm, || own(&OWN, "PMPI_Barrier", |own| own(comm)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Init(count: Word, words: Word) -> c_int {
    static OWN: Symbol<extern "C" fn(Word, Word) -> c_int> = Symbol::new(c"PMPI_Init");
    begun(|| own(&OWN, "PMPI_Init", |own| own(count, words)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Init_thread(count: Word, words: Word, required: c_int, provided: Word) -> c_int {
    static OWN: Symbol<extern "C" fn(Word, Word, c_int, Word) -> c_int> = Symbol::new(c"PMPI_Init_thread");
    begun(|| own(&OWN, "PMPI_Init_thread", |own| own(count, words, required, provided)))
}

pub fn begun(own: impl FnOnce() -> c_int) -> c_int {
    presence::announce();
    let code = own();
    if code == 0 {
        presence::settle();
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Finalize() -> c_int {
    static OWN: Symbol<extern "C" fn() -> c_int> = Symbol::new(c"PMPI_Finalize");
    calls::finish();
    own(&OWN, "PMPI_Finalize", |own| own())
}
