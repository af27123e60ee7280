//! Who may ask, and how.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::http::{Method, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Listen;

/// The names by which it may be asked for. A page from elsewhere whose name is made to resolve to this machine (DNS
/// rebinding) asks by its own name.
#[derive(Debug, Clone)]
pub struct Names {
    names: Vec<String>,
    address: Option<IpAddr>,
    any: bool,
    help: &'static str,
}

impl Names {
    /// `localhost`, loopback addresses, the address that is listened on, and some more names. `help` answers a request by
    /// another name.
    pub fn of(listen: &Listen, more: &[String], help: &'static str) -> Self {
        let mut names = vec!["localhost".to_owned()];
        names.extend(more.iter().map(|name| name.to_ascii_lowercase()));
        let address = match listen {
            Listen::Tcp(address) => Some(address.ip()),
            Listen::Unix(_) => None,
        };
        Self { names, address, any: false, help }
    }

    /// Any name, or none: of a socket that no browser can be made to ask.
    pub fn any() -> Self {
        Self { names: Vec::new(), address: None, any: true, help: "" }
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

/// Refuses requests by other names, with other methods than GET and HEAD, or with a body.
pub async fn refuse_others(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    match refusal(&names, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

fn refusal(names: &Names, request: &Request) -> Option<Response> {
    if !names.any && !is_named(names, request) {
        return Some((StatusCode::FORBIDDEN, names.help).into_response());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let text = "Nothing is changed here: GET and HEAD.\n";
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
fn is_named(names: &Names, request: &Request) -> bool {
    let mut named = request.headers().get_all(HOST).iter();
    let header = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().is_ok_and(|host| names.allow(host)),
        (None, None) => request.version() == Version::HTTP_10,
        _ => false,
    };
    header && request.uri().authority().is_none_or(|authority| names.allow(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, names: &[&str]) -> Names {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Names::of(&listen.parse().unwrap(), &names, "")
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let local = hosts("127.0.0.1:8647", &[]);
        for good in ["localhost", "LOCALHOST:1", "127.0.0.1:8647", "127.0.0.1", "[::1]:8647", "[::1]"] {
            assert!(local.allow(good), "{good}");
        }
        let bad = "evil.example:8647 localhost.evil.example 127.0.0.1.evil.example 127.0.0.2 192.0.2.1 user@localhost \
            localhost:80@evil [::1 [localhost] [::1]x ::1 0x7f000001 127.1 localhost. [::ffff:127.0.0.1]";
        for bad in bad.split(' ').chain([""]) {
            assert!(!local.allow(bad), "{bad}");
        }
        let named = hosts("192.0.2.1:80", &["Dash.example"]);
        assert!(named.allow("dash.example") && named.allow("192.0.2.1:80") && !named.allow("192.0.2.2"));
        let every = hosts("[::]:80", &[]);
        assert!(every.allow("192.0.2.7:80") && !every.allow("evil.example"));
        assert!(hosts("unix:/x", &[]).allow("localhost") && !hosts("unix:/x", &[]).allow("192.0.2.1"));
    }
}
