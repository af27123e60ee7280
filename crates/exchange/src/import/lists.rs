//! Which arms the files make, and who is in them.

use std::collections::HashSet;
use std::path::Path;

use heaptrial_model::{AllocatorSpec, Arm, Treatment};

use super::check_name;
use super::control::{self, Found};
use super::service::Service;
use crate::ImportError;
use crate::claimed;
use crate::problem::escape_name;
use crate::tables::RelayConfig;

/// The arm of services that nothing puts into an arm.
pub(crate) const EVERYTHING: &str = "all";

/// A member as a list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub name: String,
    pub fingerprint: Option<String>,
}

impl Member {
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), fingerprint: None }
    }
}

/// An arm and its members as named.
#[derive(Debug, Clone)]
pub(crate) struct WantedList {
    pub arm: Arm,
    pub members: Vec<Member>,
    pub source: String,
}

/// The arms that the files of an import ask for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub lists: Vec<WantedList>,
    /// Where they come from, as in `parameters.lists_from` of the trial: `files`, the `config`, a `column` of the measurements, a
    /// `label` of the series, or `nothing`.
    pub from: &'static str,
}

impl Wanted {
    /// Lists of files come before the configuration, that before the column of the measurements in `memory`.
    pub(super) fn of(
        groups: &[ServiceList],
        config: Option<&(String, Vec<RelayConfig>)>,
        services: &[Service],
        memory: &str,
    ) -> Result<Self, ImportError> {
        let (lists, from) = if !groups.is_empty() {
            (groups.iter().map(ServiceList::as_wanted).collect(), "files")
        } else if let Some(lists) = config.and_then(of_config) {
            (lists, "config")
        } else if let Some(lists) = of_column(services, memory) {
            (lists, "column")
        } else {
            let members = services.iter().map(|service| Member::named(&service.name)).collect();
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

    /// What the arms' names claim of their treatments, and which is the control.
    pub fn claim(&mut self, relays: &[RelayConfig], control: Option<&str>) -> Result<Found, ImportError> {
        for list in &mut self.lists {
            let configured: Vec<&RelayConfig> = relays.iter().filter(|relay| list.names(relay)).collect();
            list.arm.treatment.allocator = claimed::allocator(&list.arm.name, &configured);
        }
        let named = |name: &str| self.lists.iter().position(|list| list.arm.name == name);
        let chosen = match control {
            Some(name) => named(name).map(|index| (index, Found::Named)),
            None => control::find(&self.lists),
        };
        let Some((chosen, found)) = chosen else {
            let arms: Vec<&str> = self.lists.iter().map(|list| list.arm.name.as_str()).collect();
            return Err(ImportError::Refused(format!(
                "no arm is called `{}`; the arms are: {}",
                control.unwrap_or_default(),
                arms.join(", ")
            )));
        };
        self.lists[chosen].arm.control = true;
        Ok(found)
    }

    /// The arms, and where the list of each comes from.
    pub fn into_arms(self) -> (Vec<Arm>, Vec<String>) {
        self.lists.into_iter().map(|list| (list.arm, list.source)).unzip()
    }
}

impl WantedList {
    pub fn new(name: String, source: String, members: Vec<Member>) -> Self {
        let arm = Arm { name, control: false, treatment: Treatment::default() };
        Self { arm, members, source }
    }

    pub(super) fn names(&self, relay: &RelayConfig) -> bool {
        self.members.iter().any(|member| member.name == relay.nickname)
    }

    /// The allocator that its treatment claims.
    pub fn claimed_allocator(&self) -> Option<&AllocatorSpec> {
        self.arm.treatment.allocator.as_ref()
    }
}

fn of_config((file, relays): &(String, Vec<RelayConfig>)) -> Option<Vec<WantedList>> {
    let mut lists: Vec<WantedList> = Vec::new();
    for relay in relays {
        let Some(group) = &relay.group else { continue };
        let member = Member { name: relay.nickname.clone(), fingerprint: relay.fingerprint.clone() };
        put(&mut lists, group, file, member);
    }
    (!lists.is_empty()).then_some(lists)
}

/// A list for each group, in order of their names.
fn of_column(services: &[Service], file: &str) -> Option<Vec<WantedList>> {
    let mut lists: Vec<WantedList> = Vec::new();
    for service in services {
        let Some(group) = service.group() else { continue };
        put(&mut lists, group, file, Member::named(&service.name));
    }
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    (!lists.is_empty()).then_some(lists)
}

fn put(lists: &mut Vec<WantedList>, group: &str, file: &str, member: Member) {
    let name = escape_name(group);
    match lists.iter_mut().find(|list| list.arm.name == name) {
        Some(list) => list.members.push(member),
        None => lists.push(WantedList::new(name, format!("{file}, column `group`"), vec![member])),
    }
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
        let members = self.members.iter().map(|name| Member::named(name)).collect();
        WantedList::new(self.arm.clone(), self.file.clone(), members)
    }
}
