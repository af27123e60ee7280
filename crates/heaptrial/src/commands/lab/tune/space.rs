//! From allocators and settings to a space.

use std::collections::BTreeMap;

use heaptrial_allocator::{Catalog, Family, Narrowed, ResolveError, Searched, Tried};
use heaptrial_model::{AllocatorSpec, Setting as Given};
use heaptrial_search::tune::{Base, Candidate, Level, Needs, Rules, Setting, Space};
use serde::{Deserialize, Serialize};

use super::options::TuneOptions;
use crate::exit::Failure;

/// A space, as it was when the search began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) space: Space,
    pub(super) rules: Rules,
    /// The candidate that the control is.
    pub(super) control: Option<Candidate>,
}

/// Spaces up to this size are counted.
const COUNTED: usize = 100_000;

impl Found {
    /// How many candidates there are besides the control; `None` of more than can be counted.
    pub(super) fn size(&self) -> Option<usize> {
        self.space.all(COUNTED).map(|all| all.len() - usize::from(self.control.is_some()))
    }

    /// Of what the options ask for.
    pub(super) fn of(options: &TuneOptions) -> Result<Self, Failure> {
        let over = &options.over;
        if over.is_empty() {
            return Err(Failure::usage("which allocators? Name them with --over SPEC,SPEC"));
        }
        let is_again = |(at, spec): &(usize, &AllocatorSpec)| {
            over[..*at].iter().any(|other| other.without_settings() == spec.without_settings())
        };
        if let Some((_, spec)) = over.iter().enumerate().find(is_again) {
            let bare = spec.without_settings();
            return Err(Failure::usage(format!(
                "--over names {bare} twice; name it once, and what is tried of it with --setting"
            )));
        }
        named_somewhere(over, &options.settings)?;
        let bases = over.iter().map(|spec| base(spec, options)).collect::<Result<_, _>>()?;
        let space = Space { bases };
        let control = space.find(&options.control.to_string());
        let found = Self { rules: options.rules()?, space, control };
        let nothing =
            found.space.all(1).is_some_and(|all| all.iter().all(|one| Some(one) == found.control.as_ref()));
        if nothing {
            return Err(Failure::usage(format!(
                "there is nothing to search: no candidate is left besides the control, {}\n  name more with --over or --setting",
                options.control
            )));
        }
        Ok(found)
    }
}

/// Refuses a setting that none of the allocators has.
fn named_somewhere(over: &[AllocatorSpec], settings: &[Narrowed]) -> Result<(), Failure> {
    for narrowed in settings {
        let has = |spec: &AllocatorSpec| {
            let family = Catalog::builtin().family(&spec.family);
            let entry = family.and_then(|family| family.setting(&narrowed.name));
            let there = |version| entry.is_some_and(|entry| entry.range(version).is_some());
            spec.version.as_ref().map_or(entry.is_some(), there)
        };
        if !over.iter().any(has) {
            let over: Vec<String> = over.iter().map(ToString::to_string).collect();
            return Err(Failure::usage(format!(
                "none of {} has a setting `{}`; `heaptrial allocators list FAMILY` shows what there is",
                over.join(", "),
                narrowed.name
            )));
        }
    }
    Ok(())
}

fn base(spec: &AllocatorSpec, options: &TuneOptions) -> Result<Base, ResolveError> {
    let catalog = Catalog::builtin();
    let settings = &options.settings;
    // An allocator of which none of the named settings is has nothing but what it is.
    let family = catalog.resolve(spec)?.family;
    let foreign = !settings.is_empty() && !settings.iter().any(|own| family.setting(&own.name).is_some());
    let searched = match foreign {
        true => Vec::new(),
        false => catalog.searched(spec, settings)?,
    };
    Ok(Base {
        name: spec.to_string(),
        family: spec.family.clone(),
        settings: settings_of(spec, &family, searched),
    })
}

/// Those that can do something, with what they need and exclude.
fn settings_of(spec: &AllocatorSpec, family: &Family, searched: Vec<Searched>) -> Vec<Setting> {
    let none = Tried::default();
    let range = |name: &str| family.setting(name).and_then(|entry| entry.search.as_ref()).unwrap_or(&none);
    let fixed = |name: &str| spec.settings.iter().find(|setting| setting.name == name);
    let is_there = |name: &str| searched.iter().any(|searched| searched.name == name);
    let met = |needs: &Given| {
        is_there(&needs.name) || fixed(&needs.name).is_some_and(|fixed| fixed.value == needs.value)
    };
    let useful = searched.iter().filter(|searched| {
        let range = range(&searched.name);
        range.needs.iter().all(met) && !range.excludes.iter().any(|other| fixed(other).is_some())
    });
    let useful: Vec<&Searched> = useful.collect();
    let positions: BTreeMap<&str, usize> =
        useful.iter().enumerate().map(|(at, searched)| (searched.name.as_str(), at)).collect();
    let setting = |searched: &&Searched| {
        let range = range(&searched.name);
        let needs = range.needs.iter().filter_map(|needs| {
            let setting = *positions.get(needs.name.as_str())?;
            Some(Needs { setting, value: needs.value.clone() })
        });
        let excludes = range.excludes.iter().filter_map(|other| positions.get(other.as_str()).copied());
        let levels = searched.levels.iter();
        Setting {
            name: searched.name.clone(),
            levels: levels
                .map(|level| Level { value: level.value.clone(), position: level.position })
                .collect(),
            needs: needs.collect(),
            excludes: excludes.collect(),
        }
    };
    useful.iter().map(setting).collect()
}
