//! The functions of the module. Texts go in through `input`, answers come out through `output`; the numbers of rows and bytes are numbers of
//! JavaScript, which are exact up to 2^53.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of JavaScript are whole here, and addresses of WebAssembly have 32 bits"
)]

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

#[cfg(feature = "model")]
use ggufkit::GgmlType;
use ggufkit::{HeadScan, ReadAt, ScanState};
use serde_json::{Value, json};

use crate::page::{HEAD_BYTES, LIMITS, Offered, Page, TensorOrder};
#[cfg(feature = "model")]
use crate::{Comparison, Difference, Map, Survey, Weights};
#[cfg(feature = "encode")]
use crate::{Cost, offers};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Reads `len` bytes of a file at an offset to an address. Returns 1, or 0 if the bytes cannot be read.
    safe fn read(file: u32, offset: f64, to: *mut u8, len: usize) -> u32;
}

/// A file of the page.
#[derive(Debug)]
struct PageFile {
    index: u32,
    bytes: u64,
}

impl ReadAt for PageFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match read(self.index, offset as f64, buf.as_mut_ptr(), buf.len()) {
            1 => Ok(()),
            _ => Err(io::Error::other("the browser could not read these bytes")),
        }
    }
}

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    n_files: u32,
    offered: Vec<Offered>,
    /// Never freed: an instance opens one model.
    page: Option<&'static Page>,
    /// The bytes of a head that is arriving.
    head: Vec<u8>,
    scan: Option<HeadScan>,
    kvs: Vec<u32>,
    tensors: Vec<(u32, u32)>,
    #[cfg(feature = "model")]
    tokens: Vec<u32>,
    /// The files of another model, until it is opened.
    #[cfg(feature = "model")]
    offered_other: Vec<Offered>,
    /// Never freed, as the first one.
    #[cfg(feature = "model")]
    other: Option<&'static Page>,
    #[cfg(feature = "model")]
    comparison: Option<Comparison>,
    #[cfg(feature = "model")]
    work: Work,
}

/// The work on tensors that is under way: the tensors, and what has been found so far.
#[cfg(feature = "model")]
#[derive(Default)]
enum Work {
    #[default]
    None,
    Survey(Box<Weights<'static>>, Survey),
    Map(Vec<Weights<'static>>, Map),
    Difference(Box<[Weights<'static>; 2]>, Box<Difference>),
    #[cfg(feature = "encode")]
    Cost(Box<Weights<'static>>, Box<Cost>),
}

impl State {
    /// The number of the next file that the page offers.
    fn next_file(&mut self) -> u32 {
        self.n_files += 1;
        self.n_files - 1
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Runs a function with the state and the text of the input.
fn with<T>(run: impl FnOnce(&mut State, &str) -> T) -> T {
    STATE.with_borrow_mut(|state| {
        let input = std::mem::take(&mut state.input);
        run(state, &String::from_utf8_lossy(&input))
    })
}

/// Answers with a value of the page; with `null` if none is open.
fn answer(of: impl FnOnce(&'static Page, &mut State, &str) -> Value) {
    with(|state, input| {
        let value = match state.page {
            Some(page) => of(page, state, input),
            None => Value::Null,
        };
        state.output = value.to_string().into_bytes();
    });
}

/// Number of rows from a position of a list.
fn part<T>(list: &[T], from: u32, n: u32) -> &[T] {
    let from = (from as usize).min(list.len());
    let end = from.saturating_add(n as usize).min(list.len());
    list.get(from..end).unwrap_or_default()
}

/// Makes room for a text of `len` bytes, and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn input(len: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; len];
        state.input.as_mut_ptr()
    })
}

/// The address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// The length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn output_bytes() -> usize {
    STATE.with_borrow(|state| state.output.len())
}

/// Starts to look for the end of a head whose bytes arrive one after the other. `file_bytes` is negative if it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn scan_start(file_bytes: f64) {
    STATE.with_borrow_mut(|state| {
        let total = (file_bytes >= 0.0).then_some(file_bytes as u64);
        (state.head, state.scan) = (Vec::new(), Some(HeadScan::new(total).within(LIMITS)));
    });
}

/// Makes room for `n` more bytes of the head, and returns their address.
#[unsafe(no_mangle)]
pub extern "C" fn scan_room(n: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        let len = state.head.len();
        state.head.resize(len.saturating_add(n), 0);
        state.head.get_mut(len..).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
    })
}

/// Continues with the bytes that have arrived. Returns the number of bytes that the head has at least, negative once it is complete, and 0 if it is
/// invalid or too long, so that no more are needed.
#[unsafe(no_mangle)]
pub extern "C" fn scan() -> f64 {
    STATE.with_borrow_mut(|state| {
        let State { head, scan: Some(scan), .. } = state else { return 0.0 };
        match scan.advance(head) {
            Ok(ScanState::Complete) => -(scan.head_bytes() as f64),
            Ok(ScanState::Need(bytes)) if head.len() <= HEAD_BYTES => bytes as f64,
            Ok(ScanState::Need(_)) | Err(_) => 0.0,
        }
    })
}

/// The probable number of bytes of the head that is arriving.
#[unsafe(no_mangle)]
pub extern "C" fn scan_likely() -> f64 {
    STATE.with_borrow(|state| state.scan.as_ref().map_or(0.0, |scan| scan.likely_bytes(&state.head) as f64))
}

/// Offers a file to [`open`]. The input is its name.
#[unsafe(no_mangle)]
pub extern "C" fn add_file(file_bytes: f64) {
    with(|state, name| {
        let index = state.next_file();
        state.offered.push((name.to_owned(), Arc::new(PageFile { index, bytes: file_bytes as u64 })));
    });
}

/// Opens the model of a file. The input is its name, and the output the first screen, or an object with `error`.
#[unsafe(no_mangle)]
pub extern "C" fn open() {
    with(|state, name| {
        // The bytes of a scanned head are read again, from the page.
        (state.head, state.scan) = (Vec::new(), None);
        let value = match Page::open(&state.offered, name) {
            Ok(page) => {
                let page: &'static Page = Box::leak(Box::new(page));
                state.page = Some(page);
                page.overview()
            }
            Err(message) => json!({ "error": message }),
        };
        state.output = value.to_string().into_bytes();
    });
}

/// The findings about the model of a file, which need not be open. The input is its name.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn findings() {
    with(|state, name| state.output = Page::findings(&state.offered, name).to_string().into_bytes());
}

