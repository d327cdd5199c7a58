//! Whether every rank has the drop-in: a rank without it would not take part in what the others agree on, and a call
//! of its own would be taken for theirs.
//!
//! No call of MPI's can ask that, so the launcher is asked: each rank leaves a word with it before `MPI_Init`, in
//! which launchers exchange such words among all processes, and looks for everybody's afterwards. So all ranks know
//! the same, and nobody waits for a rank that will never come.

mod hydra;
mod pmix;

use crate::library::Process;
use crate::table::Table;
use hydra::Hydra;
use parking_lot::Mutex;
use pmix::Pmix;

/// The word that a rank leaves, by its rank.
const KEY: &str = "ethbcast-mpi";

/// Whom to ask.
enum Launcher {
    Hydra(Hydra),
    Pmix(Pmix),
}

/// How far it is.
enum State {
    /// `MPI_Init` has not been seen.
    Unasked,
    Announced(Launcher),
    /// Every rank has it, or why that is not so.
    Settled(Result<(), String>),
}

static STATE: Mutex<State> = Mutex::new(State::Unasked);

/// Before the MPI's own `MPI_Init`: leaves this rank's word.
pub fn announce() {
    let process = Process::get();
    let mut state = STATE.lock();
    let (Some(settings), Ok(_), State::Unasked) = (process.active(), process.table, &*state) else { return };
    *state = match Launcher::find().and_then(|launcher| launcher.announce().map(|()| launcher)) {
        Ok(launcher) => State::Announced(launcher),
        Err(_) if settings.is_everywhere => State::Settled(Ok(())),
        Err(text) => State::Settled(Err(text)),
    };
}

/// After it: looks for the words of all.
pub fn settle() {
    let Ok(table) = Process::get().table else { return };
    let mut state = STATE.lock();
    if let State::Announced(launcher) = &*state {
        *state = State::Settled(launcher.settle(table));
    }
}

/// Whether every rank of the world has the drop-in; the same answer on all ranks that have it.
pub fn everywhere() -> Result<(), String> {
    match &*STATE.lock() {
        State::Settled(found) => found.clone(),
        State::Unasked | State::Announced(_) => Err("MPI_Init went past the drop-in".to_owned()),
    }
}

impl Launcher {
    fn find() -> Result<Launcher, String> {
        if let Some(found) = Pmix::find() {
            return found.map(Launcher::Pmix);
        }
        if let Some(found) = Hydra::find() {
            return found.map(Launcher::Hydra);
        }
        Err("this launcher does not say whether every rank has the drop-in: set ETHBCAST_MPI_EVERYWHERE=1 if all do"
            .to_owned())
    }

    fn announce(&self) -> Result<(), String> {
        match self {
            Launcher::Hydra(hydra) => hydra.announce(),
            Launcher::Pmix(pmix) => pmix.announce(),
        }
    }

    /// Whether all ranks of the world have left a word.
    fn settle(&self, table: &Table) -> Result<(), String> {
        let size = u32::try_from((table.world_size)()).unwrap_or_default();
        let lacking = match self {
            Launcher::Hydra(hydra) => hydra.lacking(size),
            Launcher::Pmix(pmix) => pmix.lacking(size),
        };
        match lacking? {
            None => Ok(()),
            Some(rank) => Err(format!("rank {rank} runs without the drop-in, or with another MPI's")),
        }
    }
}
