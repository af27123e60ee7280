//! `heaptrial agent` as its hardened unit on a real systemd.

use crate::support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_host::{CgroupVersion, HostRoot, Instant as Moment};
use heaptrial_model::{Ending, Metric, TrialKind, TrialPlan};
use heaptrial_store::{EventRecord, LifeRecord, NewService, NewTrial, Store};
use heaptrial_testbed::{Options, Testbed, drawn};
use support::bed::Bed;
use support::wait_for;

const UNIT: &str = "heaptrial-agent.service";
/// Whatever is waited for comes within some seconds; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The host with its agent.
struct Host {
    bed: Bed,
    units: Vec<String>,
}

impl Host {
    /// With so many services in a running trial whose two arms both expect glibc, sampled with these options.
    fn boot(services: usize, options: &str) -> Option<(Self, i64)> {
        let (bed, units) = Bed::with_churn(services)?;
        let host = Self { bed, units };
        host.install(options);
        let trial = host.begin("five-way", &host.units);
        host.bed.container.ok(&["systemctl", "enable", "--now", UNIT]);
        Some((host, trial))
    }

    fn install(&self, options: &str) {
        let container = &self.bed.container;
        let text = self.bed.succeeds("agent --print-unit /ht/heaptrial").stdout;
        container.write(format!("/etc/systemd/system/{UNIT}"), text, 0o644).unwrap();
        let start =
            format!("[Service]\nRestartSec=1s\nExecStart=\nExecStart=/ht/heaptrial agent {options}\n");
        container.write(format!("/etc/systemd/system/{UNIT}.d/test.conf"), start, 0o644).unwrap();
        container.ok(&["mkdir", "-p", "-m", "750", "/var/lib/heaptrial"]);
        container.ok(&["systemctl", "daemon-reload"]);
    }

    /// As a command on the host sees it.
    fn store(&self) -> Store {
        Store::create(&self.bed.database()).unwrap()
    }

    fn boot_id(&self) -> String {
        self.bed.container.ok(&["cat", "/proc/sys/kernel/random/boot_id"]).trim().to_owned()
    }

    /// Begins a trial as `heaptrial trial start` does, before anything is restarted.
    fn begin(&self, name: &str, units: &[String]) -> i64 {
        let specs = ["glibc".parse().unwrap(), "glibc?arena_max=1".parse().unwrap()];
        let expected = Expected::own_c_library("glibc".parse().unwrap(), Vec::new());
        let now = Moment::now();
        let trial = NewTrial {
            name: name.into(),
            kind: TrialKind::Field,
            boot_id: self.boot_id(),
            host_facts: serde_json::json!({}),
            metric: Metric::Rss,
            seed: 7,
            repeats: 1,
            planned_us: 86_400_000_000,
            arms: TrialPlan::from_specs(name, &specs).unwrap().arms,
            parameters: serde_json::json!({ "started_boottime_us": now.boottime_us }),
            command: "heaptrial trial start".into(),
            tool_version: "0.1.0".into(),
            started_wall_us: now.wall_us,
        };
        let service = |(position, name): (usize, &String)| NewService {
            name: name.clone(),
            arm: position % 2,
            block: 0,
            position: position as u32,
            attributes: serde_json::Value::Null,
        };
        let services: Vec<NewService> = units.iter().enumerate().map(service).collect();
        let obtained = [Some(serde_json::to_value(&expected).unwrap()), None];
        self.store().begin_field_trial(&trial, &obtained, &services).unwrap()
    }

    fn service_id(&self, trial: i64, unit: &str) -> i64 {
        let services = self.store().services(trial).unwrap();
        services.iter().find(|service| service.name == unit).unwrap().id
    }

    fn lives(&self, trial: i64, unit: &str) -> Vec<LifeRecord> {
        let service = self.service_id(trial, unit);
        let lives = self.store().lives(trial).unwrap();
        lives.into_iter().filter(|life| life.service_id == service).collect()
    }

