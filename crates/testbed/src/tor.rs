//! Real relays as Debian runs them: instances of `tor@.service`.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::cgroup::wait_for;
use crate::{Container, TestbedError};

/// How long a relay may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first instance's ORPort; the following ones count up.
const FIRST_OR_PORT: usize = 20_001;
/// The first instance's MetricsPort; the following ones count up.
const FIRST_METRICS_PORT: usize = 30_001;

/// Where the private directory writes the torrc lines of its relays.
const DIRECTORY_TORRC: &str = "/run/private-directory/torrc";
const DIRECTORY_UNIT: &str = "private-directory.service";

/// A trial of five arms on all relays, with looks after minutes.
pub const FIVE_WAY: &str = r#"name = "five-way"
services = "tor@*"
duration = "10m"
looks = ["5m", "10m"]
metric = "anon"

[pace]
at_once = 2
pause = "1s"
settle = "1s"

[[arm]]
name = "glibc"
control = true
allocator = "glibc"

[[arm]]
name = "jemalloc-5.3.0"
allocator = "jemalloc@5.3.0"

[[arm]]
name = "mimalloc-2.0.9"
allocator = "mimalloc@2.0.9"

[[arm]]
name = "dircache-0"
allocator = "glibc"
torrc = { DirCache = "0" }

[[arm]]
name = "restart-2m"
allocator = "glibc"
restart_every = "2m"
"#;

/// The example program `private_directory` as a service: 200 entries, and a consensus each 10 seconds.
#[derive(Debug, Clone)]
pub struct PrivateDirectory {
    /// The program on this host; it is copied into the container.
    pub program: PathBuf,
    /// How many instances of [`TorInstances`] get clients, two each second: the first ones.
    pub loaded: usize,
}

/// Instances of `tor@.service`, at least four of them: Tor counts as bootstrapped when it has built a circuit
/// through three others.
#[derive(Debug, Clone)]
pub struct TorInstances {
    /// Their names: letters and digits.
    pub names: Vec<String>,
    /// torrc lines that all have: those of the private directory, and further ones.
    pub torrc: String,
}

impl PrivateDirectory {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), loaded: 0 }
    }

    fn unit(&self, program: &str) -> String {
        let relays: Vec<String> =
            (0..self.loaded).map(|index| format!("127.0.0.1:{}", FIRST_OR_PORT + index)).collect();
        let load = match relays.is_empty() {
            true => String::new(),
            false => format!(" --load {} --load-rate 2", relays.join(",")),
        };
        format!(
            "[Unit]\nDescription=Private Tor directory\n\n[Service]\nType=notify\nRuntimeDirectory=private-directory\n\
             StateDirectory=private-directory\nExecStart={program} --entries 200 --interval 10 \
             --folder /var/lib/private-directory --torrc {DIRECTORY_TORRC}{load}\nTimeoutStartSec=300\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        )
    }
}

impl TorInstances {
    /// `count` instances `relay01` and so on, with these lines of the private directory.
    pub fn new(count: usize, torrc: impl Into<String>) -> Self {
        let width = count.to_string().len().max(2);
        let names = (1..=count).map(|number| format!("relay{number:0width$}")).collect();
        Self { names, torrc: torrc.into() }
    }

    /// The torrc of one instance.
    fn torrc(&self, index: usize, name: &str) -> String {
        format!(
            "# Relay {name} of a private network.\nNickname {name}\nORPort 127.0.0.1:{}\nAddress 127.0.0.1\n\
             SocksPort 0\nExitRelay 0\nContactInfo tests@example.invalid\n\n\
             MetricsPort 127.0.0.1:{}\nMetricsPortPolicy accept 127.0.0.1\n\n\
             # As on a server with many relays\nNumCPUs 2\nMaxMemInQueues 256 MB\n\n\
             # What the private network needs\n{}\n",
            FIRST_OR_PORT + index,
            FIRST_METRICS_PORT + index,
            self.torrc.trim_end(),
        )
    }
}

