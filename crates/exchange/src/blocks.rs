//! Blocks of an import: services are compared with those of their own server.

use std::collections::BTreeMap;

use crate::import::is_same_server;

/// The block of each service, by the label of its server; empty where nothing tells it.
///
/// The services of a server are a block. Those that are alone on theirs differ by their servers as by all else, and are one
/// block together, as are those of which no server is told.
pub(crate) fn of_servers(labels: &[&str]) -> Vec<u32> {
    let mut services: BTreeMap<&str, usize> = BTreeMap::new();
    for label in labels.iter().filter(|label| !label.is_empty()) {
        *services.entry(label).or_default() += 1;
    }
    // The shortest spelling comes first: that without the domain.
    let mut spellings: Vec<&str> = services.keys().copied().collect();
    spellings.sort_by_key(|label| label.len());
    // A name without the domain may be of several servers: then it is one of its own.
    let continues_as_one = |server: &str| {
        let longer: Vec<&&str> = services.keys().filter(|label| is_same_server(server, label)).collect();
        longer.iter().all(|one| longer.iter().all(|other| is_same_server(one, other)))
    };
    let mut servers: Vec<(&str, usize)> = Vec::new();
    let mut server_of: BTreeMap<&str, usize> = BTreeMap::new();
    for label in spellings {
        let known =
            servers.iter().position(|(server, _)| is_same_server(server, label) && continues_as_one(server));
        let server = known.unwrap_or_else(|| {
            servers.push((label, 0));
            servers.len() - 1
        });
        servers[server].1 += services[label];
        server_of.insert(label, server);
    }
    let own: Vec<Option<usize>> = labels
        .iter()
        .map(|label| server_of.get(label).copied().filter(|server| servers[*server].1 > 1))
        .collect();
    let mut numbers: BTreeMap<Option<usize>, u32> = own.iter().map(|server| (*server, 0)).collect();
    (0..).zip(numbers.values_mut()).for_each(|(number, block)| *block = number);
    own.iter().map(|server| numbers[server]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_of_a_server_are_a_block() {
        for (labels, blocks) in [
            (&["a", "b", "a", "b"][..], &[0, 1, 0, 1][..]),
            // Spellings of one name.
            (&["go.example.org", "co", "Go", "co", "go."], &[0, 1, 0, 1, 0]),
            // `web` may be of both, and is of neither.
            (&["web", "web.a.org", "web.b.org", "web", "web.a.org", "WEB.b.org"], &[0, 2, 1, 0, 2, 1]),
            // Who is alone is compared with the others that are.
            (&["a", "b", "c"], &[0, 0, 0]),
            (&["a", "b", "b", "c", ""], &[0, 1, 1, 0, 0]),
            (&["", "", ""], &[0, 0, 0]),
            (&["a", "a"], &[0, 0]),
            (&[], &[]),
        ] {
            assert_eq!(of_servers(labels), blocks, "{labels:?}");
        }
    }
}
