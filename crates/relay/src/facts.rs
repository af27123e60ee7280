use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;
use serde::{Deserialize, Serialize};

use super::invocation::Invocation;
use super::ports;
use super::settings::{self, Settings};
use crate::TorError;

/// Options that bear on memory, work or role, in tor's own spelling.
const REPORTED_OPTIONS: &str = "AccountingMax AvoidDiskWrites BandwidthBurst BandwidthRate BridgeRelay ConnLimit ConstrainedSockets DirCache \
    DirPort DisableAllSwap DisableDebuggerAttachment DisableNetwork DisableOOSCheck ExitRelay HardwareAccel \
    IPv6Exit MaxAdvertisedBandwidth MaxConsensusAgeForDiffs MaxHSDirCacheBytes MaxMemInQueues MaxOnionQueueDelay \
    NoExec NumCPUs ORPort PublishServerDescriptor ReducedExitPolicy RelayBandwidthBurst RelayBandwidthRate Sandbox \
    ShutdownWaitLength";
const MAX_FINGERPRINT_BYTES: u64 = 4096;

/// A Tor instance by its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Its torrc (`-f`, or the default instance's).
    pub torrc: PathBuf,
    pub defaults_torrc: Option<PathBuf>,
    /// The program and the arguments that name files, so that `--verify-config` reads what the service reads.
    pub program: PathBuf,
    /// All arguments of the program but those that name files, such as `--RunAsDaemon 0`.
    pub arguments: Vec<String>,
    /// Options on the command line, by name in lower case: they rank above those of the torrc.
    pub command_line_options: Vec<String>,
    /// Its user (`User`, or the unit's).
    pub user: Option<String>,
    /// The user as which systemd starts it, where that is not root.
    pub unit_user: Option<String>,
    pub data_directory: Option<PathBuf>,
    pub nickname: Option<String>,
    /// RSA fingerprint, 40 hexadecimal digits in capitals (`DataDirectory/fingerprint`).
    pub fingerprint: Option<String>,
    /// Fingerprints of its declared family, sorted, its own left out (MyFamily).
    pub family: Vec<String>,
    /// Keys of its family (FamilyId): relays with the same one are a family.
    pub family_ids: Vec<String>,
    /// `exit`, `relay`, `bridge` or `client`, from ORPort, ExitRelay, ExitPolicy and BridgeRelay as far as they decide it.
    pub role: String,
    /// A unix socket of ControlSocket or `ControlPort unix:`.
    pub control_socket: Option<PathBuf>,
    pub control_port: Option<SocketAddr>,
    /// Cookie file (CookieAuthFile, or `control_auth_cookie` below the data directory) where it exists.
    pub cookie_file: Option<PathBuf>,
    pub metrics_port: Option<String>,
    /// Options that bear on memory or role, such as DirCache, NumCPUs, MaxMemInQueues: last value of each.
    pub options: BTreeMap<String, String>,
}

impl Relay {
    /// The instance that `command` (a unit's ExecStart, or a process' command line) starts, or why its files cannot be read;
    /// `None` where the command's program is not called `tor`. `unit_user` is the unit's `User=`; files are read below `root`.
    pub fn of_command(
        root: &HostRoot,
        command: &[String],
        unit_user: Option<&str>,
    ) -> Option<Result<Self, TorError>> {
        let invocation = Invocation::of(command)?;
        let program = PathBuf::from(command.first()?);
        Some(Self::read(root, program, invocation, unit_user.filter(|user| !user.is_empty())))
    }

