//! Files of treatments of which this host knows no trial or rollout: its folder was lost, or moved away.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_host::{Mark, Paths, is_drop_in};
use heaptrial_model::ServiceName;

use crate::edges::{Disk, ThisDisk};
use crate::error::ChangeError;
use crate::host_files::RECOVERY_STEM;
use crate::trial::{names, prepared_of};

/// A file that tells of a trial or rollout without a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub path: PathBuf,
    /// Name of the trial or rollout.
    pub name: String,
    /// The service that it is about, where it is about one.
    pub service: Option<ServiceName>,
}

/// All of them among the unit files of this host, in order of paths.
pub fn strays(paths: &Paths) -> Result<Vec<Stray>, ChangeError> {
    found(&ThisDisk, paths)
}

/// Refuses services that have such a file.
pub fn refuse_strays<'s>(
    paths: &Paths,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), ChangeError> {
    let mut strays = strays(paths)?;
    let services: Vec<&ServiceName> = services.collect();
    strays.retain(|stray| stray.service.as_ref().is_some_and(|service| services.contains(&service)));
    if strays.is_empty() { Ok(()) } else { Err(ChangeError::Strays { trials: paths.trials(), strays }) }
}

fn found(disk: &dyn Disk, paths: &Paths) -> Result<Vec<Stray>, ChangeError> {
    // One whose plan cannot be read is there all the same.
    let id = |name: String| {
        let id = prepared_of(disk, paths, &name).ok().map(|prepared| prepared.plan.id.as_str().to_owned());
        (name, id)
    };
    let known: BTreeMap<String, Option<String>> = names(disk, paths)?.into_iter().map(id).collect();
    let mut strays = Vec::new();
    for path in marked_files(disk, paths)? {
        let Some((name, id)) = teller(disk, &path) else { continue };
        let is_known = known.get(&name).is_some_and(|known| known.is_none() || id.is_none() || *known == id);
        if !is_known {
            let service = service_of(&path);
            strays.push(Stray { path, name, service });
        }
    }
    strays.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(strays)
}

/// Unit files that may tell.
fn marked_files(disk: &dyn Disk, paths: &Paths) -> Result<Vec<PathBuf>, ChangeError> {
    let list = |folder: &Path| match disk.names(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        names => {
            names.map_err(|source| ChangeError::Folder { doing: "reading", path: folder.to_owned(), source })
        }
    };
    let mut files = Vec::new();
    for name in list(&paths.units)? {
        let path = paths.units.join(&name);
        if name.ends_with(".d") {
            let drop_ins = list(&path)?.into_iter().map(|file| path.join(file));
            files.extend(drop_ins.filter(|file| is_drop_in(file)));
        } else if name.starts_with("heaptrial-") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Name, and id where it is known, of the trial or rollout that a file tells of.
fn teller(disk: &dyn Disk, path: &Path) -> Option<(String, Option<String>)> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".timer").or_else(|| file.strip_suffix(".service"));
    if let Some(name) = stem.and_then(|stem| stem.strip_prefix(RECOVERY_STEM)) {
        return Some((name.to_owned(), None));
    }
    let Mark { name, id } = Mark::of(&disk.look(path).ok()?.1)?;
    Some((name, Some(id)))
}

/// The service of a drop-in, or of the timer that restarts it.
fn service_of(path: &Path) -> Option<ServiceName> {
    if is_drop_in(path) {
        let folder = path.parent()?.file_name()?.to_str()?;
        return folder.strip_suffix(".d")?.parse().ok();
    }
    let file = path.file_name()?.to_str()?.strip_prefix("heaptrial-restart-")?;
    let stem = file.strip_suffix(".timer").or_else(|| file.strip_suffix(".service"))?;
    format!("{}.service", stem.replace("\\x40", "@")).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_trial_are_found_with_its_name_and_their_service() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            Paths { state: dir.path().join("state"), units: dir.path().join("units"), ..Paths::default() };
        assert_eq!(strays(&paths).unwrap(), []);
        let write = |file: &str, text: &str| {
            let path = paths.units.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mark = Mark::line("lost", "0123", "jemalloc");
        write("a@1.service.d/zz-heaptrial.conf", &mark);
        write("a@2.service.d/override.conf", &mark);
        write("a@3.service.d/zz-heaptrial.conf", "[Service]\n");
        write("heaptrial-restart-a\\x401.timer", &mark);
        write("heaptrial-recovery-lost.service", "[Unit]\n");
        write("heaptrial-agent.service", "[Unit]\n");
        let found = strays(&paths).unwrap();
        let told: Vec<(String, &str, Option<&str>)> = found
            .iter()
            .map(|stray| {
                let file = stray.path.strip_prefix(&paths.units).unwrap().display().to_string();
                (file, stray.name.as_str(), stray.service.as_ref().map(ServiceName::as_str))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a@1.service.d/zz-heaptrial.conf".to_owned(), "lost", Some("a@1.service")),
                ("heaptrial-recovery-lost.service".to_owned(), "lost", None),
                ("heaptrial-restart-a\\x401.timer".to_owned(), "lost", Some("a@1.service")),
            ]
        );
        let service = |name: &str| name.parse::<ServiceName>().unwrap();
        assert!(refuse_strays(&paths, [service("a@2.service")].iter()).is_ok());
        let error = refuse_strays(&paths, [service("a@1.service")].iter()).unwrap_err().to_string();
        assert!(error.contains("zz-heaptrial.conf (`lost`)"), "{error}");

        // One of that name that is there is another one, unless it is of the same drawing.
        let folder = paths.trial("lost");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("journal.jsonl"), "").unwrap();
        assert_eq!(strays(&paths).unwrap(), [], "its plan cannot be read");
    }
}
