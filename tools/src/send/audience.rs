//! Announcement of the receivers that `send` waits for, and the start at Enter on a terminal.

use super::StartRule;
use crate::progress::Bar;
use crate::units;
use ethbcast_collectives::session::{SendOptions, Session};
use ethbcast_planning::topology::nodeset;

/// Shows interface, group and awaited receivers. `rule` may start the session with fewer receivers
/// than the options say.
pub fn show(bar: &Bar, session: &Session, options: &SendOptions, rule: Option<StartRule>) {
    let station = session.station();
    let how_many = match (options.receivers, options.min_receivers, options.hosts.len()) {
        (None, None, 0) => "receivers; press Enter to start with those who have joined".to_owned(),
        (None, Some(least), 0) => format!("receivers, {least} at least"),
        (Some(count), None, 0) => units::receivers(count),
        (Some(count), Some(least), 0) => format!("{}, {least} at least", units::receivers(count)),
        (count, _, hosts) => {
            let some = count.filter(|&count| count < hosts).map_or(String::new(), |count| format!("{count} of "));
            format!("{some}{}", nodeset::fold(&options.hosts))
        }
    };
    let fewer = rule
        .and_then(|rule| rule.max_wait.or(rule.after))
        .map_or(String::new(), |after| format!(", or for whoever is there {} s later", after.as_secs_f64()));
    let (interface, mtu) = (&session.interface().name, station.mtu_bytes);
    bar.line(format!(
        "{} on {interface}, MTU {mtu}, group {}: waiting for {how_many}{fewer}",
        station.host, station.group
    ));
}
