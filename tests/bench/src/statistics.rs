//! Medians and bootstrap intervals of paired ratios.

/// A median with a 95 % bootstrap interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    /// The median.
    pub(crate) median: f64,
    /// Lower end.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

/// How often the sample is drawn again; 1,000 is usual for a percentile bootstrap.
const DRAWS: usize = 1_000;

/// The median of a sample; 0 of an empty one.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// A percentile by nearest rank; 0 of an empty sample.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(0.0)
}

/// The median and its interval.
pub(crate) fn estimate(values: &[f64]) -> Estimate {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let medians: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let sample: Vec<f64> = values.iter().filter_map(|_| draw(values, &mut seed)).collect();
            median(&sample)
        })
        .collect();
    Estimate { median: median(values), low: percentile(&medians, 3), high: percentile(&medians, 97) }
}

fn draw(values: &[f64], seed: &mut u64) -> Option<f64> {
    // A xorshift step: enough to draw an index.
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    let index = usize::try_from(*seed % u64::try_from(values.len().max(1)).unwrap_or(1)).unwrap_or(0);
    values.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::{estimate, median, percentile};

    #[test]
    fn medians_and_percentiles_are_by_rank() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 99), 4.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn the_interval_holds_the_median() {
        let e = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(e.low <= e.median && e.median <= e.high, "{e:?}");
    }
}
