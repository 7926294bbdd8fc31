//! Plots as PNG images, for papers and for programs that do not display SVG.
//!
//! The SVG is rendered with a font that is compiled in, so that the image is the same on every
//! machine, including one without fonts. The font has Latin, Greek and Cyrillic letters and the
//! usual symbols. Other characters are shown as an empty box.

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use std::sync::{Arc, LazyLock};

/// A subset of DejaVu Sans; its licence is in the same folder.
const FONT: &[u8] = include_bytes!("../font/DejaVuSans.ttf");
const FAMILY: &str = "DejaVu Sans";
/// Pixels of the image per unit of the SVG. At this scale a plot 760 units wide has 460 dpi in a
/// column of 3.3 inches.
const SCALE: f32 = 2.0;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    Arc::new(fonts)
});

/// Renders a drawing of [`crate::Plot::draw`] as a PNG on white.
pub(crate) fn of_svg(svg: &str) -> Vec<u8> {
    let options = Options {
        fontdb: Arc::clone(&FONTS),
        font_family: FAMILY.into(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).expect("a drawing of our own is well-formed");
    let size = tree.size().to_int_size().scale_by(SCALE);
    let size = size.expect("a plot has a width and a height");
    let pixmap = Pixmap::new(size.width(), size.height());
    let mut pixmap = pixmap.expect("a plot is some thousand dots wide and high");
    pixmap.fill(Color::WHITE);
    let transform = Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap
        .encode_png()
        .expect("an image in memory has nothing to fail at")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line, Plot};

    fn dark_dots(name: &str) -> usize {
        let lines = vec![Line::new(name, vec![])];
        let plot = Plot::lines("", Axis::linear(""), Axis::linear(""), lines);
        let png = of_svg(&plot.draw(760).svg);
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
        let pixmap = Pixmap::decode_png(&png).expect("it was just written");
        assert_eq!(pixmap.width(), 1520);
        let is_dark = |dot: &&resvg::tiny_skia::PremultipliedColorU8| dot.red() < 100;
        pixmap.pixels().iter().filter(is_dark).count()
    }

    /// The font is found: the image differs when a name has letters.
    #[test]
    fn text_is_drawn_without_fonts_of_the_machine() {
        let without = dark_dots("x");
        for name in ["WWWWWWWW", "ЖЖЖЖЖЖЖЖ", "±±±±±±±±", "世世世世世世世世"]
        {
            let with = dark_dots(name);
            assert!(with > without + 200, "{name}: {with} of {without}");
        }
    }

    #[test]
    fn labels_of_any_text_are_drawn() {
        dark_dots("</text>&\"'\n\u{0}\u{FFFE}<svg");
    }
}
