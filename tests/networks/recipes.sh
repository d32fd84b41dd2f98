#!/bin/bash
# Does what docs/guide/export.md tells and checks each of its claims, with the newest packages of PyPI that were tried (versions below).
# Each kind gets a virtual environment of its own in $NETWORKS_WORK [/tmp/networks] when it is first run; about 10 GB in all, with that of torch.
#   tests/networks/recipes.sh [BUILD_DIR [torch|keras|keras-jax|sklearn|paddle ...]]
# Ends with "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
work=${NETWORKS_WORK:-/tmp/networks}
shift
mkdir -p "$work"
declare -A packages=(
    [keras]='tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0 onnx==1.23.2 numpy==2.4.6'
    [keras-jax]='jax==0.10.2 keras==3.15.1 jax2onnx==0.17.1 onnx==1.23.2 numpy==2.4.6'
    [sklearn]='scikit-learn==1.9.1 skl2onnx==1.20.0 onnx==1.23.2 numpy==2.4.6'
    [paddle]='paddlepaddle==3.3.1 paddle2onnx==2.1.0 onnx==1.17.0 numpy==2.4.6 packaging'
)
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=
passed=0
failed=0

# environment NAME: makes it when it is missing and prints its python; of torch it is that of run.sh.
environment() {
    if [ -n "${NETWORKS_PYTHON:-}" ] && [ "$1" = torch ]; then
        echo "$NETWORKS_PYTHON"
        return
    fi
    local folder=$work/recipe-$1
    [ "$1" = torch ] && folder=$work/venv
    if [ ! -e "$folder/complete" ]; then
        python3 -m venv "$folder" || return
        if [ "$1" = torch ]; then
            "$folder/bin/pip" install --quiet --requirement "$here/requirements.txt" || return
        else
            # shellcheck disable=SC2086     # several words
            "$folder/bin/pip" install --quiet ${packages[$1]} || return
        fi >&2
        touch "$folder/complete"
    fi
    echo "$folder/bin/python"
}

[ $# != 0 ] || set -- torch keras keras-jax sklearn paddle
for name in "$@"; do
    if ! python=$(environment "$name"); then
        echo "FAILED  $name: its packages cannot be installed"
        failed=$((failed + 1))
        continue
    fi
    recipe=${name%-jax}
    [ "$name" = keras-jax ] && export KERAS_BACKEND=jax || export KERAS_BACKEND=tensorflow
    said=$("$python" "$here/recipes.py" "$recipe" "$build" "$work/recipes/$name" 2>"$work/recipe-$name.log")
    status=$?
    grep -E '^(ok|FAILED) ' <<<"$said"
    passed=$((passed + $(grep -c '^ok ' <<<"$said")))
    failed=$((failed + $(grep -c '^FAILED ' <<<"$said")))
    if [ $status != 0 ] && ! grep -q '^FAILED ' <<<"$said"; then
        echo "FAILED  $name: $(tail -1 "$work/recipe-$name.log")"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