/// Lists the key-value pairs whose key contains the input. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn find_kvs() -> u32 {
    with(|state, input| {
        state.kvs = state.page.map(|page| page.find_kvs(input)).unwrap_or_default();
        state.kvs.len() as u32
    })
}

/// Rows of the list of key-value pairs.
#[unsafe(no_mangle)]
pub extern "C" fn kvs(from: u32, n: u32) {
    answer(|page, state, _| page.kvs(part(&state.kvs, from, n)));
}

/// The whole text of a string value.
#[unsafe(no_mangle)]
pub extern "C" fn text(kv: u32) {
    answer(|page, _, _| page.text(kv.into()).into());
}

/// Elements of an array.
#[unsafe(no_mangle)]
pub extern "C" fn elements(kv: u32, from: u32, n: u32) {
    answer(|page, _, _| page.elements(kv.into(), from.into(), n.into()));
}

/// Lists the tensors that contain the input, by file, name, type, elements or bytes. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn find_tensors(order: u32, is_descending: u32) -> u32 {
    let order = match order {
        1 => TensorOrder::Name,
        2 => TensorOrder::Type,
        3 => TensorOrder::Elements,
        4 => TensorOrder::Bytes,
        _ => TensorOrder::File,
    };
    with(|state, input| {
        state.tensors = state.page.map(|page| page.find_tensors(input, order, is_descending != 0)).unwrap_or_default();
        state.tensors.len() as u32
    })
}

/// Rows of the list of tensors.
#[unsafe(no_mangle)]
pub extern "C" fn tensors(from: u32, n: u32) {
    answer(|page, state, _| page.tensors(part(&state.tensors, from, n)));
}

/// What the tokenizer is.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn tokenizer() {
    answer(|page, _, _| page.tokenizer());
}

/// Lists the tokens that contain the input, of a type unless it is negative. Returns their number.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn find_tokens(ty: i32) -> u32 {
    with(|state, input| {
        state.tokens = state.page.map(|page| page.find_tokens(input, (ty >= 0).then_some(ty))).unwrap_or_default();
        state.tokens.len() as u32
    })
}

