//! Statistics of repeated times.

/// Statistics of a series of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean without the lowest and the highest tenth, as in the EQA paper (§4).
    pub middle80: f64,
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Times {
    /// Computes the statistics of times in seconds; `None` if there are none.
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        // Nearest-rank quantile, as in `ethbcast perf`.
        let quantile =
            |part: f64| seconds.get(((part * seconds.len() as f64).ceil() as usize).saturating_sub(1)).copied();
        let tenth = seconds.len() / 10;
        let middle = &seconds[tenth..seconds.len() - tenth];
        Some(Self {
            middle80: middle.iter().sum::<f64>() / middle.len() as f64,
            median: quantile(0.5)?,
            p99: quantile(0.99)?,
        })
    }

    /// Returns the median of several runs for each statistic; `None` if there are none.
    pub fn median_of(runs: &[Self]) -> Option<Self> {
        let middle = |figure: fn(&Self) -> f64| crate::table::median(runs.iter().map(figure).collect());
        Some(Self {
            middle80: middle(|run| run.middle80)?,
            median: middle(|run| run.median)?,
            p99: middle(|run| run.p99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_leaves_out_a_tenth_at_either_end_and_quantiles_are_times_that_were_taken() {
        let seconds: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Times::of(seconds), Some(Times { middle80: 10.5, median: 10.0, p99: 20.0 }));
        assert_eq!(Times::of(vec![3.0]), Some(Times { middle80: 3.0, median: 3.0, p99: 3.0 }));
        assert_eq!(Times::of(vec![]), None);
    }

    #[test]
    fn of_three_runs_each_figure_is_the_median() {
        let run = |middle80, median, p99| Times { middle80, median, p99 };
        assert_eq!(
            Times::median_of(&[run(1.0, 6.0, 7.0), run(2.0, 5.0, 9.0), run(3.0, 4.0, 8.0)]),
            Some(run(2.0, 5.0, 8.0))
        );
        assert_eq!(Times::median_of(&[]), None);
    }
}
