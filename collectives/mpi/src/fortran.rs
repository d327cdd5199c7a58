//! Exported Fortran names. `mpif.h` and `use mpi` call `mpi_bcast_`, `use mpi_f08` of Open MPI
//! `mpi_bcast_f08_`, with all arguments by reference. Open MPI's own call `PMPI_Bcast`, past
//! `MPI_Bcast`. MPICH's call `MPI_Bcast`, and are left alone.

use crate::calls::{self, Buffer};
use crate::dynamic::{Symbol, address};
use crate::exports::{begun, own};
use crate::library::Process;
use crate::table::{Table, Word};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

/// Common blocks whose addresses stand for Fortran's `MPI_IN_PLACE` and `MPI_BOTTOM`.
const SIGNS: [&CStr; 6] = [
    c"mpi_fortran_in_place_",
    c"mpi_fortran_in_place",
    c"mpi_fortran_in_place__",
    c"mpi_fortran_bottom_",
    c"mpi_fortran_bottom",
    c"mpi_fortran_bottom__",
];

fn is_sign(buffer: Word) -> bool {
    static FOUND: OnceLock<[usize; 6]> = OnceLock::new();
    let found = FOUND.get_or_init(|| SIGNS.map(|name| address(name) as usize));
    found.iter().any(|&sign| sign != 0 && sign == buffer)
}

/// Returns the back end, if Fortran's calls bypass C's in this MPI, and no buffer is such an
/// address.
fn table(buffers: &[Word]) -> Option<&'static Table> {
    let table = Process::get().table.ok()?;
    (table.library() == "Open MPI" && !buffers.iter().any(|&buffer| is_sign(buffer))).then_some(table)
}

fn value(integer: Word) -> c_int {
    // SAFETY: Fortran passes the address of an integer for each of them.
    unsafe { *(integer as *const c_int) }
}

fn buffer(table: &Table, at: Word, count: Word, datatype: Word) -> Buffer {
    (at, i64::from(value(count)), (table.type_of_fortran)(value(datatype)))
}

/// Makes a call and writes its error; the MPI's own subroutine writes the error itself.
fn ended(error: Word, own: impl FnOnce(), call: impl FnOnce(&dyn Fn() -> c_int) -> c_int) {
    let is_own = Cell::new(false);
    let code = call(&|| {
        is_own.set(true);
        0
    });
    if is_own.get() {
        own();
    } else if error != 0 {
        // SAFETY: it is not null, so it is the address of an integer for the error.
        unsafe { *(error as *mut c_int) = code };
    }
}

macro_rules! broadcast {
    ($name:ident, $own:literal) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(at: Word, count: Word, datatype: Word, root: Word, comm: Word, error: Word) {
            static OWN: Symbol<extern "C" fn(Word, Word, Word, Word, Word, Word)> = Symbol::new($own);
            let own = || subroutine(&OWN, $own, |own| own(at, count, datatype, root, comm, error));
            let Some(table) = table(&[at]) else { return own() };
            ended(error, own, |pass| {
                let sent = buffer(table, at, count, datatype);
                calls::broadcast(sent, value(root), (table.comm_of_fortran)(value(comm)), pass)
            });
        }
    };
}

macro_rules! barrier {
    ($name:ident, $own:literal) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(comm: Word, error: Word) {
            static OWN: Symbol<extern "C" fn(Word, Word)> = Symbol::new($own);
            let own = || subroutine(&OWN, $own, |own| own(comm, error));
            let Some(table) = table(&[]) else { return own() };
            ended(error, own, |pass| calls::barrier((table.comm_of_fortran)(value(comm)), pass));
        }
    };
}

macro_rules! allgather {
    ($name:ident, $own:literal) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word,
            sent: Word,
            sent_type: Word,
            to: Word,
            received: Word,
            received_type: Word,
            comm: Word,
            error: Word,
        ) {
            static OWN: Symbol<extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word)> = Symbol::new($own);
            let own = || {
                subroutine(&OWN, $own, |own| {
                    own(from, sent, sent_type, to, received, received_type, comm, error);
                });
            };
            let Some(table) = table(&[from, to]) else { return own() };
            ended(error, own, |pass| {
                let (from, to) = (buffer(table, from, sent, sent_type), buffer(table, to, received, received_type));
                calls::allgather(from, to, (table.comm_of_fortran)(value(comm)), pass)
            });
        }
    };
}

macro_rules! rooted {
    ($name:ident, $own:literal, $call:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word,
            sent: Word,
            sent_type: Word,
            to: Word,
            received: Word,
            received_type: Word,
            root: Word,
            comm: Word,
            error: Word,
        ) {
            type Own = extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word);
            static OWN: Symbol<Own> = Symbol::new($own);
            let own = || {
                subroutine(&OWN, $own, |own| {
                    own(from, sent, sent_type, to, received, received_type, root, comm, error);
                });
            };
            let Some(table) = table(&[from, to]) else { return own() };
            ended(error, own, |pass| {
                let (from, to) = (buffer(table, from, sent, sent_type), buffer(table, to, received, received_type));
                $call(from, to, value(root), (table.comm_of_fortran)(value(comm)), pass)
            });
        }
    };
}

fn subroutine<F: Copy>(symbol: &Symbol<F>, name: &CStr, call: impl FnOnce(F)) {
    own(symbol, name.to_str().unwrap_or_default(), |own| {
        call(own);
        0
    });
}

broadcast!(mpi_bcast_, c"pmpi_bcast_");
broadcast!(mpi_bcast_f08_, c"pmpi_bcast_f08_");
barrier!(mpi_barrier_, c"pmpi_barrier_");
barrier!(mpi_barrier_f08_, c"pmpi_barrier_f08_");
allgather!(mpi_allgather_, c"pmpi_allgather_");
allgather!(mpi_allgather_f08_, c"pmpi_allgather_f08_");
rooted!(mpi_gather_, c"pmpi_gather_", calls::gather);
rooted!(mpi_gather_f08_, c"pmpi_gather_f08_", calls::gather);
rooted!(mpi_scatter_, c"pmpi_scatter_", calls::scatter);
rooted!(mpi_scatter_f08_, c"pmpi_scatter_f08_", calls::scatter);

macro_rules! init {
    ($name:ident, $own:literal $(, $more:ident)*) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($more: Word,)* error: Word) {
            static OWN: Symbol<extern "C" fn($(init!(@word $more),)* Word)> = Symbol::new($own);
            // The subroutine writes its error itself; if it failed, the program ends or does not
            // look.
            begun(|| {
                subroutine(&OWN, $own, |own| own($($more,)* error));
                0
            });
        }
    };
    (@word $more:ident) => { Word };
}

init!(mpi_init_, c"pmpi_init_");
init!(mpi_init_f08_, c"pmpi_init_f08_");
init!(mpi_init_thread_, c"pmpi_init_thread_", required, provided);
init!(mpi_init_thread_f08_, c"pmpi_init_thread_f08_", required, provided);

#[unsafe(no_mangle)]
extern "C" fn mpi_finalize_(error: Word) {
    static OWN: Symbol<extern "C" fn(Word)> = Symbol::new(c"pmpi_finalize_");
    calls::finish();
    subroutine(&OWN, c"pmpi_finalize_", |own| own(error));
}

#[unsafe(no_mangle)]
extern "C" fn mpi_finalize_f08_(error: Word) {
    static OWN: Symbol<extern "C" fn(Word)> = Symbol::new(c"pmpi_finalize_f08_");
    calls::finish();
    subroutine(&OWN, c"pmpi_finalize_f08_", |own| own(error));
}
