//! Measured costs of hosts: time to send a frame, and processor time per frame and byte (Mateescu
//! and Taylor §3).

use super::{Broadcast, Calibration, CalibrationError, CalibrationProblem, Field};
use crate::names::HostNames;
use crate::plan::Via;
use serde::Deserialize;

/// Time that a host of this short or full name, or its cable, is busy with a full frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCost {
    pub name: String,
    pub injection_ns: u64,
}

/// Factor by which a way took longer than predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayTimes {
    pub via: Via,
    pub times: f64,
}

/// Limit of the factor by which a way takes longer than predicted.
const MAX_TIMES: f64 = 100.0;

/// Limit up to which the slowness of one way counts as that of all.
const MAX_TIMES_OF_ALL: f64 = 1.5;

#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    pub measured_from: Option<String>,
    pub costs: Vec<HostCost>,
    names: HostNames,
    file_name: Option<String>,
    lines: Vec<usize>,
}

impl PartialEq for Hosts {
    /// Compares costs, not positions in files.
    fn eq(&self, other: &Self) -> bool {
        (&self.measured_from, &self.costs) == (&other.measured_from, &other.costs)
    }
}

impl Hosts {
    pub fn new(measured_from: Option<String>, costs: Vec<HostCost>) -> Self {
        let names = HostNames::new(costs.iter().map(|host| host.name.as_str()));
        Self {
            measured_from,
            costs,
            names,
            file_name: None,
            lines: Vec::new(),
        }
    }

    pub fn read_from(self, file_name: &str, lines: Vec<usize>) -> Self {
        Self {
            file_name: Some(file_name.to_owned()),
            lines,
            ..self
        }
    }

    pub fn find(&self, name: &str) -> Option<u64> {
        self.names
            .find(name)
            .map(|index| self.costs[index].injection_ns)
    }

    pub fn check(&self) -> Result<(), (Field, CalibrationProblem)> {
        for (at, host) in self.costs.iter().enumerate() {
            if host.injection_ns == 0 {
                return Err((
                    Field::Injection(at),
                    CalibrationProblem::ZeroInjection(host.name.clone()),
                ));
            }
            if self.costs[..at]
                .iter()
                .any(|before| before.name == host.name)
            {
                return Err((
                    Field::Host(at),
                    CalibrationProblem::HostTwice(host.name.clone()),
                ));
            }
        }
        Ok(())
    }

    fn refuse(&self, line: Option<usize>, problem: CalibrationProblem) -> CalibrationError {
        let error = CalibrationError::at(line, problem);
        match &self.file_name {
            Some(name) => error.named(name),
            None => error,
        }
    }
}

