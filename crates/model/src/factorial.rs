//! Two builds of an allocator crossed with values of settings.

use serde::{Deserialize, Serialize};

use crate::{AllocatorSpec, Setting};

/// Two builds, each with each level of the settings: one arm for each cell. Every arm states all settings, so that no
/// cell depends on what a version has by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorialDesign {
    /// The build that needs less, without settings.
    pub good: AllocatorSpec,
    /// The build that needs more, without settings.
    pub bad: AllocatorSpec,
    /// Values of the same settings in the same order.
    pub levels: Vec<SettingLevel>,
    /// The level that the good build has by default, where it is one of them.
    pub good_default: Option<usize>,
    /// The level that the bad build has by default, where it is one of them.
    pub bad_default: Option<usize>,
}

/// A value for each setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingLevel {
    /// The values.
    pub settings: Vec<Setting>,
}

/// Which of the two builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The one that needs less.
    Good,
    /// The one that needs more.
    Bad,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Good, Self::Bad];
}

impl std::fmt::Display for SettingLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = self.settings.iter().map(|setting| format!("{}={}", setting.name, setting.value));
        f.write_str(&pairs.collect::<Vec<_>>().join(" "))
    }
}

impl FactorialDesign {
    /// The build of a side.
    pub fn build(&self, side: Side) -> &AllocatorSpec {
        match side {
            Side::Good => &self.good,
            Side::Bad => &self.bad,
        }
    }

    /// The level that a side has by default.
    pub fn default_of(&self, side: Side) -> Option<usize> {
        match side {
            Side::Good => self.good_default,
            Side::Bad => self.bad_default,
        }
    }

    /// The spec of a cell.
    pub fn spec(&self, side: Side, level: usize) -> AllocatorSpec {
        AllocatorSpec { settings: self.levels[level].settings.clone(), ..self.build(side).clone() }
    }

    /// The cell that a spec is; a setting that it leaves out has its build's default.
    pub fn cell_of(&self, spec: &AllocatorSpec) -> Option<(Side, usize)> {
        let side = Side::BOTH.into_iter().find(|side| spec.without_settings() == *self.build(*side))?;
        let names = &self.levels.first()?.settings;
        if spec.settings.iter().any(|own| names.iter().all(|setting| setting.name != own.name)) {
            return None;
        }
        let value = |setting: &Setting| {
            let own = spec.settings.iter().find(|own| own.name == setting.name);
            let default = || {
                let level = &self.levels[self.default_of(side)?];
                level.settings.iter().find(|own| own.name == setting.name)
            };
            own.or_else(default).cloned()
        };
        let settings: Vec<Setting> = names.iter().map(value).collect::<Option<_>>()?;
        Some((side, self.levels.iter().position(|level| level.settings == settings)?))
    }

    /// The specs of all cells, the good build with its own default first: the control.
    pub fn specs(&self) -> Vec<AllocatorSpec> {
        let first = self.good_default.unwrap_or(0);
        let order = std::iter::once(first).chain((0..self.levels.len()).filter(|level| *level != first));
        let order: Vec<usize> = order.collect();
        Side::BOTH.iter().flat_map(|side| order.iter().map(|level| self.spec(*side, *level))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design() -> FactorialDesign {
        let level = |value: &str| SettingLevel {
            settings: vec![Setting { name: "purge_delay".into(), value: value.into() }],
        };
        FactorialDesign {
            good: "mimalloc@2.1.7".parse().unwrap(),
            bad: "mimalloc@3.0.1".parse().unwrap(),
            levels: vec![level("10"), level("2500"), level("0")],
            good_default: Some(0),
            bad_default: Some(1),
        }
    }

    #[test]
    fn every_spec_of_a_design_is_its_own_cell() {
        let design = design();
        let cells: Vec<_> = design.specs().iter().map(|spec| design.cell_of(spec).unwrap()).collect();
        assert_eq!(cells[0], (Side::Good, 0));
        let again: Vec<_> = cells.iter().map(|(side, level)| design.spec(*side, *level)).collect();
        assert_eq!(again, design.specs());
    }

    #[test]
    fn what_a_spec_leaves_out_is_the_default_and_off_treatment_are_in_no_cell() {
        let cell = |text: &str| design().cell_of(&text.parse().unwrap());
        assert_eq!(cell("mimalloc@3.0.1"), Some((Side::Bad, 1)));
        for other in
            ["glibc", "mimalloc@3.0.1?purge_delay=7", "mimalloc@3.0.1?verbose=1", "mimalloc@3.0.1+secure"]
        {
            assert_eq!(cell(other), None, "{other}");
        }
    }
}
