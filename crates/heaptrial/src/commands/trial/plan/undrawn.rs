//! Plans in which nothing is drawn: every service of this host gets one arm.

use std::collections::BTreeMap;

use heaptrial_inspect::Service;
use heaptrial_model::{
    About, Arm, Assignment, Build, DrawnPlan, HumanDuration, Metric, Pace, PlanId, builds_of_hosts,
};

/// A plan of these arms with their builds on this host, still without services.
pub fn undrawn(
    name: &str,
    arms: Vec<Arm>,
    (host, builds): (&str, &BTreeMap<String, Build>),
    duration: HumanDuration,
) -> DrawnPlan {
    DrawnPlan {
        name: name.to_owned(),
        id: PlanId::default(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: 0,
        metric: Metric::Rss,
        duration,
        looks: Vec::new(),
        pace: Pace::default(),
        about: About::default(),
        arms,
        builds: builds_of_hosts([(host, builds)]),
        services: Vec::new(),
    }
}

pub fn assigned(service: &Service, host: &str, arm: &str, family: Option<String>) -> Assignment {
    Assignment {
        service: service.name().clone(),
        host: host.to_owned(),
        arm: arm.to_owned(),
        block: 0,
        stratum: "all".to_owned(),
        family,
        drawn: None,
    }
}
