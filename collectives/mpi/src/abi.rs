//! Access to an MPI library by the MPI standard's own binary interface (MPI 5.0, chapter 20),
//! without `mpi.h`. `c/backend.c` is the equivalent for MPIs with their own interface.

use crate::dynamic::{
    ContinueCallback, FLOAT, GIVEN_UP, INTER, KNOWN, MAX, MIN, NEW, NO_FUNCTION, NOT_NOW, NULL,
    SIGNED, SUM, Symbol, TRUNCATED, Table, UNSIGNED, VERSION, Word, done,
};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

const SUCCESS: c_int = 0;
const ERR_TRUNCATE: c_int = 15;
const ERR_OTHER: c_int = 16;
const COMM_NULL: Word = 0x100;
const COMM_WORLD: Word = 0x101;
const COMM_SELF: Word = 0x102;
const REQUEST_NULL: Word = 0x180;
const TYPE_NULL: Word = 0x200;
const INT: Word = 0x209;
const TYPE_BYTE: Word = 0x247;
const OP_SUM: Word = 0x21;
const OP_MIN: Word = 0x22;
const OP_MAX: Word = 0x23;
/// C's integers by name and by width, Fortran's.
const TYPES_SIGNED: [Word; 14] = [
    0x208, INT, 0x20a, 0x20b, 0x244, 0x240, 0x248, 0x250, 0x258, 0x219, 0x2c1, 0x2c9, 0x2d1, 0x2d9,
];
/// C's unsigned integers by name and by width.
const TYPES_UNSIGNED: [Word; 9] = [
    0x245, 0x20c, 0x20d, 0x20e, 0x20f, 0x241, 0x249, 0x251, 0x259,
];
/// `MPI_FLOAT`, `DOUBLE`, `REAL`, `DOUBLE_PRECISION`, `REAL4`, `REAL8`.
const TYPES_FLOAT: [Word; 6] = [0x210, 0x214, 0x21a, 0x21c, 0x2d2, 0x2da];
const COMBINER_NAMED: c_int = 101;
const UNDEFINED: c_int = -32766;
const IN_PLACE: Word = 1;
const BOTTOM: Word = 0;
const NOTHING: Word = 0;

type Closed = extern "C" fn(state: *mut c_void);
type Delete =
    extern "C" fn(comm: Word, key: c_int, state: *mut c_void, extra: *mut c_void) -> c_int;

/// Defines calls of the MPI's functions by name; a missing function is an error. They are `extern
/// "C"`, as their callers require.
macro_rules! own {
    ($($function:ident($($argument:ident: $kind:ty),* $(,)?) = $name:literal;)*) => {$(
        extern "C" fn $function($($argument: $kind),*) -> c_int {
            static OWN: Symbol<extern "C" fn($($kind),*) -> c_int> = Symbol::new($name);
            OWN.get().map_or(ERR_OTHER, |own| own($($argument),*))
        }
    )*};
}

