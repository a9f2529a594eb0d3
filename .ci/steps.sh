# shellcheck shell=bash
# What `.ci/run` and `.ci/nightly` share, and the steps of the second tier. Sourced by both, in the root of the repository.
#
# To add a step to the second tier, write a function and add its name to a list. The function installs what it needs (`need`, `need_nightly`) and writes to
# folders in $target only. `.ci/run` runs one of `shared_steps` for each commit, chosen by its hash, so each takes at most ten minutes on two cores;
# fuzzing takes longer if $LONG is set, as by `.ci/nightly`.

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)

# One profile for everything but the program and the C library: that of development, with checks of overflow. Some crates are optimized in it.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0

shared_steps=(minimum_rust installed_program archive decoders_alone codecs_with_sanitizer c_library_with_sanitizer c_library_in_llama_cpp
  i686 s390x aarch64 wasm32 programs_on_webassembly windows_and_macos fuzzing object_stores
  python_wheel page_in_firefox supply_chain book)
long_steps=(windows memory many_machines differences packages_of_formats conformance round_trips hostile_files python_module)

# step NAME COMMAND...: runs a command and prints its time, and the processor time of its children.
step() {
  local name=$1 TIMEFORMAT="== $1: %0R s, %0U s user, %0S s system"
  shift
  printf '\n== %s\n' "$name"
  time "$@"
}

# need PACKAGE...: installs Debian packages.
need() {
  local package missing=() root=
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || root=sudo
  # Steps that run beside each other do not install at once.
  (
    flock 9
    $root apt-get update -q 9>&-
    DEBIAN_FRONTEND=noninteractive $root apt-get install -q -y --no-install-recommends "${missing[@]}" 9>&-
  ) 9>"$target/packages.lock"
}

need_nightly() {
  rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal --no-self-update
}

# The peers, built once from the shared data, unless GGUF_PEERS names them. Without the data the interop tests are listed as ignored, and fail with
# CI=true.
find_peers() {
  local shared=${GGUF_SHARED:-../shared} exports
  if [ -d "$shared" ]; then
    GGUF_SHARED=$(cd "$shared" && pwd)
    export GGUF_SHARED
    [ -z "${GGUF_PEERS:-}" ] || return 0
    exports=$("$GGUF_SHARED/tools/setup-peers.sh" "$target/peers" | tail -n 1)
    eval "$exports"
  elif [ -n "${CI:-}" ]; then
    echo "no shared test data in $shared" >&2
    return 1
  else
    unset GGUF_SHARED GGUF_PEERS
    echo "interop tests are ignored: no shared test data in $shared"
  fi
}

# The packages compile from their own files, with the minimum Rust version.
minimum_rust() { .ci/package; }

# The tools of both compile for a minute.
supply_chain() { .ci/supply; }
book() { .ci/book; }

# The program as `cargo install` builds it: the only build with its profile.
installed_program() {
  cargo install --quiet --locked --path crates/gguf-cli --root "$target/installed" --target-dir "$target" --force
  local bytes program=$target/installed/bin/gguf
  bytes=$(wc -c <"$program")
  echo "the program: $bytes bytes"
  "$program" show crates/ggufkit/examples/tiny.gguf >/dev/null
  "$program" convert --type Q8_0 examples/glossary -o "$target/installed/glossary.gguf" --force >/dev/null
  "$program" check "$target/installed/glossary.gguf"
  # Local work and URLs take 9.5 MB; minijinja, which checks and renders chat templates, some 0.4 MB; `export`, `verify` and `lora merge` 0.4 MB; the
  # evaluation of models through an installed libllama 0.32 MB, the feature `engine`; plans, parts and commits for many machines 0.28 MB, most of it the JSON of
  # operations; sensitivities of tensors and more configurations of exports 0.2 MB.
  [ "$bytes" -lt 10850000 ] || { echo 'it has 10.85 MB or more'; return 1; }
}

