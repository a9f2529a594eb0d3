//! Importance matrices written by `llama-imatrix` for a real model.
//!
//! Requires the shared test data in `GGUF_SHARED`; otherwise the test is ignored.

use std::fs;

use gguf_quantize::imatrix::ImatrixFile;
use gguf_test::peers;

fn a_matrix_of_a_real_model_in_both_formats() {
    let (new, old) = (peers::data("glossary-imatrix.gguf"), peers::data("glossary-imatrix.dat"));
    for path in [&new, &old] {
        let matrix = ImatrixFile::open(path).unwrap().load().unwrap();
        assert!(matrix.write(Vec::new()).unwrap() == fs::read(path).unwrap());
    }
    // The same content in the old format.
    let (legacy, _) = ImatrixFile::open(&new).unwrap().load().unwrap().into_legacy().unwrap();
    assert!(legacy.write(Vec::new()).unwrap() == fs::read(&old).unwrap());
}

gguf_test::tests! {
    [Shared] a_matrix_of_a_real_model_in_both_formats;
}
