//! The real loop of the sidecar on paused time: a broker in memory, an application in process, members that come, go
//! and crash, and the history checker as the judge.

mod app;
mod dice;
mod member;
mod seeded;
mod world;

pub use app::{App, Plan};
pub use dice::Dice;
pub use member::{Member, config};
pub use seeded::{Run, Weather, run};
pub use world::World;