impl Container {
    /// Installs, enables and starts the directory, and gives the torrc lines that its relays need.
    pub fn install_private_directory(&self, directory: &PrivateDirectory) -> Result<String, TestbedError> {
        let program = self.install_program(&directory.program)?;
        self.write(format!("/etc/systemd/system/{DIRECTORY_UNIT}"), directory.unit(&program), 0o644)?;
        self.try_ok(&["systemctl", "daemon-reload"])?;
        self.try_ok(&["systemctl", "enable", "--now", DIRECTORY_UNIT])?;
        self.read_text(DIRECTORY_TORRC)
    }

    /// Creates and enables instances, and gives the names of their units. They are not started.
    ///
    /// They are what Debian's `tor-instance-create` makes, at once instead of one by one.
    pub fn install_tor_instances(&self, instances: &TorInstances) -> Result<Vec<String>, TestbedError> {
        let mut users = String::new();
        for (index, name) in instances.names.iter().enumerate() {
            if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric()) {
                return Err(TestbedError::Refused(format!("`{name}` cannot be a Tor instance's name")));
            }
            users.push_str(&format!("u _tor-{name} - - /var/lib/tor-instances/{name} /bin/false\n"));
            let torrc = instances.torrc(index, name);
            self.write(format!("/etc/tor/instances/{name}/torrc"), torrc, 0o644)?;
        }
        self.write("/etc/sysusers.d/tor-instances.conf", users, 0o644)?;
        self.try_ok(&["systemd-sysusers", "tor-instances.conf"])?;
        for name in &instances.names {
            let user = format!("_tor-{name}");
            let folder = format!("/var/lib/tor-instances/{name}");
            self.try_ok(&["install", "-d", "-m", "02700", "-o", &user, "-g", &user, &folder])?;
        }
        let units: Vec<String> = instances.names.iter().map(|name| format!("tor@{name}.service")).collect();
        let words = ["systemctl", "enable"].into_iter().map(str::to_owned).chain(units.iter().cloned());
        self.try_ok(&words.collect::<Vec<_>>())?;
        Ok(units)
    }

    /// Starts units, all at once, and waits until they are active.
    pub fn start(&self, units: &[String]) -> Result<(), TestbedError> {
        let words = ["systemctl", "start"].into_iter().map(str::to_owned).chain(units.iter().cloned());
        self.try_ok(&words.collect::<Vec<_>>()).map(drop)
    }

    /// How far a Tor instance has bootstrapped, in percent, by its control socket.
    pub fn bootstrap_percent(&self, name: &str) -> Result<u8, TestbedError> {
        let path = PathBuf::from(format!("/run/tor-instances/{name}/control"));
        let asked = || -> std::io::Result<String> {
            // A path in a socket's address is short, and the link is not one to follow by name alone.
            let socket = self.open(&path, OFlags::PATH | OFlags::CLOEXEC)?;
            let mut stream = UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let cookie = self
                .read(format!("/run/tor-instances/{name}/control.authcookie"))
                .map_err(std::io::Error::other)?;
            let request =
                format!("AUTHENTICATE {}\r\nGETINFO status/bootstrap-phase\r\nQUIT\r\n", hex::encode(cookie));
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = asked().map_err(self.failed("cannot ask", &path))?;
        let percent =
            answer.split_ascii_whitespace().find_map(|word| word.strip_prefix("PROGRESS=")?.parse().ok());
        percent.ok_or_else(|| self.failed("cannot ask", &path)(std::io::Error::other(answer)))
    }

    /// Waits until these Tor instances have bootstrapped to 100%.
    pub fn wait_for_bootstrap(&self, names: &[String], limit: Duration) -> Result<(), TestbedError> {
        let mut waiting: Vec<&String> = names.iter().collect();
        wait_for("bootstrapping to 100%", limit, || {
            let mut states = Vec::new();
            waiting.retain(|name| match self.bootstrap_percent(name) {
                Ok(100) => false,
                Ok(percent) => {
                    states.push(format!("{name}: {percent}%"));
                    true
                }
                Err(error) => {
                    states.push(error.to_string());
                    true
                }
            });
            if waiting.is_empty() { Ok(()) } else { Err(states.join("\n")) }
        })
    }
}