    /// Restarts a service as a command of Heaptrial does: announced in the journal of a transaction.
    fn restart_as_planned(&self, unit: &str) {
        let folder = format!("/var/lib/heaptrial/trials/{unit}");
        let write = |records: &[&str]| {
            for what in records {
                let wall_us = Moment::now().wall_us;
                let service = if *what == "opened" { "null".to_owned() } else { format!("\"{unit}\"") };
                let record = format!("{{\"wall_us\":{wall_us},\"what\":\"{what}\",\"service\":{service}}}");
                let command = format!("mkdir -p {folder} && echo '{record}' >> {folder}/journal.jsonl");
                self.bed.container.ok(&["sh", "-c", &command]);
            }
        };
        write(&["opened", "intent"]);
        self.bed.container.ok(&["systemctl", "restart", unit]);
        write(&["committed"]);
    }

    /// The lives of a service once there are so many and the last one is proved, or known not to be its arm's.
    #[track_caller]
    fn settled(&self, trial: i64, unit: &str, count: usize) -> Vec<LifeRecord> {
        wait_for(&format!("proved life {count} of {unit}"), PATIENCE, || {
            let lives = self.lives(trial, unit);
            let settled = |life: &LifeRecord| life.identity.is_some() || life.contamination.is_some();
            (lives.len() == count && lives.last().is_some_and(settled)).then_some(lives)
        })
    }

    #[track_caller]
    fn event(&self, trial: i64, kind: &str) -> EventRecord {
        wait_for(&format!("an event `{kind}`"), PATIENCE, || self.events(trial, kind).into_iter().next())
    }

    fn events(&self, trial: i64, kind: &str) -> Vec<EventRecord> {
        let events = self.store().events(trial).unwrap();
        events.into_iter().filter(|event| event.kind.as_str() == kind).collect()
    }

    #[track_caller]
    fn ticks(&self, trial: i64, more_than: u64) -> u64 {
        wait_for(&format!("more than {more_than} ticks"), PATIENCE, || {
            let ticks = self.store().tick_summary(trial).unwrap().ticks;
            (ticks > more_than).then_some(ticks)
        })
    }

    fn journal(&self) -> String {
        self.bed.container.ok(&["journalctl", "--no-pager", "-u", UNIT])
    }
}

#[test]
#[ignore = "needs root and a container"]
fn services_of_a_running_trial_are_sampled_and_proved() {
    let Some((host, trial)) = Host::boot(4, "--interval 300ms") else { return };
    // Before its restart a service is not under its arm's treatment, and nothing of it counts.
    let early = wait_for("the lives before the restart", PATIENCE, || {
        let lives = host.lives(trial, &host.units[0]);
        lives.first().cloned()
    });
    assert!(early.contamination.unwrap().contains("before the trial began"));
    for unit in &host.units {
        host.restart_as_planned(unit);
    }
    for unit in &host.units {
        let lives = host.settled(trial, unit, 2);
        assert_eq!(lives[0].ending, Some(Ending::Planned), "{unit}");
        let life = &lives[1];
        assert_eq!(life.contamination, None, "{unit}");
        assert_eq!(life.identity.as_ref().unwrap().family, "glibc");
        let pid: i32 = host.bed.property(unit, "MainPID").parse().unwrap();
        assert_eq!(life.key.as_ref().unwrap().pid, pid);
        assert!(life.counts());
    }
    for kind in ["restart_unplanned", "crash", "contaminated"] {
        assert_eq!(host.events(trial, kind), [], "{}", host.journal());
    }
    let ticks = host.ticks(trial, 0);
    host.ticks(trial, ticks + 5);
    let latest = host.store().latest(trial).unwrap();
    assert_eq!(latest.len(), 4);
    for sample in latest {
        assert!(sample.rss_bytes.unwrap() > 1 << 20 && sample.age_seconds > 0.0, "{sample:?}");
        // One that is met before it has gone into its control group has no figure of that.
        assert!(sample.cgroup_current_bytes.is_none_or(|bytes| bytes > 1 << 16), "{sample:?}");
        assert!(sample.identity.unwrap().starts_with("glibc "));
    }
    let slow: Vec<_> = host.store().lives(trial).unwrap();
    assert!(slow.iter().any(|life| host.store().last_slow_sample(life.id, i64::MAX).unwrap().is_some()));

    // Another trial is taken up at once, and one that ended is left alone.
    host.store().end_trial(trial, Moment::now().wall_us, "completed").unwrap();
    let second = host.begin("second", &host.units[..2]);
    host.ticks(second, 2);
    let after_end = host.store().tick_summary(trial).unwrap().ticks;
    let ticks = host.ticks(second, 0);
    host.ticks(second, ticks + 5);
    assert_eq!(host.store().tick_summary(trial).unwrap().ticks, after_end);
}

