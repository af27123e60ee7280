//! Kinds of nodes that the blocks of a lab run were carried out on.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::Fleet;
use heaptrial_model::units;
use serde_json::Value;

use crate::judgement::Rows;

/// Memory of nodes of one kind differs by less than this share: firmware takes some of it.
const SAME_MEMORY: f64 = 0.05;

/// A fact as it is told.
type Fact = fn(&Value) -> Option<String>;

/// What makes a kind beside memory.
const FACTS: [Fact; 5] = [
    |facts| facts["cpu_model"].as_str().map(str::to_owned),
    |facts| facts["cpu_count"].as_u64().map(|count| units::counted(count as usize, "processor")),
    |facts| facts["kernel"].as_str().map(|kernel| format!("kernel {kernel}")),
    |facts| facts["libc"].as_str().map(str::to_owned),
    |facts| facts["thp_mode"].as_str().map(|mode| format!("THP {mode}")),
];

/// Where memory is told among the facts.
const MEMORY_PLACE: usize = 2;

/// The memory of each node as that of the smallest one of its kind.
fn memory(nodes: &[Option<u64>]) -> Vec<Option<String>> {
    let mut sorted: Vec<u64> = nodes.iter().copied().flatten().collect();
    sorted.sort_unstable();
    let mut kinds: Vec<u64> = Vec::new();
    for bytes in sorted {
        if kinds.last().is_none_or(|first| bytes as f64 > (1.0 + SAME_MEMORY) * *first as f64) {
            kinds.push(bytes);
        }
    }
    let told = |bytes: u64| {
        let smallest = kinds[kinds.partition_point(|first| *first <= bytes) - 1];
        format!("{} of memory", units::memory(smallest as f64))
    };
    nodes.iter().map(|bytes| bytes.map(told)).collect()
}

impl Rows {
    /// The kind of each node, named by what its facts have that not all nodes have; empty where all are alike.
    pub(crate) fn node_kinds(&self) -> BTreeMap<&str, String> {
        let told = |fact: &Fact| -> Vec<Option<String>> {
            self.parts.iter().map(|part| fact(&part.facts)).collect()
        };
        let ram: Vec<Option<u64>> = self.parts.iter().map(|part| part.facts["ram_bytes"].as_u64()).collect();
        let mut facts: Vec<Vec<Option<String>>> = FACTS.iter().map(told).collect();
        facts.insert(MEMORY_PLACE, memory(&ram));
        facts.retain(|told| told.iter().collect::<BTreeSet<_>>().len() > 1);
        let differing = facts;
        if differing.is_empty() {
            return BTreeMap::new();
        }
        let kind = |index: usize| {
            let words: Vec<&str> = differing.iter().filter_map(|told| told[index].as_deref()).collect();
            if words.is_empty() { "nothing known".to_owned() } else { words.join(", ") }
        };
        self.parts.iter().enumerate().map(|(index, part)| (part.host.as_str(), kind(index))).collect()
    }

    /// A fleet of blocks with the kinds of their nodes as its hosts; `None` where all nodes are alike.
    pub(crate) fn by_node_kind(&self, fleet: &Fleet) -> Option<Fleet> {
        let kinds = self.node_kinds();
        if kinds.is_empty() {
            return None;
        }
        let mut fleet = fleet.clone();
        for service in &mut fleet.services {
            service.host = service.host.as_deref().and_then(|node| kinds.get(node).cloned());
        }
        Some(fleet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_differ_by_a_little_are_of_one_kind_wherever_they_are() {
        for smaller in [8_455_575_712_u64, 8_589_934_592, 68_000_000_000, 206_158_430_208] {
            let nodes = [Some(smaller + smaller / 5000), None, Some(smaller), Some(smaller + smaller / 10)];
            let told = memory(&nodes);
            assert_eq!(told[0], told[2], "{smaller}");
            assert_eq!((told[0] == told[3], &told[1]), (false, &None), "{smaller}");
            assert_eq!(told[2], Some(format!("{} of memory", units::memory(smaller as f64))));
        }
    }
}
