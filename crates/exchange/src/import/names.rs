//! A name for each service: its nickname, with a suffix where several share it.

use std::collections::{HashMap, HashSet};

use super::merge::MergedService;
use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems};

pub(super) fn name(services: &mut [MergedService], problems: &mut Problems) -> Result<(), ImportError> {
    let mut shared: HashMap<String, Vec<usize>> = HashMap::new();
    let mut on_server: HashMap<(String, String), usize> = HashMap::new();
    for (index, service) in services.iter().enumerate() {
        shared.entry(service.nickname.clone()).or_default().push(index);
        *on_server.entry((service.nickname.clone(), service.server.clone())).or_default() += 1;
    }
    let mut taken: HashSet<String> =
        shared.iter().filter(|(_, indices)| indices.len() == 1).map(|(name, _)| name.clone()).collect();
    for (index, service) in services.iter_mut().enumerate() {
        let sharing = &shared[&service.nickname];
        if sharing.len() == 1 {
            service.name = service.nickname.clone();
            continue;
        }
        let by_fingerprint = on_server[&(service.nickname.clone(), service.server.clone())] > 1;
        service.name = unique(service, by_fingerprint, &mut taken);
        if sharing[0] == index {
            let what = "this nickname stands for several services; they are told apart as NICKNAME@SERVER, \
                        on one server by the start of the fingerprint";
            let (file, line) = &service.first_row;
            let place = Place { file, line: *line, column: None, value: service.nickname.as_bytes() };
            problems.report(place, ProblemKind::Note, what)?;
        }
    }
    Ok(())
}

fn unique(service: &MergedService, by_fingerprint: bool, taken: &mut HashSet<String>) -> String {
    // A service's name has 255 characters at most.
    let mut name: String = service.nickname.chars().take(130).collect();
    if !service.server.is_empty() {
        name = format!("{name}@{}", service.server.chars().take(64).collect::<String>());
    }
    if by_fingerprint && !service.fingerprint.is_empty() {
        let short = format!("{name}@{}", &service.fingerprint[..8]);
        if taken.insert(short.clone()) {
            return short;
        }
        name = format!("{name}@{}", service.fingerprint);
    }
    // Only nicknames that look like one of these names, or are very long, are still taken here.
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}@{number}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    const F1: &str = "A1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";
    const F2: &str = "B1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";

    fn names(keys: &[(&str, &str, &str)]) -> (Vec<String>, u64) {
        let service = |(server, nickname, fingerprint): &(&str, &str, &str)| MergedService {
            nickname: (*nickname).to_owned(),
            server: (*server).to_owned(),
            fingerprint: (*fingerprint).to_owned(),
            ..MergedService::default()
        };
        let mut services: Vec<MergedService> = keys.iter().map(service).collect();
        let mut problems = Problems::new(false);
        name(&mut services, &mut problems).unwrap();
        (services.into_iter().map(|service| service.name).collect(), problems.count(ProblemKind::Note))
    }

    #[test]
    fn a_nickname_names_a_service_unless_several_share_it() {
        assert_eq!(names(&[("go", "one", F1)]).0, ["one"]);
        assert_eq!(names(&[("go", "one", ""), ("co", "one", "")]).0, ["one@go", "one@co"]);
        assert_eq!(names(&[("go", "one", F1), ("go", "one", F2)]).0, ["one@go@A1B2C3D4", "one@go@B1B2C3D4"]);
        assert_eq!(names(&[("", "one", F1), ("", "one", F2), ("", "one", "")]).0[2], "one");
        let (mut names, notes) = names(&[("go", "one", F1), ("co", "one", F1), ("go", "one@go", "")]);
        assert_eq!(notes, 1);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3);
    }
}
