//! The settings of an allocator that a search tries.

use heaptrial_model::AllocatorSpec;

use super::levels::same;
use super::{Narrowed, SearchError, Searched};
use crate::catalog::{Catalog, Family, SettingEntry};
use crate::mitigation::MitigationState;

impl Catalog {
    /// The settings of a spec that a search tries, with their levels. Those of `named` are searched in place of the usual ones; what
    /// the spec sets by itself is not searched. Levels without a mitigation of `keep` are left out; an error where the build
    /// has it at no level.
    pub fn searched(
        &self,
        spec: &AllocatorSpec,
        named: &[Narrowed],
        keep: &[String],
    ) -> Result<Vec<Searched>, SearchError> {
        let resolved = self.resolve(spec)?;
        let family = &resolved.family;
        let version = spec.version.as_ref();
        let there = |entry: &&SettingEntry| version.is_none_or(|version| entry.range(version).is_some());
        let free = |entry: &&SettingEntry| spec.settings.iter().all(|setting| setting.name != entry.name);
        let asked = |entry: &SettingEntry| match named {
            [] => entry.search.as_ref().is_some_and(|search| search.usual),
            _ => named.iter().any(|narrowed| narrowed.name == entry.name),
        };
        let gives = |entry: &SettingEntry| {
            let mitigation = entry.search.as_ref().and_then(|search| search.mitigation.clone());
            mitigation.filter(|mitigation| keep.contains(&mitigation.name))
        };
        let mut found: Vec<Searched> = Vec::new();
        for entry in family.settings.iter().filter(there).filter(free) {
            let kept = gives(entry);
            if !asked(entry) && kept.is_none() {
                continue;
            }
            let own = named.iter().find(|narrowed| narrowed.name == entry.name);
            let mut all = entry.narrowed_levels(version, own)?;
            if let Some(kept) = kept {
                let default = entry.default_in(version);
                let absent = |value: Option<&str>| {
                    let value = value.or(default.as_deref());
                    value.is_none_or(|value| kept.absent_at.iter().any(|absent| same(absent, value)))
                };
                all.retain(|level| !absent(level.value.as_deref()));
                if !asked(entry) && all.first().is_some_and(|level| level.value.is_none()) {
                    continue;
                }
            }
            if all.len() > 1 || all.first().is_some_and(|level| level.value.is_some()) || all.is_empty() {
                found.push(Searched { name: entry.name.clone(), levels: all });
            }
        }
        for name in keep {
            self.keeps(spec, family, name, &found)?;
        }
        found.retain(|searched| !searched.levels.is_empty());
        Ok(found)
    }

