//! What sender and receiver set up alike: interface, socket, station.

use crate::args::WireArgs;
use crate::exit::{Code, Failure, WithCode};
use ethbcast_collectives::communicator::LEAST_MTU_BYTES;
pub use ethbcast_collectives::communicator::MAX_GROUP_BYTES;
use ethbcast_collectives::membership::host;
use ethbcast_collectives::session::Station;
use ethbcast_transport::Tuning;
use ethbcast_transport::packet::{Counters, Interface, OpenError, Port, PortConfig};
use ethbcast_transport::wire::{HEADER_BYTES, group_mac};

/// Below this a frame has no room for an acknowledgement's bitmap; the same for sessions and communicators.
pub const MIN_MTU_BYTES: usize = LEAST_MTU_BYTES as usize;

/// An open port and who this host is on it.
pub struct Wire {
    /// The packet socket.
    pub port: Port,
    /// This host's place on the wire.
    pub station: Station,
    /// The engine's numbers.
    pub tuning: Tuning,
}

impl Wire {
    /// Finds the interface and opens the socket.
    ///
    /// # Errors
    /// A [`Failure`] with code 2 (group name, MTU) or 4 (interface, permission).
    pub fn open(args: &WireArgs, mtu_bytes: Option<u32>) -> anyhow::Result<Wire> {
        check_group(&args.group)?;
        let interface = Interface::find(args.interface.as_deref()).code(Code::System)?;
        let mtu_bytes = check_mtu(&interface, mtu_bytes)?;
        let mut tuning = Tuning::default();
        let group = group_mac(&args.group);
        let mut config = PortConfig::new(args.ether_type);
        config.group = Some(group);
        // The ring, whose slots hold the interface's MTU, has more frames than the feed grants credit for: a stream cannot
        // overflow it, not even one of smaller frames.
        tuning.feed.frames = tuning.feed_frames_for(interface.mtu_bytes - HEADER_BYTES);
        config.receive_ring_bytes = (tuning.feed.frames as usize + 256) * (interface.mtu_bytes + 128) * 9 / 8;
        let port = Port::open(&interface, config).map_err(|error| Failure::new(open_code(&error), error))?;
        let station = Station {
            host: host::name(crate::lab::host_name(args.host.as_deref()).as_deref()),
            group: args.group.clone(),
            mac: interface.mac,
            group_mac: group,
            ether_type: args.ether_type,
            mtu_bytes,
        };
        log::info!("{} on {} ({}), MTU {mtu_bytes}, group {} at {group}", station.host, interface.name, interface.mac, args.group);
        Ok(Wire { port, station, tuning })
    }
}

fn open_code(_: &OpenError) -> Code {
    Code::System
}

fn check_group(group: &str) -> anyhow::Result<()> {
    if group.is_empty() || group.len() > MAX_GROUP_BYTES {
        let text = format!("the group name has {} bytes: choose one of 1 to {MAX_GROUP_BYTES} with -g", group.len());
        return Err(Failure::new(Code::Usage, text).into());
    }
    Ok(())
}

fn check_mtu(interface: &Interface, wanted: Option<u32>) -> anyhow::Result<u16> {
    let available = interface.mtu_bytes.min(usize::from(u16::MAX));
    let wanted = wanted.map_or(available, |mtu| mtu as usize);
    if wanted > available {
        let text = format!("--mtu {wanted} is more than interface {} carries: use at most {available}", interface.name);
        return Err(Failure::new(Code::Usage, text).into());
    }
    if wanted < MIN_MTU_BYTES {
        let text =
            format!("an MTU of {wanted} is too small: ethbcast needs at least {MIN_MTU_BYTES} on interface {}", interface.name);
        return Err(Failure::new(Code::Usage, text).into());
    }
    Ok(wanted as u16)
}

/// Writes what the socket has done to the log.
pub fn log_counters(counters: &Counters) {
    log::info!("socket: {counters:?}");
    if counters.kernel_dropped > 0 {
        log::warn!("the kernel dropped {} frames because the receive ring was full", counters.kernel_dropped);
    }
}