own! {
    abi_version(major: &mut c_int, minor: &mut c_int) = "PMPI_Abi_get_version\0";
    create_keyval(copy: Word, delete: Delete, key: &mut c_int, extra: Word) = "PMPI_Comm_create_keyval\0";
    get_attribute(comm: Word, key: c_int, state: &mut *mut c_void, is_there: &mut c_int) = "PMPI_Comm_get_attr\0";
    set_attribute(comm: Word, key: c_int, state: *mut c_void) = "PMPI_Comm_set_attr\0";
    duplicate(comm: Word, made: &mut Word) = "PMPI_Comm_dup\0";
    comm_split(comm: Word, color: c_int, key: c_int, made: &mut Word) = "PMPI_Comm_split\0";
    comm_free(comm: &mut Word) = "PMPI_Comm_free\0";
    comm_rank(comm: Word, rank: &mut c_int) = "PMPI_Comm_rank\0";
    comm_size(comm: Word, size: &mut c_int) = "PMPI_Comm_size\0";
    test_inter(comm: Word, is_so: &mut c_int) = "PMPI_Comm_test_inter\0";
    call_handler(comm: Word, code: c_int) = "PMPI_Comm_call_errhandler\0";
    comm_group(comm: Word, made: &mut Word) = "PMPI_Comm_group\0";
    translate(of: Word, count: c_int, ranks: *const c_int, to: Word, theirs: *mut c_int)
        = "PMPI_Group_translate_ranks\0";
    group_free(group: &mut Word) = "PMPI_Group_free\0";
    receive(at: *mut u8, count: c_int, kind: Word, from: c_int, tag: c_int, comm: Word, request: *const AtomicUsize)
        = "PMPI_Irecv\0";
    test(request: *const AtomicUsize, is_done: &mut c_int, status: Word) = "PMPI_Test\0";
    cancel(request: *const AtomicUsize) = "PMPI_Cancel\0";
    wait(request: *const AtomicUsize, status: Word) = "PMPI_Wait\0";
    envelope(of: Word, integers: &mut c_int, addresses: &mut c_int, types: &mut c_int, combiner: &mut c_int)
        = "PMPI_Type_get_envelope\0";
    type_size(of: Word, bytes: &mut i64) = "PMPI_Type_size_c\0";
    type_extent(of: Word, lower: &mut i64, extent: &mut i64) = "PMPI_Type_get_extent_c\0";
    own_pack(from: Word, count: i64, of: Word, to: *mut u8, room: i64, at: &mut i64, comm: Word) = "PMPI_Pack_c\0";
    own_unpack(from: *const u8, room: i64, at: &mut i64, to: Word, count: i64, of: Word, comm: Word)
        = "PMPI_Unpack_c\0";
    own_allgather(from: *const u8, sent: c_int, kind: Word, to: *mut u8, received: c_int, as_kind: Word, comm: Word)
        = "PMPI_Allgather\0";
    own_gather(
        from: *const u8, sent: c_int, kind: Word, to: *mut u8, received: c_int, as_kind: Word, root: c_int, comm: Word,
    ) = "PMPI_Gather\0";
    own_scatter(
        from: *const u8, sent: c_int, kind: Word, to: *mut u8, received: c_int, as_kind: Word, root: c_int, comm: Word,
    ) = "PMPI_Scatter\0";
    allreduce(from: &c_int, to: &mut c_int, count: c_int, kind: Word, how: Word, comm: Word) = "PMPI_Allreduce\0";
    own_broadcast(at: *mut u8, count: c_int, kind: Word, root: c_int, comm: Word) = "PMPI_Bcast\0";
    own_barrier(comm: Word) = "PMPI_Barrier\0";
    begin_broadcast(at: *mut u8, count: c_int, kind: Word, root: c_int, comm: Word, request: *const AtomicUsize)
        = "PMPI_Ibcast\0";
    begin_barrier(comm: Word, request: *const AtomicUsize) = "PMPI_Ibarrier\0";
}

pub fn is_spoken() -> bool {
    let (mut major, mut minor) = (-1, -1);
    // Its functions have one meaning for every major version.
    abi_version(&mut major, &mut minor) == SUCCESS && major >= 1
}

static KEY: OnceLock<c_int> = OnceLock::new();
static CLOSED: OnceLock<Closed> = OnceLock::new();
/// Private communicator on which no message is sent. Testing a receive that never completes makes
/// the MPI progress on other messages.
static NOBODYS: AtomicUsize = AtomicUsize::new(COMM_NULL);
static NEVER: AtomicUsize = AtomicUsize::new(REQUEST_NULL);
static IS_TESTING: AtomicBool = AtomicBool::new(false);
/// Whether `MPI_Finalize` has begun; communicators of MPI sessions may continue.
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn on_delete(_: Word, _: c_int, state: *mut c_void, _: *mut c_void) -> c_int {
    if let Some(closed) = CLOSED.get() {
        closed(state);
    }
    SUCCESS
}

/// `MPI_Finalize` begins with the attributes of `MPI_COMM_SELF`.
extern "C" fn on_finalize(_: Word, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    IS_OVER.store(true, Ordering::Relaxed);
    cancel(&NEVER);
    wait(&NEVER, NOTHING);
    comm_free(&mut NOBODYS.swap(COMM_NULL, Ordering::Relaxed))
}

extern "C" fn start(closed: Closed) -> c_int {
    CLOSED.get_or_init(|| closed);
    static NEVER_THERE: AtomicI32 = AtomicI32::new(0);
    let (mut key, mut at_end, mut nobodys) = (0, 0, COMM_NULL);
    let mut begin = || {
        done(create_keyval(NOTHING, on_delete, &mut key, NOTHING))?;
        done(duplicate(COMM_SELF, &mut nobodys))?;
        NOBODYS.store(nobodys, Ordering::Relaxed);
        done(receive(
            NEVER_THERE.as_ptr().cast(),
            1,
            TYPE_BYTE,
            0,
            0,
            nobodys,
            &NEVER,
        ))?;
        done(create_keyval(NOTHING, on_finalize, &mut at_end, NOTHING))?;
        done(set_attribute(COMM_SELF, at_end, std::ptr::null_mut()))
    };
    let begun = begin();
    KEY.get_or_init(|| key);
    begun.err().unwrap_or(SUCCESS)
}

