//! Rules of everything but the source.

use super::{At, texts};
use crate::{Rule, defaults, mistake::Collector, words::shown};

pub(super) fn check(spec: &At<'_>, out: &mut Collector) {
    let delivery = spec.get("delivery");
    key(&spec.get("ordering").get("key"), out);
    texts::kubernetes_name(&delivery.get("containerName"), 63, out);
    host(&delivery.get("host"), out);
    port(&delivery.get("port"), &spec.get("sidecar").get("adminPort"), out);
    texts::path(&delivery.get("path"), out);
    texts::path(&delivery.get("healthCheck").get("path"), out);
    content_type(&delivery.get("contentType"), out);
    texts::secret_ref(&delivery.get("headersSecretRef"), out);
    for key in delivery.get("signing").get("secretRefs").items() {
        texts::secret_ref(&key, out);
    }
    status_codes(&delivery.get("statusCodes"), out);
    backoff(&spec.get("retry").get("backoff"), out);
    drain(&delivery.get("timeoutSeconds"), &spec.get("drain").get("timeoutSeconds"), out);
}

fn key(key: &At<'_>, out: &mut Collector) {
    let (from, header) = (key.get("from").text().unwrap_or("Native"), key.get("header"));
    match (from, header.is_given()) {
        ("Header", false) => {
            let remedy = "give the name of the message property that holds the key";
            out.add(Rule::KeyHeader, &header.path, "is missing for `from: Header`", remedy);
        }
        ("Native", true) => {
            let remedy = "remove it, or write `from: Header`";
            out.add(Rule::KeyHeader, &header.path, "is given for `from: Native`", remedy);
        }
        _ => {}
    }
}

fn host(at: &At<'_>, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    // A bare IPv6 address is taken too: the port stands in a field of its own.
    if !texts::is_host(text) && text.parse::<std::net::Ipv6Addr>().is_err() {
        let remedy = "give a host's name or address alone, for example `localhost`; port and path have their own fields";
        out.add(Rule::Host, &at.path, texts::found(text), remedy);
    }
}

fn port(at: &At<'_>, admin: &At<'_>, out: &mut Collector) {
    if let Some(value) = at.value {
        // The IANA service name that Kubernetes takes for a port's name.
        let name = |text: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let letter = text.contains(|c: char| c.is_ascii_lowercase());
            let ends = text.starts_with('-') || text.ends_with('-') || text.contains("--");
            letter && text.len() <= 15 && text.chars().all(inner) && !ends
        };
        let number = value.as_u64().is_some_and(|port| (1..=65_535).contains(&port));
        if !number && !value.as_str().is_some_and(name) {
            let quoted = value.as_str().is_some_and(|text| text.parse::<u16>().is_ok());
            let remedy = if quoted {
                "write the number without quotes"
            } else {
                "give a number from 1 to 65535, or the name of a container port (at most 15 lower-case letters, digits and `-`)"
            };
            out.add(Rule::Port, &at.path, format!("is {}", shown(value)), remedy);
        }
    }
    let port = if at.is_given() { at.number() } else { Some(defaults::PORT.into()) };
    let admin_port = if admin.is_given() { admin.number() } else { Some(defaults::ADMIN_PORT.into()) };
    if port.is_some() && port == admin_port {
        let problem = format!("is {}, the application's port", port.unwrap_or_default());
        out.add(Rule::PortClash, &admin.path, problem, "give the sidecar a port of its own");
    }
}

fn content_type(at: &At<'_>, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    let token = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
    };
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    let good = media.trim_end().split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
    let printable = parameters.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if !good || !printable || text.len() > 255 {
        out.add(Rule::ContentType, &at.path, texts::found(text), "write it like `application/json`");
    }
}

fn status_codes(codes: &At<'_>, out: &mut Collector) {
    let mut seen: Vec<(u64, &str)> = Vec::new();
    for list in ["done", "again", "never", "misconfigured"] {
        for at in codes.get(list).items() {
            let Some(status) = at.number() else { continue };
            if let Some((_, other)) = seen.iter().find(|(other, _)| *other == status) {
                let problem = format!("is {status}, which stands in `{other}` already");
                out.add(Rule::StatusOnce, &at.path, problem, "keep it in one list");
            }
            if (200..300).contains(&status) && list != "done" {
                let problem = format!("is {status}, which always means that the message is done");
                let remedy = "remove it, and let the application answer otherwise when a message is not done";
                out.add(Rule::StatusSuccess, &at.path, problem, remedy);
            }
            seen.push((status, list));
        }
    }
}

fn backoff(backoff: &At<'_>, out: &mut Collector) {
    let default = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (initial, max) = (backoff.get("initialMilliseconds"), backoff.get("maxSeconds"));
    // A value of a wrong type is a mistake already, and is not taken for the default.
    let initial_ms =
        if initial.is_given() { initial.number() } else { Some(default(defaults::BACKOFF_INITIAL)) };
    let max_ms = if max.is_given() {
        max.number().map(|seconds| seconds.saturating_mul(1000))
    } else {
        Some(default(defaults::BACKOFF_MAX))
    };
    if let (Some(initial_ms), Some(max_ms)) = (initial_ms, max_ms)
        && initial_ms > max_ms
    {
        let problem = format!("is {initial_ms}, longer than the longest wait of {max_ms} ms");
        out.add(Rule::BackoffOrder, &initial.path, problem, "lower it, or raise `maxSeconds`");
    }
}

fn drain(timeout: &At<'_>, drain: &At<'_>, out: &mut Collector) {
    let timeout = if timeout.is_given() { timeout.number() } else { Some(defaults::TIMEOUT.as_secs()) };
    if let (Some(timeout), Some(seconds)) = (timeout, drain.number())
        && seconds < timeout
    {
        let problem =
            format!("is {seconds}, shorter than one attempt (`delivery.timeoutSeconds`: {timeout})");
        out.add(
            Rule::DrainTimeout,
            &drain.path,
            problem,
            format!("give at least {timeout}, or leave it out"),
        );
    }
}
