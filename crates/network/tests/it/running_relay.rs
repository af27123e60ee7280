//! What the relay module says about a relay is what the real tor says.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heaptrial_host::HostRoot;
use heaptrial_model::TorFlag;
use heaptrial_network::{Authority, AuthorityKeys, DirectoryParameters, Stamps};
use heaptrial_relay::{Control, Relay, TorError, TorrcEdit, metrics};
use proptest::prelude::*;

const TOR: &str = "/usr/bin/tor";
const SECONDS: Duration = Duration::from_secs(5);

/// Ends the relay with the test, also when an assertion fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not happen within a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        assert!(Path::new(TOR).exists(), "this test needs the Debian package `tor`");
        let dir = tempfile::tempdir().unwrap();
        // Tor makes its control socket only where nobody else can go.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The relay of a torrc, with places of its own.
    fn relay(&self, torrc: impl AsRef<[u8]>) -> (Relay, Vec<String>) {
        self.write("torrc", torrc);
        let defaults = format!(
            "DataDirectory {}\nControlSocket {}\nCookieAuthentication 1\nCookieAuthFile {}\nSocksPort 0\n",
            self.path("data"),
            self.path("control"),
            self.path("cookie")
        );
        self.write("defaults", defaults);
        let (defaults, torrc) = (self.path("defaults"), self.path("torrc"));
        let command = [TOR, "--defaults-torrc", &defaults, "-f", &torrc, "--RunAsDaemon", "0"];
        let command: Vec<String> = command.map(str::to_owned).into();
        (self.discover(&command).unwrap(), command)
    }

    fn discover(&self, command: &[String]) -> Result<Relay, TorError> {
        Relay::of_command(&HostRoot::default(), command, None).unwrap()
    }
}

fn start(command: &[String]) -> Running {
    Running(Command::new(&command[0]).args(&command[1..]).stdout(Stdio::null()).spawn().unwrap())
}

fn edit(options: &[(&str, &str)]) -> TorrcEdit {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TorrcEdit::new("trial 1", &options).unwrap()
}

/// A port that nobody has, and that is given to nobody who asks for any.
fn free_port() -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..32_000).find(is_free).unwrap()
}

