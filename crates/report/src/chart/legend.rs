//! Names and values of lines, at the right of their ends.

use super::svg::{Element, element, path_data, text};
use super::{ArmStyle, shorten, text_width};
use crate::units;

pub(super) const LABEL_DISTANCE: f64 = 17.0;

pub(super) struct Label {
    pub(super) style: ArmStyle,
    pub(super) name: String,
    pub(super) bytes: f64,
    /// Where the line ends, as a coordinate.
    pub(super) at: f64,
}

/// Width that labels beside a plot need: leader, marker, name and value.
pub(super) fn width_beside<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    let longest = names.map(|name| text_width(name, 12.0)).fold(0.0, f64::max);
    (longest + 122.0).clamp(190.0, 310.0)
}

/// Names and values at the right of the lines' ends, moved apart where they would collide. `right` are the plot's edge
/// and that of the drawing, `range` is where labels may stand.
pub(super) fn beside(labels: &mut [Label], right: (f64, f64), range: (f64, f64)) -> Vec<Element> {
    labels.sort_by(|a, b| a.at.total_cmp(&b.at));
    let wanted: Vec<f64> = labels.iter().map(|label| label.at).collect();
    let places = spread(&wanted, LABEL_DISTANCE, range);
    let left = right.0 + 26.0;
    let mut elements = Vec::new();
    for (label, place) in labels.iter().zip(places) {
        let leader = [[(right.0 + 6.0, label.at), (right.0 + 14.0, label.at), (left - 5.0, place)]];
        elements.push(element("path").class("leader").attribute("d", &path_data(leader)));
        let value = units::memory(label.bytes);
        let room = right.1 - left - 6.0 - text_width(&value, 12.0) - 20.0;
        let name = shorten(&label.name, (room / (12.0 * 0.62)) as usize);
        elements.push(label.style.marker((left + 4.0, place), 4.5));
        elements.push(text("", (left + 14.0, place + 4.0), &name).child(element("title").text(&label.name)));
        elements.push(text("bold end", (right.1 - 6.0, place + 4.0), &value));
    }
    elements
}

/// Places near `wanted` (ascending) that are at least `distance` apart and within `range`: each moves down as far as the one before it
/// asks, and then up as far as the end of the range asks.
fn spread(wanted: &[f64], distance: f64, range: (f64, f64)) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut free = range.0;
    for place in &mut places {
        *place = place.max(free);
        free = *place + distance;
    }
    let mut free = range.1;
    for place in places.iter_mut().rev() {
        *place = place.min(free);
        free = *place - distance;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn labels_do_not_collide_and_stay_inside(mut wanted in prop::collection::vec(0.0f64..330.0, 1..15)) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 17.0, (0.0, 330.0));
            prop_assert_eq!(places.len(), wanted.len());
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 17.0 - 1e-6), "{places:?}");
            prop_assert!(places.iter().all(|place| (-1e-6..=330.0 + 1e-6).contains(place)), "{places:?}");
        }
    }
}
