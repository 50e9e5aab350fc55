//! The recording application in a pod. What it sees goes to a collector outside, so that it outlives the pod.
//!
//! Environment: PORT (8080), COLLECTOR (address; without it nothing is recorded), RULES (separated by `;`),
//! TERM_MILLISECONDS (how long it goes on after SIGTERM; 0 = it ends at once, with what runs broken off), HEALTH (the
//! first status of health checks).

use std::{
    env,
    error::Error,
    fs,
    net::{IpAddr, Ipv4Addr, TcpStream},
    str::FromStr,
    time::Duration,
};

use lockstep_tests_support::{
    app::{App, Identity, Options},
    behaviour::Rule,
    collector::Mark,
    time::{now_micros, pause},
};
use tokio::signal::unix::{SignalKind, signal};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn variable<T: FromStr<Err: Into<Box<dyn Error>>>>(name: &str) -> Outcome<Option<T>> {
    env::var(name).ok().map(|text| text.parse().map_err(Into::into)).transpose()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    // Before anything else: as the first process of a container it would ignore the signal.
    let mut terminated = signal(SignalKind::terminate())?;
    // In a pod the host's name is the pod's.
    let pod = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    let collector = env::var("COLLECTOR").ok().map(TcpStream::connect).transpose()?;
    if let Some(collector) = &collector {
        collector.set_nodelay(true)?;
    }
    let rules: String = variable("RULES")?.unwrap_or_default();
    let rules = rules.split(';').filter(|rule| !rule.trim().is_empty());
    let app = App::start(Options {
        port: variable("PORT")?.unwrap_or(8080),
        address: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        collector,
        identity: Some(Identity { application: format!("{pod}/{}", now_micros()), consumer: pod.clone() }),
        rules: rules.map(str::parse::<Rule>).collect::<Result<_, _>>()?,
        ..Options::default()
    })?;
    app.forget_requests();
    app.set_healthy(variable("HEALTH")?.unwrap_or(200_u16) == 200);
    app.note(&Mark::new(&pod, "started").to_string());
    terminated.recv().await;
    app.note(&Mark::new(&pod, "terminated").to_string());
    // The application works in threads of its own.
    pause(Duration::from_millis(variable("TERM_MILLISECONDS")?.unwrap_or(0)));
    app.note(&Mark::new(&pod, "ends").to_string());
    Ok(())
}
