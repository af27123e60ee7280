//! What is examined: a service and what is to be applied to it.

use std::fs;
use std::path::PathBuf;

use crate::Service;
use heaptrial_allocator::Examiner;
use heaptrial_host::systemd::Unit;
use heaptrial_host::{HostRoot, Process};

use crate::preflight::planned::PlannedTreatment;

pub(crate) struct Subject<'a> {
    pub(crate) root: &'a HostRoot,
    pub(crate) service: &'a Service,
    pub(crate) planned: &'a PlannedTreatment,
    pub(crate) examiner: &'a Examiner,
    /// The main process, if there is one.
    pub(crate) process: Option<Process>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        root: &'a HostRoot,
        service: &'a Service,
        planned: &'a PlannedTreatment,
        examiner: &'a Examiner,
    ) -> Self {
        let process = service.process.as_ref().map(|process| Process::new(root, process.life.pid));
        Self { root, service, planned, examiner, process }
    }

    pub(crate) fn unit(&self) -> &'a Unit {
        &self.service.unit
    }

    /// The program that runs, as its own process has it: a file of that path may be another one by now, or in another root.
    pub(crate) fn program_file(&self) -> PathBuf {
        let exe = self.process.as_ref().map(|process| self.root.process_dir(process.pid()).join("exe"));
        let named = || self.service.process.as_ref().map(|process| self.root.path(&process.program));
        exe.filter(|exe| fs::metadata(exe).is_ok()).or_else(named).unwrap_or_default()
    }
}
