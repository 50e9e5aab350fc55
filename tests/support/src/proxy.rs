//! A TCP proxy that breaks connections as it is told, at run time and by seed.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::random::Random;

/// One way through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What is done to connections.
#[derive(Debug, Clone, Default)]
struct State {
    latency: Duration,
    slice: Option<usize>,
    stalled: [bool; 2],
    /// Bytes that still pass before the direction stalls.
    fuse: [Option<usize>; 2],
    refusing: bool,
    seed: u64,
    open: Vec<(TcpStreamHandle, TcpStreamHandle)>,
    accepted: u64,
}

type TcpStreamHandle = Arc<TcpStream>;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    closed: AtomicBool,
}

/// A running proxy; dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: String,
}

impl Proxy {
    /// Listens on loopback and passes everything on to `upstream`.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start(upstream: &str, seed: u64) -> Self {
        Self::start_at("127.0.0.1", upstream, seed)
    }

    /// Listens on another address.
    ///
    /// # Panics
    /// When no port of it is free.
    pub fn start_at(address: &str, upstream: &str, seed: u64) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        shared.state().seed = seed;
        let (upstream, accepting) = (upstream.to_owned(), Arc::clone(&shared));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.closed.load(Ordering::Relaxed) {
                    return;
                }
                // A server that refuses looks to the client like a connection that is closed at once.
                drop(accept(client, &upstream, &accepting));
            }
        });
        Self { shared, address }
    }

    /// Where clients connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> u64 {
        self.shared.state().accepted
    }

    /// Delays each piece of data so long, in both directions.
    pub fn set_latency(&self, latency: Duration) {
        self.change(|state| state.latency = latency);
    }

    /// Passes data on in pieces of 1 to `most` bytes, by seed; `None` passes it on as it comes.
    pub fn set_slices(&self, most: Option<usize>) {
        self.change(|state| state.slice = most);
    }

    /// Holds back all data of one direction, connections staying open, until told otherwise.
    pub fn set_stalled(&self, direction: Direction, stalled: bool) {
        self.change(|state| {
            state.stalled[direction as usize] = stalled;
            state.fuse[direction as usize] = None;
        });
    }

    /// Lets `bytes` more through in one direction, then holds it back: in the middle of a frame.
    pub fn stall_after(&self, direction: Direction, bytes: usize) {
        self.change(|state| state.fuse[direction as usize] = Some(bytes));
    }

    /// Closes all connections; with `refuse` also those to come, until [`Self::heal`].
    pub fn cut(&self, refuse: bool) {
        self.change(|state| {
            state.refusing = refuse;
            for (client, server) in state.open.drain(..) {
                drop(client.shutdown(Shutdown::Both));
                drop(server.shutdown(Shutdown::Both));
            }
        });
    }

    /// Passes everything on from now on.
    pub fn heal(&self) {
        self.change(|state| {
            state.refusing = false;
            state.stalled = [false; 2];
            state.fuse = [None; 2];
            state.latency = Duration::ZERO;
            state.slice = None;
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        self.heal();
        self.cut(true);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(&self.address));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits until a direction may pass bytes on, and says how many of `count` and after which delay.
    fn permit(&self, direction: Direction, count: usize, random: &mut Random) -> (usize, Duration) {
        let index = direction as usize;
        let mut state = self.state();
        while state.stalled[index] {
            state = self.changed.wait(state).unwrap();
        }
        let mut permitted = count;
        if let Some(most) = state.slice {
            let piece = usize::try_from(random.below(u64::try_from(most).unwrap_or(1))).unwrap_or(0) + 1;
            permitted = permitted.min(piece);
        }
        if let Some(fuse) = state.fuse[index] {
            permitted = permitted.min(fuse);
            state.fuse[index] = Some(fuse - permitted);
            if fuse == permitted {
                state.stalled[index] = true;
            }
        }
        (permitted, state.latency)
    }
}

fn accept(client: TcpStream, upstream: &str, shared: &Arc<Shared>) -> io::Result<()> {
    if shared.state().refusing {
        return Ok(());
    }
    let server = TcpStream::connect(upstream)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client, server) = (Arc::new(client), Arc::new(server));
    let seed = {
        let mut state = shared.state();
        state.accepted += 1;
        state.open.push((Arc::clone(&client), Arc::clone(&server)));
        state.seed.wrapping_add(state.accepted)
    };
    for (direction, from, to) in [(Direction::Up, &client, &server), (Direction::Down, &server, &client)] {
        let (shared, from, to) = (Arc::clone(shared), Arc::clone(from), Arc::clone(to));
        thread::spawn(move || {
            let mut random = Random::new(seed);
            // Either end may break a connection at any time: then the other is closed too.
            drop(pump(&shared, direction, &from, &to, &mut random));
            drop(from.shutdown(Shutdown::Both));
            drop(to.shutdown(Shutdown::Both));
        });
    }
    Ok(())
}

fn pump(
    shared: &Shared,
    direction: Direction,
    mut from: &TcpStream,
    mut to: &TcpStream,
    random: &mut Random,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let (permitted, latency) = shared.permit(direction, rest.len(), random);
            thread::sleep(latency);
            let (now, later) = rest.split_at(permitted);
            to.write_all(now)?;
            rest = later;
        }
    }
}
