//! How long the playbooks `survey` and `status` take beside `ansible -m ping`: `fleet_speed BUILD_FOLDER [HOSTS CONTAINERS ROUNDS]`.
//!
//! HOSTS names of CONTAINERS throw-away hosts, each with a systemd, sshd and four services of its own. Every round runs ping and the
//! playbook one after the other; printed are the elapsed times as Markdown. The control machine is this one, as are the hosts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use heaptrial_testbed::{ChurnService, Container, Network, Options, Testbed};

type Failure = Box<dyn std::error::Error>;

const TRIAL: &str = r#"name = "fleet"
services = "churn@*"
duration = "2d"
[pace]
pause = "0s"
settle = "0s"
[[arm]]
name = "glibc"
control = true
allocator = "glibc"
[[arm]]
name = "one-arena"
allocator = "glibc?arena_max=1"
"#;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let build = arguments.first().ok_or("usage: fleet_speed BUILD_FOLDER [HOSTS CONTAINERS ROUNDS]")?;
    let build = PathBuf::from(build).canonicalize()?;
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(Ok(otherwise), |text| text.parse());
    let (names, containers, rounds) = (number(1, 50)?, number(2, 1)?, number(3, 5)?);

    let folder = tempfile::tempdir()?;
    let path = folder.path();
    let collections = path.join("collections/ansible_collections/heaptrial");
    std::fs::create_dir_all(&collections)?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible").canonicalize()?;
    std::os::unix::fs::symlink(own, collections.join("fleet"))?;
    std::fs::write(path.join("fleet.toml"), TRIAL)?;
    let key = path.join("key");
    Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status()?;
    let public = std::fs::read_to_string(path.join("key.pub"))?;
    let mut network = Network::new()?;
    let (mut hosts, mut addresses): (Vec<Container>, Vec<_>) = (Vec::new(), Vec::new());
    for _ in 0..containers {
        let host = boot(&build, &public)?;
        addresses.push(network.join(&host)?);
        hosts.push(host);
    }
    let mut inventory: String = (0..names)
        .map(|name| format!("host{name:02} ansible_host={}\n", addresses[name % addresses.len()]))
        .collect();
    inventory += &format!(
        "[all:vars]\nansible_user=root\nansible_python_interpreter=/usr/bin/python3\nansible_ssh_private_key_file={}\n",
        key.display()
    );
    std::fs::write(path.join("hosts"), inventory)?;

    let time = |program: &str, words: &[&str]| -> Result<f64, Failure> {
        let mut command = network.command(program);
        command.current_dir(path).env("HOME", path).env("ANSIBLE_COLLECTIONS_PATH", path.join("collections"));
        command.env("ANSIBLE_HOST_KEY_CHECKING", "False").args(["-i", "hosts"]).args(words);
        let began = Instant::now();
        let output = command.output()?;
        let took = began.elapsed().as_secs_f64();
        match output.status.success() {
            true => Ok(took),
            false => Err(format!("{program} {words:?}: {}", String::from_utf8_lossy(&output.stdout)).into()),
        }
    };
    let local = format!("heaptrial_local={}", path.display());
    let further = ["-e", "heaptrial_trial=fleet", "-e", &local, "-e", "heaptrial_program=/ht/heaptrial"];
    println!("{names} hosts on {containers} containers, by sshd\n");
    println!("| playbook | round | ping | playbook | over ping |\n|---|---|---|---|---|");
    for playbook in ["survey", "status"] {
        if playbook == "status" {
            hosts.iter().try_for_each(start)?;
        }
        let own = format!("heaptrial.fleet.{playbook}");
        let words = [&[own.as_str()][..], &further].concat();
        // The first round makes connections and the interpreter's caches.
        for round in 0..=rounds {
            let ping = time("ansible", &["all", "-m", "ping"])?;
            let took = time("ansible-playbook", &words)?;
            if round > 0 {
                println!("| {playbook} | {round} | {ping:.1} s | {took:.1} s | {:.2} |", took / ping);
            }
        }
    }
    Ok(())
}

/// A host with services.
fn boot(build: &Path, public: &str) -> Result<Container, Failure> {
    let host =
        Container::boot(&Testbed::prepare_suite(Some("bookworm"))?, Options::new().bind(build, "/ht"))?;
    host.try_ok(&["mkdir", "-p", "-m", "700", "/root/.ssh"])?;
    host.write("/root/.ssh/authorized_keys", public, 0o600)?;
    // More connections at once than a login by hand makes.
    host.write("/etc/ssh/sshd_config.d/speed.conf", "MaxStartups 200\nMaxSessions 200\n", 0o644)?;
    host.try_ok(&["systemctl", "restart", "ssh.service"])?;
    let churn =
        ChurnService { live_bytes: 1 << 20, ..ChurnService::new(build.join("examples/churn_service"), 4) };
    let units = host.install_churn_service(&churn)?;
    let words: Vec<&str> =
        ["systemctl", "start"].into_iter().chain(units.iter().map(String::as_str)).collect();
    host.try_ok(&words)?;
    host.write("/root/fleet.toml", TRIAL, 0o644)?;
    Ok(host)
}

/// Starts a trial there, whose status is asked for.
fn start(host: &Container) -> Result<(), Failure> {
    let program = ["/usr/bin/env", "-C", "/root", "HOME=/root", "/ht/heaptrial"];
    for words in
        [&["trial", "plan", "fleet.toml", "--seed", "1"][..], &["trial", "start", "fleet.plan.toml", "--yes"]]
    {
        host.try_ok(&[&program[..], words].concat())?;
    }
    Ok(())
}
