//! From the properties of org.freedesktop.systemd1(5) to a [`Unit`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use heaptrial_model::ServiceName;
use zbus::zvariant::{Array, Structure, Value};

use super::{BindPath, Sandbox, Unit, UnitEnvironment, UnitStatus, name};
use crate::Scope;

/// Properties of one object, name to value. What is missing, as with an older systemd, reads as empty.
pub(super) struct Properties<'m>(pub(super) HashMap<&'m str, Value<'m>>);

impl<'m> Properties<'m> {
    fn value<T: TryFrom<&'m Value<'m>>>(&'m self, name: &str) -> Option<T> {
        self.0.get(name).and_then(|value| T::try_from(value).ok())
    }

    fn text(&'m self, name: &str) -> String {
        self.value::<&str>(name).unwrap_or_default().to_owned()
    }

    fn path(&'m self, name: &str) -> Option<PathBuf> {
        self.value::<&str>(name).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    fn flag(&'m self, name: &str) -> bool {
        self.value(name).unwrap_or_default()
    }

    pub(super) fn items(&'m self, name: &str) -> &'m [Value<'m>] {
        match self.0.get(name) {
            Some(Value::Array(array)) => array.inner(),
            _ => &[],
        }
    }

    pub(super) fn texts(&'m self, name: &str) -> Vec<String> {
        texts(self.items(name))
    }

    /// A number of bytes, where the greatest one stands for no limit.
    fn limit_bytes(&'m self, name: &str) -> Option<u64> {
        self.value::<u64>(name).filter(|bytes| *bytes != u64::MAX)
    }

    pub(super) fn unit(&'m self, asked: &ServiceName, scope: Scope) -> Unit {
        let name = self.text("Id").parse().unwrap_or_else(|_| asked.clone());
        Unit {
            scope,
            description: self.text("Description"),
            template: name::template_and_instance(name.as_str()),
            name,
            load_state: self.text("LoadState"),
            unit_file: self.path("FragmentPath"),
            drop_ins: self.drop_ins(),
            service_type: self.text("Type"),
            exec_start: self.items("ExecStart").iter().filter_map(command).collect(),
            user: self.text("User"),
            environment: self.environment(),
            environment_files: self.items("EnvironmentFiles").iter().filter_map(file).collect(),
            unset_environment: self.texts("UnsetEnvironment"),
            // MemoryLimit is its name for control groups of version 1.
            memory_max_bytes: ["MemoryMax", "MemoryLimit"]
                .iter()
                .filter_map(|name| self.limit_bytes(name))
                .min(),
            sandbox: self.sandbox(),
            remain_after_exit: self.flag("RemainAfterExit"),
            refuse_manual_start: self.flag("RefuseManualStart"),
            refuse_manual_stop: self.flag("RefuseManualStop"),
            needs_reload: self.flag("NeedDaemonReload"),
            status: self.status(),
        }
    }

    fn drop_ins(&'m self) -> Vec<PathBuf> {
        self.texts("DropInPaths").into_iter().map(PathBuf::from).collect()
    }

    fn environment(&'m self) -> Vec<(String, String)> {
        self.texts("Environment").iter().filter_map(|entry| variable(entry)).collect()
    }

    fn main_pid(&'m self) -> Option<i32> {
        self.value::<u32>("MainPID").filter(|pid| *pid > 0).and_then(|pid| pid.try_into().ok())
    }

    pub(super) fn unit_environment(&'m self) -> UnitEnvironment {
        UnitEnvironment {
            drop_ins: self.drop_ins(),
            set: self.environment(),
            unset: self.texts("UnsetEnvironment"),
        }
    }

    /// A unit without a job has number 0 there.
    fn job(&'m self) -> Option<u32> {
        match fields(self.0.get("Job")?).first() {
            Some(Value::U32(number)) if *number != 0 => Some(*number),
            _ => None,
        }
    }

    pub(super) fn status(&'m self) -> UnitStatus {
        let byte = |item: &Value<'_>| if let Value::U8(byte) = item { Some(*byte) } else { None };
        let id: Vec<u8> = self.items("InvocationID").iter().filter_map(byte).collect();
        UnitStatus {
            active_state: self.text("ActiveState"),
            sub_state: self.text("SubState"),
            main_pid: self.main_pid(),
            control_group: self.text("ControlGroup"),
            restarts: self.value("NRestarts").unwrap_or_default(),
            result: self.text("Result"),
            exec_main_code: self.value("ExecMainCode").unwrap_or_default(),
            exec_main_status: self.value("ExecMainStatus").unwrap_or_default(),
            invocation_id: hex::encode(id),
            job: self.job(),
        }
    }

    fn sandbox(&'m self) -> Sandbox {
        let bound = ["BindPaths", "BindReadOnlyPaths"].into_iter().flat_map(|name| self.items(name));
        let bind_path = |item: &'m Value<'m>| {
            let [source, target, ..] = fields(item) else { return None };
            Some(BindPath { source: str_of(source)?.into(), target: str_of(target)?.into() })
        };
        Sandbox {
            root_directory: self.path("RootDirectory").filter(|path| *path != Path::new("/")),
            root_image: self.path("RootImage"),
            bind_paths: bound.filter_map(bind_path).collect(),
        }
    }
}

fn str_of<'m>(value: &'m Value<'m>) -> Option<&'m str> {
    if let Value::Str(text) = value { Some(text.as_str()) } else { None }
}

pub(super) fn texts(items: &[Value<'_>]) -> Vec<String> {
    items.iter().filter_map(str_of).map(str::to_owned).collect()
}

pub(super) fn fields<'m>(value: &'m Value<'m>) -> &'m [Value<'m>] {
    if let Value::Structure(structure) = value { Structure::fields(structure) } else { &[] }
}

/// Program and arguments of an ExecStart, without the first argument, which is the program's name.
fn command(item: &Value<'_>) -> Option<Vec<String>> {
    let [program, Value::Array(arguments), ..] = fields(item) else { return None };
    let arguments = texts(Array::inner(arguments));
    Some(std::iter::once(str_of(program)?.to_owned()).chain(arguments.into_iter().skip(1)).collect())
}

/// The file of a structure that begins with it.
fn file(item: &Value<'_>) -> Option<PathBuf> {
    Some(str_of(fields(item).first()?)?.into())
}

fn variable(entry: &str) -> Option<(String, String)> {
    entry.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
}
