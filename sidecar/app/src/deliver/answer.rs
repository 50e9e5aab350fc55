//! What an answer says: the head's facts, as much of the body as counts, and the text kept for logs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, header::RETRY_AFTER};
use jiff::civil::DateTime;
use lockstep_core::{HttpAnswer, VerdictHeader};

/// As much of an answer's body is read; then the connection is dropped.
pub(super) const BODY_LIMIT: usize = 64 * 1024;

/// As much of an answer or error is kept for logs.
pub(super) const DETAIL_LIMIT: usize = 1024;

const VERDICT: HeaderName = HeaderName::from_static("lockstep-verdict");

/// The facts of an answer's head.
pub(super) fn facts(status: u16, headers: &HeaderMap) -> HttpAnswer {
    let success = (200..300).contains(&status);
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    HttpAnswer {
        status,
        retry_after: text(RETRY_AFTER).and_then(|text| retry_after(text, SystemTime::now())),
        verdict: if success { None } else { text(VERDICT).and_then(verdict) },
    }
}

fn verdict(text: &str) -> Option<VerdictHeader> {
    let known = [
        ("again", VerdictHeader::Again),
        ("dead-letter", VerdictHeader::DeadLetter),
        ("skip", VerdictHeader::Skip),
    ];
    known.into_iter().find(|(name, _)| text.trim().eq_ignore_ascii_case(name)).map(|(_, verdict)| verdict)
}

/// `Retry-After` as a wait from `now`: seconds, or one of the three date forms of RFC 9110 5.6.7. A date in the past is
/// no wait; what can't be read is `None`.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a very long wait, which the engine caps.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = Duration::from_secs(u64::try_from(http_date(text, now.as_secs())?).unwrap_or(0));
    Some(date.saturating_sub(now))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or
/// `Sun Nov  6 08:49:37 1994`. The name of the day is not checked.
fn http_date(text: &str, now: u64) -> Option<i64> {
    let (first, rest) = text.split_once(' ')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (day, month, year, time) = match (first.ends_with(','), words.as_slice()) {
        (true, [day, month, year, time, "GMT"]) => (*day, *month, year_of(year, 4)?, *time),
        (true, [date, time, "GMT"]) => {
            let mut parts = date.split('-');
            let (day, month) = (parts.next()?, parts.next()?);
            let year = full_year(year_of(parts.next()?, 2)?, now)?;
            if parts.next().is_some() {
                return None;
            }
            (day, month, year, *time)
        }
        (false, [month, day, time, year]) => (*day, *month, year_of(year, 4)?, *time),
        _ => return None,
    };
    let mut clock = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if clock.next().is_some() {
        return None;
    }
    // A leap second is the last second of its minute.
    let second = second.min(59);
    let date = DateTime::new(year, month_of(month)?, number(day, 2)?, hour, minute, second, 0).ok()?;
    // The last days of the year 9999 fit in no timestamp; they are a very long wait too.
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).map_or(i64::MAX, |date| date.timestamp().as_second()))
}

fn number(text: &str, digits: usize) -> Option<i8> {
    let plain = !text.is_empty() && text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn year_of(text: &str, digits: usize) -> Option<i16> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// A two-digit year that seems more than 50 years ahead is of the century before (RFC 9110 5.6.7).
fn full_year(two_digits: i16, now: u64) -> Option<i16> {
    let this_year = jiff::Timestamp::from_second(i64::try_from(now).ok()?).ok()?;
    let this_year = this_year.to_zoned(jiff::tz::TimeZone::UTC).year();
    let year = this_year - this_year % 100 + two_digits;
    Some(if year > this_year + 50 { year - 100 } else { year })
}

fn month_of(name: &str) -> Option<i8> {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let index = months.iter().position(|month| *month == name)?;
    i8::try_from(index + 1).ok()
}
