//! A disk that is full: an error that leaves nothing behind, and what stood there before. Needs the right to mount a small file
//! system, as root or as a user with a namespace of users; without it the test is ignored.

use gguf_test::disk;
use gguf_test::files::{folder, glossary};
use gguf_test::program::path;

/// Runs a conversion on the small disk, and shows what is left there.
const CONVERT: &str = r#"
    set -u; gguf=$1; model=$2; cd "$0"
    convert() { "$gguf" convert "$model" -o out.gguf "$@"; echo "code $?, left: $(ls -A)"; }
    convert
    convert --resume
    echo old >out.gguf
    convert --force
    cat out.gguf
"#;

fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let output = disk::script(dir.path(), CONVERT).arg(path()).arg(glossary()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "code 2, left: \ncode 2, left: \ncode 2, left: out.gguf\nold\n", "{err}");
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("gguf: error: ")).collect();
    assert_eq!(errors.len(), 3, "{err}");
    for line in errors {
        assert!(line.contains("out.gguf: cannot make room for the whole file: "), "{err}");
        assert!(line.contains("No space left on device"), "{err}");
    }
}

gguf_test::tests! {
    [SmallDisk] a_full_disk_is_an_error_and_leaves_nothing;
}
