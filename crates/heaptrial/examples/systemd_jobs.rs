//! Jobs of systemd from several threads at once, checked on a real one; for the tests. Arguments: units to restart,
//! `fails=UNIT` whose start fails, `slow=UNIT` whose start takes longer than a second, `timer=UNIT` that is active.

use std::time::Duration;

use heaptrial_host::Scope;
use heaptrial_host::systemd::{Manager as _, Systemd, SystemdError};
use heaptrial_model::ServiceName;

const LONG: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let systemd = Systemd::connect(Scope::System)?;
    let mut restarted: Vec<ServiceName> = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            None => restarted.push(argument.parse()?),
            Some(("fails", unit)) => fails(&systemd, &unit.parse()?)?,
            Some(("slow", unit)) => slow(&systemd, &unit.parse()?)?,
            Some(("timer", unit)) => {
                let status = systemd.status(&unit.parse()?)?;
                assert_eq!((status.active_state.as_str(), status.main_pid), ("active", None));
            }
            Some((other, _)) => return Err(format!("`{other}` is not known").into()),
        }
    }
    restart_together(&systemd, &restarted)?;

    let gone: ServiceName = "is-not-there.service".parse()?;
    assert_eq!(systemd.service(&gone)?.load_state, "not-found");
    let error = systemd.restart(&gone).expect_err("a unit that is not there was restarted");
    assert!(error.to_string().contains("NoSuchUnit") && error.to_string().contains(gone.as_str()), "{error}");
    println!("restarted {}", restarted.len());
    Ok(())
}

fn restart_together(systemd: &Systemd, units: &[ServiceName]) -> Result<(), SystemdError> {
    let before = systemd.statuses(units);
    std::thread::scope(|scope| {
        let threads: Vec<_> = units
            .iter()
            .map(|unit| {
                scope.spawn(move || {
                    let job = systemd.restart(unit)?;
                    systemd.wait(&job, LONG)
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().expect("no panic")?.is_done());
        }
        Ok(())
    })?;
    for (before, after) in before.into_iter().zip(systemd.statuses(units)) {
        let (before, after) = (before?, after?);
        assert!(after.is_running());
        assert_ne!((before.main_pid, before.invocation_id), (after.main_pid, after.invocation_id));
    }
    Ok(())
}

fn fails(systemd: &Systemd, unit: &ServiceName) -> Result<(), SystemdError> {
    let job = systemd.start(unit)?;
    assert_eq!(systemd.wait(&job, LONG)?.0, "failed");
    assert_eq!(systemd.status(unit)?.active_state, "failed");
    systemd.reset_failed(unit)?;
    assert_eq!(systemd.status(unit)?.active_state, "inactive");
    Ok(())
}

fn slow(systemd: &Systemd, unit: &ServiceName) -> Result<(), SystemdError> {
    let job = systemd.start(unit)?;
    let limit = Duration::from_millis(20);
    assert!(matches!(systemd.wait(&job, limit), Err(SystemdError::Timeout { .. })));
    let stop = systemd.stop(unit)?;
    assert_eq!(systemd.wait(&job, LONG)?.0, "canceled");
    assert!(systemd.wait(&stop, LONG)?.is_done());
    Ok(())
}
