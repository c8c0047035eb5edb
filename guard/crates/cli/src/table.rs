// SPDX-License-Identifier: Apache-2.0
//! Tables for terminals.

/// Rows of cells. Numbers stand right; the last column is as long as it is.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// With these headings; those that begin with `>` are of columns of numbers.
    pub fn new(headings: &[&str]) -> Table {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let first = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Table { rows: vec![first], right }
    }

    /// Adds a row of as many cells as there are headings.
    pub fn add(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Nothing but headings?
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The lines, each with `indent` blanks before it.
    pub fn text(&self, indent: usize) -> String {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, cell) in row.iter().enumerate() {
                let blanks = " ".repeat(widths[column] - cell.chars().count());
                match self.right[column] {
                    true => line += &format!("{blanks}{cell}  "),
                    false => line += &format!("{cell}{blanks}  "),
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&["NAME", ">TIMES", "FILE"]);
        assert!(table.is_empty());
        table.add(vec!["é".into(), "1".into(), "/a".into()]);
        table.add(vec!["longer".into(), "1000000".into(), String::new()]);
        assert!(!table.is_empty());
        assert_eq!(table.text(2), "  NAME      TIMES  FILE\n  é             1  /a\n  longer  1000000\n");
    }
}
