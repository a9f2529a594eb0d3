//! The fuzz targets of legacy files: arbitrary bytes after a magic give an error or a plan that can be read to its end.

use std::path::Path;
use std::sync::Arc;

use gguf_legacy::{Answers, Error, Input, Options};

/// The maximum size of a tensor to read.
const MOST: u64 = 1 << 22;

/// Performs all operations except writing on the bytes after the magic.
pub fn exercise(magic: &[u8], data: &[u8]) {
    let bytes: Arc<Vec<u8>> = Arc::new([magic, data].concat());
    if let Some(found) = gguf_legacy::recognise_source(&*bytes).expect("memory can be read") {
        assert!(!found.to_string().contains(char::is_control), "{found}");
    }
    if let Err(e) = migrate(bytes) {
        let said = e.to_string();
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said}");
        assert!(said.len() < 4000, "{said}");
    }
}

fn migrate(bytes: Arc<Vec<u8>>) -> Result<(), Error> {
    let part = |path: &Path| {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(Error::Io { action: "open", path: path.to_owned(), source })
    };
    let input = Input::from_source(Path::new("model.bin"), bytes, None, part)?;
    let mut answers = Answers::default();
    gguf_legacy::questions(&input, &answers)?;
    answers.accept = true;
    let threads = std::num::NonZeroUsize::new(1);
    let migration = gguf_legacy::plan(input, &answers, &Options::default().threads(threads), &())?;
    let draft = migration.plan.into_draft();
    for tensor in &draft.tensors {
        for input in tensor.op.inputs() {
            let n = input.ty.tensor_bytes(tensor.shape.iter().copied()).expect("a planned tensor has a size");
            if n <= MOST {
                draft.source.read(input.index(), 0, &mut vec![0; n as usize]).expect("a planned tensor can be read");
            }
        }
    }
    Ok(())
}
