//! Configuration of a test network of namespaces, checked for errors: topology, rates, loss, MTU.

use crate::error::LabError;
use crate::names::{DEFAULT_LAB, MAX_LAB_BYTES, is_host_name, is_lab_name, longest_host_bytes};
pub use ethbcast_planning::format_rate;
use ethbcast_planning::topology::Topology;
pub(crate) use ethbcast_planning::{HIGHEST_RATE_BITS_PER_SECOND, LOWEST_RATE_BITS_PER_SECOND};

/// Limit on hosts and on switches, which keeps interface names short.
pub(crate) const MAX_HOSTS: usize = 4096;

/// Limit on the ports of a Linux bridge (`BR_MAX_PORTS` without number 0).
const MAX_PORTS_PER_SWITCH: usize = 1023;

const HEADER_BYTES: u32 = 14;

/// Duration of the burst that a shaped cable allows after a pause, at its rate.
///
/// tbf is woken by a high-resolution timer, so this covers a late wake-up, not a scheduler tick (4
/// ms at 250 Hz).
const BURST_NANOSECONDS: u64 = 500_000;

/// The hosts, cables and impairments of a lab.
#[derive(Clone, Debug)]
pub struct LabConfig {
    /// Name of the lab, `lab` by default. Labs of different names are independent.
    pub name: String,
    pub topology: Topology,
    /// Default rate of a cable in each direction, for cables without a rate in the topology. It
    /// counts frame bytes with the Ethernet header, without preamble, check sequence and gap.
    /// `None`, the default, leaves cables unshaped and without the queues below.
    pub rate_bits_per_second: Option<u64>,
    /// MTU of all interfaces, 68 to 65 535 bytes; default 1500.
    pub mtu_bytes: u32,
    /// Fraction of frames each host loses on arrival, 0 to below 1; default 0.
    ///
    /// A packet socket bound to `ETH_P_ALL`, as `tcpdump` opens it, sees all frames, because it is
    /// ahead of the loss.
    pub loss: f64,
    /// Size of the queue of a host's shaped cable, in bytes; default 1 MiB.
    ///
    /// The default is larger than a packet socket's default send buffer (212 992 bytes), so that a
    /// fast sender first exhausts its own buffer (`EAGAIN`, it can wait) and not the queue
    /// (`ENOBUFS`, it cannot).
    pub host_queue_bytes: u32,
    /// Size of the queue of a switch's shaped port, in bytes; default 256 KiB, as in a small real
    /// switch.
    pub switch_queue_bytes: u32,
}

impl LabConfig {
    /// Creates a configuration with unlimited rate, MTU 1500, no loss and the name `lab`.
    pub fn new(topology: Topology) -> Self {
        Self {
            name: DEFAULT_LAB.to_owned(),
            topology,
            rate_bits_per_second: None,
            mtu_bytes: 1500,
            loss: 0.0,
            host_queue_bytes: 1024 * 1024,
            switch_queue_bytes: 256 * 1024,
        }
    }

    /// Checks everything that can be validated without changing the system.
    ///
    /// # Errors
    /// The first invalid value: a name, the number of hosts, switches or ports, the MTU, rate, loss
    /// or a queue size.
    pub fn check(&self) -> Result<(), LabError> {
        check_lab_name(&self.name)?;
        self.topology
            .hosts()
            .iter()
            .try_for_each(|host| check_host_name(&self.name, host))?;
        self.check_size()?;
        if !(68..=65535).contains(&self.mtu_bytes) {
            return Err(LabError::BadMtu(self.mtu_bytes));
        }
        check_loss(self.loss)?;
        self.check_cables()
    }

    fn check_size(&self) -> Result<(), LabError> {
        let mut ports = vec![0; self.topology.switches().len()];
        for host in 0..self.topology.hosts().len() {
            ports[self.topology.switch_of(host)] += 1;
        }
        for &(left, right) in self.topology.cables() {
            ports[left] += 1;
            ports[right] += 1;
        }
        let limit = |what, found, most| {
            if found > most {
                Err(LabError::TooLarge { what, found, most })
            } else {
                Ok(())
            }
        };
        limit("hosts", self.topology.hosts().len(), MAX_HOSTS)?;
        limit("switches", ports.len(), MAX_HOSTS)?;
        limit(
            "ports on one switch",
            ports.into_iter().max().unwrap_or(0),
            MAX_PORTS_PER_SWITCH,
        )
    }

    fn check_cables(&self) -> Result<(), LabError> {
        let Some(rate) = self.rate_bits_per_second else {
            return Ok(());
        };
        if !(LOWEST_RATE_BITS_PER_SECOND..=HIGHEST_RATE_BITS_PER_SECOND).contains(&rate) {
            return Err(LabError::BadRate(format_rate(rate)));
        }
        let least_bytes = self.mtu_bytes + HEADER_BYTES;
        for (which, queue_bytes) in [
            ("host queue", self.host_queue_bytes),
            ("switch queue", self.switch_queue_bytes),
        ] {
            if queue_bytes < least_bytes {
                return Err(LabError::BadQueue {
                    which,
                    queue_bytes,
                    least_bytes,
                });
            }
        }
        Ok(())
    }

    /// Returns the token bucket's size for a rate, at least two frames: tbf drops every frame
    /// larger than its bucket, and must hold one while it earns the next.
    pub fn burst_bytes(&self, rate_bits_per_second: u64) -> u64 {
        let two_frames = 2 * u64::from(self.mtu_bytes + HEADER_BYTES);
        let late_wake_up = rate_bits_per_second / 8 * (BURST_NANOSECONDS / 1_000) / 1_000_000;
        two_frames.max(late_wake_up)
    }
}

