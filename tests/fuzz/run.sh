#!/bin/sh
# run.sh FUZZER CORPUS SECONDS: a bounded run. New inputs go to a scratch directory; an input that
# fails is left in the working directory and its path printed.
set -eu
mkdir -p "$2"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" -max_total_time="$3" -max_len=4096 -timeout=10 -print_final_stats=1 "$scratch" "$2"
