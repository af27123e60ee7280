//! Allocators that size themselves by the number of processors, as on a host with another number of them.

use heaptrial_model::{AllocatorSpec, Setting};
use serde::Deserialize;

use crate::catalog::Catalog;

/// Whether and how a family sizes itself by the number of processors; `[family.processors]` in `catalog.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSizing {
    pub setting: Option<String>,
    #[serde(default)]
    pub each: u32,
    pub on_one: Option<u32>,
    #[serde(default)]
    pub not_with: Vec<Setting>,
    pub about: String,
    pub source: String,
}

/// How an allocator runs as on a number of processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOn {
    pub spec: AllocatorSpec,
    pub how: String,
    pub is_impossible: bool,
}

impl Catalog {
    /// What makes the allocator of a spec run as on a number of processors.
    pub fn as_on(&self, spec: &AllocatorSpec, processors: u32) -> AsOn {
        let as_it_is = |how| AsOn { spec: spec.clone(), how, is_impossible: false };
        let impossible = |why: String| AsOn {
            is_impossible: true,
            ..as_it_is(format!("as on the processors that are there: {why}"))
        };
        let Some(sizing) = self.family(&spec.family).and_then(|family| family.processors.as_ref()) else {
            return impossible(format!(
                "it is not known whether {} sizes itself by the number of processors",
                spec.family
            ));
        };
        let Some(name) = &sizing.setting else {
            return as_it_is(format!("not sized by processors: {}", sizing.about));
        };
        let set = |name: &str| spec.settings.iter().find(|setting| setting.name == name);
        let in_the_way = |harmless: &&Setting| set(&harmless.name).is_some_and(|own| own != *harmless);
        if let Some(other) = sizing.not_with.iter().find(in_the_way) {
            return impossible(format!("its setting `{}` goes by them, whatever {name} is", other.name));
        }
        if let Some(own) = set(name) {
            return as_it_is(format!("its own setting: {name}={}", own.value));
        }
        let value = match (processors, sizing.on_one) {
            (1, Some(value)) => value,
            _ => sizing.each.saturating_mul(processors),
        };
        let mut as_on = as_it_is(format!("as on {processors} processors: {name}={value}"));
        as_on.spec.settings.push(Setting { name: name.clone(), value: value.to_string() });
        as_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_on(spec: &str, processors: u32) -> (String, String) {
        let spec = spec.parse().unwrap();
        let as_on = Catalog::builtin().as_on(&spec, processors);
        (as_on.spec.to_string(), as_on.how)
    }

    #[test]
    fn allocators_that_go_by_processors_are_given_what_they_would_find() {
        let (spec, shown) = as_on("glibc@2.36", 64);
        assert_eq!(shown, "as on 64 processors: arena_max=512");
        assert_eq!(spec, "glibc@2.36?arena_max=512");
        assert_eq!(
            as_on("jemalloc@5.3.0?dirty_decay_ms=0", 64).0,
            "jemalloc@5.3.0?dirty_decay_ms=0&narenas=256"
        );
        assert_eq!(as_on("glibc", 1).0, "glibc?arena_max=8");
        assert_eq!(as_on("jemalloc@5.3.0", 1).0, "jemalloc@5.3.0?narenas=1");
    }

    #[test]
    fn an_arm_keeps_its_own_and_what_cannot_be_done_is_said() {
        assert_eq!(as_on("glibc?arena_max=1", 64).1, "its own setting: arena_max=1");
        let (spec, shown) = as_on("jemalloc@5.3.0?percpu_arena=percpu", 64);
        assert_eq!(spec, "jemalloc@5.3.0?percpu_arena=percpu");
        assert!(
            shown.contains("as on the processors that are there") && shown.contains("percpu_arena"),
            "{shown}"
        );
        assert_eq!(as_on("jemalloc@5.3.0?percpu_arena=disabled", 2).1, "as on 2 processors: narenas=8");
        let (spec, shown) = as_on("hardened_malloc", 64);
        assert!(spec == "hardened_malloc" && shown.contains("not known"), "{shown}");
    }
}
