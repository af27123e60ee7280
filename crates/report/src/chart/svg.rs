//! Elements of SVG, written as escaped text.

use std::fmt::Write;

use crate::escape;

#[derive(Debug, Clone)]
pub(crate) struct Element {
    tag: &'static str,
    attributes: String,
    content: String,
}

pub(crate) fn element(tag: &'static str) -> Element {
    Element { tag, attributes: String::new(), content: String::new() }
}

impl Element {
    /// Adds an attribute; `value` is escaped.
    pub(crate) fn attribute(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.attributes, " {name}=\"{}\"", escape::xml(value));
        self
    }

    /// Adds an attribute that is a length or a coordinate, to a tenth of a unit.
    pub(crate) fn number(mut self, name: &str, value: f64) -> Self {
        let _ = write!(self.attributes, " {name}=\"{}\"", coordinate(value));
        self
    }

    pub(crate) fn class(self, class: &str) -> Self {
        self.attribute("class", class)
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.content.push_str(&escape::xml(text));
        self
    }

    pub(crate) fn child(mut self, child: Element) -> Self {
        self.push(child);
        self
    }

    pub(crate) fn push(&mut self, child: Element) {
        child.write_to(&mut self.content);
    }

    /// Adds what other elements were written to.
    pub(crate) fn raw(mut self, written: &str) -> Self {
        self.content.push_str(written);
        self
    }

    fn write_to(&self, out: &mut String) {
        let Self { tag, attributes, content } = self;
        let _ = if content.is_empty() {
            write!(out, "<{tag}{attributes}/>")
        } else {
            write!(out, "<{tag}{attributes}>{content}</{tag}>")
        };
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

pub(crate) fn group(class: &str) -> Element {
    element("g").class(class)
}

pub(crate) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Element {
    element("line")
        .class(class)
        .number("x1", from.0)
        .number("y1", from.1)
        .number("x2", to.0)
        .number("y2", to.1)
}

/// A rectangle with its upper left corner at `at`.
pub(crate) fn rectangle(class: &str, at: (f64, f64), width: f64, height: f64) -> Element {
    let element = element("rect").class(class).number("x", at.0).number("y", at.1);
    element.number("width", width.max(0.0)).number("height", height.max(0.0))
}

/// Text with its baseline at `at`.
pub(crate) fn text(class: &str, at: (f64, f64), text: &str) -> Element {
    element("text").class(class).number("x", at.0).number("y", at.1).text(text)
}

/// The data of a path through `segments`.
pub(crate) fn path_data(segments: impl IntoIterator<Item = impl IntoIterator<Item = (f64, f64)>>) -> String {
    let mut data = String::new();
    for segment in segments {
        let mut first = true;
        for (x, y) in segment {
            let command = if std::mem::take(&mut first) { 'M' } else { 'L' };
            let _ = write!(data, "{command}{} {}", coordinate(x), coordinate(y));
        }
    }
    data
}

/// A coordinate to a tenth of a unit.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
