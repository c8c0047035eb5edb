// SPDX-License-Identifier: Apache-2.0
//! Times and amounts as people read them.

/// A length of time with two significant units at most: `85 ms`, `3.2 s`, `2 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => match ns / 1000 {
            us @ 0..=999 => format!("{us} us"),
            us => format!("{} ms", us / 1000),
        },
        1..=9 => format!("{}.{} s", seconds, ns / 100_000_000 % 10),
        10..=119 => format!("{seconds} s"),
        120..=7199 => two(seconds / 60, "min", seconds % 60, "s"),
        7200..=172_799 => two(seconds / 3600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// A point in time, UTC.
pub fn time(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let ms = realtime_ns / 1_000_000 % 1000;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970-01-01 (Gregorian; years counted from March, so that a leap day is last).
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// `1 job`, `2 jobs`.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A number of bytes with three digits, in powers of 1000: `999 B`, `1.23 MB`.
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "kB", "MB", "GB", "TB", "PB"] {
        // What would be rounded up to 1000 is written in the next unit.
        let decimals = if unit == "B" || value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
        if value < 999.5 {
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.0} EB")
}

/// Text of strangers for a terminal: what would move the cursor, change colours, turn the direction of reading or not
/// be seen is written as `\u{1b}`. Of a text longer than `most` characters the middle is left out.
pub fn harmless(text: &str, most: usize) -> String {
    let length = text.chars().count();
    let mut safe = String::new();
    for (place, c) in text.chars().enumerate() {
        let head = most.saturating_sub(3) / 2;
        let tail = most.saturating_sub(3) - head;
        if length > most && place >= head && place < length - tail {
            if place == head {
                safe += "...";
            }
            continue;
        }
        match hidden(c) {
            true => safe.extend(c.escape_unicode()),
            false => safe.push(c),
        }
    }
    safe
}

/// Controls (C0, C1, delete), line and paragraph separators, directions, joiners, fillers, blank letters, tags.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (1_234_567, "1.23 MB"),
            (9_996_000, "10.0 MB"),
            (99_960_000, "100 MB"),
            (999_600_000, "1.00 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn strangers_do_not_reach_the_terminal() {
        assert_eq!(harmless("/data/é/ordinary file", 50), "/data/é/ordinary file");
        assert_eq!(harmless("a\u{1b}[2Jb\r\n\u{9b}c\u{7f}", 50), "a\\u{1b}[2Jb\\u{d}\\u{a}\\u{9b}c\\u{7f}");
        assert_eq!(harmless("\u{202e}gpj.exe\u{200b}\u{feff}", 50), "\\u{202e}gpj.exe\\u{200b}\\u{feff}");
        for c in ['\u{34f}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'] {
            assert_eq!(harmless(&c.to_string(), 50), format!("\\u{{{:x}}}", c as u32));
        }
        assert_eq!(harmless("0123456789abcdef", 11), "0123...cdef");
        assert_eq!(harmless("0123456789a", 11), "0123456789a");
        assert_eq!(harmless("0123456789", 0), "...");
        let all: String = (0..=0x10ffff).filter_map(char::from_u32).collect();
        assert!(!harmless(&all, usize::MAX).chars().any(char::is_control));
    }

    #[test]
    fn durations() {
        for (ns, text) in [
            (0, "0 us"),
            (85_000_000, "85 ms"),
            (3_250_000_000, "3.2 s"),
            (60_000_000_000, "60 s"),
            (125_000_000_000, "2 min 5 s"),
            (12_000_000_000_000, "3 h 20 min"),
            (187_200_000_000_000, "2 d 4 h"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn times() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000Z");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29 00:00:00.000Z");
        assert_eq!(time(1_795_173_354_123_000_000), "2026-11-20 11:15:54.123Z");
        assert_eq!(time(4_107_542_399_999_000_000), "2100-02-28 23:59:59.999Z");
    }
}
