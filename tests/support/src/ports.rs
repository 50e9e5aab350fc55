//! Free ports, below the range that the system gives to outgoing connections.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

const FIRST: u16 = 12_000;
const LAST: u16 = 31_900;

/// Where this process looks next. Processes start at different places, so that they seldom try the same.
static NEXT: AtomicU16 = AtomicU16::new(0);
/// What this process has given away: the UDP port of the same number, which nobody else here uses, says so to other
/// test processes until this one ends.
static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port that nobody listens on, and that no other test process gets while this one lives.
pub fn free_port() -> u16 {
    free_block(1)
}

/// The first of `count` such neighbouring ports.
///
/// # Panics
/// When there is none.
pub fn free_block(count: u16) -> u16 {
    let range = LAST - FIRST - count;
    let offset = u16::try_from(u64::from(process::id()) * 7_919 % u64::from(range)).unwrap_or(0);
    for _ in 0..range {
        let step = NEXT.fetch_add(count, Ordering::Relaxed) % range;
        let first = FIRST + (offset + step) % range;
        if let Some(claims) = (first..first + count).map(claim).collect::<Option<Vec<_>>>() {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).extend(claims);
            return first;
        }
    }
    panic!("no {count} neighbouring free ports between {FIRST} and {LAST}");
}

fn claim(port: u16) -> Option<UdpSocket> {
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok().map(|_| claim)
}
