//! Free ports, below the range that the system gives to outgoing connections.

use std::{
    net::{Ipv4Addr, TcpListener},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

const FIRST: u16 = 12_000;
const LAST: u16 = 31_900;

/// Where this process looks next. Processes start at different places, so that two runs seldom meet.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    free_block(1)
}

/// The first of `count` neighbouring ports that nobody listens on.
///
/// # Panics
/// When there is none.
pub fn free_block(count: u16) -> u16 {
    let range = LAST - FIRST;
    let offset = u16::try_from(u64::from(process::id()) * 7_919 % u64::from(range)).unwrap_or(0);
    for _ in 0..range {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + (offset.wrapping_add(step)) % range;
        if (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!("no {count} neighbouring free ports between {FIRST} and {LAST}");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}
