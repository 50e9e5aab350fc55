//! How single texts are built.

use super::At;
use crate::{Rule, mistake::Collector, words::shortened};

/// Lower-case letters, digits and `-`, as Kubernetes takes for labels.
pub(super) fn kubernetes_name(at: &At<'_>, most: usize, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !text.is_empty()
        && text.len() <= most
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if !good {
        let remedy =
            format!("use at most {most} lower-case letters, digits and `-`, with no `-` at either end");
        out.add(Rule::KubernetesName, &at.path, found(text), remedy);
    }
}

/// The name of a Secret: as above with dots.
pub(super) fn secret_ref(at: &At<'_>, out: &mut Collector) {
    if let Some(text) = at.get("name").text() {
        let part = |part: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
        };
        if text.len() > 253 || !text.split('.').all(part) {
            let remedy = "give a Secret's name: at most 253 lower-case letters, digits, `-` and `.`";
            out.add(Rule::KubernetesName, &at.get("name").path, found(text), remedy);
        }
    }
    if let Some(text) = at.get("key").text() {
        let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty()
            || text.len() > 253
            || text.starts_with("..")
            || text == "."
            || !text.chars().all(inner)
        {
            let remedy = "give a Secret's key: at most 253 letters, digits, `-`, `_` and `.`";
            out.add(Rule::KubernetesName, &at.get("key").path, found(text), remedy);
        }
    }
}

/// `host:port`; an IPv6 address stands in brackets.
pub(super) fn address(path: &str, text: &str, out: &mut Collector) {
    let good = text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port));
    if !good {
        let remedy = "write `host:port`, for example `rocketmq-namesrv.mq:9876`, an IPv6 address in brackets";
        out.add(Rule::Address, path, found(text), remedy);
    }
}

/// A URL of one of `schemes`: a host, a port if wanted, and nothing behind but `/`. Tells the scheme.
pub(super) fn url<'a>(at: &At<'a>, schemes: &[&str], example: &str, out: &mut Collector) -> Option<&'a str> {
    let text = at.text()?;
    if let Some((_, rest)) = text.split_once("://")
        && rest.contains('@')
    {
        let remedy = "put user and password into a Secret and name it in `source.credentialsSecretRef`";
        out.add(Rule::UrlCredentials, &at.path, "holds a user or a password", remedy);
        return None;
    }
    let split = text.split_once("://").filter(|(scheme, rest)| {
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let with_port =
            || authority.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port));
        schemes.contains(scheme) && (is_host(authority) || with_port())
    });
    if split.is_none() {
        out.add(Rule::Url, &at.path, found(text), format!("write it like `{example}`"));
    }
    split.map(|(scheme, _)| scheme)
}

/// A host name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Begins with `/`, holds only visible characters, and no query or fragment.
pub(super) fn path(at: &At<'_>, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    let good = text.starts_with('/')
        && text.len() <= 1024
        && text.chars().all(|c| c.is_ascii_graphic() && !"\"#<>\\^`{|}".contains(c));
    if !good {
        let remedy =
            "begin it with `/` and percent-encode what may not stand in a URL, for example `/messages`";
        out.add(Rule::Path, &at.path, found(text), remedy);
    }
}

/// The problem of a text that is not what it should be.
pub(super) fn found(text: &str) -> String {
    if text.is_empty() { "is empty".to_owned() } else { format!("is \"{}\"", shortened(text)) }
}
