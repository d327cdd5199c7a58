//! Measurements of single hosts (the injection times of Mateescu and Taylor §3), and their update
//! by newer ones.

use super::{Calibration, CalibrationError, CalibrationProblem, Field};
use crate::host_names::HostNames;

/// Cost of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Its name, short or full.
    pub name: String,
    /// Time that the host, or its cable, is busy with a full frame, in nanoseconds.
    pub injection_ns: u64,
}

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
        Self { measured_from, costs, names, file_name: None, lines: Vec::new() }
    }

    pub fn read_from(self, file_name: &str, lines: Vec<usize>) -> Self {
        Self { file_name: Some(file_name.to_owned()), lines, ..self }
    }

    pub fn find(&self, name: &str) -> Option<u64> {
        self.names.find(name).map(|index| self.costs[index].injection_ns)
    }

    pub fn check(&self) -> Result<(), (Field, CalibrationProblem)> {
        for (at, host) in self.costs.iter().enumerate() {
            if host.injection_ns == 0 {
                return Err((Field::Injection(at), CalibrationProblem::ZeroInjection(host.name.clone())));
            }
            if self.costs[..at].iter().any(|before| before.name == host.name) {
                return Err((Field::Host(at), CalibrationProblem::HostTwice(host.name.clone())));
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
    pub fn with_hosts(self, measured_from: &str, costs: Vec<HostCost>) -> Result<Self, CalibrationError> {
        let hosts = Hosts::new(Some(measured_from.to_owned()), costs);
        Self { hosts, ..self }.checked().map_err(|(_, problem)| CalibrationError::nowhere(problem))
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
        let lines = self.hosts.lines.iter().copied().map(Some).chain(std::iter::repeat(None));
        let stranger = self.hosts.costs.iter().zip(lines).find(|(host, _)| !is_known(&host.name));
        let (name, line) = match (stranger, self.measured_from()) {
            (Some((host, line)), _) => (host.name.as_str(), line),
            (None, Some(root)) if !is_known(root) => (root, None),
            _ => return Ok(()),
        };
        Err(self.hosts.refuse(line, CalibrationProblem::OtherHost(name.to_owned())))
    }

    /// Returns the calibration updated by a newer one: new values of hosts measured again, old
    /// values of the others. Values of the whole network (the table, loss, broadcast) are replaced
    /// only if all hosts were measured again, because one host says little about the others.
    ///
    /// # Errors
    /// [`CalibrationProblem::OtherRoot`] if the two were measured from different hosts.
    pub fn updated_by(self, newer: Self) -> Result<Self, CalibrationError> {
        if let (Some(before), Some(now)) = (self.measured_from(), newer.measured_from())
            && before != now
        {
            let problem = CalibrationProblem::OtherRoot { before: before.to_owned(), now: now.to_owned() };
            return Err(self.hosts.refuse(None, problem));
        }
        let again = |host: &HostCost| newer.hosts.names.find(&host.name).is_some();
        let (renewed, kept): (Vec<_>, Vec<_>) = self.hosts.costs.iter().cloned().partition(again);
        let mut costs = newer.hosts.costs.clone();
        let whole = kept.is_empty() || renewed.is_empty() && self.hosts.costs.is_empty();
        costs.extend(kept);
        costs.sort_by(|left, right| crate::natural_order(&left.name, &right.name));
        let measured_from = newer.hosts.measured_from.clone().or_else(|| self.hosts.measured_from.clone());
        let table = if whole { newer } else { self };
        Ok(Self { hosts: Hosts::new(measured_from, costs), ..table })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(from: &str, gap: u64, hosts: &[(&str, u64)]) -> Calibration {
        let costs =
            hosts.iter().map(|&(name, injection_ns)| HostCost { name: name.to_owned(), injection_ns }).collect();
        Calibration::assumed(gap, 1468).with_hosts(from, costs).expect("a calibration")
    }

    #[test]
    fn a_re_measure_renews_what_it_has_measured() {
        let old = calibration("n0", 1_000_000_000, &[("n1", 12_000), ("n2", 12_000)]);
        let one = old.clone().updated_by(calibration("n0", 100_000_000, &[("n2.cluster", 120_000)])).expect("merged");
        assert_eq!(one.points(), old.points(), "one slow host is not the network");
        let known = |calibration: &Calibration| ["n1", "n2", "n3"].map(|name| calibration.injection_ns(name));
        assert_eq!(known(&one), [Some(12_000), Some(120_000), None]);
        let all = calibration("n0", 100_000_000, &[("n1", 1), ("n2", 2), ("n3", 3)]);
        let renewed = old.updated_by(all.clone()).expect("merged");
        assert_eq!((known(&renewed), renewed.points()), ([Some(1), Some(2), Some(3)], all.points()));
        let nobody = Calibration::assumed(1_000_000_000, 1468);
        assert_eq!(nobody.updated_by(all.clone()).expect("merged"), all, "a file without hosts is renewed whole");
    }

    #[test]
    fn a_calibration_of_another_cluster_or_from_another_host_is_refused_with_its_line() {
        let text = calibration("n0", 1_000_000_000, &[("n1", 12_000), ("m2", 12_000)]).to_toml();
        let read = Calibration::parse(&text, "c.toml").expect("it parses");
        let line = text.lines().position(|line| line.contains("m2")).expect("there") + 1;
        assert_eq!(
            read.check_hosts(|name| name.starts_with('n')).expect_err("m2").to_string(),
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
        let elsewhere = read.updated_by(calibration("n7", 1, &[])).expect_err("another root").to_string();
        assert_eq!(
            elsewhere,
            "c.toml: measured from host `n0`, and this one is `n7`; update it from there, or write a file of its \
             own with \
             --out"
        );
    }
}
