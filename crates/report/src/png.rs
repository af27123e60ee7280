//! Charts as pictures.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::ReportError;
use crate::chart::Chart;

/// Pixels per unit of a chart: sharp on dense screens.
const SCALE: f32 = 2.0;
const FAMILY: &str = "DejaVu Sans";

/// Renders charts with a font of its own, so that pictures are the same on every machine.
#[derive(Debug)]
pub(crate) struct Painter {
    options: usvg::Options<'static>,
}

impl Painter {
    pub(crate) fn new() -> Self {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.load_font_data(dejavu::sans::bold().to_vec());
        fonts.set_sans_serif_family(FAMILY);
        let options = usvg::Options {
            font_family: FAMILY.to_owned(),
            fontdb: Arc::new(fonts),
            ..usvg::Options::default()
        };
        Self { options }
    }

    pub(crate) fn paint(&self, chart: &Chart) -> Result<Vec<u8>, ReportError> {
        self.paint_text(chart.name, &chart.picture())
    }

    /// The SVG `text` of a chart as PNG.
    pub(crate) fn paint_text(&self, chart: &'static str, text: &str) -> Result<Vec<u8>, ReportError> {
        let error = |reason: String| ReportError::Picture { chart, reason };
        let tree = usvg::Tree::from_str(text, &self.options).map_err(|e| error(e.to_string()))?;
        let size = tree.size().to_int_size();
        let (width, height) = (size.width() as f32 * SCALE, size.height() as f32 * SCALE);
        let mut pixels = tiny_skia::Pixmap::new(width as u32, height as u32)
            .ok_or_else(|| error(format!("{width} x {height} pixels are too many or too few")))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|e| error(e.to_string()))
    }
}