#[test]
#[ignore = "needs root and a container"]
fn restarts_by_hand_are_unplanned_and_those_of_the_timer_are_not() {
    let Some(()) = drawn(2, 6) else { return };
    let Some((host, trial)) = Host::boot(2, "--interval 300ms") else { return };
    let (container, unit) = (&host.bed.container, &host.units[0]);
    host.settled(trial, unit, 1);
    container.ok(&["systemctl", "restart", unit]);
    host.settled(trial, unit, 2);
    // The service's first life was older than the trial, which restarts each service once.
    assert_eq!(host.events(trial, "restart_unplanned"), []);
    container.ok(&["systemctl", "restart", unit]);
    let lives = host.settled(trial, unit, 3);
    assert_eq!(host.event(trial, "restart_unplanned").service_id, Some(lives[1].service_id));
    assert_eq!(host.lives(trial, unit)[1].ending, Some(Ending::Stopped));

    let restarter = r"heaptrial-restart-churn\x40001.service";
    let text = format!("[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl restart {unit}\n");
    container.write(format!("/etc/systemd/system/{restarter}"), text, 0o644).unwrap();
    container.ok(&["systemctl", "daemon-reload"]);
    container.ok(&["systemctl", "start", restarter]);
    host.settled(trial, unit, 4);
    assert_eq!(host.event(trial, "restart_planned").text, "restarted by the trial's timer");
    assert_eq!(host.lives(trial, unit)[2].ending, Some(Ending::Planned));
    assert_eq!(host.events(trial, "restart_unplanned").len(), 1);
}

#[test]
#[ignore = "needs root and a container"]
fn crashes_oom_kills_and_foreign_allocators_are_distinguished() {
    let Some((host, trial)) = Host::boot(5, "--interval 300ms") else { return };
    for unit in &host.units {
        host.restart_as_planned(unit);
    }
    for unit in &host.units {
        host.settled(trial, unit, 2);
    }
    let container = &host.bed.container;
    let of = |kind: &str, number: usize| {
        let service = host.service_id(trial, &host.units[number]);
        wait_for(&format!("{kind} of {}", host.units[number]), PATIENCE, || {
            host.events(trial, kind).into_iter().find(|event| event.service_id == Some(service))
        })
    };
    container.ok(&["systemctl", "kill", "-s", "ABRT", &host.units[0]]);
    assert!(of("crash", 0).text.contains("SIGABRT"), "{}", of("crash", 0).text);
    let lives = host.settled(trial, &host.units[0], 3);
    assert_eq!((lives[1].ending.clone(), lives[1].counts()), (Some(Ending::Signaled(6)), false));
    assert!(lives[2].counts());

    container.write("/etc/churn/002", "FAIL_WHEN=/run/fail\n", 0o644).unwrap();
    host.restart_as_planned(&host.units[1]);
    host.settled(trial, &host.units[1], 3);
    container.write("/run/fail", "", 0o644).unwrap();
    assert!(of("crash", 1).text.contains("code 3"), "{}", of("crash", 1).text);
    assert_eq!(host.lives(trial, &host.units[1])[2].ending, Some(Ending::Exited(3)));

    container.write("/etc/churn/003", "LEAK_BYTES_PER_SECOND=100000000\n", 0o644).unwrap();
    let drop_in = format!("/etc/systemd/system/{}.d/limit.conf", host.units[2]);
    container.write(drop_in, "[Service]\nMemoryMax=64M\nMemorySwapMax=0\n", 0o644).unwrap();
    container.ok(&["systemctl", "daemon-reload"]);
    host.restart_as_planned(&host.units[2]);
    // Under control groups v1 only the kernel's log says it, which a container does not see.
    let kind = match CgroupVersion::of(&HostRoot::default()) {
        CgroupVersion::V2 => "oom_kill",
        _ => "crash",
    };
    assert!(of(kind, 2).text.contains("SIGKILL"), "{}", of(kind, 2).text);
    assert_eq!(host.lives(trial, &host.units[2])[2].ending, Some(Ending::Signaled(9)));

    // The arm of one expects glibc; that of the other expects what its service had before.
    let jemalloc = container.ok(&["find", "/usr/lib", "-name", "libjemalloc.so.2"]).trim().to_owned();
    for number in [3, 4] {
        let path = format!("/etc/systemd/system/{}.d/preload.conf", host.units[number]);
        container.write(path, format!("[Service]\nEnvironment=LD_PRELOAD={jemalloc}\n"), 0o644).unwrap();
    }
    container.ok(&["systemctl", "daemon-reload"]);
    for (number, why) in
        [(3, "unlike an earlier life it runs jemalloc"), (4, "expected glibc, found jemalloc 5.")]
    {
        host.restart_as_planned(&host.units[number]);
        let lives = host.settled(trial, &host.units[number], 3);
        assert_eq!(lives[2].identity.as_ref().unwrap().family, "jemalloc", "{lives:#?}\n{}", host.journal());
        let event = of("contaminated", number);
        assert!(event.text.contains(why), "{}", event.text);
        let lives = host.settled(trial, &host.units[number], 3);
        assert_eq!(lives[2].identity.as_ref().unwrap().family, "jemalloc");
        assert!(lives[2].contamination.is_some() && !lives[2].counts());
    }

    container.ok(&["systemctl", "stop", &host.units[0]]);
    assert!(of("service_down", 0).text.contains("inactive"));
    container.ok(&["systemctl", "start", &host.units[0]]);
    host.settled(trial, &host.units[0], 4);
}

