//! What a verdict says, by the databases of two hosts.

use crate::support;

use std::path::Path;
use std::process::Output;

use heaptrial_fleet::rollout::Verdict;
use support::two_hosts::{ARMS, HOSTS, S, START, World};
use support::{heaptrial, json, stderr, stdout, succeeds};

fn output(folder: &Path, arm: &str, further: &[&str]) -> Output {
    let mut command = heaptrial(folder);
    command.args(["trial", "verdict", "all.db", "--arm", arm, "--output", "verdict.json"]).args(further);
    let output = command.output().unwrap();
    succeeds(&output);
    output
}

/// The verdict on an arm, and what was said.
fn verdict(folder: &Path, arm: &str) -> (Verdict, String) {
    let output = output(folder, arm, &[]);
    let read = Verdict::read(&folder.join("verdict.json")).unwrap().0;
    (read, format!("{}{}", stdout(&output), stderr(&output)))
}

/// A trial over two hosts that has ended.
fn ended(folder: &Path) {
    let all = World::draw(folder, 1).gather(folder, "all.db");
    let ended = "UPDATE trial SET ended_wall_us = started_wall_us + planned_us";
    rusqlite::Connection::open(&all).unwrap().execute(ended, []).unwrap();
}

fn change(folder: &Path, sql: &str, arm: &str, host: &str) {
    let connection = rusqlite::Connection::open(folder.join("all.db")).unwrap();
    let lives = "service_id IN (SELECT s.id FROM service s JOIN arm a ON a.id = s.arm_id
                   WHERE a.name = ?1 AND s.name LIKE ?2 || '/%')";
    assert!(connection.execute(&format!("{sql} WHERE {lives}"), [arm, host]).unwrap() > 0);
}

fn hosts(verdict: &Verdict) -> Vec<&str> {
    verdict.hosts.iter().map(|host| host.name.as_str()).collect()
}

#[test]
fn what_an_arm_is_worth_is_shown_by_host_and_in_sum_with_how_it_was_got_and_what_it_costs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ended(folder);
    let (_, said) = verdict(folder, ARMS[1]);
    println!("{said}");
    for words in ["NOW", "a restart of each of 24 services"] {
        assert!(said.contains(words), "`{words}` is not in {said}");
    }
    assert!(
        said.contains("; 1.10 (1.10 to 1.10) of the processor time of glibc; mimalloc@2.0.9 gives up"),
        "{said}"
    );
    let told = json(&output(folder, ARMS[1], &["--json"]));
    let worth = told["worth"].as_array().unwrap();
    let hosts: Vec<Option<&str>> = worth.iter().map(|worth| worth["host"].as_str()).collect();
    assert_eq!(hosts, [Some("alpha"), Some("beta"), None]);
    for figure in ["services", "now_bytes", "control_bytes", "arm_bytes", "freed_bytes"] {
        let of = |index: usize| worth[index][figure].as_f64().unwrap();
        assert!((of(2) / (of(0) + of(1)) - 1.0).abs() < 1e-9 && of(0) > 0.0, "{figure}: {worth:#?}");
    }
}

#[test]
fn a_verdict_is_of_the_hosts_and_caveats_of_its_own_arm() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ended(folder);
    for arm in ARMS {
        assert_eq!(hosts(&verdict(folder, arm).0), HOSTS, "{arm}");
    }

    // On the second host the arm never ran as it should: nothing is known of it on a host like that one.
    change(folder, "UPDATE life SET contamination = 'it ran another one'", ARMS[1], HOSTS[1]);
    let (found, said) = verdict(folder, ARMS[1]);
    assert_eq!(hosts(&found), HOSTS[..1]);
    let about = format!("{}: ran something else", ARMS[1]);
    assert!(found.caveats.iter().any(|caveat| caveat.starts_with(&about)), "{:?}", found.caveats);
    assert!(said.contains(&format!("warning: {about}")), "{said}");
    // Of the other arm neither is true.
    let (other, _) = verdict(folder, ARMS[0]);
    assert_eq!(hosts(&other), HOSTS);
    assert!(!other.caveats.iter().any(|caveat| caveat.contains("ran something else")), "{:?}", other.caveats);
    // What was not proved there counts no more.
    change(folder, "UPDATE life SET contamination = NULL, identity_json = NULL", ARMS[1], HOSTS[1]);
    assert_eq!(hosts(&verdict(folder, ARMS[1]).0), HOSTS[..1]);
}

/// Some services of the fleet are restarted, and what they took before that counts as well.
#[test]
fn processor_time_is_of_all_lives() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ended(folder);
    let dearer = "UPDATE sample SET cpu_us = 3 * cpu_us WHERE life_id IN (
                  SELECT l.id FROM life l JOIN service s ON s.id = l.service_id JOIN arm a ON a.id = s.arm_id
                  WHERE a.name = ?1 AND EXISTS (SELECT 1 FROM life later
                      WHERE later.service_id = l.service_id AND later.started_wall_us > l.started_wall_us))";
    let connection = rusqlite::Connection::open(folder.join("all.db")).unwrap();
    assert!(connection.execute(dearer, [ARMS[1]]).unwrap() > 0);
    let (_, said) = verdict(folder, ARMS[1]);
    let (told, _) = said.split_once(") of the processor time of glibc").unwrap();
    let (_, told) = told.rsplit_once("; ").unwrap();
    let figures: Vec<f64> = told.split([' ', '(']).filter_map(|figure| figure.parse().ok()).collect();
    // Last lives alone take 1.10 times the control's time, and the others now 3.30 times.
    assert!(figures.len() == 3 && figures.iter().all(|figure| (1.2..3.3).contains(figure)), "{said}");
}

/// Arms that somebody chose are no trial for others to go by.
#[test]
fn of_a_trial_that_was_assigned_by_hand_there_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ended(folder);
    let sql = "UPDATE service SET attributes_json = json_set(attributes_json, '$.assigned_by_hand', json('true')) WHERE position = 0";
    assert!(rusqlite::Connection::open(folder.join("all.db")).unwrap().execute(sql, []).unwrap() > 0);
    let refused = heaptrial(folder).args(["trial", "verdict", "all.db", "--arm", ARMS[1]]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", stdout(&refused));
    assert!(stderr(&refused).contains("another arm or block than was drawn"), "{}", stderr(&refused));
}

/// A service that was put back, or never reached, may run its arm's allocator all the same, and not its torrc.
#[test]
fn what_was_not_treated_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ended(folder);
    let connection = rusqlite::Connection::open(folder.join("all.db")).unwrap();
    let tell = |kind: &str, of: &str| {
        let sql = format!(
            "INSERT INTO event (trial_id, service_id, wall_us, kind, text)
             SELECT s.trial_id, s.id, ?1, ?2, '' FROM service s JOIN arm a ON a.id = s.arm_id WHERE {of}"
        );
        assert!(connection.execute(&sql, rusqlite::params![(START + 3000) * S, kind]).unwrap() > 0);
    };
    tell("treatments_recorded", "1");
    tell("treatment_committed", &format!("a.name = '{}' OR s.name LIKE '{}/%'", ARMS[0], HOSTS[0]));
    assert_eq!(hosts(&verdict(folder, ARMS[1]).0), HOSTS[..1]);
    assert_eq!(hosts(&verdict(folder, ARMS[0]).0), HOSTS);
}
