//! Tables that fit the terminal. If a table is too wide, the least important columns are omitted and texts are cut. Names are never cut,
//! and overflow if they are wider than the terminal. If the output is not a terminal, cells are complete.

use std::io::{self, Write};

use super::{Style, Ui, cut_end, text_width};

/// Number of spaces between columns.
const GAP: usize = 2;

/// Minimum width of a cut cell.
const LEAST: usize = 10;

/// Maximum width of a column if nothing is cut. Longer cells overflow, so that a single long cell does not pad every
/// row with spaces.
const WIDEST: usize = 200;

/// The layout of a column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    right: bool,
    cut: fn(&str, usize) -> String,
    gives: Gives,
    style: Style,
    /// Order in which columns are omitted if space is short, lowest first; 0 for never.
    left_out: u8,
    is_name: bool,
}

/// When a column is narrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// Before other columns.
    First,
    /// If the table is still too wide.
    Last,
    Never,
}

impl Column {
    /// A column of words, cut only as a last resort.
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

    /// A column of texts whose ends are cut off if space is short.
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

    /// Omits the column if space is short; columns with smaller `order` are omitted first, and 0 is never omitted.
    pub const fn left_out(self, order: u8) -> Column {
        Column { left_out: order, ..self }
    }

    /// Sets the style.
    pub const fn styled(self, style: Style) -> Column {
        Column { style, ..self }
    }
}

/// Writes how many columns were omitted, if any.
fn print_hidden(ui: &mut Ui, indent: usize, widths: &[Option<usize>]) -> io::Result<()> {
    let text = match widths.iter().filter(|width| width.is_none()).count() {
        0 => return Ok(()),
        1 => "1 column hidden".to_owned(),
        n => format!("{n} columns hidden"),
    };
    let text = ui.paint(text, Style::Dim);
    spaces(&mut ui.out, indent)?;
    writeln!(ui.out, "{text}")
}