#[test]
#[ignore = "needs root and a container"]
fn a_killed_agent_loses_no_committed_tick_and_continues_lives() {
    let Some(()) = drawn(1, 6) else { return };
    let Some((host, trial)) = Host::boot(3, "--interval 200ms") else { return };
    for unit in &host.units {
        host.restart_as_planned(unit);
        host.settled(trial, unit, 2);
    }
    let mut kept = host.ticks(trial, 0);
    let lives = host.store().lives(trial).unwrap();
    let series = |life: &LifeRecord| host.store().series(life, Metric::Rss).unwrap();
    for round in 0..3 {
        kept = host.ticks(trial, kept + 5);
        let before: Vec<usize> = lives.iter().map(|life| series(life).len()).collect();
        host.bed.container.ok(&["systemctl", "kill", "-s", "KILL", UNIT]);
        // One of the services gets a new life while no agent runs.
        if round == 2 {
            host.bed.container.ok(&["systemctl", "restart", &host.units[2]]);
        }
        kept = host.ticks(trial, kept + 5);
        for (life, before) in lives.iter().zip(before) {
            assert!(series(life).len() >= before, "samples of life {} are lost", life.id);
        }
        wait_for("the gap", PATIENCE, || (host.events(trial, "gap").len() > round).then_some(()));
    }
    let gap = host.event(trial, "gap");
    assert!(gap.text.contains("the agent did not run"), "{}", gap.text);
    let missed = host.settled(trial, &host.units[2], 3);
    assert_eq!(missed[1].ending, Some(Ending::Stopped));
    let after = host.store().lives(trial).unwrap();
    assert_eq!(after.len(), lives.len() + 1, "no life is entered twice");
    // One that was restarted right away may not have been proved.
    let own = |life: &&LifeRecord| life.contamination.is_none();
    assert!(after.iter().filter(own).all(|life| life.identity.is_some()), "what was proved stays so");
    let connection = Store::open(&host.bed.database()).unwrap();
    let ticks = connection.tick_summary(trial).unwrap().ticks;
    assert_eq!(
        connection.last_tick(trial).unwrap().unwrap().sequence + 1,
        ticks as i64,
        "no tick is missing"
    );

    // Told to stop, it ends by itself.
    host.bed.container.ok(&["systemctl", "stop", UNIT]);
    assert_eq!(host.bed.property(UNIT, "Result"), "success", "{}", host.journal());
}

