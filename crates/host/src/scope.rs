use serde::{Deserialize, Serialize};

/// Whose service manager is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    System,
    User,
}

impl Scope {
    pub fn is_system(&self) -> bool {
        *self == Self::System
    }

    /// The option that selects it in programs such as systemctl(1) and this one.
    pub fn option(self) -> &'static [&'static str] {
        match self {
            Self::System => &[],
            Self::User => &["--user"],
        }
    }

    /// The target that pulls in what runs all the time.
    pub fn target(self) -> &'static str {
        match self {
            Self::System => "multi-user.target",
            Self::User => "default.target",
        }
    }

    /// Who may change what is written and run, beside root.
    pub fn owner(self) -> u32 {
        match self {
            Self::System => 0,
            Self::User => rustix::process::geteuid().as_raw(),
        }
    }
}
