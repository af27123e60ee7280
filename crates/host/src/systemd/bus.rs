//! Calls over the system bus or the user's, many at once.

use std::path::Path;
use std::time::Duration;

use async_io::Timer;
use futures_util::future::{Either, join_all, select};
use zbus::zvariant::DynamicType;
use zbus::{Connection, Message, block_on, connection};

use super::SystemdError;
use crate::Scope;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// dbus-daemon(1) refuses more than 128 calls without a reply on one connection (max_replies_per_connection), and
/// several threads may use this one.
const CALLS_AT_ONCE: usize = 32;

/// Longer than systemd needs to read some thousands of unit files again.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(120);

/// There on a host that systemd booted (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// A bus greets within milliseconds.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// A connection to the system bus, or to the bus of the user who runs this program.
#[derive(Debug)]
pub(super) struct Bus {
    pub(super) connection: Connection,
    call_limit: Duration,
}

impl Bus {
    /// With calls that wait for their reply no longer than `call_limit`.
    pub(super) fn connect(scope: Scope, call_limit: Duration) -> Result<Self, SystemdError> {
        let unreached = |said: String| match scope {
            Scope::System => SystemdError::Connect(said),
            Scope::User => SystemdError::NoUserManager { user: scope.owner(), said },
        };
        let builder = match scope {
            Scope::System => connection::Builder::system(),
            Scope::User => connection::Builder::session(),
        };
        let builder = builder.map_err(|error| unreached(error.to_string()))?;
        let connection = greeted(builder.method_timeout(call_limit), GREETING_LIMIT).map_err(unreached)?;
        let bus = Self { connection, call_limit };
        // The bus may be there without systemd on it, as in a container with another init.
        let version = block_on(bus.call(MANAGER_PATH, PROPERTIES, "Get", &(MANAGER, "Version")));
        match version.map_err(|error| bus.error("reading systemd's version", error)) {
            Ok(_) => Ok(bus),
            // It may be executing itself again.
            Err(lost @ SystemdError::Lost { .. }) if Path::new(BOOTED).exists() => Err(lost),
            Err(error) => Err(unreached(error.to_string())),
        }
    }

    async fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> zbus::Result<Message>
    where
        B: serde::Serialize + DynamicType,
    {
        self.connection.call_method(Some(SYSTEMD), path, Some(interface), method, body).await
    }

    pub(super) fn manager<B>(&self, doing: &str, method: &str, body: &B) -> Result<Message, SystemdError>
    where
        B: serde::Serialize + DynamicType,
    {
        block_on(self.call(MANAGER_PATH, MANAGER, method, body)).map_err(|error| self.error(doing, error))
    }

    pub(super) fn error(&self, doing: &str, error: zbus::Error) -> SystemdError {
        let doing = doing.to_owned();
        match &error {
            zbus::Error::InputOutput(source) if source.kind() == std::io::ErrorKind::TimedOut => {
                SystemdError::Timeout { doing, limit: self.call_limit }
            }
            zbus::Error::InputOutput(source) => SystemdError::Lost { doing, said: source.to_string() },
            zbus::Error::MethodError(name, detail, _) => {
                let detail = detail.as_deref().unwrap_or("no reason given").trim_end_matches('.');
                let said = format!("{detail} ({name}){}", advice(name));
                match is_lost(name) {
                    true => SystemdError::Lost { doing, said },
                    false => SystemdError::Call { doing, said },
                }
            }
            other => SystemdError::Call { doing, said: other.to_string() },
        }
    }

    /// All properties of an interface of several objects, in their order.
    pub(super) fn all_properties(&self, paths: &[String], interface: &str) -> Vec<zbus::Result<Message>> {
        self.in_turn(paths, async |path: &String| self.call(path, PROPERTIES, "GetAll", &interface).await)
    }

    /// Single properties as (path, interface, name), in their order.
    pub(super) fn single_properties(&self, wanted: &[(&str, &str, &str)]) -> Vec<zbus::Result<Message>> {
        let call = async |(path, interface, name): &(&str, &str, &str)| {
            self.call(path, PROPERTIES, "Get", &(interface, name)).await
        };
        self.in_turn(wanted, call)
    }

    /// Sends some calls, collects their replies, sends the next ones. After one that got no reply no more are sent, and
    /// the rest fails with it: all together take no longer than one call may.
    fn in_turn<'a, T>(
        &self,
        items: &'a [T],
        call: impl AsyncFn(&'a T) -> zbus::Result<Message>,
    ) -> Vec<zbus::Result<Message>> {
        let call = &call;
        let mut replies = Vec::with_capacity(items.len());
        for chunk in items.chunks(CALLS_AT_ONCE) {
            replies.extend(block_on(join_all(chunk.iter().map(|item| call(item)))));
            let sent = replies.len() - chunk.len();
            let unanswered = |reply: &zbus::Result<Message>| match reply {
                Err(error @ zbus::Error::InputOutput(_)) => Some(error.clone()),
                _ => None,
            };
            if let Some(error) = replies[sent..].iter().find_map(unanswered) {
                replies.resize_with(items.len(), || Err(error.clone()));
                break;
            }
        }
        replies
    }
}

/// A connection over which the bus has greeted; zbus would wait for that without end.
fn greeted(builder: connection::Builder<'static>, limit: Duration) -> Result<Connection, String> {
    match block_on(select(std::pin::pin!(builder.build()), Timer::after(limit))) {
        Either::Left((connection, _)) => connection.map_err(|error| error.to_string()),
        Either::Right(_) => {
            let limit = heaptrial_model::HumanDuration(limit);
            Err(format!("the bus did not answer within {limit}"))
        }
    }
}

/// Whether an error says that systemd is not on the bus now, or left it before it answered.
fn is_lost(error_name: &str) -> bool {
    let name = error_name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default();
    matches!(name, "NoReply" | "Disconnected" | "ServiceUnknown" | "NameHasNoOwner")
        || name.starts_with("Spawn.")
}

fn advice(error_name: &str) -> &'static str {
    match error_name {
        "org.freedesktop.DBus.Error.AccessDenied"
        | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired" => {
            "; run it as root, or let polkit allow your user `org.freedesktop.systemd1.manage-units`"
        }
        "org.freedesktop.systemd1.UnitMasked" => "; `systemctl unmask` lets it start again",
        "org.freedesktop.DBus.Error.LimitsExceeded" => "; too many calls wait for a reply, try again",
        _ => "",
    }
}