#[test]
#[ignore = "needs root and a container"]
fn power_cuts_and_reboots_end_lives_and_are_recorded() {
    let Some((mut host, trial)) = Host::boot(3, "--interval 200ms") else { return };
    let mut words = vec!["systemctl", "enable"];
    words.extend(host.units.iter().map(String::as_str));
    host.bed.container.ok(&words);
    for unit in &host.units {
        host.restart_as_planned(unit);
        host.settled(trial, unit, 2);
    }
    let mut kept = host.ticks(trial, 5);
    for round in 1..=3 {
        let earlier = host.boot_id();
        host.bed.container.power_cut().unwrap();
        host.bed.container.boot_again().unwrap();
        let found = host.store().tick_summary(trial).unwrap().ticks;
        assert!(found >= kept, "{found} of {kept} committed ticks");
        kept = host.ticks(trial, found + 5);
        for unit in &host.units {
            let lives = host.settled(trial, unit, 2 + round);
            let (last, earlier) = lives.split_last().unwrap();
            assert_eq!(last.ending, None);
            let text = format!("{lives:#?}\n{:#?}\n{}", host.store().events(trial), host.journal());
            assert_eq!(earlier.last().unwrap().ending, Some(Ending::Interrupted), "{text}");
            assert!(last.counts() && earlier.last().unwrap().counts(), "{lives:?}");
            let ages = host.store().series(last, Metric::Rss).unwrap();
            assert!(ages.iter().all(|point| point.age_seconds >= 0.0));
        }
        let boots = host.events(trial, "reboot");
        assert_eq!(boots.len(), round, "{boots:?}");
        let ids =
            format!("as boot {} after {}; no sample was taken for", &host.boot_id()[..8], &earlier[..8]);
        assert!(boots[round - 1].text.contains(&ids), "{boots:?}");
        assert!(host.events(trial, "gap").iter().all(|gap| !gap.text.contains("rebooted")));
    }
    for kind in ["crash", "restart_unplanned", "contaminated"] {
        assert_eq!(host.events(trial, kind), []);
    }
}

#[test]
#[ignore = "needs root and a container"]
fn a_full_disk_costs_ticks_and_nothing_else() {
    let Some(()) = drawn(3, 6) else { return };
    let Some(base) = Testbed::for_test() else { return };
    let bed = Bed::boot_on(&base, Options::new().disk_bytes(96 << 20));
    let units = bed.start_churn(2);
    let host = Host { bed, units };
    host.install("--interval 200ms");
    let trial = host.begin("five-way", &host.units);
    host.bed.container.ok(&["systemctl", "start", UNIT]);
    let kept = host.ticks(trial, 5);
    let pid = host.bed.property(UNIT, "MainPID");
    // Ends with an error when nothing is left.
    host.bed.container.run(&["dd", "if=/dev/zero", "of=/var/lib/fill", "bs=64k"]);
    wait_for("the agent to notice", PATIENCE, || {
        host.journal().contains("cannot be written to").then_some(())
    });
    host.bed.container.ok(&["rm", "/var/lib/fill"]);
    host.ticks(trial, kept + 5);
    let gap = host.event(trial, "gap");
    assert!(gap.text.contains("ticks could not be written"), "{}", gap.text);
    assert_eq!(host.bed.property(UNIT, "MainPID"), pid, "{}", host.journal());
}

