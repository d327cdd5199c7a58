//! `ethbcast doctor`: finds problems of this host and of the path to others. `ethbcast explain`
//! describes the codes.

mod dest;
mod fault;
mod filter;
mod findings;
mod interface;
mod machine;
mod outside;
mod peer;
mod udp;

use crate::args::DoctorArgs;
use crate::exit::{Code, fail, report};
use crate::key;
use crate::units::quoted;
pub use fault::{Fault, of_call, of_interface, of_keys, of_open, of_outcome, of_session, of_station};
pub use findings::explain;
use findings::{Findings, Fix};
pub use machine::{WIFI, is_wifi, megabits_per_second};
pub use outside::text_of;

pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let (mut interface, mut findings) = look(args)?;
    if args.fix {
        let mut fixed = Vec::new();
        // A repaired interface may reveal further problems, such as a missing link.
        loop {
            let now = findings.fix();
            if now.iter().all(|line| fixed.contains(line)) {
                break;
            }
            fixed.extend(now);
            (interface, findings) = look(args)?;
        }
        findings = findings.after(fixed);
    }
    let interface = interface.as_deref();
    match (args.wire.json, args.wire.quiet) {
        (true, _) => report(&findings.json(interface).to_string())?,
        (false, true) => {}
        (false, false) => report(&findings.text(interface))?,
    }
    match findings.count() {
        0 => Ok(()),
        1 => fail(Code::SomeFailed, "1 thing is wrong; `ethbcast explain CODE` says more"),
        count => fail(Code::SomeFailed, format!("{count} things are wrong; `ethbcast explain CODE` says more of each")),
    }
}

fn look(args: &DoctorArgs) -> anyhow::Result<(Option<String>, Findings)> {
    if args.peer.is_some() {
        key::refuse(&args.key, "doctor --peer")?;
    }
    let mut findings = Findings::default();
    let is_udp = args.wire.over.is_udp();
    let found =
        if is_udp { udp::check(&args.wire, &mut findings) } else { interface::check(&args.wire, &mut findings) };
    if let Some(interface) = found.as_ref().filter(|_| is_udp) {
        interface::check_queue(&interface.name, &mut findings);
    } else if let Some(interface) = &found {
        let link = machine::check_link(interface, &mut findings);
        interface::check_ring(&interface.name, &mut findings);
        machine::check_card(&interface.name, args.wire.ether_type, &mut findings);
        interface::check_queue(&interface.name, &mut findings);
        filter::check(interface, args, &link, &mut findings);
        machine::check(&link, &mut findings);
    } else {
        findings.skip("link, ring, queues and rules, as long as there is no interface to look at");
    }
    if let Some(dest) = &args.dest {
        dest::check(dest, args.size, &mut findings);
    }
    dest::check_limits(args.size, &mut findings);
    let first_hop = found.as_ref().filter(|_| !is_udp && !findings.is_cut_off());
    let first_hop =
        first_hop.and_then(|interface| interface::check_first_hop(interface, args.wire.ether_type, &mut findings));
    match &args.peer {
        // Without permission or link no other host can be reached, which is reported already.
        Some(_) if findings.is_cut_off() => findings.skip("the way to other hosts, as long as this one is cut off"),
        Some(hosts) => peer::check(args, hosts, first_hop, &mut findings)?,
        None => {}
    }
    Ok((found.map(|interface| interface.name), findings))
}