impl Calibration {
    /// Returns the calibration with costs of single hosts, measured from the host `measured_from`.
    ///
    /// # Errors
    /// [`CalibrationProblem::ZeroInjection`] and [`CalibrationProblem::HostTwice`].
    pub fn with_hosts(
        self,
        measured_from: &str,
        costs: Vec<HostCost>,
    ) -> Result<Self, CalibrationError> {
        let hosts = Hosts::new(Some(measured_from.to_owned()), costs);
        Self { hosts, ..self }
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration with these factors of ways, each limited to 1 to 100. They are no
    /// part of a file.
    #[must_use]
    pub fn with_ways(self, ways: impl IntoIterator<Item = WayTimes>) -> Self {
        let limited = |way: WayTimes| WayTimes {
            times: way.times.clamp(1.0, MAX_TIMES),
            ..way
        };
        let known = ways.into_iter().filter(|way| way.times.is_finite());
        Self {
            ways: known.map(limited).collect(),
            ..self
        }
    }

    /// Returns the factors of ways that are known.
    pub fn ways(&self) -> &[WayTimes] {
        &self.ways
    }

    /// Returns the factor by which a way takes longer than the model says; 1 if none is known. A
    /// way that was never tried takes as much longer as the best that was, within limits: the
    /// reason may be the network, or the hosts.
    pub fn times(&self, via: Via) -> f64 {
        let known = self.ways.iter().find(|known| known.via == via);
        let least = self.ways.iter().map(|known| known.times).reduce(f64::min);
        let untried = || least.map_or(1.0, |least| least.min(MAX_TIMES_OF_ALL));
        known.map_or_else(untried, |known| known.times)
    }

    /// Whether this measurement leaves room for what an `earlier` one of the same network measured
    /// for frames of `bytes`: it is less sure, and both may be true.
    pub fn leaves_room_for(&self, earlier: &Self, bytes: u64) -> bool {
        let [now, before] = [self, earlier].map(|one| one.gap_ns(bytes));
        let scatter = 1.0 + self.spread;
        self.spread > earlier.spread && (now / scatter..=now * scatter).contains(&before)
    }

    /// Returns the calibration with this behaviour of broadcast, if it was tried.
    #[must_use]
    pub fn with_tried(self, broadcast: Broadcast) -> Self {
        match broadcast {
            Broadcast::Untried => self,
            broadcast => Self { broadcast, ..self },
        }
    }

    /// Returns the calibration with the behaviour of broadcast that a transfer proved, if this one
    /// did not find it as bad.
    #[must_use]
    pub fn with_proved(self, broadcast: Broadcast) -> Self {
        match (self.broadcast, broadcast) {
            (Broadcast::Policed(_) | Broadcast::Slower(_), _) => self,
            (_, Broadcast::Policed(0) | Broadcast::Slower(0)) => self,
            _ => Self { broadcast, ..self },
        }
    }

    /// Returns the measurements of single hosts.
    pub fn hosts(&self) -> &[HostCost] {
        &self.hosts.costs
    }

    /// Returns the host that measured, if known.
    pub fn measured_from(&self) -> Option<&str> {
        self.hosts.measured_from.as_deref()
    }

    /// Checks that the measured hosts are known.
    ///
    /// # Errors
    /// [`CalibrationProblem::OtherHost`], with the line.
    pub fn check_hosts(&self, is_known: impl Fn(&str) -> bool) -> Result<(), CalibrationError> {
        let lines = self
            .hosts
            .lines
            .iter()
            .copied()
            .map(Some)
            .chain(std::iter::repeat(None));
        let non_member = self
            .hosts
            .costs
            .iter()
            .zip(lines)
            .find(|(host, _)| !is_known(&host.name));
        let (name, line) = match (non_member, self.measured_from()) {
            (Some((host, line)), _) => (host.name.as_str(), line),
            (None, Some(root)) if !is_known(root) => (root, None),
            _ => return Ok(()),
        };
        Err(self
            .hosts
            .refuse(line, CalibrationProblem::OtherHost(name.to_owned())))
    }

    /// Returns the calibration updated by a newer one: new values of hosts measured again, old
    /// values of the others. Values of the whole network (the table, loss, broadcast) are replaced
    /// only if all hosts were measured again, because one host shows little about the others.
    ///
    /// # Errors
    /// [`CalibrationProblem::OtherRoot`] if the two were measured from different hosts.
    pub fn updated_by(self, newer: Self) -> Result<Self, CalibrationError> {
        if let (Some(before), Some(now)) = (self.measured_from(), newer.measured_from())
            && before != now
        {
            let problem = CalibrationProblem::OtherRoot {
                before: before.to_owned(),
                now: now.to_owned(),
            };
            return Err(self.hosts.refuse(None, problem));
        }
        let again = |host: &HostCost| newer.hosts.names.find(&host.name).is_some();
        let (renewed, kept): (Vec<_>, Vec<_>) = self.hosts.costs.iter().cloned().partition(again);
        let mut costs = newer.hosts.costs.clone();
        let whole = kept.is_empty() || renewed.is_empty() && self.hosts.costs.is_empty();
        costs.extend(kept);
        costs.sort_by(|left, right| crate::natural_order(&left.name, &right.name));
        let measured_from = newer
            .hosts
            .measured_from
            .clone()
            .or_else(|| self.hosts.measured_from.clone());
        let table = if whole { newer } else { self };
        Ok(Self {
            hosts: Hosts::new(measured_from, costs),
            ..table
        })
    }
}

/// Largest time of a frame, in nanoseconds, or of a byte, in picoseconds.
const MAX_FRAME_NS: u64 = 1_000_000_000;

/// Processor time of a host, per frame and per byte. A host does one thing at a time; a relay
/// receives and sends.
///
/// The times per frame are of frames whose receiver is woken for each; in a long stream one wake-up
/// serves many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    pub send_frame_ns: u64,
    pub send_byte_ps: u64,
    pub receive_frame_ns: u64,
    pub receive_byte_ps: u64,
    /// Time to receive a frame of a long stream and send it to one other host, in nanoseconds; 0 if
    /// not measured, and then derived from the costs per frame and byte.
    #[serde(default)]
    pub pass_on_frame_ns: u64,
    /// Time to send a frame of a long stream to all at once, in nanoseconds; 0 if not measured. If
    /// the switches are programs on the sender's processors, they copy the frame there.
    #[serde(default)]
    pub cast_frame_ns: u64,
    /// Bytes of the message in each frame of these streams.
    #[serde(default)]
    pub stream_frame_bytes: u32,
    /// Time from a frame's arrival until an idle host notices it, in nanoseconds. Simulations need
    /// it; in the model it is part of L(m).
    #[serde(default)]
    pub wake_up_ns: u64,
    /// Processors shared by all hosts of one machine (namespaces or virtual machines); 0 if each
    /// host has its own.
    #[serde(default)]
    pub shared_cores: u32,
}

