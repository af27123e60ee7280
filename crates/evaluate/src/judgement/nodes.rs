//! Kinds of nodes that the blocks of a lab run were carried out on.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::Fleet;
use heaptrial_model::units;
use serde_json::Value;

use crate::judgement::Rows;

type Fact = fn(&Value) -> Option<String>;

/// What makes a kind. Memory is in whole GiB: firmware takes some of it.
const FACTS: [Fact; 6] = [
    |facts| facts["cpu_model"].as_str().map(str::to_owned),
    |facts| facts["cpu_count"].as_u64().map(|count| units::counted(count as usize, "processor")),
    |facts| facts["ram_bytes"].as_f64().map(|bytes| format!("{:.0} GiB of memory", bytes / units::GIB)),
    |facts| facts["kernel"].as_str().map(|kernel| format!("kernel {kernel}")),
    |facts| facts["libc"].as_str().map(str::to_owned),
    |facts| facts["thp_mode"].as_str().map(|mode| format!("THP {mode}")),
];

impl Rows {
    /// The kind of each node, named by what its facts have that not all nodes have; empty where all are alike.
    pub(crate) fn node_kinds(&self) -> BTreeMap<&str, String> {
        let of_nodes = |fact: &Fact| -> Vec<Option<String>> {
            self.parts.iter().map(|part| fact(&part.facts)).collect()
        };
        let mut differing: Vec<Vec<Option<String>>> = FACTS.iter().map(of_nodes).collect();
        differing.retain(|fact| fact.iter().collect::<BTreeSet<_>>().len() > 1);
        if differing.is_empty() {
            return BTreeMap::new();
        }
        let kind = |index: usize| {
            let words: Vec<&str> = differing.iter().filter_map(|fact| fact[index].as_deref()).collect();
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
