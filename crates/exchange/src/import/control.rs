//! Which arm the others are compared to, where nobody says so.

use super::lists::WantedList;

/// Words that call an arm the control.
const CALLED: [&str; 2] = ["control", "baseline"];

/// The control among the arms of `lists`: the first that is called so,
/// else the one that claims glibc with the least beside it, else the only one that claims no allocator, else the first. Gives
/// whether anything names it so.
pub(super) fn find(lists: &[WantedList]) -> Option<(usize, bool)> {
    let all = || 0..lists.len();
    let first = |fits: &dyn Fn(&WantedList) -> bool| all().find(|index| fits(&lists[*index]));
    let named = first(&is_called)
        .or_else(|| {
            let of_glibc = all().filter(|index| is_glibc(&lists[*index]));
            of_glibc.min_by_key(|index| beside_glibc(&lists[*index].arm.name))
        })
        .or_else(|| {
            let mut without = all().filter(|index| lists[*index].claimed_allocator().is_none());
            without.next().filter(|_| without.next().is_none() && lists.len() > 1)
        });
    match named {
        Some(index) => Some((index, true)),
        None => all().next().map(|index| (index, false)),
    }
}

fn is_called(list: &WantedList) -> bool {
    let name = list.arm.name.to_lowercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.any(|word| CALLED.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit())))
}

fn is_glibc(list: &WantedList) -> bool {
    list.claimed_allocator().is_some_and(|spec| spec.family == "glibc")
}

/// Letters behind `glibc` in a name: a setting or a second allocator, such as in `glibc-2.41-arena-max-1`.
fn beside_glibc(name: &str) -> usize {
    let name = name.to_lowercase();
    let rest = name.split_once("glibc").map_or("", |(_, rest)| rest);
    let rest = rest.trim_start_matches(['-', '_', '@', ' ']);
    // `v2.41` is a version.
    let rest = rest.strip_prefix('v').unwrap_or(rest);
    rest.chars().filter(|c| c.is_alphabetic()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::lists::Wanted;

    fn control(names: &[&str]) -> (String, bool) {
        let lists: Vec<WantedList> =
            names.iter().map(|name| WantedList::new((*name).to_owned(), String::new(), Vec::new())).collect();
        let mut wanted = Wanted { lists, from: "files" };
        let found = wanted.claim(None).unwrap();
        let chosen: Vec<&str> =
            wanted.lists.iter().filter(|list| list.arm.control).map(|list| list.arm.name.as_str()).collect();
        assert_eq!(chosen.len(), 1);
        (chosen[0].to_owned(), found)
    }

    #[test]
    fn the_arm_that_is_called_so_or_runs_the_plain_c_library() {
        for (names, expected) in [
            (&["group_D_jemalloc", "group_E_glibc", "group_A_mimalloc301"][..], "group_E_glibc"),
            (&["glibc-2.41-arena-max-1", "glibc-2.41", "jemalloc-5.3.0"], "glibc-2.41"),
            (&["glibc_v2.41", "glibc_trim"], "glibc_v2.41"),
            (&["glibc-arena1", "control", "jemalloc-5.3.0"], "control"),
            (&["new", "Control2", "old"], "Control2"),
            (&["after", "baseline", "tuned"], "baseline"),
            (&["jemalloc_glibc241", "mimalloc_glibc241", "plain_glibc241"], "plain_glibc241"),
            (&["jemalloc", "stock", "mimalloc209"], "stock"),
            (&["glibc_historical", "glibc", "jemalloc"], "glibc"),
            (&["uncontrolled_jemalloc", "glibc"], "glibc"),
        ] {
            assert_eq!(control(names), (expected.to_owned(), true), "{names:?}");
        }
        for names in [&["A", "B", "C"][..], &["all"], &["jemalloc-5.3.0", "mimalloc209"], &["größe", "новый"]]
        {
            assert_eq!(control(names), (names[0].to_owned(), false), "{names:?}");
        }
    }
}
