//! Colours, each for a light and for a dark page.
//!
//! Plots are drawn in the light colours. On a dark page, the style sheet replaces each by its dark
//! counterpart: it selects elements by the attributes `fill` and `stroke`, which any style sheet
//! rule overrides. One drawing thus serves both pages, and is also valid as a separate file.
//!
//! The series' colours are distinguishable for readers who are red-green colour-blind. Each series
//! also has its own marker. The colours of heat-maps differ in lightness only.

use plotters::style::RGBColor;
use std::fmt::Write;

/// A colour for light and for dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ink {
    light: u32,
    dark: u32,
}

const fn ink(light: u32, dark: u32) -> Ink {
    Ink { light, dark }
}

impl Ink {
    /// Returns the light colour, which plots are drawn in.
    pub(crate) fn colour(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    pub(crate) fn light(self) -> u32 {
        self.light
    }

    pub(crate) fn dark(self) -> u32 {
        self.dark
    }
}

/// Background of the page.
pub(crate) const PAPER: Ink = ink(0xFFFFFF, 0x14171A);
/// Text of the page.
pub(crate) const TEXT: Ink = ink(0x1F2328, 0xE4E7EB);
/// Axes and their labels.
pub(crate) const FAINT: Ink = ink(0x57606A, 0xA3ABB5);
pub(crate) const GRID: Ink = ink(0xE3E6EA, 0x2C3238);

/// Colours of series: Okabe and Ito's set for colour-blind readers, darkened or lightened until
/// each has enough contrast with its page.
pub(crate) const SERIES: [Ink; 8] = [
    ink(0x0072B2, 0x56A8E0),
    ink(0xC8500A, 0xF58B4C),
    ink(0x00805C, 0x2EC49A),
    ink(0xB05890, 0xE39BC6),
    ink(0x8F6A00, 0xE0B83A),
    ink(0x2E8BC8, 0x9AD6FA),
    ink(0x5B3A99, 0xB79CF2),
    ink(0x6B7178, 0xC3C8CE),
];

/// Colours of heat-maps, from small to large values.
pub(crate) const RAMP: [Ink; 9] = [
    ink(0xEAF3FA, 0x1C2A38),
    ink(0xCFE3F3, 0x1F3A55),
    ink(0xB0D1EA, 0x234B70),
    ink(0x8CBCDF, 0x2A5D8B),
    ink(0x65A4D1, 0x3A73A6),
    ink(0x438AC0, 0x558CBE),
    ink(0x2B6FA8, 0x7AA8D4),
    ink(0x1B5389, 0xA6C8E8),
    ink(0x0D3763, 0xD8EAF9),
];

/// Returns the style rules that replace the light colours of plots by dark ones.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::new();
    let frame = [PAPER, TEXT, FAINT, GRID];
    for Ink { light, dark } in frame.iter().chain(&SERIES).chain(&RAMP) {
        for attribute in ["fill", "stroke"] {
            // Writing to a string cannot fail.
            let _ = write!(
                rules,
                "svg [{attribute}=\"#{light:06X}\"]{{{attribute}:#{dark:06X}}}"
            );
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: u32) -> f64 {
        let [_, red, green, blue] = colour.to_be_bytes();
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    /// Returns the contrast of two colours as the Web Content Accessibility Guidelines define it.
    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_series_stand_out_from_their_page() {
        for (ink, wanted) in [(TEXT, 7.0), (FAINT, 4.5)]
            .into_iter()
            .chain(SERIES.map(|ink| (ink, 3.0)))
        {
            assert!(contrast(ink.light, PAPER.light) >= wanted, "{ink:X?}");
            assert!(contrast(ink.dark, PAPER.dark) >= wanted, "{ink:X?}");
        }
    }

    #[test]
    fn the_ramp_runs_one_way_in_lightness() {
        for pair in RAMP.windows(2) {
            assert!(luminance(pair[0].light) > luminance(pair[1].light));
            assert!(luminance(pair[0].dark) < luminance(pair[1].dark));
        }
    }

    #[test]
    fn no_two_light_colours_are_equal() {
        let mut all: Vec<u32> = SERIES.iter().chain(&RAMP).map(|ink| ink.light).collect();
        all.extend([PAPER, TEXT, FAINT, GRID].map(|ink| ink.light));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
