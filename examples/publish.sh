#!/bin/sh
# Publishes a checkpoint: fifteen GGUF files, the encoder of images or sound if there is one, the importance matrix, hashes and a model card.
# After an interruption, the same command continues; files that exist are kept.
#
#   publish.sh CHECKPOINT FOLDER --imatrix FILE [--recipe NAME=FILE] [--repo ORG/NAME] [--base-model ORG/NAME]
set -eu

usage() {
  sed -n 's/^#   /usage: /p' "$0" >&2
  exit 2
}

fail() {
  echo "publish.sh: $*" >&2
  exit 1
}

[ $# -ge 2 ] || usage
checkpoint=$1 folder=$2
shift 2
matrix='' recipe=UD-Q4_K_XL=$(dirname "$0")/dynamic.recipe repo='' base_model=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --imatrix) matrix=$2 ;;
    --recipe) recipe=$2 ;;
    --repo) repo=$2 ;;
    --base-model) base_model=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -f "$matrix" ] || fail 'pass an importance matrix with --imatrix; gguf imatrix compute measures one'
types="Q8_0 Q6_K_L Q6_K Q5_K_L Q5_K_M Q4_K_L Q4_K_M Q4_K_S IQ4_XS Q3_K_XL Q3_K_M IQ3_XXS Q2_K $recipe"

mkdir -p "$folder"

# Whether a file is finished. One with a journal belongs to an interrupted run, which the same command continues.
finished() {
  [ -e "$1" ] && [ ! -e "$1.journal" ]
}

# The model in full precision, if it is finished.
model() {
  for file in "$folder"/*-BF16.gguf "$folder"/*-F16.gguf "$folder"/*-F32.gguf; do
    case $file in
      */mmproj-*) ;;
      *) ! finished "$file" || { echo "$file"; return; } ;;
    esac
  done
}

# The encoder of images or sound, if it is finished.
encoder() {
  for file in "$folder"/mmproj-*.gguf; do
    ! finished "$file" || { echo "$file"; return; }
  done
}

# 1. The model in the precision of the checkpoint.
full=$(model)
[ -n "$full" ] || full=$(gguf convert "$checkpoint" -o "$folder" --resume)
name=${full%-*}
echo "model: $full"

# 2. The encoder of images or sound, or the reason why there is none.
if [ -z "$(encoder)" ]; then
  if reason=$(gguf convert "$checkpoint" --mmproj --dry-run -q 2>&1 >/dev/null); then
    gguf convert "$checkpoint" --mmproj -o "$folder" --resume
  else
    echo "no encoder: ${reason#gguf: error: }"
  fi
fi

# 3. The matrix, which must match the model and cover the smallest type. The files name the copy that is published.
gguf imatrix check "$matrix" "$full" IQ3_XXS -q || fail "$matrix: does not match $full; see gguf imatrix check"
[ -e "$name.imatrix.gguf" ] || gguf imatrix convert "$matrix" -o "$name.imatrix.gguf" --format gguf

# 4. All types and the recipe from one read: those that are missing.
missing=''
for type in $types; do
  finished "$name-${type%%=*}.gguf" || missing="$missing $type"
done
# shellcheck disable=SC2086 # several words
[ -z "$missing" ] || gguf quantize "$full" -o "$folder" $missing --imatrix "$name.imatrix.gguf" --resume

# 5. Every file is checked, and hashed.
gguf check -q "$folder"/*.gguf || fail 'a file has errors; see gguf check'
if command -v sha256sum >/dev/null; then sum=sha256sum; else sum='shasum -a 256'; fi
(cd "$folder" && $sum ./*.gguf >SHA256SUMS)

# 6. The card, which is the README of a repository on the Hub.
set -- "$folder"/*.gguf
[ -z "$repo" ] || set -- "$@" --repo "$repo"
[ -z "$base_model" ] || set -- "$@" --base-model "$base_model"
gguf card -q "$@" >"$folder/README.md"
# The license that it names, if that is a file of the checkpoint.
license=$(sed -n 's/^license_link: //p' "$folder/README.md")
case $license in
  '' | */*) ;;
  *) [ ! -f "$checkpoint/$license" ] || cp "$checkpoint/$license" "$folder/$license" ;;
esac
gguf card "$@" --check "$folder/README.md"
echo "published in $folder: $(find "$folder" -name '*.gguf' | wc -l | tr -d ' ') files of GGUF, SHA256SUMS, README.md"
