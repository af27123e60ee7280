use std::time::Duration;

use heaptrial_host::systemd::{Activity, Job, JobResult, Systemd, SystemdError, UnitEnvironment, UnitStatus};
use heaptrial_model::ServiceName;

use super::Manager;

impl Manager for Systemd {
    fn activities(&self, names: &[ServiceName]) -> Vec<Result<Activity, SystemdError>> {
        self.activities(names)
    }

    fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>> {
        self.statuses(names)
    }

    fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError> {
        self.environments(names)
    }

    fn reload(&self) -> Result<(), SystemdError> {
        self.reload()
    }

    fn restart(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue_restart(name)
    }

    fn start(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue_start(name)
    }

    fn stop(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue_stop(name)
    }

    fn job_result(&self, job: &Job) -> Result<Option<JobResult>, SystemdError> {
        self.job_result(job)
    }

    fn wait(&self, job: &Job, limit: Duration) -> Result<JobResult, SystemdError> {
        self.wait(job, limit)
    }

    fn wait_for_any(&self, jobs: &[&Job], limit: Duration) -> Result<(), SystemdError> {
        self.wait_for_any(jobs, limit)
    }

    fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError> {
        self.reset_failed(name)
    }
}
