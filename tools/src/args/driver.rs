//! How frames get here.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ethbcast_transport::packet::Driver;

/// What commands have in common that move much.
#[derive(Clone, Debug, Args)]
pub struct DriverArgs {
    /// How frames arrive: packet by a packet socket, on every interface; xdp by AF_XDP past the network stack, where
    /// the kernel (Linux 6.6) and the interface (one receive queue) have it, and no other ethbcast runs on the
    /// interface. Hosts of a group may differ.
    #[arg(long, value_name = "DRIVER", value_parser = drivers(), default_value = Driver::Packet.name())]
    pub driver: Driver,
}

fn drivers() -> impl TypedValueParser<Value = Driver> {
    PossibleValuesParser::new(Driver::ALL.map(Driver::name))
        .map(|name| Driver::ALL.into_iter().find(|driver| driver.name() == name).expect("other names do not pass"))
}
