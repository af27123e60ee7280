//! `{port}`, `{dir}`, `{arm}`, `{repeat}` and `{seed}` in commands, arguments and settings.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use crate::LabError;

/// Ports are taken from here: below the ports of outgoing connections (`ip_local_port_range` begins at 32768), so that
/// none takes a port between its choice and its use.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

const NAMES: [&str; 5] = ["{port}", "{dir}", "{arm}", "{repeat}", "{seed}"];

/// What stands for the placeholders of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholders {
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    pub(crate) arm: String,
    pub(crate) repeat: u32,
    /// The same for all arms of a repeat.
    pub(crate) seed: u64,
}

impl Placeholders {
    /// The text with what the placeholders stand for. `${port}` is the shell's own and stays; so do all other braces.
    pub(crate) fn fill(&self, text: &str) -> String {
        let values = [
            self.port.to_string(),
            self.dir.display().to_string(),
            self.arm.clone(),
            self.repeat.to_string(),
            self.seed.to_string(),
        ];
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let known = NAMES.iter().zip(&values).find(|(name, _)| rest.starts_with(**name));
            match known.filter(|_| !filled.ends_with('$')) {
                Some((name, value)) => {
                    filled.push_str(value);
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        filled
    }
}

/// Whether a text has any placeholder.
pub(crate) fn has_any(text: &str) -> bool {
    NAMES.iter().any(|name| text.contains(name))
}

/// How many ports were tried for services of this run.
#[derive(Debug, Default)]
pub(crate) struct Ports(usize);

impl Ports {
    /// A port on which nothing listens, and that this run did not give before.
    pub(crate) fn give(&mut self) -> Result<u16, LabError> {
        // Other runs on this machine begin far away.
        let begin = std::process::id() as usize * 97;
        let mut last = std::io::ErrorKind::AddrInUse.into();
        while self.0 < PORTS.len() {
            let port = PORTS.start + ((begin + self.0) % PORTS.len()) as u16;
            self.0 += 1;
            // On all addresses, so that a service on any of them collides.
            match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
                Ok(_) => return Ok(port),
                Err(error) => last = error,
            }
        }
        Err(LabError::file(Path::new("a free port for {port}"))(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders() -> Placeholders {
        Placeholders {
            port: 20_001,
            dir: "/tmp/x".into(),
            arm: "jemalloc@5.3.0".to_owned(),
            repeat: 2,
            seed: 77,
        }
    }

    #[test]
    fn what_is_known_is_filled_in_and_the_rest_stays() {
        let filled = |text: &str| placeholders().fill(text);
        assert_eq!(filled("-p {port} -d {dir}/a{repeat}"), "-p 20001 -d /tmp/x/a2");
        assert_eq!(filled("{arm}{arm}"), "jemalloc@5.3.0jemalloc@5.3.0");
        assert_eq!(filled("--seed={seed}"), "--seed=77");
        assert_eq!(filled("awk '{print $1}' ${port} {ports} {"), "awk '{print $1}' ${port} {ports} {");
        assert!(has_any("a{dir}") && !has_any("a{dirs}"));
    }

    #[test]
    fn ports_are_free_and_given_once() {
        let mut ports = Ports::default();
        let given: Vec<u16> = (0..20).map(|_| ports.give().unwrap()).collect();
        assert_eq!(given.iter().collect::<std::collections::BTreeSet<_>>().len(), given.len());
        TcpListener::bind((Ipv4Addr::LOCALHOST, given[0])).unwrap();
    }
}
