//! Splits a model into shards of a number of tensors: `cargo run --example split -- [MODEL [N [OUT]]]`. OUT is the name of the
//! shards without their number.

use ggufkit::{Draft, RunOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());
    let n_tensors: u32 = args.next().map_or(Ok(4), |n| n.parse())?;
    let out =
        args.next().map_or_else(|| std::env::temp_dir().join(format!("split-{}", std::process::id())), Into::into);

    let mut draft = Draft::copy_of(path)?;
    draft.is_split = true;
    for (i, tensor) in (0..).zip(&mut draft.tensors) {
        tensor.file = i / n_tensors.max(1);
    }
    for path in draft.lay_out()?.run(&out, &RunOptions::default(), &())?.paths {
        println!("{}", path.display());
    }
    Ok(())
}
