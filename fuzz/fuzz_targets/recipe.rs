//! Parsing arbitrary text as a recipe terminates with bounded memory. A parsed recipe round-trips, and its rules match names in bounded
//! time.
#![no_main]

use gguf_quantize::mix::recipe::Recipe;
use libfuzzer_sys::fuzz_target;

const NAMES: &[&[u8]] =
    &[b"blk.3.attn_v.weight", b"output.weight", b"", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let recipe = match Recipe::parse(text) {
        Ok(recipe) => recipe,
        Err(e) => return assert!(!e.to_string().is_empty()),
    };
    assert_eq!(Recipe::parse(&recipe.to_string()).as_ref(), Ok(&recipe));
    for rule in recipe.rules.iter().take(8) {
        NAMES.iter().for_each(|name| _ = rule.pattern.finds(name));
    }
});
