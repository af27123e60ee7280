//! Which arms the files make, and who is in them.

use std::collections::HashSet;
use std::path::Path;

use heaptrial_model::{AllocatorSpec, Arm, Treatment};

use super::check_name;
use super::control;
use super::service::Service;
use crate::ImportError;
use crate::claimed;
use crate::problem::escape_name;

/// The arm of services that nothing puts into an arm.
pub(crate) const EVERYTHING: &str = "all";

/// An arm and its members as named.
#[derive(Debug, Clone)]
pub(crate) struct WantedList {
    pub arm: Arm,
    pub members: Vec<String>,
    pub source: String,
}

/// The arms that the files of an import ask for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub lists: Vec<WantedList>,
    /// Where they come from, as in `parameters.lists_from` of the trial: `files`, a `column` of the measurements, a
    /// `label` of the series, or `nothing`.
    pub from: &'static str,
}

impl Wanted {
    /// Lists of files come before the column of the measurements in `memory`.
    pub(super) fn of(
        groups: &[ServiceList],
        services: &[Service],
        memory: &str,
    ) -> Result<Self, ImportError> {
        let (lists, from) = if !groups.is_empty() {
            (groups.iter().map(ServiceList::as_wanted).collect(), "files")
        } else if let Some(lists) = of_column(services, memory) {
            (lists, "column")
        } else {
            let members = services.iter().map(|service| service.name.clone()).collect();
            let everything = WantedList::new(EVERYTHING.to_owned(), String::new(), members);
            (vec![everything], "nothing")
        };
        let wanted = Self { lists, from };
        wanted.check_names()?;
        Ok(wanted)
    }

    /// Whether every arm has a name, and one of its own.
    pub fn check_names(&self) -> Result<(), ImportError> {
        let mut seen = HashSet::new();
        for list in &self.lists {
            check_name(&list.arm.name)?;
            if !seen.insert(list.arm.name.clone()) {
                let name = &list.arm.name;
                return Err(ImportError::Refused(format!(
                    "two lists of services are called `{name}`; give each list (arm) a name of its own"
                )));
            }
        }
        Ok(())
    }

    /// What the arms' names claim of their allocators, and which is the control. Gives whether anything names it so.
    pub fn claim(&mut self, control: Option<&str>) -> Result<bool, ImportError> {
        for list in &mut self.lists {
            list.arm.treatment.allocator = claimed::allocator_in(&list.arm.name);
        }
        let named = |name: &str| self.lists.iter().position(|list| list.arm.name == name);
        let chosen = match control {
            Some(name) => named(name).map(|index| (index, true)),
            None => control::find(&self.lists),
        };
        let Some((chosen, is_named)) = chosen else {
            let arms: Vec<&str> = self.lists.iter().map(|list| list.arm.name.as_str()).collect();
            return Err(ImportError::Refused(format!(
                "no arm is called `{}`; the arms are: {}",
                control.unwrap_or_default(),
                arms.join(", ")
            )));
        };
        self.lists[chosen].arm.control = true;
        Ok(is_named)
    }

    pub fn into_arms(self) -> (Vec<Arm>, Vec<String>) {
        self.lists.into_iter().map(|list| (list.arm, list.source)).unzip()
    }
}

impl WantedList {
    pub fn new(name: String, source: String, members: Vec<String>) -> Self {
        let arm = Arm { name, control: false, treatment: Treatment::default() };
        Self { arm, members, source }
    }

    pub fn claimed_allocator(&self) -> Option<&AllocatorSpec> {
        self.arm.treatment.allocator.as_ref()
    }
}

/// A list for each group, in order of their names.
fn of_column(services: &[Service], file: &str) -> Option<Vec<WantedList>> {
    let mut lists: Vec<WantedList> = Vec::new();
    for service in services {
        let Some(group) = service.group() else { continue };
        let name = escape_name(group);
        match lists.iter_mut().find(|list| list.arm.name == name) {
            Some(list) => list.members.push(service.name.clone()),
            None => {
                let source = format!("{file}, column `group`");
                lists.push(WantedList::new(name, source, vec![service.name.clone()]));
            }
        }
    }
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    (!lists.is_empty()).then_some(lists)
}

/// A list of services, one a line. What follows a `#` is a comment.
pub(crate) struct ServiceList {
    /// The arm that it is: the stem of the file.
    pub arm: String,
    file: String,
    pub members: Vec<String>,
}

impl ServiceList {
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let bytes = std::fs::read(path).map_err(|error| ImportError::unreadable(path, &error))?;
        Ok(Self::of(path, &bytes))
    }

    pub(super) fn of(path: &Path, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.trim_start_matches('\u{feff}').lines();
        let names = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
        Self {
            arm: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
            file: path.display().to_string(),
            members: names.filter(|name| !name.is_empty()).map(escape_name).collect(),
        }
    }

    pub fn as_wanted(&self) -> WantedList {
        WantedList::new(self.arm.clone(), self.file.clone(), self.members.clone())
    }
}
