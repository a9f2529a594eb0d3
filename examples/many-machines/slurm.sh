#!/bin/sh
# Makes the parts of a plan as a Slurm array, on a file system that all nodes share, and completes the output.
#
#   gguf quantize model.gguf small.gguf Q4_K_M --plan-only plan.json
#   n=$(gguf commit plan.json --status --json | jq .n_parts)
#   parts=$(sbatch --parsable --array="0-$((n - 1))%64" slurm.sh plan.json)
#   sbatch --dependency="afterany:$parts" slurm.sh plan.json commit
#
# A cluster allows for 1,001 indices by default (MaxArraySize): for more parts, set STRIDE to make several parts in each, as in
# STRIDE=16 sbatch --array="0-$(((n + 15) / 16 - 1))" slurm.sh plan.json
#
# gguf ends with 0 if a part is done, with 75 if trying again may help, and with 2 if it will not. A job that a node's failure has ended is requeued by
# Slurm; a part that is done is not made again.
#SBATCH --job-name=gguf
#SBATCH --cpus-per-task=8
#SBATCH --mem=1G
#SBATCH --requeue
plan=${1:?expected a plan}
tries=${TRIES:-6}
threads=${SLURM_CPUS_PER_TASK:-1}
stride=${STRIDE:-1}

# Runs gguf until it ends with another code than 75, but not more often than TRIES.
repeat() {
  left=$tries
  while true; do
    gguf "$@"
    code=$?
    left=$((left - 1))
    [ "$code" -eq 75 ] && [ "$left" -gt 0 ] || return "$code"
    sleep "${PAUSE:-30}"
  done
}

if [ "${2:-}" = commit ]; then
  set -- commit "$plan"
else
  index=${SLURM_ARRAY_TASK_ID:?start it with --array}
  first=$((index * stride))
  status=$(repeat commit "$plan" --status --json) || exit
  n=$(echo "$status" | sed -n 's/.*"n_parts": *\([0-9]*\).*/\1/p')
  end=$((first + stride))
  [ "$end" -le "$n" ] || end=$n
  set -- part "$plan" --index "$first..$end" --threads "$threads" --quiet
fi
repeat "$@"
