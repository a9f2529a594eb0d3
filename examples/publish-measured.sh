#!/bin/sh
# Publishes a checkpoint with publish.sh, and measures what that needs: the importance matrix on one text, and on another how far each file diverges
# from the original, which becomes a column of the model card. At the end, each file generates a few words. Needs libllama, as gguf engine
# finds it, and no other program. After an interruption, the same command continues; files that exist are kept.
#
#   publish-measured.sh CHECKPOINT FOLDER CALIBRATION VALIDATION [--chunks N] [--repo ORG/NAME] [--base-model ORG/NAME]
set -eu

usage() {
  sed -n 's/^#   /usage: /p' "$0" >&2
  exit 2
}

[ $# -ge 4 ] || usage
checkpoint=$1 folder=$2 calibration=$3 validation=$4
shift 4
chunks=100 repo='' base_model=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --chunks) chunks=$2 ;;
    --repo) repo=$2 ;;
    --base-model) base_model=$2 ;;
    *) usage ;;
  esac
  shift 2
done
gguf engine >&2
measured=$folder.measured
mkdir -p "$folder" "$measured"

# 1. The model in the precision of the checkpoint, and the matrix.
find_model() { find "$folder" -name '*-BF16.gguf' -o -name '*-F16.gguf' -o -name '*-F32.gguf' | grep -v /mmproj- | head -n 1; }
full=$(find_model)
[ -n "$full" ] || full=$(gguf convert "$checkpoint" -o "$folder" --resume)
matrix=$measured/imatrix.gguf
[ -e "$matrix" ] || gguf imatrix compute "$full" "$calibration" -o "$matrix" --chunks "$chunks" --resume

# 2. All types, and what belongs to them.
set -- --imatrix "$matrix"
[ -z "$repo" ] || set -- "$@" --repo "$repo"
[ -z "$base_model" ] || set -- "$@" --base-model "$base_model"
sh "$(dirname "$0")/publish.sh" "$checkpoint" "$folder" "$@"

# 3. The divergence of each file from the original: two models are in memory at a time.
set --
for model in "$folder"/*.gguf; do
  case $model in
    "$full" | */mmproj-* | *.imatrix.gguf) continue ;;
  esac
  answer=$measured/$(basename "$model" .gguf).json
  [ -e "$answer" ] || { gguf kld "$full" "$model" "$validation" --chunks "$chunks" --json >"$answer.new" && mv "$answer.new" "$answer"; }
  set -- "$@" --kld "$answer"
done

# 4. The card, with a column for it.
[ -z "$repo" ] || set -- "$@" --repo "$repo"
[ -z "$base_model" ] || set -- "$@" --base-model "$base_model"
gguf card -q "$folder"/*.gguf "$@" >"$folder/README.md"
gguf card "$folder"/*.gguf "$@" --check "$folder/README.md"

# 5. A smoke test.
for model in "$folder"/*.gguf; do
  case $model in
    */mmproj-* | *.imatrix.gguf) continue ;;
  esac
  echo "$(basename "$model"): $(gguf run "$model" 'a small animal' --tokens 12)"
done
