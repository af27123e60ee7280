//! Which services of this host belong to a watch.

use std::collections::BTreeMap;
use std::path::Path;

use heaptrial_model::ServiceName;

use crate::watch::error::WatchError;
use crate::watch::folder::{names, read_plan};
use crate::watch::plan::WatchPlan;

/// The services that watches of this host look after at `now` (seconds since 1970), those under another treatment or none as
/// well, each with the watch's name. Not those of the watch `own` or of watches of what the trial `own` measured, nor of watches that are over.
pub fn claims(state: &Path, own: &str, now: f64) -> Result<BTreeMap<ServiceName, String>, WatchError> {
    let mut claims = BTreeMap::new();
    for name in names(state) {
        let folder = state.join("watches").join(&name);
        let plan = read_plan(&folder).map_err(|error| {
            WatchError::Refused(format!(
                "{error}; that watch may have the services that are wanted. If nobody needs it, move {} away",
                folder.display()
            ))
        })?;
        let is_own = |plan: &WatchPlan| plan.name == own || plan.trial.as_deref() == Some(own);
        let Some(plan) = plan.filter(|plan| !is_own(plan) && now < plan.ends_at()) else { continue };
        let services = plan.services.into_iter().map(|watched| watched.service).chain(plan.others);
        claims.extend(services.map(|service| (service, plan.name.clone())));
    }
    Ok(claims)
}

/// Names of the watches of this host that look after one of some services.
pub fn watches_of<'s>(state: &Path, services: impl IntoIterator<Item = &'s ServiceName>) -> Vec<String> {
    let services: Vec<&ServiceName> = services.into_iter().collect();
    let watches = |name: &String| {
        let plan = read_plan(&state.join("watches").join(name)).ok().flatten();
        plan.is_some_and(|plan| plan.services.iter().any(|own| services.contains(&&own.service)))
    };
    names(state).into_iter().filter(watches).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_watch_that_cannot_be_read_is_named_with_its_folder() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("watches/month");
        fs::create_dir_all(&folder).unwrap();
        let plan = include_str!("notify/plan.json");
        fs::write(folder.join("watch.json"), plan).unwrap();
        let service: ServiceName = "s0.service".parse().unwrap();
        assert_eq!(watches_of(state.path(), [&service]), ["month"]);
        assert!(claims(state.path(), "new", 0.0).unwrap().contains_key(&service));
        let newer = plan.replace("\"schema_version\": 1", "\"schema_version\": 2");
        fs::write(folder.join("watch.json"), newer).unwrap();
        let why = claims(state.path(), "new", 0.0).unwrap_err().to_string();
        assert!(why.contains(&format!("move {} away", folder.display())), "{why}");
    }
}
