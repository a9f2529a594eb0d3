//! Tables that fit the terminal. On one, cells are cut; anywhere else they are whole.

use std::io::{self, Write};

use super::{Style, Ui, cut_end, cut_middle, text_width};

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
        Column { title, right: false, cut: cut_end, gives: Gives::Last, style: Style::Plain }
    }

    /// A column of numbers.
    pub const fn right(title: &'static str) -> Column {
        Column { title, right: true, cut: cut_end, gives: Gives::Last, style: Style::Plain }
    }

    /// A column of names, of which the middle is cut out where there is no room.
    pub const fn name(title: &'static str) -> Column {
        Column { title, right: false, cut: cut_middle, gives: Gives::First, style: Style::Plain }
    }

    /// A column of texts of which the end is cut off where there is no room.
    pub const fn text(title: &'static str) -> Column {
        Column { title, right: false, cut: cut_end, gives: Gives::First, style: Style::Plain }
    }

    /// A column of texts that are never cut.
    pub const fn whole(title: &'static str) -> Column {
        Column { title, right: false, cut: cut_end, gives: Gives::Never, style: Style::Plain }
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

    /// Columns that it takes where nothing is cut.
    pub fn width(&self) -> usize {
        let widths = self.widths(Some(usize::MAX));
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
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

    fn line(
        &self,
        ui: &mut Ui,
        indent: usize,
        widths: &[usize],
        cells: &[String],
        style: Option<Style>,
    ) -> io::Result<()> {
        let mut pending = indent;
        for ((column, cell), &width) in self.columns.iter().zip(cells).zip(widths) {
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

    /// The widest cell of each column, then columns that can be cut narrowed, always the widest one, until all fit.
    fn widths(&self, room: Option<usize>) -> Vec<usize> {
        let cell_width = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i));
            cells
                .map(|cell| text_width(cell))
                .filter(|&width| room.is_some() || width <= WIDEST)
                .chain(self.columns.get(i).map(|c| text_width(c.title)))
                .max()
                .unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(cell_width).collect();
        let Some(room) = room else { return widths };
        for width in &mut widths {
            *width = (*width).min(room);
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        for (last, least) in [(Gives::First, LEAST), (Gives::Last, LEAST), (Gives::Last, 1)] {
            while widths.iter().sum::<usize>() + gaps > room {
                let columns = self.columns.iter().zip(&mut widths);
                let gives = |c: &Column| c.gives == Gives::First || c.gives == last;
                let can_shrink = columns.filter(|(column, width)| gives(column) && **width > least);
                match can_shrink.max_by_key(|(_, width)| **width) {
                    Some((_, width)) => *width -= 1,
                    None => break,
                }
            }
        }
        widths
    }
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
    fn the_widest_column_that_can_be_cut_gives_way() {
        let mut table = Table::new([Column::name("NAME"), Column::right("N"), Column::text("TEXT")]);
        table.row(["a".repeat(30), "12345".to_owned(), "b".repeat(20)]);
        assert_eq!(table.widths(None), [30, 5, 20]);
        assert_eq!(table.width(), 59);
        assert_eq!(table.widths(Some(80)), [30, 5, 20]);
        assert_eq!(table.widths(Some(55)), [26, 5, 20]);
        assert_eq!(table.widths(Some(39)), [15, 5, 15]);
        assert_eq!(table.widths(Some(20)), [6, 5, 5]);
        table.row(["a".repeat(201), String::new(), String::new()]);
        assert_eq!(table.widths(None), [30, 5, 20]);
    }
}