    /// Whether a build has a mitigation at the levels that are left.
    fn keeps(
        &self,
        spec: &AllocatorSpec,
        family: &Family,
        name: &str,
        found: &[Searched],
    ) -> Result<(), SearchError> {
        if !crate::MITIGATIONS.contains(&name) {
            let known = crate::MITIGATIONS.iter().map(|known| (*known).to_owned()).collect();
            return Err(SearchError::UnknownMitigation { name: name.to_owned(), known });
        }
        let without = |by: Option<String>| {
            Err(SearchError::WithoutMitigation {
                spec: Box::new(spec.clone()),
                mitigation: name.to_owned(),
                by,
            })
        };
        let variants = spec.variants.iter().map(|variant| Some(variant.as_str())).chain([None]);
        let state = variants.map(|variant| family.mitigation(name, variant)).find_map(|cell| cell);
        if !state.is_some_and(|cell| matches!(cell.state, MitigationState::Yes | MitigationState::Partial)) {
            return without(None);
        }
        let by: Vec<&SettingEntry> = family
            .settings
            .iter()
            .filter(|entry| {
                let mitigation = entry.search.as_ref().and_then(|search| search.mitigation.as_ref());
                mitigation.is_some_and(|mitigation| mitigation.name == name)
            })
            .collect();
        let Some(first) = by.first() else { return Ok(()) };
        let there = by.iter().any(|entry| {
            let Some(mitigation) = entry.search.as_ref().and_then(|search| search.mitigation.as_ref()) else {
                return false;
            };
            let gives = |value: &str| !mitigation.absent_at.iter().any(|absent| same(absent, value));
            let fixed = spec.settings.iter().find(|setting| setting.name == entry.name);
            let searched = found.iter().find(|searched| searched.name == entry.name);
            match (fixed, searched) {
                (Some(fixed), _) => gives(&fixed.value),
                // Whatever lacks it was left out.
                (None, Some(searched)) => !searched.levels.is_empty(),
                (None, None) => {
                    entry.default_in(spec.version.as_ref()).is_some_and(|default| gives(&default))
                }
            }
        });
        if there { Ok(()) } else { without(Some(first.name.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::check_value;

    fn searched(spec: &str, named: &[&str], keep: &[&str]) -> Result<Vec<Searched>, SearchError> {
        let named = named.iter().map(|name| Narrowed { name: (*name).to_owned(), ..Narrowed::default() });
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        Catalog::builtin().searched(&spec.parse().unwrap(), &named.collect::<Vec<_>>(), &keep)
    }

    fn values(of: &Searched) -> Vec<&str> {
        of.levels.iter().map(|level| level.value.as_deref().unwrap_or("as it comes")).collect()
    }

    #[test]
    fn levels_are_the_values_of_the_catalog_without_the_default() {
        let glibc = searched("glibc", &["arena_max", "mmap_threshold"], &[]).unwrap();
        assert_eq!(values(&glibc[0]), ["as it comes", "1", "4", "8", "32", "64"]);
        // As it comes the threshold grows with what is freed, so that its default is a level of its own.
        assert_eq!(values(&glibc[1]), ["as it comes", "4096", "32768", "524288", "4194304", "33554432"]);
        let mimalloc = searched("mimalloc@2.1.7", &["purge_delay"], &[]).unwrap();
        assert_eq!(values(&mimalloc[0]), ["as it comes", "1", "100", "1000", "10000", "0", "-1"]);
    }

    #[test]
    fn values_that_somebody_names_stand_in_for_the_catalogs() {
        let spec = "glibc".parse().unwrap();
        let of = |narrowed: Narrowed| Catalog::builtin().searched(&spec, &[narrowed], &[]);
        let name = "trim_threshold".to_owned();
        let given = vec!["4096".to_owned(), "1000000".to_owned()];
        let found = of(Narrowed { name: name.clone(), values: given }).unwrap();
        assert_eq!(values(&found[0]), ["as it comes", "4096", "1000000"]);
        assert_eq!(found[0].levels[2].position, Some(1.0));
        let wrong = of(Narrowed { name, values: vec!["much".to_owned()] });
        assert!(wrong.unwrap_err().to_string().contains("`much` is not a value"));
    }

    #[test]
    fn only_settings_of_the_version_are_searched_and_not_what_is_set_already() {
        let names = |spec: &str| -> Vec<String> {
            searched(spec, &[], &[]).unwrap().into_iter().map(|searched| searched.name).collect()
        };
        let old = names("mimalloc@2.0.9");
        assert!(old.contains(&"decommit_delay".to_owned()) && !old.contains(&"purge_delay".to_owned()));
        assert!(names("mimalloc@2.1.7").contains(&"purge_delay".to_owned()));
        assert!(!names("mimalloc@2.1.7?purge_delay=0").contains(&"purge_delay".to_owned()));
    }

    #[test]
    fn a_mitigation_that_is_kept_leaves_out_what_lacks_it() {
        let kept = searched("jemalloc@5.3.0", &["dirty_decay_ms"], &["guard_pages"]).unwrap();
        let guard = kept.iter().find(|searched| searched.name == "san_guard_small").unwrap();
        assert!(guard.levels.iter().all(|level| level.value.as_deref().is_some_and(|value| value != "0")));
        let glibc = searched("glibc", &["tcache_count"], &["double_free_check"]).unwrap();
        assert!(!values(&glibc[0]).contains(&"0") && values(&glibc[0]).contains(&"as it comes"));
        assert!(searched("mimalloc@2.0.9+secure", &[], &["guard_pages"]).is_ok());
        for (spec, keep, told) in [
            ("mimalloc@2.0.9", "guard_pages", "has no guard_pages"),
            ("jemalloc@5.2.1", "guard_pages", "unless `san_guard_small` is set"),
            ("scudo", "quarantine", "unless `quarantine_size_kb` is set"),
            ("glibc", "armour", "no mitigation `armour`"),
        ] {
            let error = searched(spec, &[], &[keep]).unwrap_err().to_string();
            assert!(error.contains(told), "{spec}: {error}");
        }
    }

    #[test]
    fn every_level_of_the_catalog_is_a_value_of_its_setting() {
        for family in Catalog::builtin().families() {
            for entry in &family.settings {
                let at = format!("{}?{}", family.name, entry.name);
                let Some(search) = &entry.search else { continue };
                let numbers: Vec<f64> = search.numbers.iter().map(|value| value.parse().unwrap()).collect();
                assert!(numbers.is_sorted_by(|a, b| a < b), "{at}");
                for level in entry.search_levels(None).iter().filter_map(|level| level.value.as_ref()) {
                    check_value(entry, None, level).unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                let names = search.needs.iter().map(|needs| &needs.name).chain(&search.excludes);
                for other in names {
                    let before = family.settings.iter().take_while(|known| known.name != entry.name);
                    assert!(
                        before.into_iter().any(|known| known.name == *other),
                        "{at}: {other} stands after it"
                    );
                }
                if let Some(mitigation) = &search.mitigation {
                    assert!(crate::MITIGATIONS.contains(&mitigation.name.as_str()), "{at}");
                    assert!(family.mitigation(&mitigation.name, None).is_some(), "{at}");
                }
            }
        }
    }
}
