//! Where a relay listens for us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use heaptrial_host::HostRoot;

use super::settings::{Settings, path, read_small};
use super::torrc::unquote;

/// What a port option names.
enum Port {
    Unix(PathBuf),
    Tcp(SocketAddr),
    Auto,
}

#[derive(Default)]
pub(super) struct ControlPlaces {
    pub(super) socket: Option<PathBuf>,
    pub(super) port: Option<SocketAddr>,
}

/// ControlSocket and ControlPort; a port that tor chose itself is known where ControlPortWriteToFile names it.
pub(super) fn control(root: &HostRoot, settings: &Settings) -> ControlPlaces {
    let mut places = ControlPlaces::default();
    let sockets = settings.all("ControlSocket").filter_map(socket);
    let mut chosen = false;
    for port in sockets.map(Port::Unix).chain(settings.all("ControlPort").filter_map(port)) {
        match port {
            Port::Unix(path) => places.socket = places.socket.or(Some(path)),
            Port::Tcp(address) => places.port = places.port.or(Some(address)),
            Port::Auto => chosen = true,
        }
    }
    if let (true, None, Some(file)) = (chosen, places.port, settings.path("ControlPortWriteToFile")) {
        let bytes = read_small(&root.path(file), 4096).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        places.port = text.lines().find_map(|line| line.strip_prefix("PORT=")?.trim().parse().ok());
    }
    places
}

/// The first MetricsPort that is a TCP port of a known number.
pub(super) fn metrics(settings: &Settings) -> Option<String> {
    settings.all("MetricsPort").find_map(|value| match port(value)? {
        Port::Tcp(address) => Some(address.to_string()),
        Port::Unix(_) | Port::Auto => None,
    })
}

/// The first word of a value.
pub(super) fn first_word(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value).into_owned();
    text.split_whitespace().next().unwrap_or("").to_owned()
}

/// `PATH [flags]`, with or without `unix:`; `0` is none.
fn socket(value: &[u8]) -> Option<PathBuf> {
    let place = value.strip_prefix(b"unix:").unwrap_or(value);
    let place = match unquote(place) {
        Some((path, _)) => path,
        None => place.split(u8::is_ascii_whitespace).next().unwrap_or(place).to_vec(),
    };
    (place.starts_with(b"/")).then(|| path(&place))
}

/// `PORT`, `ADDRESS:PORT`, `auto` or `unix:PATH`, and flags behind it; `0` is none.
fn port(value: &[u8]) -> Option<Port> {
    if value.starts_with(b"unix:") {
        return socket(value).map(Port::Unix);
    }
    let word = first_word(value);
    if word.eq_ignore_ascii_case("auto") || word.to_ascii_lowercase().ends_with(":auto") {
        return Some(Port::Auto);
    }
    let address = match word.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => word.strip_prefix("localhost:").map_or_else(
            || word.parse().ok(),
            |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        )?,
    };
    (address.port() != 0).then(|| Port::Tcp(SocketAddr::new(reachable(address.ip()), address.port())))
}

/// Where a listener on all addresses is reached from this host.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}