# The archive of a release: its program runs, and a C program finds the library through pkg-config.
archive() {
  need pkg-config
  local dir=$target/unpacked name
  rm -rf "$target/installed/dist"
  CARGO_TARGET_DIR=$target/installed cargo xtask dist
  (cd "$target/installed/dist" && sha256sum --check SHA256SUMS)
  rm -rf "$dir" && mkdir "$dir"
  tar -xzf "$target/installed/dist"/*.tar.gz -C "$dir"
  name=$(ls "$dir")
  dir=$dir/$name
  "$dir/bin/gguf" --version
  # shellcheck disable=SC2046
  cc crates/gguf-capi/examples/show.c $(PKG_CONFIG_PATH=$dir/lib/pkgconfig pkg-config --cflags --libs libgguf) -o "$dir/show"
  LD_LIBRARY_PATH=$dir/lib "$dir/show" crates/ggufkit/examples/tiny.gguf >/dev/null
}

# The codecs without the features of the encoders.
decoders_alone() { cargo test --quiet -p gguf-quants --no-default-features --lib --tests; }

# The codecs under AddressSanitizer, because their vectors are loaded and stored through pointers.
codecs_with_sanitizer() {
  need_nightly
  RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_DEV_OPT_LEVEL=1 \
    cargo +nightly test --quiet --target x86_64-unknown-linux-gnu --target-dir "$target/asan" -p gguf-quants --features arrays --lib --tests
}

# The same calls on our C library, instrumented by AddressSanitizer, and on ggml. Allocations that are too large return null, as without sanitizers.
c_library_with_sanitizer() {
  need_nightly
  ASAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_DEV_OPT_LEVEL=1 \
    cargo +nightly test --quiet --target x86_64-unknown-linux-gnu --target-dir "$target/asan" -p gguf-capi --test it --test interop
}

# llama.cpp's own test of gguf.h, with our library, and hostile files on the ggml of these sources.
c_library_in_llama_cpp() { .ci/capi ggml; }

# The formats and codecs on other machines.
i686() { .ci/cross i686-unknown-linux-gnu; }
s390x() { .ci/cross s390x-unknown-linux-gnu; }
aarch64() { .ci/cross aarch64-unknown-linux-gnu; }
wasm32() { .ci/cross wasm32-wasip1; }

# Programs without files: from memory into memory, from a folder in memory, and from an object store, asynchronously and without threads.
programs_on_webassembly() {
  command -v node >/dev/null || need nodejs
  rustup target add --toolchain stable wasm32-wasip1
  local run=(cargo +stable --config profile.dev.package.gguf-quants.opt-level=1 run --quiet --target wasm32-wasip1 --target-dir "$target/cross")
  local -x CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=-Ctarget-feature=+simd128
  local -x CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings --experimental-wasi-unstable-preview1 $PWD/.ci/wasi.mjs"
  "${run[@]}" -p example-object-store
  "${run[@]}" -p ggufkit --example sink
  "${run[@]}" -p ggufkit --example folder
  .ci/small
}

# They compile; the tests run on Linux, and those of files also in `windows`.
windows_and_macos() { .ci/targets x86_64-pc-windows-gnu aarch64-apple-darwin; }

# The tests of the crates that work with files, on Windows as far as Wine has it: no exchange of names, no file systems with shared data, no
# files that another program maps.
windows() {
  # The preloader reserves the addresses that Windows fixes. Without it, Linux may place the heap at one of them, and one in some thousands of starts of
  # programs fails, with error 1359 (internal error) if a test starts it.
  need wine wine64 wine64-preloader gcc-mingw-w64-x86-64
  rustup target add --toolchain stable x86_64-pc-windows-gnu
  env -u CI -u GGUF_PEERS -u GGUF_SHARED CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$PWD/.ci/wine" \
    cargo +stable test --no-fail-fast -p gguf-format -p gguf-io -p gguf-edit -p gguf-cli --lib --bins --tests --target x86_64-pc-windows-gnu
}

# The memory and time of every command for every kind of file, with a program whose own code is not much larger than the released one's.
memory() {
  CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test --target-dir "$target/optimized" -p gguf-cli --test memory -- --ignored every_file --nocapture
}

# Each fuzz target, for ten minutes or some seconds.
fuzzing() {
  need_nightly
  .ci/fuzz "${LONG:+600}"
}

# Puts PyTorch, which is gigabytes, into the Python of the peers.
need_torch() {
  [ -n "${GGUF_SHARED:-}" ] || { echo "no shared test data"; return 1; }
  "$GGUF_PEERS/venv/bin/python" -c 'import torch' 2>/dev/null || "$GGUF_SHARED/tools/setup-peers.sh" --convert "$GGUF_PEERS"
}

# Every change of a file, loaded by llama.cpp; each checkpoint without its tensors, and changed checkpoints, each day other ones, converted by llama.cpp. The
# last are random and may show what is not known yet, so they come after the others.
differences() {
  need_torch
  cargo test --workspace --test interop -- --ignored every_change_has_the_verdict_of_llama_cpp
  GGUF_FUZZ_SEED=--vocab-only GGUF_FUZZ_COUNT=$(find "$GGUF_SHARED/data/hf-cases" -name '[a-z0-9]*.json' | wc -l) \
    cargo test -p gguf-cli --test interop -- variants_have_the_results_of_the_reference
  GGUF_FUZZ_SEED=$(date +%Y%m%d) GGUF_FUZZ_COUNT=2000 cargo test -p gguf-cli --test interop -- variants_have_the_results_of_the_reference
}

# Packed weights have the values that the packages have which define their formats; and the other tests that need PyTorch.
packages_of_formats() {
  need_torch
  command -v npm >/dev/null || need nodejs npm
  if [ ! -d "$target/packages-of-formats/llama-3.2.0" ]; then
    rm -rf "$target/packages-of-formats"
    rm -rf "$target/packages-of-formats.new"
    .ci/packages "$target/packages-of-formats.new"
    mv "$target/packages-of-formats.new" "$target/packages-of-formats"
  fi
  GGUF_PACKAGES=$target/packages-of-formats cargo test --workspace --test interop
}

# The module and the drop-in. `.ci/run` takes a share of what takes the original package long.
python_module() { .ci/python; }

# The wheel that users install, with the program, in an environment with NumPy only.
python_wheel() { .ci/python wheel; }

# The page of the web viewer. `.ci/run` tests it in Chromium.
page_in_firefox() { .ci/web page firefox; }

# The feature of object stores, with servers of other programs.
object_stores() {
  need nginx-light
  command -v npm >/dev/null || need nodejs npm
  .ci/servers start "$target/stores"
  local -x GGUF_STORES=$target/stores
  local failed=0 log=$target/stores/tests.log
  {
    cargo clippy -p gguf-remote -p gguf-cli --features cloud --all-targets -- -D warnings &&
      RUSTDOCFLAGS="-D warnings" cargo doc --no-deps -p gguf-remote --features cloud &&
      cargo test -p gguf-remote --features cloud &&
      cargo test -p gguf-cli --features cloud --test stores &&
      .ci/python stores
  } 2>&1 | tee "$log" || failed=$?
  .ci/servers stop "$target/stores"
  # The tokens, keys and signatures of the tests.
  if grep -nE 'hf_secret|secret-(name|key|token|signature)|signature=secret|Eby8vdM02xNOcqFlqUwJ' "$log"; then
    echo 'a secret is in the output of the tests'
    failed=1
  fi
  return $failed
}

# The scripts in examples/many-machines with Slurm and Ray, and the schema of Kubernetes.
many_machines() {
  need slurm-wlm
  local dir=$target/many-machines
  mkdir -p "$dir"
  [ -x "$dir/python/bin/ray" ] || {
    python3 -m venv "$dir/python"
    "$dir/python/bin/pip" install --quiet ray==2.60.0 kubernetes-validate==1.37.0
  }
  "$dir/python/bin/kubernetes-validate" -k 1.33 --strict examples/many-machines/kubernetes.yaml
  cargo build --quiet -p gguf-cli
  python3 .ci/machines model "$target/debug/gguf" "$dir"
  python3 .ci/machines slurm "$target/debug/gguf" "$dir"
  "$dir/python/bin/python" .ci/machines ray "$target/debug/gguf" "$dir"
}

# Readers and writers on the conformance suite. ggufkit must pass; the others must do what the manifest says that they do.
conformance() {
  command -v npm >/dev/null || need nodejs npm
  local suite=conformance/adapters built=$target/debug/conformance name
  local run=(python3 conformance/run.py --files "$target/conformance" --time 5)
  cargo xtask conformance
  for name in ggufkit candle ggus; do
    cargo build --quiet --target-dir "$target" --manifest-path $suite/$name/Cargo.toml
  done
  (cd $suite && npm install --silent --no-audit --no-fund --no-package-lock)

  "${run[@]}" "$built-ggufkit"
  "${run[@]}" --write "$built-ggufkit-write"
  "${run[@]}" --copy "$built-ggufkit-write"
  # Failures are listed by file, which is of interest only if they are others than before.
  local changed=()
  observed() { "${run[@]}" --observed "$@" | tail -n 20 | grep manifest || changed+=("$1"); }
  observed candle "$built-candle"
  observed ggus "$built-ggus"
  observed @huggingface/gguf node $suite/huggingface.mjs
  observed @huggingface/gguf --copy node $suite/huggingface_copy.mjs
  observed hyllama node $suite/hyllama.mjs
  if [ -n "${GGUF_PEERS:-}" ]; then
    local python=$GGUF_PEERS/venv/bin/python
    "$python" -m pip install --quiet --upgrade --no-deps --target "$target/readers" gguf-parser==0.1.1
    local -x LLAMA_CPP_LIB_PATH=$GGUF_PEERS/lib LD_LIBRARY_PATH=$GGUF_PEERS/lib
    observed llama.cpp --fork "$python" $suite/llama_cpp.py
    # It walks lengths that the file does not have: some 55 files take it whatever time it is given, and limits may be met or not.
    observed gguf-py --time 1 --fork "$python" $suite/gguf_py.py
    PYTHONPATH=$target/readers observed gguf-parser --fork "$python" $suite/pypi_gguf_parser.py
    for name in llama.cpp gguf-py; do
      observed $name --write --fork "$python" $suite/${name/[.-]/_}_write.py
      observed $name --copy --fork "$python" $suite/${name/[.-]/_}_write.py
    done
  fi
  [ ${#changed[@]} = 0 ] || { printf 'outcomes differ from the manifest: %s\n' "${changed[*]}"; return 1; }
}

# Every generated checkpoint, exported and converted again, and verified against its conversion.
round_trips() {
  local -x CARGO_PROFILE_DEV_OPT_LEVEL=1
  cargo test --target-dir "$target/optimized" -p gguf-hf --test interop -- --ignored generated_checkpoints_come_back &&
    cargo test --target-dir "$target/optimized" -p gguf-cli --test interop -- --ignored verify::
}

# Every hostile file in each place of each command that evaluates models. `.ci/run` gives most of them to two commands.
hostile_files() {
  local -x CARGO_PROFILE_DEV_OPT_LEVEL=1
  cargo test --target-dir "$target/optimized" -p gguf-cli --test interop -- --ignored every_hostile_file --nocapture
}
