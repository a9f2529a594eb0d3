//! Tables that fit the terminal. Where there is no room, columns that matter least are left out and texts are cut; names never are, and
//! stand out if they are wider than the terminal. Anywhere else cells are whole.

use std::io::{self, Write};

use super::{Style, Ui, cut_end, text_width};

/// Columns between two columns.
const GAP: usize = 2;

/// The least that cells are cut to, as long as only names and texts have to be.
const LEAST: usize = 10;

/// Columns that a column is wide at most where nothing is cut: longer cells stand out of it, so that one of them does not
/// fill every row with spaces.
const WIDEST: usize = 200;

/// How a column is set.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    right: bool,
    cut: fn(&str, usize) -> String,
    gives: Gives,
    style: Style,
    /// When it is left out where there is no room: before those with larger numbers; 0 for never.
    left_out: u8,
    is_name: bool,
}

/// When a column gives way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// Before others.
    First,
    /// When it still does not fit.
    Last,
    Never,
}

impl Column {
    /// A column of words that are cut only where there is no other way.
    pub const fn left(title: &'static str) -> Column {
        Column {
            title,
            right: false,
            cut: cut_end,
            gives: Gives::Last,
            style: Style::Plain,
            left_out: 0,
            is_name: false,
        }
    }

    /// A column of numbers.
    pub const fn right(title: &'static str) -> Column {
        Column {
            title,
            right: true,
            cut: cut_end,
            gives: Gives::Last,
            style: Style::Plain,
            left_out: 0,
            is_name: false,
        }
    }

    /// A column of names, which are never cut.
    pub const fn name(title: &'static str) -> Column {
        Column { is_name: true, ..Column::whole(title) }
    }

    /// A column of texts of which the end is cut off where there is no room.
    pub const fn text(title: &'static str) -> Column {
        Column {
            title,
            right: false,
            cut: cut_end,
            gives: Gives::First,
            style: Style::Plain,
            left_out: 0,
            is_name: false,
        }
    }

    /// A column of texts that are never cut.
    pub const fn whole(title: &'static str) -> Column {
        Column {
            title,
            right: false,
            cut: cut_end,
            gives: Gives::Never,
            style: Style::Plain,
            left_out: 0,
            is_name: false,
        }
    }

    /// The same, left out where there is no room, before those with larger numbers. 0 is for never.
    pub const fn left_out(self, order: u8) -> Column {
        Column { left_out: order, ..self }
    }

    /// The same in a style.
    pub const fn styled(self, style: Style) -> Column {
        Column { style, ..self }
    }
}

