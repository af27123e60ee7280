//! Files that another version of Heaptrial wrote: those of an older one are read, those of a newer one are refused.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass};
use heaptrial_watch::{AlertKind, Channel, Folder, News, WatchError};
use serde_json::Value;

const PLAN_V1: &str = include_str!("../versions/watch_v1.json");
const STATE_V1: &str = include_str!("../versions/state_v1.json");

/// The folder of a watch with these files.
fn folder(state: &Path, plan: &str, left: &str) -> Folder {
    let path = path(state);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("watch.json"), plan).unwrap();
    fs::write(path.join("state.json"), left).unwrap();
    Folder::open(state, "simulated").unwrap()
}

fn path(state: &Path) -> PathBuf {
    state.join("watches/simulated")
}

fn of_version(text: &str, version: u32) -> String {
    let mut value: Value = serde_json::from_str(text).unwrap();
    value["schema_version"] = version.into();
    value["something_new"] = true.into();
    value.to_string()
}

#[test]
fn what_version_1_wrote_is_read_and_written_as_it_was() {
    let state = tempfile::tempdir().unwrap();
    let folder = folder(state.path(), PLAN_V1, STATE_V1);
    let (plan, left) = (folder.plan().unwrap(), folder.state().unwrap());
    assert_eq!((plan.name.as_str(), plan.services.len(), plan.days), ("simulated", 4, 30.0));
    assert!(plan.forecast.last_age() > plan.forecast.first_age());
    assert_eq!((left.looks.len(), left.looks[1].alerts[0].kind), (2, AlertKind::NoData));
    assert_eq!(left.standing["identity:tor@a.service"].alert.kind, AlertKind::Identity);
    let letter = &left.outbox[0];
    assert_eq!((letter.news, letter.alert.kind), (News::Raised, AlertKind::DropIn));
    assert_eq!(letter.told, [Channel::Journal, Channel::Hook, Channel::Mail]);

    folder.write_plan(&plan).unwrap();
    folder.write_state(&left).unwrap();
    for (file, before) in [("watch.json", PLAN_V1), ("state.json", STATE_V1)] {
        let after = fs::read_to_string(path(state.path()).join(file)).unwrap();
        let [mut before, after] = [before, &after].map(|text| serde_json::from_str::<Value>(text).unwrap());
        // Nobody is told by mail any more; where nobody was, nothing is lost.
        if let Some(channels) = before.get_mut("channels").and_then(Value::as_object_mut) {
            assert_eq!(channels.remove("mail"), Some(Value::Null));
        }
        assert_eq!(after, before, "{file}: what changes its form needs a version of its own");
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_and_left_alone() {
    let state = tempfile::tempdir().unwrap();
    let left = of_version(STATE_V1, 4);
    let folder = folder(state.path(), &of_version(PLAN_V1, 4), &left);
    for error in [folder.plan().unwrap_err(), folder.state().unwrap_err()] {
        assert!(matches!(error, WatchError::Newer { found: 4, known: 3, .. }), "{error:?}");
        assert_eq!(error.class(), ErrorClass::Refused);
    }
    assert_eq!(fs::read_to_string(path(state.path()).join("state.json")).unwrap(), left);
}
