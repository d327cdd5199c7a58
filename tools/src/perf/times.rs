//! Statistics of repeated times.

use std::time::Duration;

/// Statistics of a series of times in seconds; NaN for an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub mean: f64,
    pub min: f64,
    pub median: f64,
    pub p99: f64,
    /// Mean without the lowest and the highest tenth, as in the EQA paper (§4).
    pub middle80: f64,
}

impl Times {
    pub fn of(durations: &[Duration]) -> Times {
        let mut sorted: Vec<f64> = durations.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let tenth = sorted.len() / 10;
        Times {
            mean: mean(&sorted),
            min: quantile(&sorted, 0.0),
            median: quantile(&sorted, 0.5),
            p99: quantile(&sorted, 0.99),
            middle80: mean(&sorted[tenth..sorted.len() - tenth]),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the nearest-rank quantile.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_taken_and_the_middle_leaves_out_a_tenth_at_either_end() {
        let mut seconds: Vec<u64> = (1..=20).collect();
        seconds[19] = 1000;
        let durations: Vec<Duration> = seconds.into_iter().rev().map(Duration::from_secs).collect();
        let Times { mean, min, median, p99, middle80 } = Times::of(&durations);
        assert_eq!((mean, min, median, p99, middle80), (59.5, 1.0, 10.0, 1000.0, 10.5));
    }

    #[test]
    fn one_time_is_all_figures_and_none_is_no_number() {
        let Times { mean, min, median, p99, middle80 } = Times::of(&[Duration::from_secs(3)]);
        assert_eq!([mean, min, median, p99, middle80], [3.0; 5]);
        assert!(Times::of(&[]).median.is_nan());
    }
}
