//! Which arms the files make, and who is in them.

use std::collections::HashSet;
use std::path::Path;

use heaptrial_model::{AllocatorSpec, Arm, Treatment};
use heaptrial_store::{ImportedService, ImportedTrial};
use serde_json::Value;

use super::check_name;
use super::control::{self, Found};
use super::files::Files;
use super::merge::MergedService;
use super::piece::earlier_nicknames;
use crate::ImportError;
use crate::claimed;
use crate::torutils::{GroupFile, RelayConfig};

/// The arm of services that nothing puts into an arm.
const EVERYTHING: &str = "all";

/// Where the lists come from, as `parameters.lists_from` of the trial tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListsFrom {
    Files,
    /// The column `group` of the configuration.
    Config,
    /// The column `group` of the measurements.
    Column,
    /// Nothing: all services are in one arm.
    Nothing,
}

impl ListsFrom {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Config => "config",
            Self::Column => "column",
            Self::Nothing => "nothing",
        }
    }
}

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
    pub earlier_list_of: Option<usize>,
    pub members: Vec<Member>,
    pub source: String,
}

/// The arms that the files of an import ask for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub lists: Vec<WantedList>,
    pub from: ListsFrom,
}

impl Wanted {
    /// Lists of files come before the configuration, that before the column of the measurements.
    pub(super) fn of(files: &Files) -> Result<Self, ImportError> {
        let (lists, from) = if !files.groups.is_empty() {
            (of_files(files), ListsFrom::Files)
        } else if let Some(lists) = of_config(files) {
            (lists, ListsFrom::Config)
        } else if let Some(lists) = of_column(files) {
            (lists, ListsFrom::Column)
        } else {
            (
                vec![WantedList::new(EVERYTHING.to_owned(), String::new(), everything(files))],
                ListsFrom::Nothing,
            )
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
                return Err(ImportError::DuplicateList(list.arm.name.clone()));
            }
        }
        Ok(())
    }

    /// Says who is in which arm, now that it is known what is one service, and chooses the control.
    pub(super) fn settle(
        &mut self,
        services: &[MergedService],
        relays: &[RelayConfig],
        control: Option<&str>,
    ) -> Result<Found, ImportError> {
        match self.from {
            ListsFrom::Files | ListsFrom::Config => {}
            ListsFrom::Column => {
                let source = self.lists.first().map(|list| list.source.clone()).unwrap_or_default();
                self.lists = by_group(services, &source);
            }
            ListsFrom::Nothing => {
                let members = services.iter().map(|service| Member::named(&service.name)).collect();
                self.lists = vec![WantedList::new(EVERYTHING.to_owned(), String::new(), members)];
            }
        }
        self.claim(relays, control)
    }

    /// What the arms' names claim of their treatments, and which is the control.
    pub fn claim(&mut self, relays: &[RelayConfig], control: Option<&str>) -> Result<Found, ImportError> {
        let names: Vec<String> = self.lists.iter().map(|list| list.arm.name.clone()).collect();
        for list in &mut self.lists {
            let name = &list.arm.name;
            let of = name.strip_suffix("_historical").or_else(|| name.strip_suffix("-historical"));
            list.earlier_list_of = of.and_then(|of| names.iter().position(|name| name == of));
            let configured: Vec<&RelayConfig> = relays.iter().filter(|relay| list.names(relay)).collect();
            list.arm.treatment = claimed::treatment(name, &configured);
        }
        self.choose_control(control, relays)
    }

    /// The arms of the stored trial, for an import that names none.
    pub fn adopt(&mut self, stored: &ImportedTrial, control: Option<&str>) -> Result<Found, ImportError> {
        self.lists = stored
            .lists
            .iter()
            .map(|list| WantedList {
                arm: list.arm.clone(),
                earlier_list_of: list.earlier_list_of,
                members: list
                    .members
                    .iter()
                    .filter_map(|index| stored.services.get(*index))
                    .map(|service| Member::named(&service.name))
                    .collect(),
                source: list.source.clone(),
            })
            .collect();
        match control {
            Some(_) => self.choose_control(control, &[]),
            None => Ok(Found::Told),
        }
    }

    /// How these lists differ from those of a stored trial; `None` if data can be added to it.
    pub fn difference(&self, stored: &ImportedTrial) -> Option<String> {
        let stored_from =
            stored.plan.parameters.get("lists_from").and_then(Value::as_str).unwrap_or_default();
        match self.from {
            // Nothing is asked for.
            ListsFrom::Nothing => return None,
            // A longer file may name new relays, and new groups.
            ListsFrom::Column if stored_from == "column" => return None,
            // Groups that are told at last must be told of all.
            ListsFrom::Column if stored_from == "nothing" => {
                let named: HashSet<&str> = self
                    .lists
                    .iter()
                    .flat_map(|list| &list.members)
                    .map(|member| member.name.as_str())
                    .collect();
                let left =
                    stored.services.iter().filter(|service| !named.contains(nickname(service))).count();
                return (left > 0).then(|| format!("{left} services there are in no group here"));
            }
            _ => {}
        }
        if self.lists.len() != stored.lists.len() {
            return Some(format!("{} arms there, {} here", stored.lists.len(), self.lists.len()));
        }
        self.lists.iter().find_map(|list| {
            let Some(other) = stored.lists.iter().find(|other| other.arm.name == list.arm.name) else {
                return Some(format!("no arm `{}` there", list.arm.name));
            };
            let services: Vec<&ImportedService> =
                other.members.iter().filter_map(|index| stored.services.get(*index)).collect();
            // The case of nicknames says nothing.
            let names = |service: &&ImportedService| {
                let mut names = earlier_nicknames(service);
                names.extend([service.name.clone(), nickname(service).to_owned()]);
                names.into_iter().map(|name| name.to_lowercase())
            };
            let by_name: HashSet<String> = services.iter().flat_map(names).collect();
            let named: HashSet<String> =
                list.members.iter().map(|member| member.name.to_lowercase()).collect();
            let here = named.iter().filter(|name| !by_name.contains(*name)).count();
            let there =
                services.iter().filter(|service| names(service).all(|name| !named.contains(&name))).count();
            (here + there > 0)
                .then(|| format!("arm `{}`: {here} members are only here, {there} only there", list.arm.name))
        })
    }

    fn choose_control(
        &mut self,
        control: Option<&str>,
        relays: &[RelayConfig],
    ) -> Result<Found, ImportError> {
        let present = || self.lists.iter().enumerate().filter(|(_, list)| list.earlier_list_of.is_none());
        let chosen = match control {
            Some(name) => {
                present().find(|(_, list)| list.arm.name == name).map(|(index, _)| (index, Found::Told))
            }
            None => control::find(&self.lists, relays),
        };
        let Some((chosen, found)) = chosen else {
            let arms: Vec<&str> = present().map(|(_, list)| list.arm.name.as_str()).collect();
            return Err(ImportError::UnknownControl {
                control: control.unwrap_or_default().to_owned(),
                arms: arms.join(", "),
            });
        };
        for (index, list) in self.lists.iter_mut().enumerate() {
            list.arm.control = index == chosen;
        }
        Ok(found)
    }
}

