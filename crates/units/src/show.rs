//! Formats numbers for people.

/// Formats a number with about three significant digits: `0.125`, `1.25`, `125`, `12500`.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Formats a whole number with commas between thousands.
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 {
        text.insert(0, '-');
    }
    text
}

/// Formats a share in percent, with more digits for small shares: 0.123 is `12.3 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 10.0 => format!("{percent:.1} %"),
        size if size >= 0.1 || size == 0.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.4} %"),
    }
}

/// Formats a relative change in percent with its sign: 0.1 is `+10.0 %`.
pub fn change(share: f64) -> String {
    // Adding zero turns −0 into 0.
    format!("{:+.1} %", share * 100.0 + 0.0)
}

/// Formats bytes in the largest binary unit in which the number is at least 1: `1.5 MiB`.
pub fn bytes(number: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (number, 0);
    while value.abs() >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// Formats bytes in MiB, so that the numbers of a column can be compared: `0.125 MiB`.
pub fn mebibytes(bytes: f64) -> String {
    format!("{} MiB", short(bytes / f64::from(1 << 20)))
}

/// Formats milliseconds in the largest unit in which the number is at least 1: `250 µs`, `1.50 s`,
/// `3.00 h`.
pub fn span(ms: f64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (365.25 * 86_400_000.0, "years"),
        (86_400_000.0, "days"),
        (3_600_000.0, "h"),
        (60_000.0, "min"),
        (1000.0, "s"),
        (1.0, "ms"),
    ];
    match UNITS.iter().find(|(unit, _)| ms.abs() >= *unit) {
        Some((unit, name)) => format!("{} {name}", short(ms / unit)),
        None => format!("{} µs", short(ms * 1000.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let texts = [0.0, 0.5, 1.25, 12.34, 123.4, 12_345.0, 0.000_12].map(short);
        let wanted = ["0.000", "0.500", "1.25", "12.3", "123", "12345", "1.2e-4"];
        assert_eq!(texts, wanted);
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(-1_000.0), "-1,000");
    }

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(percent(0.000_5), "0.0500 %");
        assert_eq!(change(-0.0), "+0.0 %");
        assert_eq!(change(-0.25), "-25.0 %");
        assert_eq!(bytes(1_572_864.0), "1.5 MiB");
        assert_eq!(mebibytes(1_572_864.0), "1.50 MiB");
        assert_eq!(span(0.25), "250 µs");
        assert_eq!(span(1500.0), "1.50 s");
        assert_eq!(span(7_200_000.0), "2.00 h");
    }
}
