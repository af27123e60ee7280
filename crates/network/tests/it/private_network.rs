//! A real relay takes the synthetic directory, checks its signatures, and serves it to the load.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heaptrial_host::HostRoot;
use heaptrial_network::{
    Authority, AuthorityKeys, DirectoryParameters, LoadDriver, LoadParameters, RelayInstance,
    RelayParameters, Stamps, Traffic, TrafficParameters, TrafficTotals,
};
use heaptrial_relay::{Control, Relay as Facts};

/// Ends the relay with the test, also when an assertion fails.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(started.elapsed() < limit, "{what} did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A control connection, once the relay listens.
fn control(relay: &RelayInstance) -> Option<Control> {
    let arguments = relay.arguments().into_iter().map(|word| word.into_string().unwrap());
    let command: Vec<String> = std::iter::once("tor".to_owned()).chain(arguments).collect();
    let facts = Facts::of_command(&HostRoot::default(), &command, None)?.ok()?;
    Control::of(&facts, Duration::from_secs(5)).ok()
}

const MINUTE: Duration = Duration::from_secs(60);

/// An authority with one relay that has its directory.
struct Network {
    _running: Relay,
    control: Control,
    address: SocketAddr,
    relay: RelayInstance,
    authority: Authority,
    _folder: tempfile::TempDir,
}

impl Network {
    /// Must be called inside a tokio runtime.
    fn start() -> Self {
        let tor = Path::new("/usr/bin/tor");
        assert!(tor.exists(), "this test needs the Debian package `tor`");
        let folder = tempfile::tempdir().unwrap();
        let keys = AuthorityKeys::generate(folder.path()).unwrap();
        let directory = DirectoryParameters {
            entries: 200,
            stamps: Stamps::Stretched { consensuses: 4, retained: 2 },
            seed: 5,
        };
        let authority = Authority::start(&directory, keys, 0).unwrap();
        let parameters = RelayParameters::on(2);
        let relay = RelayInstance::create(
            &folder.path().join("relay"),
            "relay0",
            &parameters,
            &authority.torrc_line(),
            &BTreeMap::new(),
        )
        .unwrap();
        relay.verify(tor).unwrap();
        let running = Relay(Command::new(tor).args(relay.arguments()).stderr(Stdio::null()).spawn().unwrap());
        let mut control = wait_for("a control port", MINUTE, || control(&relay));
        let address = wait_for("an ORPort", MINUTE, || {
            let listeners = control.info("net/listeners/or").ok()?;
            listeners.split(' ').next()?.trim_matches('"').parse().ok()
        });
        wait_for("a consensus", MINUTE, || control.consensus_valid_after().unwrap());
        Self { _running: running, control, address, relay, authority, _folder: folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.relay.log()).unwrap_or_default()
    }

    fn warnings(&self) -> usize {
        self.log().matches("[warn]").count()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
#[ignore = "needs Tor"]
fn a_real_relay_serves_the_synthetic_directory() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let mut network = Network::start();
    let valid_after = network.control.consensus_valid_after().unwrap().unwrap();
    let published = network.authority.history();
    assert!(published.iter().any(|snapshot| snapshot.valid_after == valid_after), "{}", network.log());

    let load = LoadParameters { clients: 100, arrival_seconds: 5.0, stay_consensuses: 1.0 };
    let mut driver = LoadDriver::new(&[network.address], &network.authority).unwrap();
    driver.begin(1, &load, 1);
    let totals =
        wait_for("100 documents", MINUTE, || Some(driver.totals()[0]).filter(|t| t.documents >= 100));
    assert!(totals.failed * 20 < totals.connected, "{totals:?}\n{}", network.log());
    assert!(totals.bytes > 500_000, "{totals:?}");

    // The relay replaces its consensus as the authority publishes new ones.
    network.authority.publish();
    wait_for("a newer consensus", MINUTE, || {
        network.control.consensus_valid_after().unwrap().filter(|newer| *newer > valid_after)
    });
    assert_eq!(network.authority.failure(), None);
}

#[test]
#[ignore = "needs Tor"]
fn a_real_relay_makes_ntor_circuits() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let network = Network::start();
    let parameters = TrafficParameters { connections: 40, ntor_per_second: 50.0, circuit_seconds: 1.0 };
    let warned = network.warnings();
    let traffic = Traffic::start(&parameters, 3, &[network.address], &network.authority).unwrap();
    let totals = wait_for("circuits", MINUTE, || {
        let totals = traffic.totals()[0];
        (totals.connections_now == 40 && totals.circuits_made >= 200).then_some(totals)
    });
    let because = format!("{totals:?}\n{}", network.log());
    assert_eq!((totals.connections_failed, totals.circuits_failed), (0, 0), "{because}");
    assert!(totals.circuits_made <= totals.circuits_asked, "{because}");
    assert_eq!(network.warnings(), warned, "{because}");
}

