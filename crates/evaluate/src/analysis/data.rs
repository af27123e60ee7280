//! What all steps after the figures of single services look at.

use crate::analysis::age::Ages;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{ServiceResult, Settings};

/// A fleet with the figures of its services.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) settings: &'a Settings,
    pub(crate) ages: &'a Ages,
    pub(crate) services: &'a [ServiceResult],
}

impl<'a> Data<'a> {
    /// With other ages.
    pub(crate) fn at<'b>(self, ages: &'b Ages) -> Data<'b>
    where
        'a: 'b,
    {
        Data { ages, ..self }
    }

    pub(crate) fn name(&self, arm: usize) -> &'a str {
        &self.fleet.arms[arm].name
    }

    /// The figures of services that have one.
    pub(crate) fn values(&self, members: &[usize], of: fn(&ServiceResult) -> Option<f64>) -> Vec<f64> {
        members.iter().filter_map(|index| of(&self.services[*index])).collect()
    }
}
