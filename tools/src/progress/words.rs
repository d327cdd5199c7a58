//! Messages for users about events.

use crate::doctor::Fault;
use crate::units;
use ethbcast_collectives::session::{Outcome, Progress, ReceiverEvent, RootEvent};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::MacAddr;

pub const NO_LINK: &str = "the network interface has no link: no cable, or its other end is off; nothing that is sent \
                           arrives anywhere until it has";

/// Returns the message for an event, or none for mere progress.
pub fn line(progress: &Progress<'_>) -> Option<String> {
    Some(match progress {
        Progress::Sender(event) => line_of_sender(event)?,
        Progress::Receiver(event) => line_of_receiver(event)?,
        Progress::Interface { away: true } => "the network interface has gone down: waiting for it".to_owned(),
        Progress::Interface { away: false } => "the network interface is back".to_owned(),
        Progress::Link { lost: true } => format!("{NO_LINK} [{}]", Fault::Carrier.code()),
        Progress::Link { lost: false } => "the network interface has a link again".to_owned(),
        _ => return None,
    })
}

fn line_of_sender(event: &RootEvent) -> Option<String> {
    Some(match event {
        RootEvent::Waiting { joined, missing, wanted } => waiting(joined, missing, *wanted),
        RootEvent::Refused { host, mac, text } => format!("{host} ({mac}) turned away: {text}"),
        RootEvent::Left { host, text } => format!("{host} left before the start: {text}"),
        RootEvent::OtherVersion(other) => other.to_string(),
        RootEvent::OwnAddress(mac) => own_address(*mac),
        RootEvent::Rival { host, mac } => {
            format!("{host} ({mac}) wants to send to this group, too: it was told that the group is taken")
        }
        RootEvent::Started { receivers, via, size, selective } => {
            let what = size.map_or("a stream".to_owned(), units::bytes);
            let what = if *selective { format!("what somebody lacks of {what}") } else { what };
            let s = if *receivers == 1 { "" } else { "s" };
            format!("sending {what} to {receivers} receiver{s} via {via}")
        }
        RootEvent::HeldUp { host, text } => format!("waiting: {host} {text}"),
        RootEvent::Aside { host, text } => format!("{host} {text}: it is served beside the others from now on"),
        RootEvent::Apart { one, other } => format!(
            "nothing gets through between {one} and {other}, though both are heard here (does a switch isolate their \
             ports, or part them by a private VLAN?): the sender serves them itself from now on"
        ),
        RootEvent::Rerouted { via, text } => format!("{text}: it goes on via {via}"),
        RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
            let (word, text) = report.outcome.status_and_reason(&report.text);
            format!("{} failed: {word}: {text}", report.host)
        }
        _ => return None,
    })
}

fn line_of_receiver(event: &ReceiverEvent) -> Option<String> {
    Some(match event {
        ReceiverEvent::OtherVersion(other) => other.to_string(),
        ReceiverEvent::OwnAddress(mac) => own_address(*mac),
        ReceiverEvent::LeftOut { host, text } => format!("{host}: {text}; waiting for the next session"),
        ReceiverEvent::Invited { host, source, size, .. } => {
            let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
            format!("{host} offers {source}, {size}")
        }
        ReceiverEvent::RootSilent { silence, left } => {
            let (silence, left) = (silence.as_secs(), left.as_secs());
            format!("nothing new has been heard of the sender for {silence} s; it is waited for, {left} s at most")
        }
        _ => return None,
    })
}

/// Message about a frame with this host's own source address.
fn own_address(mac: MacAddr) -> String {
    format!(
        "frames from this host's own address {mac} come from the network: another host has the same address (give each \
         its own: ip link set IFACE address 02:…), or a switch sends frames back [{}]",
        Fault::Twin.code()
    )
}

fn waiting(joined: &[String], missing: &[String], wanted: Option<usize>) -> String {
    let are = if wanted.unwrap_or(joined.len()) == 1 { "receiver is" } else { "receivers are" };
    let wanted = wanted.map_or(String::new(), |wanted| format!(" of {wanted}"));
    let mut text = format!("waiting: {}{wanted} {are} there", joined.len());
    if !joined.is_empty() {
        text += &format!(", {}", nodeset::fold(joined));
    }
    if !missing.is_empty() {
        text += &format!("; missing: {}", nodeset::fold(missing));
    }
    text
}
