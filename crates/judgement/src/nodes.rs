//! Kinds of nodes that the blocks of a lab run were carried out on.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_analysis::Fleet;
use heaptrial_model::units;
use serde_json::Value;

use crate::Rows;

/// Memory of nodes of one kind differs by less than this share: firmware takes some of it.
const SAME_MEMORY: f64 = 0.05;

/// A fact as it is told.
type Fact = fn(&Value) -> Option<String>;

/// What makes a kind, in the order in which it is told.
const FACTS: [Fact; 6] = [
    |facts| facts["cpu_model"].as_str().map(str::to_owned),
    |facts| facts["cpu_count"].as_u64().map(|count| units::counted(count as usize, "processor")),
    |facts| facts["ram_bytes"].as_u64().map(memory),
    |facts| facts["kernel"].as_str().map(|kernel| format!("kernel {kernel}")),
    |facts| facts["libc"].as_str().map(str::to_owned),
    |facts| facts["thp_mode"].as_str().map(|mode| format!("THP {mode}")),
];

/// Rounded to steps of [`SAME_MEMORY`], so that nodes of one kind tell the same.
fn memory(bytes: u64) -> String {
    let step = (1.0 + SAME_MEMORY).ln();
    let rounded = ((bytes.max(1) as f64).ln() / step).round() * step;
    format!("{} of memory", units::memory(rounded.exp()))
}

impl Rows {
    /// The kind of each node, named by what its facts have that not all nodes have; empty where all are alike.
    pub(crate) fn node_kinds(&self) -> BTreeMap<&str, String> {
        let told = |fact: &Fact| -> Vec<Option<String>> {
            self.parts.iter().map(|part| fact(&part.facts)).collect()
        };
        let differing: Vec<Vec<Option<String>>> =
            FACTS.iter().map(told).filter(|told| told.iter().collect::<BTreeSet<_>>().len() > 1).collect();
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
