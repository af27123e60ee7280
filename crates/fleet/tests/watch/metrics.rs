//! The file of metrics of a watch.

use crate::simulation;

use std::collections::BTreeMap;

use heaptrial_fleet::watch::{Alert, AlertKind, Channels, Found, Standing, WatchState, write_metrics};
use simulation::Month;

#[test]
fn alerts_that_stand_are_openmetrics_whatever_their_names_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.prom");
    let (mut plan, _) = Month::quiet(4).begin(1);
    plan.channels = Channels { metrics: Some(path.clone()), ..Channels::default() };
    let found = Found { state: String::new(), text: String::new() };
    let found = BTreeMap::from([("tor@a\\x2d.service\"\n".to_owned(), found)]);
    let alert = Alert { kind: AlertKind::Identity, found };
    let standing = BTreeMap::from([(alert.kind, Standing { alert, since: 0.0 })]);
    write_metrics(&plan, &WatchState { standing, checked_at: Some(1.8e9 + 0.25), ..WatchState::default() })
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("# HELP heaptrial_watch_alert A service of an alert that stands.\n# TYPE"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in [
        "heaptrial_watch_alert{watch=\"simulated\",kind=\"identity\",severity=\"error\",\
         service=\"tor@a\\\\x2d.service\\\"\\n\"} 1",
        "heaptrial_watch_alerts{watch=\"simulated\"} 1",
        "# UNIT heaptrial_watch_last_check_timestamp_seconds seconds",
        "heaptrial_watch_last_check_timestamp_seconds{watch=\"simulated\"} 1800000000.25",
        "heaptrial_watch_services{watch=\"simulated\"} 4",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}
