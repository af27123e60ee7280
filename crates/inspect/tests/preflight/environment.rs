use crate::fixture::{Fixture, LIBRARY};
use heaptrial_inspect::preflight::Check;

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn what_the_treatment_takes_away_is_announced_with_its_value() {
    let mut fixture = Fixture::new();
    fixture.unit().environment = vec![pair("MALLOC_ARENA_MAX", "2")];
    fixture.is_fine();
    fixture.preload().unset = vec!["MALLOC_ARENA_MAX".to_owned()];
    fixture.warns(Check::ForeignSetting, "MALLOC_ARENA_MAX is `2` today and is removed");

    let mut fixture = Fixture::new();
    fixture.unit().environment = vec![pair("LD_PRELOAD", "libjemalloc.so.1 libjemalloc.so.2")];
    let replaced =
        format!("LD_PRELOAD is `libjemalloc.so.1 libjemalloc.so.2` today and is replaced by `{LIBRARY}`");
    fixture.warns(Check::PresentPreload, &replaced);
    fixture.own_c_library();
    fixture.preload().unset = vec!["LD_PRELOAD".to_owned()];
    fixture.warns(Check::PresentPreload, "and is removed");
    // What Heaptrial itself applied is reported as such.
    fixture.unit().environment = vec![pair("LD_PRELOAD", LIBRARY)];
    fixture.is_fine();
}

#[test]
fn a_process_whose_environment_was_cleared_is_refused() {
    let mut fixture = Fixture::new();
    fixture.environ("PATH=/bin\0LANG=C\0");
    fixture.refuses(Check::Environment, "what starts it clears the environment");
    fixture.unit().environment = vec![pair("LANG", "C")];
    fixture.is_fine();
    // Overwritten by the title of the process: nothing is known.
    fixture.unit().environment.clear();
    fixture.environ("thing: worker\0\0\0");
    fixture.is_fine();
}
