//! Many runs by seed. A seed decides what goes wrong and when; the runtime's own order of wake-ups varies. A seed that fails is named; `LOCKSTEP_SIM_SEED=<n>` runs that one alone,
//! `LOCKSTEP_SIM_SEEDS=<n>` changes how many are run.

use std::env;

use lockstep_tests_sim::{Weather, run};

/// Enough to meet every kind of failure many times within seconds; `tests/run.sh soak` runs more.
const SEEDS: u64 = 30;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    match number("LOCKSTEP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LOCKSTEP_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

/// Runs them all and answers what they came to.
fn sail(weather: Weather) -> String {
    let (mut done, mut posts, mut duplicates) = (0, 0, 0);
    for seed in seeds() {
        let verdict = run(seed, weather).verdict;
        assert!(verdict.is_clean(), "LOCKSTEP_SIM_SEED={seed}, {weather:?}: {verdict}");
        done += verdict.counts.done;
        posts += verdict.counts.posts;
        duplicates += verdict.counts.duplicates;
    }
    format!("{weather:?}: {done} messages done in {posts} requests, {duplicates} duplicates")
}

#[test]
fn gentle_weather_costs_no_duplicate() {
    println!("{}", sail(Weather::Gentle));
}

#[test]
fn rough_weather_loses_and_reorders_nothing() {
    println!("{}", sail(Weather::Rough));
}
