//! MPI functions that ethbcast's library exports, in C and Fortran, to intercept a program's calls.
//! Each is offered to `calls` first, and otherwise passed on to the MPI.
//!
//! C passes an int as an int everywhere. A handle, an address or a count of the `_c` forms is
//! a word; the calling conventions of 64-bit Linux allow an int of MPICH's in it.
//!
//! Fortran passes every argument as an address. `mpif.h` and `use mpi` call `mpi_bcast_`, `use
//! mpi_f08` of Open MPI `mpi_bcast_f08_`. Open MPI's own call `PMPI_Bcast`, past `MPI_Bcast`.
//! MPICH's call `MPI_Bcast`, and are left alone.
#![allow(non_snake_case)]

use crate::buffers::{Counted, extent, in_parts};
use crate::calls::{self, Buffer};
use crate::dynamic::{Symbol, Table, Word, address, print_line};
use crate::library::Process;
use crate::presence;
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle and an int do not pass alike on this machine");

/// Value of `MPI_ERR_OTHER` in most MPIs; used only for a missing function.
const NO_SUCH_FUNCTION: c_int = 15;

/// Open MPI's addresses in C for `MPI_IN_PLACE` and `MPI_BOTTOM`, and MPICH's.
const IN_PLACE: Word = 1;
const MPICH_IN_PLACE: Word = Word::MAX;
const BOTTOM: Word = 0;

/// Common blocks whose addresses stand for them in Fortran.
const SIGNS: [(&CStr, Word); 6] = [
    (c"mpi_fortran_in_place_", IN_PLACE),
    (c"mpi_fortran_in_place", IN_PLACE),
    (c"mpi_fortran_in_place__", IN_PLACE),
    (c"mpi_fortran_bottom_", BOTTOM),
    (c"mpi_fortran_bottom", BOTTOM),
    (c"mpi_fortran_bottom__", BOTTOM),
];

/// Calls the MPI's own function, or returns an error if it has none of this name.
fn own<F: Copy>(symbol: &Symbol<F>, call: impl FnOnce(F) -> c_int) -> c_int {
    symbol.get().map_or_else(
        || {
            print_line(format_args!("this MPI has no {}", symbol.name()));
            NO_SUCH_FUNCTION
        },
        call,
    )
}

fn subroutine<F: Copy>(symbol: &Symbol<F>, call: impl FnOnce(F)) {
    own(symbol, |own| {
        call(own);
        0
    });
}

fn begun(own: impl FnOnce() -> c_int) -> c_int {
    presence::announce();
    let code = own();
    if code == 0 {
        presence::settle();
    }
    code
}

/// Returns the address that a buffer of Fortran has in C.
fn in_c(buffer: Word) -> Word {
    static FOUND: OnceLock<[usize; 6]> = OnceLock::new();
    let found = FOUND.get_or_init(|| SIGNS.map(|(name, _)| address(name) as usize));
    let sign = found.iter().position(|&sign| sign != 0 && sign == buffer);
    sign.map_or(buffer, |at| SIGNS[at].1)
}

/// Returns the back end, if Fortran's calls bypass C's in this MPI. All ranks decide alike,
/// whatever their buffers are.
fn fortran_table() -> Option<&'static Table> {
    let table = Process::get().table.ok()?;
    let has_signs = || (table.is_in_place)(IN_PLACE) != 0 && (table.is_bottom)(BOTTOM) != 0;
    (table.library() == "Open MPI" && has_signs()).then_some(table)
}

fn value(integer: Word) -> c_int {
    // SAFETY: Fortran passes the address of an integer for each of them.
    unsafe { *(integer as *const c_int) }
}

