//! One question to the management API: how was a queue declared? HTTP/1.0, so that the answer ends with the connection; no
//! redirects, no proxies.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::{
    amqp::{AmqpError, Credentials, Endpoint, OpenConfig, dial},
    declaration::{Declaration, of_json},
};

/// How long the whole question may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest answer: one queue's description is some kilobytes.
const MOST: u64 = 1 << 20;

/// Why the management API gave no answer of use.
#[derive(Debug, Clone, Error)]
pub(crate) enum ManagementError {
    #[error("its address {0} is none like http://host:port")]
    Address(String),
    #[error("it asks for a user name and a password, and there are none (EXTERNAL is for AMQP only)")]
    NoPassword,
    #[error("{0}")]
    Dial(#[source] Arc<AmqpError>),
    #[error("the connection failed: {0}")]
    Io(#[source] Arc<std::io::Error>),
    #[error("it did not answer within {WITHIN:?}")]
    Timeout,
    #[error("it answered with the status {0}")]
    Status(u16),
    #[error("its answer is none of RabbitMQ's management API")]
    Answer,
}

/// Asks how a queue was declared; `None` = there is no such queue.
pub(crate) async fn queue(
    url: &str,
    vhost: &str,
    queue: &str,
    config: &OpenConfig,
) -> Result<Option<Declaration>, ManagementError> {
    let (endpoint, tls) = endpoint(url).ok_or_else(|| ManagementError::Address(url.to_owned()))?;
    let Credentials::Plain { username, password } = &config.credentials else {
        return Err(ManagementError::NoPassword);
    };
    let config = OpenConfig { tls: tls.then(|| config.tls.clone().unwrap_or_default()), ..config.clone() };
    let request = format!(
        "GET /api/queues/{}/{} HTTP/1.0\r\nHost: {endpoint}\r\nAuthorization: Basic {}\r\nAccept: application/json\r\n\r\n",
        escaped(vhost),
        escaped(queue),
        STANDARD.encode(format!("{username}:{password}")),
    );
    let ask = async {
        let mut stream =
            dial(&endpoint, &config).await.map_err(|error| ManagementError::Dial(Arc::new(error)))?;
        let failed = |error| ManagementError::Io(Arc::new(error));
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut answer = Vec::new();
        match stream.take(MOST).read_to_end(&mut answer).await {
            // Servers that end TLS without a word have said all the same what they said.
            Err(error) if answer.is_empty() => return Err(failed(error)),
            Ok(_) | Err(_) => {}
        }
        read(&answer)
    };
    timeout(WITHIN, ask).await.unwrap_or(Err(ManagementError::Timeout))
}

fn read(answer: &[u8]) -> Result<Option<Declaration>, ManagementError> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or(ManagementError::Answer)?;
    let head =
        answer.get(..end).and_then(|head| std::str::from_utf8(head).ok()).ok_or(ManagementError::Answer)?;
    let mut words = head.split_whitespace();
    if !words.next().is_some_and(|word| word.starts_with("HTTP/")) {
        return Err(ManagementError::Answer);
    }
    match words.next().and_then(|status| status.parse::<u16>().ok()).ok_or(ManagementError::Answer)? {
        200 => {
            let body = answer.get(end + 4..).unwrap_or_default();
            of_json(body).map(Some).ok_or(ManagementError::Answer)
        }
        404 => Ok(None),
        status => Err(ManagementError::Status(status)),
    }
}

/// The endpoint of `http://host:port` or `https://host:port`, and whether it is one with TLS.
fn endpoint(url: &str) -> Option<(Endpoint, bool)> {
    let (tls, rest) = match url.split_once("://")? {
        ("http", rest) => (false, rest),
        ("https", rest) => (true, rest),
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let standard = if tls { 443 } else { 80 };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        Some(_) | None => (rest, standard),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ', '\r', '\n']);
    plain.then(|| (Endpoint { host: host.to_owned(), port }, tls))
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |url| endpoint(url).map(|(endpoint, tls)| (endpoint.host, endpoint.port, tls));
        assert_eq!(read("http://rabbit:15672"), Some(("rabbit".to_owned(), 15672, false)));
        assert_eq!(read("https://rabbit/"), Some(("rabbit".to_owned(), 443, true)));
        assert_eq!(read("http://[::1]:1"), Some(("::1".to_owned(), 1, false)));
        assert_eq!(read("http://[::1]"), Some(("::1".to_owned(), 80, false)));
        for url in ["rabbit:15672", "amqp://rabbit", "http://", "http://a/b", "http://me@a", "http://a:x"] {
            assert_eq!(read(url), None, "{url}");
        }
        assert_eq!(escaped("/a b.ü"), "%2Fa%20b%2E%C3%BC");
    }

    #[tokio::test]
    async fn a_queue_is_asked_for_with_our_name_and_password() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = [
            ("HTTP/1.0 200 OK\r\nx: y\r\n\r\n{\"type\":\"quorum\"}", "Ok(true)"),
            ("HTTP/1.1 404 Not Found\r\n\r\n", "Ok(false)"),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n", "Err(\"it answered with the status 401\")"),
            ("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", "Err(\"it answered with the status 301\")"),
            ("HTTP/1.1 200 OK\r\n\r\nhello", "Err(\"its answer is none of RabbitMQ's management API\")"),
            ("nonsense", "Err(\"its answer is none of RabbitMQ's management API\")"),
        ];
        let server = tokio::spawn(async move {
            let mut heads = Vec::new();
            for (answer, _) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heads
        });
        for (_, expected) in answers {
            let answer = queue(&url, "/", "a/b", &OpenConfig::default()).await;
            let shown =
                format!("{:?}", answer.map(|found| found.is_some()).map_err(|error| error.to_string()));
            assert_eq!(shown, expected);
        }
        let heads = server.await.unwrap();
        let head = &heads[0];
        assert!(head.starts_with("GET /api/queues/%2F/a%2Fb HTTP/1.0\r\n"), "{head}");
        assert!(head.contains("\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"), "{head}");
    }
}