/// Rows of cells under a line of titles.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// Writes the table to standard output, indented by some columns.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn print(&self, ui: &mut Ui, indent: usize) -> io::Result<()> {
        let widths = self.widths(ui.width.map(|w| w.saturating_sub(indent)));
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.to_owned()).collect();
        self.line(ui, indent, &widths, &titles, Some(Style::Bold))?;
        for row in &self.rows {
            self.line(ui, indent, &widths, row, None)?;
        }
        Ok(())
    }

    /// Writes the table to standard output in Markdown, with names as code. Nothing is cut or left out.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn print_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let cell = |column: &Column, text: &str| match column.is_name && !text.is_empty() && !text.contains('`') {
            true => format!("`{}`", text.replace('|', "\\|")),
            false => escaped(text),
        };
        let titles = self.columns.iter().map(|column| column.title.to_owned());
        let rules = self.columns.iter().map(|column| if column.right { "--:" } else { "---" }.to_owned());
        let rows = self.rows.iter().map(|row| self.columns.iter().zip(row).map(|(c, text)| cell(c, text)).collect());
        for row in [titles.collect(), rules.collect()].into_iter().chain(rows) {
            let row: Vec<String> = row;
            writeln!(out, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }

    fn line(
        &self,
        ui: &mut Ui,
        indent: usize,
        widths: &[Option<usize>],
        cells: &[String],
        style: Option<Style>,
    ) -> io::Result<()> {
        let mut pending = indent;
        for ((column, cell), &width) in self.columns.iter().zip(cells).zip(widths) {
            let Some(width) = width else { continue };
            let cell = match column.gives {
                Gives::First | Gives::Last if ui.width.is_some() => (column.cut)(cell, width),
                _ => cell.clone(),
            };
            let space = width.saturating_sub(text_width(&cell));
            if column.right {
                pending += space;
            }
            // Spaces are held back until something follows them, so no line ends in any.
            if !cell.is_empty() {
                let painted = ui.paint(cell, style.unwrap_or(column.style));
                spaces(&mut ui.out, pending)?;
                write!(ui.out, "{painted}")?;
                pending = 0;
            }
            pending += GAP + if column.right { 0 } else { space };
        }
        writeln!(ui.out)
    }

    /// The width of each column, `None` for those that are left out: the widest cell; where that is too much, columns are left out, then
    /// those that can be cut narrowed, always the widest one, until all fit.
    fn widths(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let cell_width = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i));
            cells
                .map(|cell| text_width(cell))
                .filter(|&width| room.is_some() || width <= WIDEST)
                .chain(self.columns.get(i).map(|c| text_width(c.title)))
                .max()
                .unwrap_or(0)
        };
        let mut widths: Vec<Option<usize>> = (0..self.columns.len()).map(|i| Some(cell_width(i))).collect();
        let Some(room) = room else { return widths };
        let total = |widths: &[Option<usize>], least: usize| {
            let columns = self.columns.iter().zip(widths);
            let widths = columns.filter_map(|(column, width)| {
                width.map(|width| if column.gives == Gives::First { width.min(least) } else { width })
            });
            widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while total(&widths, LEAST) > room {
            let shown = self.columns.iter().zip(&mut widths).filter(|(c, width)| c.left_out > 0 && width.is_some());
            match shown.min_by_key(|(column, _)| column.left_out) {
                Some((_, width)) => *width = None,
                None => break,
            }
        }
        for (last, least) in [(Gives::First, LEAST), (Gives::Last, LEAST), (Gives::Last, 1)] {
            while total(&widths, usize::MAX) > room {
                let columns = self.columns.iter().zip(&mut widths);
                let gives = |c: &Column| c.gives == Gives::First || c.gives == last;
                let can_shrink = columns.filter(|(column, width)| gives(column) && width.is_some_and(|w| w > least));
                match can_shrink.max_by_key(|(_, width)| **width) {
                    Some((_, Some(width))) => *width -= 1,
                    _ => break,
                }
            }
        }
        widths
    }
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn spaces(out: &mut impl Write, n: usize) -> io::Result<()> {
    const SOME: &[u8] = &[b' '; 256];
    let mut left = n;
    while left > 0 {
        let now = SOME.get(..left).unwrap_or(SOME);
        out.write_all(now)?;
        left -= now.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_cells_as_they_are() {
        let mut table = Table::new([Column::name("NAME"), Column::right("N"), Column::left("TEXT")]);
        table.row(["a|b_c".to_owned(), "1".to_owned(), "x_y|<b>".to_owned()]);
        let mut out = Vec::new();
        table.print_markdown(&mut out).unwrap();
        let expected = "| NAME | N | TEXT |\n| --- | --: | --- |\n| `a\\|b_c` | 1 | x\\_y\\|&lt;b> |\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn columns_are_left_out_and_texts_are_cut_but_never_names() {
        let columns = [Column::name("NAME"), Column::right("N").left_out(1), Column::text("TEXT")];
        let mut table = Table::new(columns);
        table.row(["a".repeat(30), "12345".to_owned(), "b".repeat(20)]);
        assert_eq!(table.widths(None), [Some(30), Some(5), Some(20)]);
        assert_eq!(table.widths(Some(80)), [Some(30), Some(5), Some(20)]);
        assert_eq!(table.widths(Some(55)), [Some(30), Some(5), Some(16)]);
        assert_eq!(table.widths(Some(48)), [Some(30), None, Some(16)]);
        assert_eq!(table.widths(Some(42)), [Some(30), None, Some(10)]);
        assert_eq!(table.widths(Some(20)), [Some(30), None, Some(1)]);
        table.row(["a".repeat(201), String::new(), String::new()]);
        assert_eq!(table.widths(None), [Some(30), Some(5), Some(20)]);
    }
}
