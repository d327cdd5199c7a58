//! Frames that an interface receives and sends.

use super::{Captured, Dump};
use crate::args::DumpArgs;
use crate::doctor::{Fault, of_interface, of_open};
use crate::exit::{Code, Failure, WithCode, print_line};
use crate::signals::Interrupt;
use ethbcast_transport::packet::{Capture, Interface};
use ethbcast_transport::wire::group_mac;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

/// Passes frames to `dump` until there are enough, or a signal arrives.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn listen(args: &DumpArgs, interface: Option<&str>, dump: &mut Dump) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch(true, || {}).code(Code::System)?;
    let interface =
        Interface::find(interface).map_err(|error| Failure::new(Code::System, &error).found(of_interface(&error)))?;
    let groups: Vec<_> = args.group.iter().map(|group| group_mac(group)).collect();
    let mut capture = Capture::open(&interface, args.ether_type, &groups)
        .map_err(|error| Failure::new(Code::System, &error).found(of_open(&error)))?;
    interrupt.begin_polling();
    print_line(format_args!("ethbcast: frames of EtherType {} on {}", args.ether_type, interface.name));
    let mut ended = Ok(ControlFlow::Continue(()));
    while matches!(ended, Ok(ControlFlow::Continue(()))) && interrupt.signal().is_none() {
        let arrived = capture.receive(|bytes| {
            if matches!(ended, Ok(ControlFlow::Continue(()))) {
                let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
                ended = dump.take(Captured { at, wire_bytes: bytes.len(), bytes });
            }
        });
        arrived.map_err(|errno| {
            let name = &interface.name;
            let text = format!("interface {name} has gone ({errno}): see `ip link show {name}`");
            Failure::new(Code::System, text).found(Fault::Down)
        })?;
        dump.flush()?;
    }
    let (missed, tagged) = (capture.missed(), capture.tagged());
    if missed > 0 {
        print_line(format_args!(
            "ethbcast: {missed} more frames came faster than they were printed; try --quiet --write FILE"
        ));
    }
    if tagged > 0 {
        print_line(format_args!("ethbcast: {tagged} more frames came with a VLAN tag, which no host takes"));
    }
    ended.map(drop)
}
