//! A document for a terminal: short, without charts.

use heaptrial_evaluate::analysis::Severity;
use unicode_width::UnicodeWidthStr;

use crate::escape;
use crate::forms::Content;
use crate::page::{Block, Section};
use crate::table::{Emphasis, Table};
use crate::text::severity;

/// Texts are never wider.
const WIDTH: usize = 100;
const GUTTER: &str = "  ";

/// What lines are written for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screen {
    pub colored: bool,
    /// In columns; without one, tables are as wide as their cells.
    pub width: Option<usize>,
}

/// The document as lines.
pub(crate) fn lines(document: &Content, screen: Screen) -> String {
    let paint = Paint { colored: screen.colored };
    let mut out = Lines { paint, screen, text: String::new(), below_title: true };
    out.wrapped(&document.title, 2, |line| paint.bold(line));
    if !document.lead.is_empty() {
        out.wrapped(&document.lead, 0, |line| paint.dim(line));
        out.below_title = false;
    }
    out.sections(&document.sections);
    out.text
}

struct Lines {
    paint: Paint,
    screen: Screen,
    text: String,
    /// Whether the last line was a title, which needs no empty line below it.
    below_title: bool,
}

impl Lines {
    fn put(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn wrapped(&mut self, text: &str, indent: usize, paint: impl Fn(&str) -> String) {
        self.screen.wrap(text, indent).iter().for_each(|line| self.put(&paint(line)));
    }

    fn apart(&mut self) {
        if !std::mem::take(&mut self.below_title) {
            self.put("");
        }
    }

    fn title(&mut self, title: &str) {
        self.apart();
        let paint = self.paint;
        self.wrapped(title, 2, |line| paint.bold(line));
        self.below_title = true;
    }

    fn sections(&mut self, sections: &[Section]) {
        for section in sections {
            // A block with a title of its own needs none above it.
            let titled = matches!(section.blocks.first(), Some(Block::Heading(_) | Block::Paragraph(_)));
            if !section.title.is_empty() && !titled {
                self.title(section.title);
            }
            section.blocks.iter().for_each(|block| self.block(block));
        }
    }

    fn block(&mut self, block: &Block) {
        let paint = self.paint;
        let plain = str::to_owned;
        match block {
            Block::Paragraph(paragraph) => {
                self.title(paragraph.title);
                let (bullet, indent) = if paragraph.is_list { ("- ", 2) } else { ("", 0) };
                let sentences = paragraph.sentences.iter();
                sentences.for_each(|sentence| self.wrapped(&format!("{bullet}{sentence}"), indent, plain));
            }
            Block::Heading(title) => return self.title(title),
            Block::Lead(sentences) => sentences.iter().for_each(|sentence| self.wrapped(sentence, 0, plain)),
            Block::Text(text) => self.wrapped(text, 0, plain),
            Block::Legend(text) => {
                self.apart();
                self.wrapped(text, 0, |line| paint.dim(line));
            }
            Block::List(items) => {
                items.iter().for_each(|item| self.wrapped(&format!("- {item}"), 2, plain));
            }
            Block::Pairs(pairs) => {
                pairs.iter().for_each(|(name, value)| self.wrapped(&format!("{name}: {value}"), 2, plain));
            }
            Block::Table(_, table) => {
                table_lines(table, paint, self.screen).iter().for_each(|line| self.put(line));
            }
            Block::Command(command) => self.put(&escape::printable(command)),
            Block::Finding(finding) => {
                let services = match finding.services.as_str() {
                    "" => String::new(),
                    services => format!(" {services}"),
                };
                let text = format!(
                    "- {}: {}: {}{services}",
                    severity(finding.severity),
                    finding.heading,
                    finding.text
                );
                let color = (finding.severity == Severity::Grave).then_some(Paint::YELLOW);
                let mut lines = self.screen.wrap(&text, 2);
                if let (Some(first), Some(color)) = (lines.first_mut(), color) {
                    *first = paint.with(color, first);
                }
                lines.iter().for_each(|line| self.put(line));
            }
            Block::Folded(_, blocks) => blocks.iter().for_each(|block| self.block(block)),
            Block::Chart(_) => return,
        }
        self.below_title = false;
    }
}

impl Screen {
    /// `text` in lines, the second and later ones indented by `indent`. Words are not broken.
    fn wrap(self, text: &str, indent: usize) -> Vec<String> {
        let text = text.split_whitespace().map(escape::printable).collect::<Vec<_>>().join(" ");
        let indent = " ".repeat(indent);
        let options = textwrap::Options::new(self.width.unwrap_or(WIDTH).min(WIDTH))
            .subsequent_indent(&indent)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
        textwrap::wrap(&text, options).into_iter().map(|line| line.into_owned()).collect()
    }

    /// Rows of cells as lines, each with its row's paint. Columns that are wider together than the screen follow below, after the
    /// first one again.
    pub fn columns(
        self,
        rows: &[Vec<String>],
        is_figure: impl Fn(usize) -> bool,
        paint: impl Fn(usize, &str) -> String,
    ) -> Vec<String> {
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        for column in 0..count {
            let part = parts.last().map_or(&[][..], Vec::as_slice);
            let taken: usize = part.iter().map(|column| widths[*column] + GUTTER.len()).sum();
            if part.len() > 1 && self.width.is_some_and(|width| taken + widths[column] > width) {
                parts.push(vec![0]);
            }
            parts.last_mut().into_iter().for_each(|part| part.push(column));
        }
        let line = |part: &Vec<usize>, row: &Vec<String>| {
            let cells = part.iter().filter_map(|column| {
                Some(pad(&escape::printable(row.get(*column)?), widths[*column], is_figure(*column)))
            });
            cells.collect::<Vec<_>>().join(GUTTER)
        };
        let lines = |part: &Vec<usize>| {
            rows.iter().enumerate().map(|(row, cells)| paint(row, &line(part, cells))).collect()
        };
        let parts: Vec<Vec<String>> = parts.iter().map(lines).collect();
        parts.join(&String::new())
    }
}

fn table_lines(table: &Table, paint: Paint, screen: Screen) -> Vec<String> {
    let titles = table.columns.iter().map(|column| column.title.clone()).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(titles).chain(table.rows.iter().map(|row| row.cells.clone())).collect();
    let painted = |row: usize, line: &str| match row.checked_sub(1).map(|row| table.rows[row].emphasis) {
        None => paint.dim(line),
        Some(Emphasis::Control) => paint.bold(line),
        Some(Emphasis::Lost) => paint.with(Paint::YELLOW, line),
        Some(Emphasis::None) => line.to_owned(),
    };
    screen.columns(&rows, |column| table.columns[column].figures, painted)
}

fn pad(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if right { format!("{space}{text}") } else { format!("{text}{space}") }
}

#[derive(Debug, Clone, Copy)]
struct Paint {
    colored: bool,
}

impl Paint {
    const DIM: &'static str = "2";
    const YELLOW: &'static str = "33";

    fn with(self, code: &str, text: &str) -> String {
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.with(Self::DIM, text)
    }
}
