use heaptrial_relay::Relay;

use crate::fixture::Fixture;
use heaptrial_inspect::preflight::Check;

#[test]
fn units_that_cannot_be_restarted_are_refused_and_nothing_else_is_examined() {
    for (state, what) in [("not-found", "no unit"), ("masked", "masked"), ("bad-setting", "bad-setting")] {
        let mut fixture = Fixture::new();
        fixture.unit().load_state = state.to_owned();
        fixture.mode(crate::fixture::LIBRARY, 0o666);
        fixture.refuses(Check::UnitState, what);
    }
}

#[test]
fn units_that_do_not_run_are_refused() {
    let mut fixture = Fixture::new();
    fixture.unit().status.active_state = "inactive".to_owned();
    fixture.refuses(Check::UnitState, "it is inactive");
    fixture.unit().status.active_state = "activating".to_owned();
    fixture.unit().status.sub_state = "auto-restart".to_owned();
    fixture.unit().status.restarts = 7;
    fixture.refuses(Check::UnitState, "again and again (7 times");
    let mut fixture = Fixture::new();
    fixture.unit().status.main_pid = None;
    fixture.refuses(Check::ServiceType, "without a main process");
}

#[test]
fn what_keeps_it_from_being_restarted_or_changes_more_than_the_treatment() {
    let mut fixture = Fixture::new();
    fixture.unit().refuse_manual_stop = true;
    fixture.refuses(Check::UnitState, "RefuseManualStop=yes");
    let mut fixture = Fixture::new();
    fixture.unit().needs_reload = true;
    fixture.warns(Check::UnitState, "has not read them");
    let mut fixture = Fixture::new();
    fixture.unit().unit_file = Some("/run/systemd/transient/thing.service".into());
    fixture.refuses(Check::ServiceType, "transient");
}

#[test]
fn torrc_options_need_a_tor_instance_whose_torrc_can_be_replaced() {
    let mut fixture = Fixture::new();
    fixture.planned.preload = None;
    fixture.planned.torrc.insert("DirCache".to_owned(), "0".to_owned());
    fixture.refuses(Check::Torrc, "no Tor instance");
    let relay = Relay { torrc: "/etc/tor/torrc".into(), program: "/usr/bin/tor".into(), ..Relay::default() };
    fixture.service.relay = Some(relay);
    fixture.refuses(Check::Torrc, "cannot examine /etc/tor/torrc");
    fixture.file("/etc/tor/torrc", "ORPort 9001\n");
    fixture.is_fine();
    fixture.unit().exec_start[0].extend(["--dircache".to_owned(), "1".to_owned()]);
    fixture.refuses(Check::Torrc, "ExecStart sets DirCache");
    // Options of a trial that has ended, of whatever arm this is.
    fixture.planned.torrc.clear();
    fixture.is_fine();
    let block = "ORPort 9001\n# heaptrial begin old 7f3a\nDirCache 0\n# heaptrial end\n";
    fixture.file("/etc/tor/torrc", block);
    fixture.refuses(Check::Torrc, "/etc/tor/torrc has options of `old` already");
    fixture.planned.replaces = true;
    fixture.is_fine();
}

#[test]
fn files_that_others_can_change_or_have_written_are_refused() {
    const DROP_IN: &str = "/etc/systemd/system/thing.service.d/zz-heaptrial.conf";
    let planned = || {
        let mut fixture = Fixture::new();
        fixture.planned.unit_files = vec![DROP_IN.into()];
        fixture
    };
    let fixture = planned();
    fixture.is_fine();
    fixture.file("/etc/systemd/system/thing.service.d/own.conf", "[Service]\nType=simple\n");
    fixture.is_fine();
    fixture.mode("/etc/systemd/system/thing.service.d", 0o775);
    fixture.refuses(Check::UnitFiles, "/etc/systemd/system/thing.service.d can be written by its group");

    let mut fixture = planned();
    fixture.file(DROP_IN, "# Written by Heaptrial for trial old (0123), arm x.\n");
    fixture.refuses(Check::UnitFiles, "zz-heaptrial.conf is there already, written for `old`");
    fixture.file(DROP_IN, "# mine\n");
    fixture.refuses(Check::UnitFiles, "is there already, and begins with `# mine`");
    fixture.planned.replaces = true;
    fixture.is_fine();

    // It would go on restarting a service whose arm wants none.
    let mut fixture = planned();
    let timer = "/etc/systemd/system/heaptrial-restart-thing.timer";
    fixture.planned.left_overs = vec![timer.into()];
    fixture.is_fine();
    fixture.file(timer, "# Written by Heaptrial for trial old (0123), arm x.\n");
    fixture.refuses(Check::UnitFiles, "heaptrial-restart-thing.timer is there already, written for `old`");
}

#[test]
fn a_folder_of_drop_ins_that_is_a_link_is_refused() {
    let mut fixture = Fixture::new();
    let folder = "/etc/systemd/system/thing.service.d";
    fixture.planned.unit_files = vec![format!("{folder}/zz-heaptrial.conf").into()];
    fixture.file("/etc/shared/a.conf", "[Service]\n");
    std::os::unix::fs::symlink("/etc/shared", fixture.root.path(folder)).unwrap();
    fixture.refuses(Check::UnitFiles, "is a link to /etc/shared");
}