#[test]
#[ignore = "needs Tor"]
fn each_ingredient_of_traffic_can_be_left_out() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let network = Network::start();
    let start = |parameters: &TrafficParameters| {
        Traffic::start(parameters, 3, &[network.address], &network.authority).unwrap()
    };
    let nothing = start(&TrafficParameters::default());
    let idle = start(&TrafficParameters { connections: 30, ..TrafficParameters::default() });
    let one_hop = TrafficParameters { ntor_per_second: 50.0, circuit_seconds: 1.0, ..Default::default() };
    let one_hop = start(&one_hop);
    let totals = wait_for("100 circuits of one hop", MINUTE, || {
        let ready = one_hop.totals()[0].circuits_made >= 100 && idle.totals()[0].connections_now == 30;
        ready.then(|| one_hop.totals()[0])
    });
    assert_eq!(totals.circuits_failed, 0, "{totals:?}\n{}", network.log());
    assert_eq!(idle.totals()[0], TrafficTotals { connections_now: 30, ..TrafficTotals::default() });
    assert_eq!(nothing.totals()[0], TrafficTotals::default());
}

#[test]
#[ignore = "needs Tor"]
fn a_relay_takes_each_consensus_and_retains_as_many_as_asked_for_those_of_the_past_included() {
    const CONSENSUSES: u32 = 6;
    const RETAINED: u32 = 2;
    let tor = Path::new("/usr/bin/tor");
    assert!(tor.exists(), "this test needs the Debian package `tor`");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _inside = runtime.enter();
    let dir = tempfile::tempdir().unwrap();
    let keys = AuthorityKeys::generate(dir.path()).unwrap();
    let stamps = Stamps::Stretched { consensuses: CONSENSUSES, retained: RETAINED };
    let authority = Authority::start(&DirectoryParameters { entries: 60, stamps, seed: 5 }, keys, 0).unwrap();
    let (door, other) = (authority.open_door().unwrap(), authority.open_door().unwrap());
    let parameters = RelayParameters::on(2);
    let place = dir.path().join("relay");
    let relay =
        RelayInstance::create(&place, "relay0", &parameters, &door.torrc_line(), &BTreeMap::new()).unwrap();
    relay.retain(authority.past()).unwrap();
    let _running = Relay(Command::new(tor).args(relay.arguments()).stderr(Stdio::null()).spawn().unwrap());
    let minute = Duration::from_secs(60);
    let mut control = wait_for("a control port", minute, || control(&relay));
    for number in 1..=u64::from(CONSENSUSES) {
        wait_for("a relay that asks for the next consensus", minute, || {
            door.taken().filter(|taken| *taken == number)
        });
        let valid_after = authority.history().last().unwrap().valid_after;
        assert_eq!(control.consensus_valid_after().unwrap(), Some(valid_after));
        if number == 1 {
            let from = || Some(relay.diffs_from()).filter(|from| *from == RETAINED as usize);
            wait_for("diffs from the consensuses of the past", minute, from);
        }
        if number < u64::from(CONSENSUSES) {
            authority.publish();
        }
    }
    assert_eq!((authority.published(), authority.failure()), (CONSENSUSES.into(), None));
    assert_eq!(other.taken(), None);
    wait_for("as many retained consensuses as asked for", minute, || {
        let retained = retained(&place.join("data/diff-cache"));
        retained.iter().all(|stamps| stamps.len() == RETAINED as usize + 1).then_some(())
    });
    let log = std::fs::read_to_string(relay.log()).unwrap();
    for complaint in
        ["[err]", "consensus is too old", "consensus that is too", "Received http status", "stalled"]
    {
        assert!(!log.contains(complaint), "{complaint}: {log}");
    }
}

/// The stamps of the consensuses in a relay's cache, by flavour.
fn retained(cache: &Path) -> [BTreeSet<String>; 2] {
    let mut stamps = [BTreeSet::new(), BTreeSet::new()];
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        // Labels, an empty line, and the document.
        let head = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let label = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        if let (Some("consensus"), Some(flavor), Some(stamp)) = (
            label("document-type ").as_deref(),
            label("consensus-flavor ").as_deref(),
            label("consensus-valid-after "),
        ) {
            stamps[usize::from(flavor == "microdesc")].insert(stamp);
        }
    }
    stamps
}