#[test]
#[ignore = "needs Tor"]
fn a_running_relay_gives_its_start_its_options_and_its_work() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _inside = runtime.enter();
    let folder = Folder::new();
    let keys = AuthorityKeys::generate(folder.0.path()).unwrap();
    let directory = DirectoryParameters {
        entries: 60,
        stamps: Stamps::Stretched { consensuses: 2, retained: 1 },
        seed: 5,
    };
    let authority = Authority::start(&directory, keys, 0).unwrap();
    let metrics_port = free_port();
    let torrc = format!(
        "TestingTorNetwork 1\nNickname relay0\nORPort 127.0.0.1:auto\nAddress 127.0.0.1\nAssumeReachable 1\n\
         ExitRelay 0\nContactInfo lab@example.invalid\nShutdownWaitLength 0\nFetchDirInfoEarly 1\n\
         ServerDNSResolvConfFile {}\nMetricsPort 127.0.0.1:{metrics_port} prometheus\n\
         MetricsPortPolicy accept 127.0.0.1\nDirCache 1\n{}",
        folder.write("resolv.conf", "nameserver 127.0.0.1\n").display(),
        authority.torrc_line()
    );
    let (relay, command) = folder.relay(&torrc);
    assert!(Control::of(&relay, SECONDS).is_err(), "nothing runs yet");

    // As a trial does: edit, verify, restart, prove.
    let edited = edit(&[("DirCache", "0"), ("MaxMemInQueues", "400 MB")]).apply(torrc.as_bytes()).unwrap();
    relay.verify_torrc(&edited).unwrap();
    folder.write("torrc", &edited);
    let _running = start(&command);
    let mut control =
        wait_for("a control socket", || Control::of(&folder.discover(&command).unwrap(), SECONDS).ok());
    let wanted = relay.effective_options(&relay.torrc).unwrap();
    for option in ["DirCache", "MaxMemInQueues", "Nickname"] {
        assert_eq!(control.conf(option).unwrap(), wanted[option], "{option}");
    }
    assert_eq!((wanted["DirCache"][0].as_str(), wanted["MaxMemInQueues"][0].as_str()), ("0", "419430400"));
    for (option, value, is_in_force) in [
        ("dircache", "0", true),
        ("MaxMemInQueues", "400 MB", true),
        ("NumCPUs", "0", true),
        ("NumCPUs", "3", false),
    ] {
        assert_eq!(control.is_in_force(option, value, &wanted).unwrap(), is_in_force, "{option} {value}");
    }
    let before = relay.effective_options(&folder.write("before", &torrc)).unwrap();
    assert!(!control.is_in_force("MaxMemInQueues", "1 GB", &before).unwrap());
    assert_eq!(control.conf("MyFamily").unwrap(), [""; 0]);
    assert!(control.conf("NoSuchOption").unwrap_err().to_string().contains("552"));
    assert!(control.conf("DirCache\r\nSIGNAL HALT").unwrap_err().to_string().contains("cannot be asked"));

    wait_for("a consensus", || control.consensus_valid_after().unwrap());
    let relay = folder.discover(&command).unwrap();
    assert_eq!(Some(control.info("fingerprint").unwrap()), relay.fingerprint);
    let mut traffic =
        || ["traffic/read", "traffic/written"].map(|key| control.info(key).unwrap().parse::<u64>().unwrap());
    let earlier = traffic();
    let read = relay.readings(SECONDS).unwrap();
    let later = traffic();
    println!("{read:?}");
    // Relays of this network open no connection themselves, with which tor would begin to count.
    assert_eq!((read.bootstrap_percent, control.bootstrap_percent().unwrap()), (Some(0), 0));
    for (index, bytes) in [read.read_bytes, read.written_bytes].into_iter().enumerate() {
        let bytes = bytes.unwrap();
        assert!(0 < earlier[index] && earlier[index] <= bytes && bytes <= later[index], "{read:?}");
    }
    assert_eq!(read.oom_bytes, Some(0));
    assert!(read.connections.is_some());
    // The synthetic directory does not list it, and it knows.
    assert_eq!(read.flags, Some(BTreeSet::new()));
    // One of those that it lists.
    let listed = control.info("ns/all").unwrap();
    let identity = listed.lines().next().unwrap().split(' ').nth(2).unwrap();
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD_NO_PAD, identity).unwrap();
    let fingerprint: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    let other = Relay { fingerprint: Some(fingerprint), metrics_port: None, ..relay.clone() };
    let flags = other.readings(SECONDS).unwrap().flags.unwrap();
    assert!(flags.contains(&TorFlag::Fast), "{flags:?}");

    // What control does not have, metrics have, and the other way round.
    let metrics = metrics::scrape(relay.metrics_port.as_deref().unwrap(), SECONDS).unwrap();
    assert!(metrics.connections.is_some() && metrics.read_bytes.is_some(), "{metrics:?}");
    let without_control = Relay { control_socket: None, ..relay.clone() };
    assert_eq!(without_control.readings(SECONDS).unwrap().bootstrap_percent, None);
    let neither = Relay { metrics_port: None, ..without_control };
    assert!(neither.readings(SECONDS).unwrap_err().to_string().contains("ControlSocket"));
    // A cookie that is not the relay's.
    let cookie = folder.write("other-cookie", [7; 32]);
    let other = Relay { cookie_file: Some(cookie), ..relay.clone() };
    let error = Control::of(&other, SECONDS).unwrap_err().to_string();
    assert!(error.contains("does not know the cookie"), "{error}");
}

#[test]
#[ignore = "needs Tor"]
fn an_option_that_tor_can_give_twice_cannot_be_edited() {
    let folder = Folder::new();
    let (_, command) = folder.relay("DisableNetwork 1\n");
    let _running = start(&command);
    let mut control =
        wait_for("a control socket", || Control::of(&folder.discover(&command).unwrap(), SECONDS).ok());
    let names = control.info("config/names").unwrap();
    let mut refused = Vec::new();
    for line in names.lines() {
        let (name, kind) = line.split_once(' ').unwrap();
        let refusal = TorrcEdit::refusal(name);
        if matches!(kind, "LineList" | "Dependent" | "Virtual") {
            assert!(refusal.is_some(), "{name} is a {kind}");
        }
        refused.extend(refusal.map(|_| name));
    }
    println!("refused: {}", refused.join(" "));
    assert!(names.lines().count() > 300 && refused.len() < 250, "{}", refused.len());
}

