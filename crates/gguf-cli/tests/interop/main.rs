//! Comparisons with real programs and their files; see `gguf_test::harness`.

mod chat;
mod check;
mod conformance;
mod convert;
mod estimate;
mod evaluate;
mod fuzz;
mod image;
mod imatrix;
mod lora;
mod quantize;
mod variants;
mod verify;

gguf_test::main!(
    chat,
    check,
    conformance,
    convert,
    estimate,
    evaluate,
    fuzz,
    image,
    imatrix,
    lora,
    quantize,
    variants,
    verify
);
