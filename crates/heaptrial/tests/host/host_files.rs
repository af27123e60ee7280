//! What others do to the files of a trial: its drop-ins, its libraries, its units, its folder. Each on a real systemd.

use crate::support;

use std::process::Output;

use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::trials::{of_arm, plan, planned};
use support::{stderr, stdout};

const STATE: &str = "/var/lib/heaptrial";
const UNITS: &str = "/etc/systemd/system";

fn drop_in(service: &str) -> String {
    format!("{UNITS}/{service}.d/zz-heaptrial.conf")
}

/// Runs it and expects this exit code and these words.
#[track_caller]
fn says(bed: &Bed, command: &str, code: i32, words: &[&str]) -> Output {
    let output = bed.heaptrial(command);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{command}: {said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{command}: `{word}` is not in\n{said}"));
    output
}

fn shell(bed: &Bed, line: &str) -> String {
    bed.container.ok(&["sh", "-c", line])
}

/// Nothing is left of what was done to the host.
#[track_caller]
fn reverted(bed: &Bed, name: &str, units: &[String], before: &heaptrial_testbed::Snapshot) {
    bed.succeeds(&format!("trial stop {name} --revert --yes"));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_resume_treats_again_what_lost_its_files_and_shows_what_somebody_changed() {
    let Some(()) = drawn(3, 6) else { return };
    let Some((bed, units)) = planned("gone", 4, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start gone --yes --no-agent");
    let services = of_arm(&bed, "gone", "jemalloc");
    for unit in &services {
        bed.container.ok(&["rm", "-r", &format!("{UNITS}/{unit}.d")]);
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
    says(&bed, "trial status gone", 1, &["changed file", &drop_in(&services[0])]);
    says(&bed, "trial resume gone", 0, &["4 services run what their arms want"]);
    for unit in &services {
        assert!(bed.property(unit, "Environment").contains("libjemalloc"), "{unit}");
    }
    // One that was restarted without it is restarted with it.
    bed.container.ok(&["rm", "-r", &format!("{UNITS}/{}.d", services[0])]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "restart", &services[0]]);
    assert!(!bed.maps(&services[0]).contains("libjemalloc"));
    bed.succeeds("trial resume gone");
    assert!(bed.maps(&services[0]).contains("libjemalloc"));
    says(&bed, "trial status gone", 0, &["running"]);

    shell(&bed, &format!("echo '# mine' >> {}", drop_in(&services[1])));
    says(&bed, "trial resume gone", 1, &["+# mine"]);
    says(&bed, "trial status gone", 1, &["not fully started", services[1].as_str()]);
    shell(&bed, &format!("sed -i '$d' {}", drop_in(&services[1])));
    bed.succeeds("trial resume gone");
    reverted(&bed, "gone", &units, &before);
}

#[test]
#[ignore = "needs root and a container"]
fn a_library_or_a_unit_that_somebody_replaced_is_told_and_not_taken_for_ours() {
    let Some(()) = drawn(2, 6) else { return };
    let Some((bed, units)) = planned("other", 4, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start other --yes");
    let agent = format!("{UNITS}/heaptrial-agent.service");
    shell(&bed, &format!("echo '# edited' >> {agent}"));
    let edited = [agent.as_str(), "was changed by somebody else since Heaptrial wrote it", "+# edited"];
    says(&bed, "trial resume other", 1, &edited);
    says(&bed, "trial stop other --revert --yes", 1, &edited);
    bed.assert_active(&units);
    shell(&bed, &format!("sed -i '$d' {agent}"));

    let library = shell(&bed, "ls /usr/lib/heaptrial/allocators/*/*.so*").trim().to_owned();
    shell(&bed, &format!("echo other > {library}.new; mv {library}.new {library}"));
    let told = [library.as_str(), "is not the file that was installed there"];
    let output = says(&bed, "trial stop other --revert --yes", 0, &told);
    assert!(!stderr(&output).contains("heaptrial-agent.service"), "{}", stderr(&output));
    assert_eq!(bed.container.read_text(&library).unwrap(), "other\n");
    // A trial that needs the place of it does not take it.
    plan(&bed, "next", "");
    says(&bed, "trial start next --yes --no-agent", 3, &[&library]);
    bed.container.ok(&["rm", "-r", "/usr/lib/heaptrial"]);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);

    // One that is replaced while its trial runs.
    plan(&bed, "third", "");
    bed.succeeds("trial start third --yes --no-agent");
    shell(
        &bed,
        &format!("cp -p {library} /root/saved; echo other > {library}.new; mv {library}.new {library}"),
    );
    let difference = [library.as_str(), "was changed by somebody else", "+(a file with SHA-256 "];
    says(&bed, "trial resume third", 1, &difference);
    shell(&bed, &format!("mv /root/saved {library}"));
    bed.succeeds("trial resume third");
    reverted(&bed, "third", &units, &before);
}

#[test]
#[ignore = "needs root and a container"]
fn a_folder_of_drop_ins_that_others_can_change_or_that_is_a_link_is_refused() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, units)) = planned("folders", 4, "") else { return };
    let service = of_arm(&bed, "folders", "jemalloc").remove(0);
    let folder = format!("{UNITS}/{service}.d");
    let start = "trial start folders --yes --no-agent";
    bed.container.ok(&["install", "-d", "-o", "4711", &folder]);
    says(&bed, start, 3, &[&format!("{folder} belongs to user 4711"), "nothing was changed"]);
    bed.container.ok(&["chown", "0:4711", &folder]);
    bed.container.ok(&["chmod", "775", &folder]);
    says(&bed, start, 3, &[&format!("{folder} can be written by its group")]);
    let preflight = format!("preflight {service} -a jemalloc@5.3.0");
    says(&bed, &preflight, 3, &["refuse unit_files", &format!("{folder} can be written by its group")]);
    bed.container.ok(&["rmdir", &folder]);
    bed.container.ok(&["mkdir", "/etc/shared"]);
    bed.container.ok(&["ln", "-s", "/etc/shared", &folder]);
    says(&bed, start, 3, &[&format!("{folder} is a link to /etc/shared")]);
    bed.container.ok(&["rm", &folder]);
    let before = bed.snapshot();
    bed.succeeds(start);
    reverted(&bed, "folders", &units, &before);
}

