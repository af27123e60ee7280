//! Small services that allocate and free, in any number.

use std::path::PathBuf;

use crate::{Container, TestbedError};

/// A template unit `NAME@.service` whose instances run the example program `churn_service`.
///
/// Each instance reads its environment from `/etc/NAME/INSTANCE`, if there is such a file: see the program for
/// what it understands.
#[derive(Debug, Clone)]
pub struct ChurnService {
    /// Name of the template, without `@.service`.
    pub template: String,
    /// The program on this host; it is copied into the container.
    pub program: PathBuf,
    /// How many instances to name.
    pub count: usize,
    /// What each keeps allocated, in bytes.
    pub live_bytes: u64,
}

impl ChurnService {
    /// Instances `churn@001.service` and so on that need a megabyte each and little time.
    pub fn new(program: impl Into<PathBuf>, count: usize) -> Self {
        Self { template: "churn".to_owned(), program: program.into(), count, live_bytes: 1 << 20 }
    }

    fn unit(&self, program: &str) -> String {
        let Self { template, live_bytes, .. } = self;
        // Starts are not limited, because tests restart more often than anybody else.
        format!(
            "[Unit]\nDescription=Allocations of %i\nStartLimitIntervalSec=0\n\n[Service]\nType=notify\n\
             Environment=LIVE_BYTES={live_bytes} ALLOCATIONS_PER_SECOND=400\n\
             EnvironmentFile=-/etc/{template}/%i\nExecStart={program}\nUser=daemon\nRestart=on-failure\n\
             RestartSec=1\nTimeoutStartSec=15\nNoNewPrivileges=yes\nPrivateTmp=yes\nPrivateDevices=yes\n\
             ProtectSystem=full\nProtectHome=yes\nMemoryDenyWriteExecute=yes\n\n[Install]\nWantedBy=multi-user.target\n"
        )
    }
}

impl Container {
    /// Writes the template and gives the names of the units, in order. They are neither enabled nor started.
    pub fn install_churn_service(&self, service: &ChurnService) -> Result<Vec<String>, TestbedError> {
        let program = self.install_program(&service.program)?;
        let template = &service.template;
        let path = format!("/etc/systemd/system/{template}@.service");
        self.write(path, service.unit(&program), 0o644)?;
        self.try_ok(&["systemctl", "daemon-reload"])?;
        let width = service.count.to_string().len().max(3);
        Ok((1..=service.count).map(|number| format!("{template}@{number:0width$}.service")).collect())
    }

    /// Copies a program of this host to `/usr/local/bin` and gives its path there.
    pub fn install_program(&self, program: &std::path::Path) -> Result<String, TestbedError> {
        let content = std::fs::read(program).map_err(TestbedError::file("cannot read", program))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("/usr/local/bin/{name}");
        self.write(&path, content, 0o755)?;
        Ok(path)
    }
}
