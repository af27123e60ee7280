//! Blocks of an import: services are compared with those of their own server.

use std::collections::BTreeMap;

/// The block of each service, by the label of its server; empty where it is not known.
///
/// The services of a server are a block. Those that are alone on theirs differ by their servers as by all else, and are one
/// block together, as are those without a known server.
pub(crate) fn of_servers(labels: &[&str]) -> Vec<u32> {
    let mut services: BTreeMap<&str, usize> = BTreeMap::new();
    for label in labels {
        *services.entry(label).or_default() += 1;
    }
    let own: Vec<Option<&str>> = labels
        .iter()
        .map(|label| Some(*label).filter(|label| !label.is_empty() && services[label] > 1))
        .collect();
    let mut numbers: BTreeMap<Option<&str>, u32> = own.iter().map(|server| (*server, 0)).collect();
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