#[test]
#[ignore = "needs Tor"]
fn a_wrong_torrc_is_refused_in_tors_own_words() {
    let folder = Folder::new();
    let (relay, _) = folder.relay("NumCPUs 2\n");
    relay.verify_torrc(&fs::read(&relay.torrc).unwrap()).unwrap();
    let edited = edit(&[("DirCache", "banana")]).apply(b"NumCPUs 2\n").unwrap();
    let error = relay.verify_torrc(&edited).unwrap_err().to_string();
    assert!(error.contains("banana") && error.contains("DirCache"), "{error}");
}

#[test]
#[ignore = "needs Tor"]
fn a_torrc_is_verified_as_the_user_of_the_unit() {
    let folder = Folder::new();
    let (relay, _) = folder.relay("");
    if !rustix::process::geteuid().is_root() {
        return heaptrial_testbed::skip("becoming another user needs root");
    }
    // Nobody cannot read what is below a folder of root's.
    let torrc = format!("{}%include {}\n", fs::read_to_string(&relay.torrc).unwrap(), relay.torrc.display());
    let relay = Relay { unit_user: Some("nobody".to_owned()), ..relay };
    let error = relay.verify_torrc(torrc.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("runuser -u nobody") && error.contains(&folder.path("torrc")), "{error}");
}

#[test]
#[ignore = "needs Tor"]
fn a_control_socket_that_does_not_answer_is_given_up() {
    let folder = Folder::new();
    let (relay, _) = folder.relay("");
    let _silent = std::os::unix::net::UnixListener::bind(folder.path("control")).unwrap();
    let error = Control::of(&relay, Duration::from_millis(200)).unwrap_err();
    let TorError::Socket { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::TimedOut);
}

fn torrc_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "NumCPUs 3",
        "numcpus \"4\"",
        "+NumCPUs 5",
        "/NumCPUs",
        "NumCPUs",
        "NumCPUs 6 # six",
        "NumCPUs \\\n7",
        "NumCPUs\\\n 8",
        "NumCPUs \\\n# inside\n9",
        "DirCache 0",
        "DirCache 1",
        "DirCache \"\\x30\"",
        "ContactInfo a",
        "ContactInfo a \\",
        "ContactInfo a \\\n",
        "ContactInfo \"a # b\"",
        "# comment",
        "#",
        "\\\n",
        "\\",
        " ",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "\n",
        "\n",
        "\"",
        "x",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs Tor"]
    fn a_torrc_is_read_as_tor_reads_it(torrc in torrc_like()) {
        let folder = Folder::new();
        let (relay, command) = folder.relay("");
        let torrc_file = folder.write("torrc", &torrc);
        let accepted = relay.effective_options(&torrc_file);
        let read = folder.discover(&command);
        let edited = edit(&[("DirCache", "0"), ("NumCPUs", "3")]).apply(torrc.as_bytes());
        match accepted {
            Ok(options) => {
                let read = read.unwrap();
                for (option, default) in [("NumCPUs", "0"), ("DirCache", "1")] {
                    let tor = options.get(option).map_or(default, |values| values[0].as_str());
                    let ours = read.options.get(option).map_or(default, String::as_str);
                    prop_assert_eq!(tor, ours, "{} of {:?}", option, torrc);
                }
                // A last line that goes on is refused.
                let Ok(edited) = edited else { return Ok(()) };
                let contact = |file: &Path| relay.effective_options(file).unwrap().get("ContactInfo").cloned();
                let candidate = folder.write("candidate", &edited);
                prop_assert_eq!(contact(&candidate), contact(&torrc_file), "{:?}", torrc);
                let changed = relay.effective_options(&candidate).unwrap();
                prop_assert_eq!((&changed["DirCache"][..], &changed["NumCPUs"][..]), (&["0".to_owned()][..], &["3".to_owned()][..]));
            }
            // What we cannot read, tor refuses; it also refuses values that we do not look at.
            Err(_) => {
                prop_assert!(edited.is_err() || relay.verify_torrc(&edited.unwrap()).is_err());
            }
        }
        if folder.discover(&command).is_err() {
            prop_assert!(relay.verify_torrc(torrc.as_bytes()).is_err(), "{:?}", torrc);
        }
    }
}
