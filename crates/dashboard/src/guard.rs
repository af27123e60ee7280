//! What holds for every request: who may ask, how, and what browsers may do with an answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, TRANSFER_ENCODING,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::{Config, Listen};

/// Nothing but the dashboard's own style sheet, script and pictures.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                                 connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The names by which the dashboard may be asked for. A page from elsewhere whose name is made to resolve to this
/// machine (DNS rebinding) asks by its own name.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    names: Vec<String>,
    address: Option<IpAddr>,
}

impl Hosts {
    pub(crate) fn of(config: &Config) -> Self {
        let mut names = vec!["localhost".to_owned()];
        names.extend(config.hosts.iter().map(|name| name.to_ascii_lowercase()));
        let address = match &config.listen {
            Listen::Tcp(address) => Some(address.ip()),
            Listen::Unix(_) => None,
        };
        Self { names, address }
    }

    /// Whether `host`, as in the header of that name, is one of them; with any port, because ports are forwarded.
    fn allow(&self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, rest)) if address.contains(':') => {
                (address, rest.strip_prefix(':').or(Some(rest)))
            }
            Some(_) => return false,
            None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
        };
        if port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return false;
        }
        match name.parse::<IpAddr>() {
            Ok(address) => self.allows_address(address),
            Err(_) => self.names.contains(&name.to_ascii_lowercase()),
        }
    }

    fn allows_address(&self, address: IpAddr) -> bool {
        let loopback = address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
        // An address cannot be rebound; where every address is listened on, each is one of the machine's own.
        loopback || self.address.is_some_and(|own| own == address || own.is_unspecified())
    }
}

/// Refuses what the dashboard does not answer, and adds the headers that all answers have.
pub(crate) async fn guard(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&hosts, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    let mut unless_set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    unless_set(CONTENT_SECURITY_POLICY, POLICY);
    unless_set(CACHE_CONTROL, "no-store");
    unless_set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    unless_set(X_FRAME_OPTIONS, "DENY");
    unless_set(REFERRER_POLICY, "no-referrer");
    unless_set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    unless_set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    response
}

fn refusal(hosts: &Hosts, request: &Request) -> Option<Response> {
    if !hosts_match(hosts, request) {
        let text = "This name is not one of the dashboard's. Ask for it as localhost or 127.0.0.1, or start \
                    `heaptrial serve` with --host NAME.\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let text = "The dashboard only shows: GET and HEAD.\n";
        return Some((StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")], text).into_response());
    }
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH);
    if headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != "0") {
        return Some((StatusCode::PAYLOAD_TOO_LARGE, "A request here has no body.\n").into_response());
    }
    None
}

/// Every name that the request gives is allowed, and it gives one.
fn hosts_match(hosts: &Hosts, request: &Request) -> bool {
    let mut named = request.headers().get_all(HOST).iter();
    let header = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().is_ok_and(|host| hosts.allow(host)),
        (None, None) => request.version() == Version::HTTP_10,
        _ => false,
    };
    header && request.uri().authority().is_none_or(|authority| hosts.allow(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, names: &[&str]) -> Hosts {
        let config = Config {
            listen: listen.parse().unwrap(),
            hosts: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Config::of("x".into())
        };
        Hosts::of(&config)
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let local = hosts("127.0.0.1:8647", &[]);
        for good in [
            "localhost",
            "localhost:8647",
            "LOCALHOST:1",
            "127.0.0.1:8647",
            "127.0.0.1",
            "[::1]:8647",
            "[::1]",
        ] {
            assert!(local.allow(good), "{good}");
        }
        let bad = [
            "",
            "evil.example",
            "evil.example:8647",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.2",
            "192.0.2.1",
            "user@localhost",
            "localhost:80@evil",
            "[::1",
            "[localhost]",
            "[::1]x",
            "::1",
            "0x7f000001",
            "127.1",
            "localhost.",
            "[::ffff:127.0.0.1]",
        ];
        for bad in bad {
            assert!(!local.allow(bad), "{bad}");
        }
    }

    #[test]
    fn further_names_and_the_address_itself_are_answered() {
        let named = hosts("192.0.2.1:80", &["Dash.example"]);
        assert!(named.allow("dash.example") && named.allow("192.0.2.1:80") && !named.allow("192.0.2.2"));
        let every = hosts("[::]:80", &[]);
        assert!(
            every.allow("192.0.2.7:80") && every.allow("[2001:db8::1]:80") && !every.allow("evil.example")
        );
        assert!(hosts("unix:/x", &[]).allow("localhost") && !hosts("unix:/x", &[]).allow("192.0.2.1"));
    }
}
