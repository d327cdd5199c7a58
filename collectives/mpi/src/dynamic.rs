//! Dynamic loading: looks up MPI functions by name, and loads the module made for the MPI in use.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io::Write;
use std::mem::{size_of, transmute_copy};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Library names of MPIs, for programs that have loaded theirs with local visibility (as Python
/// does): MPICH and relatives, Open MPI, and the standard's own ABI.
const SONAMES: [&CStr; 5] = [
    c"libmpi.so.40",
    c"libmpi.so.12",
    c"libmpich.so.12",
    c"libmpi.so.80",
    c"libmpi_abi.so.0",
];

/// A function of the MPI, looked up once. `F` is a function pointer type.
pub struct Symbol<F> {
    name: &'static CStr,
    found: OnceLock<Option<F>>,
}

impl<F: Copy> Symbol<F> {
    /// Looks for the function of this name, which ends with a zero byte, at the first use.
    pub const fn new(name: &'static str) -> Symbol<F> {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Symbol {
                name,
                found: OnceLock::new(),
            },
            Err(_) => panic!("a name without a zero byte at its end"),
        }
    }

    pub fn name(&self) -> std::borrow::Cow<'static, str> {
        self.name.to_string_lossy()
    }

    pub fn get(&self) -> Option<F> {
        *self.found.get_or_init(|| {
            const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
            let mut address = address(self.name);
            if address.is_null() {
                address = behind_this(self.name);
            }
            // SAFETY: it is not null, and a function of the MPI with the arguments that MPI's
            // standard gives it, which `F` says.
            (!address.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, F>(&address) })
        })
    }
}

pub fn address(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with a zero byte.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if !global.is_null() {
        return global;
    }
    let hidden = SONAMES.iter().map(|soname| {
        // SAFETY: nothing new is loaded, so nothing runs.
        let library = unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if library.is_null() {
            return library;
        }
        // SAFETY: a handle that has just been given out, and a name that ends with a zero byte.
        unsafe { libc::dlsym(library, name.as_ptr()) }
    });
    hidden
        .into_iter()
        .find(|address| !address.is_null())
        .unwrap_or(std::ptr::null_mut())
}

pub fn library(soname: &CStr) -> Option<*mut c_void> {
    [libc::RTLD_NOLOAD, 0].into_iter().find_map(|only_loaded| {
        // SAFETY: libraries of this name are made to be loaded by programs.
        let found = unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_LAZY | only_loaded) };
        (!found.is_null()).then_some(found)
    })
}

/// Returns a function of a library.
///
/// # Safety
/// `F` is the type of a pointer to the function of that name.
pub unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a library that is loaded, and a name that ends with a zero byte.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: it is not null; the rest the caller has promised.
    (!address.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, F>(&address) })
}

/// Returns the `MPI_…` behind this library, for an MPI without the corresponding `PMPI_…`: MPICH
/// has `mpi_barrier_f08_`, but no `pmpi_barrier_f08_`. Null if there is none.
fn behind_this(profiling: &CStr) -> *mut c_void {
    let without = profiling
        .to_bytes_with_nul()
        .get(1..)
        .and_then(|bytes| CStr::from_bytes_with_nul(bytes).ok());
    // SAFETY: a name that ends with a zero byte.
    without.map_or(std::ptr::null_mut(), |name| unsafe {
        libc::dlsym(libc::RTLD_NEXT, name.as_ptr())
    })
}

pub fn back_end(path: &Path) -> Result<&'static Table, String> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| "its path has a zero byte".to_owned())?;
    // SAFETY: a back end has nothing that runs when it is loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: after a failure it is a text of the loader's, until its next call in this thread.
        let text = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(text.to_string_lossy().into_owned());
    }
    // SAFETY: a handle that has just been given out, and a name that ends with a zero byte.
    let table = unsafe { libc::dlsym(library, c"ethbcast_mpi_backend".as_ptr()) }.cast::<Table>();
    // SAFETY: a back end's symbol of this name is a constant table, which is never unloaded; one of
    // another version begins with its number, too.
    unsafe { table.as_ref() }.ok_or_else(|| "it is no back end".to_owned())
}

