//! Deadlock watchdog: a thread that detects calls which wait for each other for ever, some by the
//! wire, others inside the MPI (`order`).

use crate::stderr::print_line;
use crate::wire::Wire;
use parking_lot::Mutex;
use std::sync::{Arc, Once, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Name in `ps`, at most 15 characters.
const THREAD_NAME: &str = "ethb-lookout";

static WIRES: Mutex<Vec<Weak<Wire>>> = Mutex::new(Vec::new());

pub fn add(wire: &Arc<Wire>) {
    static STARTED: Once = Once::new();
    if !wire.is_leader() {
        return;
    }
    WIRES.lock().push(Arc::downgrade(wire));
    STARTED.call_once(|| {
        if let Err(error) = Builder::new().name(THREAD_NAME.to_owned()).spawn(run) {
            print_line(format_args!("lengths that differ between ranks may not be noticed: no thread: {error}"));
        }
    });
}

fn run() {
    loop {
        std::thread::sleep(LOOK_EVERY);
        // The lock is released before the check, so that a new communicator need not wait for it.
        let wires: Vec<Arc<Wire>> = {
            let mut kept = WIRES.lock();
            kept.retain(|wire| wire.strong_count() > 0);
            kept.iter().filter_map(Weak::upgrade).collect()
        };
        wires.iter().for_each(|wire| wire.look(Instant::now()));
    }
}
