//! What answers mean.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockstep_core::{AttemptResult, HttpAnswer, VerdictHeader};
use tokio::{io::AsyncWriteExt as _, join};

use super::{
    super::{Attempted, Deliver, Http, answer::retry_after, escape::printable},
    answered, broken, message, pair, request,
    server::Server,
    summary,
};

/// One attempt on a new connection, answered with these bytes and closed.
async fn exchange(server: &Server, http: &Http, answer: &[u8]) -> Attempted {
    let (attempted, ()) = join!(http.attempt(request(message("a"))), async {
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        // The other side may have heard enough before the end.
        let _ = peer.stream.write_all(answer).await;
    });
    attempted
}

fn head(status: u16, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Text\r\nconnection: close\r\ncontent-length: 0\r\n{headers}\r\n").into_bytes()
}

#[tokio::test]
async fn every_status_is_told_as_it_is() {
    let (server, http) = pair().await;
    let statuses = [
        200, 201, 202, 204, 226, 299, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 407, 408,
        409, 410, 413, 414, 415, 422, 425, 429, 431, 451, 499, 500, 501, 502, 503, 504, 511, 599, 700, 999,
    ];
    for status in statuses {
        let attempted = exchange(&server, &http, &head(status, "location: http://127.0.0.1:1/\r\n")).await;
        assert_eq!(attempted.result, answered(status));
        assert_eq!(attempted.detail.is_none(), (200..300).contains(&status));
    }
}

#[tokio::test]
async fn interim_answers_are_passed_over_and_switching_protocols_is_an_answer() {
    let (server, http) = pair().await;
    let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n";
    let attempted = exchange(&server, &http, &[interim.as_slice(), &head(204, "")].concat()).await;
    assert_eq!(attempted.result, answered(204));
    let upgrade = b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    assert_eq!(exchange(&server, &http, upgrade).await.result, answered(101));
}

#[tokio::test]
async fn bodies_in_every_framing_are_read_to_their_end() {
    let (server, http) = pair().await;
    let answers: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    ];
    for answer in answers {
        assert_eq!(exchange(&server, &http, answer).await.result, answered(200));
    }
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let (server, http) = pair().await;
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "x".repeat(1024 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(10_000));
    let answers: [&[u8]; 8] = [
        b"garbage\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        huge.as_bytes(),
        many.as_bytes(),
    ];
    for answer in answers {
        let attempted = exchange(&server, &http, answer).await;
        assert_eq!(attempted.result, broken(), "{:?}", String::from_utf8_lossy(&answer[..20]));
    }
}

#[tokio::test]
async fn of_a_huge_body_64_kib_are_enough() {
    let (server, http) = pair().await;
    let (attempted, sent) = join!(http.attempt(request(message("a"))), async {
        let mut peer = server.accept().await;
        peer.request().await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n").await;
        let chunk = vec![b'x'; 65536];
        let mut sent = 0;
        while sent < 104_857_600 && peer.stream.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    assert_eq!(attempted.result, answered(200));
    assert!(sent < 20 * 1024 * 1024, "{sent} bytes were taken");
}

#[tokio::test]
async fn a_huge_body_cut_short_of_64_kib_is_broken() {
    let (server, http) = pair().await;
    let cut = format!("HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n{}", "x".repeat(60_000));
    assert_eq!(exchange(&server, &http, cut.as_bytes()).await.result, broken());
}

#[tokio::test]
async fn the_head_tells_the_wait_and_the_verdict() {
    let (server, http) = pair().await;
    let cases = [
        ("retry-after: 17\r\n", Some(17), None),
        ("retry-after: Fri, 01 Jan 2021 00:00:00 GMT\r\n", Some(0), None),
        ("retry-after: soon\r\n", None, None),
        ("Lockstep-Verdict: again\r\nretry-after: 2\r\n", Some(2), Some(VerdictHeader::Again)),
        ("lockstep-verdict: Dead-Letter\r\n", None, Some(VerdictHeader::DeadLetter)),
        ("lockstep-verdict:  skip \r\n", None, Some(VerdictHeader::Skip)),
        ("lockstep-verdict: done\r\n", None, None),
    ];
    for (headers, wait, verdict) in cases {
        let attempted = exchange(&server, &http, &head(503, headers)).await;
        let retry_after = wait.map(Duration::from_secs);
        let expected = AttemptResult::Answered(HttpAnswer { status: 503, retry_after, verdict });
        assert_eq!(attempted.result, expected, "{headers}");
    }
    let attempted = exchange(&server, &http, &head(200, "lockstep-verdict: dead-letter\r\n")).await;
    assert_eq!(attempted.result, answered(200), "a 2xx is a 2xx");
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let date = 784_111_777;
    let now = UNIX_EPOCH + Duration::from_secs(date - 60);
    let ok = [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("99999999999999999999999", u64::MAX),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 60),
        ("Sun Nov  6 08:49:37 1994", 60),
        ("Sun, 06 Nov 1994 08:47:37 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 31 Dec 1969 23:59:59 GMT", 0),
        ("Sun, 06 Nov 1994 08:49:60 GMT", 82),
    ];
    let last = retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now).unwrap();
    assert!(last > Duration::from_secs(8_000 * 365 * 86_400), "later than any timestamp is no faulty date");
    for (text, seconds) in ok {
        assert_eq!(retry_after(text, now), Some(Duration::from_secs(seconds)), "{text:?}");
    }
    let bad = [
        "",
        "-1",
        "1.5",
        "+3",
        "1s",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06-Nov-94-1 08:49:37 GMT",
        "Sun Nov 6 08:49 1994",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37:11 GMT",
        "Sun, 06 Nov 99999 08:49:37 GMT",
        "\u{661}\u{662}",
    ];
    for text in bad {
        assert_eq!(retry_after(text, now), None, "{text:?}");
    }
}

#[test]
fn a_year_of_two_digits_is_never_far_ahead() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000); // 2027
    let far = retry_after("Sunday, 06-Nov-77 08:49:37 GMT", now).unwrap();
    assert!(far > Duration::from_secs(49 * 365 * 86400), "77 is 2077 in 2027");
    assert_eq!(
        retry_after("Sunday, 06-Nov-78 08:49:37 GMT", now),
        Some(Duration::ZERO),
        "78 is 1978 in 2027"
    );
    assert!(retry_after("Sunday, 06-Nov-94 08:49:37 GMT", SystemTime::UNIX_EPOCH).is_some());
}

#[tokio::test]
async fn the_detail_keeps_a_kilobyte_of_the_answer_escaped() {
    let (server, http) = pair().await;
    let body = format!("no\u{1b}[31m\n\"{}", "é".repeat(2000));
    let answer = format!("HTTP/1.1 500 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let attempted = exchange(&server, &http, answer.as_bytes()).await;
    assert_eq!(summary(&attempted), "answered 500");
    let detail = attempted.detail.unwrap();
    let kept = detail.answer().unwrap();
    assert!(kept.starts_with("no\\u{1b}[31m\\n\"éé"), "{kept}");
    assert!(kept.len() <= 1024 && kept.len() > 1000);
    assert_eq!(printable(b"\xff\xfe", 1024), "\u{fffd}\u{fffd}");
    assert_eq!(printable("\u{202e}x".as_bytes(), 1024), "\\u{202e}x");
}