pub(crate) fn check_lab_name(name: &str) -> Result<(), LabError> {
    if is_lab_name(name) {
        Ok(())
    } else {
        Err(LabError::BadLabName {
            name: name.to_owned(),
            longest: MAX_LAB_BYTES,
        })
    }
}

fn check_host_name(lab: &str, host: &str) -> Result<(), LabError> {
    if is_host_name(lab, host) {
        return Ok(());
    }
    Err(LabError::BadHostName {
        host: host.to_owned(),
        longest: longest_host_bytes(lab),
    })
}

pub(crate) fn check_loss(loss: f64) -> Result<(), LabError> {
    if (0.0..1.0).contains(&loss) {
        Ok(())
    } else {
        Err(LabError::BadLoss(loss))
    }
}

/// Parses a rate such as `100mbit`, `2.5gbit`, `64kbit` or `1000000` into bits per second. Below
/// the minimum, the burst of two 65 535-byte frames would exceed 275 s, the range of tbf's 32-bit
/// counter of 64 ns ticks.
///
/// # Errors
/// [`LabError::BadRate`] for an invalid number or unit, or a rate outside 64 kbit to 1000 gbit.
pub fn parse_rate(text: &str) -> Result<u64, LabError> {
    ethbcast_planning::parse_rate(text).map_err(|_| LabError::BadRate(text.to_owned()))
}

/// Parses the value of a `--rate` option: a rate, or `unlimited` for unshaped cables.
///
/// # Errors
/// The errors of [`parse_rate`].
pub fn parse_rate_or_unlimited(text: &str) -> Result<Option<u64>, LabError> {
    if text.trim().eq_ignore_ascii_case("unlimited") {
        Ok(None)
    } else {
        parse_rate(text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_switch(hosts: impl IntoIterator<Item = String>) -> Topology {
        Topology::single_switch(hosts).expect("good hosts")
    }

    fn four_hosts() -> LabConfig {
        LabConfig::new(one_switch((0..4).map(|host| format!("n{host}"))))
    }

    fn refusal(change: impl FnOnce(&mut LabConfig)) -> String {
        let mut config = four_hosts();
        change(&mut config);
        config
            .check()
            .expect_err("it should be refused")
            .to_string()
    }

    #[test]
    fn the_defaults_pass() {
        four_hosts().check().expect("the defaults");
    }

    #[test]
    fn every_impossible_wish_is_refused_in_a_sentence_that_says_what_is_possible() {
        assert!(refusal(|lab| lab.name = "a-b".into()).contains("`a-b`"));
        assert!(refusal(|lab| lab.mtu_bytes = 67).contains("68 to 65535"));
        assert!(refusal(|lab| lab.mtu_bytes = 65536).contains("68 to 65535"));
        for loss in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(|lab| lab.loss = loss).contains("below 1"));
        }
        assert!(refusal(|lab| lab.rate_bits_per_second = Some(1000)).contains("`1kbit`"));
        let small_queue = refusal(|lab| {
            lab.rate_bits_per_second = Some(1_000_000);
            lab.switch_queue_bytes = 1000;
        });
        assert!(
            small_queue.contains("switch queue") && small_queue.contains("1514"),
            "{small_queue}"
        );
        assert!(
            refusal(|lab| lab.topology = one_switch(["a", "switches"].map(String::from)))
                .contains("`switches`")
        );
        let crowd = (0..1024).map(|host| format!("n{host}"));
        assert!(refusal(|lab| lab.topology = one_switch(crowd)).contains("at most 1023"));
    }

    #[test]
    fn the_bucket_holds_two_frames_or_half_a_millisecond() {
        let mut config = four_hosts();
        assert_eq!(
            config.burst_bytes(10_000_000),
            2 * 1514,
            "two frames are more than 0.5 ms at 10 Mbit/s"
        );
        assert_eq!(config.burst_bytes(1_000_000_000), 62_500);
        config.mtu_bytes = 65_535;
        assert_eq!(config.burst_bytes(1_000_000_000), 2 * 65_549);
        assert_eq!(config.burst_bytes(HIGHEST_RATE_BITS_PER_SECOND), 62_500_000);
    }

    #[test]
    fn a_name_that_would_break_out_of_a_batch_or_a_path_is_refused() {
        for name in ["", "a-b", "a/b", "a b", "a\nb", "ä", &"x".repeat(65)] {
            let error = check_lab_name(name).expect_err(name).to_string();
            assert!(error.contains("letters, digits"), "{error}");
        }
        check_lab_name("team_1.b").expect("a good name");
        for host in [
            "",
            "switches",
            "n 0",
            "n0\nlink del eth0",
            "../n0",
            "n$0",
            &"h".repeat(250),
        ] {
            let error = check_host_name("lab", host).expect_err(host).to_string();
            assert!(error.contains("name it with"), "{error}");
        }
        check_host_name("lab", "rack-1.node_02").expect("a good name");
    }

    #[test]
    fn an_invalid_rate_is_refused_with_its_own_spelling() {
        for text in ["", "fast", "1e9", "63kbit", "1001gbit", "unlimited"] {
            let error = parse_rate(text).expect_err(text).to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("100mbit"),
                "{error}"
            );
        }
    }

    #[test]
    fn unlimited_is_an_option_not_a_number() {
        assert_eq!(parse_rate_or_unlimited("Unlimited").expect("a word"), None);
        assert_eq!(
            parse_rate_or_unlimited("1gbit").expect("a rate"),
            Some(1_000_000_000)
        );
        assert!(parse_rate_or_unlimited("limitless").is_err());
    }
}
