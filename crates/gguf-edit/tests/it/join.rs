//! Pieces of bytes, found by their names and joined.

use std::fs;
use std::path::PathBuf;

use crate::common::{Layout, bytes};
use gguf_edit::{Error, PiecesProblem, join};
use gguf_test::files::{folder, names};

#[test]
fn pieces_become_the_file() {
    let whole = bytes(&Layout { gaps: 1, ..Layout::default() });
    let third = whole.len() / 3 + 5;
    let cases: &[[&str; 3]] = &[
        ["m.gguf.part1of3", "m.gguf.part2of3", "m.gguf.part3of3"],
        ["m.gguf-part-1-of-3", "m.gguf-part-2-of-3", "m.gguf-part-3-of-3"],
        ["m.gguf-split-a", "m.gguf-split-b", "m.gguf-split-c"],
        ["m.gguf.partaa", "m.gguf.partab", "m.gguf.partac"],
        ["m.gguf.part00", "m.gguf.part01", "m.gguf.part02"],
        ["m.gguf.part1", "m.gguf.part2", "m.gguf.part3"],
        ["m.gguf.001", "m.gguf.002", "m.gguf.003"],
        ["m.gguf.aa", "m.gguf.ab", "m.gguf.ac"],
    ];
    for case in cases {
        let dir = folder();
        let paths: Vec<PathBuf> = case.iter().map(|name| dir.path().join(name)).collect();
        for (path, piece) in paths.iter().zip(whole.chunks(third)) {
            fs::write(path, piece).unwrap();
        }
        let out = dir.path().join("out.gguf");
        let any: Vec<Vec<PathBuf>> = paths.iter().map(|path| vec![path.clone()]).collect();
        let mixed = vec![paths[2].clone(), paths[0].clone(), paths[1].clone()];
        for given in any.into_iter().chain([mixed]) {
            let join = join(&given).unwrap_or_else(|e| panic!("{given:?}: {e}"));
            assert_eq!(join.pieces, paths);
            join.run(&out, true, None, &()).unwrap();
            assert!(fs::read(&out).unwrap() == whole, "{case:?}");
            join.verify(&out, None, &()).unwrap();
            let mut bad = whole.clone();
            bad[third + 3] ^= 1;
            fs::write(&out, &bad).unwrap();
            assert!(matches!(join.verify(&out, None, &()), Err(Error::NotVerified { .. })));
        }
        // A piece is never replaced.
        let join = join(&paths[..1]).unwrap();
        assert!(join.run(&paths[1], true, None, &()).is_err());
        assert_eq!(fs::read(&paths[1]).unwrap(), &whole[third..2 * third]);
        drop(join);
        fs::remove_file(&out).unwrap();
        fs::remove_file(&paths[2]).unwrap();
        match gguf_edit::join(&paths[..1]) {
            Err(Error::Pieces { problem: PiecesProblem::Missing(path), .. }) => assert_eq!(path, paths[2]),
            Err(Error::Pieces { problem: PiecesProblem::Short { found, needed }, .. }) => {
                // Up to the end of the last tensor, whose padding may be missing.
                assert_eq!((found, needed.next_multiple_of(32)), (2 * third as u64, whole.len() as u64));
            }
            other => panic!("{case:?}: {other:?}"),
        }
        assert_eq!(names(dir.path()).len(), 2);
    }
}

#[test]
fn pieces_with_other_names_come_in_the_order_given() {
    let whole = bytes(&Layout::default());
    let dir = folder();
    let paths = ["b", "a"].map(|name| dir.path().join(name));
    fs::write(&paths[0], &whole[..1500]).unwrap();
    fs::write(&paths[1], &whole[1500..]).unwrap();
    let out = dir.path().join("out.gguf");
    join(&paths).unwrap().run(&out, false, None, &()).unwrap();
    assert!(fs::read(&out).unwrap() == whole);
    // One of them is a complete model.
    assert!(matches!(join(&[paths[0].clone(), out]), Err(Error::Pieces { problem: PiecesProblem::NotFirst, .. })));
    assert!(matches!(join(&paths[..1]), Err(Error::Pieces { problem: PiecesProblem::Name, .. })));
}