    fn read(
        root: &HostRoot,
        program: PathBuf,
        invocation: Invocation,
        unit_user: Option<&str>,
    ) -> Result<Self, TorError> {
        let mut settings = Settings::default();
        // Tor takes missing defaults as empty.
        let has_defaults = root.path(&invocation.defaults_torrc).exists();
        if has_defaults {
            settings.add_layer(settings::read_lines(root, &invocation.defaults_torrc)?);
        }
        if root.path(&invocation.torrc).exists() || !invocation.may_miss_torrc {
            settings.add_layer(settings::read_lines(root, &invocation.torrc)?);
        }
        let command_line_options =
            invocation.lines.iter().map(|line| line.option.to_ascii_lowercase()).collect();
        settings.add_layer(invocation.lines);

        let data_directory = settings.path("DataDirectory");
        let fingerprint = data_directory.as_deref().and_then(|data| fingerprint(root, data));
        let cookie_file = settings
            .path("CookieAuthFile")
            .or_else(|| Some(data_directory.as_ref()?.join("control_auth_cookie")))
            .filter(|file| root.path(file).exists());
        let control = ports::control(root, &settings);
        Ok(Self {
            defaults_torrc: (invocation.names_defaults || has_defaults).then_some(invocation.defaults_torrc),
            torrc: invocation.torrc,
            program,
            arguments: invocation.other_arguments,
            command_line_options,
            user: settings.text("User").or_else(|| unit_user.map(str::to_owned)),
            unit_user: unit_user.filter(|user| *user != "root").map(str::to_owned),
            nickname: settings.text("Nickname"),
            family: family(&settings, fingerprint.as_deref()),
            family_ids: family_ids(&settings),
            role: role(&settings).to_owned(),
            control_socket: control.socket,
            control_port: control.port,
            cookie_file,
            metrics_port: ports::metrics(&settings),
            options: REPORTED_OPTIONS
                .split(' ')
                .filter_map(|option| Some((option.to_owned(), settings.text(option)?)))
                .collect(),
            data_directory,
            fingerprint,
        })
    }
}

/// The fingerprint in a line of `DataDirectory/fingerprint`: `NICKNAME FINGERPRINT`.
fn fingerprint(root: &HostRoot, data_directory: &Path) -> Option<String> {
    let file = root.path(data_directory.join("fingerprint"));
    let bytes = settings::read_small(&file, MAX_FINGERPRINT_BYTES).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    as_fingerprint(text.split_whitespace().nth(1)?)
}

fn as_fingerprint(text: &str) -> Option<String> {
    (text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_ascii_uppercase())
}

/// MyFamily has `$FINGERPRINT`, with `~NICKNAME` or `=NICKNAME` behind it or nothing; nicknames alone name nobody.
fn family(settings: &Settings, own: Option<&str>) -> Vec<String> {
    let mut family: Vec<String> = settings
        .all("MyFamily")
        .flat_map(|value| {
            String::from_utf8_lossy(value)
                .split([',', ' ', '\t'])
                .filter_map(|member| {
                    let member = member.strip_prefix('$').unwrap_or(member);
                    as_fingerprint(member.split(['~', '=']).next().unwrap_or(member))
                })
                .collect::<Vec<String>>()
        })
        .filter(|member| Some(member.as_str()) != own)
        .collect();
    family.sort();
    family.dedup();
    family
}

fn family_ids(settings: &Settings) -> Vec<String> {
    let mut ids: Vec<String> = settings
        .all("FamilyId")
        .map(|id| String::from_utf8_lossy(id).into_owned())
        .filter(|id| id != "*")
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn role(settings: &Settings) -> &'static str {
    let has_or_port = settings.all("ORPort").any(|value| !matches!(ports::first_word(value).as_str(), "0"));
    if !has_or_port {
        "client"
    } else if settings.is_one("BridgeRelay") {
        "bridge"
    } else if exits(settings) {
        "exit"
    } else {
        "relay"
    }
}

