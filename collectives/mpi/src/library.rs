//! Process-wide state of this MPI add-on, with the MPI library found in the process.

use crate::dynamic::{self, Symbol, Table, VERSION, print_line};
use crate::settings::{Reason, Settings, Statistics, Stats};
use crate::{abi, dynamic::own_folder};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

type LibraryVersion = extern "C" fn(text: *mut c_char, length: *mut c_int) -> c_int;
type FlagQuery = extern "C" fn(is_so: *mut c_int) -> c_int;
static LIBRARY_VERSION: Symbol<LibraryVersion> = Symbol::new("PMPI_Get_library_version\0");
static INITIALIZED: Symbol<FlagQuery> = Symbol::new("PMPI_Initialized\0");
static FINALIZED: Symbol<FlagQuery> = Symbol::new("PMPI_Finalized\0");
/// Limit of any MPI's description of itself, in bytes (`MPI_MAX_LIBRARY_VERSION_STRING` is 8192 at
/// most).
const VERSION_BYTES: usize = 1 << 14;

/// MPIs with a back end: the beginning of the description, and the back end's name.
const LIBRARIES: [(&str, &str); 3] = [
    ("Open MPI", "openmpi"),
    ("MPICH", "mpich"),
    ("Intel(R) MPI", "mpich"),
];

pub struct Process {
    pub settings: Option<Settings>,
    pub table: Result<&'static Table, Reason>,
    pub statistics: Statistics,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

impl Process {
    pub fn get() -> &'static Process {
        PROCESS.get_or_init(|| {
            let settings = Settings::read()
                .inspect_err(|text| print_line(format_args!("{text}; all calls are MPI's own")));
            let settings = settings.ok();
            let statistics = Statistics::default();
            let table = match &settings {
                Some(settings) if settings.is_on => back_end(settings).map_err(|text| {
                    if settings.is_verbose || is_first_rank() {
                        print_line(format_args!("{text}; all calls are MPI's own"));
                    }
                    Reason::NoBackEnd
                }),
                _ => Err(Reason::Off),
            };
            Process {
                settings,
                table,
                statistics,
            }
        })
    }

    pub fn counts(&self) -> bool {
        self.settings
            .as_ref()
            .is_some_and(|settings| settings.stats != Stats::None)
    }

    pub fn active(&self) -> Option<&Settings> {
        self.settings.as_ref().filter(|settings| settings.is_on)
    }

    /// Starts the back end and returns it. It calls `closed` with a communicator's state when that
    /// is freed. Outside `MPI_Init` and `MPI_Finalize`, where a program may have sessions, it is
    /// left alone.
    pub fn started(
        &self,
        closed: extern "C" fn(state: *mut c_void),
    ) -> Result<&'static Table, Reason> {
        static STARTED: OnceLock<c_int> = OnceLock::new();
        let table = self.table?;
        if STARTED.get().is_none() && (!is_so(&INITIALIZED) || is_so(&FINALIZED)) {
            return Err(Reason::NotNow);
        }
        match STARTED.get_or_init(|| (table.start)(closed)) {
            0 => Ok(table),
            _ => Err(Reason::NoBackEnd),
        }
    }
}

/// Whether this is the first rank by what launchers say, which reports a problem of all ranks
/// unless it has to be quiet.
fn is_first_rank() -> bool {
    if std::env::var_os("ETHBCAST_MPI_VERBOSE").is_some() {
        return false;
    }
    let ranks = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ];
    ranks
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .is_some_and(|rank| rank == "0")
}

fn is_so(asked: &Symbol<FlagQuery>) -> bool {
    let mut is_so = 0;
    asked.get().is_some_and(|ask| ask(&mut is_so) == 0) && is_so != 0
}

fn back_end(settings: &Settings) -> Result<&'static Table, String> {
    let version = LIBRARY_VERSION
        .get()
        .ok_or("this MPI has no MPI_Get_library_version")?;
    let mut text = vec![0_u8; VERSION_BYTES];
    let mut length = 0;
    version(text.as_mut_ptr().cast(), &mut length);
    let text = CStr::from_bytes_until_nul(&text)
        .map_err(|_| "this MPI's version has no end")?
        .to_string_lossy();
    if abi::is_spoken() {
        return Ok(&abi::TABLE);
    }
    let known = LIBRARIES
        .iter()
        .find(|(beginning, _)| text.starts_with(beginning));
    let first = || text.lines().next().unwrap_or_default();
    let (_, name) = known.ok_or_else(|| format!("there is no back end for {}", first()))?;
    let folder = settings
        .back_ends
        .clone()
        .or_else(own_folder)
        .unwrap_or_else(|| PathBuf::from("."));
    let path = folder.join(format!("libethbcast_mpi_{name}.so"));
    let table =
        dynamic::back_end(&path).map_err(|why| format!("no back end {}: {why}", path.display()))?;
    if table.version != VERSION {
        return Err(format!(
            "{} is of another build: make it anew with build-backends",
            path.display()
        ));
    }
    let own = if *name == "openmpi" {
        "Open MPI"
    } else {
        "MPICH"
    };
    if table.library() != own {
        return Err(format!(
            "{} was compiled for {}, and this is {}",
            path.display(),
            table.library(),
            first()
        ));
    }
    Ok(table)
}