#[test]
#[ignore = "needs root and a container"]
fn services_of_the_host_are_sampled_until_a_trial_takes_them() {
    let Some((bed, units)) = Bed::with_churn(4) else { return };
    let host = Host { bed, units };
    host.install("--interval 200ms --services churn@* --metrics unix:/run/heaptrial/metrics.sock");
    host.bed.container.ok(&["systemctl", "start", UNIT]);
    let of_host = wait_for("the trial of the host", PATIENCE, || {
        let trials = host.store().running_trials().unwrap();
        trials.iter().find(|trial| trial.plan.kind == TrialKind::Host).map(|trial| trial.id)
    });
    wait_for("samples of all services", PATIENCE, || {
        let latest = host.store().latest(of_host).unwrap();
        (latest.len() == 4 && latest.iter().all(|sample| sample.identity.is_some())).then_some(())
    });
    let trial = host.begin("five-way", &host.units[..2]);
    host.ticks(trial, 3);
    let samples = |trial: i64, unit: &str| -> usize {
        let lives = host.lives(trial, unit);
        lives.iter().map(|life| host.store().series(life, Metric::Rss).unwrap().len()).sum()
    };
    let (taken, free) = (samples(of_host, &host.units[0]), samples(of_host, &host.units[3]));
    let ticks = host.ticks(trial, 0);
    host.ticks(trial, ticks + 5);
    assert_eq!(samples(of_host, &host.units[0]), taken);
    assert!(samples(of_host, &host.units[3]) > free);
    host.store().end_trial(trial, Moment::now().wall_us, "completed").unwrap();
    wait_for("the host to have them back", PATIENCE, || {
        (samples(of_host, &host.units[0]) > taken).then_some(())
    });

    let socket = host.bed.container.root().join("run/heaptrial/metrics.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    for line in [
        "content-type: text/plain; version=0.0.4; charset=utf-8",
        "heaptrial_service_up{service=\"churn@003.service\",arm=\"as found\",trial=\"host\"} 1",
        "heaptrial_agent_lost_ticks_total 0",
    ] {
        assert!(answer.lines().any(|found| found == line), "no `{line}` in\n{answer}");
    }
}

#[test]
#[ignore = "needs root and a container"]
fn relays_answer_through_the_confined_unit() {
    let Some(()) = drawn(0, 6) else { return };
    let Some(bed) = Bed::boot() else { return };
    for (name, port, more) in [("a", 9001, ""), ("b", 9002, "ControlSocket 0\n")] {
        bed.container.ok(&["tor-instance-create", name]);
        let torrc =
            format!("Nickname test{name}\nORPort 127.0.0.1:{port}\nAssumeReachable 1\nSocksPort 0\n{more}");
        bed.container.write(format!("/etc/tor/instances/{name}/torrc"), torrc, 0o644).unwrap();
        bed.container.ok(&["systemctl", "start", &format!("tor@{name}.service")]);
    }
    let host = Host { bed, units: vec!["tor@a.service".into(), "tor@b.service".into()] };
    host.install("--interval 300ms");
    let trial = host.begin("relays", &host.units);
    host.bed.container.ok(&["systemctl", "start", UNIT]);
    let observed = wait_for("an answer of the relay", PATIENCE, || {
        let store = host.store();
        let names = |life: LifeRecord| {
            store.observed(life.id).unwrap().into_iter().map(move |name| (life.service_id, name))
        };
        let observed: Vec<(i64, String)> = store.lives(trial).unwrap().into_iter().flat_map(names).collect();
        (!observed.is_empty()).then_some(observed)
    });
    let answering = host.service_id(trial, "tor@a.service");
    assert!(observed.iter().all(|(service, _)| *service == answering), "{observed:?}");
    for name in ["tor_read_bytes", "tor_written_bytes", "tor_connections"] {
        assert!(observed.iter().any(|(_, observed)| observed == name), "{name} in {observed:?}");
    }
    let silent = host.event(trial, "relay_silent");
    assert_eq!(silent.service_id, Some(host.service_id(trial, "tor@b.service")), "{}", silent.text);
}

#[test]
#[ignore = "needs root and a container"]
fn the_unit_is_confined_and_a_second_agent_is_refused() {
    let Some((host, trial)) = Host::boot(1, "--interval 300ms") else { return };
    host.ticks(trial, 1);
    let security = host.bed.container.ok(&["systemd-analyze", "security", "--no-pager", UNIT]);
    let level = security.lines().find(|line| line.contains("Overall exposure level")).unwrap_or(&security);
    eprintln!("{level}");
    let exposure: f64 = level.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!(exposure < 3.0, "{security}");
    let second = host.bed.heaptrial("agent --db /var/lib/heaptrial/heaptrial.db");
    assert_eq!(second.status.code(), Some(3), "{}", support::stderr(&second));
}