/// tor(1), ExitRelay: with `auto` a relay is an exit if an option of the exit policy is set.
fn exits(settings: &Settings) -> bool {
    let policy: Vec<String> = settings
        .all("ExitPolicy")
        .flat_map(|value| {
            let value = String::from_utf8_lossy(value).to_ascii_lowercase();
            value
                .split(',')
                .map(|entry| entry.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        })
        .collect();
    // What stands behind it is never reached; without it the default policy follows, which accepts.
    let rejects_all = policy.iter().position(|entry| matches!(entry.as_str(), "reject *:*" | "reject *"));
    let rejects_everything =
        rejects_all.is_some_and(|end| policy[..end].iter().all(|entry| entry.starts_with("reject")));
    let has_policy =
        !policy.is_empty() || settings.is_one("ReducedExitPolicy") || settings.is_one("IPv6Exit");
    match settings.last("ExitRelay") {
        Some(b"0") => false,
        Some(b"1") => !rejects_everything,
        _ => has_policy && !rejects_everything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "FC8C1FE1E04ECF9F066445E48ECD70D89F7988BB";

    fn host(files: &[(&str, &[u8])]) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let root = HostRoot::at(dir.path());
        (dir, root)
    }

    fn words(command: &str) -> Vec<String> {
        command.split_whitespace().map(str::to_owned).collect()
    }

    fn of_torrc(torrc: &[u8]) -> Relay {
        let (_dir, root) = host(&[("/torrc", torrc)]);
        Relay::of_command(&root, &words("/usr/bin/tor -f /torrc"), None).unwrap().unwrap()
    }

    #[test]
    fn an_instance_of_debian_is_read_from_its_defaults_and_its_torrc() {
        let defaults = b"DataDirectory /var/lib/tor-instances/r1\nUser _tor-r1\nControlSocket /run/tor-instances/r1/control \
            GroupWritable RelaxDirModeCheck\nCookieAuthentication 1\n\
            CookieAuthFile /run/tor-instances/r1/control.authcookie\nLog notice syslog\n";
        let torrc = format!(
            "Nickname relay1\nORPort 9001\nMetricsPort 127.0.0.1:9035 prometheus\nDirCache 0\nDIRCACHE 1\n\
             MyFamily ${FINGERPRINT}~relay1,$0000000000000000000000000000000000000002=b, nickname\n\
             myfamily 000000000000000000000000000000000000000a\n"
        );
        let line = format!("relay1 {FINGERPRINT}\n");
        let (_dir, root) = host(&[
            ("/run/tor-instances/r1.defaults", defaults),
            ("/etc/tor/instances/r1/torrc", torrc.as_bytes()),
            ("/var/lib/tor-instances/r1/fingerprint", line.as_bytes()),
            ("/run/tor-instances/r1/control.authcookie", &[7; 32]),
        ]);
        let command = words(
            "/usr/bin/tor --defaults-torrc /run/tor-instances/r1.defaults -f /etc/tor/instances/r1/torrc",
        );
        let relay = Relay::of_command(&root, &command, Some("")).unwrap().unwrap();
        assert_eq!(relay.nickname.as_deref(), Some("relay1"));
        assert_eq!(relay.fingerprint.as_deref(), Some(FINGERPRINT));
        assert_eq!(
            relay.family,
            ["0000000000000000000000000000000000000002", "000000000000000000000000000000000000000A"]
        );
        assert_eq!((relay.user.as_deref(), relay.unit_user), (Some("_tor-r1"), None));
        assert_eq!(relay.control_socket.unwrap(), Path::new("/run/tor-instances/r1/control"));
        assert_eq!(relay.cookie_file.unwrap(), Path::new("/run/tor-instances/r1/control.authcookie"));
        assert_eq!(relay.metrics_port.as_deref(), Some("127.0.0.1:9035"));
        assert_eq!(relay.options["DirCache"], "1");
        assert_eq!(relay.role, "relay");
    }

    #[test]
    fn the_default_instance_keeps_its_other_arguments() {
        let (_dir, root) = host(&[("/etc/tor/torrc", b"ORPort 9001\nNumCPUs 4\n")]);
        let command = words(
            "/usr/bin/tor --defaults-torrc /usr/share/tor/tor-service-defaults-torrc -f /etc/tor/torrc \
             --RunAsDaemon 0 --NumCPUs 2",
        );
        let relay = Relay::of_command(&root, &command, Some("debian-tor")).unwrap().unwrap();
        assert_eq!(relay.defaults_torrc.unwrap(), Path::new("/usr/share/tor/tor-service-defaults-torrc"));
        assert_eq!(relay.arguments, ["--RunAsDaemon", "0", "--NumCPUs", "2"]);
        assert_eq!(relay.command_line_options, ["runasdaemon", "numcpus"]);
        assert_eq!(relay.options["NumCPUs"], "2");
        assert_eq!(relay.unit_user.as_deref(), Some("debian-tor"));
    }

    #[test]
    fn another_program_is_no_relay_and_a_missing_torrc_is_named() {
        let (_dir, root) = host(&[]);
        for command in ["/usr/bin/torsocks -f /torrc", "/usr/bin/nginx", ""] {
            assert!(Relay::of_command(&root, &words(command), None).is_none(), "{command}");
        }
        let error = Relay::of_command(&root, &words("tor -f /torrc"), None).unwrap().unwrap_err();
        assert!(error.to_string().contains("/torrc"), "{error}");
        let command = words("tor -f /torrc --ignore-missing-torrc");
        assert_eq!(Relay::of_command(&root, &command, None).unwrap().unwrap().role, "client");
    }

    #[test]
    fn included_files_are_read_where_they_are_named() {
        let (_dir, root) = host(&[
            ("/torrc", b"NumCPUs 1\n%include /conf/*.inc\n%include \"/conf/folder\"\n"),
            ("/conf/b.inc", b"NumCPUs 3\n"),
            ("/conf/a.inc", b"NumCPUs 2\nDirCache 0"),
            ("/conf/.hidden.inc", b"NumCPUs 9\n"),
            ("/conf/folder/.hidden", b"NumCPUs 9\n"),
            ("/conf/folder/x", b"MaxMemInQueues 1 GB\n"),
            ("/conf/folder/deep/y", b"NumCPUs 9\n"),
        ]);
        let relay = Relay::of_command(&root, &words("tor -f /torrc"), None).unwrap().unwrap();
        let options: Vec<(&str, &str)> =
            relay.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("DirCache", "0"), ("MaxMemInQueues", "1 GB"), ("NumCPUs", "3")]);
    }

    #[test]
    fn ports_in_all_their_forms() {
        for (torrc, port) in [
            ("MetricsPort 9035", Some("127.0.0.1:9035")),
            ("MetricsPort 127.0.0.2:9035 prometheus\nMetricsPortPolicy accept *", Some("127.0.0.2:9035")),
            ("MetricsPort [::1]:9035", Some("[::1]:9035")),
            ("MetricsPort localhost:9035", Some("127.0.0.1:9035")),
            ("MetricsPort 0", None),
            ("MetricsPort auto", None),
            ("MetricsPort 127.0.0.1:auto", None),
            ("MetricsPort unix:/run/metrics", None),
            ("MetricsPort 99999", None),
            ("", None),
        ] {
            assert_eq!(of_torrc(torrc.as_bytes()).metrics_port.as_deref(), port, "{torrc}");
        }
        for (torrc, socket) in [
            ("ControlSocket /run/c GroupWritable", Some("/run/c")),
            ("ControlSocket \"/run/c d\"", Some("/run/c")),
            ("ControlSocket unix:\"/run/c d\" GroupWritable", Some("/run/c d")),
            ("ControlPort unix:/run/c", Some("/run/c")),
            ("ControlSocket 0", None),
        ] {
            assert_eq!(
                of_torrc(torrc.as_bytes()).control_socket.as_deref(),
                socket.map(Path::new),
                "{torrc}"
            );
        }
    }

    #[test]
    fn roles() {
        for (torrc, role) in [
            ("", "client"),
            ("ORPort 0", "client"),
            ("ORPort 9001", "relay"),
            ("ORPort 9001 NoAdvertise\nExitPolicy reject *:*", "relay"),
            ("ORPort 9001\nExitRelay 1", "exit"),
            ("ORPort 9001\nExitRelay 1\nExitPolicy Reject *:*", "relay"),
            ("ORPort 9001\nExitPolicy accept *:443,\\\n reject *:*", "exit"),
            ("ORPort 9001\nExitPolicy reject 10.0.0.0/8:*", "exit"),
            ("ORPort 9001\nExitPolicy accept *:443\nExitRelay 0", "relay"),
            ("ORPort 9001\nReducedExitPolicy 1", "exit"),
            ("ORPort 9001\nBridgeRelay 1\nExitRelay 0", "bridge"),
        ] {
            assert_eq!(of_torrc(torrc.as_bytes()).role, role, "{torrc}");
        }
    }
}
