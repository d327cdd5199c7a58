//! Options of joining a communicator.

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
    /// Options of joining a communicator. [`Options::default`] fits hosts with distinct names and
    /// one Ethernet interface each.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Interface. Default: the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// This host's name, which decides its rank. Default: `$ETHBCAST_HOST`, the network
        /// namespace's name, the hostname, or a network card's address.
        pub host: Option<String> = None,
        /// EtherType, identical on all ranks.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// Preset of protocol parameters, identical on all ranks.
        pub preset: Preset = Preset::Default,
        /// Topology ([`Topology::load`] reads our own format, Slurm's or LLDP's). Default: one
        /// switch. This option and the next five decide how broadcasts travel. One rank's values
        /// apply to all; ranks that set them must agree.
        pub topology: Option<Topology> = None,
        /// Network costs, as `ethbcast probe --out` writes them ([`Calibration::load`]). Without
        /// these, a topology and a measurement, every broadcast is cast.
        pub calibration: Option<Calibration> = None,
        /// Route of broadcasts: the one predicted to be fastest for each length, a fixed one, or a
        /// saved plan from its root.
        pub route: Route = Route::Auto,
        /// Whether a saved plan may send over one cable of the topology from several hosts at a
        /// time.
        pub contention: Contention = Contention::Refused,
        /// Whether broadcasts and allgathers may use broadcast frames. Set `false` where switches
        /// police broadcast and no calibration says so.
        pub casts: bool = true,
        /// Whether rank 0 measures the network costs for up to 50 ms once all are there, unless
        /// there is a calibration.
        pub probe: bool = false,
        /// Longest wait for all ranks.
        pub join_within: Duration = Duration::from_secs(60),
        /// Longest time that a collective may make no progress, and longest time of a send or
        /// receive without its own deadline. A collective may take any time while it makes
        /// progress.
        pub call_within: Duration = Duration::from_secs(60),
        /// Time that a waiting call polls for frames, yielding to other processes, before it
        /// sleeps. Polling saves the wake-up, which costs more than a short message; zero sleeps at
        /// once.
        pub spin: Duration = Duration::from_micros(100),
        /// Hook that a waiting call runs now and then, in the caller's thread.
        pub meanwhile: Option<Meanwhile> = None,
    }
}

/// Hook that a waiting call runs now and then, in the caller's thread. It lets a program make
/// progress on other messages, or end a call on its user's request. It must return soon, and not
/// call the communicator.
#[derive(Clone)]
pub struct Meanwhile {
    every: Duration,
    work: Arc<dyn Fn() -> ControlFlow<()> + Send + Sync>,
}

impl Meanwhile {
    /// Runs `work` at this interval. If it breaks, the call fails with
    /// [`Error::Interrupted`](super::Error::Interrupted).
    pub fn new(every: Duration, work: impl Fn() -> ControlFlow<()> + Send + Sync + 'static) -> Meanwhile {
        Meanwhile { every, work: Arc::new(work) }
    }

    /// Returns the interval.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Runs the hook; returns whether the call goes on.
    pub fn work(&self) -> ControlFlow<()> {
        (self.work)()
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Meanwhile").field("every", &self.every).finish_non_exhaustive()
    }
}
