//! Statements of a paper about a figure, beside our results.

use std::fmt;
use std::ops::RangeInclusive;

use crate::results::verdict;

/// A statement of a paper as a number and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The paper's statement, and the quantities compared.
    pub what: String,
    pub ours: f64,
    pub bounds: RangeInclusive<f64>,
}

impl Said {
    pub fn new(what: impl Into<String>, ours: f64, bounds: RangeInclusive<f64>) -> Self {
        Self { what: what.into(), ours, bounds }
    }

    pub fn holds(&self) -> bool {
        self.bounds.contains(&self.ours)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.bounds.start(), self.bounds.end());
        let bounds = match (low.is_finite() && *low > 0.0, high.is_finite()) {
            (true, true) => format!("{low:.2} to {high:.2}"),
            (true, false) => format!("at least {low:.2}"),
            _ => format!("at most {high:.2}"),
        };
        write!(formatter, "{}: {:.2} ({bounds}): {}", self.what, self.ours, verdict(self.holds()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_met_within_its_bounds() {
        let said = |ours, bounds| Said::new("ratio", ours, bounds).to_string();
        assert_eq!(said(1.5, 1.0..=2.0), "ratio: 1.50 (1.00 to 2.00): met");
        assert_eq!(said(0.9, 1.0..=f64::INFINITY), "ratio: 0.90 (at least 1.00): MISSED");
        assert_eq!(said(1.2, 0.0..=1.1), "ratio: 1.20 (at most 1.10): MISSED");
    }
}
