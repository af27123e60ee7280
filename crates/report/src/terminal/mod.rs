//! The report for a terminal.

mod field;
mod lab;

use unicode_width::UnicodeWidthStr;

use crate::chart::shorten;
use crate::table::{Emphasis, Table};
use crate::{Report, ReportError, escape};

const LONGEST_NAME: usize = 44;
/// Longest lines of running text.
pub(crate) const WIDTH: usize = 100;
const GUTTER: &str = "  ";

/// The report as lines for a terminal, in colour if `colored`.
pub fn terminal(report: &Report, colored: bool) -> Result<String, ReportError> {
    let report = escape::printable_report(report)?;
    let paint = Paint { colored };
    Ok(if report.kind().is_lab() { lab::lines(&report, paint) } else { field::lines(&report, paint) })
}

/// `text` in lines of at most `width`, the second and later ones indented by `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let needed = word.width() + usize::from(used > 0);
        if used > 0 && used + needed > width {
            lines.push(" ".repeat(indent));
            used = indent;
        } else if used > 0 {
            used += 1;
            if let Some(line) = lines.last_mut() {
                line.push(' ');
            }
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
        used += word.width();
    }
    lines
}

pub(crate) fn table_lines(table: &Table, longest_name: usize, paint: Paint) -> Vec<String> {
    let shown: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            row.cells
                .iter()
                .enumerate()
                .map(|(i, cell)| if i == 0 { shorten(cell, longest_name) } else { cell.clone() })
                .collect()
        })
        .collect();
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|i| {
            shown
                .iter()
                .map(|cells| cells[i].width())
                .chain([table.columns[i].title.width()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let join = |cells: &[String]| -> String {
        let padded = cells.iter().zip(&widths).zip(&table.columns);
        padded
            .map(|((cell, width), column)| pad(cell, *width, column.figures))
            .collect::<Vec<_>>()
            .join(GUTTER)
    };
    let titles: Vec<String> = table.columns.iter().map(|column| column.title.clone()).collect();
    let mut lines = vec![paint.dim(&join(&titles))];
    for (row, cells) in table.rows.iter().zip(&shown) {
        let line = join(cells);
        lines.push(match row.emphasis {
            Emphasis::Control => paint.bold(&line),
            Emphasis::Lost => paint.with(Paint::YELLOW, &line),
            Emphasis::None => line,
        });
    }
    lines
}

pub(crate) fn pad(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if right { format!("{space}{text}") } else { format!("{text}{space}") }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) colored: bool,
}

impl Paint {
    pub(crate) const DIM: &'static str = "2";
    pub(crate) const YELLOW: &'static str = "33";

    pub(crate) fn with(self, code: &str, text: &str) -> String {
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with(Self::DIM, text)
    }
}
