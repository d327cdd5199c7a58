//! Check of the interface: its existence, its state and this process's permission.

use super::{Findings, Fix, of_interface, of_open, quoted};
use crate::args::WireArgs;
use crate::interface::chosen;
use ethbcast_transport::packet::{Capture, Interface, InterfaceError, OpenError};
use nix::sys::statvfs::{FsFlags, statvfs};

/// Checks the interface that a session would use, and returns it if it is up.
pub fn check(args: &WireArgs, findings: &mut Findings) -> Option<Interface> {
    match Interface::find(chosen(args.interface.as_deref(), args.quiet).as_deref()) {
        Ok(interface) => {
            socket(&interface, args, findings);
            Some(interface)
        }
        Err(error) => {
            findings.add(of_interface(&error), &error, instead(&error));
            None
        }
    }
}

fn instead(error: &InterfaceError) -> Fix {
    let up = |name: &str| Fix::Safe(format!("ip link set {} up", quoted(name)));
    let choose = |name: &str| Fix::Command(format!("ethbcast doctor -i {}", quoted(name)));
    match error {
        InterfaceError::Down { name } => up(name),
        InterfaceError::Ambiguous { usable } => choose(&usable[0]),
        InterfaceError::Unknown { .. } | InterfaceError::NotEthernet { .. } => match Interface::find(None) {
            Ok(other) => choose(&other.name),
            Err(InterfaceError::Ambiguous { usable }) => choose(&usable[0]),
            Err(_) => Fix::Words("look for one with `ip link`, and bring it up".to_owned()),
        },
        InterfaceError::NoneUsable { known } => {
            let is_off = |name: &&String| matches!(Interface::find(Some(name)), Err(InterfaceError::Down { .. }));
            match known.iter().filter(is_off).collect::<Vec<_>>()[..] {
                [only] => up(only),
                // Several interfaces are possible; none is brought up without a request.
                _ => Fix::Words("look for one with `ip link`, and bring it up with `ip link set NAME up`".to_owned()),
            }
        }
        _ => Fix::Words("look at it with `ip link`".to_owned()),
    }
}

fn permit() -> Fix {
    let own = std::env::current_exe().unwrap_or("ethbcast".into());
    if statvfs(&own).is_ok_and(|disk| disk.flags().contains(FsFlags::ST_NOSUID)) {
        let words = "run it as root, or copy it to a file system that is not mounted nosuid, and setcap it there";
        return Fix::Words(words.to_owned());
    }
    Fix::Command(format!("setcap cap_net_raw+ep {}", quoted(&own.to_string_lossy())))
}

fn socket(interface: &Interface, args: &WireArgs, findings: &mut Findings) {
    let Err(error) = Capture::open(interface, args.ether_type, &[]) else { return };
    let fix = match &error {
        // A process without the permission inherits a socket.
        OpenError::Permission { .. } if std::env::var_os("ETHBCAST_PORT").is_some() => {
            return findings.skip("the permission for raw frames: $ETHBCAST_PORT is to hand over the socket");
        }
        OpenError::Permission { .. } => permit(),
        OpenError::Memory { .. } => Fix::Words("end other programs, or raise the container's limit".to_owned()),
        _ => Fix::Command("modprobe af_packet".to_owned()),
    };
    findings.add(of_open(&error), &error, fix);
}
