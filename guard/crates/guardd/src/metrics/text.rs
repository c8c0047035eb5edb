// SPDX-License-Identifier: Apache-2.0
//! The text format of Prometheus (0.0.4).

use std::fmt::Write;

use super::{Kind, Metric};

/// Content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text, family by family.
#[derive(Debug, Default)]
pub struct Exposition(String);

/// The samples of one family.
pub struct Family<'a> {
    text: &'a mut String,
    metric: &'a Metric,
}

impl Exposition {
    /// Begins a family. One without samples must not be begun.
    pub fn family<'a>(&'a mut self, metric: &'a Metric) -> Family<'a> {
        let Metric { name, help, kind } = metric;
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        Family { text: &mut self.0, metric }
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, metric: &Metric, value: f64) {
        self.family(metric).sample(&[], value);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// One sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.line("", labels, None, value);
    }

    /// A histogram: counts of each bucket alone, the last one above all bounds.
    pub fn histogram(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        debug_assert_eq!(self.metric.kind, Kind::Histogram);
        let mut total = 0;
        for (index, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            self.line("_bucket", labels, Some(&bound), total as f64);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, total as f64);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: f64) {
        let _ = write!(self.text, "{}{suffix}", self.metric.name);
        let bound = bound.map(|bound| ("le", bound));
        let mut separator = '{';
        for (key, text) in labels.iter().copied().chain(bound) {
            let _ = write!(self.text, "{separator}{key}=\"");
            escape(text, self.text);
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escape(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            other => into.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_histograms() {
        let gauge = Metric { name: "a", help: "Help.", kind: Kind::Gauge };
        let histogram = Metric { name: "h", help: "Help.", kind: Kind::Histogram };
        let mut text = Exposition::default();
        text.family(&gauge).sample(&[("path", "/a\"b\\\n"), ("x", "y")], 0.25);
        text.single(&gauge, 3.0);
        text.family(&histogram).histogram(&[("op", "read")], &[0.5, 1.0], &[2, 0, 1], 4.5);
        assert_eq!(
            text.finish(),
            "# HELP a Help.\n# TYPE a gauge\na{path=\"/a\\\"b\\\\\\n\",x=\"y\"} 0.25\n\
             # HELP a Help.\n# TYPE a gauge\na 3\n\
             # HELP h Help.\n# TYPE h histogram\nh_bucket{op=\"read\",le=\"0.5\"} 2\nh_bucket{op=\"read\",le=\"1\"} 2\n\
             h_bucket{op=\"read\",le=\"+Inf\"} 3\nh_sum{op=\"read\"} 4.5\nh_count{op=\"read\"} 3\n"
        );
    }
}
