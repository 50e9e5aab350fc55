//! The one table that a run prints.

use crate::{
    peers::Sample,
    statistics::{estimate, median},
};

/// Two sides measured in turn.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// The baseline's samples.
    pub(crate) base: Vec<Sample>,
    /// The measured side's samples, each beside the baseline sample of its pair.
    pub(crate) side: Vec<Sample>,
}

impl Pairs {
    fn ratios(&self, of: fn(&Sample) -> f64) -> Vec<f64> {
        self.base.iter().zip(&self.side).map(|(base, side)| of(side) / of(base)).collect()
    }

    /// One line: the ratio of throughputs with its interval, floor and aim, and what stands beside it.
    pub(crate) fn throughput(&self, name: &str, floor: f64, aim: f64) -> String {
        let e = estimate(&self.ratios(|s| s.rate));
        format!(
            "| {name} | {:.2} ({:.2} to {:.2}) | {floor} | {aim} | {} | {} | {} | {} |",
            e.median,
            e.low,
            e.high,
            verdict(e.median >= floor),
            rates(&self.base, &self.side),
            cpu(&self.base, &self.side),
            memory(&self.base, &self.side),
        )
    }

    /// One line for a ratio of throughputs that is only reported.
    pub(crate) fn reported(&self, name: &str) -> String {
        let e = estimate(&self.ratios(|s| s.rate));
        format!(
            "| {name} | {:.2} ({:.2} to {:.2}) | - | - | - | {} | {} | {} |",
            e.median,
            e.low,
            e.high,
            rates(&self.base, &self.side),
            cpu(&self.base, &self.side),
            memory(&self.base, &self.side),
        )
    }

    /// One line for a ratio that must stay below its floor.
    pub(crate) fn below(&self, name: &str, of: fn(&Sample) -> f64, floor: f64, aim: f64) -> String {
        let e = estimate(&self.ratios(of));
        format!(
            "| {name} | {:.3} ({:.3} to {:.3}) | at most {floor} | {aim} | {} | | {} | {} |",
            e.median,
            e.low,
            e.high,
            verdict(e.median <= floor),
            cpu(&self.base, &self.side),
            memory(&self.base, &self.side),
        )
    }
}

/// A line for one number against a bound from above.
pub(crate) fn plain(name: &str, value: f64, unit: &str, floor: f64, aim: f64) -> String {
    format!("| {name} | {value:.1} {unit} | at most {floor} | {aim} | {} | | | |", verdict(value <= floor))
}

/// The head of the table.
pub(crate) fn head() -> &'static str {
    "| measurement | result (95 % interval) | floor | aim | floor met | messages/s, base and side | CPU us a message, \
     base and side | peak resident MB, base and side |\n|---|---|---|---|---|---|---|---|"
}

fn verdict(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

fn both(base: &[Sample], side: &[Sample], of: fn(&Sample) -> f64) -> (f64, f64) {
    let median_of = |samples: &[Sample]| median(&samples.iter().map(of).collect::<Vec<_>>());
    (median_of(base), median_of(side))
}

fn rates(base: &[Sample], side: &[Sample]) -> String {
    let (b, s) = both(base, side, |s| s.rate);
    format!("{b:.0}, {s:.0}")
}

fn cpu(base: &[Sample], side: &[Sample]) -> String {
    let (b, s) = both(base, side, |s| s.cpu_micros);
    format!("{b:.1}, {s:.1}")
}

fn memory(base: &[Sample], side: &[Sample]) -> String {
    let (b, s) = both(base, side, mb);
    format!("{b:.1}, {s:.1}")
}

/// Peak memory of a sample in MB.
pub(crate) fn mb(sample: &Sample) -> f64 {
    f64::from(u32::try_from(sample.peak_kib).unwrap_or(u32::MAX)) / 1024.0
}
