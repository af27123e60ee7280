//! A command that runs once where a service would run: in a transient unit with the service's user, environment, limits and
//! sandbox (StartTransientUnit in org.freedesktop.systemd1(5)).

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use heaptrial_model::ServiceName;
use rustix::pipe::{PipeFlags, pipe_with};
use zbus::zvariant::{Fd, Value};

use super::link::SERVICE;
use super::properties::{Properties, fields, texts};
use super::{Manager as _, Systemd, SystemdError, UnitStatus, name};

/// What is taken over from the service: whatever bears on which allocator a process gets and on whether it can work. Nothing
/// that makes or removes something on the host, such as RuntimeDirectory, sockets or ExecStartPre.
const COPIED: &str = include_str!("copied.txt");

/// How long a command that is to end gets before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Systemd ends the command itself; this long after that it is no longer waited for.
const GRACE: Duration = Duration::from_secs(10);

/// What is run, and what is different from the service.
#[derive(Debug, Clone)]
pub struct TransientCommand<'a> {
    pub unit: &'a ServiceName,
    pub program: &'a Path,
    pub arguments: &'a [&'a str],
    /// Variables as a drop-in would set them: those of the service's EnvironmentFile come after them.
    pub environment: &'a [(String, String)],
    pub unset: &'a [String],
    pub limit: Duration,
}

#[derive(Debug, Clone)]
pub struct TransientEnd {
    pub stdout: String,
    pub stderr: String,
    pub status: UnitStatus,
}

impl Systemd {
    /// Runs a command once where `service` would run. The unit is gone afterwards, also where this program is killed meanwhile:
    /// systemd forgets a unit that has ended once nobody refers to it.
    pub fn run_like(
        &self,
        service: &ServiceName,
        command: &TransientCommand<'_>,
    ) -> Result<TransientEnd, SystemdError> {
        let link = self.link();
        let doing = format!("running {} in place of {service}", command.unit);
        let failed = |error: zbus::Error| link.bus.error(&doing, error);
        let reply = link.bus.all_properties(&[name::object_path(service.as_str())], SERVICE).pop();
        let body = reply.unwrap_or(Err(zbus::Error::InvalidReply)).map_err(failed)?.body();
        let mut of_service = Properties(body.deserialize().map_err(failed)?);
        let pipe =
            || pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(std::io::Error::from(error).into()));
        let ((stdout, to_stdout), (stderr, to_stderr)) = (pipe()?, pipe()?);

        let microseconds = |time: Duration| Value::U64(time.as_micros() as u64);
        let mut properties = vec![
            ("Description", Value::from(format!("Allocator probe of Heaptrial in place of {service}"))),
            ("Type", Value::from("oneshot")),
            ("CollectMode", Value::from("inactive-or-failed")),
            ("AddRef", Value::from(true)),
            ("TimeoutStartUSec", microseconds(command.limit)),
            ("TimeoutStopUSec", microseconds(STOP_LIMIT)),
            ("StandardOutputFileDescriptor", Value::Fd(Fd::from(to_stdout))),
            ("StandardErrorFileDescriptor", Value::Fd(Fd::from(to_stderr))),
            ("Environment", Value::from(environment(&of_service, command))),
            ("UnsetEnvironment", Value::from(unset(&of_service, command))),
            ("ExecStartEx", exec_start(&of_service, command)),
        ];
        for name in COPIED.lines() {
            properties.extend(
                of_service.0.remove(name).filter(|value| !is_empty(value)).map(|value| (name, value)),
            );
        }
        let (stdout, stderr) = (collect(stdout), collect(stderr));
        let no_others: Vec<(&str, Vec<(&str, Value<'_>)>)> = Vec::new();
        let request = (command.unit.as_str(), "fail", properties, no_others);
        let reply = link.bus.manager(&doing, "StartTransientUnit", &request);
        // The command has copies; while ours are open, reading does not end.
        drop(request);
        let reply = reply?;
        let job = link.job(&doing, &reply, command.unit)?;
        let limit = command.limit + STOP_LIMIT + GRACE;
        let waited = link.jobs.result(&job, limit);
        let status = self.status(command.unit);
        let has_ended = matches!(waited, Ok(Some(_)));
        if !has_ended {
            // What does not end is stopped; then reading ends too.
            let _ = link.bus.manager(&doing, "StopUnit", &(command.unit.as_str(), "replace"));
        }
        let _ = link.bus.manager(&doing, "UnrefUnit", &command.unit.as_str());
        if waited?.is_none() {
            return Err(SystemdError::Timeout { doing, limit });
        }
        let status = status?;
        let text = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
        Ok(TransientEnd { stdout: text(stdout), stderr: text(stderr), status })
    }
}

fn environment(of_service: &Properties<'_>, command: &TransientCommand<'_>) -> Vec<String> {
    let is_set = |entry: &String| {
        let name = entry.split('=').next();
        command.environment.iter().any(|(set, _)| Some(set.as_str()) == name)
    };
    let mut entries = of_service.texts("Environment");
    entries.retain(|entry| !is_set(entry));
    entries.extend(command.environment.iter().map(|(name, value)| format!("{name}={value}")));
    entries
}

fn unset(of_service: &Properties<'_>, command: &TransientCommand<'_>) -> Vec<String> {
    let mut names = of_service.texts("UnsetEnvironment");
    names.extend(command.unset.iter().cloned());
    names
}

/// The command with the prefixes that the service's own has, such as `+` for full privileges.
fn exec_start(of_service: &Properties<'_>, command: &TransientCommand<'_>) -> Value<'static> {
    let own = of_service.items("ExecStartEx").first().map(fields);
    let mut flags = match own.and_then(|own| own.get(2)) {
        Some(Value::Array(flags)) => texts(flags.inner()),
        _ => Vec::new(),
    };
    flags.retain(|flag| flag != "ignore-failure");
    let program = command.program.to_string_lossy().into_owned();
    let arguments = command.arguments.iter().map(|word| (*word).to_owned());
    let arguments: Vec<String> = std::iter::once(program.clone()).chain(arguments).collect();
    Value::from(vec![(program, arguments, flags)])
}

/// Whether a property is as it is without a setting.
fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Str(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Structure(structure) => structure.fields().last().is_some_and(is_empty),
        _ => false,
    }
}

fn collect(stream: OwnedFd) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = File::from(stream).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
