#!/bin/bash
# The promise itself, by graph-transform --verify: the partitioned training graph computes what the unpartitioned one does, within
# 1e-12 in float64, for every model, for batches that do not divide and batches smaller than the number of replicas.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data

verify() { check "$*" "$graph_transform" "models/$1.onnx" --loss cross-entropy --verify "${@:2}"; }

for model in mlp fashion_cnn; do
    for r in 1 2 3 4 7; do
        for batch in 5 2; do verify $model --batch-size $batch --replicas $r --optimizer adamw; done
    done
    verify $model --batch-size 7 --replicas 4 --devices 'cpu*2' --optimizer sgd --momentum 0.9 --clip-norm 0.5
    verify $model --batch-size 5 --replicas 4 --split chunk --optimizer adam
    verify $model --batch-size 5 --devices 'cpu*2' --split auto
    verify $model --batch-size 9 --replicas 4 --ignore-index 3 --class-weights $data/class_weights_10.npy --label-smoothing 0.1
done
for model in resnet20 transformer unet exported_resnet exported_mobilenet exported_encoder exported_folded; do
    for r in 3 7; do verify $model --batch-size 2 --replicas $r --optimizer adam; done
    verify $model --batch-size 5 --replicas 4 --devices 'cpu*3' --optimizer sgd --momentum 0.9 --ignore-index 1
done
for model in resnet20 transformer unet; do
    for r in 1 2; do verify $model --batch-size 3 --replicas $r --optimizer adamw; done
done
# What is not meant to be what one replica computes is told apart from what is wrong.
for option in '--bn local' '--loss-scaling mean-of-means' '--reduce-dtype bf16' '--bn-eps clamp'; do
    refused 1 "from what one replica computes, as these options intend: $option" "$graph_transform" models/fashion_cnn.onnx --loss cross-entropy --verify \
        --batch-size 10 --devices 'cpu*4' $option
done
finish
