//! What was measured, by memory and what it costs; and the front.

use heaptrial_model::AllocatorSpec;
use heaptrial_tune::{Figure, Goal};

use super::TuneReport;
use super::forms::told;
use crate::chart::{Chart, FrontChart, FrontPoint, Layout, front};

impl TuneReport {
    /// The second axis: the second goal, or CPU time.
    fn second(&self) -> (Figure, &'static str) {
        match self.goals.as_slice() {
            [_, Goal::Growth] => (Figure::Growth, "growth"),
            _ => (Figure::Cpu, "CPU time"),
        }
    }

    pub(super) fn chart(&self, layout: Layout) -> Option<Chart> {
        let (second, axis) = self.second();
        let measured = self.candidates.iter().filter_map(|one| {
            let x = one.believed.first()?.0;
            let y = match second {
                Figure::Cpu => one.cpu?,
                _ => one.believed.get(1)?.0,
            };
            Some(FrontPoint {
                name: told(&one.spec, x, None).replace(" (no interval)", ""),
                of: allocator_of(&one.spec),
                at: (x.exp(), y.exp()),
                interval: None,
                filled: false,
                faint: one.out.is_some() || !one.within,
            })
        });
        let mut points: Vec<FrontPoint> = measured.collect();
        let mut specs: Vec<&str> = self
            .candidates
            .iter()
            .filter(|one| !one.believed.is_empty())
            .filter(|one| if second == Figure::Cpu { one.cpu.is_some() } else { one.believed.len() > 1 })
            .map(|one| one.spec.as_str())
            .collect();
        let first = self.goals.first()?.figure();
        for arm in self.verified.iter().flat_map(|verified| &verified.arms) {
            let (Some(x), Some(y)) = (arm.against(None, first), arm.against(None, second)) else { continue };
            points.push(FrontPoint {
                name: told(&arm.spec, x.log_ratio, x.interval),
                of: allocator_of(&arm.spec),
                at: (x.log_ratio.exp(), y.log_ratio.exp()),
                interval: x.interval.map(|(low, high)| (low.exp(), high.exp())),
                filled: true,
                faint: false,
            });
            specs.push(&arm.spec);
        }
        if points.is_empty() {
            return None;
        }
        let looks = self.looks_of(specs.into_iter());
        let memory = if first == Figure::Growth { "growth" } else { "memory" };
        let chart = FrontChart {
            title: "What each candidate takes".to_owned(),
            caption: format!(
                "Each candidate by {memory} and {axis}, in proportion to {} (the cross). Small: as the search believes; faint: \
                 out, or beyond a limit. Large, with an interval: verified on fresh seeds.",
                self.control
            ),
            subtitle: format!("{} blocks, seed {}", self.blocks.len(), self.seed),
            axes: [memory, axis],
            points,
        };
        Some(front(&chart, |at| looks.get(at + 1), layout))
    }
}

/// The allocator of a candidate, without its settings.
fn allocator_of(spec: &str) -> String {
    spec.parse::<AllocatorSpec>().map_or_else(|_| spec.to_owned(), |spec| spec.without_settings().to_string())
}