/// Rows of the list of tokens.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn tokens(from: u32, n: u32) {
    answer(|page, state, _| page.tokens(part(&state.tokens, from, n)));
}

/// The chat templates.
#[unsafe(no_mangle)]
pub extern "C" fn templates() {
    answer(|page, _, _| page.templates());
}

/// The memory that the model needs, with types of keys and values by their numbers.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn estimate(n_ctx: f64, type_k: u32, type_v: u32, flash: u32, n_gpu_layers: f64) {
    answer(|page, _, _| {
        page.estimate(n_ctx as u64, GgmlType(type_k), GgmlType(type_v), flash != 0, n_gpu_layers as u64)
    });
}

/// Offers a file of another model. The input is its name.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn add_other_file(file_bytes: f64) {
    with(|state, name| {
        let index = state.next_file();
        state.offered_other.push((name.to_owned(), Arc::new(PageFile { index, bytes: file_bytes as u64 })));
    });
}

/// Opens another model, and compares the heads. The input is the name of its file.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn compare() {
    answer(|page, state, name| {
        let offered = std::mem::take(&mut state.offered_other);
        let compared = Page::open(&offered, name).and_then(|other| {
            let comparison = Comparison::new(page, &other)?;
            Ok((other, comparison))
        });
        match compared {
            Ok((other, comparison)) => {
                let summary = comparison.summary();
                let other: &'static Page = Box::leak(Box::new(other));
                (state.other, state.comparison) = (Some(other), Some(comparison));
                summary
            }
            Err(message) => json!({ "error": message }),
        }
    });
}

/// Rows of the keys that differ.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn compared_keys(from: u32, n: u32) {
    answer(|_, state, _| state.comparison.as_ref().map_or(Value::Null, |comparison| comparison.keys(from, n)));
}

/// Rows of the tensors of both models.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn compared_tensors(from: u32, n: u32) {
    answer(|page, state, _| match (&state.comparison, state.other) {
        (Some(comparison), Some(other)) => comparison.tensors(page, other, from, n),
        _ => Value::Null,
    });
}

/// What the page needs to know of a tensor to ask for parts of it.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn describe(shard: u32, index: u32) {
    answer(|page, _, _| match page.weights((shard, index)) {
        Ok(weights) => weights.describe(),
        Err(message) => json!({ "error": message }),
    });
}

/// Values of rows and columns, as texts.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn values(shard: u32, index: u32, row: f64, n_rows: u32, column: f64, n_columns: u32) {
    let (row, column) = (row as u64, column as u64);
    answer(|page, _, _| {
        let weights = page.weights((shard, index));
        weights
            .and_then(|mut weights| weights.values(row..row + u64::from(n_rows), column..column + u64::from(n_columns)))
            .unwrap_or_else(|message| json!({ "error": message }))
    });
}

/// Begins work, and answers with an object, which has `error` if it cannot be done.
#[cfg(feature = "model")]
fn begin(of: impl FnOnce(&'static Page, &State) -> Result<Work, String>) {
    answer(|page, state, _| {
        let work = of(page, state);
        let failed = work.as_ref().err().map(|message| json!({ "error": message }));
        state.work = work.unwrap_or_default();
        failed.unwrap_or_else(|| json!({}))
    });
}

/// Continues work, with the same answer.
#[cfg(feature = "model")]
fn go_on(run: impl FnOnce(&mut Work) -> Result<(), String>) {
    answer(|_, state, _| match run(&mut state.work) {
        Ok(()) => json!({}),
        Err(message) => json!({ "error": message }),
    });
}

#[cfg(feature = "model")]
const OTHER_WORK: &str = "the work was replaced by another one";

/// Begins the statistics of a tensor.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn survey(shard: u32, index: u32, n_bins: u32) {
    begin(|page, _| {
        let weights = Box::new(page.weights((shard, index))?);
        Ok(Work::Survey(weights, Survey::new(n_bins.min(1 << 16) as usize)))
    });
}

/// Adds bytes of the tensor to a pass of the statistics.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn survey_add(is_second: u32, from: f64, bytes: f64) {
    go_on(|work| match work {
        Work::Survey(weights, survey) => survey.add(weights, is_second != 0, from as u64, bytes as u64),
        _ => Err(OTHER_WORK.to_owned()),
    });
}

