//! Makes the module of the wheel smaller.

#[path = "../gguf-cli/build/link.rs"]
mod link;

fn main() {
    println!("cargo:rerun-if-changed=../gguf-cli/build/link.rs");
    if link::is_asked() {
        for option in link::options(Vec::new()) {
            println!("cargo:rustc-link-arg-cdylib={option}");
        }
    }
}