extern "C" fn world(rank: &mut c_int) -> c_int {
    let mut size = 0;
    comm_rank(COMM_WORLD, rank);
    if comm_size(COMM_WORLD, &mut size) == SUCCESS {
        size
    } else {
        0
    }
}

extern "C" fn is_of_world(comm: Word) -> c_int {
    let (mut all, mut group, mut size) = (0, 0, 0);
    comm_group(COMM_WORLD, &mut all);
    comm_group(comm, &mut group);
    comm_size(comm, &mut size);
    let ranks: Vec<c_int> = (0..size).collect();
    let mut theirs = vec![UNDEFINED; ranks.len()];
    let translated = translate(group, size, ranks.as_ptr(), all, theirs.as_mut_ptr());
    group_free(&mut all);
    group_free(&mut group);
    c_int::from(translated == SUCCESS && !theirs.contains(&UNDEFINED))
}

extern "C" fn look(
    comm: Word,
    state: &mut *mut c_void,
    rank: &mut c_int,
    size: &mut c_int,
) -> c_int {
    let (mut is_there, mut is_inter) = (0, 0);
    if comm == COMM_NULL || comm == 0 {
        return NULL;
    }
    if IS_OVER.load(Ordering::Relaxed) {
        return NOT_NOW;
    }
    if let Some(&key) = KEY.get() {
        // An invalid communicator is left to the MPI, which reports it.
        if get_attribute(comm, key, state, &mut is_there) != SUCCESS {
            return NULL;
        }
        if is_there != 0 {
            return KNOWN;
        }
    }
    if test_inter(comm, &mut is_inter) != SUCCESS {
        return NULL;
    }
    if is_inter != 0 {
        return INTER;
    }
    comm_rank(comm, rank);
    comm_size(comm, size);
    NEW
}

extern "C" fn keep(comm: Word, state: *mut c_void) -> c_int {
    KEY.get()
        .map_or(ERR_OTHER, |&key| set_attribute(comm, key, state))
}

extern "C" fn type_of(
    datatype: Word,
    bytes: &mut i64,
    extent: &mut i64,
    is_plain: &mut c_int,
) -> c_int {
    let (mut integers, mut addresses, mut types, mut combiner, mut lower) = (0, 0, 0, 0, 0);
    if datatype == TYPE_NULL
        || envelope(
            datatype,
            &mut integers,
            &mut addresses,
            &mut types,
            &mut combiner,
        ) != SUCCESS
        || type_size(datatype, bytes) != SUCCESS
        || type_extent(datatype, &mut lower, extent) != SUCCESS
        || *bytes < 0
    {
        return -1;
    }
    *is_plain = c_int::from(combiner == COMBINER_NAMED && lower == 0 && *extent == *bytes);
    SUCCESS
}

extern "C" fn numbers(datatype: Word) -> c_int {
    match datatype {
        _ if TYPES_SIGNED.contains(&datatype) => SIGNED,
        _ if TYPES_UNSIGNED.contains(&datatype) => UNSIGNED,
        _ if TYPES_FLOAT.contains(&datatype) => FLOAT,
        _ => 0,
    }
}

extern "C" fn function(op: Word) -> c_int {
    match op {
        OP_SUM => SUM,
        OP_MIN => MIN,
        OP_MAX => MAX,
        _ => NO_FUNCTION,
    }
}

extern "C" fn pack(
    comm: Word,
    datatype: Word,
    count: i64,
    from: Word,
    to: *mut u8,
    bytes: i64,
) -> c_int {
    let mut at = 0;
    let code = own_pack(from, count, datatype, to, bytes, &mut at, comm);
    if code == SUCCESS && at != bytes {
        ERR_OTHER
    } else {
        code
    }
}

extern "C" fn unpack(
    comm: Word,
    datatype: Word,
    count: i64,
    to: Word,
    from: *const u8,
    bytes: i64,
) -> c_int {
    own_unpack(from, bytes, &mut 0, to, count, datatype, comm)
}

