//! Real brokers whose queues were filled beforehand: the sidecar against B0, and against a plain Java consumer.

use crate::{
    Result,
    children::Own,
    peers::{self, Group, Sample},
    scenarios::{self, Setting},
    table::{self, Pairs},
};

/// A broker with filled queues.
pub(crate) trait Filled {
    /// Gets one measurement ready: what a consumer is told that begins with the first message.
    fn prepare(&self, setting: &Setting) -> Consumer;

    /// Fails when the last measurement took all that there was, as it then waited for nothing.
    fn check(&self) -> Result<()>;
}

/// What a consumer is told.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// The sidecar.
    pub(crate) group: Group,
    /// The plain Java consumer.
    pub(crate) java: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum Side<'a> {
    Base { connections: u32 },
    Sidecar,
    Java { class_path: &'a str },
}

/// Samples in the order of the pairs.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    base: Vec<Sample>,
    sidecar: Vec<Sample>,
    java: Vec<Sample>,
}

/// Measures B0, the sidecar and, where there is a class path, the plain Java consumer in turn; every second time the
/// other way round, so that a drift of the machine hits all alike.
pub(crate) async fn measure(
    setting: &Setting,
    broker: &impl Filled,
    connections: u32,
    class_path: Option<&str>,
) -> Result<Samples> {
    let mut sides = vec![Side::Base { connections }, Side::Sidecar];
    sides.extend(class_path.map(|class_path| Side::Java { class_path }));
    let mut samples = Samples::default();
    for _ in 0..setting.pairs {
        for side in &sides {
            match side {
                Side::Base { connections } => {
                    samples.base.push(scenarios::base_sample(setting, *connections).await?);
                }
                Side::Sidecar => samples.sidecar.push(sample(setting, broker, None).await?),
                Side::Java { class_path } => {
                    samples.java.push(sample(setting, broker, Some(class_path)).await?);
                }
            }
        }
        sides.reverse();
    }
    Ok(samples)
}

async fn sample(setting: &Setting, broker: &impl Filled, class_path: Option<&str>) -> Result<Sample> {
    let consumer = broker.prepare(setting);
    let app = Own::start("app", &[]).await?;
    let mut process = match class_path {
        Some(class_path) => peers::java(class_path, &setting.folder, &consumer.java, app.port())?,
        None => peers::sidecar(&setting.sidecar, &setting.folder, &consumer.group, app.port())?,
    };
    let sample = peers::sample(&mut process, &app, setting.window).await?;
    broker.check()?;
    Ok(sample)
}

impl Samples {
    /// The sidecar against B0.
    pub(crate) fn to_base(&self) -> Pairs {
        Pairs { base: self.base.clone(), side: self.sidecar.clone() }
    }

    /// The lines against the plain Java consumer, where it was measured.
    pub(crate) fn to_java(&self, name: &str) -> Vec<String> {
        if self.java.is_empty() {
            return Vec::new();
        }
        let pairs = Pairs { base: self.java.clone(), side: self.sidecar.clone() };
        vec![
            pairs.throughput(name, 1.3, 2.0),
            pairs.below("CPU a message / plain Java", |s| s.cpu_micros, 0.6, 0.35),
            pairs.below("peak resident memory / plain Java", table::mb, 0.125, 0.067),
        ]
    }
}
