//! How to join.

use crate::Preset;
use ethbcast_planning::model::Calibration;
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::with_defaults;
use std::time::Duration;

with_defaults! {
    /// How a communicator is joined; [`Options::default`] is right for one Ethernet interface and hosts with names of
    /// their own.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The interface; without it, the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// This host's name, which decides its rank; without it, `$ETHBCAST_HOST`, the network namespace's name or the
        /// hostname.
        pub host: Option<String> = None,
        /// The EtherType; all ranks must use the same.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// The protocol's numbers; all ranks must use the same.
        pub preset: Preset = Preset::Default,
        /// What the network costs: decides from which size on a broadcast goes down the chain. Without it every
        /// broadcast is cast.
        pub calibration: Option<Calibration> = None,
        /// How long to wait for all ranks.
        pub join_within: Duration = Duration::from_secs(60),
        /// How long a collective may stand still, and how long a send or receive without a deadline of its own may
        /// take. A collective takes as long as it needs while anything moves.
        pub call_within: Duration = Duration::from_secs(60),
        /// How long a waiting call looks for frames again and again, letting other processes run in between, before it
        /// sleeps. It saves the wake-up, which costs more than a short message does; zero to sleep at once.
        pub spin: Duration = Duration::from_micros(100),
    }
}