extern "C" fn is_in_place(address: Word) -> c_int {
    c_int::from(address == IN_PLACE)
}

extern "C" fn is_bottom(address: Word) -> c_int {
    c_int::from(address == BOTTOM)
}

extern "C" fn allgather(comm: Word, own: *const u8, all: *mut u8, bytes: c_int) -> c_int {
    own_allgather(own, bytes, TYPE_BYTE, all, bytes, TYPE_BYTE, comm)
}

extern "C" fn gather(comm: Word, own: *const u8, all: *mut u8, bytes: c_int, root: c_int) -> c_int {
    own_gather(own, bytes, TYPE_BYTE, all, bytes, TYPE_BYTE, root, comm)
}

extern "C" fn scatter(
    comm: Word,
    all: *const u8,
    own: *mut u8,
    bytes: c_int,
    root: c_int,
) -> c_int {
    own_scatter(all, bytes, TYPE_BYTE, own, bytes, TYPE_BYTE, root, comm)
}

extern "C" fn least(comm: Word, own: c_int, least: &mut c_int) -> c_int {
    allreduce(&own, least, 1, INT, OP_MIN, comm)
}

extern "C" fn broadcast(comm: Word, buffer: *mut u8, bytes: c_int, root: c_int) -> c_int {
    own_broadcast(buffer, bytes, TYPE_BYTE, root, comm)
}

extern "C" fn barrier(comm: Word) -> c_int {
    own_barrier(comm)
}

/// Tests the request until it is done; other ranks of this host wait meanwhile, perhaps on this
/// core.
fn watched(
    begun: c_int,
    request: &AtomicUsize,
    must_continue: ContinueCallback,
    state: *const c_void,
) -> c_int {
    if begun != SUCCESS {
        return begun;
    }
    let mut turn = 0_u32;
    loop {
        let mut is_done = 0;
        let code = test(request, &mut is_done, NOTHING);
        if code != SUCCESS || is_done != 0 {
            return code;
        }
        if turn % 64 == 63 && must_continue(state) == 0 {
            return GIVEN_UP;
        }
        if turn > 16 {
            std::thread::yield_now();
        }
        turn = turn.wrapping_add(1);
    }
}

extern "C" fn watched_broadcast(
    comm: Word,
    buffer: *mut u8,
    bytes: c_int,
    root: c_int,
    must_continue: ContinueCallback,
    state: *const c_void,
) -> c_int {
    let request = AtomicUsize::new(REQUEST_NULL);
    watched(
        begin_broadcast(buffer, bytes, TYPE_BYTE, root, comm, &request),
        &request,
        must_continue,
        state,
    )
}

extern "C" fn watched_barrier(
    comm: Word,
    must_continue: ContinueCallback,
    state: *const c_void,
) -> c_int {
    let request = AtomicUsize::new(REQUEST_NULL);
    watched(
        begin_barrier(comm, &request),
        &request,
        must_continue,
        state,
    )
}

extern "C" fn split(comm: Word, color: c_int, key: c_int, part: &mut Word) -> c_int {
    comm_split(comm, color, key, part)
}

extern "C" fn release(mut comm: Word) -> c_int {
    comm_free(&mut comm)
}

extern "C" fn progress() {
    // One thread at a time makes progress for all, and only one may test a request.
    if !IS_TESTING.swap(true, Ordering::Acquire) {
        test(&NEVER, &mut 0, NOTHING);
        IS_TESTING.store(false, Ordering::Release);
    }
}

extern "C" fn fail(comm: Word, failure: c_int) -> c_int {
    let code = if failure == TRUNCATED {
        ERR_TRUNCATE
    } else {
        ERR_OTHER
    };
    call_handler(comm, code);
    code
}

/// Fortran calls come under C's names, or not at all.
extern "C" fn of_fortran(_: c_int) -> Word {
    0
}

pub static TABLE: Table = Table {
    version: VERSION,
    library: c"MPI standard ABI".as_ptr(),
    start,
    world,
    is_of_world,
    look,
    keep,
    type_of,
    numbers,
    function,
    pack,
    unpack,
    is_in_place,
    is_bottom,
    allgather,
    gather,
    scatter,
    least,
    broadcast,
    barrier,
    watched_broadcast,
    watched_barrier,
    split,
    release,
    progress,
    fail,
    comm_of_fortran: of_fortran,
    type_of_fortran: of_fortran,
    op_of_fortran: of_fortran,
};