/// Rows of cells under a line of titles.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    /// The texts of all cells, row by row, and the end of each: there can be many, and most are short.
    cells: String,
    ends: Vec<usize>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table { columns: columns.into(), cells: String::new(), ends: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        for i in 0..self.columns.len() {
            self.cells.push_str(cells.get(i).map_or("", String::as_str));
            self.ends.push(self.cells.len());
        }
    }

    /// The cells of each row.
    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        let n = self.columns.len().max(1);
        self.ends.chunks(n).enumerate().map(move |(i, ends)| {
            let first = (i * n).checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
            let starts = [first].into_iter().chain(ends.iter().copied());
            starts.zip(ends).map(|(start, &end)| self.cells.get(start..end).unwrap_or_default())
        })
    }

    /// Writes the table to standard output, indented by `indent` columns.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self, ui: &mut Ui, indent: usize) -> io::Result<()> {
        let widths = self.widths(ui.width.map(|w| w.saturating_sub(indent)));
        self.line(ui, indent, &widths, self.columns.iter().map(|c| c.title), Some(Style::Bold))?;
        for row in self.rows() {
            self.line(ui, indent, &widths, row, None)?;
        }
        print_hidden(ui, indent, &widths)
    }

    /// Writes a table of the rows `0..n_rows` instead, which are made when they are needed, twice each: there may be very many.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print_rows<R: AsRef<[String]>>(
        &self,
        ui: &mut Ui,
        n_rows: usize,
        row: impl Fn(&Ui, usize) -> R,
    ) -> io::Result<()> {
        let mut widest = self.titles();
        for i in 0..n_rows {
            widen(&mut widest, ui.width, row(ui, i).as_ref().iter().map(String::as_str));
        }
        let widths = self.fitted(widest, ui.width);
        self.line(ui, 0, &widths, self.columns.iter().map(|c| c.title), Some(Style::Bold))?;
        for i in 0..n_rows {
            self.line(ui, 0, &widths, row(ui, i).as_ref().iter().map(String::as_str), None)?;
        }
        print_hidden(ui, 0, &widths)
    }

    /// Writes the table in Markdown, with names as code. Nothing is cut or omitted.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn print_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let cell = |column: &Column, text: &str| match column.is_name && !text.is_empty() && !text.contains('`') {
            true => format!("`{}`", text.replace('|', "\\|")),
            false => escaped(text),
        };
        let titles = self.columns.iter().map(|column| column.title.to_owned());
        let rules = self.columns.iter().map(|column| if column.right { "--:" } else { "---" }.to_owned());
        let rows = self.rows().map(|row| self.columns.iter().zip(row).map(|(c, text)| cell(c, text)).collect());
        for row in [titles.collect(), rules.collect()].into_iter().chain(rows) {
            let row: Vec<String> = row;
            writeln!(out, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }

    fn line<'c>(
        &self,
        ui: &mut Ui,
        indent: usize,
        widths: &[Option<usize>],
        cells: impl Iterator<Item = &'c str>,
        style: Option<Style>,
    ) -> io::Result<()> {
        let mut pending = indent;
        for ((column, cell), &width) in self.columns.iter().zip(cells).zip(widths) {
            let Some(width) = width else { continue };
            let cell = match column.gives {
                Gives::First | Gives::Last if ui.width.is_some() => (column.cut)(cell, width),
                _ => cell.to_owned(),
            };
            let space = width.saturating_sub(text_width(&cell));
            if column.right {
                pending += space;
            }
            // Spaces are written only before further text, so that no line ends with spaces.
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

    /// The width of each column; `None` if it is omitted.
    fn widths(&self, available: Option<usize>) -> Vec<Option<usize>> {
        let mut widest = self.titles();
        self.rows().for_each(|row| widen(&mut widest, available, row));
        self.fitted(widest, available)
    }

    /// The widths of the titles.
    fn titles(&self) -> Vec<Option<usize>> {
        self.columns.iter().map(|c| Some(text_width(c.title))).collect()
    }

    /// The width of each column, from the widths of the widest cells; `None` if it is omitted. If the table is too wide, columns are omitted,
    /// then the widest column that can be cut is narrowed repeatedly until the table fits.
    fn fitted(&self, mut widths: Vec<Option<usize>>, available: Option<usize>) -> Vec<Option<usize>> {
        let Some(available) = available else { return widths };
        let total = |widths: &[Option<usize>], least: usize| {
            let columns = self.columns.iter().zip(widths);
            let widths = columns.filter_map(|(column, width)| {
                width.map(|width| if column.gives == Gives::First { width.min(least) } else { width })
            });
            widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while total(&widths, LEAST) > available {
            let shown = self.columns.iter().zip(&mut widths).filter(|(c, width)| c.left_out > 0 && width.is_some());
            match shown.min_by_key(|(column, _)| column.left_out) {
                Some((_, width)) => *width = None,
                None => break,
            }
        }
        // No column is narrowed below LEAST. If names overflow anyway, cutting the other columns further gains nothing.
        for last in [Gives::First, Gives::Last] {
            while total(&widths, usize::MAX) > available {
                let columns = self.columns.iter().zip(&mut widths);
                let gives = |c: &Column| c.gives == Gives::First || c.gives == last;
                let can_shrink = columns.filter(|(column, width)| gives(column) && width.is_some_and(|w| w > LEAST));
                match can_shrink.max_by_key(|(_, width)| **width) {
                    Some((_, Some(width))) => *width -= 1,
                    _ => break,
                }
            }
        }
        widths
    }
}

/// Widens columns for the cells of a row.
fn widen<'c>(widths: &mut [Option<usize>], available: Option<usize>, row: impl Iterator<Item = &'c str>) {
    for (widest, width) in widths.iter_mut().zip(row.map(text_width)) {
        if available.is_some() || width <= WIDEST {
            *widest = (*widest).max(Some(width));
        }
    }
}

/// Escapes text so that Markdown shows it unchanged.
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
        assert_eq!(table.widths(Some(20)), [Some(30), None, Some(10)]);
        table.row(["a".repeat(201), String::new(), String::new()]);
        assert_eq!(table.widths(None), [Some(30), Some(5), Some(20)]);
    }
}
