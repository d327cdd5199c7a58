//! Client of PMIx, through which MPI processes talk to the launchers of Open MPI and Slurm. Its
//! functions and their data layout are part of its binary interface since version 2.

use super::key;
use crate::dynamic::{library, symbol};
use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

const SONAME: &CStr = c"libpmix.so.2";
const SUCCESS: c_int = 0;
/// Scope in which every process of the program sees the key.
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const BYTE: u16 = 2;

#[repr(C)]
struct Process {
    program: [c_char; 256],
    rank: u32,
}

/// A value, as long as the longest type.
#[repr(C)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

type Init = extern "C" fn(own: *mut Process, info: *const Info, count: usize) -> c_int;
type Put = extern "C" fn(scope: u8, key: *const c_char, value: *const Value) -> c_int;
type Commit = extern "C" fn() -> c_int;
type Get =
    extern "C" fn(of: *const Process, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type Finalize = extern "C" fn(info: *const Info, count: usize) -> c_int;

pub struct Pmix {
    library: usize,
}

impl Pmix {
    pub fn find() -> Option<Result<Pmix, String>> {
        env::var_os("PMIX_NAMESPACE")?;
        let found = library(SONAME).map(|library| Pmix {
            library: library as usize,
        });
        Some(found.ok_or_else(|| {
            "this launcher speaks PMIx, and there is no libpmix.so.2 to ask it whether every rank has the drop-in: set \
             ETHBCAST_MPI_EVERYWHERE=1 if all do"
                .to_owned()
        }))
    }

    fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        // SAFETY: the types above are those of PMIx's functions.
        let found = unsafe { symbol(self.library as *mut c_void, name) };
        found.ok_or_else(|| {
            format!(
                "{} has no {}",
                SONAME.to_string_lossy(),
                name.to_string_lossy()
            )
        })
    }

    fn begun(&self) -> Result<Process, String> {
        let mut own = Process {
            program: [0; 256],
            rank: 0,
        };
        checked(
            "PMIx_Init",
            self.function::<Init>(c"PMIx_Init")?(&mut own, std::ptr::null(), 0),
        )
        .map(|()| own)
    }

    /// Ends our use of PMIx: the MPI begins it again in `MPI_Init` and ends it in `MPI_Finalize`.
    fn ended(&self) -> Result<(), String> {
        checked(
            "PMIx_Finalize",
            self.function::<Finalize>(c"PMIx_Finalize")?(std::ptr::null(), 0),
        )
    }

    pub fn announce(&self) -> Result<(), String> {
        self.begun()?;
        let value = Value {
            kind: BYTE,
            data: [1, 0, 0],
        };
        let key = CString::new(key()).map_err(|error| error.to_string())?;
        checked(
            "PMIx_Put",
            self.function::<Put>(c"PMIx_Put")?(GLOBAL, key.as_ptr(), &value),
        )?;
        checked("PMIx_Commit", self.function::<Commit>(c"PMIx_Commit")?())
    }

    pub fn lacking(&self, ranks: u32) -> Result<Option<u32>, String> {
        let mut of = self.begun()?;
        let (get, key) = (
            self.function::<Get>(c"PMIx_Get")?,
            CString::new(key()).map_err(|error| error.to_string())?,
        );
        // `MPI_Init` has exchanged everything, so only local data is searched.
        let here = Info {
            key: text(c"pmix.optional"),
            flags: 0,
            value: Value {
                kind: BOOL,
                data: [1, 0, 0],
            },
        };
        let lacking = (0..ranks).find(|&rank| {
            of.rank = rank;
            let mut value = std::ptr::null_mut();
            let found = get(&of, key.as_ptr(), &here, 1, &mut value) == SUCCESS && !value.is_null();
            if found {
                // SAFETY: PMIx has allocated it for the caller, and a byte contains no pointer.
                unsafe { libc::free(value.cast()) };
            }
            !found
        });
        self.ended()?;
        self.ended().map(|()| lacking)
    }
}

fn checked(name: &str, code: c_int) -> Result<(), String> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(format!("{name} fails: {code}"))
    }
}

fn text<const BYTES: usize>(text: &CStr) -> [c_char; BYTES] {
    let mut bytes = [0; BYTES];
    bytes
        .iter_mut()
        .zip(text.to_bytes())
        .for_each(|(place, &byte)| *place = byte as c_char);
    bytes
}