#[test]
#[ignore = "needs root and a container"]
fn a_journal_that_others_can_write_is_not_followed() {
    let Some(()) = drawn(1, 6) else { return };
    let Some((bed, units)) = planned("frozen", 4, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start frozen --yes --no-agent");
    let folder = format!("{STATE}/trials/frozen");
    let journal = format!("{folder}/journal.jsonl");
    let (writable, foreign) =
        (format!("{journal} can be written by everybody"), format!("{journal} belongs to user 4711"));
    for (spoil, mend, why) in [
        (["chmod", "666", &journal], ["chmod", "644", &journal], &writable),
        (["chown", "4711", &journal], ["chown", "0", &journal], &foreign),
    ] {
        bed.container.ok(&spoil);
        for command in ["trial stop frozen --revert --yes", "trial resume frozen", "trial recover frozen"] {
            says(&bed, command, 3, &[why, "Nothing was changed"]);
        }
        says(&bed, "trial status frozen", 1, &["untrusted", why]);
        bed.container.ok(&mend);
    }
    reverted(&bed, "frozen", &units, &before);
}

#[test]
#[ignore = "needs root and a container"]
fn a_trial_whose_folder_is_gone_is_known_by_what_it_left() {
    let Some(()) = drawn(4, 6) else { return };
    let Some((bed, units)) = planned("lost", 4, "") else { return };
    plan(&bed, "later", "");
    let before = bed.snapshot();
    bed.succeeds("trial start lost --yes");
    let file = drop_in(&of_arm(&bed, "lost", "jemalloc")[0]);
    bed.container.ok(&["mv", &format!("{STATE}/trials"), "/root/trials"]);
    says(&bed, "trial status", 1, &["lost: its folder is gone", "zz-heaptrial.conf"]);
    says(&bed, "trial stop lost --revert --yes", 3, &["lost"]);
    // Neither planned over it nor started.
    bed.container.ok(&["rm", "/root/lost.plan.toml"]);
    let refused = [file.as_str(), "(`lost`)", "rollback-by-hand"];
    says(&bed, "trial plan lost.toml", 3, &refused);
    says(&bed, "trial start later --yes", 3, &refused);
    let rollout = "rollout start jemalloc@5.3.0 --services churn@* --force a-pilot --yes";
    says(&bed, rollout, 3, &["(`lost`)"]);
    bed.container.ok(&["mv", "/root/trials", &format!("{STATE}/trials")]);
    reverted(&bed, "lost", &units, &before);

    // One that ended and left its treatment is named.
    plan(&bed, "ended", "");
    bed.succeeds("trial start ended --yes --no-agent");
    bed.succeeds("trial stop ended --yes");
    says(&bed, "trial start later --yes --no-agent", 3, &["`ended`"]);
    bed.succeeds("trial stop ended --revert --yes");
    bed.succeeds("trial status");
}