impl Processing {
    pub fn sending_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.send_frame_ns as f64 + bytes as f64 * self.send_byte_ps as f64 / 1e3
    }

    /// Returns the factor of a frame's cost in a long stream over the cost from the numbers per
    /// frame and byte; 1 if not measured.
    pub fn streaming(&self) -> f64 {
        let bytes = self.stream_frame_bytes.into();
        let both = self.sending_ns(1.0, bytes) + self.receiving_ns(1.0, bytes);
        if self.pass_on_frame_ns > 0 && both > 0.0 {
            self.pass_on_frame_ns as f64 / both
        } else {
            1.0
        }
    }

    /// Returns the cost of sending a frame of a long stream to all, as a multiple of
    /// [sending](Self::sending_ns) it to one; `None` if not measured.
    pub fn casting(&self) -> Option<f64> {
        let sending = self.sending_ns(1.0, self.stream_frame_bytes.into());
        (self.cast_frame_ns > 0 && sending > 0.0).then(|| self.cast_frame_ns as f64 / sending)
    }

    pub fn receiving_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.receive_frame_ns as f64 + bytes as f64 * self.receive_byte_ps as f64 / 1e3
    }

    /// Returns the costs, each clamped to its plausible limit.
    #[must_use]
    pub fn clamped(self) -> Self {
        let clamp = |value: u64| value.min(MAX_FRAME_NS);
        Self {
            send_frame_ns: clamp(self.send_frame_ns),
            send_byte_ps: clamp(self.send_byte_ps),
            receive_frame_ns: clamp(self.receive_frame_ns),
            receive_byte_ps: clamp(self.receive_byte_ps),
            pass_on_frame_ns: clamp(self.pass_on_frame_ns),
            cast_frame_ns: clamp(self.cast_frame_ns),
            wake_up_ns: clamp(self.wake_up_ns),
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), (Field, CalibrationProblem)> {
        let numbers = [
            ("send_frame_ns", self.send_frame_ns),
            ("send_byte_ps", self.send_byte_ps),
            ("receive_frame_ns", self.receive_frame_ns),
            ("receive_byte_ps", self.receive_byte_ps),
            ("pass_on_frame_ns", self.pass_on_frame_ns),
            ("cast_frame_ns", self.cast_frame_ns),
            ("wake_up_ns", self.wake_up_ns),
        ];
        let in_streams = self.pass_on_frame_ns > 0 || self.cast_frame_ns > 0;
        match numbers.into_iter().find(|&(_, value)| value > MAX_FRAME_NS) {
            Some((name, value)) => Err((
                Field::Processing,
                CalibrationProblem::Processing { name, value },
            )),
            None if in_streams && self.stream_frame_bytes == 0 => {
                Err((Field::Processing, CalibrationProblem::StreamFrame))
            }
            None => Ok(()),
        }
    }

    pub(super) fn to_toml(self) -> String {
        let Self {
            send_frame_ns,
            send_byte_ps,
            receive_frame_ns,
            receive_byte_ps,
            wake_up_ns,
            ..
        } = self;
        let if_any = |name: &str, value: u64| {
            if value > 0 {
                format!("{name} = {value}\n")
            } else {
                String::new()
            }
        };
        let pass_on = if_any("pass_on_frame_ns", self.pass_on_frame_ns);
        let of_bytes = if_any("stream_frame_bytes", self.stream_frame_bytes.into());
        let cast = if_any("cast_frame_ns", self.cast_frame_ns);
        let shared = if_any("shared_cores", self.shared_cores.into());
        format!(
            "\n[processing]\nsend_frame_ns = {send_frame_ns}\nsend_byte_ps = {send_byte_ps}\nreceive_frame_ns = \
             {receive_frame_ns}\nreceive_byte_ps = {receive_byte_ps}\n{pass_on}{cast}{of_bytes}wake_up_ns = \
             {wake_up_ns}\n{shared}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(from: &str, gap: u64, hosts: &[(&str, u64)]) -> Calibration {
        let costs = hosts
            .iter()
            .map(|&(name, injection_ns)| HostCost {
                name: name.to_owned(),
                injection_ns,
            })
            .collect();
        Calibration::assumed(gap, 1468)
            .with_hosts(from, costs)
            .expect("a calibration")
    }

    #[test]
    fn a_re_measure_renews_what_it_has_measured() {
        let old = calibration("n0", 1_000_000_000, &[("n1", 12_000), ("n2", 12_000)]);
        let one = old
            .clone()
            .updated_by(calibration("n0", 100_000_000, &[("n2.cluster", 120_000)]))
            .expect("merged");
        assert_eq!(
            one.points(),
            old.points(),
            "one slow host is not the network"
        );
        let known = |calibration: &Calibration| {
            ["n1", "n2", "n3"].map(|name| calibration.injection_ns(name))
        };
        assert_eq!(known(&one), [Some(12_000), Some(120_000), None]);
        let all = calibration("n0", 100_000_000, &[("n1", 1), ("n2", 2), ("n3", 3)]);
        let renewed = old.updated_by(all.clone()).expect("merged");
        assert_eq!(
            (known(&renewed), renewed.points()),
            ([Some(1), Some(2), Some(3)], all.points())
        );
        let nobody = Calibration::assumed(1_000_000_000, 1468);
        assert_eq!(
            nobody.updated_by(all.clone()).expect("merged"),
            all,
            "a file without hosts is renewed whole"
        );
    }

    #[test]
    fn a_calibration_of_another_cluster_or_from_another_host_is_refused_with_its_line() {
        let text = calibration("n0", 1_000_000_000, &[("n1", 12_000), ("m2", 12_000)]).to_toml();
        let read = Calibration::parse(&text, "c.toml").expect("it parses");
        let line = text
            .lines()
            .position(|line| line.contains("m2"))
            .expect("there")
            + 1;
        assert_eq!(
            read.check_hosts(|name| name.starts_with('n'))
                .expect_err("m2")
                .to_string(),
            format!(
                "c.toml:{line}: measured on host `m2`, which this cluster does not have; measure this one with \
                 `ethbcast probe`, or take the host out of the file if it has gone"
            )
        );
        assert!(
            read.check_hosts(|name| name != "n0")
                .expect_err("n0")
                .to_string()
                .starts_with("c.toml: measured on host `n0`")
        );
        assert_eq!(read.check_hosts(|_| true), Ok(()));
        let elsewhere = read
            .updated_by(calibration("n7", 1, &[]))
            .expect_err("another root")
            .to_string();
        assert_eq!(
            elsewhere,
            "c.toml: measured from host `n0`, and this one is `n7`; update it from there, or write a file of its \
             own with \
             --out"
        );
    }
}
