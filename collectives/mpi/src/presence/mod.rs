//! Check that all ranks of an MPI program have ethbcast's library loaded. A rank without it would
//! not take part in the others' agreements, and its calls would be mistaken for theirs.
//!
//! MPI calls cannot reveal this, so the launcher's key-value store is used. Each rank puts a key
//! there before `MPI_Init`, in which launchers exchange such keys among all processes, and looks
//! for all other keys afterwards. All ranks thus get equal results, and none waits for a rank that
//! never comes.

mod hydra;
mod pmix;

use crate::dynamic::Table;
use crate::library::Process;
use ethbcast_transport::lock::Mutex;
use hydra::Hydra;
use pmix::Pmix;

/// Returns the key of the drop-in: ranks with other settings would decide otherwise.
fn key() -> String {
    let settings = Process::get()
        .settings
        .as_ref()
        .map(|settings| settings.agreed.fingerprint())
        .unwrap_or_default();
    let digest = settings
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("ethbcast-mpi-{digest:016x}")
}

enum Launcher {
    Hydra(Hydra),
    Pmix(Pmix),
}

enum State {
    Unasked,
    Announced(Launcher),
    Settled(Result<(), String>),
}

static STATE: Mutex<State> = Mutex::new(State::Unasked);

pub fn announce() {
    let process = Process::get();
    let mut state = STATE.lock();
    let (Some(settings), Ok(_), State::Unasked) = (process.active(), process.table, &*state) else {
        return;
    };
    *state = match Launcher::find().and_then(|launcher| launcher.announce().map(|()| launcher)) {
        Ok(launcher) => State::Announced(launcher),
        Err(_) if settings.is_everywhere => State::Settled(Ok(())),
        Err(text) => State::Settled(Err(text)),
    };
}

pub fn settle() {
    let Ok(table) = Process::get().table else {
        return;
    };
    let mut state = STATE.lock();
    if let State::Announced(launcher) = &*state {
        *state = State::Settled(launcher.settle(table));
    }
}

/// Returns whether every rank of the world has the drop-in; identical on all ranks that have it.
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

    fn settle(&self, table: &Table) -> Result<(), String> {
        let size = u32::try_from((table.world)(&mut 0)).unwrap_or_default();
        let lacking = match self {
            Launcher::Hydra(hydra) => hydra.lacking(size),
            Launcher::Pmix(pmix) => pmix.lacking(size),
        };
        match lacking? {
            None => Ok(()),
            Some(rank) => Err(format!(
                "rank {rank} runs without the drop-in, or with other settings or another MPI's"
            )),
        }
    }
}
