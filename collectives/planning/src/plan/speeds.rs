//! Speeds of cables and hosts relative to the usual one, for networks where they differ (Mateescu
//! and Taylor §3).

use crate::topology::{Topology, Walk};

/// Relative difference below which measurements are noise.
const MIN_DIFFERENCE: f64 = 0.1;

/// Slowness of a usual cable. Slowness is in thousandths of its time for a frame, so that planners
/// compute with integers.
pub const USUAL: u64 = 1_000;

/// The usual cable, like most of a cluster's, and the time in which it carries a full frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualCable {
    pub frame_ns: f64,
    pub frame_bits: f64,
}

/// Slowness of each cable, and into and out of each host, in thousandths of the usual; at least
/// [`USUAL`], because faster ones give no advantage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speeds {
    sending: Vec<u64>,
    receiving: Vec<u64>,
    cables: Vec<u64>,
}

impl Speeds {
    /// Combines the topology's rates and injection times with `measured`, which returns each host's
    /// time for a frame in nanoseconds. Returns `None` if all are about alike.
    pub fn new(topology: &Topology, usual: &UsualCable, measured: impl Fn(usize) -> Option<u64>) -> Option<Self> {
        let of_time = |nanoseconds: f64| {
            let times = nanoseconds / usual.frame_ns.max(1.0);
            if times < 1.0 + MIN_DIFFERENCE { USUAL } else { (times * USUAL as f64).round() as u64 }
        };
        let of_rate = |rate: Option<u64>| rate.map_or(USUAL, |rate| of_time(usual.frame_bits * 1e9 / rate as f64));
        let of_known = |time: Option<u64>| time.map_or(USUAL, |time| of_time(time as f64));
        let hosts = 0..topology.hosts().len();
        // A measured time is that of the path to the host, and is used for both directions.
        let receiving: Vec<u64> =
            hosts.clone().map(|host| of_rate(topology.host_rate(host)).max(of_known(measured(host)))).collect();
        let sending = hosts.map(|host| receiving[host].max(of_known(topology.injection_ns(host)))).collect();
        let cables = topology.cables().iter().map(|&(low, high)| of_rate(topology.cable_rate(low, high))).collect();
        let speeds = Self { sending, receiving, cables };
        let all = speeds.sending.iter().chain(&speeds.receiving).chain(&speeds.cables);
        let is_even = all.into_iter().all(|&slowness| slowness == USUAL);
        (!is_even).then_some(speeds)
    }

    pub fn sending(&self, host: usize) -> u64 {
        self.sending[host]
    }

    pub fn receiving(&self, host: usize) -> u64 {
        self.receiving[host]
    }

    pub fn cable(&self, topology: &Topology, one: usize, other: usize) -> u64 {
        let cable = topology.cables().binary_search(&(one.min(other), one.max(other)));
        cable.map_or(USUAL, |cable| self.cables[cable])
    }

    pub(super) fn along(&self, topology: &Topology, walk: &Walk) -> Vec<u64> {
        let mut slowest = vec![USUAL; topology.switches().len()];
        for &switch in walk.order() {
            if let Some(above) = walk.above()[switch] {
                slowest[switch] = slowest[above].max(self.cable(topology, above, switch));
            }
        }
        slowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: UsualCable = UsualCable { frame_ns: 12_112.0, frame_bits: 12_112.0 };

    fn pair(extra: &str) -> Topology {
        let text = format!(
            "schema = 1\nswitch = [{{name='a', hosts='n[0-1]', links=[{{to='b', rate='100mbit'}}]}}, {{name='b', \
             hosts='n[2-3]'}}]\n{extra}"
        );
        Topology::parse(&text, "pair").expect("a topology")
    }

    #[test]
    fn slowness_follows_from_the_rate_or_the_time() {
        let topology =
            pair("host = [{name='n1', rate='10gbit'}, {name='n2', injection_ns=36336}, {name='n3', rate='10mbit'}]");
        let speeds = Speeds::new(&topology, &GIGABIT, |host| (host == 0).then_some(24_224)).expect("they differ");
        assert_eq!([0, 1, 2, 3].map(|host| speeds.sending(host)), [2_000, 1_000, 3_000, 100_000]);
        assert_eq!([0, 1, 2, 3].map(|host| speeds.receiving(host)), [2_000, 1_000, 1_000, 100_000]);
        assert_eq!(speeds.cable(&topology, 1, 0), 10_000);
    }

    #[test]
    fn nearly_equal_speeds_count_as_equal() {
        let bed = Topology::builtin("fig9-4").expect("fig9-4");
        assert_eq!(Speeds::new(&bed, &GIGABIT, |host| Some(12_000 + host as u64 * 10)), None);
    }
}
