//! Parts of the cases of tests, and checkpoints of the reference data, made from their recipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use crate::peers;

/// Every `n`th case of a test that takes long: other cases for each value of the variable `GGUF_SHARE`. All of them without it.
pub fn share<T>(n: usize, cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let chosen = std::env::var("GGUF_SHARE").ok().map(|share| share.parse::<usize>().expect("GGUF_SHARE is a number"));
    let cases = cases.into_iter().enumerate();
    cases.filter(|(i, _)| chosen.is_none_or(|chosen| i % n == chosen % n)).map(|(_, case)| case).collect()
}

/// Makes a checkpoint of `hf-cases` in a folder, in a folder of its name.
pub fn generate(name: &str, into: &Path) {
    generate_from(&peers::data("hf-cases"), name, into);
}

/// As [`generate`], of another folder of recipes.
pub fn generate_from(recipes: &Path, name: &str, into: &Path) {
    // Importing NumPy takes longer than making a checkpoint, so a process makes many.
    static IDLE: Mutex<Vec<Generator>> = Mutex::new(Vec::new());
    let idle = IDLE.lock().unwrap().pop();
    let mut generator = idle.unwrap_or_else(Generator::start);
    generator.make(recipes, name, into);
    IDLE.lock().unwrap().push(generator);
}

/// The tool that makes checkpoints, in a process that ends with the test program.
struct Generator {
    process: Child,
    requests: ChildStdin,
    made: BufReader<ChildStdout>,
}

const MAKE: &str = r#"
import runpy, sys
make = runpy.run_path(sys.argv[1])["make"]
for line in sys.stdin:
    print(make(*line.rstrip("\n").split("\t")), flush=True)
"#;

impl Generator {
    fn start() -> Generator {
        let mut command = Command::new(peers::peers().join("venv/bin/python"));
        command.args(["-c", MAKE]).arg(peers::data("../tools/make-checkpoint.py"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the peers' Python runs");
        let (requests, made) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Generator { process, requests, made }
    }

    fn make(&mut self, recipes: &Path, name: &str, into: &Path) {
        writeln!(self.requests, "{}\t{name}\t{}", recipes.display(), into.display()).unwrap();
        let mut made = String::new();
        self.made.read_line(&mut made).unwrap();
        // A failed process has written why to the standard error.
        assert!(Path::new(made.trim_end()) == into.join(name), "{name}: {made:?}, {:?}", self.process.try_wait());
    }
}