impl WantedList {
    pub fn new(name: String, source: String, members: Vec<Member>) -> Self {
        let arm = Arm { name, control: false, treatment: Treatment::default() };
        Self { arm, earlier_list_of: None, members, source }
    }

    pub(super) fn names(&self, relay: &RelayConfig) -> bool {
        self.members.iter().any(|member| member.name == relay.nickname)
    }

    /// The allocator that its treatment claims.
    pub fn claimed_allocator(&self) -> Option<&AllocatorSpec> {
        self.arm.treatment.allocator.as_ref()
    }
}

/// The nickname of a stored service.
pub(super) fn nickname(service: &ImportedService) -> &str {
    service.attributes.get("nickname").and_then(Value::as_str).unwrap_or(&service.name)
}

fn of_files(files: &Files) -> Vec<WantedList> {
    let members = |group: &GroupFile| group.members.iter().map(|name| Member::named(name)).collect();
    files
        .groups
        .iter()
        .map(|(name, file, group)| WantedList::new(name.clone(), file.clone(), members(group)))
        .collect()
}

fn of_config(files: &Files) -> Option<Vec<WantedList>> {
    let (file, relays) = files.config.as_ref()?;
    let mut lists: Vec<WantedList> = Vec::new();
    for relay in relays {
        let Some(group) = &relay.group else { continue };
        let name = crate::problem::escape_name(group);
        let member = Member { name: relay.nickname.clone(), fingerprint: relay.fingerprint.clone() };
        match lists.iter_mut().find(|list| list.arm.name == name) {
            Some(list) => list.members.push(member),
            None => lists.push(WantedList::new(name, format!("{file}, column `group`"), vec![member])),
        }
    }
    (!lists.is_empty()).then_some(lists)
}

fn of_column(files: &Files) -> Option<Vec<WantedList>> {
    let memory = files.sources.first().map_or("", |source| &source.file);
    let source = format!("{memory}, column `group`");
    let services = files.measurements.services.iter();
    let lists = in_groups(
        services.map(|service| {
            let group =
                service.groups.iter().map(|(_, group)| group.as_str()).rfind(|group| !group.is_empty());
            (service.nickname.as_str(), group)
        }),
        &source,
    );
    (!lists.is_empty()).then_some(lists)
}

fn by_group(services: &[MergedService], source: &str) -> Vec<WantedList> {
    in_groups(services.iter().map(|service| (service.name.as_str(), service.group())), source)
}

/// A list for each group, in order of their names.
fn in_groups<'a>(members: impl Iterator<Item = (&'a str, Option<&'a str>)>, source: &str) -> Vec<WantedList> {
    let mut lists: Vec<WantedList> = Vec::new();
    for (member, group) in members {
        let Some(group) = group else { continue };
        let name = crate::problem::escape_name(group);
        let member = Member::named(member);
        match lists.iter_mut().find(|list| list.arm.name == name) {
            Some(list) => list.members.push(member),
            None => lists.push(WantedList::new(name, source.to_owned(), vec![member])),
        }
    }
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    lists
}

fn everything(files: &Files) -> Vec<Member> {
    files.measurements.services.iter().map(|service| Member::named(&service.nickname)).collect()
}

/// A list of services by any name, one a line, and the arm that it is: the file's stem. What follows a `#` is a comment.
pub(crate) fn list_of_names(path: &Path) -> Result<(String, Vec<String>), ImportError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let arm = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok((arm, lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()))
}