fn buffer(table: &Table, at: Word, count: Word, datatype: Word) -> Buffer {
    (
        in_c(at),
        i64::from(value(count)),
        (table.type_of_fortran)(value(datatype)),
    )
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

/// Defines a collective call's C form and Fortran forms. Its arguments are buffers (address, count,
/// type), the root if it has one, and the communicator.
macro_rules! collective {
    ($name:ident $mpif:ident $f08:ident = $call:path, $(($at:ident $count:ident $kind:ident))* $(, $root:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($at: Word, $count: c_int, $kind: Word,)* $($root: c_int,)? comm: Word) -> c_int {
            type Own = extern "C" fn($($at: Word, $count: c_int, $kind: Word,)* $($root: c_int,)? comm: Word) -> c_int;
            static OWN: Symbol<Own> = Symbol::new(concat!("P", stringify!($name), "\0"));
            $call($(($at, i64::from($count), $kind),)* $($root,)? comm, || {
                own(&OWN, |own| own($($at, $count, $kind,)* $($root,)? comm))
            })
        }
        collective!(@fortran $mpif, $call, $(($at $count $kind))* $(, $root)?);
        collective!(@fortran $f08, $call, $(($at $count $kind))* $(, $root)?);
    };
    (@fortran $name:ident, $call:path, $(($at:ident $count:ident $kind:ident))* $(, $root:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($at: Word, $count: Word, $kind: Word,)* $($root: Word,)? comm: Word, error: Word) {
            type Own = extern "C" fn($($at: Word, $count: Word, $kind: Word,)* $($root: Word,)? c: Word, error: Word);
            static OWN: Symbol<Own> = Symbol::new(concat!("p", stringify!($name), "\0"));
            let own = || subroutine(&OWN, |own| own($($at, $count, $kind,)* $($root,)? comm, error));
            let Some(table) = fortran_table() else { return own() };
            ended(error, own, |pass| {
                $call($(buffer(table, $at, $count, $kind),)* $(value($root),)?
                    (table.comm_of_fortran)(value(comm)), pass)
            });
        }
    };
}

/// Defines the `_c` form of a call. A program that looks it up at run time takes it even if the MPI
/// has none, so it falls back to the MPI's other form then.
macro_rules! long_form {
    ($name:ident $short:ident = $call:path, $(($at:ident $count:ident $kind:ident))* $(, $root:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($at: Word, $count: i64, $kind: Word,)* $($root: c_int,)? comm: Word) -> c_int {
            type Own = extern "C" fn($($at: Word, $count: i64, $kind: Word,)* $($root: c_int,)? comm: Word) -> c_int;
            type Short = extern "C" fn($($at: Word, $count: c_int, $kind: Word,)* $($root: c_int,)? c: Word) -> c_int;
            static OWN: Symbol<Own> = Symbol::new(concat!("P", stringify!($name), "\0"));
            static SHORT: Symbol<Short> = Symbol::new(concat!("P", stringify!($short), "\0"));
            $call($(($at, $count, $kind),)* $($root,)? comm, || {
                if let Some(own) = OWN.get() {
                    return own($($at, $count, $kind,)* $($root,)? comm);
                }
                $(let $count = Counted::new($count, $kind);)*
                own(&SHORT, |own| own($($at, $count.count, $count.datatype(),)* $($root,)? comm))
            })
        }
    };
}

/// Defines all forms of a call that combines elements, with its root if it has one.
macro_rules! reduction {
    ($name:ident $long:ident $mpif:ident $f08:ident = $call:path $(, $root:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word, to: Word, count: c_int, kind: Word, op: Word, $($root: c_int,)? comm: Word,
        ) -> c_int {
            type Own = extern "C" fn(
                from: Word, to: Word, count: c_int, kind: Word, op: Word, $($root: c_int,)? comm: Word,
            ) -> c_int;
            static OWN: Symbol<Own> = Symbol::new(concat!("P", stringify!($name), "\0"));
            $call(from, (to, i64::from(count), kind), op, $($root,)? comm, || {
                own(&OWN, |own| own(from, to, count, kind, op, $($root,)? comm))
            })
        }
        /// Falls back to the other form, like the other `_c` forms.
        #[unsafe(no_mangle)]
        extern "C" fn $long(
            from: Word, to: Word, count: i64, kind: Word, op: Word, $($root: c_int,)? comm: Word,
        ) -> c_int {
            type Own = extern "C" fn(
                from: Word, to: Word, count: i64, kind: Word, op: Word, $($root: c_int,)? comm: Word,
            ) -> c_int;
            type Short = extern "C" fn(
                from: Word, to: Word, count: c_int, kind: Word, op: Word, $($root: c_int,)? comm: Word,
            ) -> c_int;
            static OWN: Symbol<Own> = Symbol::new(concat!("P", stringify!($long), "\0"));
            static SHORT: Symbol<Short> = Symbol::new(concat!("P", stringify!($name), "\0"));
            $call(from, (to, count, kind), op, $($root,)? comm, || {
                if let Some(own) = OWN.get() {
                    return own(from, to, count, kind, op, $($root,)? comm);
                }
                own(&SHORT, |own| in_parts(count, extent(kind).unwrap_or(0), |before, count| {
                    let is_in_place = [IN_PLACE, MPICH_IN_PLACE].contains(&from);
                    let from = if is_in_place { from } else { from.wrapping_add_signed(before) };
                    own(from, to.wrapping_add_signed(before), count, kind, op, $($root,)? comm)
                }))
            })
        }
        reduction!(@fortran $mpif, $call $(, $root)?);
        reduction!(@fortran $f08, $call $(, $root)?);
    };
    (@fortran $name:ident, $call:path $(, $root:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            from: Word, to: Word, count: Word, kind: Word, op: Word, $($root: Word,)? comm: Word, error: Word,
        ) {
            type Own = extern "C" fn(
                from: Word, to: Word, count: Word, kind: Word, op: Word, $($root: Word,)? comm: Word, error: Word,
            );
            static OWN: Symbol<Own> = Symbol::new(concat!("p", stringify!($name), "\0"));
            let own = || subroutine(&OWN, |own| own(from, to, count, kind, op, $($root,)? comm, error));
            let Some(table) = fortran_table() else { return own() };
            ended(error, own, |pass| {
                $call(in_c(from), buffer(table, to, count, kind), (table.op_of_fortran)(value(op)), $(value($root),)?
                    (table.comm_of_fortran)(value(comm)), pass)
            });
        }
    };
}

collective!(MPI_Barrier mpi_barrier_ mpi_barrier_f08_ = calls::barrier,);
collective!(MPI_Bcast mpi_bcast_ mpi_bcast_f08_ = calls::broadcast, (at count datatype), root);
collective!(MPI_Allgather mpi_allgather_ mpi_allgather_f08_ = calls::allgather,
    (from sent sent_type) (to received received_type));
collective!(MPI_Gather mpi_gather_ mpi_gather_f08_ = calls::gather,
    (from sent sent_type) (to received received_type), root);
collective!(MPI_Scatter mpi_scatter_ mpi_scatter_f08_ = calls::scatter,
    (from sent sent_type) (to received received_type), root);
long_form!(MPI_Bcast_c MPI_Bcast = calls::broadcast, (at count datatype), root);
long_form!(MPI_Allgather_c MPI_Allgather = calls::allgather, (from sent sent_type) (to received received_type));
long_form!(MPI_Gather_c MPI_Gather = calls::gather, (from sent sent_type) (to received received_type), root);
long_form!(MPI_Scatter_c MPI_Scatter = calls::scatter, (from sent sent_type) (to received received_type), root);

reduction!(MPI_Allreduce MPI_Allreduce_c mpi_allreduce_ mpi_allreduce_f08_ = calls::allreduce);
reduction!(MPI_Reduce MPI_Reduce_c mpi_reduce_ mpi_reduce_f08_ = calls::reduce, root);

#[unsafe(no_mangle)]
extern "C" fn MPI_Init(count: Word, words: Word) -> c_int {
    static OWN: Symbol<extern "C" fn(Word, Word) -> c_int> = Symbol::new("PMPI_Init\0");
    begun(|| own(&OWN, |own| own(count, words)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Init_thread(count: Word, words: Word, required: c_int, provided: Word) -> c_int {
    static OWN: Symbol<extern "C" fn(Word, Word, c_int, Word) -> c_int> =
        Symbol::new("PMPI_Init_thread\0");
    begun(|| own(&OWN, |own| own(count, words, required, provided)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Finalize() -> c_int {
    static OWN: Symbol<extern "C" fn() -> c_int> = Symbol::new("PMPI_Finalize\0");
    calls::finish();
    own(&OWN, |own| own())
}

/// Defines a subroutine around `MPI_Init` or `MPI_Finalize`. It writes its error itself; if it
/// failed, the program ends or does not look.
macro_rules! around {
    ($name:ident, $around:expr $(, $more:ident)*) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($more: Word,)* error: Word) {
            static OWN: Symbol<extern "C" fn($($more: Word,)* error: Word)> =
                Symbol::new(concat!("p", stringify!($name), "\0"));
            $around(&|| subroutine(&OWN, |own| own($($more,)* error)));
        }
    };
}

fn begun_in_fortran(own: &dyn Fn()) {
    begun(|| {
        own();
        0
    });
}

fn finished_in_fortran(own: &dyn Fn()) {
    calls::finish();
    own();
}

around!(mpi_init_, begun_in_fortran);
around!(mpi_init_f08_, begun_in_fortran);
around!(mpi_init_thread_, begun_in_fortran, required, provided);
around!(mpi_init_thread_f08_, begun_in_fortran, required, provided);
around!(mpi_finalize_, finished_in_fortran);
around!(mpi_finalize_f08_, finished_in_fortran);