pub fn own_folder() -> Option<PathBuf> {
    // SAFETY: all bytes zero is a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is there to be written, and the address one of this library.
    let found = unsafe { libc::dladdr(own_folder as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text, which stays as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(
        Path::new(OsStr::from_bytes(name.to_bytes()))
            .parent()?
            .to_owned(),
    )
}

pub const VERSION: u32 = 4;

/// A handle of the MPI's, an address or a count, as the calling convention passes it.
pub type Word = usize;

/// Result of [`Table::look`]: the state of a communicator.
pub const KNOWN: c_int = 0;
pub const NEW: c_int = 1;
pub const NULL: c_int = 2;
pub const NOT_NOW: c_int = 3;
pub const INTER: c_int = 4;

/// Result of [`Table::numbers`]: the kind of a predefined type's numbers, if it has some.
pub const SIGNED: c_int = 1;
pub const UNSIGNED: c_int = 2;
pub const FLOAT: c_int = 3;

/// Result of [`Table::function`]: a predefined function of numbers, or no such function.
pub const NO_FUNCTION: c_int = 0;
pub const SUM: c_int = 1;
pub const MIN: c_int = 2;
pub const MAX: c_int = 3;

/// Kind of failure passed to [`Table::fail`].
pub const OTHER: c_int = 0;
pub const TRUNCATED: c_int = 1;

/// Return value of a watched call that was ended; no MPI has an error of this number.
pub const GIVEN_UP: c_int = -1;

pub type ContinueCallback = extern "C" fn(state: *const c_void) -> c_int;

/// Functions of a back end; `c/backend.h` describes each. A function that returns an int returns 0
/// on success, unless its result is a truth value.
#[repr(C)]
pub struct Table {
    pub version: u32,
    pub(crate) library: *const c_char,
    pub start: extern "C" fn(closed: extern "C" fn(state: *mut c_void)) -> c_int,
    pub world: extern "C" fn(rank: &mut c_int) -> c_int,
    pub is_of_world: extern "C" fn(comm: Word) -> c_int,
    pub look: extern "C" fn(
        comm: Word,
        state: &mut *mut c_void,
        rank: &mut c_int,
        size: &mut c_int,
    ) -> c_int,
    pub keep: extern "C" fn(comm: Word, state: *mut c_void) -> c_int,
    pub type_of: extern "C" fn(
        datatype: Word,
        bytes: &mut i64,
        extent: &mut i64,
        is_plain: &mut c_int,
    ) -> c_int,
    pub numbers: extern "C" fn(datatype: Word) -> c_int,
    pub function: extern "C" fn(op: Word) -> c_int,
    pub pack: extern "C" fn(
        comm: Word,
        datatype: Word,
        count: i64,
        from: Word,
        to: *mut u8,
        bytes: i64,
    ) -> c_int,
    pub unpack: extern "C" fn(
        comm: Word,
        datatype: Word,
        count: i64,
        to: Word,
        from: *const u8,
        bytes: i64,
    ) -> c_int,
    pub is_in_place: extern "C" fn(address: Word) -> c_int,
    pub is_bottom: extern "C" fn(address: Word) -> c_int,
    pub allgather: extern "C" fn(comm: Word, own: *const u8, all: *mut u8, bytes: c_int) -> c_int,
    pub gather:
        extern "C" fn(comm: Word, own: *const u8, all: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub scatter:
        extern "C" fn(comm: Word, all: *const u8, own: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub least: extern "C" fn(comm: Word, own: c_int, least: &mut c_int) -> c_int,
    pub broadcast: extern "C" fn(comm: Word, buffer: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub barrier: extern "C" fn(comm: Word) -> c_int,
    pub watched_broadcast: extern "C" fn(
        comm: Word,
        buffer: *mut u8,
        bytes: c_int,
        root: c_int,
        must_continue: ContinueCallback,
        state: *const c_void,
    ) -> c_int,
    pub watched_barrier:
        extern "C" fn(comm: Word, must_continue: ContinueCallback, state: *const c_void) -> c_int,
    pub split: extern "C" fn(comm: Word, color: c_int, key: c_int, part: &mut Word) -> c_int,
    pub release: extern "C" fn(comm: Word) -> c_int,
    pub progress: extern "C" fn(),
    pub fail: extern "C" fn(comm: Word, failure: c_int) -> c_int,
    pub comm_of_fortran: extern "C" fn(handle: c_int) -> Word,
    pub type_of_fortran: extern "C" fn(handle: c_int) -> Word,
    pub op_of_fortran: extern "C" fn(handle: c_int) -> Word,
}

// SAFETY: a table is a constant of the back end, and the MPI's functions may be called from where
// the program itself has called one.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// Converts the code of an MPI function; `MPI_SUCCESS` is 0 in every MPI.
pub fn done(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Table {
    pub fn library(&self) -> &str {
        // SAFETY: a back end of this version has a constant text here.
        unsafe { CStr::from_ptr(self.library) }
            .to_str()
            .unwrap_or_default()
    }
}

/// Writes to stderr, whatever its state. A launcher that has lost a rank of this host may have
/// closed its pipe; the signal would end an unprepared process.
pub fn print(text: &str) {
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the sets are written before use; only this thread's mask is changed, and restored.
    unsafe {
        let (mut broken, mut before, mut pending) =
            std::mem::zeroed::<[libc::sigset_t; 3]>().into();
        libc::sigemptyset(&mut broken);
        libc::sigaddset(&mut broken, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &broken, &mut before);
        // A failure cannot be reported anywhere.
        drop(std::io::stderr().write_all(text.as_bytes()));
        if !was_pending {
            libc::sigtimedwait(&broken, std::ptr::null_mut(), &none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

pub fn print_line(text: impl std::fmt::Display) {
    print(&format!("ethbcast-mpi: {text}\n"));
}
