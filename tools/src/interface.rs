//! Choice of the network interface that a command uses.

use crate::exit::print_line;
use ethbcast_collectives::session::live::Session;
use ethbcast_transport::packet::{Interface, InterfaceError, Over};
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Once;

/// Routing table of the thread's network namespace; absent without /proc.
const ROUTES: &str = "/proc/thread-self/net/route";
const ROUTES_6: &str = "/proc/thread-self/net/ipv6_route";
static SAID: Once = Once::new();
/// Route flags: usable, and reject.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// Returns the named interface, or that of the default route if several are up, which is reported
/// on stderr unless `quiet`. With `None` the port takes the only interface or reports the error.
pub fn chosen(named: Option<&str>, over: Over, quiet: bool) -> Option<String> {
    if let Some(name) = named {
        return Some(name.to_owned());
    }
    let Err(InterfaceError::Ambiguous { usable }) = Interface::find_over(None, over) else {
        return None;
    };
    let routes = [
        (
            ROUTES,
            default_route as fn(&str, &[String]) -> Option<String>,
        ),
        (ROUTES_6, default_route_6),
    ];
    let name = routes
        .into_iter()
        .find_map(|(path, read)| read(&fs::read_to_string(path).ok()?, &usable))?;
    if !quiet {
        let usable = usable.join(", ");
        let text = format!(
            "ethbcast: of {usable} it takes {name}, which has the default route; name another with -i"
        );
        // Commands that open several ports report it once.
        SAID.call_once(|| print_line(text));
    }
    Some(name)
}

/// Returns the usable interface with the IPv4 default route of the least metric.
fn default_route(routes: &str, usable: &[String]) -> Option<String> {
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[name, dest, _, flags, _, _, metric, mask, ..] = &fields[..] else {
            return None;
        };
        let is_default =
            u32::from_str_radix(dest, 16) == Ok(0) && u32::from_str_radix(mask, 16) == Ok(0);
        route(
            is_default,
            name,
            u32::from_str_radix(flags, 16).ok()?,
            metric.parse().ok()?,
        )
    };
    least(routes.lines().filter_map(read), usable)
}

fn default_route_6(routes: &str, usable: &[String]) -> Option<String> {
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[dest, prefix, _, _, _, metric, _, _, flags, name] = &fields[..] else {
            return None;
        };
        let is_default =
            dest.bytes().all(|digit| digit == b'0') && u32::from_str_radix(prefix, 16) == Ok(0);
        route(
            is_default,
            name,
            u32::from_str_radix(flags, 16).ok()?,
            u32::from_str_radix(metric, 16).ok()?,
        )
    };
    least(routes.lines().filter_map(read), usable)
}

fn route(is_default: bool, name: &str, flags: u32, metric: u32) -> Option<(u32, String)> {
    (is_default && flags & (UP | REJECT) == UP).then(|| (metric, name.to_owned()))
}

/// Returns the first of the routes with the least metric, as the kernel does.
fn least(routes: impl Iterator<Item = (u32, String)>, usable: &[String]) -> Option<String> {
    routes
        .filter(|(_, name)| usable.contains(name))
        .min_by_key(|(metric, _)| *metric)
        .map(|(_, name)| name)
}

/// Marker socket, by which a sender on the same host notices a receiver while it exists.
pub struct Present {
    _socket: Option<UnixDatagram>,
}

fn name(session: &Session, group: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!(
        "ethbcast/receiver/{}/{group}",
        session.interface().name
    ))
}

pub fn mark_receiver(session: &Session, group: &str) -> Present {
    let bound = name(session, group).and_then(|name| UnixDatagram::bind_addr(&name));
    if let Err(error) = &bound {
        log::debug!("a sender on this host will not know of this receiver: {error}");
    }
    Present {
        _socket: bound.ok(),
    }
}

/// Reports a receiver of the group on this host, which only UDP reaches.
pub fn warn_of_receiver(session: &Session, group: &str, quiet: bool) {
    let is_there = || {
        UnixDatagram::unbound()
            .and_then(|socket| socket.connect_addr(&name(session, group)?))
            .is_ok()
    };
    if !quiet && !session.over().is_udp() && is_there() {
        print_line(format_args!(
            "ethbcast: a receiver of group {group} runs on this host, too: frames do not come back to the interface \
             that sends them, and it will hear nothing; here SOURCE is already"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable() -> Vec<String> {
        ["eth0", "eth1", "eth2"].map(str::to_owned).into()
    }

    #[test]
    fn the_default_route_of_the_least_metric_on_an_ethernet_interface_counts() {
        let head =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let line = |name: &str, dest: &str, flags: &str, metric: &str, mask: &str| {
            format!("{name}\t{dest}\t0100000A\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0  \n")
        };
        let found = |lines: &[String]| {
            default_route(
                &[&[head.to_owned()][..], lines].concat().concat(),
                &usable(),
            )
        };
        let zero = "00000000";
        let others = [
            line("tun0", zero, "0001", "0", zero),
            line("eth0", "0000000A", "0001", "0", "00FFFFFF"),
            line("eth1", zero, "0003", "200", zero),
        ];
        assert_eq!(found(&others).as_deref(), Some("eth1"));
        assert_eq!(
            found(&[&others[..], &[line("eth2", zero, "0003", "100", zero)]].concat()).as_deref(),
            Some("eth2")
        );
        assert_eq!(
            found(&[&others[..], &[line("eth2", zero, "0003", "200", zero)]].concat()).as_deref(),
            Some("eth1")
        );
        assert_eq!(found(&others[..2]), None);
        assert_eq!(
            found(&[
                line("eth0", zero, "0201", "0", zero),
                line("eth1", zero, "0000", "0", zero)
            ]),
            None
        );
        assert_eq!(
            found(&[line("eth0", zero, "0001", "0", "000000FF")]),
            None,
            "it is for 0.0.0.0/8 alone"
        );
    }

    #[test]
    fn the_default_route_of_ipv6_is_read_too() {
        let zero = "0".repeat(32);
        let line = |dest: &str, prefix: &str, metric: &str, flags: &str, name: &str| {
            format!(
                "{dest} {prefix} {zero} 00 {zero} {metric} 00000001 00000000 {flags} {name:>8}\n"
            )
        };
        let link = format!("fe80{}", "0".repeat(28));
        let routes = [
            line(&link, "40", "00000100", "00000001", "eth0"),
            line(&zero, "00", "00000400", "00450003", "eth1"),
            line(&zero, "00", "ffffffff", "00200200", "lo"),
        ];
        assert_eq!(
            default_route_6(&routes.concat(), &usable()).as_deref(),
            Some("eth1")
        );
        let better = line(&zero, "00", "00000064", "00450003", "eth2");
        assert_eq!(
            default_route_6(&(routes.concat() + &better), &usable()).as_deref(),
            Some("eth2")
        );
        assert_eq!(default_route_6(&routes[0], &usable()), None);
    }
}
