//! How to join.

use crate::{Preset, Route};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::with_defaults;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

with_defaults! {
    /// How a communicator is joined; [`Options::default`] is right for one Ethernet interface and hosts with names of
    /// their own.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The interface; without it, the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// This host's name, which decides its rank; without it, `$ETHBCAST_HOST`, the network namespace's name, the
        /// hostname, or a network card's address.
        pub host: Option<String> = None,
        /// The EtherType; all ranks must use the same.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// The protocol's numbers; all ranks must use the same.
        pub preset: Preset = Preset::Default,
        /// Where the hosts are ([`Topology::load`] reads it from our own files, from Slurm's or from LLDP's); without
        /// it, on one switch. This and the next five say how broadcasts travel: what one rank is told holds for all; if
        /// several are told, it must be the same.
        pub topology: Option<Topology> = None,
        /// What the network costs, as `ethbcast probe --out` writes it ([`Calibration::load`]). If neither that nor the
        /// topology is known, and nothing is measured, every broadcast is cast.
        pub calibration: Option<Calibration> = None,
        /// Which way broadcasts take: for each length the one that is predicted to be the fastest, one and the same, or
        /// from its root that of a saved plan.
        pub route: Route = Route::Auto,
        /// Whether a saved plan may send over one cable of the topology from several hosts at a time.
        pub contention: Contention = Contention::Refused,
        /// Whether broadcasts and allgathers may go by one frame to all. Where switches police broadcast and there is
        /// no calibration that says so: `false`.
        pub casts: bool = true,
        /// Whether rank 0 measures for up to 50 ms what the network costs, once all are there, unless there is a
        /// calibration.
        pub probe: bool = false,
        /// How long to wait for all ranks.
        pub join_within: Duration = Duration::from_secs(60),
        /// How long a collective may stand still, and how long a send or receive without a deadline of its own may
        /// take. A collective takes as long as it needs while anything moves.
        pub call_within: Duration = Duration::from_secs(60),
        /// How long a waiting call looks for frames again and again, letting other processes run in between, before it
        /// sleeps. It saves the wake-up, which costs more than a short message does; zero to sleep at once.
        pub spin: Duration = Duration::from_micros(100),
        /// What a call that waits does now and then, in the thread that called it.
        pub meanwhile: Option<Meanwhile> = None,
    }
}

/// What a call that waits does now and then, in the thread that called it: a program that has messages of others under
/// way lets them go on, or ends a call that its user has had enough of. It must return soon, and not call the
/// communicator.
#[derive(Clone)]
pub struct Meanwhile {
    every: Duration,
    work: Arc<dyn Fn() -> ControlFlow<()> + Send + Sync>,
}

impl Meanwhile {
    /// Does `work` this often; if it breaks, the call fails with [`Error::Interrupted`](super::Error::Interrupted).
    pub fn new(every: Duration, work: impl Fn() -> ControlFlow<()> + Send + Sync + 'static) -> Meanwhile {
        Meanwhile { every, work: Arc::new(work) }
    }

    /// How often.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Does it; whether the call goes on.
    pub fn work(&self) -> ControlFlow<()> {
        (self.work)()
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Meanwhile").field("every", &self.every).finish_non_exhaustive()
    }
}
