//! The candidates of a space.

use heaptrial_search::tune::{Base, Level, Needs, Setting, Space};

fn setting(name: &str, values: &[&str]) -> Setting {
    let plain = Level { value: None, position: None };
    let given = values.iter().map(|value| Level { value: Some((*value).to_owned()), position: None });
    Setting {
        name: name.to_owned(),
        levels: std::iter::once(plain).chain(given).collect(),
        needs: Vec::new(),
        excludes: Vec::new(),
    }
}

fn space() -> Space {
    let mut threads = setting("threads", &["1", "2"]);
    threads.needs.push(Needs { setting: 0, value: "true".to_owned() });
    let mut other = setting("lg_max", &["3"]);
    other.excludes.push(2);
    let settings = vec![setting("background", &["true"]), threads, setting("max", &["8", "64"]), other];
    let base = |name: &str, settings| Base { name: name.to_owned(), family: "j".to_owned(), settings };
    Space { bases: vec![base("j@1", settings), base("j@2?fixed=1", vec![setting("max", &["8"])])] }
}

#[test]
fn every_candidate_is_there_once_and_nothing_that_does_nothing() {
    let space = space();
    let all = space.all(100).unwrap();
    // background off: 1; on: 3 of threads. Times unset, 2 of max, 1 of lg_max.
    assert_eq!(all.len(), 4 * 4 + 2);
    let names: Vec<String> = all.iter().map(|candidate| space.name(candidate)).collect();
    assert!(names.contains(&"j@1?background=true&threads=2&max=64".to_owned()), "{names:?}");
    assert!(names.contains(&"j@2?fixed=1&max=8".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("max=8&lg_max") || name.contains("j@1?threads")));
    assert_eq!(space.all(37), None);
}

#[test]
fn a_spec_is_found_in_whatever_order_it_has_its_settings() {
    let space = space();
    let found = |spec: &str| space.find(spec).map(|candidate| space.name(&candidate));
    let spec = "j@1?background=true&threads=2";
    assert_eq!(found("j@1?threads=2&background=true").as_deref(), Some(spec));
    assert_eq!(found("j@2?max=8&fixed=1").as_deref(), Some("j@2?fixed=1&max=8"));
    for other in ["j@1?threads=2", "j@1?max=9", "j@1?other=1", "j@2?max=8", "h"] {
        assert_eq!(found(other), None, "{other}");
    }
}

#[test]
fn what_may_not_be_left_at_its_default_is_set_in_all() {
    let mut space = space();
    space.bases[0].settings[2].levels.remove(0);
    let all = space.all(100).unwrap();
    assert!(all.iter().filter(|one| one.base == 0).all(|one| space.name(one).contains("max=")));
    // What excludes it is never set.
    assert!(!all.iter().any(|one| space.name(one).contains("lg_max")));
}