/// Begins a map of a region: of the tensor, or, if `of_error` is not 0, of the error of the tensor with that index among those compared.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn map(of_error: u32, shard: u32, index: u32, column: f64, end: f64, n_lines: u32, n_cells: u32) {
    begin(|page, state| {
        let sides = match (of_error, &state.comparison, state.other) {
            (0, ..) => vec![page.weights((shard, index))?],
            (_, Some(comparison), Some(other)) => comparison.sides(page, other, index)?.into(),
            _ => return Err(OTHER_WORK.to_owned()),
        };
        let row_len = sides.first().map_or(0, Weights::row_len);
        let columns = (column as u64).min(row_len)..(end as u64).min(row_len);
        Ok(Work::Map(sides, Map::new(columns, n_lines.min(1024), n_cells.min(1024))))
    });
}

/// Adds rows to a line of the map.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn map_rows(line: u32, row: f64, n: f64) {
    let (row, n) = (row as u64, n as u64);
    go_on(|work| match work {
        Work::Map(sides, map) => match sides.as_mut_slice() {
            [weights] => map.rows(weights, None, line, row..row.saturating_add(n)),
            [weights, other] => map.rows(weights, Some(other), line, row..row.saturating_add(n)),
            _ => Err(OTHER_WORK.to_owned()),
        },
        _ => Err(OTHER_WORK.to_owned()),
    });
}

/// Begins the comparison of a tensor's data.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn difference(index: u32) {
    begin(|page, state| match (&state.comparison, state.other) {
        (Some(comparison), Some(other)) => {
            Ok(Work::Difference(Box::new(comparison.sides(page, other, index)?), Box::default()))
        }
        _ => Err(OTHER_WORK.to_owned()),
    });
}

/// Compares rows of both models.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn compare_rows(row: f64, n: f64) {
    let (row, n) = (row as u64, n as u64);
    go_on(|work| match work {
        Work::Difference(sides, difference) => difference.rows(sides, row, n),
        _ => Err(OTHER_WORK.to_owned()),
    });
}

/// The types that a tensor can have.
#[cfg(feature = "encode")]
#[unsafe(no_mangle)]
pub extern "C" fn types(shard: u32, index: u32) {
    answer(|page, _, _| match page.weights((shard, index)) {
        Ok(weights) => offers(weights.info),
        Err(message) => json!({ "error": message }),
    });
}

/// Begins to measure what another type would cost a tensor.
#[cfg(feature = "encode")]
#[unsafe(no_mangle)]
pub extern "C" fn cost(shard: u32, index: u32, ty: u32) {
    begin(|page, _| {
        let weights = Box::new(page.weights((shard, index))?);
        Ok(Work::Cost(weights, Box::new(Cost::new(GgmlType(ty))?)))
    });
}

/// Measures rows.
#[cfg(feature = "encode")]
#[unsafe(no_mangle)]
pub extern "C" fn cost_rows(row: f64, n: f64) {
    let (row, n) = (row as u64, n as u64);
    go_on(|work| match work {
        Work::Cost(weights, cost) => cost.rows(weights, row, n),
        _ => Err(OTHER_WORK.to_owned()),
    });
}

/// What the work has found: for a map, numbers of four bytes.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn result() {
    with(|state, _| {
        state.output = match &state.work {
            Work::None => Vec::new(),
            Work::Survey(weights, survey) => survey.stats(weights).to_string().into_bytes(),
            Work::Map(_, map) => map.cells(),
            Work::Difference(_, difference) => difference.result().to_string().into_bytes(),
            #[cfg(feature = "encode")]
            Work::Cost(_, cost) => cost.result().to_string().into_bytes(),
        };
    });
}

/// The changes that edits make. The input is their list, as JSON.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn edits() {
    answer(|page, _, input| page.edits(&serde_json::from_str(input).unwrap_or_default()));
}

/// The bytes of the edited head.
#[cfg(feature = "model")]
#[unsafe(no_mangle)]
pub extern "C" fn edited_head() {
    with(|state, input| {
        let edits = serde_json::from_str(input).unwrap_or_default();
        state.output = state.page.map(|page| page.edited_head(&edits)).unwrap_or_default();
    });
}
