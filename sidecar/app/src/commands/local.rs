//! Commands to the sidecar that runs here, through its loopback port. A whole HTTP client would be slower to start
//! than the drain that a preStop hook asks for.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use lockstep_contract::names;

use super::{Failure, say};
use crate::{
    admin::MessageRef,
    args::{MessageArgs, PortArgs},
    config::Origin,
};

/// The sidecar answers within a turn of its loop.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Its answers to commands are one line.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Begins the drain and returns; the process lives on.
pub(super) fn pre_stop(args: &PortArgs) -> Result<(), Failure> {
    post(args, names::admin::DRAIN, "").map(drop)
}

/// Past one message.
pub(super) fn by_hand(path: &str, args: &MessageArgs) -> Result<(), Failure> {
    let message = MessageRef { queue: args.queue.clone(), message_id: args.message_id.clone() };
    let body = serde_json::to_string(&message).map_err(Failure::failed)?;
    let answer = post(&args.port, path, &body)?;
    say(answer.trim_end());
    Ok(())
}

fn post(args: &PortArgs, path: &str, body: &str) -> Result<String, Failure> {
    // A hook needs no arguments: the mounted manifest names the port.
    let port = args.admin_port.unwrap_or_else(|| Origin::of(None).admin_port());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let refused = |error| {
        Failure::failed(format!(
            "no sidecar answers on {address}: {error}; run this beside it, and name its sidecar.adminPort with --admin-port"
        ))
    };
    let answer = exchange(address, path, body).map_err(refused)?;
    let (head, answer) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') {
        Ok(answer.to_owned())
    } else {
        Err(Failure::failed(format!("the sidecar answered {status}: {}", answer.trim_end())))
    }
}

fn exchange(address: SocketAddr, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}
